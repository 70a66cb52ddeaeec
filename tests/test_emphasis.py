"""Emphasis goes, patterns stay."""

from __future__ import annotations

import pytest

from engram.emphasis import without_emphasis


@pytest.mark.requirement("BRIEF-15")
@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("**Done**: all", "Done: all"),
        ("**/*.py", "**/*.py"),
        ("src/** and lib/**", "src/** and lib/**"),
        ("**Note:** lint **/*.py in **two** steps", "Note: lint **/*.py in two steps"),
        ("2**3 and 4**5", "2**3 and 4**5"),
        ("f(**kwargs)", "f(**kwargs)"),
        ("結果**太字**です", "結果太字です"),
        ("**", "**"),
        ("****", "****"),
        ("", ""),
    ],
)
def test_marks_are_removed_only_in_pairs_around_words(text: str, plain: str) -> None:
    assert without_emphasis(text) == plain
