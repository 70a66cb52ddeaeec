"""Errors of the disk, of rights and of names say what is true, and what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw
import pytest

from engram import Engram, InvalidURL, StoreUnavailable
from engram.config import load
from engram.storage import backup
from engram.storage.sqlite_errors import translate, translate_os


@pytest.mark.requirement("STORE-7")
def test_forgetting_in_a_folder_that_cannot_be_listed_is_an_error_and_forgets_nothing(
    new_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", os.path.dirname(path))

    with Engram(new_sqlite_url) as eng:
        id = eng.remember("Said before").id
        with monkeypatch.context() as patch, pytest.raises(StoreUnavailable, match="nothing was forgotten"):
            patch.setattr(backup, "names", refuse)
            eng.forget(memory=id)
        assert [each.id for each in eng.memories.list()] == [id]
        eng.forget(memory=id)


@pytest.mark.requirement("STORE-7")
def test_an_error_of_the_disk_is_told_as_one() -> None:
    broken = str(translate_os(OSError(errno.EIO, "Input/output error"), "/data/engram.db"))
    assert broken == "/data/engram.db cannot be used: Input/output error. Check the disk, and run the command again."
    named = str(translate_os(OSError(errno.EACCES, "Permission denied", "/data"), "/data/engram.db"))
    assert named.startswith("/data/engram.db cannot be used: Permission denied (/data). ")
    assert "(input/output error)" in str(translate(apsw.IOError("not an error"), "/data/engram.db"))
    assert "(unable to open the file)" in str(translate(apsw.CantOpenError("not an error"), "/data/engram.db"))


@pytest.mark.requirement("STORE-7")
def test_what_is_needed_never_looks_like_what_is_free() -> None:
    assert backup._megabytes(1_950_001) == "2.0"
    assert backup._megabytes(1_950_000, down=True) == "1.9"


@pytest.mark.requirement("STORE-21")
def test_a_link_to_a_store_that_is_not_there_says_so(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "usb" / "engram.db")
    with pytest.raises(StoreUnavailable, match=r"is a symbolic link to .*usb/engram\.db, which is not there"):
        Engram(link)
    assert os.listdir(tmp_path) == ["link.db"]


@pytest.mark.requirement("STORE-2")
def test_a_name_that_is_not_utf_8_is_told_as_one() -> None:
    with pytest.raises(InvalidURL, match="is not UTF-8: it has the byte 0xe9"):
        load(url=os.fsdecode(b"caf\xe9.db"))
