"""JSON Schema and examples, made from Python types: records, typed dictionaries, and what is built of them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from ... import dream_records, records
from ...operations.results import ListOf, With

Schema = dict[str, Any]

_SIMPLE: dict[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    # Any JSON value.
    object: {},
    Any: {},
}

_UNIONS = (types.UnionType, Union)

#: Examples by the name of a field, where its type does not say enough.
_EXAMPLES: dict[str, object] = {
    "age": 42.0,
    "asked": "memory 12",
    "at": "2026-11-15T18:36:08.123456Z",
    "claimed_at": "2026-11-15T18:36:08.123456Z",
    "content": "Deploys never happen on Fridays",
    "created_at": "2026-11-15T18:36:08.123456Z",
    "day": "2026-11-15",
    "deadline": "2026-11-15T18:51:08.123456Z",
    "diff": "@@ -1 +1 @@\n-one\n+two",
    "embedder": "auto",
    "from_session": "20261115-183608-0c1d2e3f",
    "heartbeat_at": "2026-11-15T18:36:08.123456Z",
    "id": "20261115-183608-0c1d2e3f",
    "kind": "preference",
    "label": "preference",
    "name": "world",
    "outcome": "Router ported; tests pass",
    "project": "acme/shop",
    "provider": "extractive",
    "reason": "router ported",
    "relation": "related",
    "resource": "acme/shop:src/router.py",
    "role": "user",
    "session_id": "20261115-183608-0c1d2e3f",
    "session_type": "claude-code",
    "stage": "sessions",
    "started_at": "2026-11-15T18:36:08.123456Z",
    "state": "pending",
    "status": "active",
    "summary": "Porting the router",
    "text": "Deploys never happen on Fridays",
    "to": "*",
    "trust": "user",
    "type": "claude-code",
    "updated_at": "2026-11-15T18:36:08.123456Z",
    "whole": "Deploys never happen on Fridays",
    "what": "memory",
    "workspace": "default",
}


class Schemas:
    """Schemas of types. Each record is described once, under `components`, and referred to by its name."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a type."""
        if isinstance(kind, ListOf):
            return {"type": "array", "items": self.of(kind.each)}
        if isinstance(kind, With):
            return self._named(kind.name, {**_fields(kind.record), **kind.fields})
        if kind in _SIMPLE:
            return dict(_SIMPLE[kind])
        if _is_record(kind):
            return self._named(kind.__name__, _fields(kind))
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in _UNIONS:
            return self._one_of(arguments)
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin is list or (origin is tuple and arguments[1:] == (...,)):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is tuple:
            places = [self.of(each) for each in arguments]
            return {"type": "array", "prefixItems": places, "items": False, "minItems": len(places)}
        raise TypeError(f"no schema for {kind!r}")

    def _one_of(self, kinds: tuple[Any, ...]) -> Schema:
        made = [self.of(each) for each in kinds]
        names = [each.get("type") for each in made]
        if all(isinstance(name, str) and each.keys() == {"type"} for name, each in zip(names, made, strict=True)):
            return {"type": names}
        return {"anyOf": made}

    def _named(self, name: str, fields: Mapping[str, Any]) -> Schema:
        if name not in self.components:
            made = self.components[name] = {"type": "object"}
            made["properties"] = {field: self.of(kind) for field, kind in fields.items()}
            made["required"] = list(fields)
            made["additionalProperties"] = False
        return {"$ref": f"#/components/schemas/{name}"}


def example(kind: Any, name: str = "") -> Any:
    """A value of a type, for the field of that name."""
    if isinstance(kind, ListOf):
        return [example(kind.each)]
    if isinstance(kind, With):
        return {field: example(each, field) for field, each in {**_fields(kind.record), **kind.fields}.items()}
    if _is_record(kind):
        return {field: example(each, field) for field, each in _fields(kind).items()}
    chosen = _EXAMPLES.get(name)
    if kind is str:
        return chosen or "…"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        # A field that may be empty is shown filled if its name says with what.
        return example(arguments[0], name) if chosen or type(None) not in arguments else None
    if origin is list:
        return [example(arguments[0], name)]
    if origin is dict:
        return {}
    if origin is tuple:
        return [] if arguments[1:] == (...,) else [example(each) for each in arguments]
    return {int: 12, float: 0.5, bool: False}.get(kind)


def _is_record(kind: Any) -> bool:
    return is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _fields(record: Any) -> dict[str, Any]:
    """The fields of a record with their types."""
    # Some annotations are text, because the modules import each other only for their types.
    return get_type_hints(record, globalns={**vars(records), **vars(dream_records)})
