"""What dreaming holds of what was said, and how it is erased. `memory.forget` decides what goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: Every text column of this tier's tables that can hold what somebody said, and what erases it.
TEXTS = {"work": {"prompt": "anything", "answer": "anything"}}

_CLEAR_WORK = "DELETE FROM work WHERE workspace = :workspace"


def anything(tx: Transaction, workspace: str) -> None:
    """Whatever goes may be quoted in a piece of thinking; the next pass leaves those it still needs anew."""
    tx.run(_CLEAR_WORK, workspace=workspace)
