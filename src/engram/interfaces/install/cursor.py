"""Cursor: hooks in hooks.json, MCP servers in mcp.json.

Its editor and its command line tool read the same two files. CURSOR_CONFIG_DIR moves neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..hooks.cursor import WRITING_TOOLS
from .harness import PATIENCE, Files, Harness, matching

_EVENTS = (
    "sessionStart",
    "beforeSubmitPrompt",
    "postToolUse",
    "postToolUseFailure",
    "subagentStart",
    "subagentStop",
    "preCompact",
    "afterAgentResponse",
    "stop",
    "sessionEnd",
)


def _entry(line: str) -> dict[str, Any]:
    return {"command": line, "timeout": PATIENCE}


def _before_tool(line: str) -> dict[str, Any]:
    return {**_entry(line), "matcher": matching(WRITING_TOOLS)}


def _files(above: Path) -> Files:
    return Files(above / ".cursor" / "hooks.json", above / ".cursor" / "mcp.json")


HARNESS = Harness(
    name="cursor",
    title="Cursor",
    programs=("cursor", "cursor-agent"),
    traces=lambda: (Path.home() / ".cursor",),
    user_files=lambda: _files(Path.home()),
    project_files=_files,
    hooks={**{event: _entry for event in _EVENTS}, "preToolUse": _before_tool},
    earlier={"preToolUse": [_entry]},
    skeleton={"version": 1},
    comments=True,
)
