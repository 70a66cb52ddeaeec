"""Claude Code: hooks in settings.json, MCP servers in .claude.json, which lies beside its folder and not in it."""

from __future__ import annotations

import os
from pathlib import Path

from .harness import PATIENCE, Files, Harness, folder, grouped

_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "Stop",
    "SessionEnd",
)


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
    hooks={event: grouped(PATIENCE) for event in _EVENTS},
    server_extras={"type": "stdio"},
)
