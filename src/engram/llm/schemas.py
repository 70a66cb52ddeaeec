"""Whether an answer matches a schema, for the part of JSON Schema that Engram's own schemas use.

An answer that is only too long is not wrong: `clip` shortens its texts and lists to the schema's limits. What it cannot
mend, such as a wrong type or a missing field, `check` reports.

Written by hand instead of using the `jsonschema` library: the answers of agents are checked too, in an installation
without extras, and that library brings four others. The problems are worded so that a model or an agent can act on
them. A schema with an unknown keyword is a bug in Engram and raises, so nothing passes unchecked.
"""

from __future__ import annotations

import re
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
#: The end of a sentence, before the character that follows it.
_SENTENCE_END = re.compile(r"""[.!?…][\'"”’)\]]*(?=\s)|[。！？](?=.)|(?=\n)""", re.DOTALL)
#: The ids of passages at the end of a line, as in "Ported the router. [m12, m15]".
_SOURCES = re.compile(r" \[[a-z]\d+(?:, ?[a-z]\d+)*\]\.?$")
#: The most problems that are reported. More would not help to correct an answer.
_MAX_PROBLEMS = 10


def check(data: object, schema: Schema) -> list[str]:
    """The problems of the data, each with its place; empty when it matches the schema."""
    found = _problems(data, schema, "the answer")
    return [problem for problem, _ in zip(found, range(_MAX_PROBLEMS), strict=False)]


def clip(data: Any, schema: Schema) -> Any:
    """The data with every text and list cut to the schema's limits. A text is cut after a sentence or a word.

    Remove secrets first: half a secret is not recognised any more.
    """
    if isinstance(data, str):
        return _clip_text(data, schema.get("maxLength", len(data)))
    if isinstance(data, list):
        return [clip(value, schema.get("items", {})) for value in data[: schema.get("maxItems")]]
    if not isinstance(data, dict):
        return data
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    kept = {}
    for name, value in data.items():
        form = properties.get(name, others)
        kept[name] = clip(value, form) if isinstance(form, Mapping) else value
    return kept


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


def _clip_text(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    # A line's sources stand at its end, and a line without them would be of no use.
    sources = _SOURCES.search(text)
    if sources and len(sources[0]) <= longest // 2:
        return _clip_text(text[: sources.start()], longest - len(sources[0])) + sources[0]
    # With the next character it is known whether a sentence or a word ends exactly at the limit.
    head = text[: longest + 1]
    ends = [found.end() for found in _SENTENCE_END.finditer(head)]
    if ends and ends[-1] >= longest // 2:
        return text[: ends[-1]]
    # No sentence ends where it should. A mark shows that the text was cut.
    words = head[:longest].rstrip() if head[-1].isspace() else head.rstrip().rpartition(" ")[0]
    kept = words if longest // 2 <= len(words) < longest else text[: max(0, longest - 1)]
    return f"{kept.rstrip()}…"[:longest]


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
