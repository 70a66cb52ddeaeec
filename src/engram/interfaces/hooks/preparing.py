"""Makes an event ready to be handled, on the agent's machine: takes out secrets, private parts and what is not needed.

A text is redacted before it is cut, which could split a secret. Only what the kind of the event needs is prepared.
"""

from __future__ import annotations

from ...framing import clean, own_words
from ...redact import redact
from ...safe_text import one_line
from .. import external_ids
from . import events
from .events import Event, Told

#: Characters of the task of a subagent, and of a reason.
SUMMARY_LENGTH = 200
REASON_LENGTH = 40


def prepare(event: Event, harness: str) -> Told:
    is_inside = event.agent is not None
    return Told(
        kind=event.kind,
        harness=harness,
        session=external_ids.of_session(event.session, event.agent),
        parent=external_ids.of_session(event.session) if is_inside else None,
        name=_name(event.agent_type) if is_inside else None,
        # The event also starts the session above, which has a different task.
        task=_task(event.reason) if event.kind == events.SUBAGENT_START and is_inside else "",
        text=_text(event),
        line=_line(event),
        failed=event.failed,
        reason=_reason(event),
        takes_context=event.takes_context,
        in_background=event.in_background,
        warn_late=event.warn_late,
        can_ask=event.can_ask,
    )


def _text(event: Event) -> str:
    if event.kind == events.PROMPT:
        return redact(own_words(event.text))
    if event.kind in (events.STOP, events.SUBAGENT_STOP):
        from .spoken import closing_message

        return closing_message(event.text)
    return ""


def _line(event: Event) -> str:
    if event.kind != events.AFTER_TOOL:
        return ""
    from ...harness_payloads import log_line

    return log_line(event.tool, event.target, failed=event.failed)


def _reason(event: Event) -> str:
    return one_line(redact(event.reason), REASON_LENGTH) if event.kind in (events.START, events.COMPACT) else ""


def _task(text: str) -> str:
    return one_line(redact(clean(text)), SUMMARY_LENGTH)


def _name(name: str | None) -> str | None:
    return None if name is None or external_ids.looks_secret(name) else name
