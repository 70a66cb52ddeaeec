"""Any order of adding, remembering, editing, archiving and forgetting, against a plain model of what is there.

As in `test_model`, Hypothesis makes up the calls, each sequence has a workspace of its own, and the store must say what
the model says after every step and once more after it was opened again. Every text has a number of its own, so that no
two are alike unless they are meant to be, and nothing of a text that stays can be mistaken for one that went.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from engram import Engram, ExchangeNotFound, MemoryNotFound, SessionNotFound
from engram.config import load
from tests.conftest import ShiftedClock
from tests.stress._processes import scaled

Thing = tuple[str, int]

#: The stemmer leaves them as they are, and none is within another.
TOPICS = ("harbour", "lantern", "compass")
SAID = st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True)
SESSIONS = st.sampled_from(["a", "b"])
KEYS = st.sampled_from([None, None, "port", "port_"])
#: Which of what there is; taken modulo how many there are.
PLACE = st.integers(0, 30)


@dataclass
class ModelExchange:
    session: str
    role: str
    text: str


@dataclass
class ModelMemory:
    key: str | None
    session: str | None
    #: Every content it had, the first one first.
    texts: list[str]
    sources: set[Thing]
    status: str = "active"
    reinforced: int = 0


@dataclass
class Model:
    """What a workspace should hold."""

    sessions: set[str] = field(default_factory=set)
    exchanges: dict[int, ModelExchange] = field(default_factory=dict)
    memories: dict[int, ModelMemory] = field(default_factory=dict)
    gone: set[Thing] = field(default_factory=set)
    receipts: int = 0

    def things(self) -> list[Thing]:
        return [*(("exchange", id) for id in self.exchanges), *(("memory", id) for id in self.memories)]

    def active(self) -> list[int]:
        return [id for id, memory in self.memories.items() if memory.status == "active"]

    def retire(self, key: str | None, *, but: int) -> None:
        """Only one of a key is current."""
        for id in self.active():
            if key is not None and self.memories[id].key == key and id != but:
                self.memories[id].status = "superseded"

    def made_of(self, things: set[Thing]) -> set[Thing]:
        """What was derived from these, however far down, and is not among them."""
        found: set[Thing] = set()
        while more := {
            ("memory", id)
            for id, memory in self.memories.items()
            if memory.sources & (things | found) and ("memory", id) not in things | found
        }:
            found |= more
        return found

    def forget(self, things: set[Thing]) -> None:
        """They go, with what has no other source."""
        alone = self.made_of(things)
        while others := {each for each in alone if not self.memories[each[1]].sources <= things | alone}:
            alone -= others
        for kind, id in things | alone:
            (self.exchanges if kind == "exchange" else self.memories).pop(id)
        for memory in self.memories.values():
            memory.sources -= things | alone
        self.gone |= things | alone
        self.receipts += 1


class Workspace(RuleBasedStateMachine):
    """A workspace and its model, and what can be done to both."""

    def __init__(self, reopen: Callable[[], Engram]) -> None:
        super().__init__()
        self.open = reopen
        self.eng = reopen()
        self.model = Model()
        self.numbers = itertools.count(1)

    def teardown(self) -> None:
        self.reopen()
        with self.eng:
            self.check()
            for topic in TOPICS:
                self.recall(topic, True)
                self.recall(topic, False)
            for kind, id in self.model.gone:
                with pytest.raises(ExchangeNotFound if kind == "exchange" else MemoryNotFound):
                    self.eng.exchanges.get(id) if kind == "exchange" else self.eng.memories.get(id)

    def text(self, topics: list[str]) -> str:
        return " ".join([*topics, f"n{next(self.numbers)}"])

    @rule(session=SESSIONS, role=st.sampled_from(["user", "assistant", "log"]), topics=SAID)
    def add(self, session: str, role: str, topics: list[str]) -> None:
        self.eng.sessions.ensure(session)
        self.model.sessions.add(session)
        text = self.text(topics)
        id = self.eng.exchanges.add(session, role, text)
        assert ("exchange", id) not in self.model.gone
        self.model.exchanges[id] = ModelExchange(session, role, text)

    @rule(topics=SAID, key=KEYS, session=st.none() | SESSIONS, places=st.lists(PLACE, max_size=3))
    def remember(self, topics: list[str], key: str | None, session: str | None, places: list[int]) -> None:
        text, things = self.text(topics), self.model.things()
        sources = sorted({things[place % len(things)] for place in places}) if things else []
        if session is not None and session not in self.model.sessions:
            with pytest.raises(SessionNotFound):
                self.eng.remember(text, key=key, session_id=session, sources=sources)
            return
        made = self.eng.remember(text, key=key, session_id=session, sources=sources)
        assert ("memory", made.id) not in self.model.gone
        self.model.retire(key, but=made.id)
        self.model.memories[made.id] = ModelMemory(key, session, [text], set(sources))

    @precondition(lambda self: self.model.active())
    @rule(place=PLACE)
    def remember_again(self, place: int) -> None:
        """What is known already, however it is written, is not kept twice."""
        active = self.model.active()
        id = active[place % len(active)]
        known = self.model.memories[id]
        assert self.eng.remember(f"  {known.texts[-1].upper()}", key=known.key).id == id
        known.reinforced += 1

    @precondition(lambda self: self.model.memories)
    @rule(place=PLACE, topics=SAID)
    def edit(self, place: int, topics: list[str]) -> None:
        id = list(self.model.memories)[place % len(self.model.memories)]
        text = self.text(topics)
        self.eng.memories.update(id, text)
        self.model.memories[id].texts.append(text)

    @precondition(lambda self: self.model.memories)
    @rule(place=PLACE, back=st.booleans())
    def archive(self, place: int, back: bool) -> None:
        id = list(self.model.memories)[place % len(self.model.memories)]
        memory = self.model.memories[id]
        if back:
            self.eng.memories.unarchive(id)
            if memory.status != "active":
                self.model.retire(memory.key, but=id)
            memory.status = "active"
        else:
            self.eng.memories.archive(id)
            memory.status = "archived"

    @precondition(lambda self: self.model.things())
    @rule(place=PLACE, dry_run=st.booleans())
    def forget(self, place: int, dry_run: bool) -> None:
        things = self.model.things()
        thing = things[place % len(things)]
        receipt = self.eng.forget(**{thing[0]: thing[1]}, dry_run=dry_run)  # type: ignore[arg-type]
        if not dry_run:
            self.model.forget({thing})
            went = {("exchange", int(id)) for id in receipt.ids.get("exchanges", [])}
            went |= {("memory", int(id)) for id in receipt.ids.get("memories", [])}
            assert went == set(things) - set(self.model.things())

    @rule(session=SESSIONS)
    def forget_session(self, session: str) -> None:
        if session not in self.model.sessions:
            with pytest.raises(SessionNotFound):
                self.eng.forget(session=session)
            return
        self.eng.forget(session=session)
        things = {("exchange", id) for id, each in self.model.exchanges.items() if each.session == session}
        # What was learnt there went through it, unless it is made of something said elsewhere.
        for id, memory in sorted(self.model.memories.items()):
            if memory.session == session and memory.sources <= things:
                things.add(("memory", id))
        self.model.forget(things)
        for memory in self.model.memories.values():
            memory.session = None if memory.session == session else memory.session
        self.model.sessions.remove(session)

    @rule(topic=st.sampled_from(TOPICS), archived=st.booleans())
    def recall(self, topic: str, archived: bool) -> None:
        hits = self.eng.recall(topic, 200, mode="words", include_archived=archived)
        there = {("exchange", id): each.text for id, each in self.model.exchanges.items() if each.role != "log"}
        for id, memory in self.model.memories.items():
            if archived or memory.status == "active":
                there["memory", id] = memory.texts[-1]
        found = {
            ("exchange", hit.exchange_id) if hit.exchange_id else ("memory", hit.memory_id): hit.text for hit in hits
        }
        assert len(found) == len(hits)
        # Turns beside a turn that fits may come with it.
        assert found.items() <= there.items()
        assert {thing for thing, text in there.items() if topic in text.split()} <= found.keys()

    @rule()
    def reopen(self) -> None:
        self.eng.close()
        self.eng = self.open()

    @invariant()
    def check(self) -> None:
        self.check_exchanges()
        self.check_memories()
        assert len(self.eng.receipts(0)) == self.model.receipts

    def check_exchanges(self) -> None:
        sessions = self.eng.sessions.list()
        assert {each.id for each in sessions} == self.model.sessions
        for session in sessions:
            mine = {id: each for id, each in self.model.exchanges.items() if each.session == session.id}
            turns = [(id, each.text) for id, each in mine.items() if each.role != "log"]
            assert [(each.id, each.content) for each in self.eng.exchanges.history(session.id)] == turns
            assert session.turns == len(turns)
            logs = [(id, each.text) for id, each in mine.items() if each.role == "log"]
            assert [(each.id, each.content) for each in reversed(self.eng.sessions.logs(session.id, 0))] == logs

    def check_memories(self) -> None:
        listed = [
            each for status in ("active", "superseded", "archived") for each in self.eng.memories.list(status=status)
        ]
        assert {
            each.id: (each.content, each.version, each.key, each.session_id, each.status, each.reinforced)
            for each in listed
        } == {
            id: (each.texts[-1], len(each.texts), each.key, each.session, each.status, each.reinforced)
            for id, each in self.model.memories.items()
        }
        for id, memory in self.model.memories.items():
            assert [each.content for each in reversed(self.eng.memories.history(id))] == memory.texts
            assert self.eng.memories.sources(id) == sorted(memory.sources)


@pytest.mark.requirement("FORGET-17", "MEMORY-2", "MEMORY-3")
def test_any_order_of_calls_leaves_the_memory_as_the_model_says(store_url: str, clock: ShiftedClock) -> None:
    # Where a call costs less, more of them are made in the same time.
    examples, steps = (scaled(8, 60), 20) if store_url.startswith("postgresql:") else (scaled(25, 200), 30)
    numbers = itertools.count(1)

    class Fresh(Workspace):
        def __init__(self) -> None:
            config = load(url=store_url, workspace=f"w{next(numbers)}", embedder="none")
            super().__init__(lambda: Engram(settings=config, clock=clock))

    # Each step talks to a database, which Hypothesis would call slow; and there is nothing to remember between runs.
    run_state_machine_as_test(
        Fresh,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
