"""Codex: hooks in hooks.json, MCP servers in config.toml."""

from __future__ import annotations

from pathlib import Path

from .harness import PATIENCE, Files, Harness, folder, grouped

_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "Stop",
)
#: Codex gives the end of a session no more than this, and warns at every start about settings that ask for more.
_PATIENCE_AT_THE_END = 3


def _folder() -> Path:
    return folder("CODEX_HOME", ".codex")


HARNESS = Harness(
    name="codex",
    title="Codex",
    programs=("codex",),
    traces=lambda: (_folder(),),
    user_files=lambda: Files(_folder() / "hooks.json", _folder() / "config.toml"),
    project_files=lambda root: Files(root / ".codex" / "hooks.json", root / ".codex" / "config.toml"),
    hooks={**{event: grouped(PATIENCE) for event in _EVENTS}, "SessionEnd": grouped(_PATIENCE_AT_THE_END)},
    servers_key="mcp_servers",
    notes=("Codex runs no hook that you have not reviewed: start codex, type /hooks and trust Engram's.",),
)
