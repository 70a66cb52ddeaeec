"""Lyra's turns as Engram stores them, and back.

Lyra takes any role and also an empty text; Engram knows four roles of turns and stores no empty text. What does not fit
is kept in the turn's external id (`lyra;role=narrator;empty`), so it is read back as it was given and is forgotten
together with the turn. White space alone is kept there as runs of characters: `;blank=20x2.ax1` is two spaces and a
line break.
"""

from __future__ import annotations

from array import array
from itertools import groupby
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import quote, unquote

from .. import checks
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
_ROLE, _EMPTY, _BLANK = ";role=", ";empty", ";blank="
#: The longest mark of a role, and of a role and a text: an external id holds `lyra` and these.
_LONGEST_MARK, _LONGEST_MARKS = 150, checks.MAX_NAME - len("lyra")
#: What is stored for an empty text.
_NO_TEXT = "(no text)"


def stored(role: object, content: object) -> StoredTurn:
    """The turn as Engram stores it."""
    role, content = checks.text(role, "role", empty=True), checks.text(content, "content", empty=True)
    mark = role_mark(role)
    if len(mark) > _LONGEST_MARK:
        raise InvalidInput(
            f"role needs {len(mark) - len(_ROLE):,} characters, where each one that is not a plain letter or digit "
            f"counts several times; at most {_LONGEST_MARK - len(_ROLE)} fit."
        )
    marks = mark + _text_mark(content)
    if len(marks) > _LONGEST_MARKS:
        raise InvalidInput(f"content is {len(content):,} characters of white space that cannot be kept; give less.")
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


def _text_mark(content: str) -> str:
    """What an external id ends with, so that `given` returns this text; empty for one that Engram stores."""
    if content.strip():
        return ""
    runs = ".".join(f"{ord(sign):x}x{len(list(same))}" for sign, same in groupby(content))
    return f"{_BLANK}{runs}" if runs else _EMPTY


def _blank(runs: str) -> str:
    """The white space that `_text_mark` has described."""
    parts = (run.partition("x") for run in runs.split("."))
    return "".join(chr(int(sign, 16)) * int(count) for sign, _, count in parts)


def given(turn: records.Exchange) -> tuple[str, str]:
    """Role and content of a turn as they were given."""
    marks = f";{(turn.external_id or '').partition(';')[2]};"
    _, found, role = marks.partition(_ROLE)
    content = "" if f"{_EMPTY};" in marks else turn.content
    _, is_blank, runs = marks.partition(_BLANK)
    if is_blank and turn.content == _NO_TEXT:
        content = _blank(runs.partition(";")[0])
    return (unquote(role.partition(";")[0]) if found else turn.role), content


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
