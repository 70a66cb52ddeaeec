"""Diffs of texts that were made to take long, and of ordinary ones."""

from __future__ import annotations

import difflib

import pytest

from engram.diffs import MOST_PAIRS, unified


@pytest.mark.requirement("BLOCK-7")
@pytest.mark.parametrize("count", [1_001, 20_000])
def test_long_texts_are_shown_as_one_change_that_gives_the_new_text(count: int) -> None:
    old = ["same", *[f"l{number % 100}" for number in range(count)], "end", "of it"]
    new = ["same", *old[-3:0:-1], "end", "of it"]
    assert len(old) * len(new) > MOST_PAIRS
    header, body = (shown := list(unified(old, new, "a", "b")))[:2], shown[3:]
    assert header == ["--- a", "+++ b"]
    assert shown[2].startswith("@@ -1,")
    assert [line[1:] for line in body if line[0] in " -"] == old
    assert [line[1:] for line in body if line[0] in " +"] == new


@pytest.mark.requirement("BLOCK-7")
def test_short_texts_are_compared_line_by_line() -> None:
    old, new = ["a", "b", "c"], ["a", "x", "c"]
    assert list(unified(old, new, "1", "2")) == list(difflib.unified_diff(old, new, "1", "2", lineterm=""))
    assert list(unified(old, old, "1", "2")) == []
    assert list(unified(["x"] * 2_000, ["x"] * 2_000, "1", "2")) == []
