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

from ...framing import frame
from ...safe_text import by_whom, one_line
from . import events, locks, starts
from .events import Answer, Event, Told
from .place import Here
from .preparing import SUMMARY_LENGTH, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...client import Engram
    from ...records import Message, Session
    from .injection import Recall
    from .place import Place

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
    """Handle an event of this machine and show the answer. Then index words until none are left or `enough` says so."""
    leases = eng.leases
    here = Here(event, harness, eng.settings, lambda path: leases.normalise(leases.escape(path)))
    handling = Handling(eng, prepare(event, harness), here)
    given = handling.answer()
    try:
        show(given)
    except BaseException:
        handling.lost()
        raise
    handling.delivered()
    eng.backlog.index_words(enough)
    if handling.may_dream and eng.sessions.need_pass():
        # Nothing is imported before this is known.
        from ..auto_dream import SESSION_END, start

        start(eng.settings, SESSION_END)


def _always() -> bool:
    return True


class Handling:
    """One event in its session.

    Call `answer`, and after the answer was passed on `delivered`, or `lost` if that failed. `is_first` is called in the
    transaction that records the event. It returns False if an earlier attempt has recorded it; then only the answer is
    made again. `recall` recalls by meaning, where the process has a model loaded.
    """

    def __init__(
        self,
        eng: Engram,
        told: Told,
        place: Place,
        *,
        is_first: Callable[[], bool] = _always,
        recall: Recall | None = None,
    ) -> None:
        self.eng = eng
        self.told = told
        self.place = place
        self.session = eng.sessions.find(told.session, told.harness)
        self._is_first = is_first
        self._recall = recall
        #: Messages that were taken from the mailbox, and those of them that an earlier answer has told.
        self._taken: list[Message] = []
        self._told: list[Message] = []
        #: Whether a session has ended.
        self._ended = False
        #: The turns and memories in the answer.
        self._given: tuple[tuple[str, int], ...] = ()

    @property
    def may_dream(self) -> bool:
        """Whether a pass of dreaming may start now: a session has ended, and its agent's settings allow one."""
        return self._ended and self.place.may_dream

    def answer(self) -> Answer:
        """Do what the event asks for. Returns the answer to pass on."""
        given = _ACTIONS[self.told.kind](self)
        session = self.session
        due = session is not None and session.status == "active" and session.metadata.get(DUE)
        if due and self.told.takes_context and self.told.kind != events.START and not given.denied and not given.asked:
            return given._replace(context=f"{self._report_again()}\n{given.context}".strip())
        return given

    def delivered(self) -> None:
        """Note that the answer was passed on: the messages in it are read, and what it tells is not told again."""
        if self.session is not None:
            self._acknowledge(self.session)
            self.eng.injections.record(self.session.id, self._given)
        if self.told.kind == events.PROMPT:
            self.eng.memories.used([id for kind, id in self._given if kind == "memory"])

    def lost(self) -> None:
        """Return the messages in the answer to the mailbox, because it could not be passed on."""
        if self.session is not None:
            self.eng.messages.give_back(self.session.id, self._taken)

    def start(self) -> Answer:
        known, reason = self.session, self.told.reason
        if known is not None and reason == "compact" and known.metadata.get(SUMMARY_DUE):
            self.compacted()
        continued = reason in _CONTINUED or bool(known and known.metadata.get(DUE))
        session = self._begin()
        for earlier in starts.left(self.eng, self.told, self.place, session.id):
            self._end(earlier)
        if reason == "compact":
            self.eng.injections.clear(session.id)
        return Answer(self._brief(session, resumed=continued))

    def prompt(self) -> Answer:
        said = self.told.text
        if not said:
            return Answer()
        session, turn = self._record("user", said)
        if self.told.parent is None:
            self.eng.harness_processes.confirm(session.id, self.place.process)
        if not session.summary:
            self.eng.sessions.quote(session.id, "user")
        if turn is not None and self.place.has_transcript:
            from .turns import record_interrupted

            record_interrupted(self.eng, session.id, turn, self.place.spoken)
        return Answer(self._recalled(said, session) if self.told.takes_context else "")

    def before_tool(self) -> Answer:
        if self.place.lock_policy == "off" or not self.place.files:
            return Answer()
        return locks.before_edit(self.eng, self.told, self.place, self._at_work())

    def after_tool(self) -> Answer:
        session = self.session or self._begin()
        with self.eng.write():
            if session.status == "abandoned":
                self.eng.sessions.heartbeat(session.id)
            if self._is_first():
                self.eng.sessions.log(session.id, self.told.line)
            messages = self._take_messages(session) if self.told.takes_context else ""
            edited = locks.after_edit(self.eng, self.told, self.place, session)
        return Answer("\n".join(filter(None, [messages, edited.context])))

    def stop(self) -> Answer:
        self._record_reply()
        return Answer()

    def compact(self) -> Answer:
        how = f" ({self.told.reason})" if self.told.reason else ""
        session = self._begin({DUE: True, SUMMARY_DUE: True})
        self.eng.injections.clear(session.id)
        with self.eng.write():
            if self._is_first():
                self.eng.sessions.log(session.id, f"The context is being compacted{how}")
        return Answer()

    def compacted(self) -> Answer:
        from .turns import keep_summary

        session = self._at_work()
        text = self.place.summary()
        with self.eng.write():
            kept = self._is_first() and keep_summary(self.eng, session.id, text)
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
        at_work = session is not None and session.status != "completed"
        if session is not None and at_work and not starts.leave(self.eng, self.place, session.id):
            self._end(session)
        return Answer()

    def _report_again(self) -> str:
        return self._brief(self._begin(), resumed=True)

    def _end(self, session: Session) -> None:
        """Complete the session and its subagents."""
        children = [other for other in self.eng.sessions.active() if other.parent_id == session.id]
        with self.eng.write():
            for ending in sorted([session, *children], key=lambda each: each.id):
                self._complete(ending)
        self._ended = True

    def _begin(self, metadata: dict[str, object] | None = None) -> Session:
        """Create or resume the event's session. A resumed session keeps its summary and its outcome."""
        known = self.session
        parent = None
        if self.told.parent is not None:
            above = self.told._replace(session=self.told.parent, parent=None, name=None, task="")
            parent = Handling(self.eng, above, self.place)._at_work().id
        id = self.eng.sessions.register(
            self.told.harness,
            None if known else self.told.task,
            metadata or ({DUE: False} if known and known.metadata.get(DUE) else None),
            name=self.told.name,
            project=self.place.project,
            external_id=self.told.session,
            parent_id=parent,
        )
        if self.told.parent is None:
            # A subagent runs in the process of its parent, which is the session that the MCP server acts as.
            starts.note(self.eng, self.told, self.place, id)
        self.session = self.eng.sessions.get(id)
        return self.session

    def _at_work(self) -> Session:
        return self.session if self.session is not None and self.session.status == "active" else self._begin()

    def _brief(self, session: Session, *, resumed: bool) -> str:
        budget = max(1, self.place.brief_budget - _FRAME_TOKENS)
        made = self.eng.briefing(session.id, budget=budget, resumed=resumed)
        self._given += made.things
        return frame("brief", made.text)

    def _recalled(self, said: str, session: Session) -> str:
        # Imported here, because only a prompt recalls.
        from . import injection

        lines = injection.recalled(self.eng, said, session, self._recall)
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
        if not self.told.in_background:
            self.eng.messages.acknowledge(session.id, self._taken)
            return
        self.eng.messages.acknowledge(session.id, self._told)
        new = [message.id for message in self._taken if message not in self._told]
        if new:
            self.eng.sessions.register(
                self.told.harness,
                None,
                {TOLD: new},
                project=self.place.project,
                external_id=self.told.session,
            )

    def _record_reply(self) -> None:
        """Store what the assistant said since the last prompt, and the session if it is new.

        The closing message in the event is committed before the transcript is read.
        """
        from . import turns

        text, recorded = self.told.text, None
        if text:
            self._begin_above()
            with self.eng.write():
                # The assistant's last message does not resume a completed session.
                recorded = turns.record_closing(self.eng, (self.session or self._begin()).id, text)
        spoken = self.place.spoken() if self.place.has_transcript else []
        if any(turn.messages for turn in spoken):
            self._begin_above()
            with self.eng.write():
                turns.record_turns(self.eng, (self.session or self._begin()).id, spoken, (text, recorded))

    def _record(self, role: str, said: str) -> tuple[Session, int | None]:
        """Store a turn, and its session if that is new. This is the first thing that a hook commits.

        The turn is None if an earlier attempt has stored it.
        """
        self._begin_above()
        with self.eng.write():
            session = self._at_work()
            if not self._is_first():
                return session, None
            turn = self.eng.exchanges.add(session.id, role, said, embed=False, words=False)
        return session, turn

    def _begin_above(self) -> None:
        """Begin a subagent's session in a transaction of its own, because creating a child session locks leases."""
        if self.told.parent is not None and self.session is None:
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
    events.START: Handling.start,
    events.PROMPT: Handling.prompt,
    events.BEFORE_TOOL: Handling.before_tool,
    events.AFTER_TOOL: Handling.after_tool,
    events.STOP: Handling.stop,
    events.COMPACT: Handling.compact,
    events.COMPACTED: Handling.compacted,
    events.SUBAGENT_START: Handling.subagent_start,
    events.SUBAGENT_STOP: Handling.subagent_stop,
    events.END: Handling.end,
}


#: The kinds of events that are handled.
KINDS = tuple(_ACTIONS)


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
