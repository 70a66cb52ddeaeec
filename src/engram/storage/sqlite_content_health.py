"""Checks of what is in an SQLite store, whatever its tables mean: schema, texts, references and numbers.

They get a connection. `sqlite_health` opens it, and turns the driver's errors into those of Engram.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from ..health_records import WRONG, Finding, counted, fine, mendable
from ..safe_text import one_line
from . import database, migrate
from .health import NAMED, NUMBERS_END, RESTORE, Difference, far_numbers_finding, schema_finding, some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import apsw

_OBJECTS = "SELECT type, name FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'"
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
_STATEMENTS = """
SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY 1, 2
"""
_NUMBERED = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%' ORDER BY name"
# Another program may have written a text there.
_LAST_GIVEN = "SELECT COALESCE(MAX(CAST(seq AS INTEGER)), 0) FROM sqlite_sequence WHERE name = ?"
#: Tables with texts of memories, and the column with the memory's number.
_MEMORY_KEYS = {"memories": "id", "memory_versions": "memory_id"}
_COLUMNS = """
SELECT t.name, c.name, c.type = 'TEXT', c.pk > 0 FROM sqlite_schema t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND t.name NOT GLOB 'sqlite_*' ORDER BY t.name, c.cid
"""


def schema(path: str, connection: apsw.Connection) -> Finding:
    applied = migrate.sqlite_applied(connection)
    there = set(connection.execute(_OBJECTS))
    return schema_finding(applied, "sqlite", path, there, _made_by, changed=partial(_changed, _statements(connection)))


def _made_by(migrations: Sequence[migrate.Migration]) -> set[tuple[str, str]]:
    with _empty_store(migrations) as empty:
        return set(empty.execute(_OBJECTS))


def _statements(connection: apsw.Connection) -> dict[tuple[str, str], tuple[str, str]]:
    """By kind and name of each index and trigger: its table, and the statement that made it."""
    rows = connection.execute(_STATEMENTS)
    return {(kind, name): (table, " ".join(sql.split())) for kind, name, table, sql in rows}


def _changed(
    there: dict[tuple[str, str], tuple[str, str]], migrations: Sequence[migrate.Migration]
) -> list[Difference]:
    with _empty_store(migrations) as empty:
        made = _statements(empty)
        tables = {name for (name,) in empty.execute(_TABLES)}
    found = []
    for (kind, name), (table, sql) in there.items():
        shown = one_line(name, 80)
        if (kind, name) in made and made[kind, name][1] != sql:
            found.append(Difference(f"{kind} {shown} is not what Engram has made"))
        # An index of the user's own only takes time. A trigger changes what is written.
        elif (kind, name) not in made and kind == "trigger" and table in tables:
            drop = 'DROP TRIGGER "{}"'.format(shown.replace('"', '""'))
            found.append(Difference(f"trigger {shown} on {table} is not Engram's", drop))
    return found


@contextmanager
def _empty_store(migrations: Sequence[migrate.Migration]) -> Iterator[apsw.Connection]:
    """A store in memory, to compare with. Making one takes a few milliseconds."""
    with closing(database.connect(":memory:", None)) as connection:
        for migration in migrations:
            connection.execute(migration.sql)
        yield connection


def texts(connection: apsw.Connection) -> Finding:
    """Whether every text can be read. SQLite does not look at the bytes of a text, not even in `integrity_check`."""
    number, named = 0, []
    for number, place in enumerate(_unreadable_texts(connection), 1):
        if number <= NAMED:
            named.append(place)
    if not number:
        return fine("store.texts", "Every text in the store can be read.")
    # A memory with such a text can be forgotten; most other commands have to read it.
    id = next((row[_MEMORY_KEYS[table]] for table, _, row in named if table in _MEMORY_KEYS), None)
    shown = [f"{table}.{column} ({', '.join(map(' '.join, row.items()))})" for table, column, row in named]
    return Finding(
        "store.texts",
        WRONG,
        f"{counted(number, 'row has a text that is', 'rows have a text that is')} not UTF-8: {some(shown, number)}.",
        "Commands that read it fail, and so do exports and copies of the store.",
        RESTORE if id is None else f"{RESTORE}; engram forget --memory {id} deletes that memory",
        number=number,
    )


def _unreadable_texts(connection: apsw.Connection) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The first unreadable text of each row: its table, its column, and the row's key."""
    connection.create_scalar_function("unreadable", _unreadable, deterministic=True)
    there = set(connection.execute(_COLUMNS))
    with _empty_store(migrate.shipped("sqlite")) as empty:
        # A table of the user's own is not looked at.
        columns = [column for column in empty.execute(_COLUMNS) if column in there]
    for table, group in groupby(columns, itemgetter(0)):
        own = list(group)
        with_text = [column for _, column, is_text, _ in own if is_text]
        key = [column for _, column, _, is_key in own if is_key]
        if not with_text:
            continue
        sql = f"SELECT {_bytes(key)}, unreadable({_bytes(with_text)}) AS place FROM {table} WHERE place IS NOT NULL"
        for *values, place in connection.execute(sql):
            row = [one_line((value or b"").decode("utf-8", "replace"), 80) for value in values]
            yield table, with_text[place], dict(zip(key, row, strict=True))


def _bytes(columns: list[str]) -> str:
    return ", ".join(f"CAST({column} AS BLOB)" for column in columns)


def _unreadable(*values: object) -> int | None:
    """The place of the first one that is not UTF-8."""
    for place, text in enumerate(values):
        try:
            if isinstance(text, bytes):
                text.decode()
        except UnicodeDecodeError:
            return place
    return None


def references(connection: apsw.Connection) -> Finding:
    rows = connection.execute("PRAGMA foreign_key_check").fetchall()
    if not rows:
        return fine("store.references", "No row refers to one that is missing.")
    tables = sorted({str(row[0]) for row in rows})
    return Finding(
        "store.references",
        WRONG,
        f"Rows of {', '.join(tables)} refer to rows that are missing.",
        "Another program changed the store, or the file was damaged.",
        "engram doctor --fix for tags, links and vectors; otherwise engram restore FILE",
        number=len(rows),
    )


def numbers(connection: apsw.Connection) -> Finding:
    """Whether SQLite knows the last number that each table has given."""
    if far := _far(connection):
        return far_numbers_finding(far)
    found = _low(connection)
    if not found:
        return fine("store.numbers", "No number can be given twice.")
    return mendable(
        "store.numbers",
        f"The counters of numbers are behind their tables: {some(list(found))}.",
        "The number of something that is deleted may be given again, to something else.",
        len(found),
        None,
    )


def raise_numbers(connection: apsw.Connection) -> int:
    """Set each counter to the highest number of its table. The caller has the write lock."""
    found = _low(connection)
    for table, last in found.items():
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, last))
    return len(found)


def _far(connection: apsw.Connection) -> list[str]:
    """Tables with a number, or a counter, that is too large."""
    return [table for table, last, given in _last_numbers(connection) if max(last, given) >= NUMBERS_END]


def _low(connection: apsw.Connection) -> dict[str, int]:
    """By table, the highest number, if the counter is lower."""
    # A counter that follows a number that is too large would end the numbers.
    return {table: last for table, last, given in _last_numbers(connection) if given < last < NUMBERS_END}


def _last_numbers(connection: apsw.Connection) -> Iterator[tuple[str, int, int]]:
    """Each table with numbers of its own, its highest number, and the last one that it has given."""
    with _empty_store(migrate.shipped("sqlite")) as empty:
        tables = {name for (name,) in empty.execute(_NUMBERED)}
    for table in [str(name) for (name,) in connection.execute(_NUMBERED).fetchall()]:
        if table in tables:
            last: int = connection.execute(f"SELECT COALESCE(MAX(rowid), 0) FROM {table}").get
            yield table, last, connection.execute(_LAST_GIVEN, (table,)).get
