"""The tags of a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..storage.engine import Transaction

MAX_TAGS = 50
#: Tags of memories that a pass extracted from turns, and of those that are about the user.
EXTRACTED, ABOUT_USER = "extracted", "about-user"

# The cast keeps SQLite from reading the tags of the whole workspace.
_TAGS = "SELECT tag FROM memory_tags WHERE memory_id = :id AND CAST(workspace AS TEXT) = :workspace ORDER BY tag"
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


def of(tx: Transaction, workspace: str, id: int) -> tuple[str, ...]:
    return tuple(tx.column(_TAGS, workspace=workspace, id=id))


def add(tx: Transaction, workspace: str, id: int, tags: Iterable[str]) -> None:
    for tag in tags:
        tx.run(_ADD, workspace=workspace, tag=tag, id=id)


def drop(tx: Transaction, workspace: str, id: int) -> None:
    """Remove all tags."""
    tx.run(_DROP, workspace=workspace, id=id)
