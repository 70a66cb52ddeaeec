"""Idempotency keys: a repeated request is answered and not done again, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram, IdempotencyConflict, InvalidInput, MemoryNotFound, StoreBusy
from engram.access.answers import Claim
from engram.config import load
from tests._tables import run, values
from tests.conftest import ShiftedClock
from tests.contract.test_access_logins import at_once

TOKEN = "0123456789ab"


def remembering(eng: Engram, text: str) -> Callable[[], str]:
    return lambda: json.dumps({"result": eng.remember(text).id})


def texts(eng: Engram) -> list[str]:
    return [memory.content for memory in eng.memories.list()]


@pytest.mark.requirement("ACCESS-11")
def test_a_repeated_request_gets_the_first_answer_and_does_nothing(eng: Engram) -> None:
    first = eng.access.answers.once(TOKEN, "k", "d", "default", remembering(eng, "The lift is broken."))
    again = eng.access.answers.once(TOKEN, "k", "d", "default", lambda: pytest.fail("done twice"))
    assert (first[1], again[1]) == (False, True) and first[0] == again[0]
    assert [memory.reinforced for memory in eng.memories.list()] == [0]


@pytest.mark.requirement("ACCESS-11")
def test_a_key_belongs_to_its_token_and_workspace(eng: Engram) -> None:
    eng.access.answers.once(TOKEN, "k", "d", "default", lambda: "1")
    assert eng.access.answers.once("ba9876543210", "k", "d", "default", lambda: "2") == ("2", False)
    assert eng.access.answers.once(TOKEN, "k", "d", "team", lambda: "3") == ("3", False)


@pytest.mark.requirement("ACCESS-11")
def test_a_key_is_for_one_request(eng: Engram) -> None:
    eng.access.answers.once(TOKEN, "k", "d", "default", lambda: "1")
    with pytest.raises(IdempotencyConflict, match="another request"):
        eng.access.answers.once(TOKEN, "k", "other", "default", lambda: pytest.fail("done"))


@pytest.mark.requirement("ACCESS-11")
def test_an_error_rolls_everything_back_and_leaves_the_key_free(eng: Engram, store_url: str) -> None:
    def fails() -> str:
        eng.remember("half done")
        eng.memories.get(999)
        return "never"

    with pytest.raises(MemoryNotFound):
        eng.access.answers.once(TOKEN, "k", "d", "default", fails)
    assert texts(eng) == [] and values(store_url, "access_answers", "key") == []
    assert eng.access.answers.once(TOKEN, "k", "d", "default", lambda: "2") == ("2", False)


@pytest.mark.requirement("ACCESS-11")
@pytest.mark.parametrize("key", ["", "x" * 201, "ä", "a\nb", "a\x00", "a\x7f", None, 7])
def test_a_key_is_short_printable_ascii(eng: Engram, key: Any) -> None:
    with pytest.raises(InvalidInput, match="printable ASCII"):
        eng.access.answers.begin(TOKEN, key, "d", "default")
    with pytest.raises(InvalidInput, match="printable ASCII"):
        eng.access.answers.once(TOKEN, key, "d", "default", lambda: pytest.fail("done"))


@pytest.mark.requirement("ACCESS-12")
def test_of_many_requests_with_one_key_at_once_one_is_done_and_all_are_answered(
    open_store: Callable[..., Engram], store_url: str
) -> None:
    stores = [open_store(embedder="none") for _ in range(4)]
    for round in range(5):

        def ask(number: int, round: int = round) -> object:
            eng = stores[number % 4]
            said = remembering(eng, f"said in round {round}")
            return eng.access.answers.once(TOKEN, f"key {round}", "d", "default", said)

        results = at_once(8, ask)
        assert all(isinstance(result, tuple) for result in results), results
        assert len({result[0] for result in results}) == 1  # type: ignore[index]
        assert sorted(result[1] for result in results) == [False, *[True] * 7]  # type: ignore[index]
    assert {memory.reinforced for memory in stores[0].memories.list()} == {0}
    assert len(stores[0].memories.list()) == 5


@pytest.mark.requirement("ACCESS-12")
def test_a_second_request_waits_for_the_first(open_store: Callable[..., Engram]) -> None:
    here, there = open_store(embedder="none"), open_store(embedder="none")
    written, go_on = threading.Event(), threading.Event()

    def slowly() -> str:
        here.remember("said slowly")
        written.set()
        assert go_on.wait(30)
        return "slow"

    def second() -> str:
        # It cannot know yet that another request is at work. Its first write waits.
        go_on.set()
        there.remember("said twice")
        return pytest.fail("done twice")

    results: list[object] = []
    first = threading.Thread(
        target=lambda: results.append(here.access.answers.once(TOKEN, "k", "d", "default", slowly))
    )
    first.start()
    assert written.wait(30)
    results.append(there.access.answers.once(TOKEN, "k", "d", "default", second))
    first.join()
    assert sorted(results, key=str) == [("slow", False), ("slow", True)]
    assert texts(here) == ["said slowly"]


@pytest.mark.requirement("ACCESS-12")
def test_a_request_that_fails_because_another_was_faster_gets_its_answer(open_store: Callable[..., Engram]) -> None:
    here, there = open_store(), open_store()
    made = here.remember("to be forgotten")

    def forgets(eng: Engram) -> str:
        eng.memories.get(made.id)
        eng.forget(memory=made.id)
        return "forgotten"

    def too_late() -> str:
        here.access.answers.once(TOKEN, "k", "d", "default", lambda: forgets(here))
        return forgets(there)

    assert there.access.answers.once(TOKEN, "k", "d", "default", too_late) == ("forgotten", True)


KILLED = """
import os, signal, sys
from engram import Engram
eng = Engram(sys.argv[1])
def work():
    eng.remember("said by a server that was killed")
    return "done"
eng.access.answers.once("0123456789ab", "k", "d", "default", work)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.requirement("ACCESS-12")
def test_a_server_that_is_killed_after_its_commit_leaves_its_answer(store_url: str, eng: Engram) -> None:
    environment = {**os.environ, "ENGRAM_EMBEDDER": "none"}
    killed = subprocess.run([sys.executable, "-c", KILLED, store_url], env=environment, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert eng.access.answers.once(TOKEN, "k", "d", "default", lambda: pytest.fail("twice")) == ("done", True)
    assert texts(eng) == ["said by a server that was killed"]


@pytest.mark.requirement("ACCESS-13")
def test_what_is_computed_before_the_first_write_holds_no_transaction(
    open_store: Callable[..., Engram], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = open_store(), open_store()
    model = here.embedding_queue.embedder()
    assert model is not None
    embed = type(model).embed
    seen: list[str] = []

    def meanwhile(self: object, given: object) -> object:
        # Another program writes while the text is embedded.
        if not seen:
            seen.append("embedding")
            with there._view.engine.write(patient=False):
                pass
            there.sessions.ensure("other")
        return embed(self, given)  # type: ignore[arg-type]

    monkeypatch.setattr(type(model), "embed", meanwhile)
    here.access.answers.once(TOKEN, "k", "d", "default", remembering(here, "The lift is broken."))
    assert seen == ["embedding"] and here.embedding_queue.size() == 0
    assert [hit.text for hit in here.recall("Is the elevator out of order?")] == ["The lift is broken."]


@pytest.mark.requirement("ACCESS-13")
def test_work_that_waits_is_refused(eng: Engram) -> None:
    holder, other = eng.sessions.register("codex", "first"), eng.sessions.register("codex", "second")
    eng.leases.claim(holder, "src/a.py", exclusive=True)

    def waits() -> str:
        return str(eng.leases.claim(other, "src/a.py", exclusive=True, wait=60))

    with pytest.raises(InvalidInput, match="inside a transaction"):
        eng.access.answers.once(TOKEN, "k", "d", "default", waits)


@pytest.mark.requirement("ACCESS-13")
def test_work_can_be_part_of_a_larger_transaction(eng: Engram) -> None:
    with pytest.raises(RuntimeError), eng.write():
        eng.access.answers.once(TOKEN, "k", "d", "default", remembering(eng, "gone"))
        raise RuntimeError
    assert texts(eng) == []
    with eng.write():
        assert eng.access.answers.once(TOKEN, "k", "d", "default", remembering(eng, "kept"))[1] is False
    assert eng.access.answers.once(TOKEN, "k", "d", "default", lambda: pytest.fail("twice"))[1] is True
    assert texts(eng) == ["kept"]


@pytest.mark.requirement("ACCESS-14")
def test_long_work_claims_its_key_first_and_stores_its_answer_afterwards(open_store: Callable[..., Engram]) -> None:
    here, there = open_store(), open_store()
    claim = here.access.answers.begin(TOKEN, "k", "d", "default")
    assert isinstance(claim, Claim)
    with pytest.raises(IdempotencyConflict, match="still running"):
        there.access.answers.begin(TOKEN, "k", "d", "default")
    with pytest.raises(IdempotencyConflict, match="still running"):
        there.access.answers.once(TOKEN, "k", "d", "default", lambda: pytest.fail("twice"))
    here.access.answers.finish(claim, "done")
    assert there.access.answers.begin(TOKEN, "k", "d", "default") == "done"
    with pytest.raises(IdempotencyConflict, match="another request"):
        there.access.answers.begin(TOKEN, "k", "other", "default")


@pytest.mark.requirement("ACCESS-14")
def test_long_work_that_failed_can_be_tried_again(eng: Engram) -> None:
    claim = eng.access.answers.begin(TOKEN, "k", "d", "default")
    assert isinstance(claim, Claim)
    eng.access.answers.abandon(claim)
    assert isinstance(eng.access.answers.begin(TOKEN, "k", "d", "default"), Claim)


@pytest.mark.requirement("ACCESS-14")
def test_a_claim_of_a_dead_server_ends_after_ten_minutes(eng: Engram, clock: ShiftedClock) -> None:
    dead = eng.access.answers.begin(TOKEN, "k", "d", "default")
    clock.advance(599)
    with pytest.raises(IdempotencyConflict, match="still running"):
        eng.access.answers.begin(TOKEN, "k", "d", "default")
    clock.advance(2)
    claim = eng.access.answers.begin(TOKEN, "k", "d", "default")
    assert isinstance(claim, Claim) and isinstance(dead, Claim)
    # It was not dead, only slow. The later claim decides.
    eng.access.answers.finish(dead, "too late")
    eng.access.answers.abandon(dead)
    eng.access.answers.finish(claim, "done")
    eng.access.answers.abandon(claim)
    assert eng.access.answers.begin(TOKEN, "k", "d", "default") == "done"


@pytest.mark.requirement("ACCESS-15")
def test_forgetting_blanks_the_answers_of_its_workspace(eng: Engram, store_url: str) -> None:
    other = eng.workspace("other")
    eng.access.answers.once(TOKEN, "here", "qdigestq", "default", lambda: "qanswerq")
    eng.access.answers.once(TOKEN, "there", "d", "other", lambda: "kept")
    dry = eng.remember("whatever")
    eng.forget(memory=dry.id, dry_run=True)
    assert eng.access.answers.once(TOKEN, "here", "qdigestq", "default", lambda: "") == ("qanswerq", True)
    eng.forget(memory=dry.id)
    with pytest.raises(IdempotencyConflict, match="forgotten"):
        eng.access.answers.once(TOKEN, "here", "qdigestq", "default", lambda: pytest.fail("twice"))
    assert values(store_url, "access_answers", "answer") == ["", "kept"]
    assert values(store_url, "access_answers", "digest") == ["", "d"]
    assert other.access.answers.once(TOKEN, "there", "d", "other", lambda: "") == ("kept", True)


@pytest.mark.requirement("ACCESS-15")
def test_the_answer_of_forgetting_itself_is_kept(eng: Engram) -> None:
    made = eng.remember("to be forgotten")
    ask = (TOKEN, "k", "d", "default")
    first = eng.access.answers.once(*ask, lambda: str(eng.forget(memory=made.id).id))
    assert eng.access.answers.once(*ask, lambda: pytest.fail("twice")) == (first[0], True)


@pytest.mark.requirement("ACCESS-15")
def test_an_answer_that_is_made_while_something_is_forgotten_is_not_stored(
    open_store: Callable[..., Engram], store_url: str
) -> None:
    here, there = open_store(), open_store()
    made = here.remember("qsecretq")

    def quotes() -> str:
        found = here.memories.get(made.id).content
        there.forget(memory=made.id)
        return found

    assert here.access.answers.once(TOKEN, "k", "d", "default", quotes) == ("qsecretq", False)
    claim = here.access.answers.begin(TOKEN, "long", "d", "default")
    assert isinstance(claim, Claim)
    there.forget(memory=there.remember("another").id)
    here.access.answers.finish(claim, "qsecretq")
    for key in ("k", "long"):
        with pytest.raises(IdempotencyConflict, match="forgotten"):
            here.access.answers.begin(TOKEN, key, "d", "default")
    assert values(store_url, "access_answers", "answer") == ["", ""]


@pytest.mark.requirement("ACCESS-15")
def test_forgetting_waits_for_an_answer_that_is_being_stored(postgres_url: str) -> None:
    # Only PostgreSQL has two writers at once.
    with Engram(postgres_url) as here, Engram(postgres_url) as there:
        made = here.remember("qsecretq")
        forgetting = threading.Thread(target=lambda: there.forget(memory=made.id))
        # The answer is written but not committed when the other program begins to forget.
        with here.write():
            here.access.answers.once(TOKEN, "k", "d", "default", lambda: "qsecretq")
            forgetting.start()
            assert any(waiting_for_a_lock(postgres_url) for _ in range(2_000))
        forgetting.join()
        with pytest.raises(IdempotencyConflict, match="forgotten"):
            here.access.answers.begin(TOKEN, "k", "d", "default")
        assert values(postgres_url, "access_answers", "answer") == [""]


def waiting_for_a_lock(url: str) -> bool:
    import psycopg

    from engram.store_url import split_schema

    with psycopg.connect(split_schema(url)[0]) as server:
        asked = server.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchall()
    return bool(asked)


@pytest.mark.requirement("ACCESS-15")
def test_a_program_of_an_earlier_release_that_forgets_blanks_answers_too(eng: Engram, store_url: str) -> None:
    eng.access.answers.once(TOKEN, "k", "d", "default", lambda: "qanswerq")
    add = "INSERT INTO receipts (workspace, asked, went, created_at) VALUES ('default', 'memory 1', '{}', '2026')"
    run(store_url, add)
    assert values(store_url, "access_answers", "answer") == [""]


@pytest.mark.requirement("ACCESS-16")
def test_an_answer_with_a_secret_is_not_stored(eng: Engram, store_url: str) -> None:
    ask = (TOKEN, "k", "d", "default")
    made, _ = eng.access.answers.once(*ask, lambda: eng.access.tokens.create("laptop", "read").secret)
    assert eng.access.tokens.verify(made).name == "laptop"
    with pytest.raises(IdempotencyConflict, match="only once"):
        eng.access.answers.once(*ask, lambda: pytest.fail("twice"))
    assert values(store_url, "access_answers", "answer") == [""]


@pytest.mark.requirement("ACCESS-16")
def test_answers_are_kept_for_a_day_and_then_removed(eng: Engram, clock: ShiftedClock, store_url: str) -> None:
    for number in range(5):
        eng.access.answers.once(TOKEN, f"old {number}", "d", "default", lambda: "old")
    clock.advance(86_399)
    assert eng.access.answers.once(TOKEN, "old 0", "d", "default", lambda: "new") == ("old", True)
    clock.advance(2)
    assert eng.access.answers.once(TOKEN, "old 0", "other", "default", lambda: "new") == ("new", False)
    assert values(store_url, "access_answers", "key") == ["old 0"]


@pytest.mark.requirement("ACCESS-13")
def test_work_whose_first_write_was_refused_is_still_one_transaction_with_its_key(sqlite_url: str) -> None:
    # Only SQLite refuses to begin a transaction while another program writes.
    hurried = load(url=sqlite_url, busy_timeout=0.01, embedder="none")
    with Engram(settings=hurried) as here, Engram(settings=hurried) as there:

        def tries_twice(fails: bool) -> str:
            with there.write(), pytest.raises(StoreBusy):
                here.remember("refused")
            here.remember("said at last")
            if fails:
                here.memories.get(999)
            return "done"

        ask = (TOKEN, "k", "d", "default")
        with pytest.raises(MemoryNotFound):
            here.access.answers.once(*ask, lambda: tries_twice(True))
        assert texts(here) == [] and values(sqlite_url, "access_answers", "key") == []
        assert here.access.answers.once(*ask, lambda: tries_twice(False)) == ("done", False)
        assert there.access.answers.once(*ask, lambda: pytest.fail("twice")) == ("done", True)
        assert texts(here) == ["said at last"]
