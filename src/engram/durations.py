"""Lengths of time as people and agents write them: `90`, `30s`, `15m`, `1h30m`, `7d`."""

from __future__ import annotations

from . import checks
from .errors import InvalidInput

#: Seconds by unit, the smallest first.
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration(value: object, what: str) -> float:
    """Seconds, from a number or from text such as `90`, `30s`, `15m`, `1h30m`, `7d`."""
    if isinstance(value, str):
        try:
            value = _seconds(value.strip().lower())
        except ValueError:
            raise InvalidInput(f"{what} is {value!r}; write a time such as 90, 30s, 15m, 1h30m or 7d.") from None
    return checks.seconds(value, what)


def shown(seconds: float) -> str:
    """A length of time in its largest whole unit."""
    unit = next((unit for unit, size in reversed(UNITS.items()) if seconds and seconds % size == 0), "s")
    return f"{seconds / UNITS[unit]:g}{unit}"


def _seconds(text: str) -> float:
    """The parts must go from the largest unit to the smallest, each at most once. A lone number is seconds."""
    if text[-1:] not in UNITS:
        return float(text)
    total, largest, number = 0.0, float("inf"), ""
    for character in text:
        if character not in UNITS:
            number += character
            continue
        size = UNITS[character]
        if size >= largest:
            raise ValueError(text)
        total, largest, number = total + float(number) * size, size, ""
    return total
