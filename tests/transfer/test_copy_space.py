"""A copy on a disk with little room: the cause is named, and what is left is said and used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from engram import Engram, StoreFull
from engram.clock import Clock
from engram.config import load
from engram.maintenance import copy
from engram.setup_records import Copied
from engram.storage import backup, database
from engram.storage.keys import Keys
from engram.transfer import copying

#: Writes to a store, and dies before its log is in the file.
WRITER = """
import os, sys
from engram.storage import database
from engram.storage.keys import Keys
path, keys = sys.argv[1:]
store = database.connect(path, database.key_of(path, Keys(keys)))
store.execute("CREATE TABLE later (text)")
store.execute("DROP TABLE later")
os._exit(0)
"""


@pytest.fixture
def source(new_sqlite_url: str) -> str:
    with Engram(new_sqlite_url) as eng:
        for number in range(100):
            eng.remember(f"Fact {number}: " + "the billing service is on PostgreSQL. " * 20)
    return new_sqlite_url


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "there" / "copy.db"


def copied(source: str, target: Path) -> Copied:
    return copy(load(url=source), load(url=str(target)))


@pytest.mark.requirement("MOVE-10", "STORE-8")
def test_a_copy_that_would_not_fit_is_refused_before_it_begins(
    source: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(StoreFull) as refused:
        patch.setattr(backup, "_MARGIN", 1 << 60)
        copied(source, target)
    assert f"The disk of {target.parent} has" in str(refused.value)
    assert os.listdir(target.parent) == []
    assert copied(source, target).tables["memories"] == 100


@pytest.mark.requirement("MOVE-10", "STORE-8")
def test_a_copy_whose_disk_fills_up_says_so_and_goes_on_later(
    source: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = database.connect

    def cramped(file: str, *arguments: Any, **options: Any) -> apsw.Connection:
        connection = connect(file, *arguments, **options)
        if file.endswith(backup.COPYING):
            # Room for the schema.
            connection.execute("PRAGMA max_page_count = 145")
        return connection

    with monkeypatch.context() as patch, pytest.raises(StoreFull) as refused:
        patch.setattr(database, "connect", cramped)
        copied(source, target)
    draft = f"{target}{backup.COPYING}"
    assert f"The disk that holds {draft} is full" in str(refused.value)
    assert "What was copied is kept: free some space and run the command again" in str(refused.value)
    assert "nothing was written" not in str(refused.value)
    assert copied(source, target).tables["memories"] == 100
    assert os.listdir(target.parent) == [target.name]


@pytest.mark.requirement("MOVE-10")
def test_a_log_that_did_not_fit_into_the_copy_is_put_into_it(
    source: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = copying._rename

    def with_log(draft: str, path: str, clock: Clock, keys: Keys) -> None:
        subprocess.run([sys.executable, "-c", WRITER, draft, keys.file], check=True)
        assert backup.size(f"{draft}-wal") > 0
        rename(draft, path, clock, keys)

    monkeypatch.setattr(copying, "_rename", with_log)
    assert copied(source, target).tables["memories"] == 100
    assert os.listdir(target.parent) == [target.name]
