"""A year of a team of 20 on PostgreSQL: the sizes of tables and indexes, vacuum, and what settings change.

**The numbers of a day** come from 48 real coding sessions (`coding/dev.jsonl` of the shared data): sessions, turns,
lines about tools, and words per day on which anybody worked. They are taken as the day of one person. A year has 230
working days. One workspace has the whole team.

**One day is real**: for each person, Engram registers the sessions, adds the turns, logs the tools, claims and releases
files, sends heartbeats, stores three memories per session, computes the vectors and completes the sessions. Each day it
forgets one session with its memories. The other days are copies of these rows (`_copies.py`) with their own sessions,
numbers and times. So the sizes are those of a year, but the words are those of one day. Passes are left out, and so is
the index that pgvector has for a large workspace.

**Settings are compared on real days** that follow the year, with autovacuum switched off. Instead the script vacuums a
table after a session when autovacuum would: when its dead rows exceed its threshold and its share of the table. Before
each comparison the hot tables are rewritten, so that all begin alike. At the end a day's sessions are forgotten, and
every table is vacuumed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from engram import Engram
from engram.config import load

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench._copies import Connection, Days, multiply
    from bench._postgres import connect, with_schema
else:
    from _copies import Days, multiply
    from _postgres import connect, with_schema

SHARED = Path(os.environ.get("ENGRAM_SHARED", Path(__file__).resolve().parents[2] / "shared"))
DATA = SHARED / "coding" / "dev.jsonl"
TEAM, DAYS = 20, 230
DAY, YEAR = "one_day", "one_year"
WORKSPACE = "team"
#: The tables whose rows are updated or deleted all the time.
HOT = ("sessions", "shelves", "backlog", "leases")
#: The largest tables are reported one by one.
SHOWN = 12
MEMORIES = 3


class Setting(NamedTuple):
    name: str
    #: Storage parameters of the hot tables.
    parameters: dict[str, int | float]


SETTINGS = (
    Setting("as created", {}),
    Setting("fillfactor 70", {"fillfactor": 70}),
    Setting("vacuum at 200", {"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 200}),
)


class Session(NamedTuple):
    """A session of the data: its turns (role, text), each with the tools that were used after it."""

    turns: list[tuple[str, str, list[str]]]


class Person:
    """Does the work of the team, session by session, with Engram's own calls."""

    def __init__(self, eng: Engram, sessions: list[Session], first: int = 0) -> None:
        self._eng = eng
        self._sessions = sessions
        self._number = first
        self.calls = 0

    def day(self, count: int) -> Iterator[None]:
        """A day of so many sessions; stops after each. Every day has the same sessions."""
        for place in range(count):
            self._number += 1
            self._work(self._sessions[place % len(self._sessions)], forget=place == 0)
            yield

    def flush_counters(self) -> None:
        """Make the server count what was done. A connection reports it with its next statement, a second later."""
        sleep(1.1)
        self._eng.blocks.get("world")

    def _work(self, session: Session, *, forget: bool) -> None:
        eng = self._eng
        sid = eng.sessions.register("claude-code", f"Task {self._number}", external_id=f"harness-{self._number}")
        for place, (role, text, tools) in enumerate(session.turns):
            if place % 10 == 0:
                eng.sessions.heartbeat(sid)
                eng.leases.claim(sid, f"src/module{place}.py", "changing it")
            eng.exchanges.add(sid, role, text)
            for tool in tools:
                eng.sessions.log(sid, tool)
            if place % 10 == 9:
                eng.leases.release(sid, f"src/module{place - 9}.py")
            self.calls += 1 + len(tools)
        known = [
            eng.remember(f"{text[:300]} ({self._number})", kind="decision", tags=["router"], session_id=sid)
            for _, text, _ in session.turns[-MEMORIES:]
        ]
        eng.world.set(f"Task {self._number} is done.", updated_by=sid)
        while eng.backlog.work():
            pass
        eng.sessions.complete(sid, "Done; tests pass")
        self.calls += len(known) + 3
        if forget:
            for memory in known:
                eng.forget(memory=memory.id)
            eng.forget(session=sid)
            self.calls += len(known) + 1


def simulate(report: measure.Report, url: str, days: int, *, quick: bool) -> None:
    if not DATA.exists():
        report.notes.append(f"no year: there is no {DATA}")
        return
    sessions, per_day = read(report)
    team = 3 if quick else TEAM
    count = round(per_day * team)
    report.notes.append(f"the year: a team of {team}, {days} days of {count} sessions")
    with opened(url, DAY) as eng:
        person = Person(eng, sessions)
        begun = perf_counter()
        for _ in person.day(count):
            pass
        said(f"one day: {person.calls:,} calls in {perf_counter() - begun:.0f} s")
    opened(url, YEAR).close()
    with connect(url, "public") as connection:
        begun = perf_counter()
        multiply(connection, DAY, YEAR, days, Days())
        said(f"{days} days are copied after {perf_counter() - begun:.0f} s")
        vacuum(connection, "VACUUM (ANALYZE)", names(connection, YEAR))
        sizes(report, connection, days)
    with opened(url, YEAR) as eng:
        person = Person(eng, sessions, first=1_000_000)
        compare(report, url, person, count)
        check(eng)
        with connect(url, "public") as connection:
            forget_sessions(report, connection, eng, 3 if quick else 60)
            person.flush_counters()
            last_vacuum(report, connection)


def read(report: measure.Report) -> tuple[list[Session], float]:
    """The sessions of the data, and how many of them a day has."""
    days: set[str] = set()
    sessions: list[Session] = []
    lines = tools = words = turns = 0
    for line in DATA.read_text().splitlines():
        given = json.loads(line)
        days.add(given["started"][:10])
        own = [(turn["role"], turn["text"] or "…", turn.get("tools", [])) for turn in given["turns"]]
        sessions.append(Session([turn for turn in own if turn[1].strip()]))
        lines += 1
        turns += len(own)
        tools += sum(len(used) for _, _, used in own)
        words += sum(len(text.split()) for _, text, _ in own)
    per = len(days)
    report.notes.append(
        f"a person's day: {lines / per:.1f} sessions, {turns / per:.0f} turns, {tools / per:.0f} tool lines, "
        f"{words / per:,.0f} words ({lines} sessions on {per} days)"
    )
    return sessions, lines / per


def sizes(report: measure.Report, connection: Connection, days: int) -> None:
    """The largest tables, with their indexes."""
    rows = connection.execute(_SIZES, (YEAR,)).fetchall()
    shown: list[tuple[str | float, ...]] = [
        (name, f"{count:,}", heap / 2**20, indexes / 2**20, per_row) for name, count, heap, indexes, per_row in rows
    ]
    heaps, indexed = (sum(row[place] for row in rows) / 2**20 for place in (2, 3))
    head = ("", "rows", "table MB", "indexes MB", "bytes a row")
    report.table(f"after {days} days", head, [*shown[:SHOWN], ("all tables", "", heaps, indexed, "")])
    found = connection.execute(_INDEXES, (YEAR, SHOWN)).fetchall()
    report.table("the largest indexes", ("", "MB"), [(name, size / 2**20) for name, size in found])


def compare(report: measure.Report, url: str, person: Person, count: int) -> None:
    """One more real day for each setting of the hot tables."""
    rows: list[tuple[str | float, ...]] = []
    with connect(url, YEAR) as connection:
        _apply(connection, "ALTER SYSTEM SET autovacuum = off")
        _apply(connection, "SELECT pg_reload_conf()")
        for setting in SETTINGS:
            for table in HOT:
                if setting.parameters:
                    given = ", ".join(f"{name} = {value}" for name, value in setting.parameters.items())
                    _apply(connection, f"ALTER TABLE {table} SET ({given})")
                _apply(connection, f"VACUUM (FULL, ANALYZE) {table}")
            before = {table: _size(connection, table) for table in HOT}
            counted = {table: _counters(connection, table) for table in HOT}
            spent = dict.fromkeys(HOT, 0.0)
            times = dict.fromkeys(HOT, 0)
            begun, calls = perf_counter(), person.calls
            for _ in person.day(count):
                for table in HOT:
                    if _is_due(connection, table, setting):
                        spent[table] += vacuum(connection, "VACUUM", [f"{YEAR}.{table}"])
                        times[table] += 1
            rate = (person.calls - calls) / (perf_counter() - begun)
            person.flush_counters()
            said(f"{setting.name}: {person.calls - calls:,} calls, {rate:.0f} a second")
            for table in HOT:
                updated, in_place, deleted = (
                    now - then for now, then in zip(_counters(connection, table), counted[table], strict=True)
                )
                rows.append(
                    (
                        f"{table}, {setting.name}",
                        f"{updated:,}",
                        f"{100 * in_place / updated:.0f}" if updated else "–",
                        f"{deleted:,}",
                        before[table] / 2**10,
                        _size(connection, table) / 2**10,
                        f"{times[table]}",
                        f"{spent[table] * 1000:.0f}",
                    )
                )
            for table in HOT:
                if setting.parameters:
                    _apply(connection, f"ALTER TABLE {table} RESET ({', '.join(setting.parameters)})")
    head = ("", "updated", "% in place", "deleted", "KB before", "KB after", "vacuums", "ms")
    report.table("one real day, by settings of the hot tables", head, rows)


def forget_sessions(report: measure.Report, connection: Connection, eng: Engram, count: int) -> None:
    """Forget so many sessions of one day of the year."""
    found = connection.execute(f"SELECT id FROM {YEAR}.sessions WHERE id ~ '-10$' ORDER BY id LIMIT {count}".encode())
    ids = [id for (id,) in found.fetchall()]
    begun = perf_counter()
    for id in ids:
        eng.forget(session=id)
    took = perf_counter() - begun
    report.notes.append(f"after the comparison, {len(ids)} sessions of one day were forgotten in {took:.1f} s")
    said(f"{len(ids)} sessions are forgotten after {took:.0f} s")


def last_vacuum(report: measure.Report, connection: Connection) -> None:
    """Vacuum every table: as autovacuum does, which skips the indexes if little is dead, then with the indexes."""
    rows = []
    for name, dead in connection.execute(_DEAD, (YEAR,)).fetchall():
        took = [
            vacuum(connection, command, [f"{YEAR}.{name}"])
            for command in ("VACUUM", "VACUUM (INDEX_CLEANUP ON)", "VACUUM (FREEZE)")
        ]
        rows.append((name, f"{dead:,}", *(f"{seconds:.2f}" for seconds in took), sum(took)))
    rows.sort(key=lambda row: -float(row[-1]))
    head = ("", "dead rows", "VACUUM s", "indexes s", "FREEZE s")
    report.table("vacuum after the real days, the slowest tables", head, [row[:-1] for row in rows[:SHOWN]])


def check(eng: Engram) -> None:
    """Check that the copies are a store that works: recall finds turns, and counts are those of the rows."""
    if not eng.recall("which files were renamed in the docs folder?", k=5):
        raise AssertionError("recall finds nothing in the simulated year")
    if eng.backlog.size():
        raise AssertionError("the embedding queue is not empty")


def opened(url: str, schema: str) -> Engram:
    store = with_schema(url, schema)
    return Engram(settings=load(url=store, workspace=WORKSPACE, embedder="static"))


def vacuum(connection: Connection, command: str, tables: list[str]) -> float:
    """Seconds that it took."""
    begun = perf_counter()
    for table in tables:
        _apply(connection, f"{command} {table}")
    return perf_counter() - begun


def names(connection: Connection, schema: str) -> list[str]:
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1", (schema,))
    return [f"{schema}.{name}" for (name,) in rows.fetchall()]


def total(connection: Connection, schema: str) -> int:
    """Bytes of all tables of a store, with their indexes."""
    ((size,),) = connection.execute(_TOTAL, (schema,)).fetchall()
    return int(size)


def said(progress: str) -> None:
    print(f"  {progress}", file=sys.stderr, flush=True)


def _is_due(connection: Connection, table: str, setting: Setting) -> bool:
    """Whether autovacuum would vacuum the table now."""
    threshold = setting.parameters.get("autovacuum_vacuum_threshold", 50)
    share = setting.parameters.get("autovacuum_vacuum_scale_factor", 0.2)
    ((dead, rows),) = connection.execute(_DEAD_AND_ALL, (f"{YEAR}.{table}",)).fetchall()
    return bool(dead > threshold + share * max(0, rows))


def _counters(connection: Connection, table: str) -> tuple[int, ...]:
    """Updated, updated in place (HOT) and deleted rows of a table so far."""
    ((updated, in_place, deleted),) = connection.execute(_COUNTERS, (f"{YEAR}.{table}",)).fetchall()
    return int(updated), int(in_place), int(deleted)


def _size(connection: Connection, table: str) -> int:
    ((size,),) = connection.execute("SELECT pg_total_relation_size(%s::regclass)", (f"{YEAR}.{table}",)).fetchall()
    return int(size)


def _apply(connection: psycopg.Connection[tuple[Any, ...]], statement: str) -> None:
    connection.execute(statement.encode())


_SIZES = """
SELECT c.relname, c.reltuples::bigint, pg_table_size(c.oid), pg_indexes_size(c.oid),
       CASE WHEN c.reltuples > 0 THEN round(pg_total_relation_size(c.oid) / c.reltuples)::text ELSE '–' END
FROM pg_class c WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'r'
ORDER BY pg_total_relation_size(c.oid) DESC
"""
_INDEXES = """
SELECT c.relname, pg_relation_size(c.oid) FROM pg_class c
WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'i' ORDER BY 2 DESC LIMIT %s
"""
_TOTAL = """
SELECT COALESCE(SUM(pg_total_relation_size(oid)), 0) FROM pg_class
WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'
"""
_DEAD = "SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = %s"
_DEAD_AND_ALL = """
SELECT s.n_dead_tup, c.reltuples::bigint FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE s.relid = %s::regclass
"""
_COUNTERS = "SELECT n_tup_upd, n_tup_hot_upd, n_tup_del FROM pg_stat_user_tables WHERE relid = %s::regclass"
