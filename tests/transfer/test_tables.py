"""Nothing is left behind by mistake: every table and every column of the schema is declared."""

from __future__ import annotations

import pytest

from engram import Engram
from engram.storage import rows
from engram.transfer.tables import BY_NAME, EXPORTED, NOT_CONTENT, OF_KIND, TABLES
from tests._tables import columns

_TYPES = {
    int: {"integer", "bigint"},
    float: {"real", "double precision"},
    bytes: {"blob", "bytea"},
    str: {"text"},
}


@pytest.mark.requirement("MOVE-1")
def test_every_table_is_exported_or_left_out_with_a_reason(store_url: str, eng: Engram) -> None:
    declared = {moved.table.name for moved in TABLES}
    assert columns(store_url).keys() - NOT_CONTENT.keys() == declared
    assert len(declared) == len(TABLES)
    assert [moved.table.name for moved in TABLES if (moved.record is None) != bool(moved.left_out)] == []
    assert all(NOT_CONTENT.values())


@pytest.mark.requirement("MOVE-1")
def test_every_column_of_every_table_moves(store_url: str, eng: Engram) -> None:
    found = columns(store_url)
    for moved in TABLES:
        table = moved.table
        assert set(table.names) == found[table.name].keys(), table.name
        for column in table.columns:
            assert found[table.name][column.name] in _TYPES[column.type], (table.name, column.name)


@pytest.mark.requirement("MOVE-1")
def test_what_is_declared_about_a_table_names_its_columns() -> None:
    for moved in TABLES:
        names = set(moved.table.names)
        assert set(moved.table.key) <= names
        assert {moved.table.number} - {None} <= names
        assert {column for column, _ in moved.numbers} | set(moved.own) | set(moved.json) <= names
        assert {each for pair in moved.by_kind for each in pair} <= names
        assert {table for _, table in moved.numbers} <= BY_NAME.keys()
        if moved.record is not None:
            assert moved.table.has_workspace or moved.table.parent is not None
    assert set(OF_KIND.values()) <= BY_NAME.keys()


@pytest.mark.requirement("MOVE-1")
def test_rows_are_declared_after_those_that_they_refer_to() -> None:
    order = [moved.table.name for moved in TABLES]
    for moved in EXPORTED:
        for column, other in moved.numbers:
            if other == moved.table.name:
                assert column in moved.own
        if moved.table.parent is not None:
            assert order.index(moved.table.parent.table) < order.index(moved.table.name)


@pytest.mark.requirement("MOVE-1")
def test_a_table_is_read_completely_whatever_the_size_of_a_page(eng: Engram) -> None:
    for number in range(7):
        eng.remember(f"Number {number}", tags=["a", "b"], embed=False)
        eng.workspace("other").remember(f"Number {number}", embed=False)
    with eng._view.engine.read() as tx:
        for moved in TABLES:
            whole = [row for page in rows.pages(tx, moved.table) for row in page]
            assert len(whole) == rows.count(tx, moved.table)
            for size in (1, 2, 3, 7):
                assert [row for page in rows.pages(tx, moved.table, size=size) for row in page] == whole
            if moved.record is not None:
                found = [row for page in rows.pages(tx, moved.table, "default", size=3) for row in page]
                assert len(found) == rows.count(tx, moved.table, "default")
                assert set(found) <= set(whole)
    assert rows.columns("id# name? ratio.") == (
        rows.Column("id", int, False),
        rows.Column("name", str, True),
        rows.Column("ratio", float, False),
    )
