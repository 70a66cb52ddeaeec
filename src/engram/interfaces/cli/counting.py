"""Numbers of things, as people write them."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 exchange`, `2 exchanges`, `0 memories`; `many` where the plural is not formed at the end of the phrase."""
    if number == 1:
        return f"1 {one}"
    regular = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{number} {many or regular}"
