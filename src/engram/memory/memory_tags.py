"""The tags of a memory."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from .. import checks
from ..errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Answer, Transaction

MAX_TAGS = 50
#: Tags of memories that a pass extracted from turns, and of those that are about the user.
EXTRACTED, ABOUT_USER = "extracted", "about-user"

# The cast keeps SQLite from reading the tags of the whole workspace.
_TAGS = "SELECT tag FROM memory_tags WHERE memory_id = :id AND CAST(workspace AS TEXT) = :workspace ORDER BY tag"
_TAGS_OF_EACH = """
SELECT memory_id, tag FROM memory_tags
WHERE memory_id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace
ORDER BY memory_id, tag
"""
_HAVING = """
SELECT memory_id FROM memory_tags
WHERE memory_id IN (SELECT value FROM json_each(:ids)) AND tag = :tag AND CAST(workspace AS TEXT) = :workspace
"""
_TAGGED = "SELECT memory_id FROM memory_tags WHERE workspace = :workspace AND tag = :tag LIMIT :limit"
_ADD = """
INSERT INTO memory_tags (workspace, tag, memory_id) VALUES (:workspace, :tag, :id)
ON CONFLICT (memory_id, tag) DO NOTHING
"""
_DROP = "DELETE FROM memory_tags WHERE memory_id = :id AND CAST(workspace AS TEXT) = :workspace"


def checked(tags: Iterable[str]) -> list[str]:
    """New tags, sorted, each once."""
    if isinstance(tags, str):
        raise InvalidInput(f"tags is the text {tags!r}; give a list of tags.")
    labels = sorted({checks.new_name(tag, "tag") for tag in tags})
    if len(labels) > MAX_TAGS:
        raise InvalidInput(f"A memory has at most {MAX_TAGS} tags, not {len(labels)}.")
    return labels


def ask_of(tx: Transaction, workspace: str, id: int) -> Answer:
    """Ask for the tags of a memory."""
    return tx.ask(_TAGS, workspace=workspace, id=id)


def of(tx: Transaction, workspace: str, id: int) -> tuple[str, ...]:
    return tuple(ask_of(tx, workspace, id).column())


def of_each(tx: Transaction, workspace: str, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The tags of several memories. Those without tags are left out."""
    rows = tx.all(_TAGS_OF_EACH, workspace=workspace, ids=tx.array(ids))
    return {id: tuple(tag for _, tag in some) for id, some in groupby(rows, itemgetter(0))}


def few(tx: Transaction, workspace: str, tags: Sequence[str], most: int) -> set[int] | None:
    """The memories that have all the tags. None if each of the tags alone has more than `most`."""
    for tag in tags:
        tagged = tx.column(_TAGGED, workspace=workspace, tag=tag, limit=most + 1)
        if len(tagged) <= most:
            return having_all(tx, workspace, tagged, [other for other in tags if other != tag])
    return None


def having_all(tx: Transaction, workspace: str, ids: Iterable[int], tags: Iterable[str]) -> set[int]:
    """Those of the memories that have all the tags."""
    left = set(ids)
    for tag in tags:
        left = set(tx.column(_HAVING, workspace=workspace, tag=tag, ids=tx.array(left)))
    return left


def add(tx: Transaction, workspace: str, id: int, tags: Iterable[str]) -> None:
    for tag in tags:
        tx.later(_ADD, workspace=workspace, tag=tag, id=id)


def drop(tx: Transaction, workspace: str, id: int) -> None:
    """Remove all tags."""
    tx.later(_DROP, workspace=workspace, id=id)
