"""How a memory changed, apart from its text: importance, pin, approval, tags, status.

Most memories never change, so the first state is written only when a memory changes: first what it was like since it
was stored, then what it is like now. A program of an earlier release writes no states. When the next change finds
another state than the latest one, it first writes the state that it found.

`read` what a memory is like before a change, and `record` after it, under the lock of the writers of memories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import json_columns
from ..errors import InvalidInput
from ..records import MemoryState
from . import memory_rows, memory_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from ..storage.engine import Row, Transaction

_STORED = """
SELECT version, importance, pinned, approved, status, superseded_by, created_at, updated_at FROM memories
WHERE workspace = :workspace AND id = :id
"""
_STATES = """
SELECT number, version, importance, pinned, approved, status, superseded_by, tags, actor, at, author
FROM memory_states WHERE memory_id = :id ORDER BY number
"""
_LAST = """
SELECT number, version, importance, pinned, approved, status, superseded_by, tags, actor, at, author
FROM memory_states WHERE memory_id = :id ORDER BY number DESC LIMIT 1
"""
_ADD = """
INSERT INTO memory_states (memory_id, number, version, importance, pinned, approved, status, superseded_by, tags, actor,
                           at, author)
VALUES (:id, :number, :version, :importance, :pinned, :approved, :status, :superseded_by, :tags, :actor, :at,
        :author)
"""
_LAST_TIME = """
SELECT MAX(at) FROM (
  SELECT created_at AS at FROM memory_versions WHERE memory_id = :id
  UNION ALL SELECT at FROM memory_states WHERE memory_id = :id) AS times
"""
_SET_TAGS = "UPDATE memory_states SET tags = :tags WHERE memory_id = :id AND number = :number"
_NOT_SUPERSEDED = """
UPDATE memory_states SET superseded_by = NULL WHERE superseded_by IN (SELECT value FROM json_each(:ids))
"""


class State(NamedTuple):
    """What is versioned of a memory, apart from its text."""

    version: int
    importance: float
    pinned: int
    #: The approved version.
    approved: int | None
    status: str
    superseded_by: int | None
    tags: tuple[str, ...]


class Found(NamedTuple):
    """The state in a memory's row and tags, and the times that its row has."""

    state: State
    created_at: str
    updated_at: str


class Recorded(NamedTuple):
    """A row of `memory_states`."""

    number: int
    state: State
    actor: str | None
    at: str
    author: str | None = None


def read(tx: Transaction, workspace: str, id: int) -> Found | None:
    """What a memory is like now. None when it does not exist."""
    row = tx.one(_STORED, workspace=workspace, id=id)
    if row is None:
        return None
    version, importance, pinned, approved, status, by, created_at, updated_at = row
    tags = memory_tags.of(tx, workspace, id)
    return Found(State(version, importance, pinned, approved, status, by, tags), created_at, updated_at)


def record(
    tx: Transaction,
    workspace: str,
    id: int,
    before: Found | None,
    now: str,
    actor: str | None = None,
    author: str | None = None,
) -> None:
    """Append what a memory is like now, if that changed."""
    after = read(tx, workspace, id)
    if before is None or after is None or after.state == before.state:
        return
    row = tx.one(_LAST, id=id)
    last = _recorded(row) if row else None
    for each in _missing(before, last):
        _append(tx, id, each)
        last = each
    assert last is not None
    # A clock that was set back must not change the order.
    _append(tx, id, Recorded(last.number + 1, after.state, actor, max(now, last.at), author))


def require_order(tx: Transaction, id: int, at: str | None) -> None:
    """InvalidInput when a memory is to change at a time before its last change. Storing it again is no change."""
    last = None if at is None else tx.value(_LAST_TIME, id=id)
    if at is not None and last is not None and at < last:
        raise InvalidInput(f"Memory {id} last changed at {last}; a change at {at} cannot follow that.")


def states(tx: Transaction, workspace: str, id: int) -> list[MemoryState]:
    """What a memory was like since it was stored, newest first."""
    found = read(tx, workspace, id)
    if found is None:
        return []
    recorded = [_recorded(row) for row in tx.all(_STATES, id=id)]
    recorded += _missing(found, recorded[-1] if recorded else None)
    before: list[Recorded | None] = [None, *recorded]
    return [_shown(old, new) for old, new in zip(before, recorded, strict=False)][::-1]


def remove_tags(tx: Transaction, id: int, lost: Set[str] | None) -> None:
    """Remove some tags from all states of a memory; None: all tags."""
    for row in tx.all(_STATES, id=id):
        each = _recorded(row)
        left = [] if lost is None else [tag for tag in each.state.tags if tag not in lost]
        if len(left) < len(each.state.tags):
            tx.run(_SET_TAGS, id=id, number=each.number, tags=_dump(left))


def tags_ever(tx: Transaction, id: int) -> set[str]:
    """The tags of all states of a memory."""
    return {tag for row in tx.all(_STATES, id=id) for tag in _recorded(row).state.tags}


def remove_references(tx: Transaction, ids: Iterable[int]) -> None:
    """Remove the ids of memories that go from the states of those that they had replaced."""
    tx.run(_NOT_SUPERSEDED, ids=tx.array(ids))


def _missing(found: Found, last: Recorded | None) -> list[Recorded]:
    """The states up to the one that was found, as far as nobody has written them."""
    state = found.state
    if last is not None:
        if last.state == state:
            return []
        return [Recorded(last.number + 1, state, None, max(found.updated_at, last.at))]
    if state.status == "active":
        return [Recorded(1, state, None, found.created_at)]
    first = state._replace(status="active", superseded_by=None)
    return [Recorded(1, first, None, found.created_at), Recorded(2, state, None, found.updated_at)]


def _append(tx: Transaction, id: int, each: Recorded) -> None:
    values = {**each.state._asdict(), "tags": _dump(each.state.tags)}
    tx.run(_ADD, id=id, number=each.number, actor=each.actor, at=each.at, author=each.author, **values)


def _recorded(row: Row) -> Recorded:
    number, version, importance, pinned, approved, status, by, tags, actor, at, author = row
    state = State(version, importance, pinned, approved, status, by, memory_rows.load_tags(tags))
    return Recorded(number, state, actor, at, author)


def _dump(tags: Iterable[str]) -> str:
    return json_columns.dump(list(tags), "tags")


def _shown(old: Recorded | None, new: Recorded) -> MemoryState:
    version, importance, pinned, approved, status, by, tags = new.state
    changes = ("stored",) if old is None else tuple(_changes(old.state, new.state))
    is_approved, is_pinned = approved == version, bool(pinned)
    return MemoryState(
        version, importance, is_pinned, is_approved, status, by, tags, new.actor, new.at, changes, new.author
    )


def _changes(old: State, new: State) -> Iterable[str]:
    """What is different, in plain words."""
    if new.version != old.version:
        yield f"version {new.version}"
    if new.importance != old.importance:
        yield f"importance {old.importance:g} → {new.importance:g}"
    if new.pinned != old.pinned:
        yield "pinned" if new.pinned else "unpinned"
    if (new.status, new.superseded_by) != (old.status, old.superseded_by):
        yield _moved(new)
    for word, tags in (("tagged", set(new.tags) - set(old.tags)), ("untagged", set(old.tags) - set(new.tags))):
        if tags:
            yield f"{word} {', '.join(sorted(tags))}"
    if new.approved == new.version and old.approved != new.approved:
        yield "approved by a person"
    elif old.approved == old.version and new.approved != new.version:
        yield "no longer approved"


def _moved(new: State) -> str:
    if new.status == "superseded":
        return "replaced" if new.superseded_by is None else f"replaced by memory {new.superseded_by}"
    return "archived" if new.status == "archived" else "active again"
