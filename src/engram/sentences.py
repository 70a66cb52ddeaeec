"""Cuts a text into sentences, in two ways.

`split` returns sentences that make sense alone, for a gist. People and agents rarely write prose: they write greetings,
lists, headings, wrapped lines, code, links, several scripts. So `split` first cuts the text into blocks (a paragraph, a
list item), drops code, and then cuts the blocks at the ends of sentences. A mark ends a sentence only if the next
character can begin one and the word before the mark is not an abbreviation.

`parts` returns the smallest meaningful parts, for comparing texts and for finding the source of a part. It cuts at
every mark and every line end and drops nothing, because forgetting must recognise a text in any layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: Longer sentences are not real ones (a pasted log, minified code). They are cut and end with "…".
LONGEST: Final = 500

_FENCE: Final = re.compile(r"^\s*(```|~~~)")
#: Bullets, numbers, checkboxes, heading marks and quotation marks at the beginning of a line.
_MARKER: Final = re.compile(r"^\s*(?:[-*+•–]\s+(?:\[(?P<box>[ xX])\]\s+)?|\d{1,3}[.)]\s+|#{1,6}\s+|>\s?)")
_RULE: Final = re.compile(r"^[\s|:=*_~+-]*$")
#: A line of this length that does not end a sentence was probably wrapped and continues on the next line.
_WRAPPED: Final = 50
#: Marks that end a sentence before a space, and marks that end one anywhere.
_SPACED_MARKS, _UNSPACED_MARKS = ".!?…", "。！？｡"
_ENDS_LINE: Final = (*_SPACED_MARKS, *_UNSPACED_MARKS, ":", ";")
_PART_END: Final = re.compile(
    rf"(?<=[{_SPACED_MARKS}{_UNSPACED_MARKS}])\s+|\n+|(?<=[{_UNSPACED_MARKS}])(?![{_UNSPACED_MARKS}」』”）\s])"
)

#: Marks that close a quotation, a bracket or an emphasis behind the mark that ends a sentence.
CLOSING_QUOTES: Final = "'\"”’»"
_BRACKETS, _EMPHASIS = ")]", "*_"
_CLOSING: Final = re.escape(f"{CLOSING_QUOTES}{_BRACKETS}{_EMPHASIS}")
#: Matches only at the first of several marks, so that a text of many dots does not take quadratic time.
_END: Final = re.compile(
    rf"""(?<![{_SPACED_MARKS}])([{_SPACED_MARKS}]++[{_CLOSING}]*+)(\s+)(?=(.))|([{_UNSPACED_MARKS}]+[」』”）]*)"""
)
_ABBREVIATED: Final = """
mr mrs ms dr prof sr jr st vs etc no nr vol fig eq sec ch pp approx dept est inc ltd co corp gen col lt rev hon jan
feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun e.g i.e cf al ca z.b bzw
usw resp a.m p.m a.k.a u.s u.k u.s.a e.u ph.d incl excl
"""
_ABBREVIATIONS: Final = frozenset(_ABBREVIATED.split())
#: Maximum length of an abbreviation.
_LOOK_BACK: Final = 20
_LAST_WORD: Final = re.compile(r"(?<![\w.])[\w.]++$")


def split(text: str) -> list[str]:
    """The sentences of the text in order, each on one line, without code, rules and list markers."""
    return [_shorten(sentence) for block in _blocks(text) for sentence in _sentences(block)]


def parts(text: str) -> list[str]:
    """The whole text, cut at every line end and every mark that may end a sentence."""
    return [part.strip() for part in _PART_END.split(text) if part.strip()]


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, list items and headings. No sentence spans two of them."""
    open_block: list[str] = []
    in_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
            continue
        if in_code or _RULE.match(line):
            yield from _close_block(open_block)
            continue
        marker = _MARKER.match(line)
        if marker or not (open_block and _is_wrapped(open_block[-1])):
            yield from _close_block(open_block)
        if marker and marker["box"]:
            # Only the checkbox shows whether the item is done.
            line = f"{'TODO' if marker['box'] == ' ' else 'Done'}: {line[marker.end() :]}"
        elif marker:
            line = line[marker.end() :]
        open_block.append(" ".join(line.split()))
    yield from _close_block(open_block)


def _is_wrapped(line: str) -> bool:
    return len(line) >= _WRAPPED and not line.endswith(_ENDS_LINE)


def _close_block(lines: list[str]) -> Iterator[str]:
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
        # A remark in brackets belongs to the sentence before it.
        return False
    if following.islower() and mark[-1] in (*CLOSING_QUOTES, *_BRACKETS):
        # `It prints "Hello, Alice!" three times` goes on behind the quotation.
        return False
    if mark[0] != ".":
        # In a chat, "Really?! yes" is two sentences, even in lower case. "the Yahoo! site" is rarer.
        return not (mark[0] == "…" and following.islower())
    if following.islower():
        return False
    if mark.startswith(".."):
        return True
    last = _LAST_WORD.search(before)
    word = last[0] if last else ""
    # A single capital letter is an initial (`J. Smith`), except the word "I".
    initial = len(word) == 1 and word.isupper() and word != "I"
    return bool(word) and not initial and word.lower() not in _ABBREVIATIONS


def _shorten(sentence: str) -> str:
    if len(sentence) <= LONGEST:
        return sentence
    head = sentence[: LONGEST - 1]
    space = head.rfind(" ", LONGEST // 2)
    return (head[:space] if space > 0 else head) + "…"
