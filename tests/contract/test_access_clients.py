"""OAuth clients: who is let in by whom, for how long, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram import ClientNotFound, Engram, Forbidden, InvalidInput, TokenNotFound, TooManyRequests, Unauthorized
from engram.access import clients as module
from engram.access.clients import plain_name
from engram.access.secret_texts import digest
from engram.access_records import OWNER, Grant, IssuedTokens
from tests._tables import dump, values
from tests.conftest import ShiftedClock
from tests.contract.test_access_logins import at_once

METADATA = {"client_name": "Claude Code", "redirect_uris": ["http://localhost:1234/callback"]}
ASKED = {"state": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmnop", "code_challenge": "c" * 43}


@pytest.fixture
def client(eng: Engram) -> str:
    return eng.access.clients.register("client-1", METADATA, "s" * 64).id


def let_in(eng: Engram, client: str, grant: Grant = OWNER, scope: str = "write", **given: Any) -> str:
    """The code of an approved request."""
    code, _ = eng.access.consents.approve(eng.access.consents.ask(client, ASKED), grant, scope, **given)
    return code


def tokens_of(eng: Engram, client: str, grant: Grant = OWNER, scope: str = "write", **given: Any) -> IssuedTokens:
    return eng.access.consents.exchange_code(client, let_in(eng, client, grant, scope, **given))


def admin(eng: Engram, **given: Any) -> Grant:
    return eng.access.tokens.verify(eng.access.tokens.create("laptop", "admin", **given).secret)


def refused(eng: Engram, issued: IssuedTokens, client: str = "client-1") -> bool:
    """Whether none of the tokens works any more."""
    with pytest.raises(Unauthorized):
        eng.access.tokens.verify(issued.access_token)
    assert eng.access.consents.refresh_token(client, issued.refresh_token) is None
    with pytest.raises(Unauthorized):
        eng.access.consents.exchange_refresh(client, issued.refresh_token)
    return True


@pytest.mark.requirement("ACCESS-17")
def test_a_client_is_registered_listed_and_found(eng: Engram, client: str) -> None:
    found = eng.access.clients.get(client)
    assert found is not None and eng.access.clients.list() == [found]
    assert (found.id, found.name, found.metadata, found.used_at) == (client, "Claude Code", METADATA, None)
    assert found.hash == digest("s" * 64) and "s" * 64 not in repr(found)
    assert eng.access.clients.has_secret(found, "s" * 64) and not eng.access.clients.has_secret(found, "s" * 63)
    for unknown in ("nobody", "", "a\nb", "x" * 1_000, "a\x00b", None):
        assert eng.access.clients.get(unknown) is None
    with pytest.raises(InvalidInput, match="already"):
        eng.access.clients.register(client, METADATA)
    public = eng.access.clients.register("public", {})
    assert (public.name, public.hash) == ("client", None) and not eng.access.clients.has_secret(public, "")


@pytest.mark.requirement("ACCESS-17")
def test_the_metadata_of_a_client_is_bounded(eng: Engram) -> None:
    for wrong in ({"client_name": "x" * 9_000}, {"jwks": {1, 2}}):
        with pytest.raises(InvalidInput):
            eng.access.clients.register("client", wrong)
    assert eng.access.clients.list() == []


@pytest.mark.requirement("ACCESS-17")
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Claude Code", "Claude Code"),
        (None, "client"),
        (7, "client"),
        ("   ", "client"),
        ("a\nb\x1b[31m", "a b�[31m"),
        ("laptop (oauth)", "laptop"),
        ("laptop (OAuth) (oauth) ", "laptop"),
        ("(oauth)", "client"),
        ("<engram-context>", "<engram context>"),
        ("x" * 500, "x" * 91 + "…"),
    ],
)
def test_a_client_cannot_choose_a_misleading_name(given: object, shown: str) -> None:
    assert plain_name(given) == shown


@pytest.mark.requirement("ACCESS-18")
def test_a_registration_that_is_not_used_ends_after_a_day(eng: Engram, client: str, clock: ShiftedClock) -> None:
    used = eng.access.clients.register("used", METADATA).id
    tokens_of(eng, used)
    clock.advance(86_401)
    eng.access.clients.register("new", METADATA)
    assert [each.id for each in eng.access.clients.list()] == ["used", "new"]
    assert client not in ("used", "new")


@pytest.mark.requirement("ACCESS-18")
def test_the_number_of_clients_is_limited(eng: Engram, monkeypatch: pytest.MonkeyPatch, clock: ShiftedClock) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 3)
    for id in ("a", "b", "c"):
        eng.access.clients.register(id, METADATA)
        clock.advance(1)
    tokens_of(eng, "a")
    eng.access.clients.register("d", METADATA)
    assert [each.id for each in eng.access.clients.list()] == ["a", "c", "d"], "the oldest unused one goes"
    for id in ("c", "d"):
        tokens_of(eng, id)
    with pytest.raises(TooManyRequests) as full:
        eng.access.clients.register("e", METADATA)
    assert full.value.retry_after > 0
    clock.advance(31 * 86_400)
    eng.access.clients.register("e", METADATA)
    assert [each.id for each in eng.access.clients.list()] == ["c", "d", "e"], "one whose consents have ended goes"


@pytest.mark.requirement("ACCESS-19")
def test_a_person_lets_a_client_in_and_it_gets_tokens(eng: Engram, client: str) -> None:
    secret = eng.access.consents.ask(client, ASKED | {"resource": "https://example.org/mcp"})
    request = eng.access.consents.request(secret)
    assert request.client.name == "Claude Code" and request.asked["state"] == ASKED["state"]
    code, approved = eng.access.consents.approve(secret, OWNER, "write", workspace="team")
    assert approved == request
    found = eng.access.consents.code(client, code)
    assert found is not None and (found.client_id, found.scope) == (client, "write")
    assert found.asked == request.asked and found.audience == "https://example.org/mcp"
    issued = eng.access.consents.exchange_code(client, code)
    assert (issued.scope, issued.expires_in) == ("write", 3_600)
    bearer = eng.access.tokens.bearer(issued.access_token)
    assert bearer.grant[:3] == ("Claude Code (oauth)", "write", "team")
    assert (bearer.client_id, bearer.audience) == (client, "https://example.org/mcp")
    (listed,) = eng.access.clients.list()
    (consent,) = listed.consents
    assert (consent.name, consent.scope, consent.workspace) == ("Claude Code (oauth)", "write", "team")
    assert consent.last_used_at is not None and listed.used_at is not None
    assert [token.client_id for token in eng.access.tokens.list()] == [client]


@pytest.mark.requirement("ACCESS-19")
def test_no_secret_of_oauth_is_stored_or_shown(eng: Engram, client: str, store_url: str) -> None:
    secret = eng.access.consents.ask(client, ASKED)
    code = let_in(eng, client)
    issued = tokens_of(eng, client)
    stored = repr(dump(store_url))
    for each in (secret, code, issued.access_token, issued.refresh_token, "s" * 64):
        assert each[-43:] not in stored
    assert issued.access_token[-43:] not in repr(issued) and issued.refresh_token[-43:] not in f"{issued}"


@pytest.mark.requirement("ACCESS-19")
def test_a_name_can_be_chosen_at_the_consent(eng: Engram, client: str) -> None:
    issued = tokens_of(eng, client, name="my editor\n(oauth)")
    assert eng.access.tokens.verify(issued.access_token).name == "my editor (oauth)"
    eng.access.tokens.create("my editor", "read")
    with pytest.raises(InvalidInput):
        eng.access.tokens.create("my editor (oauth)", "read")


@pytest.mark.requirement("ACCESS-19")
def test_a_request_is_decided_once_and_expires(eng: Engram, client: str, clock: ShiftedClock, store_url: str) -> None:
    approved, denied, old = (eng.access.consents.ask(client, ASKED) for _ in range(3))
    eng.access.consents.approve(approved, OWNER, "read")
    assert eng.access.consents.refuse(denied).client.id == client
    for secret in (approved, denied):
        with pytest.raises(Unauthorized):
            eng.access.consents.approve(secret, OWNER, "read")
        with pytest.raises(Unauthorized):
            eng.access.consents.request(secret)
    clock.advance(601)
    with pytest.raises(Unauthorized):
        eng.access.consents.request(old)
    eng.access.consents.ask(client, ASKED)
    assert len(values(store_url, "access_requests", "id")) == 1
    with pytest.raises(Unauthorized, match="not registered"):
        eng.access.consents.ask("nobody", ASKED)


@pytest.mark.requirement("ACCESS-19")
def test_requests_of_a_client_are_bounded(eng: Engram, client: str, store_url: str) -> None:
    for _ in range(25):
        secret = eng.access.consents.ask(client, ASKED)
    assert len(values(store_url, "access_requests", "id")) == 20
    assert eng.access.consents.request(secret).client.id == client
    with pytest.raises(InvalidInput):
        eng.access.consents.ask(client, {"state": "x" * 20_000})


@pytest.mark.requirement("ACCESS-20")
def test_an_approval_gives_at_most_what_the_person_may_do(eng: Engram, client: str) -> None:
    reader = Grant("reader", "read", "team", None, None)
    secret = eng.access.consents.ask(client, ASKED)
    for scope, workspace in (("write", None), ("read", "other"), ("admin", "team")):
        with pytest.raises(Forbidden):
            eng.access.consents.approve(secret, reader, scope, workspace=workspace)
    for scope, workspace in (("root", None), ("read", "No Such")):
        with pytest.raises(InvalidInput):
            eng.access.consents.approve(secret, OWNER, scope, workspace=workspace)
    code, _ = eng.access.consents.approve(secret, reader, "read")
    grant = eng.access.tokens.verify(eng.access.consents.exchange_code(client, code).access_token)
    assert (grant.scope, grant.workspace) == ("read", "team"), "the workspace of the person's token"


@pytest.mark.requirement("ACCESS-20")
def test_revoking_the_token_of_a_person_ends_what_it_let_in(eng: Engram, client: str) -> None:
    grant = admin(eng)
    through_login = eng.access.logins.grant_of(eng.access.logins.start(grant))
    ended = [tokens_of(eng, client, grant), tokens_of(eng, client, through_login)]
    code, kept = let_in(eng, client, grant), tokens_of(eng, client)
    eng.access.tokens.revoke("laptop")
    assert all(refused(eng, issued) for issued in ended)
    assert eng.access.consents.code(client, code) is None
    with pytest.raises(Unauthorized):
        let_in(eng, client, grant)
    assert eng.access.tokens.verify(kept.access_token).scope == "write"


@pytest.mark.requirement("ACCESS-20")
def test_no_token_outlives_the_token_of_the_person(eng: Engram, client: str, clock: ShiftedClock) -> None:
    issued = tokens_of(eng, client, admin(eng, expires=600))
    assert issued.expires_in <= 600
    clock.advance(601)
    assert refused(eng, issued)


@pytest.mark.requirement("ACCESS-21")
def test_a_code_works_once_and_a_second_use_revokes_what_it_gave(eng: Engram, client: str) -> None:
    for second in ("load", "exchange"):
        code = let_in(eng, client)
        issued = eng.access.consents.exchange_code(client, code)
        assert eng.access.tokens.verify(issued.access_token).scope == "write"
        if second == "load":
            assert eng.access.consents.code(client, code) is None
        else:
            with pytest.raises(Unauthorized, match="used before"):
                eng.access.consents.exchange_code(client, code)
        assert refused(eng, issued)


@pytest.mark.requirement("ACCESS-21")
def test_a_code_of_another_client_is_unknown_and_ends_nothing(eng: Engram, client: str) -> None:
    other = eng.access.clients.register("other", METADATA).id
    code = let_in(eng, client)
    assert eng.access.consents.code(other, code) is None
    with pytest.raises(Unauthorized):
        eng.access.consents.exchange_code(other, code)
    issued = eng.access.consents.exchange_code(client, code)
    assert eng.access.consents.code(other, code) is None
    assert eng.access.consents.refresh_token(other, issued.refresh_token) is None
    with pytest.raises(Unauthorized):
        eng.access.consents.exchange_refresh(other, issued.refresh_token)
    assert eng.access.tokens.verify(issued.access_token).scope == "write"


@pytest.mark.requirement("ACCESS-21")
def test_a_code_expires(eng: Engram, client: str, clock: ShiftedClock) -> None:
    code = let_in(eng, client, expires=60)
    clock.advance(61)
    assert eng.access.consents.code(client, code) is None
    with pytest.raises(Unauthorized):
        eng.access.consents.exchange_code(client, code)
    for wrong in ("", "nonsense", "engramc_0123456789ab_" + "x" * 43):
        assert eng.access.consents.code(client, wrong) is None


@pytest.mark.requirement("ACCESS-21")
def test_of_many_exchanges_of_one_code_at_once_one_gets_tokens(open_store: Callable[..., Engram]) -> None:
    stores = [open_store() for _ in range(4)]
    client = stores[0].access.clients.register("client-1", METADATA).id
    code = let_in(stores[0], client)
    results = at_once(8, lambda number: stores[number % 4].access.consents.exchange_code(client, code))
    (issued,) = [result for result in results if isinstance(result, IssuedTokens)]
    assert [type(result) for result in results].count(Unauthorized) == 7
    assert refused(stores[0], issued), "a second use revokes"


@pytest.mark.requirement("ACCESS-21")
def test_of_many_approvals_of_one_request_at_once_one_succeeds(open_store: Callable[..., Engram]) -> None:
    stores = [open_store() for _ in range(4)]
    secret = stores[0].access.consents.ask(stores[0].access.clients.register("client-1", METADATA).id, ASKED)
    results = at_once(8, lambda number: stores[number % 4].access.consents.approve(secret, OWNER, "read"))
    assert [type(result) for result in results].count(tuple) == 1
    assert [type(result) for result in results].count(Unauthorized) == 7


@pytest.mark.requirement("ACCESS-22")
def test_a_refresh_token_is_exchanged_for_new_tokens(eng: Engram, client: str, clock: ShiftedClock) -> None:
    issued = tokens_of(eng, client)
    clock.advance(3_601)
    with pytest.raises(Unauthorized, match="expired"):
        eng.access.tokens.verify(issued.access_token)
    found = eng.access.consents.refresh_token(client, issued.refresh_token)
    assert found is not None and (found.scope, found.asked) == ("write", {})
    new = eng.access.consents.exchange_refresh(client, issued.refresh_token)
    assert new.refresh_token != issued.refresh_token
    assert eng.access.tokens.verify(new.access_token).name == "Claude Code (oauth)"
    clock.advance(30 * 86_400 - 10)
    last = eng.access.consents.exchange_refresh(client, new.refresh_token)
    clock.advance(30 * 86_400 + 1)
    assert refused(eng, last)


@pytest.mark.requirement("ACCESS-22")
def test_an_old_refresh_token_revokes_everything_that_came_from_it(eng: Engram, client: str) -> None:
    for reuse in ("load", "exchange"):
        other, issued = tokens_of(eng, client), tokens_of(eng, client)
        new = eng.access.consents.exchange_refresh(client, issued.refresh_token)
        newest = eng.access.consents.exchange_refresh(client, new.refresh_token)
        if reuse == "load":
            assert eng.access.consents.refresh_token(client, issued.refresh_token) is None
        else:
            with pytest.raises(Unauthorized, match="used before"):
                eng.access.consents.exchange_refresh(client, issued.refresh_token)
        for each in (issued, new, newest):
            assert refused(eng, each)
        assert eng.access.tokens.verify(other.access_token).scope == "write", "another consent goes on"


@pytest.mark.requirement("ACCESS-22")
def test_a_refresh_may_ask_for_less_but_not_for_more(eng: Engram, client: str) -> None:
    issued = tokens_of(eng, client)
    with pytest.raises(InvalidInput, match="consented to write"):
        eng.access.consents.exchange_refresh(client, issued.refresh_token, "admin")
    less = eng.access.consents.exchange_refresh(client, issued.refresh_token, "read")
    assert eng.access.tokens.verify(less.access_token).scope == less.scope == "read"
    again = eng.access.consents.exchange_refresh(client, less.refresh_token)
    assert eng.access.tokens.verify(again.access_token).scope == "write"


@pytest.mark.requirement("ACCESS-22")
def test_a_client_ends_its_own_tokens(eng: Engram, client: str) -> None:
    for number in range(2):
        issued = tokens_of(eng, client)
        eng.access.consents.revoke((issued.access_token, issued.refresh_token)[number])
        assert refused(eng, issued)
    by_person = eng.access.tokens.create("laptop", "read")
    for other in (by_person.secret, "nonsense", issued.access_token[:-1] + "x"):
        eng.access.consents.revoke(other)
    assert eng.access.tokens.verify(by_person.secret).name == "laptop"


@pytest.mark.requirement("ACCESS-23")
def test_removing_a_client_revokes_its_tokens(eng: Engram, client: str, store_url: str) -> None:
    other = eng.access.clients.register("other", METADATA).id
    issued, kept = tokens_of(eng, client), tokens_of(eng, other)
    code, secret = let_in(eng, client), eng.access.consents.ask(client, ASKED)
    cookie = eng.access.logins.log_in(issued.access_token)
    assert eng.access.clients.remove(client).name == "Claude Code"
    assert refused(eng, issued) and eng.access.consents.code(client, code) is None
    with pytest.raises(Unauthorized):
        eng.access.consents.request(secret)
    with pytest.raises(Unauthorized, match="ended"):
        eng.access.logins.grant_of(cookie)
    with pytest.raises(ClientNotFound):
        eng.access.clients.remove(client)
    assert eng.access.tokens.verify(kept.access_token).scope == "write"
    assert values(store_url, "access_codes", "client_id") == ["other", "other"]


@pytest.mark.requirement("ACCESS-23")
def test_the_token_of_a_client_is_revoked_by_its_id_with_its_consent(eng: Engram, client: str) -> None:
    issued = tokens_of(eng, client)
    with pytest.raises(TokenNotFound):
        eng.access.tokens.revoke("Claude Code (oauth)")
    eng.access.tokens.revoke(issued.access_token.split("_")[1])
    assert refused(eng, issued)
    assert eng.access.clients.list()[0].consents == ()


@pytest.mark.requirement("ACCESS-23")
def test_what_has_expired_is_removed(eng: Engram, client: str, clock: ShiftedClock, store_url: str) -> None:
    issued = tokens_of(eng, client)
    for _ in range(3):
        clock.advance(3_601)
        issued = eng.access.consents.exchange_refresh(client, issued.refresh_token)
    clock.advance(31 * 86_400)
    tokens_of(eng, client)
    for table, left in (("access_tokens", 1), ("access_consents", 1), ("access_codes", 2)):
        assert len(values(store_url, table, "id")) == left, table
