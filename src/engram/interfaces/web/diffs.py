"""Two versions of a text beside each other: line by line, with marks on the words that differ.

Lines that did not change are folded away, apart from a few around each change. A text of any size is shown in bounded
time: the parts that are too long to be compared in detail are shown as one change. All diffs of a page share one
budget, because a page may have many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...safe_text import visible
from ..http.html import Html, tag, together
from .parts import plural

#: Pairs of lines or words that one comparison and all comparisons of a page look at. A pair is one bit of a number, so
#: a million of them take a few milliseconds.
_MOST_PAIRS, _PAGE_PAIRS = 1_000_000, 8_000_000
#: Characters that a diff alone shows, and all diffs of a page.
_MOST_CHARACTERS, _PAGE_CHARACTERS = 200_000, 800_000
#: Changed lines are matched by their words as long as there are no more pairs of them than this.
_MOST_MATCHED = 900
#: Two lines with fewer words in common than this share are different lines, not two versions of one.
_ALIKE = 0.3
#: Words of a line that are compared one by one.
_MOST_WORDS = 400
#: Unchanged lines around a change.
_AROUND = 2
_MOST_ROWS = 400
#: Characters of a line that are shown.
_LONGEST = 4_000

_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


class _Row(NamedTuple):
    """A line of the old text beside one of the new; None where there is none. Unchanged lines are equal."""

    old: str | None
    new: str | None


class Budget:
    """What the diffs of a page may still cost: pairs that are compared, and characters that are shown."""

    def __init__(self, pairs: int = _PAGE_PAIRS, characters: int = _PAGE_CHARACTERS) -> None:
        self.pairs = pairs
        self.characters = characters

    def compare(self, pairs: int) -> bool:
        """Whether this many pairs may be compared. If so, they are taken."""
        if pairs > min(self.pairs, _MOST_PAIRS):
            return False
        self.pairs -= pairs
        return True

    def show(self, characters: int) -> bool:
        """Whether this many characters may be shown. If so, they are taken."""
        if characters > self.characters:
            return False
        self.characters -= characters
        return True


class Change(NamedTuple):
    """A part of two sequences: `old[first:last]` became `new[start:end]`, or both are equal."""

    equal: bool
    first: int
    last: int
    start: int
    end: int


def changes(old: Sequence[str], new: Sequence[str], budget: Budget) -> list[Change]:
    """What is equal and what changed, in order. What the budget cannot pay is one change.

    Entries without a letter or digit, such as blank lines, are equal only beside others that are equal: by themselves
    they would cut a change into pieces.
    """
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    most = shorter - head
    tail = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    old_end, new_end = len(old) - tail, len(new) - tail
    runs: list[tuple[int, int, int]] = []
    if budget.compare((old_end - head) * (new_end - head)):
        inner = _runs(_common(old[head:old_end], new[head:new_end]))
        runs = [(head + one, head + other, length) for one, other, length in inner]
    runs = [each for each in runs if _has_word(old[each[0] : each[0] + each[2]])]
    made: list[Change] = []
    last = end = 0
    for first, start, length in [(0, 0, head), *runs, (old_end, new_end, tail)]:
        if last < first or end < start:
            made.append(Change(False, last, first, end, start))
        last, end = first + length, start + length
        if length:
            made.append(Change(True, first, last, start, end))
    return made


def _has_word(entries: Sequence[str]) -> bool:
    return any(sign.isalnum() for each in entries for sign in each)


def _common(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The longest common subsequence, as pairs of places.

    Each row of the usual table of lengths is one number (Hyyrö, "Bit-parallel LCS-length computation revisited"): a bit
    is 0 where the length grows. The cost depends on the number of pairs only, not on what the entries are.
    """
    if not old or not new:
        return []
    places: dict[str, int] = {}
    for at, each in enumerate(new):
        places[each] = places.get(each, 0) | 1 << at
    full = (1 << len(new)) - 1
    rows = [full]
    for each in old:
        row = rows[-1]
        matches = row & places.get(each, 0)
        rows.append(((row + matches) | (row - matches)) & full)
    found: list[tuple[int, int]] = []
    one, other = len(old), len(new)
    while one and other:
        if rows[one] >> (other - 1) & 1:
            other -= 1
            continue
        one -= 1
        if rows[one] >> (other - 1) & 1:
            other -= 1
            found.append((one, other))
    return found[::-1]


def _runs(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Pairs of places that follow each other: the first pair, and how many there are."""
    first, length = (0, 0), 0
    for one, other in pairs:
        if length and (one, other) == (first[0] + length, first[1] + length):
            length += 1
            continue
        if length:
            yield *first, length
        first, length = (one, other), 1
    if length:
        yield *first, length


def side_by_side(
    old: str,
    new: str,
    names: tuple[str, str] = ("Now", "Then"),
    label: str = "What changes",
    budget: Budget | None = None,
) -> Html:
    """Both texts as a table of two columns. What goes is `<del>`, what comes is `<ins>`."""
    left = budget or Budget(_MOST_PAIRS, _MOST_CHARACTERS)
    before, after = _lines(old), _lines(new)
    found = changes(before, after, left)
    if all(each.equal for each in found):
        return tag("p", "The text stays the same.", class_="quiet")
    shown: list[Html] = []
    # Lines that are not shown yet.
    olds, news = len(before), len(after)
    for piece in _folded(before, after, found, left):
        if len(shown) >= _MOST_ROWS:
            break
        if isinstance(piece, int):
            olds, news = olds - piece, news - piece
            text = f"⋯ {plural(piece, 'line')} unchanged"
            shown.append(tag("tr", tag("td", text, colspan="2"), class_="fold"))
            continue
        if not left.show(sum(min(len(each or ""), _LONGEST) for each in piece)):
            break
        olds, news = olds - (piece.old is not None), news - (piece.new is not None)
        shown.append(_row(piece, left))
    if olds or news:
        text = f"⋯ {plural(max(olds, news), 'more line')}"
        shown.append(tag("tr", tag("td", text, colspan="2"), class_="fold"))
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
    made = tag("table", tag("caption", label, class_="unseen"), head, tag("tbody", *shown), class_="diff")
    # A long one scrolls in its place; that must be possible with the keyboard, too.
    return tag("div", made, class_="diff-box", tabindex="0", role="region", aria_label=label)


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").rstrip("\n").split("\n") if text.strip() else []


def _folded(old: Sequence[str], new: Sequence[str], found: Sequence[Change], budget: Budget) -> Iterator[_Row | int]:
    """The rows near a change; a number stands for that many unchanged rows."""
    for change in found:
        if not change.equal:
            yield from _matched(old[change.first : change.last], new[change.start : change.end], budget)
            continue
        first = change.first if change is found[0] else min(change.first + _AROUND, change.last)
        last = change.last if change is found[-1] else max(change.last - _AROUND, first)
        yield from (_Row(line, line) for line in old[change.first : first])
        if first < last:
            yield last - first
        yield from (_Row(line, line) for line in old[last : change.last])


def _matched(old: Sequence[str], new: Sequence[str], budget: Budget) -> Iterator[_Row]:
    """The lines of a change, in order, those beside each other that are most alike."""
    # Each line is compared with each on the other side, by its words.
    cost = len(old) * sum(map(len, new)) + len(new) * sum(map(len, old))
    if len(old) * len(new) > _MOST_MATCHED or not budget.compare(cost):
        yield from (_Row(line, None) for line in old)
        yield from (_Row(None, line) for line in new)
        return
    pairs = _best_pairs(old, new)
    at = start = 0
    for first, second in [*pairs, (len(old), len(new))]:
        yield from (_Row(line, None) for line in old[at:first])
        yield from (_Row(None, line) for line in new[start:second])
        if first < len(old):
            yield _Row(old[first], new[second])
        at, start = first + 1, second + 1


def _best_pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Which lines are versions of each other: the choice, in order, with the most words in common."""
    words = [[set(re.findall(r"\w+", line.casefold())) for line in side] for side in (old, new)]
    alike = [[_share(one, other) for other in words[1]] for one in words[0]]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for first in reversed(range(len(old))):
        for second in reversed(range(len(new))):
            pair = alike[first][second] + best[first + 1][second + 1] if alike[first][second] >= _ALIKE else 0.0
            best[first][second] = max(best[first + 1][second], best[first][second + 1], pair)
    pairs, first, second = [], 0, 0
    while first < len(old) and second < len(new):
        if best[first][second] == best[first + 1][second]:
            first += 1
        elif best[first][second] == best[first][second + 1]:
            second += 1
        else:
            pairs.append((first, second))
            first, second = first + 1, second + 1
    return pairs


def _share(one: set[str], other: set[str]) -> float:
    total = len(one) + len(other)
    return 2 * len(one & other) / total if total else 1.0


def _row(row: _Row, budget: Budget) -> Html:
    old, new = row
    if old == new:
        return tag("tr", tag("td", _text(old)), tag("td", _text(new)), class_="same")
    if old is None or new is None or max(len(old), len(new)) > _LONGEST:
        return tag("tr", _side(old, "del"), _side(new, "ins"))
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if max(len(before), len(after)) > _MOST_WORDS:
        return tag("tr", _side(old, "del"), _side(new, "ins"))
    went: list[str] = []
    came: list[str] = []
    for change in changes(before, after, budget):
        gone, made = "".join(before[change.first : change.last]), "".join(after[change.start : change.end])
        if change.equal:
            went.append(visible(gone))
            came.append(visible(made))
            continue
        if gone:
            went.append(tag("del", visible(gone)))
        if made:
            came.append(tag("ins", visible(made)))
    return tag("tr", tag("td", together(*went), class_="del"), tag("td", together(*came), class_="ins"))


def _side(line: str | None, element: str) -> Html:
    """A line that only one of the texts has."""
    if line is None:
        return tag("td", class_="none")
    return tag("td", tag(element, _text(line)) if line.strip() else _text(line), class_=element)


def _text(line: str | None) -> str:
    shown = visible(line or "")
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
