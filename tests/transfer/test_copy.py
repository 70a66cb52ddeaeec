"""A whole store is copied into another one, on any engine, and a copy that was interrupted goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, InvalidInput, NotFound, StoreBusy, StoreDamaged, StoreNotEmpty
from engram.config import load
from engram.errors import NotRemote
from engram.maintenance import copy, doctor, encrypt
from engram.setup_records import Copied
from engram.storage import rows
from engram.transfer import copying
from tests._logical import logical
from tests._rich import fill
from tests._tables import columns, dump, run, values
from tests._talks import talk
from tests.transfer._comparing import exported, opened

Make = Callable[[str], str]


def copied(source: str, target: str, **options: Any) -> Copied:
    return copy(load(url=source), load(url=target), **options)


def rows_by_name(url: str) -> dict[str, list[str]]:
    """Every row with its columns in the order of their names, which is the same on both engines."""
    import apsw

    found: dict[str, list[str]] = {}
    for table, kinds in columns(url).items():
        if table in ("migrations", "closeness"):
            continue
        names = ", ".join(f'"{name}"' for name in sorted(kinds))
        if url.startswith("postgresql:"):
            import psycopg

            from engram.store_url import split_schema

            address, schema = split_schema(url)
            with psycopg.connect(address) as server:
                listed = server.execute(f"SELECT {names} FROM {schema}.{table}".encode()).fetchall()
        else:
            file = apsw.Connection(url)
            listed = file.execute(f"SELECT {names} FROM {table}").fetchall()
            file.close()
        found[table] = sorted(repr([bytes(v) if isinstance(v, memoryview) else v for v in row]) for row in listed)
    return found


@pytest.mark.requirement("MOVE-10")
def test_a_store_goes_to_the_other_engine_and_back_without_a_change(
    rich: Engram, store_url: str, empty_store: Make, tmp_path: Path
) -> None:
    rich.access.tokens.create("laptop", "admin")
    there = empty_store("sqlite" if store_url.startswith("postgresql:") else "postgres")
    back = empty_store("postgres" if store_url.startswith("postgresql:") else "sqlite")
    done = copied(store_url, there)
    assert done.resumed == 0 and done.tables["memories"] > 5 and done.tables["access_tokens"] == 1
    copied(there, back)
    one, two, three = map(rows_by_name, (store_url, there, back))
    assert {table for table in one if one[table] != two[table]} == set()
    assert {table for table in one if one[table] != three[table]} == set()
    with opened(there) as other, opened(back) as third:
        assert exported(other, tmp_path / "b.jsonl") == exported(rich, tmp_path / "a.jsonl")
        assert exported(third, tmp_path / "c.jsonl") == exported(rich, tmp_path / "a.jsonl")
        assert logical(other) == logical(rich)
        question = "what is broken in the lift"
        assert [hit.text for hit in other.recall(question, k=10)] == [hit.text for hit in rich.recall(question, k=10)]
        newest = max(each.id for each in rich.memories.list(limit=0))
        assert other.remember("A new one on the other engine.").id > newest
        assert third.exchanges.add(talk(third, "more"), "user", "Hello.") > 0


@pytest.mark.requirement("MOVE-5")
def test_passes_are_undone_and_things_forgotten_in_a_copy(eng: Engram, store_url: str, empty_store: Make) -> None:
    talk(eng, "the router")
    kept = eng.remember("The lift is broken.")
    derived = eng.remember("The lift needs mending.", sources=[("memory", kept.id)])
    eng.dream(force=True)
    there = empty_store("sqlite" if store_url.startswith("postgresql:") else "postgres")
    copied(store_url, there)
    with opened(there) as other:
        assert other.dreams.undo()._replace(session_id="", started_at="", ended_at="") == eng.dreams.undo()._replace(
            session_id="", started_at="", ended_at=""
        )
        receipt = other.forget(memory=kept.id)
        assert set(receipt.ids["memories"]) >= {kept.id, derived.id}


@pytest.mark.requirement("MOVE-11")
def test_a_target_with_content_is_refused(rich: Engram, store_url: str, empty: str) -> None:
    with opened(empty) as other:
        other.remember("This was here.")
    before = dump(empty)
    with pytest.raises(StoreNotEmpty):
        copied(store_url, empty)
    assert dump(empty) == before
    with pytest.raises(InvalidInput, match="itself"):
        copied(store_url, store_url)


@pytest.mark.requirement("MOVE-11")
def test_an_empty_store_that_is_there_already_is_filled(rich: Engram, store_url: str, empty: str) -> None:
    with opened(empty) as waiting:
        assert waiting.memories.list() == []
        copied(store_url, empty)
        assert [each.content for each in waiting.memories.list(limit=0)] == [
            each.content for each in rich.memories.list(limit=0)
        ]


@pytest.mark.requirement("MOVE-10")
def test_a_server_and_a_missing_store_are_refused(sqlite_url: str, tmp_path: Path) -> None:
    for source, target in (("https://example.org", str(tmp_path / "a.db")), (sqlite_url, "https://example.org")):
        with pytest.raises(NotRemote, match="server's machine"):
            copied(source, target)
    with pytest.raises(NotFound):
        copied(str(tmp_path / "missing.db"), str(tmp_path / "a.db"))
    assert not (tmp_path / "a.db").exists()


class Stopped(Exception):
    """The test ends a copy here."""


def stop_at(row: int) -> Callable[[int, int], None]:
    def stop(done: int, total: int) -> None:
        if done >= row:
            raise Stopped

    return stop


@pytest.mark.requirement("MOVE-11")
def test_an_interrupted_copy_goes_on_from_every_moment(
    rich: Engram, store_url: str, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_PORTION", 1)
    monkeypatch.setattr(rows, "PAGE", 1)
    resumed = []
    for moment in (1, 30, 90, 200, 400, 700):
        with pytest.raises(Stopped):
            copied(store_url, empty, progress=stop_at(moment))
        resumed.append(moment)
    if not empty.startswith("postgresql:"):
        assert not os.path.exists(empty) and os.path.exists(f"{empty}.copying")
    monkeypatch.undo()
    done = copied(store_url, empty)
    assert 0 < done.resumed < sum(done.tables.values())
    assert rows_by_name(empty) == rows_by_name(store_url)


@pytest.mark.requirement("MOVE-11")
def test_a_copy_that_is_complete_is_said_to_be_until_one_of_the_stores_changes(
    rich: Engram, store_url: str, empty: str
) -> None:
    first = copied(store_url, empty)
    if not empty.startswith("postgresql:"):
        # A copy that was killed after its file had got its name.
        os.link(empty, f"{empty}.copying")
    assert copied(store_url, empty) == first._replace(resumed=sum(first.tables.values()))
    assert not os.path.exists(f"{empty}.copying")
    memory = rich.remember("This is new.", embed=False)
    with pytest.raises(StoreNotEmpty):
        copied(store_url, empty)
    with opened(empty) as other:
        assert memory.id not in [each.id for each in other.memories.list(limit=0)]


@pytest.mark.requirement("MOVE-11")
def test_of_two_copies_into_one_store_only_one_goes_on(
    rich: Engram, store_url: str, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite it is the first, on PostgreSQL the last, which takes over."""
    monkeypatch.setattr(copying, "_PORTION", 5)
    results: list[Copied | StoreBusy] = []

    def again(done: int, total: int) -> None:
        if done > 50 and not results:
            try:
                results.append(copied(store_url, empty))
            except StoreBusy as error:
                results.append(error)

    if empty.startswith("postgresql:"):
        with pytest.raises(StoreBusy, match="Another copy into the same store"):
            copied(store_url, empty, progress=again)
        assert isinstance(results[0], Copied) and results[0].resumed >= 50
    else:
        assert copied(store_url, empty, progress=again).resumed == 0
        assert "Another copy into" in str(results[0])
        assert sorted(os.listdir(Path(empty).parent)) == ["engram.db"]
    assert rows_by_name(empty) == rows_by_name(store_url)


@pytest.mark.requirement("MOVE-11")
def test_a_link_to_nothing_and_a_draft_that_is_a_link_are_refused_first(sqlite_url: str, tmp_path: Path) -> None:
    with opened(sqlite_url) as eng:
        eng.remember("The lift is broken.")
    (tmp_path / "dangling.db").symlink_to(tmp_path / "missing.db")
    victim = tmp_path / "victim"
    victim.write_text("v")
    (tmp_path / "t.db.copying").symlink_to(victim)
    before = sorted(os.listdir(tmp_path))
    for target in ("dangling.db", "t.db"):
        with pytest.raises(InvalidInput, match="symbolic link"):
            copied(sqlite_url, str(tmp_path / target))
        assert sorted(os.listdir(tmp_path)) == before and victim.read_text() == "v"


@pytest.mark.requirement("MOVE-11")
def test_a_source_that_changed_meanwhile_is_copied_as_it_is_now(
    rich: Engram, store_url: str, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_PORTION", 5)
    with pytest.raises(Stopped):
        copied(store_url, empty, progress=stop_at(300))
    first, second = rich.sessions.list(0)[:2]
    rich.sessions.log(first.id, "something new")
    memory = rich.remember("This is new.", key="new")
    rich.memories.supersede(memory.id, rich.remember("This is newer.", key="newer").id)
    rich.sessions.delete(second.id)
    copied(store_url, empty)
    assert rows_by_name(empty) == rows_by_name(store_url)


@pytest.mark.requirement("MOVE-11")
def test_an_unfinished_copy_of_another_store_is_refused_on_postgres(
    rich: Engram, store_url: str, empty_store: Make, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target, other = empty_store("postgres"), str(tmp_path / "third" / "engram.db")
    with opened(other) as third:
        third.remember("Another store.")
    monkeypatch.setattr(copying, "_PORTION", 5)
    with pytest.raises(Stopped):
        copied(store_url, target, progress=stop_at(100))
    with pytest.raises(StoreNotEmpty, match="unfinished copy"):
        copied(other, target)
    copied(store_url, target)


@pytest.mark.requirement("MOVE-10")
def test_a_copy_that_somebody_writes_to_is_not_accepted(
    rich: Engram, store_url: str, empty_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = empty_store("postgres")
    verify = copying._Copy._verify

    def meddle(self: Any) -> None:
        run(target, "UPDATE memories SET content = 'another text' WHERE id = 2")
        verify(self)

    monkeypatch.setattr(copying._Copy, "_verify", meddle)
    with pytest.raises(StoreDamaged, match="memories"):
        copied(store_url, target)
    monkeypatch.undo()
    copied(store_url, target)
    assert "another text" not in values(target, "memories", "content")


_PROGRAM = """
import sys, time
from engram.maintenance import copy, doctor, encrypt
from engram.config import load
from engram.transfer import copying

copying._PORTION = copying.rows.PAGE = 20

def tell(done, total):
    print(done, flush=True)
    time.sleep(0.01)

copy(load(url=sys.argv[1]), load(url=sys.argv[2]), progress=tell)
"""


@pytest.mark.requirement("MOVE-11")
def test_a_killed_copy_goes_on(rich: Engram, store_url: str, empty: str) -> None:
    for wanted in (3, 12):
        program = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, store_url, empty], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        assert program.stdout is not None
        for _ in range(wanted):
            assert program.stdout.readline().strip().isdecimal()
        program.send_signal(signal.SIGKILL)
        program.wait()
        program.stdout.close()
    done = copied(store_url, empty)
    assert done.resumed > 0
    assert rows_by_name(empty) == rows_by_name(store_url)


@pytest.mark.requirement("MOVE-11", "DOCTOR-2")
def test_the_doctor_finds_the_second_name_that_a_copy_left_when_it_was_killed_at_its_end(
    sqlite_url: str, tmp_path: Path
) -> None:
    target = tmp_path / "engram.db"
    with opened(sqlite_url) as eng:
        eng.remember("A secret plan.")
    copied(sqlite_url, str(target))
    os.link(target, f"{target}.copying")
    assert leftovers(target) == "note"
    doctor(load(url=str(target)), fix=True)
    assert leftovers(target) == "ok" and not os.path.exists(f"{target}.copying")
    with opened(str(target)) as other:
        assert [each.content for each in other.memories.list()] == ["A secret plan."]
    # That of a copy that is going on, into a store that was empty.
    shutil.copy(target, f"{target}.copying")
    assert leftovers(target) == "ok"
    os.utime(f"{target}.copying", (0, 0))
    assert leftovers(target) == "note"


def leftovers(store: Path) -> str:
    (found,) = [each.state for each in doctor(load(url=str(store))) if each.name == "store.leftovers"]
    return found


@pytest.mark.requirement("MOVE-11", "ENCRYPT-1")
def test_encrypting_a_store_leaves_no_plain_second_name(sqlite_url: str, tmp_path: Path) -> None:
    target = tmp_path / "engram.db"
    with opened(sqlite_url) as eng:
        eng.remember("A secret plan.")
    copied(sqlite_url, str(target))
    os.link(target, f"{target}.copying")
    assert f"{target}.copying" in encrypt(load(url=str(target))).removed
    assert not [file for file in tmp_path.iterdir() if file.is_file() and b"A secret plan." in file.read_bytes()]


@pytest.mark.requirement("MOVE-6")
def test_a_copy_while_others_write_shows_one_moment(eng: Engram, store_url: str, empty_store: Make) -> None:
    fill(eng, store_url)
    ready, stop = threading.Barrier(5), threading.Event()

    def write(number: int) -> None:
        with opened(store_url, embedder="none") as mine:
            session = mine.sessions.register("codex", f"writer {number}")
            ready.wait()
            for step in range(10_000):
                with mine.write():
                    id = mine.exchanges.add(session, "user", f"step {step} of writer {number}", embed=False)
                    mine.remember(f"fact {step} of {number}", kind="step", sources=[("exchange", id)], embed=False)
                if stop.is_set():
                    return

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    target = empty_store("postgres" if store_url.startswith("postgresql:") else "sqlite")
    try:
        ready.wait()
        copied(store_url, target)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with opened(target) as other:
        facts = other.memories.list(kind="step", limit=0)
        assert facts
        for fact in facts:
            ((kind, id),) = other.memories.sources(fact.id)
            assert kind == "exchange" and other.exchanges.get(id).content
