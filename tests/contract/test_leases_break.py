"""Breaking one claim by its fencing token, in the library, as an operation and on the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram import Engram, InvalidInput, Lease, LeaseNotFound
from engram.interfaces.cli import run as run_command
from engram.operations import OPERATIONS, run
from tests.conftest import ShiftedClock

ROUTER = "shop:src/router.py"


@pytest.fixture
def claims(eng: Engram) -> tuple[Lease, Lease]:
    """A claim on a file, and one of another session on its folder."""
    one, other = (eng.sessions.register("codex", f"Agent {number}") for number in range(2))
    file, folder = eng.leases.claim(one, ROUTER), eng.leases.claim(other, "shop:src/**")
    return file, folder._replace(conflicts=())


@pytest.fixture
def command(store_url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """`engram lock break shop:src/**` as a person runs it; what it prints."""

    def break_it(*options: str, code: int = 0) -> str:
        capsys.readouterr()
        given = ["--store", store_url, "lock", "break", "shop:src/**", "--reason", "needed", *options]
        assert run_command(given) == code
        return "".join(capsys.readouterr())

    return break_it


def refused(eng: Engram, resource: str, by: str | None, token: int) -> str:
    """The error of a call that must change nothing."""
    before = eng.changes.latest
    with pytest.raises(LeaseNotFound) as error:
        eng.leases.break_lease(resource, by, "needed", token=token)
    assert eng.changes.latest == before
    assert error.value.message.endswith("Nothing was broken.")
    return error.value.message


@pytest.mark.requirement("LEASE-13")
def test_with_a_token_only_that_claim_is_broken(eng: Engram, claims: tuple[Lease, Lease]) -> None:
    file, folder = claims
    assert eng.leases.break_lease(ROUTER, None, "it is silent", token=file.token) == [file]
    assert eng.leases.list() == [folder]
    assert eng.sessions.logs(folder.session_id) == []
    (loss,) = eng.sessions.logs(file.session_id)
    assert loss.content == f"Lost the claim on {ROUTER}: broken by a person: it is silent"


@pytest.mark.requirement("LEASE-13")
def test_a_session_that_lost_a_claim_gets_the_reason_as_a_message_until_it_is_forgotten(
    eng: Engram, claims: tuple[Lease, Lease]
) -> None:
    file, folder = claims
    eng.leases.break_lease(ROUTER, folder.session_id, "it is silent")
    (told,) = eng.messages.inbox(file.session_id, peek=True)
    assert told.text == f"Lost the claim on {ROUTER}: broken by {folder.session_id}: it is silent"
    assert told.from_session == folder.session_id
    assert eng.messages.inbox(folder.session_id, peek=True) == []
    # The reason is the words of the session that broke the claim.
    (said,) = eng.sessions.logs(folder.session_id)
    receipt = eng.forget(exchange=said.id)
    assert receipt.counts["messages"] == 1
    assert eng.messages.list() == []
    assert eng.sessions.logs(file.session_id) == []

    eng.leases.break_lease("shop:src/**", None, "the folder moves")
    (told,) = eng.messages.inbox(folder.session_id)
    assert (told.from_session, told.text.rpartition(": ")[2]) == (None, "the folder moves")
    (lost,) = [each for each in eng.sessions.logs(folder.session_id) if each.content == told.text]
    eng.messages.send(None, folder.session_id, "This one stays.")
    eng.forget(exchange=lost.id)
    assert [message.text for message in eng.messages.list()] == ["This one stays."]


@pytest.mark.requirement("LEASE-13")
def test_a_claim_that_is_gone_is_not_broken_even_if_another_one_has_the_resource(
    eng: Engram, claims: tuple[Lease, Lease], clock: ShiftedClock
) -> None:
    file, folder = claims
    eng.leases.release(file.session_id, ROUTER)
    again = eng.leases.claim(file.session_id, ROUTER, ttl=60)
    message = refused(eng, ROUTER, None, file.token)
    assert f"The claim {file.token} on {ROUTER!r} is gone: it was released" in message
    for each in (again, folder):
        assert f"{each.session_id} ({each.resource!r}, token {each.token})" in message
    clock.advance(61)
    assert "it was expired" in refused(eng, ROUTER, None, again.token)
    assert f"There is no claim with token {again.token + 1}" in refused(eng, ROUTER, None, again.token + 1)
    assert eng.leases.list() == [folder]


@pytest.mark.requirement("LEASE-13")
def test_a_token_of_another_resource_or_of_ones_own_claim_breaks_nothing(
    eng: Engram, claims: tuple[Lease, Lease]
) -> None:
    file, folder = claims
    assert f"is on {ROUTER!r}, not on 'shop:docs'" in refused(eng, "shop:docs", None, file.token)
    assert "is your own" in refused(eng, ROUTER, file.session_id, file.token)
    with pytest.raises(InvalidInput, match="token"):
        eng.leases.break_lease(ROUTER, None, "needed", token=0)
    assert eng.leases.list() == [file, folder]


@pytest.mark.requirement("LEASE-13", "STORE-16")
def test_a_token_of_another_workspace_breaks_nothing(eng: Engram, claims: tuple[Lease, Lease]) -> None:
    other = eng.workspace("other")
    assert "There is no claim with token" in refused(other, ROUTER, None, claims[0].token)
    assert len(eng.leases.list()) == 2


@pytest.mark.requirement("LEASE-13")
def test_the_operation_takes_a_token_and_works_without_one(eng: Engram, claims: tuple[Lease, Lease]) -> None:
    me = eng.sessions.register("codex", "Breaking")
    given = {"session": me, "resource": ROUTER, "reason": "needed"}
    for each, options in zip(claims, ({"token": claims[0].token}, {}), strict=True):
        result = run(eng, OPERATIONS["lock.break"], {**given, **options})["result"]
        assert isinstance(result, list) and [lease["token"] for lease in result] == [each.token]


@pytest.mark.requirement("LEASE-13")
def test_the_command_breaks_one_claim_by_its_token_or_names_all_that_it_broke(
    eng: Engram, claims: tuple[Lease, Lease], command: Callable[..., str]
) -> None:
    file, folder = claims
    extra = eng.leases.claim(file.session_id, "shop:src/limits.py")
    assert (
        command("--token", str(file.token))
        == f"Ended the claim of {file.session_id} on {ROUTER} (token {file.token}).\n"
    )
    assert eng.leases.list() == [folder, extra._replace(conflicts=())]
    assert "is gone: it was broken" in command("--token", str(file.token), code=3)
    assert command().splitlines() == [
        f"Ended the claim of {each.session_id} on {each.resource} (token {each.token})." for each in (folder, extra)
    ]
