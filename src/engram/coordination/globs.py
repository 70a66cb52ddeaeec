"""Patterns with gitignore's meaning, and whether two of them can match the same path.

The two patterns are compared step by step. The set of possible positions is the bits of one integer. So there is no
recursion, and no hostile pattern takes exponential time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: What one position of a name matches: one character, or the ranges of a character class.
_Chars: TypeAlias = "str | tuple[tuple[int, int], ...]"
#: One segment of a path: a literal text, or a pattern in which `None` is a `*`.
_Name: TypeAlias = "str | tuple[_Chars | None, ...]"

_Item = TypeVar("_Item")


def meet(a: str, b: str) -> bool:
    """Whether some path matches both patterns, or is below what they match."""
    first, second = _compiled(a), _compiled(b)
    return first is not None and second is not None and _paths_meet(first, second)


def has_extension(name: str) -> bool:
    """Whether a name has a file extension: `README.md` and `*.[ch]`, but not `v1.2`, `.github` or `e.g. this`."""
    stem, _, extension = name.rpartition(".")
    begins = extension[:1].isalpha() or extension[:1] in ("*", "?", "[")
    return bool(stem) and begins and not any(map(str.isspace, extension))


def has_magic(text: str) -> bool:
    return "*" in text or "?" in text or "[" in text or "\\" in text


def escaped(text: str) -> str:
    if has_magic(text):
        for char in "\\*?[":
            text = text.replace(char, "\\" + char)
    return text


def canonical(segment: str) -> str:
    """A literal segment with only its special characters escaped; any other segment is returned unchanged."""
    if not has_magic(segment):
        return segment
    name = parse(segment)
    return escaped(name) if isinstance(name, str) else segment


def parse(segment: str) -> _Name:
    """Parse a segment. A literal segment stays a string."""
    if not has_magic(segment):
        return segment
    places: list[_Chars | None] = []
    classes = True
    at = 0
    while at < len(segment):
        char = segment[at]
        at += 1
        if char == "*":
            if places[-1:] != [None]:
                places.append(None)
        elif char == "?":
            places.append(_ANY_CHAR)
        elif char == "[" and classes and (found := _char_class(segment, at)):
            ranges, at = found
            places.append(ranges)
        else:
            # If one `[` is not closed, no later one is. Searching again would make parsing quadratic.
            classes = classes and char != "["
            char, at = _member(segment, at - 1)
            places.append(char)
    literal = [position for position in places if isinstance(position, str)]
    return "".join(literal) if len(literal) == len(places) else tuple(places)


def _char_class(text: str, at: int) -> tuple[tuple[tuple[int, int], ...], int] | None:
    """The ranges of the class whose `[` is right before `at`, and where it ends; None when it is not closed."""
    negated = text[at : at + 1] in ("!", "^")
    start = at = at + negated
    ranges: list[tuple[int, int]] = []
    while at < len(text):
        if text[at] == "]" and at > start:
            return tuple(_complement(ranges) if negated else _merged(ranges)), at + 1
        low, at = _member(text, at)
        high = low
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(text, at + 1)
        # As in git, a reversed range matches only its first character.
        ranges.append((ord(low), max(ord(low), ord(high))))
    return None


def _member(text: str, at: int) -> tuple[str, int]:
    """The character at a position, unescaped, and the position after it."""
    if text[at] == "\\" and at + 1 < len(text):
        at += 1
    return text[at], at + 1


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        first, last = merged[-1] if merged else (low, low - 2)
        if low <= last + 1:
            merged[-1] = (first, max(last, high))
        else:
            merged.append((low, high))
    return merged


def _complement(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """All other characters that a name can contain, so never NUL or `/`."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in _merged([*ranges, (0, 0), (ord("/"), ord("/"))]):
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= 0x10FFFF:
        gaps.append((start, 0x10FFFF))
    return gaps


_ANY_CHAR = tuple(_complement([]))


class _Pattern(NamedTuple):
    """A parsed path."""

    #: The segments. `None` is a `**`, which is never last.
    names: tuple[_Name | None, ...]
    #: Whether it covers everything below what it matches, even if the other pattern does not name a path below.
    is_open: bool


@lru_cache(maxsize=512)
def _compiled(path: str) -> _Pattern | None:
    """Parse the path of a stored resource; None if it has an empty class and so matches nothing."""
    names: list[_Name | None] = []
    for segment in filter(None, path.split("/")):
        if segment != "**":
            name = parse(segment)
            if isinstance(name, tuple) and () in name:
                return None
            names.append(name)
        elif names[-1:] != [None]:
            names.append(None)
    if names[-1:] == [None]:
        # A final `**` matches everything inside, so at least one segment. Anything below that segment is covered too.
        names[-1] = (None,)
    return _Pattern(tuple(names), not has_extension(path.rpartition("/")[2]))


def _paths_meet(a: _Pattern, b: _Pattern) -> bool:
    """Compare segment by segment up to the first `**`, and search from there on.

    A pattern that is shorter than the other covers the rest, because the other shows that this is a folder.
    """
    for start, (x, y) in enumerate(zip(a.names, b.names, strict=False)):
        if x is None or y is None:
            return _trees_meet(a._replace(names=a.names[start:]), b._replace(names=b.names[start:]))
        if not _names_meet(x, y):
            return False
    return True


def _trees_meet(a: _Pattern, b: _Pattern) -> bool:
    """Like `_paths_meet`, from a `**` on. There a pattern may end where the other has no matching segment."""
    end = 1 << len(b.names)
    state = named = 0
    for state, named in _states(a.names, b.names, _names_meet):
        if state & end and (b.is_open or named & end):
            return True
        if not state:
            return False
    return named != 0 or (a.is_open and state != 0)


def _names_meet(a: _Name, b: _Name) -> bool:
    """Whether some name matches both segments."""
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    if not (_heads_meet(a, b) and _heads_meet(a[::-1], b[::-1])):
        return False
    if not isinstance(a, str) and not isinstance(b, str) and None in a and None in b:
        # Text between two stars of one can match a star of the other, so only the beginnings and ends decide.
        return True
    state = 0
    for state, _ in _states(a, b, _chars_meet):
        if not state:
            return False
    return state >> len(b) & 1 == 1


def _heads_meet(a: _Name, b: _Name) -> bool:
    """Whether two segments agree up to the first star or end of either."""
    for x, y in zip(a, b, strict=False):
        if x is None or y is None:
            return True
        if x != y and not _chars_meet(x, y):
            return False
    return True


def _chars_meet(a: _Chars, b: _Chars) -> bool:
    """Whether two sets of characters, given as ascending ranges, share a character."""
    if isinstance(a, str):
        return a == b if isinstance(b, str) else _holds(b, ord(a))
    if isinstance(b, str):
        return _holds(a, ord(b))
    i = j = 0
    while i < len(a) and j < len(b):
        (first_a, last_a), (first_b, last_b) = a[i], b[j]
        if last_a < first_b:
            i += 1
        elif last_b < first_a:
            j += 1
        else:
            return True
    return False


def _holds(ranges: tuple[tuple[int, int], ...], code: int) -> bool:
    for low, high in ranges:
        if code <= high:
            return low <= code
    return False


def _states(
    a: Sequence[str | _Item | None],
    b: Sequence[str | _Item | None],
    meets: Callable[[str | _Item, str | _Item], bool],
) -> Iterator[tuple[int, int]]:
    """Compare two patterns step by step; after each item of `a`, yield the positions that `b` can have reached.

    `None` matches any number of items, so this works for the characters of a name (`*`) and for the segments of a path
    (`**`). A set of positions in `b` is one integer with one bit per position, so a step takes a few operations. The
    second integer has only the positions that were reached by an item of `b`, not by a `None`. Every item must be able
    to match something.
    """
    stars, literals, others = _positions(b)
    masks: dict[str | _Item, int] = {}
    everything = (2 << len(b)) - 1
    state = 1 | (stars & 1) << 1
    for item in a:
        named = 0
        if item is None:
            # It can match any items of `b`: all positions from the first one on.
            state = everything & -(state & -state)
        else:
            if item not in masks:
                masks[item] = _mask(item, literals, others, meets)
            named = (state & masks[item]) << 1
            state = named | state & stars
            state |= (state & stars) << 1
        yield state, named


def _positions(items: Sequence[str | _Item | None]) -> tuple[int, dict[str, int], dict[_Item, int]]:
    """The positions of a pattern's `None`s, of each literal and of each other item, as bits."""
    stars = 0
    literals: dict[str, int] = {}
    others: dict[_Item, int] = {}
    for at, item in enumerate(items):
        if item is None:
            stars |= 1 << at
        elif isinstance(item, str):
            literals[item] = literals.get(item, 0) | 1 << at
        else:
            others[item] = others.get(item, 0) | 1 << at
    return stars, literals, others


def _mask(
    item: str | _Item,
    literals: dict[str, int],
    others: dict[_Item, int],
    meets: Callable[[str | _Item, str | _Item], bool],
) -> int:
    """The positions of items that share a match with this one."""
    mask = 0
    if isinstance(item, str):
        mask = literals.get(item, 0)
    else:
        for literal, bits in literals.items():
            if meets(item, literal):
                mask |= bits
    for other, bits in others.items():
        if meets(item, other):
            mask |= bits
    return mask
