"""kill -9 at any moment: acknowledged writes are there, and each other write is there completely or not at all."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import apsw
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from engram import Engram
from engram.config import load
from engram.store_url import split_schema
from tests.stress._processes import Crew, Parent, Worker, scaled

KILLS = scaled(4, 30)
#: The longest life of a writer in seconds. It writes without a pause, so most kills hit the middle of a write.
LIFE = 0.3
#: About as long as making a store takes.
MAKING = 0.06
#: More writes than fit into that time. It ends a writer whose test was killed.
MOST = 20_000
#: A dead writer's locks are freed at once, so no other writer waits this long.
AT_ONCE = 5.0


class Location(NamedTuple):
    """Where one writer writes to."""

    session: str
    block: str


def keep_writing(parent: Parent, url: str, place: Location) -> list[str]:
    """Write until killed, or told to end; every mark is told right after its call returned."""
    acknowledged = []
    with Engram(url) as eng:
        for number in range(MOST):
            mark = f"{('log', 'edit', 'both')[number % 3]}.{number}"
            write(eng, place, mark)
            parent.tell(mark)
            acknowledged.append(mark)
            if parent.has_called():
                break
    return acknowledged


def write(eng: Engram, place: Location, mark: str) -> None:
    """A log entry, an edit, or one of each in one transaction."""
    with eng.write():
        if not mark.startswith("edit"):
            eng.sessions.log(place.session, mark)
        if not mark.startswith("log"):
            eng.blocks.append(place.block, f"{mark}\n")


@pytest.mark.requirement("STRESS-2", "STORE-13", "BLOCK-11")
def test_every_acknowledged_write_survives_a_kill_of_its_writer(store_url: str, crew: Crew) -> None:
    chance = random.Random(2)
    survived = 0
    for kill in range(KILLS):
        with Engram(store_url) as eng:
            victims, others = place(eng, f"victim-{kill}"), place(eng, f"other-{kill}")
        victim = crew.start(keep_writing, store_url, victims)
        # Every second time somebody else goes on writing meanwhile; otherwise the next to open finds what was left.
        other = crew.start(keep_writing, store_url, others) if kill % 2 else None
        acknowledged = kill_after(victim, chance.uniform(0, LIFE))
        with Engram(settings=load(url=store_url, busy_timeout=AT_ONCE)) as eng:
            # Before anything is read: a commit that a dead client had sent to a server may still be under way.
            for mark in ("log.after", "edit.after", "both.after"):
                write(eng, victims, mark)
                acknowledged.append(mark)
            check_survived(eng, victims, acknowledged, in_flight=1)
            if other:
                other.call()
                check_survived(eng, others, other.result(), in_flight=0)
        check_sound(store_url)
        survived += len(acknowledged)
    print(f"\n{KILLS} kills, {survived} acknowledged writes, all there")


def make_store(parent: Parent, url: str) -> None:
    import_module("engram.storage.postgres")  # takes longer than making a store, and it is the making that shall be hit
    parent.tell("about to")
    with Engram(url):
        parent.tell("made")
        parent.wait()


@pytest.mark.requirement("STRESS-2", "MIGRATE-4")
def test_a_store_opens_after_a_kill_during_its_creation(tmp_path: Path, store_url: str, crew: Crew) -> None:
    chance = random.Random(3)
    finished = 0
    for kill in range(KILLS):
        url = nowhere(store_url, tmp_path / str(kill))
        maker = crew.start(make_store, url)
        maker.hear()
        time.sleep(chance.uniform(0, MAKING))
        maker.kill()
        finished += len(maker.last_words())
        with Engram(settings=load(url=url, busy_timeout=AT_ONCE)) as eng:
            here = place(eng, f"first-{kill}")
            write(eng, here, "both.first")
            check_survived(eng, here, ["both.first"], in_flight=0)
        check_sound(url)
    print(f"\n{KILLS} kills of makers, {finished} of them had just finished")


def nowhere(url: str, folder: Path) -> str:
    """The URL of a store that does not exist: another file, or the same schema, dropped."""
    if not url.startswith("postgresql:"):
        return str(folder / "engram.db")
    server, schema = split_schema(url)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))
    return url


def place(eng: Engram, name: str) -> Location:
    eng.blocks.create(name)
    return Location(eng.sessions.register("writer", name), name)


def kill_after(worker: Worker[list[str]], seconds: float) -> list[str]:
    """Kill it that long after its first write; the marks it had told by then."""
    told = [worker.hear()]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and worker.has_news(within=max(0.0, deadline - time.monotonic())):
        told.append(worker.hear())
    worker.kill()
    told += worker.last_words()
    return [str(mark) for mark in told]


def check_survived(eng: Engram, place: Location, acknowledged: list[str], in_flight: int) -> None:
    block = eng.blocks.get(place.block)
    assert block is not None
    edits = block.content.splitlines()
    logs = [entry.content for entry in eng.sessions.logs(place.session, limit=0)][::-1]
    check_marks(logs, acknowledged, ("log", "both"), in_flight)
    check_marks(edits, acknowledged, ("edit", "both"), in_flight)
    # A transaction that was under way is there with all its parts, or not at all.
    assert only(logs, "both") == only(edits, "both")
    assert eng.blocks.verify(place.block) == block.version == 1 + len(edits)


def check_marks(found: list[str], acknowledged: list[str], kinds: tuple[str, ...], in_flight: int) -> None:
    """All that was acknowledged, in order, and at most what was being written in the moment of death."""
    known = set(acknowledged)
    assert [mark for mark in found if mark in known] == only(acknowledged, *kinds)
    assert len([mark for mark in found if mark not in known]) <= in_flight


def only(marks: Iterable[str], *kinds: str) -> list[str]:
    return [mark for mark in marks if mark.startswith(kinds)]


def check_sound(url: str) -> None:
    if url.startswith("postgresql:"):
        return
    connection = apsw.Connection(url)
    try:
        assert connection.pragma("integrity_check") == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        connection.close()
