"""The lines of a brief: the same text, and of each line what it shows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from engram import Engram
from engram.dream_records import Brief, BriefLine
from tests.conftest import ShiftedClock

from .test_brief import HEAD, HERE, STORE, build, fill, sections, worked

#: How a line names its memory.
MEMORY = re.compile(r"\bmemory (\d+)[^()]*\)$")
#: Parts whose memories count as given to the session.
GIVEN = ("This session so far", "Pinned", "Known to hold here", "To do")


def by_source(brief: Brief) -> dict[tuple[str | None, str | None], list[str]]:
    found: dict[tuple[str | None, str | None], list[str]] = {}
    for line in brief.lines:
        found.setdefault((line.kind, line.ref), []).append(line.text)
    return found


def check(brief: Brief) -> None:
    """What holds of every brief."""
    assert "\n".join(line.text for line in brief.lines) == brief.text
    assert not any("\n" in line.text for line in brief.lines)
    head, before = "", BriefLine("")
    for line in brief.lines:
        if heading := HEAD.fullmatch(line.text):
            head = heading[1]
        if line.text.startswith(("# ", "## ", "… ", "Other projects: ")):
            assert (line.kind, line.ref) == (None, None), line
        elif line.text.startswith("  "):
            assert (line.kind, line.ref) == (before.kind, before.ref) and line.kind == "session"
        elif head == "World state":
            assert (line.kind, line.ref) == ("block", "world")
        elif head == "Unread messages":
            assert line.kind == "message"
        elif head in GIVEN[1:] and line.text.startswith("- "):
            assert line.kind == "memory" and f"memory {line.ref}" in line.text
        before = line
    given = {
        int(named[1])
        for head, entries in sections(brief.text).items()
        if head in GIVEN
        for entry in entries
        if (named := MEMORY.search(entry)) and not (head == GIVEN[0] and not entry.startswith("- Remembered: "))
    }
    assert {id for _, id in brief.things} == given


@pytest.mark.requirement("BRIEF-21")
def test_each_line_of_a_brief_has_its_source(eng: Engram) -> None:
    me = fill(eng)
    kept = eng.remember("Builds are slow because of the cache.", kind="lesson", project=HERE, session_id=me)
    brief = eng.briefing(me, budget=None, resumed=True)
    check(brief)
    ids = {each.content: str(each.id) for each in eng.memories.list()}
    over = next(each.id for each in eng.sessions.list() if each.status == "completed")
    other = next(each.id for each in eng.sessions.active() if each.summary == "Reviewing the router")
    found = by_source(brief)
    assert found["memory", ids["Always run the linter."]][0].startswith("- Always run the linter. (lesson, ")
    assert found["memory", ids["Write the changelog."]][0].startswith("- Write the changelog. (")
    assert [line.split(":")[0].split("(")[0] for line in found["memory", str(kept.id)]] == [
        "- Remembered",
        "- Builds are slow because of the cache. ",
    ]
    assert found["session", over] == [
        "- Just now (claude-code): Port the router to the new library",
        "  Result: The router is ported.",
    ]
    assert found["session", other][1] == "  has claimed: src/router.py (exclusive, reading)"
    assert found["session", me] == ["- Asked first: Find out why the build is slow"]
    assert found["block", "world"] == ["> The router is being ported."]
    asked = {each.text: str(each.id) for each in eng.messages.inbox(me)}
    assert found["message", asked["when are you done?"]][0].endswith(": when are you done?")
    assert found[None, None] == [
        line for line in brief.text.split("\n") if line.startswith(("# ", "## ", "Other projects: "))
    ]


@pytest.mark.requirement("BRIEF-21", "BRIEF-5")
def test_a_cut_brief_has_the_sources_of_what_is_left(eng: Engram) -> None:
    me = fill(eng)
    eng.world.set("\n".join(f"line {number} of the world state" for number in range(40)))
    long = eng.remember("Never push to main. " * 11, kind="lesson", project=HERE, pinned=True, by_person=True)
    cut = set()
    for budget in [*range(1, 700, 7), None]:
        brief = eng.briefing(me, budget=budget, resumed=True)
        check(brief)
        cut |= {line.text for line in brief.lines if line.ref == str(long.id) and line.kind == "memory"}
    # The whole, and beginnings of different lengths.
    assert len(cut) > 2 and all(line.startswith("- Never push to main.") for line in cut)
    (line,) = eng.briefing(me, budget=1).lines
    assert line.text.endswith("…") and line.kind is None


@pytest.mark.requirement("BRIEF-21")
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(store=STORE)
def test_the_lines_of_any_brief_are_its_text(eng: Engram, store: dict[str, Any]) -> None:
    view, me = build(eng, store)
    contents = {str(each.id): " ".join(each.content.split()) for each in view.memories.list()}
    for budget in (1, 20, 60, 150, 400, 1_500, None):
        brief = view.briefing(me, budget=budget, resumed=True)
        assert "\n".join(line.text for line in brief.lines) == brief.text
        for line in brief.lines:
            text = contents[line.ref or ""] if line.kind == "memory" else ""
            # Other texts are changed before they are shown.
            if text.isascii() and text.isprintable() and text:
                assert text.startswith(line.text.removeprefix("- ").rpartition(" (")[0].split("…")[0])


@pytest.mark.requirement("BRIEF-21")
def test_an_empty_brief_has_lines_without_a_source(eng: Engram) -> None:
    for budget in (None, 5, 40):
        brief = eng.briefing(project=HERE, budget=budget)
        check(brief)
        assert {line.kind for line in brief.lines} == {None} and brief.things == ()


@pytest.mark.requirement("BRIEF-21", "BRIEF-18")
def test_news_have_sources_and_only_what_was_learnt_counts_as_given(eng: Engram, clock: ShiftedClock) -> None:
    worked(eng, ("user", "Port the router to the new library"), ("assistant", "The router is ported."))
    clock.advance(60)
    port = eng.remember("The shop listens on port 80.", kind="decision", project=HERE)
    learnt = [
        eng.remember(f"Lesson {number} was learnt.", kind="lesson", project=HERE, tags=["extracted"]).id
        for number in range(6)
    ]
    new = eng.remember("The shop listens on port 8080.", kind="decision", project=HERE)
    eng.memories.supersede(port.id, new.id)
    todo = eng.remember("Write the changelog.", kind="todo", project=HERE)
    eng.memories.archive(todo.id)
    brief = eng.briefing(project=HERE, budget=None)
    assert "\n".join(line.text for line in brief.lines) == brief.text
    lines = {line.text.split(" (")[0]: (line.kind, line.ref) for line in brief.lines}
    assert lines["- 2 more things were learnt."] == (None, None)
    assert lines["- Done: Write the changelog."] == ("memory", str(todo.id))
    replaced = "- Replaced: “The shop listens on port 80.” Now: “The shop listens on port 8080.”"
    assert lines[replaced] == ("memory", str(new.id))
    assert [("memory", id) for id in sorted([*learnt, new.id])] == list(brief.things)


@pytest.mark.requirement("BRIEF-21", "BRIEF-8")
def test_an_earlier_brief_has_its_lines_too(eng: Engram, clock: ShiftedClock) -> None:
    me = fill(eng)
    clock.advance(60)
    then = eng.now()
    clock.advance(60)
    for each in eng.memories.list():
        eng.memories.archive(each.id)
    eng.world.set("")
    brief = eng.briefing(me, budget=None, resumed=True, at=then)
    check(brief)
    assert {"memory", "session", "message", "block", None} == {line.kind for line in brief.lines}
