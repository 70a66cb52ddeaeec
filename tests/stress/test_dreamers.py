"""Dreamers on several workspaces are killed at random: one gist per session, no lease beyond its time, no half step."""

from __future__ import annotations

import random
import time
from itertools import count

import pytest

from engram import Engram
from engram.config import load
from tests._talks import talk
from tests.conftest import ShiftedClock
from tests.stress._processes import Crew, Parent, Worker, scaled

DREAMERS = scaled(4, 8)
WORKSPACES = [f"workspace-{number}" for number in range(scaled(3, 6))]
KILLS = scaled(3, 20)
SESSIONS = scaled(3, 25)
#: The longest a dreamer lives once it dreams; most kills then hit the middle of a pass.
LIFE = 0.8
#: Seconds for which a dead dreamer's lease blocks others.
TTL = 300.0


def dream(parent: Parent, url: str) -> int:
    """Dream over all workspaces until told to end; how many gists were made."""
    made = 0
    with Engram(settings=load(url=url, embedder="none")) as eng:
        parent.tell("ready")
        while not parent.has_called():
            made += sum(len(report.gists) for report in eng.dream(force=True, all_workspaces=True))
    return made


@pytest.mark.requirement("DREAM-20")
def test_every_session_has_one_gist_after_dreamers_are_killed(store_url: str, crew: Crew) -> None:
    chance = random.Random(4)
    clock = ShiftedClock()
    with Engram(settings=load(url=store_url, embedder="none"), clock=clock) as eng:
        sessions = fill(eng)
        dreamers: list[Worker[int]] = [crew.start(dream, store_url) for _ in range(DREAMERS)]
        for each in dreamers:
            assert each.hear() == "ready"
        for number in range(KILLS):
            time.sleep(chance.uniform(0, LIFE))
            place = chance.randrange(DREAMERS)
            dreamers[place].kill()
            dreamers[place] = crew.start(dream, store_url)
            if number % 2:
                sessions |= fill(eng, 1, f"after kill {number}")
        for each in dreamers:
            each.call()
        for each in dreamers:
            each.result()
        expect_whole(eng)
        clock.advance(TTL + 1)
        for name in WORKSPACES:
            # What the dead held is free by now, and one more pass finishes what they began.
            assert all(each.errors == [] for each in eng.workspace(name).dream(force=True))
            assert eng.workspace(name).leases.list() == []
        expect_whole(eng)
        found = {(name, gist) for name in WORKSPACES for gist in gists(eng.workspace(name))}
    assert found == sessions


_TALKS = count()


def fill(eng: Engram, number: int = SESSIONS, about: str = "the task") -> set[tuple[str, str]]:
    return {
        (name, talk(eng.workspace(name), f"{about} {next(_TALKS)}", at=f"2026-0{1 + each % 3}-02T10:00:00Z"))
        for name in WORKSPACES
        for each in range(number)
    }


def gists(eng: Engram) -> list[str]:
    return [str(each.key) for each in eng.memories.list(kind="gist", limit=0)]


def expect_whole(eng: Engram) -> None:
    """Check that every step is complete: a session counts as summarised exactly if its gist exists."""
    for name in WORKSPACES:
        view = eng.workspace(name)
        made = gists(view)
        assert len(made) == len(set(made))
        by_month = [gist.session_id for month in view.memories.gists_by_month().values() for gist in month]
        assert sorted(by_month) == sorted(made)
        for session in made:
            assert view.memories.unsummarised(session) == []
        waiting = view.dreams.backlog()
        assert waiting.sessions == waiting.dirty + len(made)
        months = [era.key for era in view.memories.list(kind="era", limit=0)]
        assert len(months) == len(set(months))
        for block in ("profile", "narrative", "self"):
            if view.blocks.get(block):
                view.blocks.verify(block)
