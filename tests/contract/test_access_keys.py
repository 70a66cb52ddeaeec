"""Keys of requests whose answer is made again: the work is done once."""

from __future__ import annotations

import threading

import pytest

from engram import Engram
from engram.access.answers import KEPT
from engram.errors import InvalidInput
from tests.conftest import ShiftedClock


@pytest.mark.requirement("REMOTE-26")
def test_a_key_is_first_once_for_each_owner_and_only_if_the_work_is_committed(eng: Engram) -> None:
    answers = eng.access.answers
    with pytest.raises(RuntimeError), eng.write():
        assert answers.is_first("a", "key", "default")
        raise RuntimeError
    with eng.write():
        assert answers.is_first("a", "key", "default")
    with eng.write():
        assert not answers.is_first("a", "key", "default")
    assert answers.is_first("b", "key", "default")
    assert answers.is_first("a", "other", "default")


@pytest.mark.requirement("REMOTE-26")
def test_of_two_attempts_at_once_the_second_waits_for_the_first(eng: Engram) -> None:
    found: list[bool] = []
    second = threading.Thread(target=lambda: found.append(eng.access.answers.is_first("a", "key", "default")))
    with eng.write():
        assert eng.access.answers.is_first("a", "key", "default")
        second.start()
        eng.sessions.register("codex", "")
    second.join()
    assert found == [False]


@pytest.mark.requirement("REMOTE-26")
def test_old_keys_are_removed(eng: Engram, clock: ShiftedClock) -> None:
    answers = eng.access.answers
    assert answers.is_first("a", "key", "default")
    clock.advance(KEPT + 1)
    answers.tidy()
    assert answers.is_first("a", "key", "default")


@pytest.mark.requirement("REMOTE-26")
@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "ü"])
def test_a_key_is_short_printable_text(key: str, eng: Engram) -> None:
    with pytest.raises(InvalidInput):
        eng.access.answers.is_first("a", key, "default")
