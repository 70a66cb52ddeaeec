"""A reader follows the change feed while writers commit in a different order than they began."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest

from engram import Change, Engram
from tests.stress._processes import PATIENCE, Crew, Parent, Worker, scaled

WRITERS = 4
TRANSACTIONS = scaled(60, 1_000)
ALL = 1_000_000


class ChangedMind(Exception):
    """Raised to undo a transaction."""


def write_at_leisure(parent: Parent, url: str, session: str, seed: int) -> list[int]:
    """Transactions of any length, some of them undone; the ids of the exchanges that were acknowledged."""
    chance = random.Random(seed)
    acknowledged: list[int] = []
    with Engram(url) as eng:
        parent.tell("ready")
        parent.wait()
        for number in range(TRANSACTIONS):
            written = []
            undone = chance.random() < 0.1
            try:
                with eng.write():
                    for _ in range(chance.randint(1, 4)):
                        written.append(eng.sessions.log(session, str(number)).id)
                        if chance.random() < 0.5:
                            time.sleep(chance.uniform(0, 0.01))
                    if undone:
                        raise ChangedMind
            except ChangedMind:
                continue
            acknowledged += written
    return acknowledged


@pytest.mark.requirement("FEED-2", "FEED-1")
def test_a_reader_of_the_feed_misses_nothing_while_writers_commit_out_of_order(store_url: str, crew: Crew) -> None:
    with Engram(store_url) as eng:
        sessions = [eng.sessions.register("writer", "at leisure") for _ in range(WRITERS)]
        writers = [crew.start(write_at_leisure, store_url, session, seed) for seed, session in enumerate(sessions)]
        for writer in writers:
            writer.hear()
        for writer in writers:
            writer.call()
        seen = follow(eng, writers)
        acknowledged = [writer.result() for writer in writers]
        # The writers are done: what came in between the last look and their end.
        seen += eng.changes(after=seen[-1].number, limit=ALL)
        assert seen == eng.changes(limit=ALL)
    assert all(earlier.number < later.number for earlier, later in pairwise(seen))
    exchanges = [int(change.id) for change in seen if change.what == "exchange"]
    assert sorted(exchanges) == sorted(id for own in acknowledged for id in own)
    overtaken = sum(earlier > later for earlier, later in pairwise(exchanges))
    # Exchanges get their ids when they are written. SQLite's writers take turns; elsewhere they must have crossed.
    assert (overtaken > 0) == store_url.startswith("postgresql:")
    print(f"\n{len(seen)} changes followed, {len(exchanges)} exchanges, {overtaken} times a later writer came first")


def follow(eng: Engram, writers: list[Worker[list[int]]]) -> list[Change]:
    """Read on from the last number, a few changes at a time, until every writer has its result ready."""
    seen: list[Change] = []
    chance = random.Random(4)
    deadline = time.monotonic() + PATIENCE
    while not all(writer.has_news() for writer in writers):
        assert time.monotonic() < deadline, "the writers did not end"
        seen += eng.changes(after=seen[-1].number if seen else 0, limit=chance.choice((1, 7, 1_000)))
    return seen
