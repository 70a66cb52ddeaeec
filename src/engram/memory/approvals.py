"""What only a person may take away from a memory that a person has approved.

Every session reads an approved memory in its brief. So an agent cannot replace it under its key, unpin it or let it
expire. An agent can still edit it: that is a new version, which waits for a new approval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import PersonNeeded
from .word_index import OWN_SHELVES

if TYPE_CHECKING:
    from ..records import Memory


def check_replaced(memory: Memory, by_person: bool) -> None:
    """PersonNeeded when anybody else would replace a memory that a person has approved.

    A gist, an era or a digest is renewed by dreaming, whoever approved the last one.
    """
    if memory.approved and not by_person and memory.kind not in OWN_SHELVES:
        raise PersonNeeded(
            f"Memory {memory.id} was approved by a person. Ask them to replace it, or store this under another key."
        )


def check_weaker(memory: Memory, by_person: bool, pinned: bool | None, expires_at: object) -> None:
    """PersonNeeded when anybody else would unpin a memory that a person has approved, or let it expire earlier."""
    if not memory.approved or by_person:
        return
    if memory.pinned and pinned is False:
        raise PersonNeeded(f"Memory {memory.id} was approved by a person. Ask them to unpin it.")
    if expires_at is not None and (memory.expires_at is None or str(expires_at) < memory.expires_at):
        raise PersonNeeded(f"Memory {memory.id} was approved by a person. Ask them to let it expire.")
