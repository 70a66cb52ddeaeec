"""The shapes of JSON on which readers rely.

A column with JSON may come from another program: from a file that was imported, or from an edit of the store. A reader
that takes it apart checks its shape first, and treats another shape like text that is no JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

#: Whether a value has the shape.
Shape = Callable[[object], bool]

#: Both engines can store numbers up to here, and every program can read them.
_MAX = 2**53


def anything(_value: object) -> bool:
    return True


def text(value: object) -> bool:
    return isinstance(value, str)


def whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_MAX < value < _MAX


def real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and abs(value) < _MAX


def flag(value: object) -> bool:
    """Engines give a truth value as a number or as itself."""
    return value in (0, 1)


def either(*shapes: Shape) -> Shape:
    return lambda value: any(shape(value) for shape in shapes)


def maybe(shape: Shape) -> Shape:
    return lambda value: value is None or shape(value)


def list_of(shape: Shape) -> Shape:
    return lambda value: isinstance(value, list) and all(map(shape, value))


def row_of(*shapes: Shape) -> Shape:
    """A list with one value for each shape."""

    def check(value: object) -> bool:
        if not isinstance(value, list) or len(value) != len(shapes):
            return False
        return all(shape(each) for shape, each in zip(shapes, value, strict=True))

    return check


def object_of(shape: Shape) -> Shape:
    """An object with any names, whose values have the shape."""
    return lambda value: isinstance(value, dict) and all(map(shape, value.values()))


def record(
    required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None, *, closed: bool = False
) -> Shape:
    """An object with these names. A later release may add some, unless it is `closed`."""
    known = {**(optional or {}), **required}

    def check(value: object) -> bool:
        if not isinstance(value, dict) or not required.keys() <= value.keys():
            return False
        if closed and not value.keys() <= known.keys():
            return False
        return all(shape(value[name]) for name, shape in known.items() if name in value)

    return check
