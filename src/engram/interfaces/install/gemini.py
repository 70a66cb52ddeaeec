"""Gemini CLI: hooks and MCP servers in one settings.json, which may have comments.

PreCompress is left out: Gemini CLI announces it before every request to the model, whether it compresses or not.
"""

from __future__ import annotations

from pathlib import Path

from ..hooks.gemini import WRITING_TOOLS
from .harness import PATIENCE, Files, Harness, folder, grouped

_EVENTS = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")
_MILLISECONDS = 1000
_PATIENCE = PATIENCE * _MILLISECONDS


def _files(above: Path) -> Files:
    settings = above / ".gemini" / "settings.json"
    return Files(settings, settings)


def _home() -> Path:
    return folder("GEMINI_CLI_HOME", "")


HARNESS = Harness(
    name="gemini",
    title="Gemini CLI",
    programs=("gemini",),
    traces=lambda: (_home() / ".gemini",),
    user_files=lambda: _files(_home()),
    project_files=_files,
    hooks={
        **{event: grouped(_PATIENCE) for event in _EVENTS},
        "BeforeTool": grouped(_PATIENCE, tools=WRITING_TOOLS),
    },
    earlier={"BeforeTool": [grouped(_PATIENCE)]},
    comments=True,
)
