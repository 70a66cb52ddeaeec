"""Gemini CLI's events, payloads and answers; docs/harnesses.md describes them.

It reports no subagents and no end of a compression. So the next prompt after a compression gets the report again.
It can ask the person before a tool, but without a person it waits for ever, and a hook cannot tell. So it never asks.
"""

from __future__ import annotations

from ... import harness_payloads as fields
from ...harness_payloads import Payload
from . import events
from .events import Answer, Event

EVENTS = {
    "SessionStart": events.START,
    "BeforeAgent": events.PROMPT,
    "BeforeTool": events.BEFORE_TOOL,
    "AfterTool": events.AFTER_TOOL,
    "AfterAgent": events.STOP,
    "PreCompress": events.COMPACT,
    "SessionEnd": events.END,
}
WRITING_TOOLS = frozenset({"write_file", "replace", "edit"})
TAKES_CONTEXT = frozenset({"SessionStart", "BeforeAgent", "AfterTool"})


def read(payload: Payload) -> Event | None:
    name = fields.name(payload, "hook_event_name") or ""
    kind, session = EVENTS.get(name), fields.name(payload, "session_id")
    if kind is None or session is None:
        return None
    given = fields.inner(payload, "tool_input")
    tool = fields.name(payload, "tool_name") or ""
    paths = fields.written_paths(given) if tool in WRITING_TOOLS else ()
    return Event(
        kind=kind,
        name=name,
        session=session,
        folder=fields.text(payload, "cwd", longest=4_096) or None,
        text=fields.text(payload, "prompt" if kind == events.PROMPT else "prompt_response"),
        transcript=fields.text(payload, "transcript_path", longest=4_096) or None,
        tool=tool,
        paths=paths,
        target=fields.tool_target(given, paths),
        failed=bool(fields.inner(payload, "tool_response").get("error")),
        reason=fields.name(payload, "source", "trigger", "reason") or "",
        takes_context=name in TAKES_CONTEXT,
        warn_late=True,
    )


def answer(event: Event, given: Answer) -> dict[str, object] | None:
    if given.denied:
        return {"decision": "deny", "reason": given.denied}
    if given.context and event.takes_context:
        return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": given.context}}
    # Gemini CLI expects JSON on standard output after every event.
    return {}
