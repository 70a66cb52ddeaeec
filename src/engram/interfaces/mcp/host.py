"""Runs tool calls: one store for the process, and the state of each connection.

Nothing here knows the protocol. Everything is synchronous; the server calls it in threads. A connection's session is
the one that the client's hooks report (see `identity`), or that `sitrep` registered or took over. Calls that name no
session act as it. A session that no hook reports ends with the client. Each call is a heartbeat of its session and
delivers the messages of other sessions to it. Messages count as read when the answer with them was sent and
the client is still connected a moment later. If the answer was cancelled or not received, they become unread again.

A client over HTTP comes with a grant: what its token allows. Each call is checked against it, here and nowhere else for
all transports; a local client may do everything. Any worker may get the next request of such a client, so the store
remembers which session it acts as, under the key of its connection.

The first call that needs the store opens it. A store that cannot be opened is then an error that an agent can show to
its user, and the server keeps running.

The model is loaded in the background. Meanwhile a write stores its text and words at once, and its vector follows. A
recall is worth more with the model, so it waits for it, but not long. Then words answer, and the answer says so. Once
the model is there, the process offers it to others over the recall socket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

from ... import operations
from ...access import permission
from ...client import Engram
from ...errors import EngramError, Forbidden, InvalidInput, SessionNotFound
from ...operations import OPERATIONS, SESSION
from ...records import plain
from ...safe_text import one_line
from .. import background, harness_process
from . import answers, guide, identity, tools
from .answers import Answer
from .connections import Connection, Pending, Waiter

if TYPE_CHECKING:
    from logging import Logger

    from ...operations import Operation
    from ...records import Message

_T = TypeVar("_T")

#: Seconds between two heartbeats: far below the usual lifetime of a lease, and rare enough to cost nothing.
BEAT_EVERY = 30.0
#: Seconds that a recall waits for the model, which usually is there within a second or two of the start.
MODEL_WITHIN = 2.0
#: Seconds that running calls get to finish after the client has gone.
PARTING = 1.5
#: Seconds that a harness's process gets to end after its client has gone.
GOING = 0.5
#: Seconds without a call after which the server counts as idle, and between two checks whether a pass is due.
IDLE_AFTER, DUE_EVERY = 120.0, 60.0
#: Seconds after which an answer counts as received, if the client is still connected.
RECEIVED_AFTER = 1.0
#: The operation that may have to wait.
_CLAIM = "lock.claim"
#: These operations are heartbeats already.
_ALIVE_ANYWAY = frozenset({"session.heartbeat", "session.log", "session.complete"})
#: The most sessions whose last heartbeat is remembered.
MOST_BEATS = 10_000


class Host:
    def __init__(self, open_store: Callable[[], Engram], clock: Callable[[], float] = monotonic) -> None:
        self._open_store = open_store
        self._clock = clock
        self._idle = threading.Condition()
        self._eng: Engram | None = None
        self._beats: dict[tuple[str, str], float] = {}
        self._calls = 0
        self._stop = threading.Event()
        #: Whether the model is to be loaded in the background, and the store whose model that is.
        self._warms = False
        self._warming: Engram | None = None
        self._passed_on: set[threading.Timer] = set()
        #: When a tool was last called, and when it was last checked whether a pass is due.
        self._last_call = self._last_check = clock()
        #: Serves the recall socket, or waits to.
        self._offer = background.Offer()

    def store(self) -> Engram:
        """The store, opened on first use. If that fails, the next call tries again."""
        with self._idle:
            if self._eng is None:
                self._eng = self._open_store()
                if self._warms:
                    self._warming = self._eng
                    self._warming.embedding_queue.warm_later()
            return self._eng

    def store_of(self, connection: Connection) -> Engram:
        """The workspace of a client."""
        return self.store() if connection.remote is None else connection.remote.eng

    def call(self, connection: Connection, name: str, arguments: Mapping[str, object]) -> Answer | None:
        """Call a tool; None if there is no such tool."""
        answer = self.begin(connection, name, arguments)
        if not isinstance(answer, Pending):
            return answer
        with answer:
            while (done := answer.look()) is None:
                answer.sleep()
            return done

    def begin(self, connection: Connection, name: str, arguments: Mapping[str, object]) -> Answer | Pending | None:
        """Call a tool. A claim that may have to wait is returned as Pending, so that it blocks no thread."""
        self._last_call = self._clock()

        def perform() -> Answer | Pending | None:
            call = tools.resolve(name, arguments)
            return None if call is None else self._perform(connection, call)

        return self._answered(name, perform)

    def look(self, pending: Pending) -> Answer | None:
        """The answer of a waiting claim; None while it still waits."""

        def perform() -> Answer | None:
            if pending.connection.remote is not None:
                pending.connection.remote.verify()
            lease = pending.waiter.look()
            return None if lease is None else answers.answer(_CLAIM, plain(lease), pending.session)

        answer = self._answered("lock", perform)
        if answer is None:
            return None
        shown = self._shown(self.store_of(pending.connection), pending.connection, pending.session)
        return answers.with_messages(answer, pending.session, shown)

    def passed_on(self, connection: Connection, answer: Answer) -> None:
        """Note that the answer is on its way. Its messages count as read unless the client turns out to be gone."""
        if not answer.messages:
            return
        if connection.unsent is not None:
            connection.unsent.append(answer)
            return
        timer = threading.Timer(RECEIVED_AFTER, lambda: self._arrived(timer, connection, answer))
        timer.daemon = True
        self._passed_on.add(timer)
        timer.start()

    def received(self, connection: Connection, answer: Answer) -> None:
        """Note that the answer was received, so its messages are read."""
        # If the store is busy, the messages are delivered a second time. That is better than waiting here.
        with suppress(EngramError), self._counted():
            if answer.reader is not None and not self._stop.is_set():
                self.store_of(connection).messages.acknowledge(answer.reader, answer.messages)

    def lost(self, connection: Connection, answer: Answer) -> None:
        """Note that the answer was not received. Its messages are delivered again with the next answer."""
        if answer.reader is not None:
            with suppress(EngramError), self._counted():
                self.store_of(connection).messages.give_back(answer.reader, answer.messages)

    def read(self, connection: Connection, uri: str) -> guide.Document:
        eng = self._readable(connection)
        return guide.read(eng, uri, connection.session)

    def prompt(self, connection: Connection, name: str, arguments: Mapping[str, str]) -> str:
        eng = self._readable(connection)
        return guide.prompt(eng, name, arguments, connection.session)

    def end(self, connection: Connection) -> None:
        """Note that a client over HTTP has ended its connection: the session that it registered is completed."""
        eng, key = self.store_of(connection), connection.key
        self._identify(eng, connection)
        if key is None or connection.session is None or eng.sessions.get(connection.session).external_id != key:
            return
        permission.require(connection.grant, "write", eng.workspace_name)
        eng.sessions.finish(connection.session)

    def leave(self, connection: Connection) -> None:
        """Note that the client has gone: a session that no hook reports is completed, and its leases are free.

        One that hooks report is theirs to end, because the client may only have reconnected. It is completed here if
        the harness's process is gone, so that no hook can do it any more. A session that another process runs, too,
        goes on. If the store is busy, the process ends
        without it, and the leases expire.
        """
        thread = threading.Thread(target=self._end_session, args=(connection,), name="engram-leave", daemon=True)
        thread.start()
        thread.join(PARTING)

    def work_in_background(self) -> threading.Thread:
        """Load the model and work through the embedding queue, in a daemon thread that does not delay the exit."""
        self._warms = True
        thread = threading.Thread(target=self._background, name="engram-backlog", daemon=True)
        thread.start()
        return thread

    def tidy(self) -> int:
        """Check the embedding queue once; the number of items embedded."""
        with self._counted():
            return background.tidy(self.store())

    def dream_when_idle(self) -> bool:
        """Start a pass of dreaming, detached, if no tool was called for a while and one is due; whether it was started.

        Looking is one read, in the background thread. The pass is a process of its own, so no call waits for it.
        """
        now = self._clock()
        if now - self._last_call < IDLE_AFTER or now - self._last_check < DUE_EVERY:
            return False
        self._last_check = now
        with self._counted():
            eng = self.store()
            if eng.settings.auto_dream != "on" or not eng.is_dream_due():
                return False
            from ..auto_dream import IDLE_SERVER, start

            return start(eng.settings, IDLE_SERVER)

    def close(self) -> None:
        """Stop background work and close the store. A running call gets a moment to finish. A call that waits for
        another writer may end with the process; the store stays consistent."""
        self._stop.set()
        for timer in list(self._passed_on):
            timer.cancel()
        self._offer.close()
        with self._idle:
            if self._idle.wait_for(lambda: self._calls == 0, timeout=PARTING) and self._eng is not None:
                self._eng.close()
                self._eng = None

    def _answered(self, name: str, perform: Callable[[], _T]) -> _T | Answer:
        """The result of a step of a call. A failure becomes an answer, too."""
        try:
            with self._counted():
                return perform()
        except Exception as error:
            return _refused(name, error)

    def _perform(self, connection: Connection, call: tools.Call) -> Answer | Pending:
        operation = call.operation
        eng = self.store_of(connection)
        permission.require(connection.grant, operation.scope, eng.workspace_name)
        given = operations.check_arguments(_as_seen(operation), call.given)
        self._identify(eng, connection)
        if call.tool.name == "sitrep":
            self._begin(eng, connection, given)
        session = self._act_as(eng, connection, operation, given)
        operations.require_arguments(_as_called(operation), given)
        if session is not None:
            if operation.name not in _ALIVE_ANYWAY and _may_write(eng, connection):
                self._heartbeat(eng, session)
            if operation.name == _CLAIM and given.get("exclusive") and given.get("wait"):
                return Pending(self, connection, session, _lined_up(eng, given))
        # The brief lists unread messages, so its messages are taken before it is made. Other calls take them at the
        # end.
        first = self._shown(eng, connection, session) if operation.name == "brief" else []
        try:
            answer = self._run(eng, connection, operation, given, session)
        except Exception as error:
            answer = _refused(call.tool.name, error)
        return answers.with_messages(answer, session, first or self._shown(eng, connection, session))

    def _readable(self, connection: Connection) -> Engram:
        eng = self.store_of(connection)
        permission.require(connection.grant, "read", eng.workspace_name)
        self._identify(eng, connection)
        return eng

    def _run(
        self, eng: Engram, connection: Connection, operation: Operation, given: dict[str, object], session: str | None
    ) -> Answer:
        if operation.name == "recall" and connection.project:
            given.setdefault("prefer_project", connection.project)
        if operation.name == "remember" and session is None and connection.project:
            given.setdefault("project", connection.project)
        note = None
        if operation.name == "brief" and session is not None and connection.remote and connection.key is None:
            note = answers.NAME_YOURSELF.format(session=session)
        if operation.name == "recall" and given.get("mode", "hybrid") == "hybrid" and not self._has_model(eng):
            given["mode"], note = "words", answers.WORDS_ONLY
        with eng.embedding_queue.reasons() as reasons:
            result = operations.perform(eng, OPERATIONS[operation.name], given)
        if operation.name == "recall" and reasons and not connection.kept.told:
            connection.kept.told, note = True, f"{answers.NO_MODEL} {one_line(reasons[0], answers.LONGEST_ERROR)}"
        if operation.name == "session.complete" and session == connection.session:
            connection.session, connection.ended = None, True
        return answers.answer(operation.name, result, session, note)

    def _has_model(self, eng: Engram) -> bool:
        return eng.embedding_queue.is_warm(within=MODEL_WITHIN)

    def _shown(self, eng: Engram, connection: Connection, session: str | None) -> list[Message]:
        """Unread messages to the session. A failure to read them does not fail a call that has been done."""
        # Showing a message changes it, so it takes more than the permission to read.
        if session is None or not _may_write(eng, connection):
            return []
        try:
            # Looking for messages is a read. Taking them is a write.
            return eng.messages.show(session) if eng.messages.inbox(session, peek=True) else []
        except EngramError:
            return []

    def _arrived(self, timer: threading.Timer, connection: Connection, answer: Answer) -> None:
        self._passed_on.discard(timer)
        self.received(connection, answer)

    def _identify(self, eng: Engram, connection: Connection) -> None:
        """Find the session that the client's hooks report now. A session of its own is handed over to it."""
        if connection.key is not None:
            self._find_again(eng, connection, connection.key)
        if connection.origin is None or connection.chosen:
            return
        with connection.kept.lock:
            mine = connection.session
            connection.known = known = identity.find(eng, connection.origin, connection.client)
            at_work = known is not None and known.status != "completed"
            if known is not None and at_work and known.id == mine:
                return
            is_own = mine is not None and not eng.harness_processes.of(mine)
            if known is None or not at_work:
                # A session of its own stays. One that hooks report is over, or it is no longer certain which it is.
                connection.session = mine if is_own else None
                return
            if mine is not None and is_own and _status(eng, mine) == "active":
                eng.harness_processes.hand_over(mine, known.id)
            connection.session, connection.project = known.id, known.project
            identity.note(eng, connection.origin, known.id)

    def _find_again(self, eng: Engram, connection: Connection, key: str) -> None:
        """Find the session that a client over HTTP registered or took over last, whichever worker served it then."""
        last = next(iter(eng.harness_processes.started(key)), None)
        connection.ended = last is not None and last.status == "completed"
        if last is None or connection.ended:
            connection.session = None
        else:
            connection.session, connection.project = last.id, last.project

    def _begin(self, eng: Engram, connection: Connection, given: dict[str, object]) -> None:
        """Register the caller, take over the session that it names, or update the summary of its session."""
        summary, named = given.pop("summary", None), given.get(SESSION)
        if (summary is not None or named is not None) and not _may_write(eng, connection):
            raise Forbidden(
                f"sitrep with a summary or a session writes, and token {connection.grant.name!r} has scope "
                f"{connection.grant.scope}. Call sitrep without them."
            )
        with connection.kept.lock:
            status = _status(eng, connection.session)
            if named is not None:
                session = eng.sessions.heartbeat(str(named), None if summary is None else str(summary))
                # A subagent shares its parent's connection, so it may name itself but not take the parent's place.
                if status not in ("active", "idle") or session.id == connection.session:
                    connection.chosen = connection.chosen or session.id != connection.session
                    connection.session, connection.project = session.id, session.project
                    if connection.key is not None:
                        _note(eng, connection, session.id)
            elif summary is not None and (known := connection.known) and connection.session in (None, known.id):
                self._resume(eng, connection, known, str(summary))
            elif summary is not None and connection.session is not None and status is not None:
                eng.sessions.heartbeat(connection.session, str(summary))
            elif summary is not None:
                origin = connection.origin
                external_id = identity.new_external_id(eng, origin, connection.client) if origin else connection.key
                connection.session = eng.sessions.register(connection.client, str(summary), external_id=external_id)
                connection.project = eng.sessions.get(connection.session).project
                _note(eng, connection, connection.session)
                self._beats[eng.workspace_name, connection.session] = self._clock()

    def _resume(self, eng: Engram, connection: Connection, known: identity.Known, summary: str) -> None:
        """Act as the session that hooks report, with a summary only if it has none.

        Hooks take the summary from the user's first prompt: the user's words say better what the session is about.
        """
        session = eng.sessions.get(known.id)
        eng.sessions.heartbeat(known.id, None if session.summary else summary)
        connection.session, connection.project = known.id, known.project

    def _end_session(self, connection: Connection) -> None:
        id, eng = connection.session, self._eng
        if id is None or eng is None or connection.chosen or connection.origin is None:
            return
        with suppress(EngramError):
            if _status(eng, id) != "active":
                return
            if eng.harness_processes.of(id) and not _is_gone(connection.origin.process):
                return
            if eng.harness_processes.runs_elsewhere(id, connection.origin.server):
                return
            eng.sessions.finish(id)

    def _act_as(
        self, eng: Engram, connection: Connection, operation: Operation, given: dict[str, object]
    ) -> str | None:
        """The session of this call. It is filled in where the operation needs one and none was given."""
        mine = connection.session
        if operations.SESSION_ID in operation.inputs and mine is not None:
            given.setdefault(operations.SESSION_ID.name, mine)
        wanted = operation.input(SESSION)
        if wanted is None:
            named = given.pop(SESSION, mine)
            return None if named is None else str(named)
        if mine is not None:
            given.setdefault(SESSION, mine)
        if wanted.required and SESSION not in given:
            raise InvalidInput(f"{tools.named(operation.name)} needs a session, and {_why_none(eng, connection)}.")
        acting = given.get(SESSION)
        return None if acting is None else str(acting)

    def _heartbeat(self, eng: Engram, session: str) -> None:
        now, beat = self._clock(), (eng.workspace_name, session)
        if now - self._beats.get(beat, -BEAT_EVERY) >= BEAT_EVERY:
            eng.sessions.heartbeat(session)
            if len(self._beats) >= MOST_BEATS:
                self._beats.clear()
            self._beats[beat] = now

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._idle:
            self._calls += 1
        try:
            yield
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _background(self) -> None:
        background.run(self._load_model, self.tidy, self._offer_and_dream, self._stop, _log())

    def _offer_and_dream(self) -> None:
        with self._idle:
            eng = self._eng
        if eng is not None:
            self._offer.take(eng)
        self.dream_when_idle()

    def _load_model(self) -> None:
        try:
            if not self._stop.is_set():
                self.store()
        finally:
            with self._idle:
                self._warms, eng = False, self._warming
                self._warming = None
            if eng is not None:
                eng.embedding_queue.warm()


def _log() -> Logger:
    import logging

    return logging.getLogger("engram.mcp")


def _as_seen(operation: Operation) -> Operation:
    """The operation as a caller sees it: every call may name its session, and need not if the session is known."""
    about = operations.SESSION_ID.name if operations.SESSION_ID in operation.inputs else None
    others = (each for each in operation.inputs if each.name != SESSION)
    inputs = (each._replace(required=False) if each.name == about else each for each in others)
    return _as_called(operation)._replace(inputs=(*inputs, operations.ME_IF_KNOWN))


def _as_called(operation: Operation) -> Operation:
    """The operation under the name that errors use: that of its tool and action."""
    return operation._replace(name=tools.named(operation.name))


def _may_write(eng: Engram, connection: Connection) -> bool:
    try:
        permission.require(connection.grant, "write", eng.workspace_name)
    except Forbidden:
        return False
    return True


def _note(eng: Engram, connection: Connection, session: str) -> None:
    """Note where the session of a connection is at work, so that others find it."""
    if connection.key is not None:
        eng.harness_processes.note_server(session, connection.key, connection.key)
    else:
        identity.note(eng, connection.origin, session)


def _status(eng: Engram, session: str | None) -> str | None:
    """The session's status; None if there is no such session."""
    try:
        return None if session is None else eng.sessions.get(session).status
    except SessionNotFound:
        return None


def _why_none(eng: Engram, connection: Connection) -> str:
    """Why a connection has no session, and what to do."""
    if connection.remote is not None and connection.key is None:
        return "nothing connects your calls. Pass session: the id that sitrep with a summary gave you"
    why = "yours has ended" if connection.ended or connection.known is not None else "you have none yet"
    if connection.origin is not None and identity.is_ambiguous(eng, connection.origin):
        why = "several sessions of your client are at work, so it is not known which one you are"
    return f"{why}. Call sitrep with a summary of your task first, or pass session if you know your session id"


def _is_gone(process: str | None) -> bool:
    """Whether the harness's process has ended. It may take a moment to end after it has closed its side."""
    if process is None:
        return False
    until = monotonic() + GOING
    while harness_process.is_running(process):
        if monotonic() >= until:
            return False
        sleep(GOING / 10)
    return True


def _lined_up(eng: Engram, given: Mapping[str, object]) -> Waiter:
    chosen: dict[str, Any] = {name: value for name, value in given.items() if name not in (SESSION, "exclusive")}
    return eng.leases.line_up(str(given[SESSION]), **chosen)


def _refused(name: str, error: Exception) -> Answer:
    if isinstance(error, EngramError):
        return answers.refusal(error)
    # A bug in Engram. The traceback goes to the log, and the agent can continue its work.
    _log().error("%s failed", name, exc_info=error)
    return answers.refusal(
        EngramError(f"{name} failed because of a mistake in Engram. The server's log has the details.")
    )
