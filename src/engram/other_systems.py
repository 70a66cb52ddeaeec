"""Which system an SQLite file belongs to, told by its tables and columns.

A store that is opened by mistake is refused with the import command to type, and an import of a wrong file names the
right format. Both use this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple


class System(NamedTuple):
    #: The name of the format that reads it; None if none does.
    format: str | None
    #: What the file is.
    title: str
    #: Columns that only its tables have, as `table.column`: all of one group.
    marks: tuple[tuple[str, ...], ...]


def _columns(table: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{table}.{name}" for name in names)


#: The first that fits is taken.
SYSTEMS = (
    System(
        "claude-mem",
        "claude-mem",
        tuple(("sdk_sessions.id", f"{other}.id") for other in ("observations", "session_summaries", "user_prompts")),
    ),
    System(
        "mem0",
        "mem0",
        (
            _columns("history", "memory_id", "new_memory", "event"),
            _columns("memory_history", "memory_id", "new_value", "action"),
            _columns("vectors", "id", "vector", "payload"),
            _columns("memories", "content", "state", "app_id"),
        ),
    ),
    System("mcp-memory-service", "mcp-memory-service", (_columns("memories", "content_hash", "content", "tags"),)),
    System(
        "engram-core",
        "engram-core",
        (
            _columns("memory_blocks", "name", "content"),
            *(_columns("memories", "content", "memory_type", mark) for mark in ("importance", "workspace", "valid_to")),
        ),
    ),
    System(
        "symbiont",
        "Symbiont",
        (
            _columns("sessions", "session_type"),
            _columns("session_logs", "session_id", "entry"),
            _columns("resource_locks", "resource", "session_id", "locked_at"),
        ),
    ),
    System(
        "lyra",
        "Lyra",
        (
            _columns("exchanges", "session_id", "role", "content"),
            _columns("summaries", "session_id", "last_exchange_id"),
            ("self_state.data", "narrative.content"),
        ),
    ),
    System("cursor", "Cursor", (_columns("cursordiskkv", "key", "value"), _columns("itemtable", "key", "value"))),
    System(None, "Qdrant", (_columns("points", "id", "point"),)),
)
#: The tables that are asked for.
TABLES = frozenset(mark.partition(".")[0] for system in SYSTEMS for group in system.marks for mark in group)


def recognised(tables: Mapping[str, Set[str]]) -> System | None:
    """The system that has these tables, given with their columns, all in lower case."""
    there = {f"{table}.{column}" for table, columns in tables.items() for column in columns}
    return next((each for each in SYSTEMS if any(there.issuperset(group) for group in each.marks)), None)
