"""Any order of remembering, talking, dreaming, undoing and forgetting.

Every text has a word of its own, so that a forgotten one is recognised wherever it is left. A pass that is undone
before anything else happened leaves the state from before it; whatever else happened, the store stays sound.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram import Engram, UndoBlocked
from engram.dreaming.pass_context import PassContext
from engram.errors import DreamNotFound
from tests._logical import Dump, logical
from tests._passes import dream_of
from tests._tables import holds
from tests.conftest import ShiftedClock
from tests.stress._processes import scaled

STEPS = ("remember", "keyed", "say", "say", "edit", "archive", "unarchive", "link", "dream", "dream", "undo", "undo")
MORE = ("tidy", "tidy", "redo", "forget turn", "forget memory", "forget session")
SEQUENCES = st.lists(st.tuples(st.sampled_from(STEPS + MORE), st.integers(0, 9)), min_size=8, max_size=20, unique=False)
#: What a pass that tidies does to memories.
TIDYING = ("supersede", "supersede", "archive", "unarchive", "link")
T = TypeVar("T")

_WORKSPACES = itertools.count(1)


class Life:
    """One workspace, and what is known about it."""

    def __init__(self, eng: Engram, url: str, clock: ShiftedClock) -> None:
        self.eng = eng
        self.url = url
        self.clock = clock
        self.words = itertools.count(1)
        self.forgotten: list[str] = []
        #: What an undo must give back: the states before passes since which nothing else happened.
        self.before: list[Dump] = []
        #: The latest undo, and the state before it, while nothing else happened.
        self.undone: tuple[int, Dump] | None = None
        self.sessions = [eng.sessions.register("claude-code", "one"), eng.sessions.register("claude-code", "two")]
        for number in range(3):
            self.remember(number)

    def step(self, name: str, number: int) -> None:
        self.clock.advance(30)
        if name not in ("dream", "tidy", "undo", "redo"):
            self.before, self.undone = [], None
        getattr(self, name.replace(" ", "_"))(number)
        # Else the next pass would do this, and that is no change which an undo takes back.
        self.eng.backlog.work()
        check(logical(self.eng))

    def word(self) -> str:
        # Ends in a letter, so that none is the beginning of another.
        return f"xq{self.eng.workspace_name.removeprefix('life')}z{next(self.words)}q"

    def remember(self, number: int) -> None:
        self.eng.remember(f"The {self.word()} is on floor {number}.", tags=[f"floor-{number}"])

    def keyed(self, number: int) -> None:
        self.eng.remember(f"The editor is {self.word()}.", kind="preference", key=f"editor-{number % 2}")

    def say(self, number: int) -> None:
        if session := self.chosen(self.sessions, number):
            self.eng.exchanges.add(session, "user", f"We decided to call service {number} by the name {self.word()}.")

    def edit(self, number: int) -> None:
        if id := self.memory(number, "active"):
            self.eng.memories.update(id, f"The {self.word()} moved.", importance=number / 10)

    def archive(self, number: int) -> None:
        if id := self.memory(number, "active"):
            self.eng.memories.archive(id)

    def unarchive(self, number: int) -> None:
        if id := self.memory(number, "archived"):
            self.eng.memories.unarchive(id)

    def link(self, number: int) -> None:
        one, two = self.memory(number, "active"), self.memory(number + 1, "active")
        if one and two and one != two:
            self.eng.memories.link(one, two)

    def dream(self, number: int) -> None:
        state = logical(self.eng)
        (report,) = self.eng.dream(force=True)
        assert report.errors == []
        if logical(self.eng) != state:
            self.before.append(state)
            self.undone = None

    def tidy(self, number: int) -> None:
        """A pass that supersedes, archives and links: the same memories again and again, in any order."""
        ids = sorted(each.id for each in self.eng.memories.list(status="active"))
        if len(ids) < 2:
            return
        chance = random.Random(number)
        few = chance.sample(ids, min(len(ids), 3))
        steps = [self.tidied(chance.choice(TIDYING), *chance.sample(few, 2)) for _ in range(3 + number % 4)]
        state = logical(self.eng)
        dream_of(self.eng, *steps)
        self.eng.backlog.work()
        if logical(self.eng) != state:
            self.before.append(state)
            self.undone = None
            # Seldom does chance undo a pass right after it, so half of these are undone here.
            if number % 2:
                self.undo(number)
                self.redo(number)

    def tidied(self, how: str, one: int, other: int) -> Callable[[PassContext], object]:
        def act(context: PassContext) -> None:
            if how == "supersede":
                context.memories.supersede(one, other)
            elif how == "link":
                context.memories.link(one, other, f"relation {one}")
            else:
                getattr(context.memories, how)(one)

        return act

    def undo(self, number: int) -> None:
        state = logical(self.eng)
        try:
            report = self.eng.dreams.undo()
        except (UndoBlocked, DreamNotFound):
            assert self.before == []
            assert logical(self.eng) == state
            return
        if self.before:
            assert report.left == []
            assert logical(self.eng) == self.before.pop()
        self.undone = (report.id, state) if report.restored or report.removed else None
        for word in self.forgotten:
            assert holds(self.url, word) == {}

    def redo(self, number: int) -> None:
        if self.undone:
            run, state = self.undone
            self.before, self.undone = [], None
            now = logical(self.eng)
            self.eng.dreams.undo(run)
            assert logical(self.eng) == state
            self.before = [now]

    def forget_turn(self, number: int) -> None:
        session = self.chosen(self.sessions, number)
        turns = self.eng.exchanges.recent(session, 20) if session else []
        if turns:
            turn = turns[number % len(turns)]
            self.eng.forget(exchange=turn.id)
            self.gone(turn.content)

    def forget_memory(self, number: int) -> None:
        if id := self.memory(number, "active"):
            contents = [edit.content for edit in self.eng.memories.history(id)]
            derived = self.eng.memories.sources(id)
            self.eng.forget(memory=id)
            if not derived:  # else what it was made of is still there, and says the same
                self.gone(*contents)

    def forget_session(self, number: int) -> None:
        if len(self.sessions) > 1:
            session = self.sessions.pop(number % 2)
            contents = [turn.content for turn in self.eng.exchanges.recent(session, 100)]
            self.eng.forget(session=session)
            self.gone(*contents)

    def gone(self, *contents: str) -> None:
        words = [word.strip(".") for content in contents for word in content.split() if word.startswith("xq")]
        for word in words:
            assert holds(self.url, word) == {}
        self.forgotten += words

    def memory(self, number: int, status: str) -> int | None:
        found = self.chosen(self.eng.memories.list(status=status), number)
        return found.id if found else None

    def chosen(self, among: list[T], number: int) -> T | None:
        return among[number % len(among)] if among else None


def check(dump: Dump) -> None:
    """The indexes have exactly what there is, and nothing refers to what is not there."""
    counted = Counter(row[3] for row in dump["items"])
    lengths = Counter[str]()
    for row in dump["items"]:
        lengths[row[3]] += row[9]
    assert {shelf: (items, length) for shelf, items, length in dump["shelves"]} == {
        shelf: (counted[shelf], lengths[shelf]) for shelf in counted
    }
    assert {row[3:5] for row in dump["postings"]} == set(dump["terms"])
    ids = {row[0] for row in dump["memories"]}
    assert {row[1] for row in dump["items"] if row[0] == "memory"} == {row[0] for row in dump["memories"] if row[3]}
    latest = {(row[0], row[1]): row[2] for row in dump["memory_versions"]}
    assert all(latest[row[0], row[5]] == row[3] for row in dump["memories"])
    vectors = {row[:2] for row in dump["vectors"]} | set(dump["backlog"])
    assert {row[:2] for row in dump["items"]} <= vectors
    assert {row[0] for row in dump["gists"]} | {row[1] for row in dump["memory_links"]} <= ids


@pytest.mark.requirement("UNDO-8", "UNDO-5")
def test_whatever_happens_an_undo_gives_back_the_state_before(
    open_store: Callable[..., Engram], store_url: str, clock: ShiftedClock
) -> None:
    eng = open_store()

    @settings(max_examples=scaled(6, 60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(SEQUENCES)
    def lives(steps: list[tuple[str, int]]) -> None:
        life = Life(eng.workspace(f"life{next(_WORKSPACES)}"), store_url, clock)
        for name, number in steps:
            life.step(name, number)

    lives()
