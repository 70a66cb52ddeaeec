"""Every operation of Engram, once: what it is called, what goes in, who may do it, what it does.

The table is plain data, so each edge makes its own from it: the MCP server its tools and their JSON Schema, an HTTP
server its routes, a remote client its calls. What no edge need repeat is here too: checking what was given, one shape
for results (`{"result": …}`), and one for errors (`{"error": {"code", "message", "hint", "details"}}`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import EngramError
from ..records import plain
from . import blocks, coordination, dreaming, memory
from .inputs import ME_IF_KNOWN, SESSION, SESSION_ID, Input, Kind, Operation, Scope, checked

if TYPE_CHECKING:
    from ..client import Engram

__all__ = [
    "HINTS",
    "ME_IF_KNOWN",
    "OPERATIONS",
    "SESSION",
    "SESSION_ID",
    "Input",
    "Kind",
    "Operation",
    "Scope",
    "checked",
    "failed",
    "run",
]

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        *coordination.OPERATIONS,
        *memory.OPERATIONS,
        *blocks.OPERATIONS,
        *dreaming.OPERATIONS,
    )
}

#: What to do about an error, by its code; in terms of operations, because every edge has those.
HINTS = {
    "session_not_found": "session.register makes one; session.list shows those there are.",
    "session_ended": "session.heartbeat brings the session back.",
    "lease_held": "Ask its holder with message.send, claim with wait, or work on something else.",
    "lease_lost": "Claim it anew with lock.claim, and read again what may have changed.",
    "lease_not_found": "lock.list shows what is claimed, and by whom.",
    "exchange_not_found": "recall finds exchanges and their ids.",
    "memory_not_found": "recall finds memories and their ids.",
    "block_not_found": "block.list shows what there is; block.create makes one.",
    "block_exists": "Write to it with block.update, or choose another name.",
    "version_not_found": "block.history shows the versions.",
    "version_conflict": "Read it with block.view, merge, and try again with the current version as expected_version.",
    "dream_not_found": "dream.list shows those there are.",
    "proposal_not_found": "dream.review shows what waits for a decision.",
    "proposal_stale": "What it would change has changed since; dream.run proposes anew.",
    "undo_blocked": "Its details name what was changed since; decide which is wanted.",
    "work_not_found": "dream.next gives a piece that waits.",
    "no_recipient": "session.list and lock.list show who can be reached.",
    "store_busy": "Try again.",
}


def run(eng: Engram, operation: Operation, given: Mapping[str, object]) -> dict[str, object]:
    """Check the arguments and do it: the one shape of a result, as plain data, or a typed error."""
    return {"result": plain(operation.handler(eng, **checked(operation, given)))}


def failed(error: EngramError) -> dict[str, object]:
    """The one shape of an error."""
    return {
        "error": {
            "code": error.code,
            "message": str(error),
            "hint": HINTS.get(error.code, ""),
            "details": plain(error.details()),
        }
    }
