"""Claude Code's events, payloads and answers; docs/harnesses.md describes them."""

from __future__ import annotations

from ... import harness_payloads as fields
from ...harness_payloads import Payload
from . import events
from .events import Answer, Event

EVENTS = {
    "SessionStart": events.START,
    "UserPromptSubmit": events.PROMPT,
    "PreToolUse": events.BEFORE_TOOL,
    "PostToolUse": events.AFTER_TOOL,
    "PostToolUseFailure": events.AFTER_TOOL,
    "Stop": events.STOP,
    "PreCompact": events.COMPACT,
    "PostCompact": events.COMPACTED,
    "SubagentStart": events.SUBAGENT_START,
    "SubagentStop": events.SUBAGENT_STOP,
    "SessionEnd": events.END,
}
#: The field with the text of an event. Other events have the assistant's last message, if any.
_TEXT = {events.PROMPT: "prompt", events.COMPACTED: "compact_summary"}
WRITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
#: Claude Code ignores the answers to other events.
TAKES_CONTEXT = frozenset(
    {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStart"}
)


def read(payload: Payload) -> Event | None:
    event = read_as(payload, EVENTS, WRITING_TOOLS, TAKES_CONTEXT)
    return event and event._replace(can_ask=True, in_background=event.kind == events.AFTER_TOOL)


def read_as(payload: Payload, kinds: dict[str, str], writing: frozenset[str], context: frozenset[str]) -> Event | None:
    """Read an event in Claude Code's format, which other harnesses also use."""
    name = fields.name(payload, "hook_event_name") or ""
    kind, session = kinds.get(name), fields.name(payload, "session_id")
    if kind is None or session is None:
        return None
    given = fields.inner(payload, "tool_input")
    tool = fields.name(payload, "tool_name") or ""
    paths = fields.written_paths(given) if tool in writing else ()
    return Event(
        kind=kind,
        name=name,
        session=session,
        agent=fields.name(payload, "agent_id"),
        agent_type=fields.name(payload, "agent_type"),
        folder=fields.text(payload, "cwd", longest=4_096) or None,
        text=fields.text(payload, _TEXT.get(kind, "last_assistant_message")),
        transcript=fields.text(payload, "agent_transcript_path", "transcript_path", longest=4_096) or None,
        tool=tool,
        paths=paths,
        target=fields.tool_target(given, paths),
        failed=name.endswith("Failure") or bool(fields.inner(payload, "tool_response").get("is_error")),
        reason=fields.name(payload, "source", "trigger", "reason") or "",
        takes_context=name in context,
    )


def answer(event: Event, given: Answer) -> dict[str, object] | None:
    if given.denied or given.asked:
        return {
            "hookSpecificOutput": {
                "hookEventName": event.name,
                "permissionDecision": "deny" if given.denied else "ask",
                "permissionDecisionReason": given.denied or given.asked,
            }
        }
    if given.context and event.takes_context:
        return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": given.context}}
    return None
