"""Cutting texts into sentences: those to be read by themselves, and the smallest parts that say something."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.sentences import LONGEST, parts, split


@pytest.mark.requirement("LLM-12")
@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Miller met Mrs. Smith at 5 p.m. on Friday.", ["Dr. Miller met Mrs. Smith at 5 p.m. on Friday."]),
        ("Use e.g. SQLite, i.e. Version 3.51. It works.", ["Use e.g. SQLite, i.e. Version 3.51.", "It works."]),
        ("J. Smith and I. Then we left.", ["J. Smith and I.", "Then we left."]),
        ("See https://example.org/a.b?c=d. Then src/app.py.", ["See https://example.org/a.b?c=d.", "Then src/app.py."]),
        ("It costs 3.5 dollars. 20 were sold.", ["It costs 3.5 dollars.", "20 were sold."]),
        ("wow!! really? yes", ["wow!!", "really?", "yes"]),
        ("Well... maybe. Wait… what", ["Well... maybe.", "Wait… what"]),
        (
            'It prints "Hello, Alice!" three times. Then it ends.',
            ['It prints "Hello, Alice!" three times.', "Then it ends."],
        ),
        ('She said "Stop." Then she left.', ['She said "Stop."', "Then she left."]),
        ("It broke. [a photo of a cup] (Sad.)", ["It broke. [a photo of a cup] (Sad.)"]),
        ("# Plan\n- buy milk\n* call Ann\n2) rest", ["Plan", "buy milk", "call Ann", "rest"]),
        ("- [ ] write docs\n- [x] ship it", ["TODO: write docs", "Done: ship it"]),
        ("Before.\n```python\nx = 1. Then()\n```\nAfter.", ["Before.", "After."]),
        (
            "A line that was wrapped by an editor somewhere near\nthe end goes on. Then\nshort",
            ["A line that was wrapped by an editor somewhere near the end goes on.", "Then", "short"],
        ),
        ("今日は雨です。傘を持って！本当？", ["今日は雨です。", "傘を持って！", "本当？"]),
        ("| a | b |\n| --- | --- |\n", ["| a | b |"]),
        ("", []),
        (" \n\t\n", []),
    ],
)
def test_a_text_is_cut_into_its_sentences(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


@pytest.mark.requirement("LLM-12")
def test_only_a_monstrous_sentence_is_cut_and_shows_it() -> None:
    fine = "word " * 80 + "end."
    assert split(fine) == [fine]
    (cut,) = split("word " * 2_000)
    assert len(cut) <= LONGEST
    assert cut.endswith("word…")
    (cut,) = split("x" * 100_000)
    assert len(cut) == LONGEST


@pytest.mark.requirement("LLM-12")
@given(st.text(st.sampled_from("ab .!?\n-[]`“”…。é漢0123") | st.characters(exclude_categories=["Cs"])))
def test_splitting_loses_no_letters_outside_code_and_marks(text: str) -> None:
    if "```" in text or "~~~" in text or len(text) > LONGEST:
        return
    letters = re.compile(r"[^\W\d_]")
    # The box of a list item is a mark, and becomes a word in front of the line.
    box = re.compile(r"^\s*[-*+•–]\s+\[([ xX])\]\s+")
    said = [box.sub(lambda mark: "TODO " if mark[1] == " " else "Done ", line) for line in text.splitlines()]
    lines = [line for line in said if not re.fullmatch(r"(TODO|Done) \s*", line)]
    assert letters.findall("".join(split(text))) == letters.findall("".join(lines))


@pytest.mark.requirement("LLM-12", "FORGET-5")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. two! Three?", ["One.", "two!", "Three?"]),
        ("- a list\n\n- of two", ["- a list", "- of two"]),
        ("```\nx = 1\n```", ["```", "x = 1", "```"]),
        ("See a.py and 3.5 there", ["See a.py and 3.5 there"]),
        ("今日は雨です。傘を持って！！「本当？」はい", ["今日は雨です。", "傘を持って！！", "「本当？」はい"]),
        (" \n\t\n", []),
    ],
)
def test_the_parts_of_a_text_are_cut_at_every_mark_and_line_end(text: str, expected: list[str]) -> None:
    assert parts(text) == expected


@pytest.mark.requirement("LLM-12", "FORGET-5")
@given(st.text(st.sampled_from("ab .!?\n-[]`“”…。」é漢0123") | st.characters(exclude_categories=["Cs"])))
def test_the_parts_of_a_text_are_all_of_it(text: str) -> None:
    assert "".join("".join(parts(text)).split()) == "".join(text.split())
