"""ETag and If-Match: the version of a block, of the world state or of a memory, in HTTP's own words.

An edit with `If-Match: "7"` is refused unless the text is at version 7, as with `expected_version`: 409, with the
current version in the details. A view with `If-None-Match: "7"` gets 304 while the block is at version 7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...errors import InvalidInput
from ...operations import Operation
from .answers import Answer, Header

_EXPECTED = "expected_version"
_TAG = re.compile(rb'(?:W/)?"([0-9]{1,18})"')


def has_tag(operation: Operation) -> bool:
    """Whether the result has a version, which is its tag."""
    return operation.name == "block.view" or takes_match(operation)


def takes_match(operation: Operation) -> bool:
    return operation.input(_EXPECTED) is not None


def expected(operation: Operation, headers: Mapping[bytes, bytes], values: dict[str, object]) -> None:
    """Add the version in If-Match to the arguments."""
    given = headers.get(b"if-match")
    if given is None or not takes_match(operation):
        return
    match = _TAG.fullmatch(given.strip())
    if match is None:
        raise InvalidInput('If-Match must be the ETag of one version, such as "7".')
    version = int(match[1])
    if values.setdefault(_EXPECTED, version) != version:
        raise InvalidInput(f"If-Match and {_EXPECTED} name different versions; leave one of them out.")


def tags(operation: Operation, values: Mapping[str, object], result: Any) -> tuple[Header, ...]:
    """The header ETag. An old version that was asked for by its number or its time has none."""
    if not has_tag(operation) or (operation.name == "block.view" and values.keys() & {"version", "at"}):
        return ()
    return ((b"etag", b'"%d"' % result["version"]),)


def unchanged(operation: Operation, headers: Mapping[bytes, bytes], tag: tuple[Header, ...]) -> Answer | None:
    """304, if the caller has the version already."""
    known = headers.get(b"if-none-match")
    if known is None or not tag or operation.name != "block.view":
        return None
    ((_, current),) = tag
    known_tags = {each.strip().removeprefix(b"W/") for each in known.split(b",")}
    return Answer(304, b"", tag) if current in known_tags or b"*" in known_tags else None


def describe(operation: Operation) -> list[dict[str, Any]]:
    """The headers of a request, for the description of the interface."""
    found = []
    if takes_match(operation):
        found.append(_header("If-Match", "Fail with 409 unless the text is at this version."))
    if operation.name == "block.view":
        found.append(_header("If-None-Match", "Answer 304 if the block is still at this version."))
    return found


def describe_answer(operation: Operation) -> dict[str, Any]:
    if not has_tag(operation):
        return {}
    return {"ETag": {"description": "The version of the text.", "schema": {"type": "string"}, "example": '"7"'}}


def _header(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": '^"[0-9]{1,9}"$'}
    return {"name": name, "in": "header", "description": description, "schema": schema, "example": '"7"'}
