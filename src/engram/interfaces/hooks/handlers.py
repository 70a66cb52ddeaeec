"""What each event does. The handlers use only the facade.

The writes of an event are one transaction, so all of them happen or none. A session is created or resumed before it, in
a transaction of its own. Everywhere else leases are locked before sessions; the opposite order could deadlock two
hooks.

A hook may be killed at any moment, so the order matters. First it commits the text of a turn. Then it makes the answer
and shows it. Last comes what can wait: acknowledging the messages in the answer, and indexing the words of the turn. If
the hook is killed before that, the messages are shown again, and a later process indexes the words. Indexing after
recall also keeps the prompt's own words from counting as common. After the end of a session, a pass of dreaming is
started if one is due; it runs in a process of its own. Nothing here loads a model: a process that has one
computes the embeddings later, and recalls by meaning for a hook that asks it over the recall socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...framing import clean, frame, own_words
from ...harness_payloads import log_line
from ...redact import redact
from ...safe_text import by_whom, one_line
from .. import external_ids, harness_process
from . import events, locks, starts
from .events import Answer, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...client import Engram
    from ...records import Message, Session

SUMMARY_LENGTH = 200
#: Characters of all messages in one answer. A single message may be longer; no message is cut.
MESSAGES_LENGTH = 16_000
#: Set in a session's metadata after a compaction: the model no longer has the brief and needs it again.
DUE = "report_due"
#: Set while a compaction's summary is not known: some versions of a harness tell it only in their transcript.
SUMMARY_DUE = "summary_due"
#: The ids of messages that a hook in the background has told.
TOLD = "told"

#: Reasons for a start after which the model lacks what the session has done.
_CONTINUED = ("compact", "resume")

_FRAME_TOKENS = 30


def handle(eng: Engram, event: Event, harness: str, show: Callable[[Answer], None], enough: Callable[[], bool]) -> None:
    """Handle the event and show the answer. Then index words until none are left or `enough` returns True."""
    happened = _Happened(eng, event, harness)
    given = _ACTIONS[event.kind](happened)
    session = happened.session
    due = session is not None and session.status == "active" and session.metadata.get(DUE)
    if due and event.takes_context and event.kind != events.START and not given.denied and not given.asked:
        given = given._replace(context=f"{happened.report_again()}\n{given.context}".strip())
    happened.show(given, show)
    eng.backlog.index_words(enough)
    if happened.ended:
        _start_pass(eng)


def _start_pass(eng: Engram) -> None:
    """After the end of a session: start a pass of dreaming if one is due. Nothing is imported before that is known."""
    if eng.settings.auto_dream == "on" and eng.sessions.need_pass():
        from ..auto_dream import SESSION_END, start

        start(eng.settings, SESSION_END)


class _Happened:
    """An event in its session."""

    def __init__(self, eng: Engram, event: Event, harness: str) -> None:
        self.eng = eng
        self.event = event
        self.harness = harness
        self.session = eng.sessions.find(_external_id(event), harness)
        #: Messages that were taken from the mailbox, and those of them that an earlier answer has told.
        self._taken: list[Message] = []
        self._told: list[Message] = []
        #: Whether a session has ended.
        self.ended = False
        #: The turns and memories in the answer.
        self._given: tuple[tuple[str, int], ...] = ()

    def show(self, given: Answer, show: Callable[[Answer], None]) -> None:
        """Show the answer. Messages in it count as read only if that succeeds."""
        try:
            show(given)
        except BaseException:
            if self.session is not None:
                self.eng.messages.give_back(self.session.id, self._taken)
            raise
        if self.session is not None:
            self._acknowledge(self.session)
            self.eng.injections.record(self.session.id, self._given)
        if self.event.kind == events.PROMPT:
            self.eng.memories.used([id for kind, id in self._given if kind == "memory"])

    def start(self) -> Answer:
        known = self.session
        if known is not None and self.event.reason == "compact" and known.metadata.get(SUMMARY_DUE):
            self.compacted()
        continued = self.event.reason in _CONTINUED or bool(known and known.metadata.get(DUE))
        session = self._begin()
        for earlier in starts.left(self.eng, self.event, self.harness, session.id):
            self._end(earlier)
        if self.event.reason == "compact":
            self.eng.injections.clear(session.id)
        return Answer(self._brief(session, resumed=continued))

    def prompt(self) -> Answer:
        # Redact before the text is cut, which could split a secret, and before the transaction.
        said = redact(own_words(self.event.text))
        if not said:
            return Answer()
        session, turn = self._record("user", said)
        if self.event.agent is None:
            self.eng.harness_processes.confirm(session.id, harness_process.find())
        if not session.summary:
            self.eng.sessions.quote(session.id, "user")
        if self.event.transcript is not None:
            from .turns import record_interrupted

            record_interrupted(self.eng, session.id, turn, self.event.transcript, self.event.agent)
        return Answer(self._recalled(said, session) if self.event.takes_context else "")

    def before_tool(self) -> Answer:
        if not self.event.paths or self.eng.settings.lock_policy == "off":
            return Answer()
        return locks.before_edit(self.eng, self.event, self._at_work())

    def after_tool(self) -> Answer:
        session = self.session or self._begin()
        with self.eng.write():
            if session.status == "abandoned":
                self.eng.sessions.heartbeat(session.id)
            self.eng.sessions.log(session.id, log_line(self.event.tool, self.event.target, failed=self.event.failed))
            messages = self._take_messages(session) if self.event.takes_context else ""
            edited = locks.after_edit(self.eng, self.event, session)
        return Answer("\n".join(filter(None, [messages, edited.context])))

    def stop(self) -> Answer:
        self._record_reply()
        return Answer()

    def compact(self) -> Answer:
        how = f" ({one_line(self.event.reason, 40)})" if self.event.reason else ""
        session = self._begin({DUE: True, SUMMARY_DUE: True})
        self.eng.injections.clear(session.id)
        self.eng.sessions.log(session.id, f"The context is being compacted{how}")
        return Answer()

    def compacted(self) -> Answer:
        from .turns import keep_summary

        session = self._at_work()
        with self.eng.write():
            kept = keep_summary(self.eng, session.id, self.event)
        if kept:
            self._begin({SUMMARY_DUE: False})
        return Answer()

    def subagent_start(self) -> Answer:
        self._begin()
        return Answer()

    def subagent_stop(self) -> Answer:
        if self.session is None or self.session.status == "completed":
            return Answer()
        self._record_reply()
        self._complete(self.session)
        return Answer()

    def end(self) -> Answer:
        session = self.session
        if session is not None and session.status != "completed" and not starts.leave(self.eng, session.id):
            self._end(session)
        return Answer()

    def report_again(self) -> str:
        return self._brief(self._begin(), resumed=True)

    def _end(self, session: Session) -> None:
        """Complete the session and its subagents."""
        children = [other for other in self.eng.sessions.active() if other.parent_id == session.id]
        with self.eng.write():
            for ending in sorted([session, *children], key=lambda each: each.id):
                self._complete(ending)
        self.ended = True

    def _begin(self, metadata: dict[str, object] | None = None) -> Session:
        """Create or resume the event's session. A resumed session keeps its summary and its outcome."""
        known = self.session
        parent = None
        if self.event.agent is not None:
            above = self.event._replace(agent=None, agent_type=None)
            parent = _Happened(self.eng, above, self.harness)._at_work().id
        # A subagent's event also starts its parent, which has a different task.
        is_start = self.event.kind == events.SUBAGENT_START and self.event.agent is not None
        task = self.event.reason if is_start else ""
        id = self.eng.sessions.register(
            self.harness,
            None if known else one_line(redact(clean(task)), SUMMARY_LENGTH),
            metadata or ({DUE: False} if known and known.metadata.get(DUE) else None),
            name=_agent_name(self.event),
            external_id=_external_id(self.event),
            parent_id=parent,
        )
        if self.event.agent is None:
            # A subagent runs in the process of its parent, which is the session that the MCP server acts as.
            starts.note(self.eng, self.event, self.harness, id)
        self.session = self.eng.sessions.get(id)
        return self.session

    def _at_work(self) -> Session:
        return self.session if self.session is not None and self.session.status == "active" else self._begin()

    def _brief(self, session: Session, *, resumed: bool) -> str:
        budget = max(1, self.eng.settings.brief_budget - _FRAME_TOKENS)
        made = self.eng.briefing(session.id, budget=budget, resumed=resumed)
        self._given += made.things
        return frame("brief", made.text)

    def _recalled(self, said: str, session: Session) -> str:
        # Imported here, because only a prompt recalls.
        from . import injection

        lines = injection.recalled(self.eng, said, session)
        self._given += tuple(thing for line in lines for thing in line.things)
        return injection.framed(lines) if lines else ""

    def _take_messages(self, session: Session) -> str:
        """Take as many whole unread messages as fit. The others wait for the next event."""
        self._taken = self.eng.messages.show(session.id, longest=MESSAGES_LENGTH)
        told = session.metadata.get(TOLD)
        self._told = [message for message in self._taken if isinstance(told, list) and message.id in told]
        shown = [message for message in self._taken if message not in self._told]
        if not shown:
            return ""
        return _messages_frame(shown, len(self.eng.messages.inbox(session.id, peek=True)))

    def _acknowledge(self, session: Session) -> None:
        """Mark the messages in the answer as read.

        The model gets the answer of a hook in the background with its next request, if there is one. A later event
        shows that there was. So such a message is noted as told, and counts as read when it would be due again.
        """
        if not self.event.in_background:
            self.eng.messages.acknowledge(session.id, self._taken)
            return
        self.eng.messages.acknowledge(session.id, self._told)
        new = [message.id for message in self._taken if message not in self._told]
        if new:
            self.eng.sessions.register(self.harness, None, {TOLD: new}, external_id=_external_id(self.event))

    def _record_reply(self) -> None:
        """Store what the assistant said since the last prompt, and the session if it is new.

        The closing message in the event is committed before the transcript is read.
        """
        from . import turns

        text, recorded = turns.closing_message(self.event.text), None
        if text:
            self._begin_above()
            with self.eng.write():
                # The assistant's last message does not resume a completed session.
                recorded = turns.record_closing(self.eng, (self.session or self._begin()).id, text)
        if self.event.transcript is None:
            return
        spoken = turns.read_turns(self.event.transcript, self.event.agent, self.event.text)
        if any(turn.messages for turn in spoken):
            self._begin_above()
            with self.eng.write():
                turns.record_turns(self.eng, (self.session or self._begin()).id, spoken, (text, recorded))

    def _record(self, role: str, said: str) -> tuple[Session, int]:
        """Store a turn, and its session if that is new. This is the first thing that a hook commits."""
        self._begin_above()
        with self.eng.write():
            session = self._at_work()
            turn = self.eng.exchanges.add(session.id, role, said, embed=False, words=False)
        return session, turn

    def _begin_above(self) -> None:
        """Begin a subagent's session in a transaction of its own, because creating a child session locks leases."""
        if self.event.agent is not None and self.session is None:
            self._begin()

    def _complete(self, session: Session) -> None:
        """Complete the session. Its outcome is the assistant's last turn, else what it touched."""
        touched = [lease.resource for lease in self.eng.leases.list(session.id)]
        with self.eng.write():
            self.eng.sessions.complete(session.id)
            if not self.eng.sessions.quote(session.id, "assistant") and touched:
                # A separate log entry, so that the outcome quotes something that can be forgotten.
                self.eng.sessions.log(session.id, one_line(f"Touched {', '.join(touched)}", SUMMARY_LENGTH))
                self.eng.sessions.quote(session.id, "log")


_ACTIONS = {
    events.START: _Happened.start,
    events.PROMPT: _Happened.prompt,
    events.BEFORE_TOOL: _Happened.before_tool,
    events.AFTER_TOOL: _Happened.after_tool,
    events.STOP: _Happened.stop,
    events.COMPACT: _Happened.compact,
    events.COMPACTED: _Happened.compacted,
    events.SUBAGENT_START: _Happened.subagent_start,
    events.SUBAGENT_STOP: _Happened.subagent_stop,
    events.END: _Happened.end,
}


def _external_id(event: Event) -> str:
    return external_ids.of_session(event.session, event.agent)


def _agent_name(event: Event) -> str | None:
    name = event.agent_type if event.agent is not None else None
    return None if name is None or external_ids.looks_secret(name) else name


def _sender(message: Message) -> str:
    return " ".join(filter(None, (message.from_session or "a person", by_whom(message.author))))


def _messages_frame(shown: Sequence[Message], waiting: int) -> str:
    lines = [
        f"- from {_sender(message)}{' (shown again)' if message.again else ''}: "
        f"{one_line(message.text, len(message.text))}"
        for message in shown
    ]
    how = 'Messages from other sessions; answer with `engram message send SESSION "…"` where one asks for it.'
    more = (
        [f"{waiting} more {'waits' if waiting == 1 else 'wait'} and will come with the next event."] if waiting else []
    )
    return frame("messages", "\n".join([how, *lines, *more]))
