"""Lists in pages: each page begins where the last one ended, whatever is written in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from engram import Engram, InvalidInput
from tests.conftest import ShiftedClock

#: Makes one more thing for the list; returns what identifies it.
Make = Callable[[int], object]


def pages(fetch: Callable[[object], list[object]], key: Callable[[object], object]) -> Iterator[list[object]]:
    last: object = None
    while page := fetch(last):
        yield page
        last = key(page[-1])


@pytest.fixture
def session(eng: Engram) -> str:
    return eng.sessions.register("test", "pages")


@pytest.mark.requirement("SERVER-10")
@pytest.mark.parametrize("apart", [0.0, 1.0], ids=["at once", "apart"])
def test_sessions_are_listed_in_pages_while_others_begin(eng: Engram, clock: ShiftedClock, apart: float) -> None:
    made = []
    for number in range(7):
        made.append(eng.sessions.register("test", f"session {number}"))
        clock.advance(apart)
    expected = [each.id for each in eng.sessions.list()]
    seen: list[str] = []
    before = None
    while page := eng.sessions.list(3, before=before):
        seen += [each.id for each in page]
        before = page[-1].created_at, page[-1].id
        clock.advance(1)
        eng.sessions.register("test", "begun meanwhile")
        eng.sessions.heartbeat(made[0], "still here")
    assert seen == expected


@pytest.mark.requirement("SERVER-10")
def test_a_page_that_begins_nowhere_is_refused_with_the_reason(eng: Engram, session: str) -> None:
    now = eng.now()
    for wrong in (("\x00", "a"), (now, "\x00"), ("yesterday", "a")):
        with pytest.raises(InvalidInput):
            eng.sessions.list(before=wrong)
    for at, id in (("\x00", 1), ("yesterday", 1), (now, -1)):
        with pytest.raises(InvalidInput):
            eng.exchanges.timeline(before=(at, id))


@pytest.mark.requirement("SERVER-10")
def test_memories_are_listed_in_pages_while_others_are_stored(eng: Engram) -> None:
    made = [eng.remember(f"Fact number {number}", tags=["some"]).id for number in range(7)]
    for filters in ({}, {"tag": "some"}, {"at": eng.now()}):
        seen: list[int] = []
        before = None
        while page := eng.memories.list(limit=3, before=before, **filters):  # type: ignore[arg-type]
            seen += [each.id for each in page]
            before = page[-1].id
            eng.remember(f"Stored meanwhile, after {before} with {filters}")
        assert [id for id in seen if id in made] == made[::-1]
        assert len(set(seen)) == len(seen)


@pytest.mark.requirement("SERVER-10")
def test_the_latest_memories_have_no_pages(eng: Engram) -> None:
    with pytest.raises(InvalidInput, match="latest and before"):
        eng.memories.list(latest=True, before=3)


@pytest.mark.requirement("SERVER-10")
def test_the_turns_of_a_session_are_listed_in_pages(eng: Engram, session: str) -> None:
    made = [eng.exchanges.add(session, "user", f"turn {number}") for number in range(7)]
    eng.sessions.log(session, "a log entry is no turn")
    seen: list[int] = []
    after = 0
    while page := eng.exchanges.history(session, 3, after=after):
        seen += [each.id for each in page]
        after = page[-1].seq
    assert seen == made == [each.id for each in eng.exchanges.history(session)]


@pytest.mark.requirement("SERVER-10")
@pytest.mark.parametrize("apart", [0.0, 1.0], ids=["at once", "apart"])
def test_the_timeline_is_listed_in_pages_while_others_speak(
    eng: Engram, session: str, clock: ShiftedClock, apart: float
) -> None:
    made = []
    for number in range(7):
        made.append(eng.exchanges.add(session, "user", f"turn {number}"))
        clock.advance(apart)
    seen: list[int] = []
    before = None
    while page := eng.exchanges.timeline(limit=3, before=before):
        seen += [each.id for each in page]
        before = page[-1].created_at, page[-1].id
        clock.advance(1)
        eng.exchanges.add(session, "user", "spoken meanwhile")
    assert seen == made[::-1]


@pytest.mark.requirement("SERVER-10")
def test_passes_receipts_and_edits_are_listed_in_pages(eng: Engram) -> None:
    for number in range(5):
        eng.dream(force=True)
        eng.world.set(f"state {number}")
        eng.forget(memory=eng.remember(f"Something to forget {number}").id)
    for whole, page_of, key in (
        (eng.dreams.list(0), lambda last: eng.dreams.list(2, before=last), lambda each: each.id),
        (eng.receipts(0), lambda last: eng.receipts(2, before=last), lambda each: each.id),
        (
            eng.blocks.history("world"),
            lambda last: eng.blocks.history("world", 2, before=last),
            lambda each: each.version,
        ),
    ):
        found = list(pages(page_of, key))  # type: ignore[arg-type]
        assert [each for page in found for each in page] == whole
        assert max(map(len, found)) == 2
