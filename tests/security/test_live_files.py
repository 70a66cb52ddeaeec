"""No command opens the files that SQLite has open: closing a descriptor drops this process's locks on the file.

Then another process takes itself for the first one and cuts the index of the log short, and this process dies of it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from engram import Engram
from engram.config import load
from engram.maintenance import encrypt
from tests.conftest import KEY_FILE

pytestmark = pytest.mark.skipif(bool(KEY_FILE), reason="here the tests choose which store is encrypted")

#: Does something beside an open store. Fails if a file of the store is opened, or if a lock on it is gone.
WATCH = """
import os, sys, apsw
store, encrypted = os.path.realpath(sys.argv[1]), sys.argv[2] == "True"
opened = []
def is_of_store(name):
    name = os.path.realpath(os.fsdecode(name))
    return name == store or name.endswith(("-shm", "-wal", "-journal"))
def watch(event, given):
    if event == "open" and not isinstance(given[0], int) and is_of_store(given[0]):
        if not (given[2] or 0) & os.O_PATH:
            opened.append(given[0])
class File(apsw.VFSFile):
    def __init__(self, vfs, name, flags):
        if is_of_store(name) and name != store:
            opened.append(name)
        super().__init__(vfs, name, flags)
def locks():
    found = os.stat(f"{store}-shm")
    with open("/proc/locks") as lines:
        fields = [line.split() for line in lines]
    ours = [each for each in fields if each[4] == str(os.getpid()) and each[5].endswith(f":{found.st_ino}")]
    return [each[-2] for each in ours if each[1] == "POSIX"]
apsw.VFSFile = File
sys.addaudithook(watch)
from engram import Engram, InvalidInput, maintenance
from engram.config import load
settings = load(url=store)
def refused(call, *given):
    try:
        call(*given)
    except InvalidInput:
        return
    raise AssertionError("it was not refused")
with Engram(store) as eng:
    eng.remember("In the log")
    assert locks(), "nothing is locked, so nothing would be noticed"
    exec(sys.argv[3])
    assert not opened, opened
    eng.remember("Also in the log")
    assert locks(), "the locks are gone"
"""

COMMANDS = {
    "doctor": "maintenance.doctor(settings, full=True)",
    "doctor --fix": "maintenance.doctor(settings, fix=True)",
    "backup": "maintenance.backup(settings); maintenance.backup(settings, os.path.dirname(store))",
    "restore --list": "maintenance.backups(settings); maintenance.backups(settings, os.path.dirname(store))",
    "restore": "maintenance.restore(settings, maintenance.backup(settings).file, force=True)",
    "encrypt": "maintenance.encrypt(settings)",
    "rekey": "maintenance.rekey(settings) if encrypted else None",
    "export": "eng.export(f'{store}.jsonl')",
    "copy": "maintenance.copy(settings, load(url=f'{store}.copy.db'))",
    "import": "refused(eng.load_export, store); refused(eng.load_export, f'{store}-shm')",
    "forget": "eng.forget(memory=eng.memories.list()[0].id)",
}


@pytest.mark.requirement("STORE-24")
@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_opens_what_sqlite_has_open(command: str, is_encrypted: bool, new_sqlite_url: str) -> None:
    with Engram(new_sqlite_url) as eng:
        eng.remember("Said before")
    if is_encrypted:
        encrypt(load(url=new_sqlite_url))
    with Engram(new_sqlite_url):
        done = subprocess.run(
            [sys.executable, "-c", WATCH, new_sqlite_url, str(is_encrypted), COMMANDS[command]],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
