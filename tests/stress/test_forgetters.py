"""Processes that write, forget and recall on one store: every hit was stored, and nothing forgotten comes back.

The processes do not wait for each other. Each records the start and end of its operations by the machine's clock, which
all share. The test compares the records after all processes have ended.
"""

from __future__ import annotations

import random
import re
import string
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, LiteralString, NamedTuple

import pytest

from engram import Engram, ExchangeNotFound, MemoryNotFound, NoRecipient, SessionNotFound
from engram.config import load
from tests._tables import dump
from tests.security.test_forgotten_files import parts_in, seen
from tests.stress._processes import Crew, Parent, Worker, scaled
from tests.stress.test_kill import check_sound

SECONDS = scaled(1.5, 60.0)
WRITERS, FORGETTERS, RECALLERS = 4, 2, 4
#: The forgetters leave this many of each kind for the recallers.
FEW = 5
#: Words of all texts, so that every query finds texts of all processes.
TOPICS = ("harbour", "bridge", "ferry", "lantern", "compass")
#: Each text has a unique word that identifies it.
OWN_WORD = re.compile(r"\bq[a-z]{15}\b")
#: Errors that are expected because another process deleted something.
GONE = (ExchangeNotFound, MemoryNotFound, SessionNotFound, NoRecipient)

Thing = tuple[str, int]


class Wrote(NamedTuple):
    """A text that was written into a thing, in place of whatever it had before."""

    word: str
    thing: Thing
    began: float
    ended: float


class Forgot(NamedTuple):
    things: list[Thing]
    began: float
    ended: float


class Found(NamedTuple):
    words: list[str]
    began: float
    ended: float


class Writer:
    def __init__(self, eng: Engram, number: int) -> None:
        self._eng = eng
        self._random = random.Random(number)
        self._session = eng.sessions.register("writer", "begins")
        #: The latest of its things; each may be forgotten by now.
        self._exchanges: list[int] = []
        self._memories: list[int] = []
        self.wrote: list[Wrote] = []

    def write(self) -> None:
        action = self._random.choice(
            (
                *(self.add, self.add, self.add_many, self.log, self.remember, self.remember, self.derive, self.update),
                *(self.update, self.archive, self.send, self.next_session, self.heartbeat, self.work, self.claim),
            )
        )
        try:
            action()
        except SessionNotFound:
            self._session = self._eng.sessions.register("writer", "begins again")
        except GONE:
            pass

    def add(self) -> None:
        text, began = self._text(), time.monotonic()
        id = self._eng.exchanges.add(self._session, "user", text, embed=self._random.random() < 0.5)
        self._note(text, ("exchange", id), began)

    def add_many(self) -> None:
        texts, began = [self._text() for _ in range(3)], time.monotonic()
        self._eng.exchanges.add_many(
            {"session_id": self._session, "role": "assistant", "content": text} for text in texts
        )
        known = {each.content: each.id for each in self._eng.exchanges.recent(self._session, 20)}
        for text in texts:
            if text in known:
                self._note(text, ("exchange", known[text]), began)
            else:  # forgotten before its number was known; it may have been found until then
                self.wrote.append(Wrote(own_words([text])[0], ("forgotten", len(self.wrote)), began, time.monotonic()))

    def log(self) -> None:
        text, began = self._text(), time.monotonic()
        self._note(text, ("exchange", self._eng.sessions.log(self._session, text).id), began)

    def remember(self) -> None:
        text, began = self._text(), time.monotonic()
        made = self._eng.remember(text, session_id=self._session, embed=self._random.random() < 0.5)
        self._note(text, ("memory", made.id), began)

    def derive(self) -> None:
        sources = [("exchange", id) for id in self._exchanges[-2:]]
        text, began = self._text(), time.monotonic()
        self._note(text, ("memory", self._eng.remember(text, sources=sources).id), began)

    def update(self) -> None:
        if self._memories:
            id = self._random.choice(self._memories[-10:])
            text, began = self._text(), time.monotonic()
            self._eng.memories.update(id, text)
            self._note(text, ("memory", id), began)

    def archive(self) -> None:
        if self._memories:
            id = self._random.choice(self._memories[-10:])
            self._eng.memories.archive(id)
            self._eng.memories.unarchive(id)

    def send(self) -> None:
        to = self._random.choice([each.id for each in self._eng.sessions.list(10)] + ["*"])
        self._eng.messages.send(self._session, to, self._text())
        self._eng.messages.inbox(self._session)

    def next_session(self) -> None:
        self._eng.sessions.complete(self._session)
        self._session = self._eng.sessions.register("writer", "goes on", parent_id=self._session)

    def heartbeat(self) -> None:
        self._eng.sessions.heartbeat(self._session, self._text())

    def claim(self) -> None:
        self._eng.leases.claim(self._session, self._random.choice(TOPICS), self._text())

    def work(self) -> None:
        self._eng.backlog.work(40)

    def _text(self) -> str:
        own = "".join(self._random.choices(string.ascii_lowercase, k=15))
        return f"About the {' and the '.join(self._random.sample(TOPICS, 2))}: q{own}."

    def _note(self, text: str, thing: Thing, began: float) -> None:
        self.wrote.append(Wrote(own_words([text])[0], thing, began, time.monotonic()))
        (self._exchanges if thing[0] == "exchange" else self._memories).append(thing[1])


def own_words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in OWN_WORD.findall(text)]


def opened(url: str) -> Engram:
    return Engram(settings=load(url=url, embedder="static"))


def until(parent: Parent, eng: Engram, step: Callable[[], object]) -> None:
    """Again and again, from when the test says so until the time is over."""
    eng.recall("the model is loaded", mode="vectors")
    parent.tell("ready")
    parent.wait()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        step()


def write(parent: Parent, url: str, number: int) -> list[Wrote]:
    with opened(url) as eng:
        writer = Writer(eng, number)
        until(parent, eng, writer.write)
        return writer.wrote


def forget(parent: Parent, url: str, number: int) -> list[Forgot]:
    chance, forgot = random.Random(number), list[Forgot]()

    def step() -> None:
        by, there = _there(eng, chance)
        if not there:
            return
        # Forgetting is faster than writing; where little is left it is only tried.
        dry_run = len(there) < FEW
        began = time.monotonic()
        with suppress(*GONE):
            receipt = eng.forget(**{by: chance.choice(there)}, dry_run=dry_run)
            things = [("exchange", int(id)) for id in receipt.ids.get("exchanges", [])]
            things += [("memory", int(id)) for id in receipt.ids.get("memories", [])]
            if not dry_run:
                forgot.append(Forgot(things, began, time.monotonic()))

    with opened(url) as eng:
        until(parent, eng, step)
    return forgot


def _there(eng: Engram, chance: random.Random) -> tuple[str, list[Any]]:
    """A way of forgetting and what it can name; a session seldom, because everything in it goes."""
    by = chance.choice(("exchange", "exchange", "exchange", "memory", "memory", "memory", "session"))
    if by == "exchange":
        return by, [each.id for each in eng.exchanges.timeline(limit=50)]
    if by == "memory":
        return by, [each.id for each in eng.memories.list(limit=50)]
    return by, [each.id for each in eng.sessions.list(20)]


def recall(parent: Parent, url: str, number: int) -> list[Found]:
    chance, found = random.Random(number), list[Found]()

    def step() -> None:
        query = " ".join(chance.sample(TOPICS, 2))
        mode = chance.choice(("words", "hybrid", "vectors"))
        began = time.monotonic()
        hits = eng.recall(query, 50, mode=mode, include_archived=chance.random() < 0.5)
        found.append(Found(own_words(hit.text for hit in hits), began, time.monotonic()))

    with opened(url) as eng:
        until(parent, eng, step)
    return found


class Lives:
    """The time span in which each text can be found."""

    def __init__(self, wrote: Iterable[Wrote], forgot: Iterable[Forgot]) -> None:
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.forgotten: set[str] = set()
        texts: dict[Thing, list[str]] = {}
        # A thing is only ever written by one process, so its texts follow each other.
        for word, thing, began, ended in sorted(wrote, key=lambda each: each.began):
            self.began[word] = began
            for earlier in texts.setdefault(thing, []):
                self.ended.setdefault(earlier, ended)
            texts[thing].append(word)
        for things, _, ended in forgot:
            for word in (word for thing in things for word in texts.get(thing, [])):
                self.ended[word] = min(ended, self.ended.get(word, ended))
                self.forgotten.add(word)

    def impossible(self, found: Found) -> list[str]:
        """What cannot have been found then: not yet begun when the answer came, or over when it was asked."""
        return [
            word
            for word in found.words
            if self.began.get(word, float("inf")) > found.ended or self.ended.get(word, float("inf")) < found.began
        ]


@pytest.mark.requirement("FORGET-16")
def test_every_hit_was_stored_and_nothing_forgotten_comes_back(store_url: str, crew: Crew) -> None:
    with opened(store_url) as eng:
        first = Writer(eng, WRITERS)
        for _ in range(60):
            first.write()
    writers = [crew.start(write, store_url, number) for number in range(WRITERS)]
    forgetters = [crew.start(forget, store_url, number) for number in range(FORGETTERS)]
    recallers = [crew.start(recall, store_url, number) for number in range(RECALLERS)]
    everybody: list[Worker[list[Wrote]] | Worker[list[Forgot]] | Worker[list[Found]]] = []
    everybody += [*writers, *forgetters, *recallers]
    for worker in everybody:
        worker.hear()
    for worker in everybody:
        worker.call()
    wrote = first.wrote + [each for worker in writers for each in worker.result()]
    forgot = [each for worker in forgetters for each in worker.result()]
    found = [each for worker in recallers for each in worker.result()]
    lives = Lives(wrote, forgot)
    print(f"{len(wrote)} texts, {len(lives.forgotten)} forgotten in {len(forgot)} steps, {len(found)} recalls")
    assert lives.forgotten and len(lives.forgotten) < len(wrote) and any(each.words for each in found)
    assert [(lives.impossible(each), each) for each in found if lives.impossible(each)] == []
    assert lives.forgotten & set(own_words([repr(dump(store_url))])) == set()
    check_index(store_url)
    check_sound(store_url)
    if not store_url.startswith("postgresql:"):
        check_files(store_url, lives.forgotten)


def check_files(url: str, forgotten: set[str]) -> None:
    """Nothing of what was forgotten is in SQLite's files; whoever could not clean them left that to the next one."""
    with opened(url) as eng:
        eng.sessions.ensure("last")
        eng.forget(session="last")
        parts = parts_in(url)
    assert [word for word in forgotten if seen(word, parts)] == []


def check_index(url: str) -> None:
    """Check that every indexed item exists and that all counts are right."""
    with opened(url) as eng:
        while eng.backlog.work():
            pass
        assert count(eng, "SELECT COUNT(*) FROM backlog") == 0
        assert count(eng, "SELECT COUNT(*) FROM vectors") == count(eng, "SELECT COUNT(*) FROM items") > 0
        assert count(eng, "SELECT SUM(items) FROM shelves") == count(eng, "SELECT COUNT(*) FROM items")
        assert count(eng, "SELECT SUM(length) FROM shelves") == count(eng, "SELECT SUM(length) FROM items")
        assert count(eng, ORPHANED) == 0
        assert count(eng, UNSHELVED) == 0
        assert count(eng, "SELECT COUNT(*) FROM terms t WHERE t.id NOT IN (SELECT term FROM postings)") == 0
        assert count(eng, "SELECT COUNT(*) FROM postings WHERE term NOT IN (SELECT id FROM terms)") == 0
        assert count(eng, "SELECT COUNT(*) FROM postings WHERE item NOT IN (SELECT id FROM items)") == 0


ORPHANED: LiteralString = """
SELECT COUNT(*) FROM items
WHERE (kind = 'exchange' AND ref NOT IN (SELECT id FROM exchanges))
   OR (kind = 'memory' AND ref NOT IN (SELECT id FROM memories))
"""
UNSHELVED: LiteralString = """
SELECT (SELECT COUNT(*) FROM exchanges WHERE id NOT IN (SELECT ref FROM items WHERE kind = 'exchange'))
  + (SELECT COUNT(*) FROM memories WHERE id NOT IN (SELECT ref FROM items WHERE kind = 'memory'))
"""


def count(eng: Engram, sql: LiteralString) -> int:
    with eng._view.engine.read() as tx:
        return int(tx.all(sql)[0][0])
