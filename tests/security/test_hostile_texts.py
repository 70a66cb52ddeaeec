"""No text makes any reader take quadratic time."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engram import framing, sentences
from engram.dreaming.duplicates import statements
from engram.forgetting import cleaning
from engram.llm.extractive import markers, terms
from engram.memory import analyser, citations, query_dates, word_index
from engram.redact import clean, redact
from engram.safe_text import one_line
from engram.tokens import estimate
from tests.security._patterns import hostile, patterns, pumped, slow

#: The functions that read stored text, or text that will be stored.
READERS: dict[str, Callable[[str], object]] = {
    "redact": redact,
    "redacting JSON": lambda text: clean({"a": text, "password": text, "list": [text]}),
    "framing.clean": framing.clean,
    "framing.frame": lambda text: framing.frame("kind", text),
    "a line's sources": lambda text: (citations.handles(text), citations.bare(text)),
    "a block without lost lines": lambda text: cleaning.without_lost_lines(
        f"{text}\nx [e1]", {"e1"}, citations.SourceMatcher([text], [])
    ),
    "words.terms": analyser.terms,
    "index.cut": word_index.cut,
    "dates.spans": lambda text: query_dates.spans(text, "2026-11-15T18:36:08.123456Z"),
    "statements.read": lambda text: statements.read.__wrapped__(text[:20_000]),
    "sentences.split": sentences.split,
    "sentences.parts": sentences.parts,
    "terms.words": lambda text: terms.Analyser().words(text),
    "markers": lambda text: [pattern.search(text) for _, pattern in markers.MARKERS],
    "one_line": lambda text: one_line(text, 200),
    "tokens.estimate": estimate,
}
PIECES = (
    *("-eyJ", "eyJ", "token=", "password=", "secret: ", 'key = "', "https://a:", "://", "@", "ghp_", "bearer ", "MII"),
    *("-----BEGIN PRIVATE KEY-----", "Authorization: ", "curl -u a:", " -p ", "password is ", "%3D", "\\n", "\\u00e9"),
    *(" ", "\n", "\t", '"', "'", "\\", "`", "|", "a", "A", "0", "-", ".", "_", "é", "…", "字", "\u0301", "\x7f"),
    *(
        ". ",
        "a.",
        "a, ",
        " [e1]",
        "[e1, ",
        '" + "',
        "' '",
        '{"a":',
        "<private>",
        "</private>",
        "<engram-context",
        "&lt;",
    ),
    *("a1.token=", "eyJabcdefgh.password=", "AKIApassword=", "secret=a.b/c:"),
    *("&lt;", "aB", "1a", "n't ", "'s ", "second ", "one and ", "in May ", "x/", "**", "1,", "I never do. "),
)


@pytest.mark.requirement("REDACT-3")
def test_the_patterns_are_found_wherever_they_are_compiled() -> None:
    named = " ".join(patterns())
    for module in (
        *("redact", "redact.assignments", "memory.citations", "memory.analyser", "llm.extractive.markers"),
        *("dreaming.duplicates.statements", "sentences"),
    ):
        assert f"{module} line" in named
    assert len(patterns()) > 200


@pytest.mark.requirement("REDACT-3")
@pytest.mark.parametrize("part", range(8))
def test_a_pattern_is_linear_in_texts_made_of_its_own_pieces(part: int) -> None:
    found = [(where, wrong) for where, pattern in list(patterns().items())[part::8] if (wrong := first_slow(pattern))]
    assert found == []


def first_slow(pattern: Any) -> tuple[str, str] | None:
    """The first text that makes a pattern slow. One is enough: the others take as long."""
    for name, make in hostile(pattern):
        if wrong := slow(partial(scan, pattern), make):
            return name, wrong
    return None


def scan(pattern: Any, text: str) -> None:
    # Headers are bytes.
    given = text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")
    for _ in pattern.finditer(given):
        pass


@pytest.mark.requirement("REDACT-3")
@pytest.mark.parametrize("reader", READERS)
def test_reading_a_hostile_text_is_linear(reader: str) -> None:
    # The end makes a match that began before it fail.
    found = [(piece, wrong) for piece in PIECES if (wrong := slow(READERS[reader], pumped(piece, end="!x")))]
    assert found == []


@pytest.mark.requirement("REDACT-3")
@pytest.mark.parametrize("piece", ["a", "token=", "字"])
def test_comparing_two_texts_is_fast(piece: str) -> None:
    def compare(text: str) -> str:
        lines = range(len(text) // 20)
        matcher = citations.SourceMatcher(["\n".join(f"{text[:9]} said line {number:x}" for number in lines)], ["kept"])
        return matcher.remove_lost("\n".join(f"other words {number:x} {text[:9]}" for number in lines))

    assert slow(compare, pumped(piece)) is None


@pytest.mark.requirement("REDACT-3")
def test_quadratic_growth_is_detected() -> None:
    # From each place it reads to the end of the text. That takes some seconds, also on a fast machine.
    assert slow(partial(scan, re.compile("a*b")), pumped("a")) is not None
