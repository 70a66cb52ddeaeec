"""Blocks: named, versioned texts with their whole history."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram import BlockExists, BlockNotFound, Engram, InvalidInput, LogBroken, VersionConflict, VersionNotFound
from engram.memory.blocks import OVERFLOW
from tests.conftest import ShiftedClock

FAMILY = "\U0001f468‍\U0001f469‍\U0001f467"

#: Each way to change a block that exists, by name.
EDITS: dict[str, Callable[[Engram, str, int | None], object]] = {
    "update": lambda eng, name, expected: eng.blocks.update(name, "new", expected_version=expected),
    "append": lambda eng, name, expected: eng.blocks.append(name, "new", expected_version=expected),
    "replace": lambda eng, name, expected: eng.blocks.replace(name, "first", "new", expected_version=expected),
    "restore": lambda eng, name, expected: eng.blocks.restore(name, 1, expected_version=expected),
}
#: And each way to look at one or end it.
OTHERS: dict[str, Callable[[Engram, str], object]] = {
    "delete": lambda eng, name: eng.blocks.delete(name),
    "history": lambda eng, name: eng.blocks.history(name),
    "version": lambda eng, name: eng.blocks.version(name, 1),
    "diff": lambda eng, name: eng.blocks.diff(name, 1, 1),
    "archive_overflow": lambda eng, name: eng.blocks.archive_overflow(name),
    "verify": lambda eng, name: eng.blocks.verify(name),
}
#: What needs no block of that name.
WITHOUT_A_BLOCK: dict[str, Callable[[Engram, str], object]] = {
    "create": lambda eng, name: eng.blocks.create(name),
    "get": lambda eng, name: eng.blocks.get(name),
}


def call(eng: Engram, what: str, name: str) -> object:
    return EDITS[what](eng, name, None) if what in EDITS else {**OTHERS, **WITHOUT_A_BLOCK}[what](eng, name)


def state(eng: Engram) -> tuple[object, ...]:
    """Everything a failed call must leave as it was."""
    blocks = eng.blocks.list()
    return blocks, [eng.blocks.history(block.name) for block in blocks], eng.changes(limit=10_000)


def tamper(eng: Engram, sql: LiteralString) -> None:
    """Change the store behind the library's back."""
    with eng._view.engine.write() as tx:
        assert tx.run(sql) > 0


@pytest.mark.requirement("BLOCK-1")
def test_a_new_block_is_at_version_1_and_has_no_history_yet(eng: Engram) -> None:
    made = eng.blocks.create("plan", "first", 100, actor="agent-1")
    assert made == eng.blocks.get("plan")
    assert (made.content, made.version, made.max_tokens, made.updated_by) == ("first", 1, 100, "agent-1")
    assert made.created_at == made.updated_at
    assert eng.blocks.history("plan") == []


@pytest.mark.requirement("BLOCK-1")
def test_a_block_made_with_a_name_alone_is_empty_with_4096_tokens(eng: Engram) -> None:
    made = eng.blocks.create("plan")
    assert (made.content, made.max_tokens, made.updated_by) == ("", 4_096, None)


@pytest.mark.requirement("BLOCK-1")
def test_creating_a_block_that_exists_is_refused_and_changes_nothing(eng: Engram) -> None:
    eng.blocks.create("plan", "first")
    before = state(eng)
    with pytest.raises(BlockExists, match="'plan'"):
        eng.blocks.create("plan", "second")
    assert state(eng) == before


@pytest.mark.requirement("BLOCK-2")
def test_a_block_that_does_not_exist_is_none(eng: Engram) -> None:
    assert eng.blocks.get("plan") is None


@pytest.mark.requirement("BLOCK-2")
def test_blocks_are_listed_by_name_in_one_order_on_every_engine(eng: Engram) -> None:
    names = ["ä", "b", "B", "a b", "a", "a-b", "中", "_", "1", "\U0001f600"]
    for name in names:
        eng.blocks.create(name)
    assert [block.name for block in eng.blocks.list()] == sorted(names)


@pytest.mark.requirement("BLOCK-3")
def test_an_update_makes_a_new_version_and_says_who_and_when(eng: Engram, clock: ShiftedClock) -> None:
    first = eng.blocks.create("plan", "first", 100)
    clock.advance(60)
    second = eng.blocks.update("plan", "second", "because", actor="agent-2")
    assert second == eng.blocks.get("plan")
    assert (second.content, second.version, second.updated_by) == ("second", 2, "agent-2")
    assert (second.created_at, second.max_tokens) == (first.created_at, 100)
    assert second.updated_at > first.updated_at


@pytest.mark.requirement("BLOCK-3", "BLOCK-9")
@pytest.mark.parametrize("what", [*EDITS, *OTHERS])
def test_nothing_can_be_done_with_a_block_that_does_not_exist(eng: Engram, what: str) -> None:
    eng.blocks.create("other", "first")
    before = state(eng)
    with pytest.raises(BlockNotFound, match="'plan'"):
        call(eng, what, "plan")
    assert state(eng) == before


@pytest.mark.requirement("BLOCK-4")
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("expected", [1, 3])
def test_an_edit_that_expects_another_version_is_refused_and_told_the_current_one(
    eng: Engram, edit: str, expected: int
) -> None:
    eng.blocks.create("plan", "first")
    eng.blocks.update("plan", "the first again")
    before = state(eng)
    with pytest.raises(VersionConflict) as refused:
        EDITS[edit](eng, "plan", expected)
    assert (refused.value.name, refused.value.expected, refused.value.current) == ("plan", expected, 2)
    assert refused.value.details() == {"name": "plan", "expected": expected, "current": 2}
    assert state(eng) == before
    EDITS[edit](eng, "plan", refused.value.current)
    assert len(eng.blocks.history("plan")) == 2


@pytest.mark.requirement("BLOCK-4", "STORE-11")
def test_of_edits_that_expect_the_same_version_exactly_one_wins(eng: Engram) -> None:
    eng.blocks.create("plan")
    together = threading.Barrier(6)

    def update(number: int) -> bool:
        together.wait()
        try:
            eng.blocks.update("plan", str(number), expected_version=1)
        except VersionConflict as conflict:
            assert conflict.current == 2
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(update, range(6))) == [False] * 5 + [True]
    assert eng.blocks.verify("plan") == 2


@pytest.mark.requirement("BLOCK-5", "STORE-11")
def test_appends_from_many_threads_all_arrive(eng: Engram) -> None:
    eng.blocks.create("plan", max_tokens=100_000)
    together = threading.Barrier(6)

    def append(thread: int) -> None:
        together.wait()
        for number in range(20):
            eng.blocks.append("plan", f"{thread}/{number} ")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(append, range(6)))
    block = eng.blocks.get("plan")
    assert block is not None
    assert sorted(block.content.split()) == sorted(f"{thread}/{number}" for thread in range(6) for number in range(20))
    assert eng.blocks.verify("plan") == block.version == 1 + 6 * 20


@pytest.mark.requirement("BLOCK-5")
@pytest.mark.parametrize(
    ("content", "text", "separator", "result"),
    [
        ("one", "two", "", "onetwo"),
        ("", "two", "\n", "two"),
        ("one", "two", "\n", "one\ntwo"),
        ("one\n", "two", "\n", "one\ntwo"),
        ("один", " 二 " + FAMILY, "", "один 二 " + FAMILY),
        ("one", "", "", "one"),
    ],
)
def test_append_adds_at_the_end_with_the_separator_between(
    eng: Engram, content: str, text: str, separator: str, result: str
) -> None:
    eng.blocks.create("plan", content)
    assert eng.blocks.append("plan", text, separator=separator).content == result
    assert eng.blocks.version("plan", 2) == result


@pytest.mark.requirement("BLOCK-5")
@pytest.mark.parametrize(
    ("content", "old", "new", "result"),
    [
        ("one two three", "two", "2", "one 2 three"),
        ("one two", "one two", "", ""),
        ("a.b", ".", "\\1", "a\\1b"),
        (f"{FAMILY}!", FAMILY, "we", "we!"),
    ],
)
def test_replace_changes_the_passage_that_occurs_once(
    eng: Engram, content: str, old: str, new: str, result: str
) -> None:
    eng.blocks.create("plan", content)
    assert eng.blocks.replace("plan", old, new).content == result


@pytest.mark.requirement("BLOCK-5")
@pytest.mark.parametrize("old", ["four", "o", "", "Two", "aa"])
def test_replace_refuses_a_passage_that_does_not_occur_exactly_once(eng: Engram, old: str) -> None:
    eng.blocks.create("plan", "one two aaa")
    before = state(eng)
    with pytest.raises(InvalidInput):
        eng.blocks.replace("plan", old, "new")
    assert state(eng) == before


@pytest.mark.requirement("BLOCK-6")
def test_history_is_newest_first_with_everything_about_each_edit(eng: Engram, clock: ShiftedClock) -> None:
    eng.blocks.create("plan", "one", actor="agent-1")
    for content, reason, actor in [("two", "better", "agent-2"), ("three", "", None)]:
        clock.advance(1)
        eng.blocks.update("plan", content, reason, actor=actor)
    newest, oldest = eng.blocks.history("plan")
    assert (newest.version, newest.old, newest.new, newest.reason, newest.actor) == (3, "two", "three", "", None)
    assert (oldest.version, oldest.old, oldest.new, oldest.reason, oldest.actor) == (
        2,
        "one",
        "two",
        "better",
        "agent-2",
    )
    block = eng.blocks.get("plan")
    assert block is not None
    assert newest.created_at == block.updated_at > oldest.created_at > block.created_at


@pytest.mark.requirement("BLOCK-6")
@pytest.mark.parametrize(("limit", "versions"), [(0, [4, 3, 2]), (1, [4]), (2, [4, 3]), (3, [4, 3, 2]), (9, [4, 3, 2])])
def test_history_is_as_long_as_asked_for_and_whole_with_limit_0(eng: Engram, limit: int, versions: list[int]) -> None:
    eng.blocks.create("plan")
    for number in range(3):
        eng.blocks.append("plan", str(number))
    assert [edit.version for edit in eng.blocks.history("plan", limit)] == versions


@pytest.mark.requirement("BLOCK-7")
def test_diff_shows_what_changed_from_one_version_to_another(eng: Engram) -> None:
    eng.blocks.create("plan", "one\ntwo\n")
    eng.blocks.update("plan", "one\n2\n")
    assert eng.blocks.diff("plan", 1, 2).splitlines() == [
        "--- plan v1",
        "+++ plan v2",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
    ]
    assert "+two" in eng.blocks.diff("plan", 2, 1).splitlines()
    assert eng.blocks.diff("plan", 2, 2) == ""


@pytest.mark.requirement("BLOCK-7")
@pytest.mark.parametrize(("one", "other"), [("a", "a\n"), ("a\r\nb", "a\nb"), ("a\x0bb", "a\nb"), ("", "\n")])
def test_a_difference_in_line_ends_alone_is_a_difference(eng: Engram, one: str, other: str) -> None:
    eng.blocks.create("plan", one)
    eng.blocks.update("plan", other)
    assert eng.blocks.diff("plan", 1, 2) != ""


@pytest.mark.requirement("BLOCK-7")
def test_restore_makes_an_old_version_the_newest_and_keeps_those_between(eng: Engram) -> None:
    eng.blocks.create("plan", "one")
    eng.blocks.update("plan", "two")
    restored = eng.blocks.restore("plan", 1, actor="agent-2")
    assert (restored.content, restored.version, restored.updated_by) == ("one", 3, "agent-2")
    assert [eng.blocks.version("plan", version) for version in (1, 2, 3)] == ["one", "two", "one"]
    assert eng.blocks.history("plan", 1)[0].old == "two"
    assert eng.blocks.verify("plan") == 3


@pytest.mark.requirement("BLOCK-7")
@pytest.mark.parametrize("version", [2, 99])
def test_a_version_that_never_was_cannot_be_shown_compared_or_restored(eng: Engram, version: int) -> None:
    eng.blocks.create("plan", "one")
    before = state(eng)
    for attempt in (
        lambda: eng.blocks.restore("plan", version),
        lambda: eng.blocks.diff("plan", 1, version),
        lambda: eng.blocks.version("plan", version),
    ):
        with pytest.raises(VersionNotFound, match=f"version {version}; it is at version 1"):
            attempt()
    assert state(eng) == before


@pytest.mark.requirement("BLOCK-8")
@pytest.mark.parametrize("filling", ["x", "é", "中", "\U0001f600", "e\u0301"])
def test_overflow_is_cut_between_characters_logged_and_returned(eng: Engram, filling: str) -> None:
    content = filling * 12
    eng.blocks.create("plan", content, max_tokens=2)
    rest = eng.blocks.archive_overflow("plan", actor="agent-2")
    block = eng.blocks.get("plan")
    assert block is not None and rest is not None
    assert (len(block.content), block.content + rest) == (8, content)
    (edit,) = eng.blocks.history("plan")
    assert (edit.reason, edit.actor, edit.old, edit.new) == ("overflow archived", "agent-2", content, block.content)
    assert eng.blocks.archive_overflow("plan") is None


@pytest.mark.requirement("BLOCK-8")
@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("1. Test.\n2. Deploy on Monday, then look at it.", "1. Test.\n"),
        ("Test it. Deploy on Monday, then look at it.", "Test it. "),
        ("Deploy on Monday, then", "Deploy on "),
        # Less than half would be left.
        ("A\nlongword-without-any-end", "A\nlongword-w"),
    ],
)
def test_overflow_is_cut_at_the_end_of_a_line_a_sentence_or_a_word(eng: Engram, content: str, kept: str) -> None:
    eng.blocks.create("plan", content, max_tokens=3)
    rest = eng.blocks.archive_overflow("plan")
    block = eng.blocks.get("plan")
    assert block is not None and (block.content, rest) == (kept, content.removeprefix(kept))


@pytest.mark.requirement("BLOCK-8")
@pytest.mark.parametrize("content", ["", "12345678", "\U0001f600" * 8])
def test_a_block_within_its_budget_is_not_written_by_archiving(eng: Engram, content: str) -> None:
    eng.blocks.create("plan", content, max_tokens=2)
    before = state(eng)
    assert eng.blocks.archive_overflow("plan") is None
    assert state(eng) == before


@pytest.mark.requirement("BLOCK-9")
def test_delete_removes_the_block_with_every_version_it_ever_had(eng: Engram) -> None:
    eng.blocks.create("plan", "one")
    eng.blocks.update("plan", "two")
    eng.blocks.create("other", "kept")
    eng.blocks.delete("plan")
    assert [block.name for block in eng.blocks.list()] == ["other"]
    with eng._view.engine.read() as tx:
        assert tx.all("SELECT content FROM block_versions") == [("kept",)]
    assert eng.blocks.create("plan", "three").version == 1
    assert eng.blocks.history("plan") == []


NO_TEXT: Any = None
BAD_TEXTS = {"NUL": "a\x00b", "a lone surrogate": "a\ud800b", "no text": NO_TEXT}
BAD_NAMES: list[str] = [*BAD_TEXTS.values(), "", " \t", "x" * 201, "a\nb"]


@pytest.mark.requirement("BLOCK-10")
@pytest.mark.parametrize("what", [*EDITS, *OTHERS, *WITHOUT_A_BLOCK])
def test_a_name_that_cannot_be_is_refused_by_every_call(eng: Engram, what: str) -> None:
    before = state(eng)
    for name in BAD_NAMES:
        with pytest.raises(InvalidInput, match="name"):
            call(eng, what, name)
    assert state(eng) == before


@pytest.mark.requirement("BLOCK-10")
@pytest.mark.parametrize("bad", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_content_and_reasons_that_cannot_be_stored_are_refused(eng: Engram, bad: str) -> None:
    eng.blocks.create("plan", "one")
    before = state(eng)
    attempts: list[Callable[[], object]] = [
        lambda: eng.blocks.create("other", bad),
        lambda: eng.blocks.update("plan", bad),
        lambda: eng.blocks.update("plan", "two", bad),
        lambda: eng.blocks.append("plan", bad),
        lambda: eng.blocks.append("plan", "two", separator=bad),
        lambda: eng.blocks.replace("plan", "one", bad),
        lambda: eng.blocks.replace("plan", bad, "two"),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput):
            attempt()
    assert state(eng) == before


@pytest.mark.requirement("BLOCK-10")
@pytest.mark.parametrize(
    "attempt",
    [
        lambda eng: eng.blocks.create("other", "x" * 1_000_001),
        lambda eng: eng.blocks.create("other", max_tokens=0),
        lambda eng: eng.blocks.create("other", max_tokens=1.5),
        lambda eng: eng.blocks.append("plan", "x" * 1_000_000),
        lambda eng: eng.blocks.update("plan", "two", "x" * 2_001),
        lambda eng: eng.blocks.update("plan", "two", actor=""),
        lambda eng: eng.blocks.history("plan", -1),
        lambda eng: eng.blocks.restore("plan", 0),
        lambda eng: eng.blocks.diff("plan", 1, "1"),
        lambda eng: eng.blocks.version("plan", 1 << 63),
        lambda eng: eng.blocks.history("plan", 1 << 63),
    ],
)
def test_limits_and_numbers_that_cannot_be_are_refused(eng: Engram, attempt: Callable[[Engram], object]) -> None:
    eng.blocks.create("plan", "one")
    before = state(eng)
    with pytest.raises(InvalidInput):
        attempt(eng)
    assert state(eng) == before


@pytest.mark.requirement("BLOCK-10")
def test_the_longest_name_and_every_script_are_welcome(eng: Engram) -> None:
    for name in ("x" * 200, "план", "計画", FAMILY * 10, "with 'quotes' and \"doubles\"", "%(name)s :name ?"):
        eng.blocks.create(name, name)
        assert eng.blocks.append(name, "!").content == f"{name}!"


@pytest.mark.requirement("BLOCK-11")
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE blocks SET content = 'forged'",
        "UPDATE block_versions SET content = 'forged' WHERE version = 3",
        "UPDATE blocks SET version = 4",
        "DELETE FROM block_versions WHERE version = 1",
        "DELETE FROM block_versions WHERE version = 2",
        "DELETE FROM block_versions WHERE version = 3",
        "DELETE FROM block_versions",
    ],
)
def test_verify_finds_a_log_that_does_not_lead_to_the_content(eng: Engram, sql: LiteralString) -> None:
    eng.blocks.create("plan", "one")
    eng.blocks.update("plan", "two")
    eng.blocks.update("plan", "three")
    assert eng.blocks.verify("plan") == 3
    tamper(eng, sql)
    with pytest.raises(LogBroken, match="'plan'"):
        eng.blocks.verify("plan")


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
EDIT = st.one_of(
    st.tuples(st.just("update"), TEXTS),
    st.tuples(st.just("append"), TEXTS),
    st.tuples(st.just("replace"), TEXTS),
    st.tuples(st.just("restore"), st.integers(0, 1_000)),
    st.tuples(st.just("overflow"), st.none()),
)
NAMES = itertools.count()


@pytest.mark.requirement("BLOCK-6", "BLOCK-8", "BLOCK-11")
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(first=TEXTS, edits=st.lists(EDIT, min_size=1, max_size=50))
def test_the_history_of_any_edits_leads_from_the_first_content_to_the_last(
    eng: Engram, first: str, edits: list[tuple[str, str | int | None]]
) -> None:
    name = f"block {next(NAMES)}"
    eng.blocks.create(name, first, max_tokens=2)
    states = [first]
    archived = []
    for kind, value in edits:
        now = states[-1]
        match kind, value:
            case "update", str(text):
                eng.blocks.update(name, text)
                states.append(text)
            case "append", str(text):
                eng.blocks.append(name, text)
                states.append(now + text)
            case "replace", str(text) if now:
                eng.blocks.replace(name, now, text)
                states.append(text)
            case "restore", int(number):
                eng.blocks.restore(name, 1 + number % len(states))
                states.append(states[number % len(states)])
            case "overflow", _:
                rest = eng.blocks.archive_overflow(name)
                assert (rest is None) is (len(now) <= 8)
                if rest:
                    kept = now.removesuffix(rest)
                    assert 4 < len(kept) <= 8 and kept + rest == now
                    states.append(kept)
                    archived.append(len(states))
    history = eng.blocks.history(name)
    assert [(edit.old, edit.new) for edit in reversed(history)] == list(itertools.pairwise(states))
    assert [edit.version for edit in history] == list(range(len(states), 1, -1))
    assert [edit.version for edit in reversed(history) if edit.reason == OVERFLOW] == archived
    block = eng.blocks.get(name)
    assert block is not None and block.content == states[-1]
    assert eng.blocks.verify(name) == len(states)
