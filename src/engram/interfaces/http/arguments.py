"""The arguments of a call: from its query string or its body, and its headers.

Each parameter of a query string is read into the kind of its input; what cannot be is left as text.
`operations.check_arguments` then refuses it, in the same words as for a JSON body.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from ... import operations
from ...errors import InvalidInput
from ...operations import Input, Operation
from . import versions
from .calls import Call, parsed

#: More parameters than any operation has, with lists.
_MOST = 1_000
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def in_query(operation: Operation, query: bytes) -> dict[str, object]:
    """The arguments in a query string. A list is given by naming it several times."""
    if not query:
        return {}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST)
    except ValueError:
        raise InvalidInput("The query string is not valid: it must be percent-encoded UTF-8.") from None
    found: dict[str, object] = {}
    for name, text in pairs:
        wanted = operation.input(name)
        if wanted is not None and wanted.kind == "texts":
            values = found.setdefault(name, [])
            assert isinstance(values, list)
            values.append(text)
        elif name in found:
            raise InvalidInput(f"{name!r} is given twice.")
        else:
            found[name] = text if wanted is None else _value(wanted, text)
    return found


def checked(operation: Operation, call: Call, given: dict[str, object]) -> dict[str, object]:
    """The arguments of a call, checked, with the version that a header names."""
    values = operations.check_arguments(operation, given)
    versions.expected(operation, call.caller.headers, values)
    operations.require_arguments(operation, values)
    return values


def _value(wanted: Input, text: str) -> object:
    match wanted.kind:
        case "whole" if _WHOLE.fullmatch(text):
            return int(text)
        case "number" if _NUMBER.fullmatch(text):
            return float(text)
        case "flag":
            return _FLAGS.get(text.lower(), text)
        case "object" | "json":
            return parsed(text, wanted.name)
    return text
