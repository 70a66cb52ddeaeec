"""The first admin token: made once, and its secret only in a private file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from engram import Engram, InvalidInput
from engram.access_records import NewToken
from tests.conftest import ShiftedClock
from tests.contract.test_access_logins import at_once


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "server" / "admin-token"


@pytest.mark.requirement("ACCESS-26")
def test_the_first_start_writes_an_admin_token_into_a_private_file(eng: Engram, file: Path) -> None:
    umask = os.umask(0)
    try:
        made = eng.access.ensure_admin(str(file))
    finally:
        os.umask(umask)
    assert made is not None and file.read_text() == f"{made.secret}\n"
    grant = eng.access.tokens.verify(file.read_text().strip())
    assert (grant.name, grant.scope, grant.workspace, grant.expires_at) == ("admin", "admin", None, None)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700
    assert os.listdir(file.parent) == ["admin-token"]


@pytest.mark.requirement("ACCESS-26")
def test_a_store_with_an_admin_token_gets_no_other(eng: Engram, file: Path, clock: ShiftedClock) -> None:
    eng.access.tokens.create("mine", "admin", expires=60)
    assert eng.access.ensure_admin(str(file)) is None and not file.exists()
    clock.advance(61)
    assert eng.access.ensure_admin(str(file)) is not None
    assert eng.access.ensure_admin(str(file)) is None


@pytest.mark.requirement("ACCESS-26")
def test_other_tokens_are_not_enough(eng: Engram, file: Path) -> None:
    eng.access.tokens.create("admin", "write")
    eng.access.tokens.create("team", "admin", workspace="team")
    made = eng.access.ensure_admin(str(file))
    assert made is not None and made.token.name == f"admin {made.token.id}"


@pytest.mark.requirement("ACCESS-26")
def test_of_several_servers_that_start_at_once_one_makes_the_token(
    open_store: Callable[..., Engram], file: Path
) -> None:
    stores = [open_store() for _ in range(4)]
    results = at_once(4, lambda number: stores[number].access.ensure_admin(str(file)))
    (made,) = [result for result in results if result is not None]
    assert isinstance(made, NewToken) and file.read_text() == f"{made.secret}\n"
    assert len(stores[0].access.tokens.list()) == 1


@pytest.mark.requirement("ACCESS-26")
def test_the_file_of_a_start_that_was_killed_is_replaced(eng: Engram, file: Path) -> None:
    first = eng.access.ensure_admin(str(file))
    eng.access.tokens.revoke("admin")
    second = eng.access.ensure_admin(str(file))
    assert first is not None and second is not None and file.read_text() == f"{second.secret}\n"


@pytest.mark.requirement("ACCESS-26")
def test_another_file_is_left_alone_and_no_link_is_followed(eng: Engram, file: Path, tmp_path: Path) -> None:
    file.parent.mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    file.symlink_to(precious)
    with pytest.raises(InvalidInput):
        eng.access.ensure_admin(str(file))
    file.unlink()
    file.write_text("my notes")
    with pytest.raises(InvalidInput, match="something else"):
        eng.access.ensure_admin(str(file))
    file.unlink()
    file.mkdir()
    with pytest.raises(InvalidInput):
        eng.access.ensure_admin(str(file))
    assert precious.read_text() == "precious" and eng.access.tokens.list() == []
    assert os.listdir(file.parent) == ["admin-token"]
