"""Lyra's turns as Engram stores them, and back.

Lyra takes any role and also an empty text; Engram knows four roles of turns and stores no empty text. What does not fit
is kept in the turn's external id (`lyra;role=narrator;empty`), so it is read back as it was given and is forgotten
together with the turn.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import quote, unquote

from ..errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .. import records


class StoredTurn(TypedDict):
    """The arguments of `exchanges.add` for a turn, without its session."""

    role: str
    content: str
    external_id: str | None


_ROLES = ("user", "assistant", "system", "tool")
#: Usual names of these roles. Any other role becomes that of the system: neither the user's words nor the assistant's.
_MEANT = {
    **{"human": "user", "ai": "assistant", "bot": "assistant", "companion": "assistant", "lyra": "assistant"},
    **{"model": "assistant", "developer": "system", "function": "tool"},
}
_ROLE, _EMPTY = ";role=", ";empty"
#: What is stored for an empty text.
_NO_TEXT = "(no text)"


def stored(role: object, content: object) -> StoredTurn:
    """The turn as Engram stores it."""
    if not isinstance(role, str) or not isinstance(content, str):
        raise InvalidInput(f"role is {role!r} and content is a {type(content).__name__}; both must be text.")
    marks = role_mark(role) + ("" if content.strip() else _EMPTY)
    return StoredTurn(
        role=stored_role(role),
        content=content if content.strip() else _NO_TEXT,
        external_id=f"lyra{marks}" if marks else None,
    )


def stored_role(role: str) -> str:
    """The role of a turn that has this role in Lyra."""
    plain = role.strip().lower()
    return plain if plain in _ROLES else _MEANT.get(plain, "system")


def role_mark(role: str) -> str:
    """What an external id ends with, so that `given` returns this role; empty for a role that Engram knows."""
    return "" if role in _ROLES else _ROLE + quote(role, safe=" ")


def given(turn: records.Exchange) -> tuple[str, str]:
    """Role and content of a turn as they were given."""
    marks = f";{(turn.external_id or '').partition(';')[2]};"
    _, found, role = marks.partition(_ROLE)
    is_empty = f"{_EMPTY};" in marks
    return (unquote(role.partition(";")[0]) if found else turn.role), ("" if is_empty else turn.content)


def numbers(embedding: bytes | Sequence[float]) -> Sequence[float]:
    """The numbers of an embedding, which may be given as the bytes of float32."""
    if not isinstance(embedding, bytes | bytearray | memoryview):
        return embedding
    found = array("f")
    try:
        found.frombytes(embedding)
    except ValueError:
        raise InvalidInput(f"An embedding has {len(embedding)} bytes; float32 numbers have four each.") from None
    return found
