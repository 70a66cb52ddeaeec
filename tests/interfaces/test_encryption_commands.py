"""`engram encrypt`, `engram decrypt` and `engram rekey` on the command line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from engram.config import load
from engram.storage import database
from tests.conftest import KEY_FILE
from tests.interfaces.conftest import Engram, engram

__all__ = ["engram"]  # a fixture

pytestmark = pytest.mark.skipif(bool(KEY_FILE), reason="here the tests choose which store is encrypted")


@pytest.mark.requirement("ENCRYPT-1", "ENCRYPT-3")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_the_commands_say_what_they_did_and_where_the_key_is(engram: Engram, store_url: str) -> None:
    key = load().key_file
    copy = Path(f"{store_url}.before-0001-20260101t000000000000")
    copy.write_bytes(Path(store_url).read_bytes())
    done = engram("encrypt")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"Encrypted {store_url}.",
        f"The key is in {key}. Keep a copy of it: without it nobody can read the store.",
        f"Encrypted too: {copy}",
    ]
    assert database.is_encrypted(store_url)
    assert engram("encrypt").out.startswith(f"{store_url} is encrypted.\n")
    assert engram("remember", "Found again").code == 0
    changed = engram("rekey", "--json").json
    assert changed == {
        **{"store": store_url, "encrypted": True, "changed": True, "keys": key},
        **{"copies": [str(copy)], "removed": [], "left": [], "damaged": [], "unseen": []},
    }
    away = Path(key).rename(f"{key}.away")
    refused = engram("recall", "Found", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (1, "store_encrypted")
    away.rename(key)
    assert engram("decrypt", "--yes").out.splitlines() == [f"Decrypted {store_url}.", f"Decrypted too: {copy}"]
    assert engram("decrypt", "--yes").out == f"{store_url} is not encrypted.\n"
    assert engram("rekey").code == 1
    assert "Found again" in engram("recall", "Found").out


@pytest.mark.requirement("ENCRYPT-10")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_decrypting_names_the_files_and_asks_first(
    engram: Engram, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engram("encrypt")
    saved = engram("backup", "--json").json["file"]

    def decrypt(answer: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        done = engram("decrypt")
        return done.code, done.err

    # Without a terminal there is no answer.
    for answer in ("n\n", ""):
        code, said = decrypt(answer)
        assert (code, store_url in said, saved in said) == (1, True, True)
        assert "Decrypt the store and 1 backup? [y/N]" in said
        assert database.is_encrypted(store_url) and database.is_encrypted(saved)
    refused = engram("decrypt", "--json")
    assert (refused.code, "add --yes" in refused.json["error"]["message"]) == (2, True)
    assert decrypt("y\n")[0] == 0
    assert not database.is_encrypted(store_url) and not database.is_encrypted(saved)
    assert engram("decrypt", "--yes", "--json").json["changed"] is False


@pytest.mark.requirement("ENCRYPT-3")
@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_store_on_postgresql_is_left_to_its_server(engram: Engram) -> None:
    for command in ("encrypt", "decrypt", "rekey"):
        done = engram(command)
        assert done.code == 2
        assert "encrypt its server's disk" in done.err
