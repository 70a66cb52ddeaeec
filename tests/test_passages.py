"""Passages: the part of a text that fits a question."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.memory.passages import LONGEST, of_piece, passage
from engram.memory.word_index import parts

#: A text of a few characters more than a passage is not cut; marks come on top.
MOST = LONGEST + 80
WEIGHTS = {"otter": 1.0, "river": 0.5, "a": 0.1}
TEXTS = st.lists(
    st.sampled_from(["otter ", "river. ", "a? ", "word ", "\n", "。", "漢字", "」", "x" * 90, "…", "\t", "\u0301"])
    | st.text(max_size=20),
    max_size=80,
).map("".join)


def bare(cut: str) -> str:
    """A passage without its marks."""
    return cut.removeprefix("…").removesuffix("…")


@pytest.mark.requirement("RECALL-28")
@settings(max_examples=60)
@given(TEXTS, st.sampled_from([40, 360, LONGEST]))
def test_a_passage_is_a_short_part_of_its_text(text: str, longest: int) -> None:
    cut = passage(text, WEIGHTS, longest)
    assert len(cut) <= longest + 80
    if len(text) <= longest + 80:
        assert cut == text
    else:
        assert bare(cut) in text


@pytest.mark.requirement("RECALL-28")
@settings(max_examples=60)
@given(TEXTS.map(lambda text: text * 5))
def test_a_passage_of_a_piece_is_a_short_part_of_it(text: str) -> None:
    for start, piece in parts(text):
        cut = of_piece(text, start, piece, WEIGHTS)
        assert len(cut) <= MOST + 2
        assert bare(cut) in piece or cut in piece


@pytest.mark.requirement("RECALL-28")
def test_a_passage_has_whole_sentences_with_the_words_of_the_question() -> None:
    text = "Meadows are green. " * 60 + "An otter lives in the river. " + "Hills are high. " * 60
    cut = passage(text, WEIGHTS)
    assert cut.startswith("…Meadows are green. An otter lives in the river. Hills are high.")
    assert cut.endswith("Hills are high.…")
    assert passage("Meadows are green. " * 60, WEIGHTS).startswith("Meadows are green.")
    assert passage("otter. " + "Meadows are green. " * 60, WEIGHTS).startswith("otter.")
    ended = passage("Meadows are green. " * 60 + "otter.", WEIGHTS)
    assert ended.startswith("…") and ended.endswith("otter.")


@pytest.mark.requirement("RECALL-28")
def test_a_passage_of_a_script_without_spaces_has_whole_sentences() -> None:
    cut = passage("草原は緑です。" * 100 + "「川にotterがいる。」" + "丘は高い。" * 100, WEIGHTS)
    assert "「川にotterがいる。」" in cut
    assert cut.startswith("…草原は緑です。") and cut.endswith("丘は高い。…")


@pytest.mark.requirement("RECALL-28")
def test_a_passage_does_not_begin_in_the_middle_of_a_sentence() -> None:
    text = "".join(f"Sentence {n} is about meadows and hills. " for n in range(60))
    for start, piece in parts(text):
        cut = of_piece(text, start, piece, {})
        assert bare(cut).startswith("Sentence")
        assert cut.startswith("…") == bool(start)


@pytest.mark.requirement("RECALL-29")
@pytest.mark.parametrize("unit", ["x", "\n", " ", "a? ", "漢", "漢。", "otter ", "otter\n", "\u0301", "?", "…"])
def test_a_very_long_text_is_cut_like_any_other(unit: str) -> None:
    text = (unit * 100_000)[:100_000]
    cut = passage(text, WEIGHTS)
    assert len(cut) <= LONGEST + 2
    assert bare(cut) in text
