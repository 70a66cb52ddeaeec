"""The shapes of snapshots and states, as far as undoing, forgetting and renumbering rely on them.

What later releases have added (approvals, authors, data of blocks) may be missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...json_shapes import flag, list_of, maybe, object_of, real, record, row_of, text, whole

if TYPE_CHECKING:
    from .snapshots import JournalKey

_VERSION = row_of(whole, text, text, maybe(text), text, maybe(whole))
_AUTHORS = list_of(row_of(whole, maybe(text)))
_DERIVED = {
    "since": whole,
    "versions": list_of(_VERSION),
    "sources": list_of(row_of(whole, text, whole)),
    "rebuild": maybe(whole),
}
_MEMORY_ROW = {
    **dict.fromkeys(("kind", "content", "hash", "trust", "status", "created_at", "updated_at"), text),
    **dict.fromkeys(("key", "session_id", "project", "data", "recalled_at", "expires_at"), maybe(text)),
    **dict.fromkeys(("version", "reinforced", "recalled"), whole),
    "importance": real,
    "pinned": flag,
    "superseded_by": maybe(whole),
}
_BLOCK_ROW = {
    **dict.fromkeys(("name", "content", "created_at", "updated_at"), text),
    **dict.fromkeys(("version", "max_tokens"), whole),
    "updated_by": maybe(text),
}
_SESSION = record(
    {
        "covered": row_of(whole, whole),
        "gist": maybe(row_of(whole, text, text)),
        "folds": list_of(row_of(text, whole)),
    }
)
_SNAPSHOTS = {
    "memory": record(
        {
            "row": record(_MEMORY_ROW, closed=True),
            "tags": list_of(text),
            "links": list_of(row_of(whole, whole, text, text)),
            "vectors": object_of(list_of(text)),
            **_DERIVED,
        },
        {"approved": maybe(whole), "author": maybe(text), "version_authors": _AUTHORS},
    ),
    "block": record(
        {"row": record(_BLOCK_ROW, closed=True), **_DERIVED},
        {
            "data": maybe(text),
            "author": maybe(text),
            "version_data": list_of(row_of(whole, maybe(text))),
            "version_authors": _AUTHORS,
        },
    ),
    "session": _SESSION,
}
_STATE = {"text": row_of(whole, text), "sources": text, "rebuild": maybe(whole)}
_STATES = {
    "memory": record(
        {"superseded_by": maybe(whole), "links": list_of(row_of(whole, whole, text)), **_STATE},
        {"approved": maybe(whole)},
    ),
    "block": record(_STATE),
    "session": _SESSION,
}


def is_snapshot(thing: JournalKey, value: object) -> bool:
    """Whether a value is a snapshot of the thing. None says that it did not exist."""
    return _is_thing(thing) and (value is None or _SNAPSHOTS[thing[0]](value))


def is_state(thing: JournalKey, value: object) -> bool:
    """Whether a value is a state of the thing. None says that it was removed."""
    return _is_thing(thing) and (value is None or _STATES[thing[0]](value))


def _is_thing(thing: JournalKey) -> bool:
    kind, ref = thing
    return kind in _SNAPSHOTS and (kind == "session" or (ref.isdecimal() and ref.isascii() and len(ref) < 17))
