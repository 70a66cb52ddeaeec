"""Messages between sessions, on both engines; then, for all of coordination, what is refused before it is written."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engram import Engram, InvalidInput, LeaseHeld, Message, NoRecipient, SessionNotFound
from engram.config import load
from engram.coordination.messages import PATIENCE
from tests.conftest import ShiftedClock

OpenStore = Callable[..., Engram]


def sessions(eng: Engram, count: int) -> list[str]:
    """Active sessions, in the order in which recipients are named."""
    return sorted(eng.sessions.register("codex", f"Agent {number}") for number in range(count))


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


@pytest.mark.requirement("MESSAGE-1", "MESSAGE-2")
def test_a_message_to_a_session_reaches_that_session_alone(eng: Engram, open_store: OpenStore) -> None:
    a, b, c = sessions(eng, 3)
    sent = eng.messages.send(a, b, "Are you done?\nI need the router.")
    assert (sent.from_session, sent.to, sent.recipients) == (a, b, (b,))
    assert eng.messages.inbox(a) == eng.messages.inbox(c) == []
    assert open_store().messages.inbox(b) == [sent._replace(recipients=())]


@pytest.mark.requirement("MESSAGE-1")
def test_a_person_can_send_too(eng: Engram) -> None:
    (a,) = sessions(eng, 1)
    eng.messages.send(None, a, "Stop, please")
    assert eng.messages.inbox(a)[0].from_session is None
    eng.messages.send(None, "*", "All of you")
    assert texts(eng.messages.inbox(a)) == ["All of you"]


@pytest.mark.requirement("MESSAGE-1")
@pytest.mark.parametrize("to", ["shop:src/router.py", "shop:src", "shop:src/**", "shop:**/*.py"])
def test_a_message_to_a_resource_reaches_the_other_live_holders_of_it(
    eng: Engram, clock: ShiftedClock, to: str
) -> None:
    sender, exact, pattern, elsewhere, released, expired = sessions(eng, 6)
    for sid, resource in [
        (sender, "shop:src/router.py"),
        (exact, "shop:src/router.py"),
        (pattern, "shop:src/*.py"),
        (elsewhere, "shop:docs/guide.md"),
        (elsewhere, "depot:src/router.py"),
        (released, "shop:src/router.py"),
    ]:
        eng.leases.claim(sid, resource)
    eng.leases.claim(expired, "shop:src/router.py", ttl=60)
    eng.leases.release(released, "shop:src/router.py")
    clock.advance(120)
    sent = eng.messages.send(sender, to, "May I?")
    assert sent.recipients == (exact, pattern)
    assert {sid: texts(eng.messages.inbox(sid)) for sid in (sender, exact, pattern, elsewhere, released, expired)} == {
        sender: [],
        exact: ["May I?"],
        pattern: ["May I?"],
        elsewhere: [],
        released: [],
        expired: [],
    }


@pytest.mark.requirement("MESSAGE-1")
def test_a_message_to_everybody_reaches_every_other_active_session(eng: Engram, clock: ShiftedClock) -> None:
    (lost,) = sessions(eng, 1)
    clock.advance(2 * 86_400)
    sender, a, quiet, done = sessions(eng, 4)
    eng.sessions.complete(done)
    eng.sessions.ensure("chat-7")
    foreign = eng.workspace("other").sessions.register("codex", "Elsewhere")
    clock.advance(3_600)
    eng.sessions.heartbeat(a)
    assert eng.sessions.get(quiet).stale
    sent = eng.messages.send(sender, "*", "The build is broken")
    assert sent.recipients == (a, quiet)
    assert eng.messages.inbox(sender) == eng.messages.inbox(done) == eng.messages.inbox(lost) == []
    assert eng.messages.inbox("chat-7") == eng.workspace("other").messages.inbox(foreign) == []
    assert texts(eng.messages.inbox(quiet)) == ["The build is broken"]
    late = eng.sessions.register("codex", "Came later")
    assert eng.messages.inbox(late) == []


@pytest.mark.requirement("MESSAGE-2")
def test_each_message_is_delivered_once_oldest_first_and_peeking_delivers_none(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    for number in range(3):
        eng.messages.send(a, b, f"message {number}")
    unread = ["message 0", "message 1", "message 2"]
    before = eng.changes()
    assert texts(eng.messages.inbox(b, peek=True)) == texts(eng.messages.inbox(b, peek=True)) == unread
    assert eng.changes() == before
    assert texts(eng.messages.inbox(b)) == unread
    assert eng.messages.inbox(b) == eng.messages.inbox(b, peek=True) == []
    eng.messages.send(a, b, "one more")
    assert texts(eng.messages.inbox(b)) == ["one more"]


@pytest.mark.requirement("MESSAGE-2")
def test_a_message_to_an_ended_session_waits_for_its_return(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    eng.sessions.complete(b)
    eng.messages.send(a, b, "One more thing")
    eng.sessions.heartbeat(b)
    assert texts(eng.messages.inbox(b)) == ["One more thing"]


@pytest.mark.requirement("MESSAGE-2")
def test_an_inbox_that_is_undone_delivers_again(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "hello")
    with pytest.raises(ZeroDivisionError), eng.write():
        assert texts(eng.messages.inbox(b)) == ["hello"]
        raise ZeroDivisionError
    assert texts(eng.messages.inbox(b)) == ["hello"]


@pytest.mark.requirement("MESSAGE-2")
def test_readers_of_one_inbox_at_once_get_each_message_exactly_once(eng: Engram, open_store: OpenStore) -> None:
    a, b = sessions(eng, 2)
    other = open_store()
    stores, barrier = [eng, eng, other, other], threading.Barrier(5)

    def read(store: Engram) -> list[str]:
        barrier.wait(10)
        return [text for _ in range(8) for text in texts(store.messages.inbox(b))]

    def send() -> list[str]:
        barrier.wait(10)
        return [eng.messages.send(a, b, f"during {number}").text for number in range(5)]

    before = [eng.messages.send(a, b, f"before {number}").text for number in range(5)]
    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read, store) for store in stores]
        sent = before + pool.submit(send).result(20)
        received = [text for reader in readers for text in reader.result(20)]
    received += texts(eng.messages.inbox(b))
    assert sorted(received) == sorted(sent)


@pytest.mark.requirement("MESSAGE-2")
def test_messages_are_committed_in_the_order_of_their_numbers(postgres_url: str) -> None:
    """Where writers could overlap: whoever reads up to a number must not miss a lower one that is committed later."""
    with Engram(settings=load(url=postgres_url)) as eng:
        a, b = sessions(eng, 2)
        written, commit = threading.Event(), threading.Event()

        def send_slowly() -> None:
            with eng.write():
                eng.messages.send(a, b, "begun first")
                written.set()
                assert commit.wait(60)

        with ThreadPoolExecutor(2) as pool:
            slow = pool.submit(send_slowly)
            assert written.wait(60)
            quick = pool.submit(eng.messages.send, a, b, "begun second")
            assert texts(eng.messages.inbox(b)) == []
            assert not quick.done()
            commit.set()
            slow.result(60)
            quick.result(60)
        assert texts(eng.messages.inbox(b)) == ["begun first", "begun second"]


@pytest.mark.requirement("MESSAGE-6")
def test_what_was_shown_and_acknowledged_is_read(eng: Engram, clock: ShiftedClock) -> None:
    a, b = sessions(eng, 2)
    sent = eng.messages.send(a, b, "hello")
    shown = eng.messages.show(b)
    assert shown == [sent._replace(recipients=())]
    eng.messages.acknowledge(b, shown)
    clock.advance(2 * PATIENCE)
    assert eng.messages.show(b) == eng.messages.inbox(b) == eng.messages.inbox(b, peek=True) == []


@pytest.mark.requirement("MESSAGE-6")
def test_what_was_shown_and_never_acknowledged_is_shown_once_more_after_a_while(
    eng: Engram, open_store: OpenStore, clock: ShiftedClock
) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "hello")
    assert [(each.text, each.again) for each in eng.messages.show(b)] == [("hello", False)]
    other = open_store()
    # Meanwhile its reader may be about to show it.
    assert other.messages.show(b) == other.messages.inbox(b) == other.messages.inbox(b, peek=True) == []
    assert "hello" not in other.sitrep(session_id=b)
    clock.advance(PATIENCE + 1)
    assert "hello" in other.sitrep(session_id=b)
    assert [each.again for each in other.messages.inbox(b, peek=True)] == [True]
    assert [(each.text, each.again) for each in other.messages.show(b)] == [("hello", True)]
    clock.advance(PATIENCE + 1)
    assert other.messages.show(b) == eng.messages.show(b) == eng.messages.inbox(b) == []


@pytest.mark.requirement("MESSAGE-6")
def test_what_could_not_be_shown_is_given_to_the_next_reader_at_once_and_only_to_one(
    eng: Engram, open_store: OpenStore
) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "hello")
    with pytest.raises(BrokenPipeError), eng.messages.showing(b) as shown:
        assert texts(shown) == ["hello"]
        raise BrokenPipeError
    with pytest.raises(BrokenPipeError), open_store().messages.showing(b) as shown:
        assert [(each.text, each.again) for each in shown] == [("hello", True)]
        raise BrokenPipeError
    assert texts(eng.messages.inbox(b)) == ["hello"], "nobody has seen it"
    assert eng.messages.inbox(b) == []


@pytest.mark.requirement("MESSAGE-6")
@pytest.mark.parametrize("killed", [0, 1])
def test_a_showing_that_was_given_back_does_not_count_and_one_whose_reader_was_killed_does(
    eng: Engram, clock: ShiftedClock, killed: int
) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "hello")
    for _ in range(killed):
        assert texts(eng.messages.show(b)) == ["hello"]
        clock.advance(PATIENCE + 1)
    for _ in range(3):
        shown = eng.messages.show(b)
        assert texts(shown) == ["hello"]
        assert eng.messages.show(b) == []
        eng.messages.give_back(b, shown)
    for _ in range(killed, 2):
        assert texts(eng.messages.show(b)) == ["hello"]
        clock.advance(PATIENCE + 1)
    assert eng.messages.show(b) == eng.messages.inbox(b) == []


@pytest.mark.requirement("MESSAGE-6")
@pytest.mark.parametrize("reader", ["acknowledged", "late", "inbox"])
def test_what_was_read_meanwhile_cannot_be_given_back(eng: Engram, clock: ShiftedClock, reader: str) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "hello")
    first = eng.messages.show(b)
    clock.advance(PATIENCE + 1)
    if reader == "inbox":
        second = eng.messages.inbox(b)
    else:
        second = eng.messages.show(b)
        eng.messages.give_back(b, first)
        assert eng.messages.show(b) == [], "the second reader still has it"
        eng.messages.acknowledge(b, first if reader == "late" else second)
    eng.messages.give_back(b, second)
    clock.advance(PATIENCE + 1)
    assert eng.messages.show(b) == eng.messages.inbox(b) == []


@pytest.mark.requirement("MESSAGE-6")
def test_a_reader_with_little_room_gets_the_oldest_messages_whole_and_leaves_the_others(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    for text in ("x" * 50, "y" * 10, "z" * 20, "w"):
        eng.messages.send(a, b, text)
    seen = []
    while shown := eng.messages.show(b, longest=30):
        seen.append([(each.text[0], len(each.text), each.again) for each in shown])
        eng.messages.acknowledge(b, shown)
    assert seen == [[("x", 50, False)], [("y", 10, False), ("z", 20, False)], [("w", 1, False)]]


@pytest.mark.requirement("MESSAGE-6")
def test_what_a_block_has_shown_is_read_at_its_end(eng: Engram, clock: ShiftedClock) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "hello")
    with eng.messages.showing(b) as shown:
        assert texts(shown) == ["hello"]
    clock.advance(PATIENCE + 1)
    with eng.messages.showing(b) as shown:
        assert shown == []


@pytest.mark.requirement("MESSAGE-6")
def test_acknowledging_late_reads_and_giving_back_late_does_not_unread(eng: Engram, clock: ShiftedClock) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "slow")
    slow = eng.messages.show(b)
    clock.advance(PATIENCE + 1)
    eng.messages.acknowledge(b, slow)
    eng.messages.give_back(b, slow)
    assert eng.messages.inbox(b) == []


@pytest.mark.requirement("MESSAGE-6")
def test_readers_that_show_at_once_never_show_a_message_twice(eng: Engram, open_store: OpenStore) -> None:
    a, b = sessions(eng, 2)
    sent = [eng.messages.send(a, b, f"message {number}").text for number in range(10)]
    other = open_store()
    stores, barrier = [eng, eng, other, other], threading.Barrier(4)

    def read(store: Engram) -> list[str]:
        barrier.wait(10)
        return [text for _ in range(4) for text in texts(store.messages.show(b))]

    with ThreadPoolExecutor(4) as pool:
        shown = [text for reader in [pool.submit(read, store) for store in stores] for text in reader.result(60)]
    assert sorted(shown) == sorted(sent)


@pytest.mark.requirement("MESSAGE-6")
def test_a_reader_that_is_killed_before_it_shows_a_message_does_not_lose_it(
    eng: Engram, store_url: str, clock: ShiftedClock
) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "hello")
    dying = (
        "import os, sys; from engram import Engram\n"
        "Engram(sys.argv[1]).messages.show(sys.argv[2]); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", dying, store_url, b], check=False)
    assert eng.messages.inbox(b) == []
    clock.advance(PATIENCE + 1)
    assert [(each.text, each.again) for each in eng.messages.inbox(b)] == [("hello", True)]


#: Statements of the release before, which knew neither the time of a showing nor words that are due.
OLD_UNREAD = """
SELECT m.id, m.from_session, m.target, m.content, m.created_at
FROM deliveries d JOIN messages m ON m.id = d.message_id
WHERE d.workspace = :workspace AND d.session_id = :session AND d.read_at IS NULL
ORDER BY d.message_id
"""
OLD_MARK_READ = """
UPDATE deliveries SET read_at = :now
WHERE workspace = :workspace AND session_id = :session AND message_id = :message AND read_at IS NULL
"""
OLD_DELIVER = "INSERT INTO deliveries (message_id, workspace, session_id) VALUES (:message, :workspace, :session)"


@pytest.mark.requirement("MESSAGE-7")
def test_the_release_before_reads_and_sends_messages_beside_this_one(eng: Engram, clock: ShiftedClock) -> None:
    a, b = sessions(eng, 2)
    sent = eng.messages.send(a, b, "hello")
    shown = eng.messages.show(b)
    with eng._view.engine.write() as tx:
        assert [row[0] for row in tx.all(OLD_UNREAD, workspace="default", session=b)] == [sent.id]
        assert tx.run(OLD_MARK_READ, workspace="default", session=b, message=sent.id, now=tx.now()) == 1
        tx.run(OLD_DELIVER, workspace="default", session=a, message=sent.id)
    eng.messages.acknowledge(b, shown)
    clock.advance(PATIENCE + 1)
    assert eng.messages.inbox(b) == []
    assert [(each.text, each.again) for each in eng.messages.inbox(a)] == [("hello", False)]


@pytest.mark.requirement("MESSAGE-3")
def test_unread_messages_show_in_the_recipients_report_alone_until_they_are_read(eng: Engram) -> None:
    a, b = sessions(eng, 2)
    eng.messages.send(a, b, "Please leave the schema alone")
    unread = "Please leave the schema alone"
    assert unread in eng.sitrep(session_id=b)
    assert unread in eng.sitrep(session_id=b), "reading the report delivers nothing"
    assert unread not in eng.sitrep(session_id=a)
    assert unread not in eng.sitrep()
    eng.messages.inbox(b)
    assert unread not in eng.sitrep(session_id=b)


@pytest.mark.requirement("MESSAGE-4")
def test_a_session_that_was_refused_a_lease_can_ask_its_holder(eng: Engram) -> None:
    holder, asker = sessions(eng, 2)
    eng.leases.claim(holder, "db:schema", exclusive=True)
    with pytest.raises(LeaseHeld) as refused:
        eng.leases.claim(asker, "db:schema", exclusive=True)
    eng.messages.send(asker, refused.value.holders[0].session_id, "How long will you need?")
    eng.messages.send(asker, refused.value.resource, "I need it today")
    questions = eng.messages.inbox(holder)
    assert texts(questions) == ["How long will you need?", "I need it today"]
    eng.leases.release(holder, "db:schema")
    eng.messages.send(holder, str(questions[0].from_session), "It is yours")
    assert texts(eng.messages.inbox(asker)) == ["It is yours"]
    assert eng.leases.claim(asker, "db:schema", exclusive=True).session_id == asker


@pytest.mark.requirement("MESSAGE-5")
@pytest.mark.parametrize(
    "to",
    [
        pytest.param("20260101-000000-00000000", id="an unknown session"),
        pytest.param("notes:free", id="a resource nobody holds"),
        pytest.param("notes:mine", id="a resource only the sender holds"),
        pytest.param("notes:gone", id="a resource whose claim has expired"),
        pytest.param("*", id="everybody when nobody else is active"),
    ],
)
def test_a_message_nobody_would_get_is_an_error_and_leaves_no_trace(eng: Engram, clock: ShiftedClock, to: str) -> None:
    a, b = sessions(eng, 2)
    eng.leases.claim(a, "notes:mine")
    eng.leases.claim(b, "notes:gone", ttl=60)
    eng.sessions.complete(b)
    clock.advance(120)
    changes = eng.changes()
    with pytest.raises(NoRecipient):
        eng.messages.send(a, to, "Anybody?")
    assert eng.changes() == changes


LETTER = Message(1, None, "*", "hello", "2026-01-01T00:00:00.000000Z")

#: Every call that names a session, with what else it needs.
NAMES_A_SESSION: dict[str, Callable[[Engram, Any], object]] = {
    "get": lambda eng, sid: eng.sessions.get(sid),
    "heartbeat": lambda eng, sid: eng.sessions.heartbeat(sid),
    "heartbeat with a summary": lambda eng, sid: eng.sessions.heartbeat(sid, "Here"),
    "log": lambda eng, sid: eng.sessions.log(sid, "done"),
    "logs": lambda eng, sid: eng.sessions.logs(sid),
    "complete": lambda eng, sid: eng.sessions.complete(sid, "Done"),
    "register under a parent": lambda eng, sid: eng.sessions.register("codex", "Helping", parent_id=sid),
    "claim": lambda eng, sid: eng.leases.claim(sid, "notes:x"),
    "claim exclusively": lambda eng, sid: eng.leases.claim(sid, "notes:x", exclusive=True, wait=1),
    "hold": lambda eng, sid: eng.leases.hold(sid, "notes:x").__enter__(),
    "release": lambda eng, sid: eng.leases.release(sid, "notes:a"),
    "release all": lambda eng, sid: eng.leases.release_all(sid),
    "list leases": lambda eng, sid: eng.leases.list(sid),
    "break": lambda eng, sid: eng.leases.break_lease("notes:a", sid, "needed"),
    "send": lambda eng, sid: eng.messages.send(sid, "*", "hello"),
    "inbox": lambda eng, sid: eng.messages.inbox(sid),
    "peek": lambda eng, sid: eng.messages.inbox(sid, peek=True),
    "show": lambda eng, sid: eng.messages.show(sid),
    "acknowledge": lambda eng, sid: eng.messages.acknowledge(sid, [LETTER]),
    "give back": lambda eng, sid: eng.messages.give_back(sid, [LETTER]),
    "report": lambda eng, sid: eng.sitrep(session_id=sid),
}


@pytest.mark.requirement("SESSION-14")
def test_an_unknown_session_is_an_error_everywhere_and_writes_nothing(eng: Engram) -> None:
    eng.leases.claim(eng.sessions.register("codex", "Porting"), "notes:a")
    foreign = eng.workspace("other").sessions.register("codex", "Elsewhere")
    changes = eng.changes()
    for name, call in NAMES_A_SESSION.items():
        for sid in ("20260101-000000-00000000", "CHAT-7", foreign):
            with pytest.raises(SessionNotFound, match=sid):
                call(eng, sid)
        assert eng.changes() == changes, name


#: What can be no name, no text, no id, no resource, no number of things, no length of time.
BAD_NAMES = ["", " ", "a\0b", "a\ud800", "a\nb", "a\x1b[2J", "a\x9b2J", "a\u2028b", "x" * 201, 7, b"a"]
BAD_TEXTS = ["a\0b", "a\ud800", "x" * 1_000_001, 7, b"a"]
BAD_IDS = ["a\0b", "a\ud800", 7, b"a"]
BAD_RESOURCES = ["", " \n", "a\0b", "a\ud800", "x" * 4_097, 7, b"a", None]
BAD_COUNTS = [-1, True, 1.5, "3", None, 2**63]
BAD_TOKENS = [0, *BAD_COUNTS]
BAD_TIMES = [-1, -0.5, math.nan, math.inf, True, "1", 10**400]

#: Too deep for JSON.
_well: list[object] = []
for _ in range(5_000):
    _well = [_well]

#: Calls that are right but for the one value they are given, with values that are not.
BAD_INPUT: dict[str, tuple[Callable[[Engram, str, Any], object], list[Any]]] = {
    "session type": (lambda eng, _, bad: eng.sessions.register(bad, "x"), BAD_NAMES),
    "session name": (lambda eng, _, bad: eng.sessions.register("codex", "x", name=bad), BAD_NAMES),
    "project": (lambda eng, _, bad: eng.sessions.register("codex", "x", project=bad), BAD_NAMES),
    "external id": (lambda eng, _, bad: eng.sessions.register("codex", "x", external_id=bad), BAD_NAMES),
    "summary": (lambda eng, _, bad: eng.sessions.register("codex", bad), BAD_TEXTS),
    "metadata": (
        lambda eng, _, bad: eng.sessions.register("codex", "x", bad),
        [{"a": math.nan}, {"a": {1}}, {"a": _well}, {("a",): 1}, {1: "a", "b": 2}, [1], "a\x00b", 7],
    ),
    "ensured id": (lambda eng, _, bad: eng.sessions.ensure(bad), BAD_NAMES),
    "ensured name": (lambda eng, sid, bad: eng.sessions.ensure(sid, bad), BAD_NAMES),
    "heartbeat": (lambda eng, sid, bad: eng.sessions.heartbeat(sid, bad), BAD_TEXTS),
    "completion": (lambda eng, sid, bad: eng.sessions.complete(sid, bad), BAD_TEXTS),
    "log entry": (lambda eng, sid, bad: eng.sessions.log(sid, bad), [*BAD_TEXTS, "", " \n", None]),
    "limit of logs": (lambda eng, sid, bad: eng.sessions.logs(sid, bad), BAD_COUNTS),
    "limit of list": (lambda eng, _, bad: eng.sessions.list(bad), BAD_COUNTS),
    "hours": (lambda eng, _, bad: eng.sessions.recent(bad), BAD_TIMES),
    "external id to find": (lambda eng, _, bad: eng.sessions.find(bad), BAD_IDS),
    "type to find": (lambda eng, _, bad: eng.sessions.find("h-1", bad), BAD_IDS),
    "claimed resource": (lambda eng, sid, bad: eng.leases.claim(sid, bad), BAD_RESOURCES),
    "held resource": (lambda eng, sid, bad: eng.leases.hold(sid, bad).__enter__(), BAD_RESOURCES),
    "released resource": (lambda eng, sid, bad: eng.leases.release(sid, bad), BAD_RESOURCES),
    "checked resource": (lambda eng, _, bad: eng.leases.check(bad), BAD_RESOURCES),
    "broken resource": (lambda eng, sid, bad: eng.leases.break_lease(bad, sid, "needed"), BAD_RESOURCES),
    "reason": (lambda eng, sid, bad: eng.leases.break_lease("notes:b", sid, bad), [*BAD_TEXTS, "", "x" * 2_001]),
    "note": (lambda eng, sid, bad: eng.leases.claim(sid, "notes:x", bad), [*BAD_TEXTS, "x" * 2_001]),
    "ttl": (lambda eng, sid, bad: eng.leases.claim(sid, "notes:x", ttl=bad), [0, *BAD_TIMES]),
    "wait": (lambda eng, sid, bad: eng.leases.claim(sid, "notes:x", exclusive=True, wait=bad), [None, *BAD_TIMES]),
    "exclusive": (lambda eng, sid, bad: eng.leases.claim(sid, "notes:x", exclusive=bad), ["yes", 2]),
    "token to verify": (lambda eng, _, bad: eng.leases.verify(bad), BAD_TOKENS),
    "token to renew": (lambda eng, _, bad: eng.leases.renew(bad), BAD_TOKENS),
    "renewed ttl": (lambda eng, sid, bad: eng.leases.renew(eng.leases.list(sid)[0].token, bad), [0, *BAD_TIMES]),
    "message": (lambda eng, sid, bad: eng.messages.send(None, sid, bad), [*BAD_TEXTS, "", "x" * 20_001, None]),
    "recipient": (lambda eng, sid, bad: eng.messages.send(sid, bad, "hello"), BAD_RESOURCES),
} | {
    f"id to {name}": (lambda eng, _, bad, call=call: call(eng, bad), BAD_IDS) for name, call in NAMES_A_SESSION.items()
}


@pytest.mark.requirement("SESSION-16")
def test_what_can_never_be_right_is_refused_before_anything_is_written(eng: Engram) -> None:
    sid, other = sessions(eng, 2)
    eng.leases.claim(sid, "notes:a")
    eng.leases.claim(other, "notes:b")
    wrong = {}
    given = [(name, call, bad) for name, (call, values) in BAD_INPUT.items() for bad in enumerate(values)]
    for name, call, (number, value) in given:
        changes, which = eng.changes(), f"{name}, value {number}"
        try:
            wrong[which] = ascii(call(eng, sid, value))[:200]
        except InvalidInput:
            if eng.changes() != changes:
                wrong[which] = "refused after something was written"
        except Exception as error:
            wrong[which] = ascii(error)[:200]
    assert wrong == {}


@pytest.mark.requirement("MESSAGE-8")
def test_a_message_to_the_person_waits_until_a_person_reads_it(eng: Engram) -> None:
    sid, other = eng.sessions.register("codex", "Working"), eng.sessions.register("codex", "Working")
    sent = eng.messages.send(sid, "person", "Which port should staging use?")
    assert sent.recipients == ("person",)
    eng.messages.send(sid, "*", "to every session")
    for reader in (sid, other, None):
        assert "For the person, from " in eng.brief(reader)
    assert [each.text for each in eng.messages.inbox("person", peek=True)] == ["Which port should staging use?"]
    assert [each.text for each in eng.messages.inbox(other)] == ["to every session"]
    assert eng.workspace("other").messages.inbox("person") == []
    with eng.messages.showing_person() as shown:
        assert [each.from_session for each in shown] == [sid]
        assert "For the person" in eng.brief()
    assert eng.messages.inbox("person") == []
    assert "For the person" not in eng.brief()
    eng.messages.send(sid, "person", "Thanks.")
    assert [each.text for each in eng.messages.inbox("person")] == ["Thanks."]
    assert eng.messages.inbox("person") == []


@pytest.mark.requirement("MESSAGE-8")
def test_a_message_to_the_person_that_could_not_be_shown_stays_unread(eng: Engram) -> None:
    eng.messages.send(None, "person", "a note to myself")
    with pytest.raises(RuntimeError), eng.messages.showing_person():
        raise RuntimeError
    assert len(eng.messages.inbox("person")) == 1


@pytest.mark.requirement("MESSAGE-8")
def test_no_session_can_take_the_name_of_the_person_but_an_old_one_keeps_its_mailbox(eng: Engram) -> None:
    with pytest.raises(InvalidInput, match="person"):
        eng.sessions.ensure("person")
    old, sid = eng.sessions.ensure("old").id, eng.sessions.register("codex", "Working")
    eng.messages.send(sid, old, "an old message")
    with eng._view.engine.write() as tx:
        # As an earlier release left it.
        tx.run(
            "INSERT INTO sessions (workspace, id, type, summary, status, metadata, last_seq, created_at, heartbeat_at) "
            "SELECT workspace, 'person', type, summary, status, metadata, 0, created_at, heartbeat_at FROM sessions "
            "WHERE workspace = :workspace AND id = 'old'",
            workspace="default",
        )
        tx.run("UPDATE deliveries SET session_id = 'person' WHERE workspace = :workspace", workspace="default")
    assert eng.sessions.ensure("person").id == "person"
    eng.messages.send(sid, "person", "a new message")
    assert [each.text for each in eng.messages.inbox("person")] == ["a new message"]
    assert [each.text for each in eng.messages.show("person")] == ["an old message"]


@pytest.mark.requirement("MESSAGE-1")
def test_the_messages_of_one_session_are_those_it_sent_and_was_sent(eng: Engram) -> None:
    a, b, c = (eng.sessions.register("codex", name) for name in "abc")
    sent = eng.messages.send(a, "*", "to all")
    asked = eng.messages.send(a, "person", "to the person")
    got = eng.messages.send(c, a, "to a")
    answered = eng.messages.send(None, b, "to b")
    assert [each.id for each in eng.messages.list(session_id=a)] == [got.id, asked.id, sent.id]
    assert [each.id for each in eng.messages.list(session_id=b)] == [answered.id, sent.id]
    assert [each.id for each in eng.messages.list(1, before=got.id, session_id=a)] == [asked.id]


@pytest.mark.requirement("MESSAGE-1")
def test_the_messages_of_an_unknown_session_are_an_error(eng: Engram) -> None:
    with pytest.raises(SessionNotFound):
        eng.messages.list(session_id="nobody")
