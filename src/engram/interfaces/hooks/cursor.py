"""Cursor's events, payloads and answers; docs/harnesses.md describes them.

Cursor takes context only at the start of a session and after a tool. So a prompt is recorded but nothing is recalled
for it, and a warning about a file comes after the tool instead of before it.
"""

from __future__ import annotations

from ... import harness_payloads as fields
from ...harness_payloads import Payload
from . import events
from .events import Answer, Event

EVENTS = {
    "sessionStart": events.START,
    "beforeSubmitPrompt": events.PROMPT,
    "preToolUse": events.BEFORE_TOOL,
    "postToolUse": events.AFTER_TOOL,
    "postToolUseFailure": events.AFTER_TOOL,
    "afterAgentResponse": events.STOP,
    "stop": events.STOP,
    "preCompact": events.COMPACT,
    "subagentStart": events.SUBAGENT_START,
    "subagentStop": events.SUBAGENT_STOP,
    "sessionEnd": events.END,
}
WRITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "StrReplace", "Delete", "EditNotebook"})
TAKES_CONTEXT = frozenset({"sessionStart", "postToolUse"})


def read(payload: Payload) -> Event | None:
    name = fields.name(payload, "hook_event_name") or ""
    kind = EVENTS.get(name)
    session = fields.name(payload, "parent_conversation_id", "conversation_id", "session_id")
    if kind is None or session is None:
        return None
    given = fields.inner(payload, "tool_input")
    tool = fields.name(payload, "tool_name") or ""
    paths = fields.written_paths(given) if tool in WRITING_TOOLS else ()
    # The command-line client sends an empty folder; it works in the first root.
    roots = fields.texts(payload, "workspace_roots", most=1)
    said = {events.PROMPT: "prompt", events.STOP: "text", events.SUBAGENT_STOP: "summary"}
    return Event(
        kind=kind,
        name=name,
        session=session,
        agent=_subagent_id(payload, kind),
        agent_type=fields.name(payload, "subagent_type"),
        folder=fields.text(payload, "cwd", longest=4_096) or (roots[0] if roots else None),
        text=fields.text(payload, said[kind]) if kind in said else "",
        transcript=fields.text(payload, "agent_transcript_path", "transcript_path", longest=4_096) or None,
        tool=tool,
        paths=paths,
        target=fields.tool_target(given, paths),
        failed=name == "postToolUseFailure",
        # A task is redacted before it is cut to the length of a summary.
        reason=fields.text(payload, "task", "trigger", "reason", "status", longest=2_000),
        takes_context=name in TAKES_CONTEXT,
        warn_late=True,
    )


def _subagent_id(payload: Payload, kind: str) -> str | None:
    """The id of a subagent, derived from its task, because the event of its end has only the task.

    The id is a hash: a task is text that a person or a model wrote, and ids are neither redacted nor forgotten.
    """
    if kind not in (events.SUBAGENT_START, events.SUBAGENT_STOP):
        return None
    task = fields.name(payload, "task")
    if task is None:
        return fields.name(payload, "subagent_id", "subagent_type")
    from hashlib import blake2b

    return f"task-{blake2b(task.encode(), digest_size=8).hexdigest()}"


def answer(event: Event, given: Answer) -> dict[str, object] | None:
    if event.kind == events.PROMPT:
        return {"continue": True}
    if event.kind in (events.BEFORE_TOOL, events.SUBAGENT_START):
        if given.denied:
            return {"permission": "deny", "user_message": given.denied, "agent_message": given.denied}
        return {"permission": "allow"}
    if given.context and event.takes_context:
        return {"additional_context": given.context}
    return {}
