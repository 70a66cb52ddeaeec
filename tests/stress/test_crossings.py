"""Two operations on the same thing at the same moment: in either order, both keep their promises."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engram import Engram, SessionEnded
from tests.stress._processes import PATIENCE, Crew, Parent, scaled

SENDERS = 4
MESSAGES = scaled(100, 1_500)
OPENERS = 6
NEW_STORES = scaled(10, 250)
#: Seconds for which the first operation keeps its transaction open, so that the second can overtake it if possible.
CROSSING = 0.5


def send(parent: Parent, url: str, sender: str, recipient: str, seed: int) -> list[int]:
    """Messages in transactions of any length, so that they are committed in another order than they are numbered."""
    chance = random.Random(seed)
    sent = []
    with Engram(url) as eng:
        parent.tell("ready")
        parent.wait()
        for number in range(MESSAGES):
            with eng.write():
                sent.append(eng.messages.send(sender, recipient, f"question {number}").id)
                time.sleep(chance.uniform(0, 0.003))
    return sent


@pytest.mark.requirement("MESSAGE-2", "STRESS-1")
def test_every_message_is_delivered_once_while_others_are_being_sent(store_url: str, crew: Crew) -> None:
    with Engram(store_url) as eng:
        recipient, *everybody = (eng.sessions.register("agent", "talking") for _ in range(1 + SENDERS))
        senders = [crew.start(send, store_url, sender, recipient, seed) for seed, sender in enumerate(everybody)]
        for sender in senders:
            sender.hear()
        for sender in senders:
            sender.call()
        received: list[int] = []
        deadline = time.monotonic() + PATIENCE
        while not all(sender.has_news() for sender in senders):
            assert time.monotonic() < deadline, "the senders did not end"
            received += [message.id for message in eng.messages.inbox(recipient)]
        sent = [id for sender in senders for id in sender.result()]
        received += [message.id for message in eng.messages.inbox(recipient)]
    assert sorted(received) == sorted(sent)


def open_new_stores(parent: Parent, paths: list[str]) -> None:
    for path in paths:
        parent.tell("ready")
        parent.wait()
        with Engram(path) as eng:
            eng.sessions.log(eng.sessions.register("agent", "first"), "here")


@pytest.mark.requirement("MIGRATE-1", "STRESS-1")
def test_processes_that_create_the_same_store_at_once_all_get_it(
    tmp_path: Path, sqlite_url: str, store_url: str, crew: Crew
) -> None:
    urls = [store_url]
    if store_url == sqlite_url:  # a file is quickly made anew
        urls += [str(tmp_path / f"store-{number}" / "engram.db") for number in range(NEW_STORES)]
    openers = [crew.start(open_new_stores, urls) for _ in range(OPENERS)]
    for _ in urls:
        for opener in openers:
            opener.hear()
        for opener in openers:
            opener.call()
    for opener in openers:
        opener.result()
    for url in urls:
        with Engram(url) as eng:
            assert eng.sessions.stats().logs == OPENERS


def claim(eng: Engram, session: str) -> None:
    eng.leases.claim(session, "router")


def complete(eng: Engram, session: str) -> None:
    eng.sessions.complete(session, "done")


@pytest.mark.requirement("SESSION-3", "LEASE-16")
@pytest.mark.parametrize(("first", "second"), [(claim, complete), (complete, claim)])
def test_a_session_that_is_completed_during_a_claim_keeps_no_lease(
    store_url: str, first: Callable[[Engram, str], None], second: Callable[[Engram, str], None]
) -> None:
    with Engram(store_url) as eng:
        session = eng.sessions.register("agent", "both at once")
        refused = cross(eng, lambda: first(eng, session), lambda: second(eng, session))
        assert isinstance(refused, SessionEnded | None)
        assert eng.sessions.get(session).status == "completed"
        assert eng.leases.list() == []


@pytest.mark.requirement("LEASE-10", "LEASE-11")
def test_a_claim_during_a_release_of_the_same_resource_is_held(store_url: str) -> None:
    with Engram(store_url) as eng:
        session = eng.sessions.register("agent", "both at once")
        eng.leases.claim(session, "router")
        tokens: list[int] = []
        refused = cross(
            eng,
            lambda: eng.leases.release(session, "router"),
            lambda: tokens.append(eng.leases.claim(session, "router").token),
        )
        assert refused is None
        assert [lease.token for lease in eng.leases.list()] == tokens


def cross(eng: Engram, first: Callable[[], object], second: Callable[[], object]) -> BaseException | None:
    """Do the second while the first is done but not committed; what the second raised, if anything."""
    done, finished = threading.Event(), threading.Event()

    def do_first() -> None:
        with eng.write():
            first()
            done.set()
            finished.wait(CROSSING)  # in vain, where the engine makes the second wait for us

    def do_second() -> None:
        assert done.wait(PATIENCE)
        try:
            second()
        finally:
            finished.set()

    with ThreadPoolExecutor(2) as threads:
        ahead, behind = threads.submit(do_first), threads.submit(do_second)
        ahead.result(PATIENCE)
        return behind.exception(PATIENCE)
