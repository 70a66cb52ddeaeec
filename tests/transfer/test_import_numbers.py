"""The numbers and the vectors of an import: they cannot collide, and they leave a store that works."""

from __future__ import annotations

import io
import json
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, ExportDamaged
from engram.dreaming import plans
from engram.dreaming.plans import Plan
from engram.storage import rows
from engram.transfer import column_values, jsonl
from tests._tables import dump
from tests._waiting import until
from tests.transfer._comparing import exported, opened

Record = dict[str, Any]
#: What a program writes in place of a record; None leaves the record as it is.
Change = Callable[[Record], Record | None]

#: How many connections wait for this one.
_WAITING = "SELECT COUNT(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"


def rewritten(source: Path, target: Path, change: Change) -> Path:
    """The file with other records. Its hashes are right, as those of a file that a program wrote."""
    lines: Iterable[Record] = map(json.loads, source.read_text(encoding="utf-8").splitlines())
    out = io.BytesIO()
    writer = jsonl.Writer(out)
    for line in lines:
        kind = line.pop("record")
        if kind == "header":
            line.pop("format")
            writer.header(jsonl.Header(**line))
        elif kind == "end":
            writer.end(line["of"])
        elif kind == "footer":
            writer.footer()
        else:
            changed = change({"record": kind, **line})
            writer.record(kind, line if changed is None else {**line, **changed})
    target.write_bytes(out.getvalue())
    return target


def with_last(number: object) -> Change:
    return lambda line: {"last": number} if line.get("of") == "memories" else None


def with_source(number: object) -> Change:
    return lambda line: {"source_id": number} if line["record"] == "source" else None


def with_id(number: object) -> Change:
    return lambda line: {"id": number} if line["record"] == "memory" else None


@pytest.mark.requirement("MOVE-9")
@pytest.mark.parametrize("taken", [False, True])
def test_numbers_that_would_make_a_store_unwritable_are_refused(
    eng: Engram, empty: str, tmp_path: Path, taken: bool
) -> None:
    lift = eng.remember("The lift is broken.")
    eng.remember("The lift needs mending.", sources=[("memory", lift.id)])
    eng.export(tmp_path / "a.jsonl")
    largest, far = column_values.NUMBERS_END - 1, 2**63 - 1
    wrong = [*map(with_last, (far, largest + 1, -1, True, 1.5, None)), *map(with_id, (far, 3, 0, -1))]
    # A reference to something that is gone is no mistake, but no table has given this number.
    wrong += map(with_source, (far, largest, 3))
    wrong += [with_last(largest)] if taken else []
    with opened(empty) as other:
        if taken:
            other.workspace("kept").remember("This was here.", embed=False)
        before = dump(empty)
        for number, change in enumerate(wrong):
            with pytest.raises(ExportDamaged):
                other.load_export(rewritten(tmp_path / "a.jsonl", tmp_path / "b.jsonl", change))
            assert dump(empty) == before, number
        other.load_export(tmp_path / "a.jsonl")
        assert other.remember("The door is open.").id > 1


@pytest.mark.requirement("MOVE-2")
def test_a_store_can_be_written_and_exported_after_an_import_with_the_largest_numbers(
    eng: Engram, empty: str, tmp_path: Path
) -> None:
    eng.remember("The lift is broken.")
    eng.export(tmp_path / "a.jsonl")
    largest = column_values.NUMBERS_END - 1
    with opened(empty) as other:
        other.load_export(rewritten(tmp_path / "a.jsonl", tmp_path / "b.jsonl", with_last(largest)))
        assert {each.name: each.state for each in other.doctor()}["store.numbers"] == "ok"
        assert other.remember("The door is open.").id == largest + 1
        # A store that has passed the limit of a file is told so before it is needed as a file.
        assert {each.name: each.state for each in other.doctor()}["store.numbers"] == "wrong"
        assert other.recall("door", mode="words")[0].text == "The door is open."
        assert any(f'"id":{largest + 1},' in line for line in exported(other, tmp_path / "c.jsonl"))


@pytest.mark.requirement("MOVE-4")
@pytest.mark.parametrize("taken", [1, 2, 3])
def test_proposals_about_neighbouring_memories_are_imported_beside_a_few_memories(
    eng: Engram, empty: str, tmp_path: Path, taken: int
) -> None:
    """With other numbers, one proposal gets the hash that another one had before."""
    made = [eng.remember(f"Tea number {number} is hot.") for number in range(6)]
    eng.dream(force=True)
    changes = [plans.merge([one, other], 0.9, 1.0) for one, other in pairwise(made)]
    with eng._view.engine.write() as tx:
        for change in changes:
            assert eng.proposals.add(tx, change, 1)
    first, *rest = eng.proposals.list(None)
    eng.proposals.reject(first.id)
    for each in rest:
        eng.proposals.edit(each.id, "Tea is hot.")
    eng.export(tmp_path / "a.jsonl")
    with opened(empty) as other:
        kept = other.workspace("kept")
        for number in range(taken):
            kept.remember(f"This was here: {number}.", embed=False)
        assert other.load_export(tmp_path / "a.jsonl").renumbered
        assert [each.state for each in other.proposals.list(None)] == ["rejected"] + ["edited"] * 4
        # Each one is known, so it is not proposed again.
        memories = [other.memories.get(each.id + taken) for each in made]
        with other._view.engine.write() as tx:
            for one, two in pairwise(memories):
                assert not other.proposals.add(tx, plans.merge([one, two], 0.9, 1.0), 1)


@pytest.mark.requirement("MOVE-4")
def test_an_edited_proposal_does_not_stand_for_another_plan_after_an_import(
    eng: Engram, empty: str, tmp_path: Path
) -> None:
    """The text that its hash is about is gone."""
    made = [eng.remember(f"Tea number {number} is hot.").id for number in range(3)]
    eng.dream(force=True)
    data = {"kind": "fact", "importance": 0.5}
    wishes = [Plan("remember", "", 0.9, "Tea is always hot.", (), (("memory", id),), data) for id in (*made, 4)]
    with eng._view.engine.write() as tx:
        for wish in wishes[:3]:
            assert eng.proposals.add(tx, wish, 1)
    one, two, three = eng.proposals.list(None)
    for each in (two, three):
        eng.proposals.edit(each.id, "Tea is hot.")
    eng.export(tmp_path / "a.jsonl")
    with opened(empty) as other:
        other.workspace("kept").remember("This was here.")
        assert other.load_export(tmp_path / "a.jsonl").renumbered
        with other._view.engine.read() as tx:
            found = [other.proposals.find(tx, wish) for wish in wishes]
        assert found == [None, (one.id, "pending"), None, None]


@pytest.mark.requirement("MOVE-9")
def test_vectors_of_different_lengths_are_refused(eng: Engram, empty: str, tmp_path: Path) -> None:
    for text in ("The lift is broken.", "The door is open.", "Tea is hot."):
        eng.remember(text)
    eng.embedding_queue.work()
    eng.export(tmp_path / "a.jsonl", vectors=True)
    short, nothing = b64encode(b"abc").decode(), ""

    def one(line: Record) -> Record | None:
        return {"vector": short} if line["record"] == "vector" and line["ref"] == 2 else None

    def all_to(value: str) -> Change:
        return lambda line: {"vector": value} if line["record"] == "vector" else None

    with opened(empty) as other:
        other.workspace("kept").remember("This was here.")
        other.workspace("kept").embedding_queue.work()
        before = dump(empty)
        for change in (one, all_to(short), all_to(nothing)):
            with pytest.raises(ExportDamaged, match="another length"):
                other.load_export(rewritten(tmp_path / "a.jsonl", tmp_path / "b.jsonl", change))
            assert dump(empty) == before
        other.load_export(tmp_path / "a.jsonl")
        assert other.recall("hot tea")[0].text == "Tea is hot."


@pytest.mark.requirement("MOVE-2")
def test_recall_works_after_an_import_of_vectors_that_all_have_a_wrong_length(
    eng: Engram, empty: str, tmp_path: Path
) -> None:
    session = eng.sessions.register("codex", "talk")
    for text in ("The lift is broken.", "The door is open.", "Tea is hot."):
        eng.remember(text)
        eng.exchanges.add(session, "user", f"I say: {text}")
    eng.embedding_queue.work()
    eng.export(tmp_path / "a.jsonl", vectors=True)
    wrong = b64encode(b"abc").decode()
    change: Change = lambda line: {"vector": wrong} if line["record"] == "vector" else None  # noqa: E731
    with opened(empty, dream_min_age=0) as other:
        other.load_export(rewritten(tmp_path / "a.jsonl", tmp_path / "b.jsonl", change))
        for _ in range(2):
            for mode in ("hybrid", "vectors", "words"):
                found = [hit.text for hit in other.recall("hot tea", mode=mode)]
                assert mode == "vectors" or "Tea is hot." in found, mode
            # From now on there are vectors of both lengths.
            other.exchanges.add(session, "user", "Coffee is hot.")
            other.remember("Coffee was hot.")
            other.embedding_queue.work()
        assert [each.errors for each in other.dream(force=True)] == [[]]
        assert "Coffee is hot." in [hit.text for hit in other.recall("hot coffee", mode="vectors")]
        with opened(empty) as again:
            assert "Coffee is hot." in [hit.text for hit in again.recall("hot coffee", mode="vectors")]


@pytest.mark.requirement("MOVE-4")
def test_a_writer_beside_an_import_gets_other_numbers_on_postgres(
    rich: Engram, empty_store: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has one writer at a time."""
    target = empty_store("postgres")
    before = exported(rich, tmp_path / "a.jsonl")
    monkeypatch.setattr(rows, "PAGE", 1)
    written: list[int] = []
    with opened(target) as importer, opened(target) as writer:

        def write(done: int, total: int) -> None:
            if len(written) < 3:
                written.append(writer.workspace("elsewhere").remember(f"Number {len(written)}", embed=False).id)

        assert not importer.load_export(tmp_path / "a.jsonl", progress=write).renumbered
        assert len(written) == 3 and len(importer.workspace("elsewhere").memories.list()) == 3
        for name in ("default", "team"):
            importer.workspace(name).export(tmp_path / f"{name}.jsonl")
        kept = [json.loads(line) for line in before if line.startswith('{"record":"memory",')]
        assert not {each["id"] for each in kept} & set(written)
        assert {each["id"] for each in kept} == {
            json.loads(line)["id"]
            for name in ("default", "team")
            for line in (tmp_path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
            if line.startswith('{"record":"memory",')
        }


@pytest.mark.requirement("MOVE-4")
def test_an_import_waits_for_the_first_rows_of_another_writer_on_postgres(
    rich: Engram, empty_store: Callable[[str], str], tmp_path: Path
) -> None:
    target = empty_store("postgres")
    rich.export(tmp_path / "a.jsonl")
    renumbered: list[bool] = []
    with opened(target) as importer, opened(target) as writer:
        elsewhere = writer.workspace("elsewhere")

        def load() -> None:
            renumbered.append(importer.load_export(tmp_path / "a.jsonl").renumbered)

        thread = threading.Thread(target=load)
        with elsewhere.write():
            elsewhere.remember("The first one.", embed=False)
            with elsewhere._view.engine.write() as tx:
                thread.start()
                until(lambda: renumbered or tx.value(_WAITING))
        thread.join()
        assert renumbered == [True]
        assert [each.content for each in elsewhere.memories.list()] == ["The first one."]
