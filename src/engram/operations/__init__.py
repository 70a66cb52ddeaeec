"""Every operation that a program can call over a protocol: its name, its arguments, its scope, its handler.

The table is plain data. The MCP server makes its tools and their JSON Schema from it; an HTTP server and a remote
client can make their routes and calls from it in the same way. The package also has what they share: the check
of the arguments, one shape for results (`{"result": …}`, with `next` for a list in pages) and one for errors
(`{"error": {"code", "message",
"hint", "details"}}`). The command line does not go through it: it calls the client, and checks its options with click.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import EngramError
from ..records import plain
from . import blocks, coordination, dreaming, memory, overview
from .inputs import (
    ME_IF_KNOWN,
    SESSION,
    SESSION_ID,
    Input,
    Kind,
    Operation,
    Pages,
    Scope,
    check_arguments,
    require_arguments,
)

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
    "Pages",
    "Scope",
    "check_arguments",
    "error_shape",
    "perform",
    "require_arguments",
    "run",
]

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        *coordination.OPERATIONS,
        *memory.OPERATIONS,
        *blocks.OPERATIONS,
        *dreaming.OPERATIONS,
        *overview.OPERATIONS,
    )
}

#: Advice by error code. It names operations, because every interface that is made from the table has them.
HINTS = {
    "session_not_found": "session.register starts one; session.list shows the existing ones.",
    "session_ended": "session.heartbeat resumes the session.",
    "lease_held": "Ask its holder with message.send, claim with wait, or work on something else.",
    "lease_lost": "Claim it again with lock.claim, and read again what may have changed.",
    "lease_not_found": "lock.list shows all claims.",
    "exchange_not_found": "recall finds exchanges and their ids.",
    "memory_not_found": "recall finds memories and their ids.",
    "block_not_found": "block.list shows the blocks; block.create makes one.",
    "block_exists": "Write to it with block.update, or choose another name.",
    "version_not_found": "block.history shows the versions.",
    "version_conflict": "Read it with block.view, merge, and try again with the current version as expected_version.",
    "dream_not_found": "dream.list shows the passes.",
    "proposal_not_found": "dream.review lists the pending proposals.",
    "proposal_stale": "Its target has changed since; the next dream.run proposes again.",
    "undo_blocked": "The details name what was changed since; decide which version to keep.",
    "work_not_found": "dream.next gives the next work item.",
    "no_recipient": "session.list and lock.list show possible recipients.",
    "store_busy": "Try again.",
}


def run(eng: Engram, operation: Operation, given: Mapping[str, object]) -> dict[str, object]:
    """Check the arguments and perform the operation: its result in the one shape, or a typed error."""
    values = check_arguments(operation, given)
    require_arguments(operation, values)
    if operation.page is not None:
        # Imported here, for the sake of a start-up that needs no pages.
        from .pages import perform_page

        page = perform_page(eng, operation, values)
        return {"result": page.rows, "next": page.next}
    return {"result": perform(eng, operation, values)}


def perform(eng: Engram, operation: Operation, values: Mapping[str, object]) -> object:
    """Perform the operation with arguments that were checked; its result as plain data. A list has no pages."""
    return plain(operation.handler(eng, **values))


def error_shape(error: EngramError) -> dict[str, object]:
    """The one shape of an error. Its hint takes the place of advice for the command line."""
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": HINTS.get(error.code, ""),
            "details": plain(error.details()),
        }
    }
