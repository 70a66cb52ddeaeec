"""What cannot be looked at is named: a backup in it may not be encrypted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import KEY_FILE

pytestmark = pytest.mark.skipif(bool(KEY_FILE), reason="here the tests choose which store is encrypted")

#: Hides something, encrypts the store, and prints what was not looked at and what the doctor finds. Without two
#: capabilities root reads only what its mode allows.
SCRIPT = """
import ctypes, os, sys
base, hide = sys.argv[1:]
libc, head, sets = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert libc.capget(head, sets) == 0
sets[0] &= ~0b110
assert libc.capset(head, sets) == 0
from engram import Engram, maintenance
from engram.config import load
store, usb = f"{base}/engram.db", f"{base}/usb"
settings = load(url=store)
with Engram(store) as eng:
    eng.remember("Said before")
own = maintenance.backup(settings).file
away = maintenance.backup(settings, usb).file
alone = maintenance.backup(settings, f"{base}/away/alone.db").file
exec(hide)
for call in (maintenance.encrypt, maintenance.rekey):
    print(*call(settings).unseen)
(found,) = [each for each in maintenance.doctor(settings) if each.name == "store.plain"]
print(found.state, found.found)
"""


@pytest.mark.requirement("ENCRYPT-11")
@pytest.mark.parametrize(
    ("hide", "place"),
    [
        ("os.chmod(f'{store}.backups', 0)", "engram.db.backups"),
        ("os.chmod(os.path.dirname(own), 0)", "backups"),
        ("os.chmod(os.path.dirname(own), 0o400)", "backups"),
        ("os.chmod(own, 0)", "backups/"),
        ("os.chmod(alone, 0)", "away/alone.db"),
        ("os.rename(usb, f'{base}/not-mounted')", "usb"),
        ("os.chmod(usb, 0)", "usb"),
    ],
)
def test_what_could_not_be_looked_at_is_named(tmp_path: Path, hide: str, place: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), hide],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    encrypted, rekeyed, doctor = done.stdout.splitlines()
    assert encrypted == rekeyed
    assert encrypted.startswith(str(tmp_path / place))
    assert doctor == f"note Could not be looked at: {encrypted}."


@pytest.mark.requirement("ENCRYPT-11")
@pytest.mark.parametrize("delete", ["os.unlink(alone)", "os.unlink(own)", "os.unlink(f'{store}.backups')"])
def test_a_backup_that_was_deleted_is_not_missed(tmp_path: Path, delete: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), delete],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "looked at" not in done.stdout
