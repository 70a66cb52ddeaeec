"""Values in the records of other systems, as what they are meant to be.

A value that a record cannot do without raises Unusable if it is missing or of the wrong kind; its reader then skips the
record. A value that only adds something counts as missing instead.
"""

from __future__ import annotations

import math
import sys
from array import array
from typing import TYPE_CHECKING

from . import times
from .files import parsed
from .foreign import GARBLED
from .items import Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import tzinfo

    from .foreign import Record
    from .items import Item, Options

#: Levels of lists and objects within each other that are kept.
_DEEPEST = 50
#: Kinds of memories that Engram's own passes make, each with a meaning that another system's name does not have.
_RESERVED = ("gist", "era", "digest")


class Unusable(ValueError):
    """A record has no usable value where it needs one. The text says why, in a few words."""


def items(records: Iterable[Record | Skipped], make: Callable[[Record], Item | None]) -> Iterator[Item]:
    """What `make` makes of each record. Records that cannot be used are skipped; None leaves one out."""
    for record in records:
        if isinstance(record, Skipped):
            yield record
            continue
        try:
            item = make(record)
        except Unusable as error:
            item = Skipped(record.where, str(error))
        if item is not None:
            yield item


def text(value: object, what: str) -> str:
    """A text that is not blank."""
    if isinstance(value, str):
        if value.strip():
            return value
        raise Unusable(f"no {what}")
    if value is None:
        raise Unusable(f"no {what}")
    raise Unusable(f"{what} is not valid Unicode" if value is GARBLED else f"{what} is not text")


def identifier(value: object, what: str) -> str:
    """An id, which may be a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(value, what)


def words(value: object) -> str | None:
    """A text that a record can do without; None if there is none."""
    return value if isinstance(value, str) and value.strip() else None


def naive_zone(options: Options, default: tzinfo | None) -> tzinfo | None:
    """The zone of times without one: what the user says, else what the system does. None is this machine's."""
    return default if options.timezone is None else times.zone(options.timezone)


def moment(value: object, naive: tzinfo | None) -> str | None:
    """The time of a record; None if it has none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    found = times.moment(value, naive)
    if found is None:
        raise Unusable("impossible date")
    return found


def whole(value: object, least: int = 0) -> int | None:
    """A whole number that is not too small; None if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= least else None


def share(value: object) -> float | None:
    """A number from 0 to 1; None if it is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 else None


def json_value(value: object) -> object:
    """What a JSON text means; None if the value is none, or one that cannot be stored."""
    if not isinstance(value, str) or not value.strip():
        return None
    found = parsed(value, "")
    return found if not isinstance(found, Skipped) and _is_storable(found) else None


def _is_storable(value: object) -> bool:
    """Whether a value is not nested too deeply, and has only numbers that JSON knows."""
    level = [value]
    for _ in range(_DEEPEST):
        if any(isinstance(each, float) and not math.isfinite(each) for each in level):
            return False
        nested = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [inner for outer in nested for inner in outer]
        if not level:
            return True
    return False


def json_object(value: object) -> dict[str, object]:
    """The object that a JSON text means, or that the value is; empty if it is none, or cannot be stored."""
    found = json_value(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) and _is_storable(found) else {}


def texts(value: object) -> list[str]:
    """The texts of a list, of a JSON array, or of a text with commas."""
    if isinstance(value, str):
        inner = json_value(value) if value.lstrip().startswith("[") else None
        value = inner if isinstance(inner, list) else value.split(",")
    return [each.strip() for each in value if isinstance(each, str) and each.strip()] if isinstance(value, list) else []


def tags(*groups: Iterable[str]) -> tuple[str, ...]:
    """The tags of all groups, each once."""
    return tuple(dict.fromkeys(" ".join(tag.split()) for group in groups for tag in group if tag.strip()))


def kind(value: object, known: Mapping[str, str], default: str = "note") -> str:
    """The kind of a memory: the one that stands for a system's own name, or that name itself."""
    if not isinstance(value, str) or not value.strip():
        return default
    name = " ".join(value.lower().split())
    return known.get(name, default if name in _RESERVED else name)


def vector(value: object) -> array[float] | None:
    """An embedding: a list of numbers, or the bytes of 32-bit floats as most machines write them."""
    found = array("f")
    try:
        if isinstance(value, bytes):
            found.frombytes(value)
            if sys.byteorder == "big":
                found.byteswap()
        elif isinstance(value, list):
            found.extend(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found and all(map(math.isfinite, found)) else None


def known(**values: object) -> dict[str, object]:
    """The values that say something, for the data of a memory."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {}, ())}
