"""Marks the words of a text that a search has found, and the words that differ between two texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ...safe_text import lines
from ..http.html import Html, tag, together
from .diffs import Budget, changes

#: Stems of a question that are looked for.
_MOST_STEMS = 60
#: Letters that an ending may have, at most and beyond the length of its stem: `deployments`, but not `google` for `go`.
_ENDING, _BEYOND = 6, 1
#: Words of a text that are compared. The lines of a longer one are compared instead.
_MOST_WORDS = 2_000
#: A word or a sign, or a line, and the white space after it.
_WORD = re.compile(r"([^\W_]+|[^\w\s]|_|\A)(\s*)")
_WHOLE = re.compile(r"[^\W_]+")
_LINE = re.compile(r"([^\n]+|\A)(\n*)")


def marked(text: str, stems: Iterable[str]) -> Html:
    """The text with the words marked that have one of these stems, and with its line breaks."""
    known = [each for each in stems if each][:_MOST_STEMS]
    plain = {each for each in known if each.isascii()}
    pairs = [each for each in known if not each.isascii()]
    shown: list[str] = []
    waiting = ""
    for piece in _pieces(lines(text)):
        if piece[0].isalnum() and (_has_stem(piece.lower(), plain) or any(pair in piece for pair in pairs)):
            shown += [waiting, tag("mark", piece)]
            waiting = ""
        else:
            waiting += piece
    return together(*shown, waiting)


def spelled(stems: Iterable[str], question: str) -> list[str]:
    """The words of a question that have these stems, as the person wrote them; the stem if none has."""
    text = lines(question)
    # The parts of `SpecStory` are words, and the whole is one too.
    words = list(dict.fromkeys(each for each in (*_WHOLE.findall(text), *_pieces(text)) if each[0].isalnum()))
    words = words[:_MOST_STEMS]
    found = {stem: next((each for each in words if _has_stem(each.lower(), {stem})), stem) for stem in stems}
    return list(dict.fromkeys(found.values()))


def _has_stem(word: str, stems: set[str]) -> bool:
    """Whether a word begins with a stem and has a short ending. A stem may have an i where the word has a y."""
    for length in range(max(len(word) - _ENDING, (len(word) - _BEYOND + 1) // 2, 2), len(word) + 1):
        start = word[:length]
        if start in stems or (start[-1] == "y" and length == len(word) and f"{start[:-1]}i" in stems):
            return True
    return word in stems


def _pieces(text: str) -> Iterator[str]:
    """Words, and what is between them. The parts of a path and of an identifier are words of their own."""
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or _ends(text[end - 1], text[end]):
            yield text[start:end]
            start = end


def _ends(one: str, next: str) -> bool:
    if one.isalnum() != next.isalnum():
        return True
    # fooBar
    return one.islower() and next.isupper()


def difference(old: str, new: str, budget: Budget | None = None) -> Html:
    """Both texts in one: what went is struck through, what came is marked."""
    left = budget or Budget()
    before, after = lines(old), lines(new)
    if not left.show(len(before) + len(after)):
        return tag("p", "These versions are too long to be compared here.", class_="quiet")
    one, other = _WORD.findall(before), _WORD.findall(after)
    if max(len(one), len(other)) > _MOST_WORDS:
        one, other = _LINE.findall(before), _LINE.findall(after)
    made: list[str] = []
    gone = came = ""
    # White space is not compared like a word: if it were, two texts without a common word would have much in common.
    for change in changes([word for word, _ in one], [word for word, _ in other], left):
        if not change.equal:
            gone += "".join(word + gap for word, gap in one[change.first : change.last])
            came += "".join(word + gap for word, gap in other[change.start : change.end])
            continue
        pairs = zip(one[change.first : change.last], other[change.start : change.end], strict=True)
        for (word, gap), (_, new_gap) in pairs:
            if word:
                made += [tag("del", gone) if gone else "", tag("ins", came) if came else "", word]
                gone = came = ""
            if gap == new_gap and not gone and not came:
                made.append(gap)
            else:
                gone, came = gone + gap, came + new_gap
    made += [tag("del", gone) if gone else "", tag("ins", came) if came else ""]
    return tag("div", *made, class_="difference")
