"""Gemini CLI's events, payloads and answers; docs/harnesses.md describes them.

It reports no subagents and no end of a compression. So the next prompt after a compression gets the report again.
"""

from __future__ import annotations

from . import events
from .events import Answer, Event, Payload

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
_OPENING, _CLOSING = "<hook_context>", "</hook_context>"
TAKES_CONTEXT = frozenset({"SessionStart", "BeforeAgent", "AfterTool"})


def read(payload: Payload) -> Event | None:
    name = events.name(payload, "hook_event_name") or ""
    kind, session = EVENTS.get(name), events.name(payload, "session_id")
    if kind is None or session is None:
        return None
    given = events.inner(payload, "tool_input")
    tool = events.name(payload, "tool_name") or ""
    paths = events.written_paths(given) if tool in WRITING_TOOLS else ()
    return Event(
        kind=kind,
        name=name,
        session=session,
        folder=events.text(payload, "cwd", longest=4_096) or None,
        text=_without_wrapper(events.text(payload, "prompt" if kind == events.PROMPT else "prompt_response")),
        tool=tool,
        paths=paths,
        target=events.tool_target(given, paths),
        failed=bool(events.inner(payload, "tool_response").get("error")),
        reason=events.name(payload, "source", "trigger", "reason") or "",
        takes_context=name in TAKES_CONTEXT,
        warn_late=True,
    )


def _without_wrapper(text: str) -> str:
    """Remove the wrapper that Gemini CLI puts around injected text when it sends it back with the first prompt."""
    if not text.startswith(_OPENING):
        return text
    injected, closed, said = text.removeprefix(_OPENING).partition(_CLOSING)
    return injected + said if closed else text


def answer(event: Event, given: Answer) -> dict[str, object] | None:
    if given.denied:
        return {"decision": "deny", "reason": given.denied}
    if given.context and event.takes_context:
        return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": given.context}}
    # Gemini CLI expects JSON on standard output after every event.
    return {}
