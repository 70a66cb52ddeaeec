"""How SQLite goes about the tiers' statements: what is looked for in a list is found by the list."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from engram import Engram
from engram.config import load
from tests.test_driver_sql import tier_sql

STATEMENTS = sorted(name for name, sql in tier_sql().items() if "json_each(:" in sql)


@pytest.mark.requirement("STORE-19")
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_with_a_list_reads_only_what_the_list_names(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / "engram.db")
    Engram(settings=load(url=path)).close()
    sql = tier_sql()[name]
    connection = apsw.Connection(path)
    values = dict.fromkeys(re.findall(r":(\w+)", sql), "[1]")
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    connection.close()
    assert not [step for step in plan if step.startswith("SCAN") and "json_each" not in step]
    # A Bloom filter is for sifting all rows by the list.
    assert not [step for step in plan if "BLOOM" in step]
