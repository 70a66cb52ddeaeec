"""Logins of browsers and limits on attempts: what works once works once, however many try."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from engram import Engram, InvalidInput, TooManyRequests, Unauthorized
from engram.access_records import OWNER
from tests._tables import values
from tests.conftest import ShiftedClock


def at_once(count: int, call: Callable[[int], object]) -> list[object]:
    """The results or errors of calls that begin together."""
    barrier = threading.Barrier(count)
    results: list[object] = [None] * count

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = call(number)
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.requirement("ACCESS-8")
def test_a_link_logs_in_once_with_the_grant_of_its_maker(eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "write", workspace="team")
    code = eng.access.logins.make_link(eng.access.tokens.verify(made.secret))
    grant = eng.access.logins.grant_of(eng.access.logins.use_link(code))
    assert (grant.name, grant.scope, grant.workspace, grant.token_id) == ("laptop", "write", "team", made.token.id)
    assert grant.expires_at is not None
    with pytest.raises(Unauthorized, match="used already"):
        eng.access.logins.use_link(code)


@pytest.mark.requirement("ACCESS-8")
def test_of_many_browsers_with_one_link_one_gets_in(open_store: Callable[..., Engram]) -> None:
    stores = [open_store() for _ in range(4)]
    code = stores[0].access.logins.make_link(OWNER)
    results = at_once(8, lambda number: stores[number % 4].access.logins.use_link(code))
    assert len([result for result in results if isinstance(result, str)]) == 1
    assert [type(result) for result in results].count(Unauthorized) == 7


@pytest.mark.requirement("ACCESS-8")
def test_a_link_expires(eng: Engram, clock: ShiftedClock, store_url: str) -> None:
    code = eng.access.logins.make_link(OWNER, expires=600)
    clock.advance(601)
    with pytest.raises(Unauthorized, match="expired"):
        eng.access.logins.use_link(code)
    eng.access.logins.make_link(OWNER)
    assert len(values(store_url, "access_links", "id")) == 1, "what has expired is removed"


@pytest.mark.requirement("ACCESS-9")
def test_a_token_that_is_pasted_logs_in(eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "read")
    assert eng.access.logins.grant_of(eng.access.logins.log_in(made.secret)).name == "laptop"
    with pytest.raises(Unauthorized):
        eng.access.logins.log_in(made.secret[:-1])


@pytest.mark.requirement("ACCESS-9")
def test_a_login_ends_when_the_browser_logs_out(eng: Engram) -> None:
    cookie, other = eng.access.logins.start(OWNER), eng.access.logins.start(OWNER)
    eng.access.logins.end(cookie)
    eng.access.logins.end(cookie)
    eng.access.logins.end("nonsense")
    with pytest.raises(Unauthorized):
        eng.access.logins.grant_of(cookie)
    assert eng.access.logins.grant_of(other)._replace(expires_at=None) == OWNER


@pytest.mark.requirement("ACCESS-9")
def test_a_login_expires_by_itself_and_with_its_token(eng: Engram, clock: ShiftedClock, store_url: str) -> None:
    made = eng.access.tokens.create("short", "read", expires=100)
    long, short = eng.access.logins.start(OWNER), eng.access.logins.log_in(made.secret)
    assert eng.access.logins.grant_of(short).expires_at == made.token.expires_at
    clock.advance(101)
    with pytest.raises(Unauthorized, match="expired"):
        eng.access.logins.grant_of(short)
    assert eng.access.logins.grant_of(long).scope == "admin"
    clock.advance(7 * 86_400)
    with pytest.raises(Unauthorized, match="expired"):
        eng.access.logins.grant_of(long)
    eng.access.logins.start(OWNER)
    assert len(values(store_url, "access_logins", "id")) == 1, "what has expired is removed"


@pytest.mark.requirement("ACCESS-9")
def test_revoking_a_token_ends_its_logins_and_links(eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "admin")
    grant = eng.access.tokens.verify(made.secret)
    cookie, code = eng.access.logins.start(grant), eng.access.logins.make_link(grant)
    eng.access.tokens.revoke("laptop")
    for attempt in (
        lambda: eng.access.logins.grant_of(cookie),
        lambda: eng.access.logins.use_link(code),
        lambda: eng.access.logins.start(grant),
        lambda: eng.access.logins.make_link(grant),
    ):
        with pytest.raises(Unauthorized):
            attempt()


@pytest.mark.requirement("ACCESS-9")
def test_no_secret_can_be_used_as_one_of_another_kind(eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "admin")
    code, cookie = eng.access.logins.make_link(OWNER), eng.access.logins.start(OWNER)
    for attempt, wrong in (
        (eng.access.logins.use_link, (made.secret, cookie)),
        (eng.access.logins.grant_of, (made.secret, code)),
        (eng.access.tokens.verify, (code, cookie)),
    ):
        for secret in wrong:
            with pytest.raises(Unauthorized):
                attempt(secret)


@pytest.mark.requirement("ACCESS-10")
def test_attempts_are_limited_within_a_time(eng: Engram, clock: ShiftedClock) -> None:
    for _ in range(3):
        eng.access.attempts.allow("login/1.2.3.4", 3, 60)
    clock.advance(20)
    with pytest.raises(TooManyRequests) as refused:
        eng.access.attempts.allow("login/1.2.3.4", 3, 60)
    assert 38 <= refused.value.retry_after <= 40
    assert refused.value.details() == {"retry_after": refused.value.retry_after}
    eng.access.attempts.allow("login/5.6.7.8", 3, 60)
    clock.advance(41)
    eng.access.attempts.allow("login/1.2.3.4", 3, 60)


@pytest.mark.requirement("ACCESS-10")
def test_several_servers_count_together(open_store: Callable[..., Engram]) -> None:
    stores = [open_store() for _ in range(4)]
    results = at_once(8, lambda number: stores[number % 4].access.attempts.allow("login", 5, 60))
    assert [type(result) for result in results].count(TooManyRequests) == 3


@pytest.mark.requirement("ACCESS-10")
def test_a_refused_attempt_does_not_prolong_the_wait(eng: Engram, clock: ShiftedClock) -> None:
    eng.access.attempts.allow("login", 1, 60)
    for _ in range(5):
        clock.advance(11)
        with pytest.raises(TooManyRequests):
            eng.access.attempts.allow("login", 1, 60)
    clock.advance(6)
    eng.access.attempts.allow("login", 1, 60)


@pytest.mark.requirement("ACCESS-10")
def test_a_success_begins_anew(eng: Engram) -> None:
    eng.access.attempts.allow("login", 1, 60)
    eng.access.attempts.reset("login")
    eng.access.attempts.allow("login", 1, 60)
    with pytest.raises(InvalidInput):
        eng.access.attempts.allow("login", 0, 60)
    with pytest.raises(InvalidInput):
        eng.access.attempts.allow("login", 1, 0)


@pytest.mark.requirement("ACCESS-10")
def test_counters_hold_no_address_and_do_not_pile_up(eng: Engram, clock: ShiftedClock, store_url: str) -> None:
    for number in range(30):
        eng.access.attempts.allow(f"login/1.2.3.{number}", 3, 60)
    assert not [bucket for bucket in values(store_url, "access_attempts", "bucket") if "1.2.3" in bucket]
    clock.advance(61)
    for number in range(3):
        eng.access.attempts.allow(f"other/{number}", 3, 60)
    assert len(values(store_url, "access_attempts", "bucket")) == 3
