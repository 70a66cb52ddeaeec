"""What is sent over the recall socket: one request and one answer for each connection.

Both have the same form: a byte with the protocol's version, four bytes with the length, then JSON. A server that gets
another version answers with its own and an empty body.

A request has `workspace`, `embedder` (the client's setting), `query`, `k` and `options`, which are those of
`Engram.recall`. An answer has `hits` or `refused`, which is one of the words below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...records import Answer, Exchange, Hit

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Changes whenever an old client or server would misread a message.
VERSION = 1
HEADER = 5
#: Bytes. A longer request is refused, and a longer answer is not sent.
MAX_REQUEST, MAX_ANSWER = 256 * 1024, 4 * 1024 * 1024

#: Why a server does not answer.
LOADING = "the model is being loaded"
NO_MODEL = "there is no local model"
OTHER_EMBEDDER = "the settings differ"
BUSY = "too many requests"
TOO_LARGE = "too large"
MALFORMED = "malformed"
FORBIDDEN = "not allowed"
#: Recall raised an error. A recall by the client itself raises it again, with its message.
FAILED = "failed"


def framed(body: bytes) -> bytes:
    return bytes([VERSION]) + len(body).to_bytes(4, "big") + body


def encoded(message: dict[str, object]) -> bytes:
    import json

    return json.dumps(message, separators=(",", ":")).encode()


def decoded(body: bytes) -> dict[str, Any]:
    """The message. ValueError if it is not one."""
    import json

    try:
        message = json.loads(body)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("it is not an object")
    return message


_TEXT, _NUMBER = (str,), (int, float)
_OPTIONAL_TEXT, _OPTIONAL_ID = (str, type(None)), (int, type(None))
#: The types of a hit's fields in JSON.
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("text", "label", "created_at", "trust", "whole"), _TEXT),
    **dict.fromkeys(("session_id", "project", "source", "author"), _OPTIONAL_TEXT),
    **dict.fromkeys(("exchange_id", "memory_id"), _OPTIONAL_ID),
    **dict.fromkeys(("score", "age"), _NUMBER),
    "why": (dict,),
    "neighbours": (list,),
    "answer": (dict, type(None)),
    "replaced_by": (list, type(None)),
}


def hits_from(plain: object) -> list[Hit]:
    """The hits of an answer. ValueError if a server of another release sends other fields."""
    if not isinstance(plain, list):
        raise ValueError("the hits are not a list")
    return [_hit(each) for each in plain]


def _hit(plain: object) -> Hit:
    fields = _fields(plain, Hit._fields)
    for name, types in _TYPES.items():
        if not isinstance(fields[name], types):
            raise ValueError(f"{name} of a hit is a {type(fields[name]).__name__}")
    fields["neighbours"] = tuple(Exchange(**_fields(each, Exchange._fields)) for each in fields["neighbours"])
    if fields["answer"] is not None:
        answer = _fields(fields["answer"], Answer._fields)
        fields["answer"] = Answer(str(answer["text"]), tuple(map(int, answer["exchange_ids"])))
    if fields["replaced_by"] is not None:
        kind, id = fields["replaced_by"]
        fields["replaced_by"] = (str(kind), int(id))
    return Hit(**fields)


def _fields(plain: object, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(plain, dict) or plain.keys() != set(names):
        raise ValueError("a record has other fields")
    return dict(plain)
