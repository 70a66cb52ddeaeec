"""Whether an answer matches a schema, for the part of JSON Schema that Engram's own schemas use.

Written by hand instead of using the `jsonschema` library: the answers of agents are checked too, in an installation
without extras, and that library brings four others. The problems are worded so that a model or an agent can act on
them. A schema with an unknown keyword is a bug in Engram and raises, so nothing passes unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {
    *("type", "enum", "properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    *("maxLength", "minimum", "maximum", "title", "description"),
}
#: The most problems that are reported. More would not help to correct an answer.
_MAX_PROBLEMS = 10


def check(data: object, schema: Schema) -> list[str]:
    """The problems of the data, each with its place; empty when it matches the schema."""
    found = _problems(data, schema, "the answer")
    return [problem for problem, _ in zip(found, range(_MAX_PROBLEMS), strict=False)]


def parse_answer(text: str) -> object:
    """The JSON value in a model's answer, also inside a code fence, after thoughts or among words; ValueError if there
    is none."""
    import json

    text = text.rpartition("</think>")[2].strip()
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        places = [position for position in (text.find("{"), text.find("[")) if position >= 0]
        if not places:
            raise error
    value, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(text, min(places))
    return value


def without_keywords(schema: Any, keywords: frozenset[str]) -> Any:
    """The schema without some keywords, for a server whose structured output does not know them. `check` checks what
    they demand when the answer has arrived."""
    if not isinstance(schema, Mapping):
        return schema
    kept = {name: value for name, value in schema.items() if name not in keywords}
    if "items" in kept:
        kept["items"] = without_keywords(kept["items"], keywords)
    if "properties" in kept:
        kept["properties"] = {name: without_keywords(each, keywords) for name, each in kept["properties"].items()}
    return kept


def is_exact(schema: Any) -> bool:
    """Whether every object of the schema has all its properties and no others."""
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(properties):
            return False
    return all(is_exact(each) for each in (*properties.values(), schema.get("items")))


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _problems(data: Any, schema: Schema, where: str) -> Iterator[str]:
    if unknown := schema.keys() - _KNOWN:
        raise ValueError(f"check() does not know the schema keywords {', '.join(sorted(unknown))}")
    kinds = schema.get("type", list(_TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(_is_kind(data, kind) for kind in kinds):
        yield f"{where} must be {' or '.join(kinds)}, not {_kind_of(data)}"
    elif "enum" in schema and not any(type(data) is type(value) and data == value for value in schema["enum"]):
        yield f"{where} must be one of {', '.join(map(repr, schema['enum']))}"
    elif isinstance(data, dict):
        yield from _object_problems(data, schema, where)
    elif isinstance(data, list):
        yield from _array_problems(data, schema, where)
    elif isinstance(data, str):
        if len(data) > schema.get("maxLength", len(data)):
            yield f"{where} has {len(data)} characters; the maximum is {schema['maxLength']}"
    elif isinstance(data, int | float) and not isinstance(data, bool):
        if data < schema.get("minimum", data):
            yield f"{where} is {data}; the minimum is {schema['minimum']}"
        if data > schema.get("maximum", data):
            yield f"{where} is {data}; the maximum is {schema['maximum']}"


def _object_problems(data: dict[str, Any], schema: Schema, where: str) -> Iterator[str]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in data:
            yield f"{where} has no {name!r}"
    others: Any = schema.get("additionalProperties", True)
    for name, value in data.items():
        inner = properties.get(name, others)
        if inner is False:
            # The model chose the name, so only a part of it is shown.
            yield f"{where} has {name[:50]!r}, which is not allowed there"
        elif inner is not True:
            yield from _problems(value, inner, f"{where}.{name[:50]}")


def _array_problems(data: list[Any], schema: Schema, where: str) -> Iterator[str]:
    if len(data) < schema.get("minItems", 0):
        yield f"{where} has {len(data)} items; the minimum is {schema['minItems']}"
    if len(data) > schema.get("maxItems", len(data)):
        yield f"{where} has {len(data)} items; the maximum is {schema['maxItems']}"
    for position, value in enumerate(data):
        yield from _problems(value, schema.get("items", {}), f"{where}[{position}]")


def _is_kind(data: object, kind: str) -> bool:
    if isinstance(data, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(data, float):
        return data.is_integer()
    return isinstance(data, _TYPES[kind])


def _kind_of(data: object) -> str:
    return next((kind for kind in ("null", "boolean", "integer", *_TYPES) if _is_kind(data, kind)), type(data).__name__)
