"""kill -9 during a reindex while other processes write: the next run completes it."""

from __future__ import annotations

import itertools
import random
import time
from typing import LiteralString

import pytest

from engram import Engram
from engram.config import load
from engram.memory.embedding_queue import STEP
from tests.stress._processes import Crew, Parent, scaled
from tests.stress.test_kill import check_sound

TURNS = scaled(500, 20_000)
KILLS = scaled(2, 15)
#: The longest a run lives after its first step.
LIFE = scaled(0.3, 2.0)


def keep_reindexing(parent: Parent, url: str) -> int:
    with Engram(settings=load(url=url, embedder="static")) as eng:
        return eng.reindex(progress=lambda done, total: parent.tell(done))


def keep_writing(parent: Parent, url: str, name: str) -> int:
    """Turns and edits of memories until told to end; the number of rounds."""
    with Engram(settings=load(url=url, embedder="none")) as eng:
        eng.sessions.ensure(name)
        memory = eng.remember(f"{name} begins")
        for number in itertools.count(1):
            eng.exchanges.add(name, "user", f"{name} says {number}")
            eng.memories.update(memory.id, f"{name} is at {number}")
            eng.memories.archive(eng.remember(f"{name} noted {number}").id)
            if parent.has_called():
                return number
    raise AssertionError("unreachable")


def count(eng: Engram, sql: LiteralString) -> int:
    with eng._view.engine.read() as tx:
        found: int = tx.all(sql)[0][0]
    return found


@pytest.mark.requirement("REINDEX-2", "REINDEX-3")
def test_the_next_run_completes_a_killed_run(store_url: str, crew: Crew) -> None:
    chance = random.Random(5)
    with Engram(settings=load(url=store_url, embedder="static")) as eng:
        eng.sessions.ensure("s")
        eng.exchanges.add_many({"session_id": "s", "role": "user", "content": f"turn {n}"} for n in range(TURNS))
        with eng._view.engine.write() as tx:
            tx.run("UPDATE vectors SET model = 'older:model'")
            tx.run("UPDATE models SET model = 'older:model'")
        run = crew.start(keep_reindexing, store_url)
        # A run begins anywhere, so its first step may meet the end of what there is.
        assert (run.hear(), run.hear() in range(1, STEP + 1)) == (0, True)
        run.kill()
        run.last_words()
        assert count(eng, "SELECT COUNT(*) FROM models WHERE model = 'older:model' AND next IS NOT NULL") == 1
        assert count(eng, "SELECT COUNT(*) FROM vectors WHERE model = 'older:model'") == TURNS
        writer = crew.start(keep_writing, store_url, "writer")
        for _ in range(KILLS):
            run = crew.start(keep_reindexing, store_url)
            # What the one before had made is not made again.
            assert run.hear() != 0
            time.sleep(chance.uniform(0, LIFE))
            run.kill()
        last = crew.start(keep_reindexing, store_url)
        last.result()
        writer.call()
        assert writer.result() > 0
        eng.backlog.work()
        assert count(eng, "SELECT COUNT(*) FROM vectors WHERE model = 'older:model'") == 0
        assert count(eng, "SELECT COUNT(*) FROM vectors") == count(eng, "SELECT COUNT(*) FROM items") > TURNS
        assert eng.recall("turn 7", 1, mode="vectors")
    check_sound(store_url)


@pytest.mark.requirement("REINDEX-4")
def test_two_processes_share_a_run_while_a_third_writes(store_url: str, crew: Crew) -> None:
    with Engram(settings=load(url=store_url, embedder="static")) as eng:
        eng.sessions.ensure("s")
        eng.exchanges.add_many({"session_id": "s", "role": "user", "content": f"turn {n}"} for n in range(TURNS))
        with eng._view.engine.write() as tx:
            tx.run("UPDATE vectors SET model = 'older:model'")
            tx.run("UPDATE models SET model = 'older:model'")
        writer = crew.start(keep_writing, store_url, "writer")
        runs = [crew.start(keep_reindexing, store_url) for _ in range(2)]
        made = [run.result() for run in runs]
        writer.call()
        assert writer.result() > 0
        eng.backlog.work()
        assert sum(made) >= TURNS
        assert count(eng, "SELECT COUNT(*) FROM vectors") == count(eng, "SELECT COUNT(*) FROM items")
        assert count(eng, "SELECT COUNT(*) FROM models WHERE next IS NOT NULL") == 0
    check_sound(store_url)
