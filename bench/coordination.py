"""The cost of coordination: a work cycle compared with plain `sqlite3` and bare SQL, and the report on a large store.

**A work cycle** is what an agent does around a piece of work: register, 5 logs, 2 heartbeats, claim a path, release it,
complete. These are 11 calls; each is durable when it returns. All sides run the same cycles, each on its own file on
the same disk:

- *Engram*: the library as a caller uses it, with its checks, its locks and the records it returns.
- *plain*: Python's `sqlite3`, with a new connection and its PRAGMAs for each call. The systems that Engram replaces
  work like this, and it is the obvious first version. Closing the last connection makes SQLite copy its log back into
  the file, which is part of the cost. *plain, kept open* avoids that copy with another connection that stays open; it
  shows how much of the cost is the copy.
- *bare*: prepared `apsw` statements on one open connection, one transaction per call, without any check. This is about
  the least time in which Python can write these rows. The difference to it is Engram's own cost.

The comparison is fair because all sides have the same schema (Engram's migrations), the same PRAGMAs and write the same
rows, including the change feed and every index. At the end the files are compared table by table. Each side makes its
own ids and times. The project is a real folder with a git remote, because Engram looks for it in a claim.

**The situation report** is read from two stores that differ only in the number of logs (and their change feed entries),
in alternation, in one long-lived process. `--postgres URL` also measures on that server, in temporary schemas.
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
#: The project and the resource that Engram derives from the folder and the path.
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
UPDATE sessions SET status = 'completed', heartbeat_at = ?, ended_at = ?, outcome = ? WHERE workspace = ? AND id = ?
"""
_BACKLOG = "INSERT INTO backlog (workspace, kind, ref, taken_until) VALUES (?, 'exchange', ?, '0000')"
_CHANGE = "INSERT INTO changes (workspace, what, id) VALUES (?, ?, ?)"

#: The columns that must be equal in all files: all except random ids and times.
COMPARED = {
    "sessions": "workspace, type, name, summary, outcome, status, project, external_id, parent_id, metadata, last_seq",
    "exchanges": "workspace, seq, role, content",
    "backlog": "workspace, kind, ref, taken_until",
    "leases": "workspace, resource, note, exclusive, ttl, expires_at, fenced_at, ended_because",
    # Session ids are random. The other ids must be equal, so that every entry of the feed names its row.
    "changes": "workspace, what, CASE what WHEN 'session' THEN '' ELSE id END",
}

CALLS = ("register", "log", "heartbeat", "claim", "release", "complete")


class Side(ABC):
    """One implementation of the calls of a work cycle."""

    def __init__(self, path: str) -> None:
        self.path = path
        #: Processor time of all cycles, in seconds.
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
        """Run that many work cycles; the seconds per cycle."""
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
        """Microseconds of each call. The median leaves out the few calls that also copy SQLite's log back."""
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
    """Only the writes of each call, as SQL. Subclasses decide how to run them."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        # The only writer of a new file can predict the ids of its rows.
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
    """Prepared statements on one connection; apsw caches them by their text."""

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
            # A connection opens its file only at its first statement.
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
    """Check that the files have the same rows; the number of rows per table."""
    contents = {name: _contents(path) for name, path in paths.items()}
    first = contents.pop("Engram")
    for name, other in contents.items():
        for table, rows in first.items():
            if other[table] != rows:
                raise AssertionError(f"{name} and Engram wrote different rows to {table}")
    return ", ".join(f"{sum(count for _, count in rows):,} {table}" for table, rows in first.items() if rows)


def _contents(path: str) -> Contents:
    """The distinct rows of each table, with their counts."""
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
    """Read the report of a store with few logs and of one with many, in alternation."""
    few = 1_000
    for url, rows in zip(urls, (few, many), strict=True):
        fill(url, rows)
    with Engram(settings=load(url=urls[0])) as small, Engram(settings=load(url=urls[1])) as large:
        for eng, rows in ((small, few), (large, many)):
            if eng.sessions.stats().logs != rows:
                raise AssertionError(f"the store should have {rows} logs")
        names = [f"{engine}: {rows:,} logs" for rows in (few, many)]
        results = measure.alternate({names[0]: _asking(small, calls), names[1]: _asking(large, calls)}, rounds)
    report.table(f"sitrep on {engine}, µs", ("", "p50"), [(name, median(results[name]) * 1e6) for name in names])
    report.compare(f"sitrep on {engine}: {many:,} / {few:,} logs", results[names[1]], results[names[0]], "at most", 1.2)


def fill(url: str, logs: int) -> None:
    """Fill a store like a busy week: most sessions completed, a few active with leases, messages and a world state."""
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
    """Insert logs in bulk, without Engram, because a million calls would take minutes."""
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
        # On a store that grows over time, autovacuum does this.
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
    """The URLs of two stores on a server, which are dropped afterwards."""
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
    parser.add_argument("--postgres", metavar="URL", help="measure the report on this server too")
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
