"""Unified diffs of two texts, fast for texts of any size.

`difflib` takes cubic time when many lines repeat. So the diff of two long texts is a single change: everything between
their common beginning and their common end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

#: With more pairs of lines than this, the diff is a single change.
MOST_PAIRS = 1_000_000


def unified(old: Sequence[str], new: Sequence[str], old_name: str, new_name: str, around: int = 3) -> Iterator[str]:
    """The lines of the diff, with the line ends of the input. Empty if the texts are equal."""
    if len(old) * len(new) <= MOST_PAIRS:
        import difflib

        yield from difflib.unified_diff(old, new, old_name, new_name, lineterm="", n=around)
    elif old != new:
        yield f"--- {old_name}"
        yield f"+++ {new_name}"
        yield from _one_change(old, new, around)


def _one_change(old: Sequence[str], new: Sequence[str], around: int) -> Iterator[str]:
    shorter = min(len(old), len(new))
    head = next((position for position in range(shorter) if old[position] != new[position]), shorter)
    most = shorter - head
    tail = next((position for position in range(most) if old[-1 - position] != new[-1 - position]), most)
    first = max(0, head - around)
    old_end, new_end = len(old) - tail, len(new) - tail
    last = min(len(old), old_end + around)
    yield f"@@ -{first + 1},{last - first} +{first + 1},{last - first + len(new) - len(old)} @@"
    yield from (f" {line}" for line in old[first:head])
    yield from (f"-{line}" for line in old[head:old_end])
    yield from (f"+{line}" for line in new[head:new_end])
    yield from (f" {line}" for line in old[old_end:last])
