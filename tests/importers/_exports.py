"""What the tests of readers share: exports made for them, and everything that a reader gives."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

from engram.importers.formats import Format
from engram.importers.items import Item, Options, Skipped

#: Any JSON. Names and texts that readers look for are common in it, so that they get far into wrong types.
NAMES = st.sampled_from(
    [
        *("mapping", "message", "parent", "children", "author", "role", "content", "content_type", "parts", "metadata"),
        *("chat_messages", "sender", "text", "type", "uuid", "attachments", "files", "docs", "project_memories"),
        *("conversations", "current_node", "recipient", "name", "input", "create_time", "created_at", "id", "a"),
        *(
            "entityType",
            "observations",
            "from",
            "to",
            "relationType",
            "messages",
            "memory_files",
            "conversations_memory",
        ),
        *("prompt_template", "description", "summary", "user_context_message_data", "model_set_context"),
    ]
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**18), 10**18),
    st.floats(allow_nan=False),
    st.sampled_from(
        [
            *(
                "user",
                "assistant",
                "tool",
                "text",
                "a",
                "b",
                "human",
                "entity",
                "relation",
                "code",
                "bio",
                "multimodal_text",
            )
        ]
    ),
    st.text(st.characters(), max_size=12),
)
JSON = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=25,
)


def written(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")
    return path


def archive(path: Path, members: Mapping[str, object]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in members.items():
            file.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return path


def items(format: Format, path: Path, options: Options | None = None) -> list[Item]:
    """Everything that a reader finds at a path."""
    found: list[Item] = []
    for source in format.find(path):
        found += format.read(source, options or Options(timezone="UTC"))
    return found


def skipped(found: list[Item]) -> list[Skipped]:
    return [item for item in found if isinstance(item, Skipped)]
