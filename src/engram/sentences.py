"""Cutting a text into sentences, in two ways.

`split` gives sentences that a reader can read by themselves, for a gist. What people and agents write is rarely prose:
greetings, lists, headings, wrapped lines, code, links, several scripts. So a text is first cut into blocks (a
paragraph, a list item), code is left out, and only then are blocks cut where a sentence ends. A mark ends a sentence
only if what follows can begin another one and what precedes it is no abbreviation.

`parts` gives the smallest parts that can say something, for comparing texts and for tracing where a part came from.
It cuts at every mark and every line end, and leaves nothing out: a text that is to be forgotten must be recognised
however it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: A sentence longer than this is nobody's sentence (a pasted log, minified code); it is cut, and shows that it is.
LONGEST: Final = 500

_FENCE: Final = re.compile(r"^\s*(```|~~~)")
#: Bullets, numbers, boxes to tick, headings and quotation marks at the beginning of a line.
_MARKER: Final = re.compile(r"^\s*(?:[-*+•–]\s+(?:\[(?P<box>[ xX])\]\s+)?|\d{1,3}[.)]\s+|#{1,6}\s+|>\s?)")
_RULE: Final = re.compile(r"^[\s|:=*_~+-]*$")
#: A line this long that does not end a sentence was probably wrapped, and goes on in the next.
_WRAPPED: Final = 50
#: Marks that end a sentence before a space, and marks that end one anywhere.
_SPACED_MARKS, _UNSPACED_MARKS = ".!?…", "。！？｡"
_ENDS_LINE: Final = (*_SPACED_MARKS, *_UNSPACED_MARKS, ":", ";")
_PART_END: Final = re.compile(
    rf"(?<=[{_SPACED_MARKS}{_UNSPACED_MARKS}])\s+|\n+|(?<=[{_UNSPACED_MARKS}])(?![{_UNSPACED_MARKS}」』”）\s])"
)

#: Begins only where a run of marks begins: a text of nothing but dots must not take time by their square.
_END: Final = re.compile(
    rf"""(?<![{_SPACED_MARKS}])([{_SPACED_MARKS}]++['"”’)\]»*_]*+)(\s+)(?=(.))|([{_UNSPACED_MARKS}]+[」』”）]*)"""
)
_ABBREVIATED: Final = """
mr mrs ms dr prof sr jr st vs etc no nr vol fig eq sec ch pp approx dept est inc ltd co corp gen col lt rev hon jan
feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun e.g i.e cf al ca z.b bzw
usw resp a.m p.m a.k.a u.s u.k u.s.a e.u ph.d incl excl
"""
_ABBREVIATIONS: Final = frozenset(_ABBREVIATED.split())
#: No abbreviation is longer.
_LOOK_BACK: Final = 20
_LAST_WORD: Final = re.compile(r"(?<![\w.])[\w.]++$")


def split(text: str) -> list[str]:
    """The text's sentences in order, each on one line; without code, rules and the marks of lists."""
    return [_bounded(sentence) for block in _blocks(text) for sentence in _sentences(block)]


def parts(text: str) -> list[str]:
    """Everything the text says, cut at every line end and every mark that may end a sentence."""
    return [part.strip() for part in _PART_END.split(text) if part.strip()]


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, list items and headings: what a sentence never goes beyond."""
    open_block: list[str] = []
    in_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
            continue
        if in_code or _RULE.match(line):
            yield from _joined(open_block)
            continue
        marker = _MARKER.match(line)
        if marker or not (open_block and _goes_on(open_block[-1])):
            yield from _joined(open_block)
        if marker and marker["box"]:
            # An open box is the only thing that says of a line that it is still to be done.
            line = f"{'TODO' if marker['box'] == ' ' else 'Done'}: {line[marker.end() :]}"
        elif marker:
            line = line[marker.end() :]
        open_block.append(" ".join(line.split()))
    yield from _joined(open_block)


def _goes_on(line: str) -> bool:
    return len(line) >= _WRAPPED and not line.endswith(_ENDS_LINE)


def _joined(lines: list[str]) -> Iterator[str]:
    if any(lines):
        yield " ".join(lines)
    lines.clear()


def _sentences(block: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(block):
        if end[4] or _is_end(block[max(start, end.start() - _LOOK_BACK) : end.start()], end[1], end[3]):
            yield block[start : end.end()].strip()
            start = end.end()
    if rest := block[start:].strip():
        yield rest


def _is_end(before: str, mark: str, following: str) -> bool:
    if following in "([":
        # An aside belongs to what it was said about.
        return False
    if mark[0] != ".":
        # "Really?! yes" is two sentences in a chat, whatever its case; "the Yahoo! site" is rarer.
        return not (mark[0] == "…" and following.islower())
    if following.islower():
        return False
    if mark.startswith(".."):
        return True
    last = _LAST_WORD.search(before)
    word = last[0] if last else ""
    # A single capital is an initial (`J. Smith`), except the word that is always one.
    initial = len(word) == 1 and word.isupper() and word != "I"
    return bool(word) and not initial and word.lower() not in _ABBREVIATIONS


def _bounded(sentence: str) -> str:
    if len(sentence) <= LONGEST:
        return sentence
    head = sentence[: LONGEST - 1]
    space = head.rfind(" ", LONGEST // 2)
    return (head[:space] if space > 0 else head) + "…"
