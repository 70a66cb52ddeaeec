"""Codex: hooks in hooks.json, MCP servers in config.toml."""

from __future__ import annotations

from pathlib import Path

from ...config import SETTINGS
from ..hooks.codex import PATCH
from .harness import PATIENCE, Files, Harness, folder, grouped

_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Stop",
)
#: Codex gives the end of a session no more than this, and warns at every start about settings that ask for more.
_PATIENCE_AT_THE_END = 3
#: Hooks get Codex's whole environment, an MCP server only what is named: without these, the two could end up with
#: different stores.
_ENVIRONMENT = [*(setting.environment for setting in SETTINGS), "ENGRAM_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"]


def _folder() -> Path:
    return folder("CODEX_HOME", ".codex")


HARNESS = Harness(
    name="codex",
    title="Codex",
    programs=("codex",),
    traces=lambda: (_folder(),),
    user_files=lambda: Files(_folder() / "hooks.json", _folder() / "config.toml"),
    project_files=lambda root: Files(root / ".codex" / "hooks.json", root / ".codex" / "config.toml"),
    hooks={
        **{event: grouped(PATIENCE) for event in _EVENTS},
        "PreToolUse": grouped(PATIENCE, tools=[PATCH]),
        "SessionEnd": grouped(_PATIENCE_AT_THE_END),
    },
    earlier={"PreToolUse": [grouped(PATIENCE)]},
    servers_key="mcp_servers",
    server_extras={"env_vars": _ENVIRONMENT},
    notes=("Codex runs no hook that you have not reviewed: start codex, type /hooks and trust Engram's.",),
)
