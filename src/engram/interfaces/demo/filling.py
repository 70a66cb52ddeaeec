"""Plays the made-up month into a workspace, through the library.

Everything happens in order of time, with a clock that is set to each moment. So heartbeats, leases, messages, recall
counts and passes of dreaming come about as they do in real use, and no row is written by hand. Nothing is random: the
ids of sessions come from their keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from ...clock import Clock, stamp
from ...errors import Conflict, NotFound, NotRemote
from ...records import PERSON
from . import shared
from .script import Entry, Session, Turn, entries, moment, sessions

if TYPE_CHECKING:
    from ...client import Engram
    from ...config import Config

#: Seconds that the claims of the sessions at work last, so that they can be looked at.
_CLAIM = 4 * 3_600.0
_DAY = 86_400.0

_Show = Callable[[int, int], None]


class Filled(NamedTuple):
    """What a workspace has after it was filled."""

    workspace: str
    sessions: int
    turns: int
    memories: int
    gists: int
    eras: int
    blocks: int
    leases: int
    messages: int
    dreams: int
    proposals: int
    receipts: int


class SetClock(Clock):
    """A clock that is set to a moment and goes on from there."""

    def set(self, seconds: float) -> None:
        self.shift = seconds - time.time()


def fill(settings: Config, now: float | None = None, progress: _Show | None = None) -> Filled:
    """Fill the workspace of the settings with a month that ends now.

    Conflict if something is in the workspace already. Passes of dreaming think without a model, whatever the settings
    say.
    """
    from ...client import Engram

    if settings.is_remote:
        raise NotRemote("A server's store cannot be filled from here. Run this where the store is.")
    clock = SetClock()
    with Engram(settings=_plain(settings), clock=clock) as eng:
        _require_empty(eng)
        # The month has projects of its own, whatever the current folder is.
        month = Month(eng.from_elsewhere(), clock, time.time() if now is None else now)
        month.play(progress)
        return month.counts()


def _plain(settings: Config) -> Config:
    """The settings, with defaults for all that would change how the month comes out."""
    from ...config import SETTINGS

    defaults: dict[str, Any] = {
        each.name: each.default
        for each in SETTINGS
        if each.name.startswith(("dream_", "auto_dream_")) or each.name in ("llm", "stale_after", "abandon_after")
    }
    return settings._replace(**defaults, companion=True)


def _require_empty(eng: Engram) -> None:
    found = next((each for each in eng.workspaces() if each.name == eng.workspace_name), None)
    if found is not None and found.active_at is not None:
        raise Conflict(
            f"The workspace {eng.workspace_name!r} has {found.sessions} sessions and {found.memories} memories. "
            "The made-up month is written only to an empty workspace; name another one with --workspace."
        )


class Month:
    def __init__(self, eng: Engram, clock: SetClock, now: float) -> None:
        self._eng = eng
        self._clock = clock
        self._now = now
        #: Ids by the keys of sessions, and by the names of memories.
        self._sessions: dict[str, str] = {}
        self._memories: dict[str, int] = {}
        self._messages = 0

    def play(self, progress: _Show | None = None) -> None:
        steps = sorted(self._steps(), key=lambda step: step[0])
        for done, (when, step) in enumerate(steps):
            if progress:
                progress(done, len(steps))
            self._clock.set(when)
            step()
        self._clock.set(self._now)
        if progress:
            progress(len(steps), len(steps))

    def counts(self) -> Filled:
        eng = self._eng
        stats = eng.sessions.stats()
        statuses = ("active", "superseded", "archived")
        kinds = [memory.kind for status in statuses for memory in eng.memories.list(status=status)]
        return Filled(
            workspace=eng.workspace_name,
            sessions=len(eng.sessions.list()),
            turns=stats.turns,
            memories=sum(kind not in ("gist", "era", "digest") for kind in kinds),
            gists=kinds.count("gist"),
            eras=kinds.count("era"),
            blocks=len(eng.blocks.list()),
            leases=len(eng.leases.list()),
            messages=self._messages,
            dreams=len(eng.dreams.list(limit=0)),
            proposals=len(eng.proposals.list()),
            receipts=len(eng.receipts()),
        )

    def _steps(self) -> Iterator[tuple[float, Callable[[], Any]]]:
        for session in sessions():
            yield from self._session_steps(session)
        for entry in entries("memories.txt"):
            yield self._at(entry, self._remember)
        for entry in entries("changes.txt"):
            yield self._at(entry, self._change)
        for entry in entries("blocks.txt"):
            yield self._at(entry, self._write)
        for entry in entries("messages.txt"):
            yield self._at(entry, self._send)
            if "read" in entry.options:
                yield self._when(entry.options["read"]), partial(self._read, entry.words[3])
        for claim in shared.LEASES:
            yield self._when(claim.at), partial(self._claim, claim)
        for dream in shared.DREAMS:
            yield self._when(dream.at), partial(self._dream, dream)
            if dream.undone:
                yield self._when(dream.undone), self._undo

    def _when(self, text: str) -> float:
        return moment(text, self._now)

    def _at(self, entry: Entry, step: Callable[[Entry], Any]) -> tuple[float, Callable[[], Any]]:
        return self._when(" ".join(entry.words[:2])), partial(step, entry)

    def _session_steps(self, session: Session) -> Iterator[tuple[float, Callable[[], Any]]]:
        begins = self._when(session.begins)
        eng = self._eng.as_author(session.author)
        yield begins, lambda: self._register(eng, session, begins)
        pause = 60 * session.minutes / len(session.turns)
        for number, turn in enumerate(session.turns):
            # The first turn is what the session begins with, and the last one comes just before its end.
            when = begins + (1 if number == 0 else pause * number + pause / 2)
            if number == len(session.turns) - 1:
                when = begins + 60 * session.minutes - 5
            yield when, partial(self._say, eng, session.key, turn)
        if session.end == "done":
            ends = begins + 60 * session.minutes
            yield ends, lambda: eng.sessions.complete(self._sessions[session.key], session.outcome)

    def _register(self, eng: Engram, session: Session, begins: float) -> None:
        day, _, rest = stamp(begins).replace("-", "").replace(":", "").partition("T")
        self._sessions[session.key] = eng.sessions.register(
            session.type,
            session.summary,
            project=session.project,
            parent_id=self._sessions[session.parent] if session.parent else None,
            id=f"{day}-{rest[:6]}-{crc32(session.key.encode()):08x}",
        )

    def _say(self, eng: Engram, key: str, turn: Turn) -> None:
        if turn.role == "log":
            eng.sessions.log(self._sessions[key], turn.text)
        else:
            eng.exchanges.add(self._sessions[key], turn.role, turn.text)

    def _remember(self, entry: Entry) -> None:
        name, kind = entry.words[2:]
        given = entry.options
        by = given["by"]
        memory = self._eng.as_author(given.get("author", "workstation")).remember(
            entry.text,
            kind=kind,
            tags=given["tags"].split(","),
            importance=float(given["importance"]),
            pinned=True if "pinned" in given else None,
            key=given.get("key"),
            session_id=self._sessions[given["session"]] if "session" in given else None,
            project=given.get("project"),
            trust="user" if by == PERSON else by,
            by_person=by == PERSON,
            expires_at=stamp(self._now + _DAY * float(given["expires"])) if "expires" in given else None,
        )
        self._memories[name] = memory.id

    def _change(self, entry: Entry) -> None:
        what, name = entry.words[2:]
        by_person = entry.options.get("by") == PERSON
        memories = self._eng.memories
        if what == "recall":
            self._eng.recall(entry.text, k=3)
            return
        if what in ("apply", "reject"):
            self._decide(what, name)
            return
        id = self._memories[name]
        if what == "edit":
            memories.update(id, entry.text, reason="more exact", by_person=by_person)
        elif what == "again":
            known = memories.get(id)
            self._eng.remember(known.content, kind=known.kind, project=known.project, key=known.key)
        elif what == "important":
            memories.update(id, importance=float(entry.text))
        elif what == "approve":
            memories.approve(id)
        elif what == "archive":
            memories.archive(id, actor=PERSON if by_person else None)
        elif what == "unarchive":
            memories.unarchive(id)
        elif what == "link":
            memories.link(id, self._memories[entry.text])
        else:
            assert what == "forget", what
            self._eng.forget(memory=id)

    def _decide(self, what: str, kind: str) -> None:
        """The person decides on the oldest proposal of a kind."""
        proposal = next((each for each in self._eng.proposals.list() if each.what == kind), None)
        if proposal is None:
            return  # see `_undo`
        if what == "apply":
            self._eng.proposals.apply(proposal.id, by_person=True)
        else:
            self._eng.proposals.reject(proposal.id)

    def _write(self, entry: Entry) -> None:
        name, given = entry.words[2], entry.options
        session = self._sessions[given["session"]]
        blocks = self._eng.blocks
        if name == "world":
            self._eng.world.set(entry.text, session)
        elif blocks.get(name) is None:
            blocks.create(name, entry.text, int(given["budget"]), actor=session)
        else:
            blocks.update(name, entry.text, given["reason"], actor=session)

    def _send(self, entry: Entry) -> None:
        sender, to = entry.words[2:]
        self._eng.messages.send(self._sessions[sender], self._sessions.get(to, to), entry.text)
        self._messages += 1

    def _read(self, to: str) -> None:
        self._eng.messages.inbox(self._sessions.get(to, to))

    def _claim(self, claim: shared.Claimed) -> None:
        self._eng.leases.claim(
            self._sessions[claim.session], claim.resource, claim.note, exclusive=claim.exclusive, ttl=_CLAIM
        )

    def _undo(self) -> None:
        # A server on the same store may dream in this workspace meanwhile. Then there is less to see, and that is all.
        with suppress(Conflict, NotFound):
            self._eng.dreams.undo()

    def _dream(self, dream: shared.Dreamt) -> None:
        if dream.reason == "by hand":
            self._eng.dream(force=True)
        else:
            self._eng.dream_if_due(dream.reason)
