"""Blanks stored answers to requests, because they quote what the request read or wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import mutexes

if TYPE_CHECKING:
    from ..storage.engine import Transaction

#: Every column of this table that can contain a user's text, and what erases it. A digest stands for such a text.
TEXTS = {"access_answers": {"digest": "blank_answers", "answer": "blank_answers"}}
#: Everything here is copied from other texts. The same function finds and erases it.
COPIES = TEXTS

# What is still running sees the new receipt when it ends.
_BLANK = """
UPDATE access_answers SET digest = '', answer = '', state = 'forgotten'
WHERE state = 'done' AND workspace = :workspace
"""


def blank_answers(tx: Transaction, workspace: str) -> None:
    """Blank all answers of the workspace. Nothing says which of them quote what goes."""
    tx.lock(mutexes.answers(workspace))
    tx.run(_BLANK, workspace=workspace)
