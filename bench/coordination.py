"""What coordination costs: a work cycle against the plain way and against bare SQL, and the report on a large store.

**A work cycle** is what an agent does around a piece of work: register, 5 logs, 2 heartbeats, claim a path, release it,
complete; 11 calls, each of which survives the process once it has returned. All sides do the same cycles, each on a
file of its own on the same disk:

- *Engram*: the library, as a caller uses it, with its checks, its locks and the records it returns.
- *plain*: Python's `sqlite3`, a new connection with its PRAGMAs for each call, closed after it. That is how the systems
  that Engram replaces work, and the first thing one would write. Closing the last connection of a file makes SQLite
  copy the log back into it, which is part of this way's price; *plain, kept open* spares it that, by another connection
  that does nothing but stay open, and is shown so that nobody has to wonder how much of the price it is.
- *bare*: prepared `apsw` statements on one connection that is kept, a transaction per call, nothing asked and nothing
  checked: about the least that Python can write these rows with. What Engram takes beyond it is its own.

Fair because all have the same schema (Engram's migrations), the same PRAGMAs and the same rows to write, with the
change feed and every index; at the end the files are compared, table by table. Each side makes its ids and times
itself. The project is a real folder with a git remote, because finding it is part of what Engram does in a claim.

**The situation report** is asked of two stores that differ only in the number of logs (with their entries in the change
feed), by turns, as one long-lived process does. With `--postgres URL` on that server too, in schemas of its own.
"""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, TypeAlias

import apsw

from engram import Engram
from engram.config import load
from engram.storage import migrate

if TYPE_CHECKING:
    from bench import _measure as measure
else:
    import _measure as measure

Statement: TypeAlias = tuple[str, tuple[str | int | None, ...]]
Contents: TypeAlias = dict[str, list[tuple[tuple[object, ...], int]]]

WORKSPACE = "default"
TYPE, BEGUN, DONE = "claude-code", "Porting the router", "Router ported; tests pass"
ENTRIES = [f"step {number}: moved the handlers of one module and ran its tests" for number in range(1, 6)]
PATH, NOTE = "src/router.py", "rewriting"
#: What Engram makes of the folder and the path.
PROJECT, RESOURCE = "acme/router", "acme/router:src/router.py"

PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=30000", "foreign_keys=ON", "secure_delete=ON")

_SESSION = """
INSERT INTO sessions (workspace, id, type, summary, status, project, metadata, last_seq, created_at, heartbeat_at)
VALUES (?, ?, ?, ?, 'active', ?, '{}', 0, ?, ?)
"""
_SEQ = "UPDATE sessions SET last_seq = ?, heartbeat_at = ? WHERE workspace = ? AND id = ?"
_EXCHANGE = """
INSERT INTO exchanges (workspace, session_id, seq, role, content, created_at) VALUES (?, ?, ?, 'log', ?, ?)
"""
_BEAT = "UPDATE sessions SET heartbeat_at = ? WHERE workspace = ? AND id = ?"
_LEASE = """
INSERT INTO leases (workspace, session_id, resource, note, exclusive, claimed_at) VALUES (?, ?, ?, ?, 0, ?)
"""
_RELEASE = "UPDATE leases SET ended_at = ?, ended_because = 'released' WHERE token = ?"
_COMPLETE = """
UPDATE sessions SET status = 'completed', heartbeat_at = ?, ended_at = ?, summary = ? WHERE workspace = ? AND id = ?
"""
_BACKLOG = "INSERT INTO backlog (workspace, kind, ref, taken_until) VALUES (?, 'exchange', ?, '0000')"
_CHANGE = "INSERT INTO changes (workspace, what, id) VALUES (?, ?, ?)"

#: What must be the same in every side's file: all but random ids and times.
COMPARED = {
    "sessions": "workspace, type, name, summary, status, project, external_id, parent_id, metadata, last_seq",
    "exchanges": "workspace, seq, role, content",
    "backlog": "workspace, kind, ref, taken_until",
    "leases": "workspace, resource, note, exclusive, ttl, expires_at, fenced_at, ended_because",
    # Sessions' ids are random; the other numbers must agree, so that every entry of the feed names its row.
    "changes": "workspace, what, CASE what WHEN 'session' THEN '' ELSE id END",
}

CALLS = ("register", "log", "heartbeat", "claim", "release", "complete")


class Side(ABC):
    """One way to do the calls of a work cycle."""

    def __init__(self, path: str) -> None:
        self.path = path
        #: Seconds of processor time in all cycles.
        self.cpu = 0.0
        self._times: dict[str, list[float]] = {call: [] for call in CALLS}

    @abstractmethod
    def register(self) -> str: ...

    @abstractmethod
    def log(self, session: str, seq: int, entry: str) -> None: ...

    @abstractmethod
    def heartbeat(self, session: str) -> None: ...

    @abstractmethod
    def claim(self, session: str) -> None: ...

    @abstractmethod
    def release(self, session: str) -> None: ...

    @abstractmethod
    def complete(self, session: str) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def cycles(self, count: int) -> float:
        """Do that many work cycles; seconds for each."""
        begun, cpu = perf_counter(), process_time()
        for _ in range(count):
            self._cycle()
        self.cpu += process_time() - cpu
        return (perf_counter() - begun) / count

    def _cycle(self) -> None:
        before = perf_counter()
        session = self.register()
        before = self._count("register", before)
        for seq, entry in enumerate(ENTRIES, 1):
            self.log(session, seq, entry)
            before = self._count("log", before)
        for _ in range(2):
            self.heartbeat(session)
            before = self._count("heartbeat", before)
        self.claim(session)
        before = self._count("claim", before)
        self.release(session)
        before = self._count("release", before)
        self.complete(session)
        self._count("complete", before)

    def _count(self, call: str, before: float) -> float:
        now = perf_counter()
        self._times[call].append(now - before)
        return now

    def per_call(self) -> list[float]:
        """Microseconds for each kind of call: the median, so without the few that also had to copy the log back."""
        return [median(self._times[call]) * 1e6 for call in CALLS]


class Library(Side):
    """Engram."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._eng = Engram(settings=load(url=path))

    def register(self) -> str:
        return self._eng.sessions.register(TYPE, BEGUN)

    def log(self, session: str, seq: int, entry: str) -> None:
        self._eng.sessions.log(session, entry)

    def heartbeat(self, session: str) -> None:
        self._eng.sessions.heartbeat(session)

    def claim(self, session: str) -> None:
        self._eng.leases.claim(session, PATH, NOTE)

    def release(self, session: str) -> None:
        self._eng.leases.release(session, PATH)

    def complete(self, session: str) -> None:
        self._eng.sessions.complete(session, DONE)

    def close(self) -> None:
        self._eng.close()


class Statements(Side):
    """The writes of each call as SQL, and nothing else; how they are run is the heirs' matter."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        # The only writer of a new file knows what number a row will get.
        self._exchange = 0
        self._token = 0

    @abstractmethod
    def call(self, *statements: Statement) -> None:
        """Run the statements in one transaction."""

    def register(self) -> str:
        now = _now()
        id = f"{now[:4]}{now[5:7]}{now[8:10]}-{now[11:13]}{now[14:16]}{now[17:19]}-{os.urandom(4).hex()}"
        self.call(
            (_SESSION, (WORKSPACE, id, TYPE, BEGUN, PROJECT, now, now)),
            (_CHANGE, (WORKSPACE, "session", id)),
        )
        return id

    def log(self, session: str, seq: int, entry: str) -> None:
        now = _now()
        self._exchange += 1
        self.call(
            (_SEQ, (seq, now, WORKSPACE, session)),
            (_EXCHANGE, (WORKSPACE, session, seq, entry, now)),
            (_BACKLOG, (WORKSPACE, self._exchange)),
            (_CHANGE, (WORKSPACE, "exchange", str(self._exchange))),
        )

    def heartbeat(self, session: str) -> None:
        self.call((_BEAT, (_now(), WORKSPACE, session)), (_CHANGE, (WORKSPACE, "session", session)))

    def claim(self, session: str) -> None:
        self._token += 1
        self.call(
            (_LEASE, (WORKSPACE, session, RESOURCE, NOTE, _now())),
            (_CHANGE, (WORKSPACE, "lease", str(self._token))),
        )

    def release(self, session: str) -> None:
        self.call((_RELEASE, (_now(), self._token)), (_CHANGE, (WORKSPACE, "lease", str(self._token))))

    def complete(self, session: str) -> None:
        now = _now()
        self.call(
            (_COMPLETE, (now, now, DONE, WORKSPACE, session)),
            (_CHANGE, (WORKSPACE, "session", session)),
        )


class Bare(Statements):
    """Prepared statements (apsw keeps them by their text) on one connection."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._connection = apsw.Connection(path)
        for pragma in PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        for migration in migrate.shipped("sqlite"):
            self._connection.execute(migration.sql)
        self._execute = self._connection.cursor().execute

    def call(self, *statements: Statement) -> None:
        execute = self._execute
        execute("BEGIN IMMEDIATE")
        for sql, values in statements:
            execute(sql, values)
        execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class Plain(Statements):
    """A new connection of Python's own `sqlite3` for each call."""

    def __init__(self, path: str, *, keep_open: bool = False) -> None:
        super().__init__(path)
        with self._connected() as connection:
            for migration in migrate.shipped("sqlite"):
                connection.executescript(migration.sql)
        self._sitter = sqlite3.connect(path) if keep_open else None
        if self._sitter:
            # A connection opens its file with its first statement.
            self._sitter.execute("SELECT COUNT(*) FROM sessions").fetchall()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path)
        try:
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            with connection:
                yield connection
        finally:
            connection.close()

    def call(self, *statements: Statement) -> None:
        with self._connected() as connection:
            for sql, values in statements:
                connection.execute(sql, values)

    def close(self) -> None:
        if self._sitter:
            self._sitter.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def against_plain(report: measure.Report, folder: str, *, rounds: int, count: int) -> None:
    sides: dict[str, Side] = {
        "Engram": Library(f"{folder}/engram-1.db"),
        "plain": Plain(f"{folder}/plain.db"),
        "plain, kept open": Plain(f"{folder}/kept.db", keep_open=True),
    }
    results = _work(report, sides, rounds, count)
    report.compare("work cycle: plain sqlite3 / Engram", results["plain"], results["Engram"], "at least", 10)
    report.compare("work cycle: plain, kept open / Engram", results["plain, kept open"], results["Engram"])


def against_bare(report: measure.Report, folder: str, *, rounds: int, count: int) -> None:
    sides: dict[str, Side] = {"Engram": Library(f"{folder}/engram-2.db"), "bare": Bare(f"{folder}/bare.db")}
    results = _work(report, sides, rounds, count)
    report.compare("work cycle: Engram / bare apsw", results["Engram"], results["bare"], "at most", 2)


def _work(report: measure.Report, sides: dict[str, Side], rounds: int, count: int) -> dict[str, list[float]]:
    """Seconds per cycle, by side and round."""
    results = measure.alternate({name: partial(side.cycles, count) for name, side in sides.items()}, rounds)
    for side in sides.values():
        side.close()
    rows = same_rows({name: side.path for name, side in sides.items()})
    names = " · ".join(sides)
    report.notes.append(f"{names}: {rounds} rounds of {count} work cycles each; all wrote the same rows: {rows}")
    report.table(
        f"{names}: µs per call and per work cycle",
        ("", *CALLS, "cycle", "of CPU"),
        [
            (name, *side.per_call(), median(results[name]) * 1e6, side.cpu / (rounds * count) * 1e6)
            for name, side in sides.items()
        ],
    )
    return results


def same_rows(paths: Mapping[str, str]) -> str:
    """How many rows each table has, after making sure that the files agree in that and in what the rows say."""
    contents = {name: _contents(path) for name, path in paths.items()}
    first = contents.pop("Engram")
    for name, other in contents.items():
        for table, rows in first.items():
            if other[table] != rows:
                raise AssertionError(f"{name} wrote other rows to {table} than Engram")
    return ", ".join(f"{sum(count for _, count in rows):,} {table}" for table, rows in first.items() if rows)


def _contents(path: str) -> Contents:
    """For each table, what its rows say and how many say so."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")]
    found: Contents = {}
    for table in tables:
        if table == "migrations" or table.startswith("sqlite_"):
            continue
        columns = COMPARED.get(table, "1")
        rows = connection.execute(f"SELECT {columns}, COUNT(*) FROM {table} GROUP BY {columns} ORDER BY {columns}")
        found[table] = [(row[:-1], row[-1]) for row in rows]
    connection.close()
    return found


SESSIONS, ACTIVE = 200, 20
_SCHEMA_OPTION = "schema="
_MANY_LOGS = (
    """
INSERT INTO exchanges (workspace, session_id, seq, role, content, created_at)
WITH RECURSIVE numbers (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM numbers WHERE seq < {each})
SELECT workspace, id, seq, 'log', 'step ' || seq || ': moved one more handler and ran its tests', heartbeat_at
FROM sessions CROSS JOIN numbers
""",
    "UPDATE sessions SET last_seq = {each}",
    """
INSERT INTO changes (workspace, what, id) SELECT workspace, 'exchange', CAST(id AS TEXT) FROM exchanges ORDER BY id
""",
)


def situation_reports(
    report: measure.Report, engine: str, urls: Sequence[str], *, many: int, rounds: int, calls: int
) -> None:
    """Ask a store with few logs and one with many by turns; they differ in nothing else."""
    few = 1_000
    for url, rows in zip(urls, (few, many), strict=True):
        fill(url, rows)
    with Engram(settings=load(url=urls[0])) as small, Engram(settings=load(url=urls[1])) as large:
        for eng, rows in ((small, few), (large, many)):
            if eng.sessions.stats().logs != rows:
                raise AssertionError(f"{rows} logs were meant to be in the store")
        names = [f"{engine}: {rows:,} logs" for rows in (few, many)]
        results = measure.alternate({names[0]: _asking(small, calls), names[1]: _asking(large, calls)}, rounds)
    report.table(f"sitrep on {engine}, µs", ("", "p50"), [(name, median(results[name]) * 1e6) for name in names])
    report.compare(f"sitrep on {engine}: {many:,} / {few:,} logs", results[names[1]], results[names[0]], "at most", 1.2)


def fill(url: str, logs: int) -> None:
    """A store as a busy week leaves it: most sessions done, a few at work with their leases, messages and a world."""
    with Engram(settings=load(url=url)) as eng:
        ids = [eng.sessions.register(TYPE, f"{BEGUN}, part {number}") for number in range(SESSIONS)]
        for number, id in enumerate(ids[:ACTIVE]):
            eng.leases.claim(id, f"src/part{number}.py", NOTE)
        for id in ids[ACTIVE:]:
            eng.sessions.complete(id, DONE)
        eng.messages.send(ids[0], "*", "The schema changes at noon; please commit what you have.")
        eng.world.set("\n".join(f"- module {number} is ported" for number in range(40)), updated_by=ids[0])
    _insert_logs(url, logs // SESSIONS)


def _insert_logs(url: str, each: int) -> None:
    """In bulk, behind Engram's back: a million calls would take minutes."""
    statements = [statement.format(each=each) for statement in _MANY_LOGS]
    if not url.startswith("postgresql://"):
        connection = apsw.Connection(url)
        with connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()
        return
    import psycopg

    server, _, schema = url.rpartition(_SCHEMA_OPTION)
    with psycopg.connect(server.rstrip("?&"), autocommit=True, options=f"-c search_path={schema}") as server_connection:
        for statement in statements:
            server_connection.execute(statement.encode())
        # What autovacuum would have done on a store that has grown to this size over time.
        server_connection.execute("VACUUM ANALYZE")


def _asking(eng: Engram, calls: int) -> Callable[[], float]:
    you = eng.sessions.active()[0].id

    def ask() -> float:
        times = []
        for _ in range(calls):
            begun = perf_counter()
            eng.sitrep(session_id=you)
            times.append(perf_counter() - begun)
        return median(times)

    return ask


@contextmanager
def postgres_stores(server: str) -> Iterator[list[str]]:
    """Two new stores on a server, gone afterwards."""
    import psycopg

    schemas = [f"bench_{os.getpid()}_{number}" for number in (1, 2)]
    try:
        yield [f"{server}{'&' if '?' in server else '?'}{_SCHEMA_OPTION}{schema}" for schema in schemas]
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            for schema in schemas:
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--postgres", metavar="URL", help="ask for the report on this server too")
    chosen = parser.parse_args()
    report = measure.Report("Coordination")
    report.notes.append(f"SQLite {apsw.sqlite_lib_version()} (apsw), {sqlite3.sqlite_version} (sqlite3)")
    asking = (
        {"many": 100_000, "rounds": 31, "calls": 5} if chosen.quick else {"many": 1_000_000, "rounds": 201, "calls": 5}
    )
    with measure.workplace() as folder:
        against_plain(report, folder, rounds=3 if chosen.quick else 15, count=30)
        against_bare(report, folder, rounds=15 if chosen.quick else 101, count=30)
        situation_reports(report, "SQLite", [f"{folder}/few.db", f"{folder}/many.db"], **asking)
        if chosen.postgres:
            with postgres_stores(chosen.postgres) as urls:
                situation_reports(report, "PostgreSQL", urls, **asking)
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
