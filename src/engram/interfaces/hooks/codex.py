"""Codex's events: Claude Code's format with other tools; docs/harnesses.md describes them."""

from __future__ import annotations

from ...harness_payloads import Payload
from . import claude_code, events
from .events import Answer, Event

EVENTS = {
    "SessionStart": events.START,
    "UserPromptSubmit": events.PROMPT,
    "PreToolUse": events.BEFORE_TOOL,
    "PostToolUse": events.AFTER_TOOL,
    "Stop": events.STOP,
    "PreCompact": events.COMPACT,
    "PostCompact": events.COMPACTED,
    "SubagentStart": events.SUBAGENT_START,
    "SubagentStop": events.SUBAGENT_STOP,
    "SessionEnd": events.END,
}
#: The tool that writes files.
PATCH = "apply_patch"
#: A patch may also come as a shell command. No path is read from a command without a patch.
WRITING_TOOLS = frozenset({PATCH, "Bash"})
TAKES_CONTEXT = frozenset({"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart"})


def read(payload: Payload) -> Event | None:
    return claude_code.read_as(payload, EVENTS, WRITING_TOOLS, TAKES_CONTEXT)


def answer(event: Event, given: Answer) -> dict[str, object] | None:
    return claude_code.answer(event, given)
