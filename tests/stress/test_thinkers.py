"""Processes forget turns while passes use thinkers that repeat everything they read: no forgotten word is left.

Each turn has a unique word. One pass uses the extractive thinker, one a server, one agents; each has its own workspace.
Other processes add and forget turns in all of them. When a turn is forgotten, its word is gone. At the end everything
is forgotten.
"""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from engram import BlockNotFound, Engram, ExchangeNotFound, LeaseLost, MemoryNotFound, SessionNotFound, WorkNotFound
from engram.config import load
from engram.llm import quoted
from tests._models import echoing, serve
from tests._tables import dump
from tests.security.test_forgotten_files import parts_in, seen
from tests.stress._processes import Crew, Parent, Worker, scaled
from tests.stress.test_forgetters import own_words
from tests.stress.test_kill import check_sound

SECONDS = scaled(2.0, 90.0)
TALKERS, FORGETTERS, AGENTS = 2, 2, 1
#: The thinker of each workspace.
THINKERS = {"plain": "extractive", "served": "openai:m", "left": "agent"}
#: The longest that a server or an agent takes to answer.
THOUGHT = 0.05
#: Turns that the forgetters leave for the others.
FEW = 6
LEAST = 5
GONE = (BlockNotFound, ExchangeNotFound, MemoryNotFound, SessionNotFound)
#: What a pass may say of things that others took away, and of the other dreamers.
MAY_SAY = ("meanwhile", "There is no", "Another pass is running")


class Said(NamedTuple):
    word: str
    exchange: int


def opened(url: str, **settings: Any) -> Engram:
    limits: dict[str, Any] = {"dream_min_age": 0, "dream_consolidate": "apply", "dream_resolve_conflicts": "on"}
    return Engram(settings=load(url=url, embedder="none", **limits, **settings))


def until(parent: Parent, step: Callable[[], object]) -> None:
    """Again and again, from when the test says so until the time is over; some times however slow the machine is."""
    parent.tell("ready")
    parent.wait()
    end, steps = time.monotonic() + SECONDS, 0
    while time.monotonic() < end or steps < LEAST:
        step()
        steps += 1


def talk(parent: Parent, url: str, number: int) -> list[Said]:
    chance, said, sessions = random.Random(number), list[Said](), list[tuple[Engram, str]]()

    def step() -> None:
        if len(sessions) < 6 or chance.random() < 0.1:
            view = eng.workspace(chance.choice(list(THINKERS)))
            sessions.append((view, view.sessions.register("claude-code", "work")))
        view, session = chance.choice(sessions[-6:])
        own = f"q{''.join(chance.choices(string.ascii_lowercase, k=15))}"
        form = chance.choice(("I prefer {} for billing.", "We decided to deploy {} on Mondays.", "The {} is at 41."))
        role = chance.choice(("user", "user", "assistant", "tool"))
        with suppress(SessionNotFound):
            said.append(Said(own, view.exchanges.add(session, role, form.format(own))))
        time.sleep(chance.uniform(0, THOUGHT))

    with opened(url) as eng:
        until(parent, step)
    return said


def forget(parent: Parent, url: str, number: int) -> list[int]:
    """The turns that went."""
    chance, went = random.Random(number), list[int]()

    def step() -> None:
        # Forgetting empties the agents' queue, and they must get somewhere.
        view = eng.workspace(chance.choices(list(THINKERS), (4, 4, 1))[0])
        by, there = what_is_there(view, chance)
        with suppress(*GONE):
            if len(there) > (FEW if by == "exchange" else 0):
                receipt = view.forget(**{by: chance.choice(there)})
                went.extend(int(id) for id in receipt.ids.get("exchanges", []))
        time.sleep(chance.uniform(0, THOUGHT))

    with opened(url) as eng:
        until(parent, step)
    return went


def what_is_there(eng: Engram, chance: random.Random) -> tuple[str, list[Any]]:
    by = chance.choice((*["exchange"] * 12, *["memory"] * 4, "session", "block"))
    if by == "exchange":
        return by, [each.id for each in eng.exchanges.timeline(limit=30)]
    if by == "memory":
        return by, [each.id for each in eng.memories.list(limit=30)]
    if by == "session":
        return by, [each.id for each in eng.sessions.list(20) if each.type == "claude-code"]
    return by, [each.name for each in eng.blocks.list()]


def forget_some(eng: Engram, chance: random.Random, prompt: str) -> list[int]:
    """Forget a turn that a prompt quotes, or that something it quotes was made of; the turns that went."""
    handle, _ = chance.choice(quoted(prompt))
    with suppress(*GONE):
        turns = [int(handle[1:])] if handle[0] == "e" else []
        if handle[0] == "m":
            turns = [id for kind, id in eng.memories.sources(int(handle[1:])) if kind == "exchange"]
        if turns:
            return [int(id) for id in eng.forget(exchange=chance.choice(turns)).ids["exchanges"]]
    return []


class Dreamt(NamedTuple):
    #: How often something was made.
    made: int
    #: Everything that went otherwise than well.
    errors: list[str]
    #: The turns that were forgotten during a thought.
    went: list[int]


def dream(parent: Parent, url: str, workspace: str) -> Dreamt:
    llm = THINKERS[workspace]
    chance, made, errors, went = random.Random(llm), 0, list[str](), list[int]()
    if llm.startswith("openai"):
        import openai  # noqa: F401, or the first thought takes as long as all others

    def answer(prompt: str) -> str:
        time.sleep(chance.uniform(0, THOUGHT))
        # However busy the machine is, some of what is thought about goes in the middle of it.
        if chance.random() < 0.2:
            went.extend(forget_some(eng, chance, prompt))
        return echoing(prompt)

    with serve() as model:
        model.answer = answer
        with opened(url, llm=llm, llm_base_url=model.url, workspace=workspace) as eng:

            def step() -> None:
                nonlocal made
                (report,) = eng.dream(force=True)
                made += len(report.gists) + len(report.eras) + len(report.blocks)
                errors.extend(report.errors)
                if report.id is not None and chance.random() < 0.1:
                    with suppress(Exception):
                        eng.dreams.undo(report.id)
                time.sleep(chance.uniform(0, THOUGHT))

            until(parent, step)
    return Dreamt(made, errors, went)


def answer_pieces(parent: Parent, url: str, number: int) -> tuple[int, list[int]]:
    """How many answers were handed in, and the turns that were forgotten during a thought."""
    chance, done, went = random.Random(number), 0, list[int]()

    def step() -> None:
        nonlocal done
        item = eng.work.next("agent")
        time.sleep(chance.uniform(0, THOUGHT))
        if item and chance.random() < 0.1:
            went.extend(forget_some(eng, chance, item.prompt))
        if item:
            with suppress(WorkNotFound, LeaseLost):
                eng.work.submit(item.id, echoing(item.prompt), "agent")
                done += 1

    with opened(url, llm="agent", workspace="left") as eng:
        until(parent, step)
    return done, went


@pytest.mark.requirement("DREAM-24")
def test_no_pass_brings_a_forgotten_word_back(store_url: str, crew: Crew) -> None:
    opened(store_url).close()
    talkers = [crew.start(talk, store_url, number) for number in range(TALKERS)]
    forgetters = [crew.start(forget, store_url, number) for number in range(FORGETTERS)]
    dreamers = [crew.start(dream, store_url, workspace) for workspace in THINKERS]
    agents = [crew.start(answer_pieces, store_url, number) for number in range(AGENTS)]
    everybody: list[Worker[Any]] = [*talkers, *forgetters, *dreamers, *agents]
    for worker in everybody:
        worker.hear()
    for worker in everybody:
        worker.call()
    said = {each.word: each.exchange for worker in talkers for each in worker.result()}
    went = {exchange for worker in forgetters for exchange in worker.result()}
    dreamt = [worker.result() for worker in dreamers]
    answers = [worker.result() for worker in agents]
    went.update(exchange for each in dreamt for exchange in each.went)
    went.update(exchange for _, gone in answers for exchange in gone)
    forgotten = {word for word, exchange in said.items() if exchange in went}
    pieces, made = sum(done for done, _ in answers), [each.made for each in dreamt]
    print(f"{len(said)} turns, {len(forgotten)} forgotten, {pieces} pieces answered, {made} made")
    assert forgotten and any(made)
    errors = [error for each in dreamt for error in each.errors]
    print(f"{sum('meanwhile' in error for error in errors)} thoughts were discarded")
    assert [error for error in errors if not any(words in error for words in MAY_SAY)] == []
    assert left(store_url, forgotten) == {}
    with opened(store_url) as eng:
        for view in map(eng.workspace, THINKERS):
            for session in view.sessions.list(dreams=True):
                view.forget(session=session.id)
        assert left(store_url, set(said)) == {}
        if not store_url.startswith("postgresql:"):
            eng.sessions.ensure("last")
            eng.forget(session="last")
            parts = parts_in(store_url)
            assert [word for word in said if seen(word, parts)] == []
    check_sound(store_url)


def left(url: str, words: set[str]) -> dict[str, set[str]]:
    """The tables that still have one of the words."""
    found = {table: words & set(own_words([repr(rows)])) for table, rows in dump(url).items()}
    return {table: there for table, there in found.items() if there}
