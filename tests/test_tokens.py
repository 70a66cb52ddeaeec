"""The estimate the budgets are counted in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.tokens import CHARACTERS_PER_TOKEN, estimate, weight


@pytest.mark.requirement("SITREP-3")
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("word", 1),
        ("words", 2),
        ("x" * 4_000, 1_000),
        ("déjà vu!", 2),
        ("привет", 3),
        ("漢字", 2),
        ("東京タワー", 5),
        ("한국어", 3),
        ("\U0001f600", 2),
        ("\U00020000", 2),
        ("word 漢字", 4),
        ("\ud800", 1),
    ],
)
def test_the_estimate_knows_scripts(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@pytest.mark.requirement("SITREP-3")
@given(st.text(), st.text())
def test_the_weight_of_a_joined_text_is_the_sum_of_its_parts(one: str, other: str) -> None:
    assert weight(one + other) == weight(one) + weight(other)


@pytest.mark.requirement("SITREP-3")
@given(st.text(st.characters(), min_size=1))
def test_no_character_is_free_and_none_costs_more_than_two_tokens(text: str) -> None:
    assert len(text) <= weight(text) <= 2 * CHARACTERS_PER_TOKEN * len(text)
    assert estimate(text) >= 1
