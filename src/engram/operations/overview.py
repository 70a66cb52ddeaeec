"""Operations that show a workspace or a store as a whole."""

from __future__ import annotations

from .inputs import UNTIL, Operation, text, whole

OPERATIONS = (
    Operation(
        "graph",
        "read",
        "What is around a memory, session, file or block: nodes and links.",
        lambda eng, kind, id, limit=60: eng.graph(kind, id, limit=limit),
        (
            text("kind", required=True, choices=("memory", "session", "file", "block")),
            text("id", "id of a memory or session, path of a file, name of a block", required=True),
            whole("limit", "maximum number of nodes, at most 60"),
        ),
    ),
    Operation(
        "activity",
        "read",
        "Sessions, turns and memories by day, project and type of session, latest day first.",
        lambda eng, days=30, until=None: eng.activity(days, until),
        (whole("days", "at most 366"), UNTIL),
    ),
    Operation("harnesses", "read", "What each harness did last.", lambda eng: eng.harness_events()),
    Operation(
        "sizes",
        "read",
        "What each part of the store takes on the disk. Needs a token for all workspaces.",
        lambda eng: eng.sizes(),
        store_wide=True,
    ),
)
