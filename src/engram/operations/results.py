"""What each operation returns, as types. The description of the HTTP interface is made from them.

Beside the table and not in it: an MCP server loads the table before it does anything else, and needs none of this.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

from ..dream_records import BriefLine
from ..health_records import Finding
from ..overview_records import Activity, Graph, HarnessEvents, Overlap, Sizes
from ..records import (
    Block,
    BlockEdit,
    Change,
    DreamReport,
    DreamStatus,
    Exchange,
    Hit,
    Holder,
    Lease,
    LogEntry,
    Memory,
    MemoryEdit,
    Message,
    Proposal,
    Receipt,
    Session,
    Spent,
    Stats,
    UndoReport,
    WorkItem,
)


class NewSession(TypedDict):
    id: str


class NewExchange(TypedDict):
    id: int


class BlockVersion(TypedDict):
    name: str
    version: int
    content: str


class Overflow(TypedDict):
    name: str
    #: What was cut off; null if everything fits.
    overflow: str | None


class DeletedBlock(TypedDict):
    deleted: str


Link = TypedDict("Link", {"from": int, "to": int, "relation": str})


class Worked(TypedDict):
    done: int
    left: int


class Submitted(TypedDict):
    item: int


class With(NamedTuple):
    """A record with further fields."""

    name: str
    record: type
    fields: dict[str, Any]


class ListOf(NamedTuple):
    """A list of such records."""

    each: With


#: The types: records, typed dictionaries, `With` and `ListOf`, and what Python's own types make of them.
RESULTS: dict[str, Any] = {
    "sitrep": str,
    "brief": str,
    "brief.lines": list[BriefLine],
    "stats": Stats,
    "changes": list[Change],
    "session.register": NewSession,
    "session.heartbeat": Session,
    "session.log": LogEntry,
    "session.complete": Session,
    "session.list": ListOf(With("ListedSession", Session, {"subagents": int})),
    "session.show": With("ShownSession", Session, {"leases": list[Lease], "logs": list[LogEntry]}),
    "message.send": Message,
    "message.inbox": list[Message],
    "message.list": list[Message],
    "lock.claim": Lease,
    "lock.release": list[Lease],
    "lock.check": list[Holder],
    "lock.list": list[Lease],
    "lock.overlaps": list[Overlap],
    "lock.break": list[Lease],
    "remember": Memory,
    "recall": list[Hit],
    "forget": Receipt,
    "receipts": list[Receipt],
    "memory.list": list[Memory],
    "memory.show": With(
        "ShownMemory",
        Memory,
        {"sources": list[tuple[str, int]], "links": list[tuple[int, int, str]], "history": list[MemoryEdit]},
    ),
    "memory.update": Memory,
    "memory.archive": Memory,
    "memory.unarchive": Memory,
    "memory.link": Link,
    "exchange.add": NewExchange,
    "exchange.show": Exchange,
    "exchange.around": list[Exchange],
    "exchange.history": list[Exchange],
    "exchange.timeline": list[Exchange],
    "backlog.work": Worked,
    "block.list": list[Block],
    "block.view": Block | BlockVersion,
    "block.create": Block,
    "block.update": Block,
    "block.append": Block,
    "block.replace": Block,
    "block.history": list[BlockEdit],
    "block.diff": str,
    "block.restore": Block,
    "block.archive_overflow": Overflow,
    "block.delete": DeletedBlock,
    "context": str,
    "dream.run": list[DreamReport],
    "dream.status": DreamStatus,
    "dream.list": list[DreamReport],
    "dream.show": DreamReport | UndoReport,
    "dream.next": WorkItem | None,
    "dream.submit": Submitted,
    "dream.review": list[Proposal] | Proposal,
    "dream.undo": UndoReport,
    "usage": list[Spent],
    "graph": Graph,
    "activity": list[Activity],
    "harnesses": HarnessEvents,
    "sizes": Sizes,
    "doctor": list[Finding],
}
