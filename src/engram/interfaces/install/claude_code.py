"""Claude Code: hooks in settings.json, MCP servers in .claude.json, which lies beside its folder and not in it.

The hook before a tool is started only for tools that write files. The hooks after a tool run in the background: nothing
waits for them, and Claude Code gives what they print to the model with its next request.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..hooks.claude_code import WRITING_TOOLS
from .harness import PATIENCE, Files, Harness, folder, grouped

_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SessionEnd",
)
_AFTER_TOOL = ("PostToolUse", "PostToolUseFailure")


def _folder() -> Path:
    return folder("CLAUDE_CONFIG_DIR", ".claude")


def _servers() -> Path:
    # With a folder of its own choosing, Claude Code keeps this file inside it.
    return (_folder() if os.environ.get("CLAUDE_CONFIG_DIR") else Path.home()) / ".claude.json"


HARNESS = Harness(
    name="claude-code",
    title="Claude Code",
    programs=("claude",),
    traces=lambda: (_folder(), _servers()),
    user_files=lambda: Files(_folder() / "settings.json", _servers()),
    project_files=lambda root: Files(root / ".claude" / "settings.json", root / ".mcp.json"),
    hooks={
        **{event: grouped(PATIENCE) for event in _EVENTS},
        "PreToolUse": grouped(PATIENCE, tools=WRITING_TOOLS),
        **{event: grouped(PATIENCE, in_background=True) for event in _AFTER_TOOL},
    },
    earlier={event: [grouped(PATIENCE)] for event in ("PreToolUse", *_AFTER_TOOL)},
    server_extras={"type": "stdio"},
)
