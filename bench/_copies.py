"""Fills a large store from a small one that Engram has written: every row is copied many times, with other numbers.

The server copies the rows by itself, which takes minutes where calls would take days. Nothing here lists the columns of
a table: they are read from the server. A column that holds the number of a row is recognised by its name. A copy adds a
multiple of the same distance to all of them, so that the rows of a copy refer to each other. Only the packed numbers in
`items.terms` stay, which are read when an item is forgotten; nothing is forgotten in a copied workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

#: Columns of numbers that are the number of a row, of their own table or of another.
NUMBERS = {
    *("id", "number", "token", "ref", "item", "term", "memory_id", "block_id", "message_id", "superseded_by"),
    *("summary_from", "outcome_from", "derived_id", "source_id", "from_id", "to_id"),
}
#: Text columns that are unique within a workspace, besides `session_id`, `hash` and `key`.
NAMES = {("sessions", "id"), ("sessions", "external_id"), ("sessions", "parent_id"), ("imports", "ref")}
#: Copies per statement.
STEP = 100

_COLUMNS = """
SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = %s AND t.table_type = 'BASE TABLE' AND c.table_name <> 'migrations' AND c.is_generated = 'NEVER'
ORDER BY c.table_name, c.ordinal_position
"""
_SEQUENCES = """
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s AND is_identity = 'YES'
"""
_DAY = """to_char(({column}::timestamptz AT TIME ZONE 'UTC') - make_interval(days => copy),
'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""


class Column(NamedTuple):
    table: str
    name: str
    type: str


class Workspaces:
    """Each copy is a workspace of its own, named `w0`, `w1` and so on."""

    #: Tables that all copies share, and those whose rows count what was copied.
    once: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()

    def expression(self, column: Column, distance: int) -> str:
        if column.name == "workspace":
            return "'w' || copy"
        return numbered(column, distance)


class Days:
    """Each copy is an earlier day of the same workspace: other sessions and turns, with the words that are there."""

    once = frozenset({"terms", "models", "blocks", "block_versions"})
    counted = frozenset({"shelves"})

    def expression(self, column: Column, distance: int) -> str:
        is_text = column.type == "text"
        if is_text and (column.name in ("session_id", "hash", "key") or (column.table, column.name) in NAMES):
            return f"{column.name} || '-' || copy"
        if is_text and (column.name == "at" or column.name.endswith("_at")):
            return _DAY.format(column=column.name)
        if column.table == "postings" and column.name == "term":
            return column.name
        if column.table in ("vectors", "closeness") and column.name == "model":
            # Copies are equal vectors. An index of them would say nothing about one of real vectors, so it leaves them
            # out: they are those of another model.
            return "CASE copy WHEN 0 THEN model ELSE reverse(model) END"
        if column.table == "changes" and column.name == "id":
            return f"CASE what WHEN 'session' THEN id || '-' || copy ELSE {numbered(column, distance)} END"
        return numbered(column, distance)


def numbered(column: Column, distance: int) -> str:
    """The column, moved to the numbers of the copy if it is the number of a row."""
    if column.table == "changes" and column.name == "id":
        # The number of a row as text; the id of a session and the name of a block stay.
        return f"CASE WHEN id ~ '^[0-9]+$' THEN (id::bigint + copy * {distance}::bigint)::text ELSE id END"
    if column.name in NUMBERS and column.type == "bigint":
        return f"{column.name} + copy * {distance}::bigint"
    return column.name


def multiply(connection: Connection, source: str, target: str, copies: int, way: Workspaces | Days) -> None:
    """Copy the rows of a store, so many times, into another store, which is empty."""
    tables = _columns(connection, source)
    if tables != _columns(connection, target):
        raise AssertionError(f"the schemas {source} and {target} differ")
    distance = 1 + max(_largest(connection, source, columns) for columns in tables.values())
    # No triggers and no checks of foreign keys: the rows are complete, and what triggers write is copied too.
    connection.execute("SET session_replication_role = replica")
    for table, columns in tables.items():
        names = ", ".join(column.name for column in columns)
        if table in way.once:
            _run(
                connection,
                f"INSERT INTO {target}.{table} ({names}) OVERRIDING SYSTEM VALUE SELECT * FROM {source}.{table}",
            )
            continue
        if table in way.counted:
            values = [f"{c.name} * {copies}" if c.name in ("items", "length") else c.name for c in columns]
            _run(connection, f"INSERT INTO {target}.{table} ({names}) SELECT {', '.join(values)} FROM {source}.{table}")
            continue
        values = [way.expression(column, distance) for column in columns]
        for first in range(0, copies, STEP):
            last = min(first + STEP, copies) - 1
            _run(
                connection,
                f"INSERT INTO {target}.{table} ({names}) OVERRIDING SYSTEM VALUE SELECT {', '.join(values)}"
                f" FROM generate_series({first}, {last}) AS copies (copy) CROSS JOIN {source}.{table}",
            )
    connection.execute("SET session_replication_role = origin")
    for table, name in connection.execute(_SEQUENCES, (target,)).fetchall():
        sequence = f"pg_get_serial_sequence('{target}.{table}', '{name}')"
        _run(connection, f"SELECT setval({sequence}, COALESCE(MAX({name}), 0) + 1, false) FROM {target}.{table}")


def _run(connection: Connection, statement: str) -> None:
    connection.execute(statement.encode())


def _columns(connection: Connection, schema: str) -> dict[str, list[Column]]:
    found: dict[str, list[Column]] = {}
    for row in connection.execute(_COLUMNS, (schema,)).fetchall():
        column = Column(*row)
        found.setdefault(column.table, []).append(column)
    return found


def _largest(connection: Connection, schema: str, columns: list[Column]) -> int:
    """The largest number of a row in a table."""
    return max([0, *_maxima(connection, schema, columns)])


def _maxima(connection: Connection, schema: str, columns: list[Column]) -> Iterator[int]:
    for column in columns:
        if column.name in NUMBERS and column.type == "bigint":
            sql = f"SELECT COALESCE(MAX({column.name}), 0) FROM {schema}.{column.table}"
            ((largest,),) = connection.execute(sql.encode()).fetchall()
            yield int(largest)
