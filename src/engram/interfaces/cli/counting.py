"""Numbers of things, as people write them."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 exchange`, `2 exchanges`, `1,000 memories`; `many` where the plural is not formed at the end of the phrase."""
    regular = f"{one[:-1]}ies" if one.endswith("y") and one[-2:-1] not in "aeiou" else f"{one}s"
    return f"{number:,} {one if number == 1 else many or regular}"
