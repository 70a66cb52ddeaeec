"""Finds a session by its id, by the beginning or end of its id, or by its name.

An exact id takes one index lookup and always wins. The beginning of an id is a range of the same index. The end of an
id is compared with every id of the workspace, read from the index alone. A name is compared with every session of the
workspace. For 100,000 sessions this takes some hundredths of a second, and only when a person types a short form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..errors import SessionAmbiguous
from ..safe_text import name, quoted

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: How many candidates an error lists.
SHOWN = 10
#: Sorts after every id that begins with the text before it.
_LAST = "\U0010ffff"

_EXACT = "SELECT id FROM sessions WHERE workspace = :workspace AND id = :text"
_BEGINS = """
SELECT id FROM sessions WHERE workspace = :workspace AND id >= :text AND id < :end ORDER BY id LIMIT :limit
"""
_ENDS = """
SELECT id FROM sessions
WHERE workspace = :workspace AND LENGTH(id) > :length AND SUBSTR(id, LENGTH(id) - :length + 1) = :text
ORDER BY id LIMIT :limit
"""
_NAMED = "SELECT id FROM sessions WHERE workspace = :workspace AND name = :text ORDER BY id LIMIT :limit"
# Lists leave passes of dreaming out, so a short form means one only if it means nothing else. This reads every row of
# the workspace, so it is asked only when several sessions fit.
_BUT_PASSES = """
SELECT id FROM sessions
WHERE workspace = :workspace AND type <> 'dream'
  AND ((id >= :text AND id < :end) OR name = :text
       OR (LENGTH(id) > :length AND SUBSTR(id, LENGTH(id) - :length + 1) = :text))
ORDER BY id LIMIT :limit
"""
_DESCRIBE = "SELECT type, SUBSTR(summary, 1, 400) FROM sessions WHERE workspace = :workspace AND id = :id"


def resolve(tx: Transaction, workspace: str, text: str) -> str | None:
    """The id of the one session that the text names; None when there is none, SessionAmbiguous when it fits several."""
    checks.name(text, "session id")
    if tx.one(_EXACT, workspace=workspace, text=text):
        return text
    found = _candidates(tx, workspace, text)
    if len(found) > 1:
        found = tx.column(_BUT_PASSES, end=text + _LAST, length=len(text), **_given(workspace, text)) or found
    if len(found) > 1:
        raise _ambiguous(tx, workspace, text, found)
    return found[0] if found else None


def _candidates(tx: Transaction, workspace: str, text: str) -> list[str]:
    """The sessions that the text may name: at most one more than an error lists."""
    given = _given(workspace, text)
    found = {
        *tx.column(_BEGINS, end=text + _LAST, **given),
        *tx.column(_ENDS, length=len(text), **given),
        *tx.column(_NAMED, **given),
    }
    return sorted(found)[: SHOWN + 1]


def _given(workspace: str, text: str) -> dict[str, object]:
    return {"workspace": workspace, "text": text, "limit": SHOWN + 1}


def _ambiguous(tx: Transaction, workspace: str, text: str, found: list[str]) -> SessionAmbiguous:
    lines = [f"{text!r} matches more than one session. Type more of the id:"]
    for id in found[:SHOWN]:
        ((type, summary),) = tx.all(_DESCRIBE, workspace=workspace, id=id)
        lines.append(f"{name(id, checks.MAX_NAME)}  {name(type)}  {quoted(summary, 60)}")
    if len(found) > SHOWN:
        lines.append("…")
    return SessionAmbiguous("\n".join(lines), text, found[:SHOWN])
