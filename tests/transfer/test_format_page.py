"""The page about the file format names every record and every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engram.transfer.tables import EXPORTED

_PAGE = Path(__file__).parents[2] / "docs" / "moving-out.md"
_TYPES = {int: " (number)", float: " (real)", bytes: " (base64)", str: ""}


@pytest.mark.requirement("MOVE-1")
def test_the_page_describes_every_record() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.*?) \| (.+) \|$", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    described = {record: (table, fields) for record, table, fields, _ in rows}
    expected = {
        str(moved.record): (
            moved.table.name,
            ", ".join(
                f"`{column.name}`{'?' if column.nullable else ''}{_TYPES[column.type]}"
                for column in moved.table.columns
            ),
        )
        for moved in EXPORTED
    }
    assert described == expected
    assert list(described) == [moved.record for moved in EXPORTED]
