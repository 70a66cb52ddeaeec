"""Two texts beside each other."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.interfaces.web.diffs import Budget, Change, changes, side_by_side

pytestmark = pytest.mark.requirement("PAGE-65")


def rows(html: str) -> list[list[str]]:
    """The cells of each row, without attributes of their elements."""
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in found][1:]


def test_only_the_words_that_differ_are_marked() -> None:
    shown = side_by_side("The port is 5432.\nIt is busy.", "The port is 6543.\nIt is busy.")
    assert rows(shown) == [
        ["The port is <del>5432</del>.", "The port is <ins>6543</ins>."],
        ["It is busy.", "It is busy."],
    ]


def test_a_line_stands_beside_the_one_that_it_became() -> None:
    old = "Tea is preferred.\nDeploys happen on Mondays.\nThe export runs at noon."
    new = "Deploys happen on Tuesdays.\nSomething that was never said before.\nThe export runs at night."
    assert rows(side_by_side(old, new)) == [
        ["<del>Tea is preferred.</del>", ""],
        ["Deploys happen on <del>Mondays</del>.", "Deploys happen on <ins>Tuesdays</ins>."],
        ["", "<ins>Something that was never said before.</ins>"],
        ["The export runs at <del>noon</del>.", "The export runs at <ins>night</ins>."],
    ]


def test_what_did_not_change_is_folded_away() -> None:
    lines = [f"line {number}" for number in range(50)]
    changed = [*lines[:25], "another", *lines[26:]]
    shown = rows(side_by_side("\n".join(lines), "\n".join(changed)))
    assert shown[0] == ["⋯ 23 lines unchanged"]
    assert shown[-1] == ["⋯ 22 lines unchanged"]
    assert len(shown) == 8


def test_equal_and_empty_texts_are_said_in_words() -> None:
    assert "The text stays the same." in side_by_side("a\nb", "a\nb")
    assert "The text stays the same." in side_by_side("", "")
    assert rows(side_by_side("", "new")) == [["", "<ins>new</ins>"]]
    assert rows(side_by_side("old", "")) == [["<del>old</del>", ""]]


def test_html_in_a_text_is_text() -> None:
    shown = side_by_side("<script>alert(1)</script> a", '<script>alert(2)</script> "b"')
    assert "<script" not in shown
    assert "&lt;" in shown


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("same\n" * 20_000, "other\n" * 20_000),
        ("x " * 100_000, "y " * 100_000),
        ("\n".join(f"{number} a b c" for number in range(700)), "\n".join(f"{number} a b d" for number in range(700))),
        ("a " * 390 + "\n" + "b a " * 190, "a b " * 195 + "\n" + "a a b " * 130),
    ],
    ids=["many lines", "long line", "many changes", "many repeated words"],
)
def test_a_large_text_is_shown_in_bounded_time_and_size(old: str, new: str) -> None:
    started = time.process_time()
    shown = side_by_side(old, new)
    assert time.process_time() - started < 2
    assert len(shown) < 400_000
    assert len(rows(shown)) <= 402


def test_blank_lines_and_signs_alone_are_not_common() -> None:
    old, new = ("\n\n".join(f"{letter}{number}" for number in range(300)) for letter in "ab")
    shown = rows(side_by_side(old, new))
    assert [each for each in shown if len(each) == 2 and each[0] and each[1]] == []
    before, after = ([word for number in range(300) for word in (f"{letter}{number}", ",")][:-1] for letter in "ab")
    assert changes(before, after, Budget()) == [Change(False, 0, 599, 0, 599)]


def test_the_work_is_bounded_by_pairs_whatever_the_lines_are() -> None:
    budget = Budget()
    for old, new in (("a\n\n" * 400, "b\n\n" * 400), ("a\nb\n" * 490, "b\na\na\n" * 320)) * 10:
        side_by_side(old, new, budget=budget)
        assert budget.pairs >= 0
    # Two texts of which each line is everywhere in the other one: one change, because nothing is left.
    assert changes(["a", "b"] * 500, ["b", "a", "a"] * 300, Budget(pairs=1_000)) == [Change(False, 0, 1_000, 0, 900)]


def test_all_diffs_of_a_page_share_one_budget_of_characters() -> None:
    budget = Budget()
    long = "\n".join(f"{number} {'x' * 3_000}" for number in range(390))
    shown = [side_by_side("", long, budget=budget) for _ in range(10)]
    assert sum(map(len, shown)) < 1_000_000
    assert "⋯ 390 more lines" in shown[-1]


@given(st.lists(st.sampled_from(["a", "b", "c", "", "."]), max_size=12), st.lists(st.sampled_from("abc."), max_size=12))
def test_changes_cover_both_sequences(old: list[str], new: list[str]) -> None:
    found = changes(old, new, Budget())
    assert [each for change in found for each in old[change.first : change.last]] == old
    assert [each for change in found for each in new[change.start : change.end]] == new
    assert all((old[change.first : change.last] == new[change.start : change.end]) for change in found if change.equal)
