"""An agent that does a random mix of operations in several workspaces, while other agents do the same.

It records what was acknowledged. An error because another agent deleted something is expected. Every other error, such
as a busy store, fails the test.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from engram import (
    Engram,
    ExchangeNotFound,
    LeaseHeld,
    LeaseNotFound,
    MemoryNotFound,
    NoRecipient,
    SessionEnded,
    SessionNotFound,
    VersionConflict,
)
from engram.config import load

from ._processes import Parent

WORKSPACES = ("first", "second", "third")
#: Blocks and resources that all processes share, in each workspace.
JOURNAL, COUNTER = "journal", "counter"
EXCLUSIVE = ("db-schema", "src/router.py")
ADVISORY = ("deploy-notes", "src/**")
#: Long enough to outlive the test: a lease then ends only when its holder says so.
TTL = 3_600.0
TOPICS = ("harbour", "bridge", "ferry", "lantern", "compass")
#: Errors that are expected because another process changed something.
REFUSALS = (
    *(ExchangeNotFound, LeaseHeld, LeaseNotFound, MemoryNotFound, NoRecipient, SessionEnded, SessionNotFound),
    VersionConflict,
)
#: What a pass may report: somebody else dreams, or what it was about to use was forgotten meanwhile.
EXPECTED = ("Another pass is running", "There is no", "meanwhile")


class Held(NamedTuple):
    """From when until when a session surely had a resource for itself, by the clock that all processes share."""

    workspace: str
    resource: str
    began: float
    ended: float


class Account:
    """The acknowledged operations of one agent; every key begins with the workspace."""

    def __init__(self) -> None:
        self.exchanges: dict[tuple[str, int], str] = {}
        self.memories: dict[tuple[str, int], str] = {}
        self.sessions: set[tuple[str, str]] = set()
        #: Appended to the journal, in order.
        self.marks: dict[str, list[str]] = {name: [] for name in WORKSPACES}
        self.counted: Counter[str] = Counter()
        #: (workspace, recipient, message), for each message sent and for each one read.
        self.sent: list[tuple[str, str, int]] = []
        self.read: list[tuple[str, str, int]] = []
        self.held: list[Held] = []
        #: Numbers of the change feed as they were read on, bit by bit.
        self.followed: dict[str, list[int]] = {name: [] for name in WORKSPACES}
        self.done: Counter[str] = Counter()
        #: Unexpected errors of passes.
        self.problems: list[str] = []


class Agent:
    def __init__(self, eng: Engram, number: int) -> None:
        self.account = Account()
        self._eng = eng
        self._number = number
        self._random = random.Random(number)
        self._marks = 0
        #: Of each workspace: the session at work, and what it holds exclusively since when.
        self._session: dict[str, str] = {}
        self._mine: dict[str, dict[str, float]] = {name: {} for name in WORKSPACES}
        for name in WORKSPACES:
            self._register(eng.workspace(name))
        often: list[Callable[[Engram], None]] = [self.add, self.log, self.remember, self.recall, self.append]
        often += [self.send, self.inbox, self.claim, self.release, self.sitrep, self.derive, self.follow]
        self._actions = [*often * 3, self.count_up, self.supersede, self.forget, self.forget, self.complete, self.dream]
        self._actions += [self.work, self.forget_session]

    def run(self, seconds: float) -> Account:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            action = self._random.choice(self._actions)
            name = action.__name__
            try:
                action(self._eng.workspace(self._random.choice(WORKSPACES)))
            except REFUSALS as refused:
                name = f"{name}: {type(refused).__name__}"
            self.account.done[name] += 1
        for name in WORKSPACES:
            self.release_all(self._eng.workspace(name))
        return self.account

    def add(self, eng: Engram) -> None:
        role = self._random.choice(("user", "assistant", "tool"))
        sid, text = self._session[eng.workspace_name], f"We decided to leave the {self._topic()} alone, {self._mark()}."
        with eng.write():
            id = eng.exchanges.add(sid, role, text, embed=False)
            if role == "user":
                eng.sessions.quote(sid, "user")
        self.account.exchanges[eng.workspace_name, id] = text

    def log(self, eng: Engram) -> None:
        text = f"looked at the {self._topic()}, {self._mark()}"
        entry = eng.sessions.log(self._session[eng.workspace_name], text)
        self.account.exchanges[eng.workspace_name, entry.id] = text

    def remember(self, eng: Engram) -> None:
        text = f"The {self._topic()} has {self._mark()} planks."
        self._remembered(eng, eng.remember(text, tags=[self._topic()]).id, text)

    def derive(self, eng: Engram) -> None:
        turns = eng.exchanges.timeline(limit=10)
        if turns:
            text = f"The {self._topic()} is as {self._mark()} says."
            sources = [("exchange", turn.id) for turn in self._random.sample(turns, min(2, len(turns)))]
            self._remembered(eng, eng.remember(text, sources=sources).id, text)

    def recall(self, eng: Engram) -> None:
        eng.recall(f"{self._topic()} {self._topic()}", 10, mode=self._random.choice(("words", "hybrid")))

    def append(self, eng: Engram) -> None:
        mark = self._mark()
        eng.blocks.append(JOURNAL, f"{mark}\n")
        self.account.marks[eng.workspace_name].append(mark)

    def count_up(self, eng: Engram) -> None:
        block = eng.blocks.get(COUNTER)
        assert block is not None
        eng.blocks.update(COUNTER, str(int(block.content) + 1), expected_version=block.version)
        self.account.counted[eng.workspace_name] += 1

    def send(self, eng: Engram) -> None:
        to = self._random.choice([*(each.id for each in eng.sessions.active()), "*", ADVISORY[0]])
        message = eng.messages.send(self._session[eng.workspace_name], to, f"question {self._mark()}")
        self.account.sent += [(eng.workspace_name, recipient, message.id) for recipient in message.recipients]

    def inbox(self, eng: Engram) -> None:
        sid = self._session[eng.workspace_name]
        self.account.read += [(eng.workspace_name, sid, message.id) for message in eng.messages.inbox(sid)]

    def claim(self, eng: Engram) -> None:
        sid = self._session[eng.workspace_name]
        if self._random.random() < 0.5:
            eng.leases.claim(sid, self._random.choice(ADVISORY), f"note {self._mark()}", ttl=1.0)
            return
        resource = self._random.choice(EXCLUSIVE)
        wait = self._random.choice((0, 0, 0.2))
        eng.leases.claim(sid, resource, exclusive=True, ttl=TTL, wait=wait)
        self._mine[eng.workspace_name].setdefault(resource, time.monotonic())

    def release(self, eng: Engram) -> None:
        mine = self._mine[eng.workspace_name]
        if mine:
            resource = self._random.choice(sorted(mine))
            self._note_held(eng, resource)
            eng.leases.release(self._session[eng.workspace_name], resource)

    def release_all(self, eng: Engram) -> None:
        for resource in sorted(self._mine[eng.workspace_name]):
            self._note_held(eng, resource)
        eng.leases.release_all(self._session[eng.workspace_name])

    def sitrep(self, eng: Engram) -> None:
        eng.sitrep(session_id=self._session[eng.workspace_name])

    def supersede(self, eng: Engram) -> None:
        """By hand, and by saying something else under the same key."""
        mine = [id for name, id in self.account.memories if name == eng.workspace_name][-10:]
        if len(mine) > 1:
            old, new = self._random.sample(mine, 2)
            eng.memories.supersede(old, new)
        text, key = f"The {self._topic()} is closed, {self._mark()}.", self._topic()
        self._remembered(eng, eng.remember(text, key=key, kind="fact").id, text)

    def forget(self, eng: Engram) -> None:
        """What anybody said or knows."""
        if self._random.random() < 0.5:
            turns = eng.exchanges.timeline(limit=40)
            if turns:
                eng.forget(exchange=self._random.choice(turns).id)
        else:
            known = eng.memories.list(limit=40)
            if known:
                eng.forget(memory=self._random.choice(known).id)

    def forget_session(self, eng: Engram) -> None:
        """Its own, with all that was said there."""
        self.release_all(eng)
        eng.forget(session=self._session[eng.workspace_name])
        self._register(eng)

    def complete(self, eng: Engram) -> None:
        for resource in sorted(self._mine[eng.workspace_name]):
            self._note_held(eng, resource)
        sid = self._session[eng.workspace_name]
        with eng.write():
            eng.sessions.complete(sid)
            eng.sessions.quote(sid, "assistant")
        self._register(eng)

    def dream(self, eng: Engram) -> None:
        for report in eng.dream(force=self._random.random() < 0.3):
            self.account.problems += [
                error for error in report.errors if not any(expected in error for expected in EXPECTED)
            ]
            self.account.done["passes"] += report.id is not None

    def work(self, eng: Engram) -> None:
        eng.backlog.work(20)

    def follow(self, eng: Engram) -> None:
        seen = self.account.followed[eng.workspace_name]
        seen += [change.number for change in eng.changes(after=seen[-1] if seen else 0, limit=500)]

    def _register(self, eng: Engram) -> None:
        sid = eng.sessions.register("agent", f"task {self._mark()}")
        self._session[eng.workspace_name] = sid
        self.account.sessions.add((eng.workspace_name, sid))

    def _remembered(self, eng: Engram, id: int, text: str) -> None:
        self.account.memories[eng.workspace_name, id] = text

    def _note_held(self, eng: Engram, resource: str) -> None:
        """Before it is given back: then it is still ours for sure."""
        began = self._mine[eng.workspace_name].pop(resource)
        self.account.held.append(Held(eng.workspace_name, resource, began, time.monotonic()))

    def _topic(self) -> str:
        return self._random.choice(TOPICS)

    def _mark(self) -> str:
        self._marks += 1
        return f"{self._number}.{self._marks}"


def mix(parent: Parent, url: str, number: int, seconds: float) -> Account:
    # Some may load a model and some may not, as servers and hooks.
    with Engram(settings=load(url=url, embedder="none" if number % 4 else "static")) as eng:
        agent = Agent(eng, number)
        parent.tell("ready")
        parent.wait()
        return agent.run(seconds)
