"""Values of the library as JSON and back, so that a remote call returns what a local one returns.

JSON has no records, tuples or sets. Each is an object with the key `$`, which names what it stands for. A receiver
makes only records of the modules below: it looks up a name that it was sent nowhere else. Fields that it does not know
are left out, because the other side may be of a later release.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from math import isfinite
from typing import Any

#: The modules with records that calls take or return. No two of them have a record of the same name.
RECORD_MODULES = (
    "records",
    "overview_records",
    "dream_records",
    "setup_records",
    "import_records",
    "access_records",
    "health_records",
    "coordination.harness_processes",
    "dreaming.brief.compose",
    "memory.transcripts",
)
_LONGEST_NAME = 60
_TAG, _ITEMS, _FIELDS = "$", "items", "fields"


def to_json(packed: object) -> str:
    """Packed values as text. It is ASCII, because a text may hold half a surrogate pair, which UTF-8 cannot express."""
    return json.dumps(packed, separators=(",", ":"), allow_nan=False)


def pack(value: Any) -> Any:
    """A value as JSON can hold it. TypeError for one that cannot be sent."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise TypeError(f"{value} cannot be sent")
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        # Not `_asdict`: a record may leave a field out of its representation, but not here.
        fields = {name: pack(each) for name, each in zip(value._fields, value, strict=True)}
        return {_TAG: type(value).__name__, _FIELDS: fields}
    if isinstance(value, tuple):
        return {_TAG: "tuple", _ITEMS: [pack(each) for each in value]}
    if isinstance(value, set | frozenset):
        return {_TAG: "set", _ITEMS: [pack(each) for each in value]}
    if isinstance(value, Mapping):
        if _TAG not in value and all(isinstance(key, str) for key in value):
            return {key: pack(each) for key, each in value.items()}
        return {_TAG: "dict", _ITEMS: [[pack(key), pack(each)] for key, each in value.items()]}
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
        return [pack(each) for each in value]
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def unpack(value: Any) -> Any:
    """The value that `pack` was given. ValueError for what `pack` does not make."""
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: unpack(each) for key, each in value.items()}
    tag, items = value[_TAG], value.get(_ITEMS)
    if isinstance(items, list):
        match tag:
            case "tuple":
                return tuple(unpack(each) for each in items)
            case "set":
                return {_hashable(each) for each in items}
            case "dict" if all(isinstance(pair, list) and len(pair) == 2 for pair in items):
                return {_hashable(key): unpack(each) for key, each in items}
    if isinstance(tag, str) and isinstance(value.get(_FIELDS), dict):
        return _record(tag, value[_FIELDS])
    raise ValueError("a value has an unknown form")


def _hashable(value: Any) -> Any:
    found = unpack(value)
    try:
        hash(found)
    except TypeError:
        raise ValueError("a key has an unknown form") from None
    return found


def _record(name: str, fields: dict[str, Any]) -> Any:
    kind = record_type(name)
    if kind is None:
        raise ValueError(f"there is no record {name[:60]!r}")
    known = {each: unpack(fields[each]) for each in kind._fields if each in fields}
    try:
        return kind(**known)
    except TypeError:
        raise ValueError(f"a {name} lacks a field") from None


def record_type(name: str) -> Any:
    """The class of a record; None if there is no record of that name."""
    # Names are sent, so only short ones are remembered, and not many.
    return _record_type(name) if len(name) <= _LONGEST_NAME else None


@lru_cache(maxsize=256)
def _record_type(name: str) -> Any:
    for module in RECORD_MODULES:
        found = getattr(import_module(f"..{module}", __package__), name, None)
        if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
            return found
    return None
