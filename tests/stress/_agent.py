"""An agent that does mixed writes and records what was acknowledged."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from engram import Engram, LeaseHeld, VersionConflict

from ._processes import Parent

JOURNAL = "journal"
COUNTER = "counter"
BOARD = "board"
#: Claimed as advisory only, exclusively only, and both ways.
ADVISORY, EXCLUSIVE, BOTH = "deploy-notes", "db-schema", "router"


class Account:
    """The acknowledged writes of one agent."""

    def __init__(self) -> None:
        #: Log entries by session, in order.
        self.logs: dict[str, list[str]] = {}
        self.own_sessions: list[str] = []
        self.completed: set[str] = set()
        #: What was appended to the journal, in order.
        self.marks: list[str] = []
        #: Edits acknowledged, by block.
        self.edits: Counter[str] = Counter()
        #: (recipient, message), for each message sent and for each one read.
        self.sent: list[tuple[str, int]] = []
        self.read: list[tuple[str, int]] = []
        #: Live claims at the end, with their tokens.
        self.held: dict[tuple[str, str], int] = {}
        #: Every token ever granted, in order.
        self.tokens: list[int] = []
        #: How often each kind of write was done, refusals and retries included.
        self.done: Counter[str] = Counter()


class Agent:
    def __init__(self, eng: Engram, number: int, everybody: Sequence[str], ledger: str) -> None:
        self.account = Account()
        self._eng = eng
        self._number = number
        self._random = random.Random(number)
        #: The sessions that were there from the start, one for each agent.
        self._everybody = everybody
        #: A session all agents log to.
        self._ledger = ledger
        self._session = everybody[number]
        self._marks = 0

    def write(self, times: int) -> Account:
        actions = (
            *(self.log, self.log_together, self.heartbeat, self.claim, self.claim, self.release, self.send, self.read),
            *(self.append, self.count_up, self.update, self.world, self.together, self.change_session),
        )
        for _ in range(times):
            action = self._random.choice(actions)
            action()
            self.account.done[action.__name__] += 1
        return self.account

    def log(self) -> None:
        self._note(self._session, self._mark())

    def log_together(self) -> None:
        self._note(self._ledger, self._mark())

    def heartbeat(self) -> None:
        self._eng.sessions.heartbeat(self._session, f"at {self._mark()}")

    def claim(self) -> None:
        resource, exclusive = self._random.choice(
            ((ADVISORY, False), (EXCLUSIVE, True), (BOTH, False), (BOTH, True)),
        )
        try:
            lease = self._eng.leases.claim(self._session, resource, exclusive=exclusive)
        except LeaseHeld:
            self.account.done["refused"] += 1
            self.log()
            return
        if self.account.held.get((self._session, resource)) != lease.token:
            self.account.tokens.append(lease.token)
        self.account.held[self._session, resource] = lease.token

    def release(self) -> None:
        mine = [resource for session, resource in self.account.held if session == self._session]
        if not mine:
            self.claim()
            return
        resource = self._random.choice(mine)
        lease = self._eng.leases.release(self._session, resource)
        assert self.account.held.pop((self._session, resource)) == lease.token

    def send(self) -> None:
        message = self._eng.messages.send(
            self._session, self._random.choice((*self._everybody, "*")), f"question {self._mark()}"
        )
        self.account.sent += [(recipient, message.id) for recipient in message.recipients]

    def read(self) -> None:
        self.account.read += [(self._session, message.id) for message in self._eng.messages.inbox(self._session)]

    def append(self) -> None:
        mark = self._mark()
        self._eng.blocks.append(JOURNAL, f"{mark}\n", actor=self._session)
        self._edited(JOURNAL, mark)

    def count_up(self) -> None:
        """Read, change, write; try again if another agent wrote in between."""
        for _ in range(10_000):
            block = self._eng.blocks.get(COUNTER)
            assert block is not None
            try:
                self._eng.blocks.update(COUNTER, str(int(block.content) + 1), expected_version=block.version)
            except VersionConflict:
                self.account.done["retried"] += 1
            else:
                self.account.edits[COUNTER] += 1
                return
        raise AssertionError("the counter was never free")

    def update(self) -> None:
        self._eng.blocks.update(BOARD, self._mark(), "said so")
        self.account.edits[BOARD] += 1

    def world(self) -> None:
        self._eng.world.set(f"as {self._mark()} sees it", updated_by=self._session)
        self.account.edits["world"] += 1

    def together(self) -> None:
        """Several calls as one transaction."""
        mark = self._mark()
        with self._eng.write():
            self._eng.sessions.log(self._session, mark)
            self._eng.blocks.append(JOURNAL, f"{mark}\n")
            self._eng.sessions.log(self._ledger, mark)
        self._edited(JOURNAL, mark)
        for session in (self._session, self._ledger):
            self.account.logs.setdefault(session, []).append(mark)

    def change_session(self) -> None:
        """Complete this session and go on in the next."""
        self._eng.sessions.complete(self._session, "done")
        self.account.completed.add(self._session)
        self.account.held = {key: token for key, token in self.account.held.items() if key[0] != self._session}
        self._session = self._eng.sessions.register("agent", "the next task", parent_id=self._session)
        self.account.own_sessions.append(self._session)

    def _note(self, session: str, entry: str) -> None:
        self._eng.sessions.log(session, entry)
        self.account.logs.setdefault(session, []).append(entry)

    def _edited(self, block: str, mark: str) -> None:
        self.account.marks.append(mark)
        self.account.edits[block] += 1

    def _mark(self) -> str:
        self._marks += 1
        return f"{self._number}.{self._marks}"


def work(parent: Parent, url: str, number: int, everybody: Sequence[str], ledger: str, writes: int) -> Account:
    with Engram(url) as eng:
        agent = Agent(eng, number, everybody, ledger)
        parent.tell("ready")
        parent.wait()
        return agent.write(writes)
