"""What is exported can be imported again, and then nothing is missing and nothing has changed."""

from __future__ import annotations

import io
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram import Engram, ExportDamaged, FileExists, InvalidInput, NotFound, NotOfFormat, WorkspaceNotEmpty
from engram.config import load
from engram.transfer import exporting
from engram.transfer.tables import EXPORTED
from tests._logical import logical
from tests._tables import dump, run
from tests._talks import talk
from tests.security import _hostile
from tests.transfer._comparing import body, content, exported, opened, records

STATUSES = ("active", "superseded", "archived")


@pytest.mark.requirement("MOVE-2")
def test_the_store_of_these_tests_has_rows_in_every_table_that_is_exported(rich: Engram, tmp_path: Path) -> None:
    counts = rich.export(tmp_path / "a.jsonl", all_workspaces=True).counts
    assert [record for record, count in counts.items() if not count] == []
    assert counts.keys() == {moved.record for moved in EXPORTED}


@pytest.mark.requirement("MOVE-2")
@pytest.mark.parametrize("vectors", [False, True])
def test_an_import_into_an_empty_store_gives_an_equal_store(
    rich: Engram, empty: str, tmp_path: Path, vectors: bool
) -> None:
    before = exported(rich, tmp_path / "a.jsonl", vectors=vectors)
    with opened(empty) as other:
        done = other.load_export(tmp_path / "a.jsonl")
        assert (done.workspaces, done.renumbered, done.notes) == (("default", "team"), False, ())
        assert exported(other, tmp_path / "b.jsonl", vectors=vectors) == before
        assert [each.name for each in other.workspaces()] == ["default", "team"]


@pytest.mark.requirement("MOVE-2")
def test_an_imported_store_has_the_same_words_vectors_and_answers(rich: Engram, empty: str, tmp_path: Path) -> None:
    while rich.embedding_queue.work():
        pass
    question = "what is broken in the lift"
    hits = [(hit.memory_id, hit.exchange_id, hit.text, hit.score) for hit in rich.recall(question, k=20)]
    before = logical(rich)
    assert hits and before["vectors"]
    rich.export(tmp_path / "a.jsonl")
    with opened(empty) as other:
        other.load_export(tmp_path / "a.jsonl")
        assert other.embedding_queue.size() == len({row[:2] for row in before["vectors"]})
        other.embedding_queue.work()
        after = logical(other)
        assert {table for table in before if before[table] != after[table]} == set()
        found = [(hit.memory_id, hit.exchange_id, hit.text, hit.score) for hit in other.recall(question, k=20)]
        assert found == hits


@pytest.mark.requirement("MOVE-2")
def test_exported_vectors_are_used_and_nothing_is_queued(rich: Engram, empty: str, tmp_path: Path) -> None:
    rich.embedding_queue.work()
    rich.export(tmp_path / "a.jsonl", vectors=True)
    with opened(empty) as other:
        done = other.load_export(tmp_path / "a.jsonl")
        assert done.counts["vector"] > 0 and other.embedding_queue.size() == 0
        assert logical(other)["vectors"] == logical(rich)["vectors"]


@pytest.mark.requirement("MOVE-2")
def test_no_number_is_used_twice_after_an_import(rich: Engram, empty: str, tmp_path: Path) -> None:
    gone = rich.remember("This goes again.")
    rich.forget(memory=gone.id)
    rich.export(tmp_path / "a.jsonl", all_workspaces=True)
    with opened(empty) as other:
        other.load_export(tmp_path / "a.jsonl")
        assert other.remember("A new one.").id > gone.id


@pytest.mark.requirement("MOVE-3")
def test_one_workspace_is_exported_alone_and_imported_under_another_name(rich: Engram, tmp_path: Path) -> None:
    rich.workspace("team").export(tmp_path / "team.jsonl")
    assert {line["workspace"] for line in records(tmp_path / "team.jsonl", "memory")} == {"team"}
    with pytest.raises(WorkspaceNotEmpty, match="'team' has content"):
        rich.load_export(tmp_path / "team.jsonl")
    rich.load_export(tmp_path / "team.jsonl", into="copy")
    assert [each.content for each in rich.workspace("copy").memories.list()] == ["Another workspace."]
    assert rich.workspace("copy").memories.by_key("note", "only") is not None
    rich.export(tmp_path / "all.jsonl", all_workspaces=True)
    with pytest.raises(InvalidInput, match="3 workspaces"):
        rich.load_export(tmp_path / "all.jsonl", into="one")


def shape(eng: Engram) -> dict[str, object]:
    """What a workspace says about itself, with texts in place of numbers."""
    memories = [each for status in STATUSES for each in eng.memories.list(status=status, limit=0)]
    names = {each.id: each.content for each in memories}
    turns = {}
    for session in eng.sessions.list(0):
        turns[session.id] = [(each.role, each.content) for each in eng.exchanges.history(session.id, limit=1_000)]
        names |= {-each.id: each.content for each in eng.exchanges.history(session.id, limit=1_000)}

    def named(kind: str, id: int) -> object:
        return names.get(id if kind == "memory" else -id)

    return {
        "turns": turns,
        "memories": sorted(
            (each.content, each.kind, each.key or "", each.tags, each.status, names.get(each.superseded_by or 0) or "")
            for each in memories
        ),
        "sources": sorted(
            repr((each.content, sorted(str(named(*source)) for source in eng.memories.sources(each.id))))
            for each in memories
        ),
        "links": sorted(
            repr((names[one], relation, names[other]))
            for each in memories
            for one, other, relation in eng.memories.links(each.id)
        ),
        "blocks": [(each.name, each.version) for each in eng.blocks.list()],
        "dreams": len(eng.dreams.list(0)),
        "proposals": [(each.what, each.state) for each in eng.proposals.list()],
        "receipts": [each.counts for each in eng.receipts()],
    }


@pytest.mark.requirement("MOVE-4")
def test_taken_numbers_are_changed_consistently(rich: Engram, tmp_path: Path) -> None:
    before = shape(rich)
    rich.export(tmp_path / "a.jsonl")
    done = rich.load_export(tmp_path / "a.jsonl", into="moved")
    assert done.renumbered and len(done.notes) == 1 and done.counts["work"] == 0
    moved = rich.workspace("moved")
    assert shape(moved) == before
    ids = {each.id for each in moved.memories.list(limit=0)}
    assert ids and not ids & {each.id for each in rich.memories.list(limit=0)}
    known = {each for receipt in moved.receipts() for each in receipt.ids.get("exchanges", [])}
    assert known and not known & {each for receipt in rich.receipts() for each in receipt.ids["exchanges"]}


@pytest.mark.requirement("MOVE-4")
def test_sources_named_in_the_lines_of_a_block_follow_the_numbers(eng: Engram, tmp_path: Path) -> None:
    told = eng.remember("I prefer tabs over spaces.", kind="preference", tags=["about:user"], trust="user")
    other = eng.remember("I like tea.", kind="preference")
    text = f"## Preferences\n- I prefer tabs. [m{told.id}, e77]\n- [m{other.id}] is not at the end\n- plain [x]"
    eng.blocks.create("profile", text)
    eng.export(tmp_path / "a.jsonl")
    eng.load_export(tmp_path / "a.jsonl", into="moved")
    moved = eng.workspace("moved")
    new = next(each.id for each in moved.memories.list() if each.content == told.content)
    assert new != told.id
    profile = moved.blocks.get("profile")
    assert profile is not None and profile.content == text.replace(f"[m{told.id}, e77]", f"[m{new}, e77]")
    assert moved.blocks.version("profile", 1) == profile.content


@pytest.mark.requirement("MOVE-5")
@pytest.mark.parametrize("into", [None, "moved"])
def test_passes_are_undone_after_an_import(
    eng: Engram, store_url: str, empty: str, tmp_path: Path, into: str | None
) -> None:
    for number in range(3):
        talk(eng, f"thing {number}")
    eng.dream(force=True)
    same = [eng.remember(text, data={"n": number}) for number, text in enumerate(("Tea is hot.", "Tea is  hot."))]
    assert same[0].id == same[1].id or len(same) == 2
    talk(eng, "thing 4", at="2026-04-02T10:00:00Z")
    before_second = logical(eng)
    eng.dream(force=True)
    eng.export(tmp_path / "a.jsonl")
    with opened(empty) as other:
        if into:
            other.remember("Something is here already.")
            talk(other, "another thing")
        other.load_export(tmp_path / "a.jsonl", into=into)
        there = other.workspace(into or "default")
        undone = [there.dreams.undo(), there.dreams.undo()]
        here = [eng.dreams.undo(), eng.dreams.undo()]
        for ours, theirs in zip(here, undone, strict=True):
            assert theirs.left == ours.left == []
            assert len(theirs.restored) == len(ours.restored) and len(theirs.removed) == len(ours.removed)
        assert shape(there)["memories"] == shape(eng)["memories"]
        assert shape(there)["blocks"] == shape(eng)["blocks"]
        if not into:
            there.embedding_queue.work()
            mine, theirs_now = logical(eng), logical(there)
            assert [table for table in before_second if mine[table] != theirs_now[table]] == []


@pytest.mark.requirement("MOVE-5")
@pytest.mark.parametrize("into", [None, "moved"])
def test_forgetting_reaches_what_was_derived_after_an_import(
    rich: Engram, empty: str, tmp_path: Path, into: str | None
) -> None:
    rich.export(tmp_path / "a.jsonl")
    with opened(empty) as other:
        if into:
            other.remember("Something is here already.")
        other.load_export(tmp_path / "a.jsonl", into=into)
        there = other.workspace(into or "default")
        (red,) = [
            turn.id
            for session in there.sessions.list(0)
            for turn in there.exchanges.history(session.id, limit=1_000)
            if "boiler is red" in turn.content
        ]
        receipt = there.forget(exchange=red)
        assert receipt.counts["memories"] >= 1
        assert not [each for each in there.memories.list(limit=0) if "boiler" in each.content]


@pytest.mark.requirement("MOVE-6")
def test_an_export_while_others_write_shows_one_moment(eng: Engram, store_url: str, tmp_path: Path) -> None:
    ready, stop = threading.Barrier(5), threading.Event()

    def write(number: int) -> None:
        with opened(store_url, embedder="none") as mine:
            session = mine.sessions.register("codex", f"writer {number}")
            ready.wait()
            for step in range(10_000):
                with mine.write():
                    id = mine.exchanges.add(session, "user", f"step {step} of writer {number}", embed=False)
                    mine.remember(f"fact {step} of {number}", sources=[("exchange", id)], embed=False)
                if stop.is_set():
                    return

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        ready.wait()
        for attempt in range(5):
            file = tmp_path / f"{attempt}.jsonl"
            eng.export(file, all_workspaces=True)
            turns = {each["id"] for each in records(file, "exchange")}
            memories = {each["id"] for each in records(file, "memory")}
            assert {each["source_id"] for each in records(file, "source")} == turns
            assert {each["memory_id"] for each in records(file, "memory_version")} == memories
            assert len(turns) == len(memories)
            last = {each["id"]: each["last_seq"] for each in records(file, "session")}
            assert sum(last.values()) == len(turns)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert turns


@pytest.mark.requirement("MOVE-7")
def test_hostile_texts_come_back_as_they_were(tmp_path: Path) -> None:
    store = _hostile.fill(str(tmp_path / "hostile" / "engram.db"), "shop")
    with opened(store.url, embedder="none") as eng, opened(str(tmp_path / "other" / "engram.db")) as other:
        before = exported(eng, tmp_path / "a.jsonl")
        text = (tmp_path / "a.jsonl").read_bytes()
        assert b"\x1b" not in text and b"\r" not in text and b"\x7f" not in text
        assert not {"\u202e", "\u2028", "\x85", "\x9b", "\U000e0041"} & set(text.decode())
        other.load_export(tmp_path / "a.jsonl")
        assert exported(other, tmp_path / "b.jsonl") == before
        names = {moved.table.name for moved in EXPORTED}
        one, two = content(store.url), content(str(tmp_path / "other" / "engram.db"))
        assert {name for name in names if one[name] != two[name]} == set()


@pytest.mark.requirement("MOVE-8")
def test_the_file_is_private_and_never_overwritten_by_mistake(eng: Engram, tmp_path: Path) -> None:
    eng.remember("A secret plan.")
    file = tmp_path / "a.jsonl"
    old = os.umask(0)
    try:
        eng.export(file)
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first = file.read_bytes()
    with pytest.raises(FileExists):
        eng.export(file)
    assert file.read_bytes() == first
    eng.remember("Another plan.")
    eng.export(file, force=True)
    assert file.read_bytes() != first and os.listdir(tmp_path).count("a.jsonl") == 1
    with pytest.raises(InvalidInput):
        eng.export(tmp_path / "missing" / "a.jsonl")


@pytest.mark.requirement("MOVE-8")
def test_a_failed_export_leaves_nothing_behind(eng: Engram, tmp_path: Path) -> None:
    eng.remember("A plan.")
    folder = tmp_path / "out"
    folder.mkdir()
    eng.export(folder / "kept.jsonl")
    before = (folder / "kept.jsonl").read_bytes()

    def fail(done: int, total: int) -> None:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        eng.export(folder / "kept.jsonl", force=True, progress=fail)
    assert os.listdir(folder) == ["kept.jsonl"]
    assert (folder / "kept.jsonl").read_bytes() == before


@pytest.mark.requirement("MOVE-8")
def test_standard_output_gets_the_same_lines(eng: Engram, tmp_path: Path) -> None:
    eng.remember("A plan.")
    out = io.BytesIO()
    exporting.export(eng._view, "-", everything=True, with_vectors=False, force=False, output=out)
    assert out.getvalue().decode().split("\n")[1:] == exported(eng, tmp_path / "a.jsonl")


def broken(lines: list[str]) -> Iterator[tuple[str, list[str], int]]:
    """What can happen to a file: a name, the lines, and the line that is named."""
    memory = next(place for place, line in enumerate(lines) if '"record":"memory",' in line)
    end = next(place for place, line in enumerate(lines) if '"of":"memory","count"' in line) + 1
    yield "cut off after a line", lines[:memory], memory + 1
    yield "cut off within a line", [*lines[:memory], lines[memory][:40]], memory + 1
    yield "cut off before the last line", lines[:-1], len(lines)
    yield "not JSON", [*lines[:memory], "{nonsense", *lines[memory + 1 :]], memory + 1
    yield "no object", [*lines[:memory], "[1]", *lines[memory + 1 :]], memory + 1
    edited = lines[memory].replace("broken", "mended").replace("hot", "cold").replace("tabs", "spaces")
    assert edited != lines[memory]
    yield "edited", [*lines[:memory], edited, *lines[memory + 1 :]], end
    yield "a record removed", [*lines[:memory], *lines[memory + 1 :]], end - 1
    yield "a record twice", [*lines[:memory], lines[memory], *lines[memory:]], end + 1
    wrong = json.loads(lines[memory])
    for name, value in (("version", "1"), ("content", 7), ("unknown", 1), ("kind", None), ("content", "a\0b")):
        changed = json.dumps({**wrong, name: value})
        yield f"{name}: {value!r}", [*lines[:memory], changed, *lines[memory + 1 :]], memory + 1
    half = lines[memory].replace('"kind":"', '"kind":"\\ud800')
    yield "half a character", [*lines[:memory], half, *lines[memory + 1 :]], memory + 1
    other = lines[memory].replace('"workspace":"default"', '"workspace":"elsewhere"')
    yield "another workspace", [*lines[:memory], other, *lines[memory + 1 :]], memory + 1
    yield "an unknown kind", [*lines[:memory], '{"record":"thing"}', *lines[memory:]], memory + 1
    yield "something at the end", [*lines, '{"record":"memory"}'], len(lines)


@pytest.mark.requirement("MOVE-9")
def test_a_damaged_file_is_refused_with_its_line_and_changes_nothing(
    eng: Engram, store_url: str, empty: str, tmp_path: Path
) -> None:
    eng.remember("The lift is broken, tea is hot, and tabs are fine.")
    talk(eng)
    eng.export(tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    with opened(empty) as other:
        other.workspace("kept").remember("This was here.", embed=False)
        before = dump(empty)
        for name, wrong, line in broken(lines):
            (tmp_path / "b.jsonl").write_text("\n".join(wrong) + ("" if "within" in name else "\n"), encoding="utf-8")
            with pytest.raises(ExportDamaged, match=f"line {line}: ") as caught:
                other.load_export(tmp_path / "b.jsonl")
            assert caught.value.line == line, name
            assert "Nothing was imported" in str(caught.value)
            assert dump(empty) == before, name
        other.load_export(tmp_path / "a.jsonl")


@pytest.mark.requirement("MOVE-9")
def test_what_the_schema_forbids_is_refused_with_its_lines(eng: Engram, empty: str, tmp_path: Path) -> None:
    """The hashes are right, as those of a file that a program wrote."""
    eng.remember("The lift is broken.")
    eng.remember("The door is open.")
    eng.export(tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    for change in ({"status": "nonsense"}, {"id": 1}, {"session_id": "nobody"}):
        out = io.BytesIO()
        from engram.transfer import jsonl

        writer = jsonl.Writer(out)
        header = {name: value for name, value in lines[0].items() if name not in ("record", "format")}
        writer.header(jsonl.Header(**header))
        for line in lines[1:-1]:
            kind = line["record"]
            values = {name: value for name, value in line.items() if name != "record"}
            if kind == "end":
                writer.end(line["of"])
            else:
                writer.record(kind, {**values, **(change if kind == "memory" else {})})
        writer.footer()
        (tmp_path / "b.jsonl").write_bytes(out.getvalue())
        with opened(empty) as other:
            before = content(empty)
            with pytest.raises(ExportDamaged, match="refuses"):
                other.load_export(tmp_path / "b.jsonl")
            assert content(empty) == before


@pytest.mark.requirement("MOVE-9")
def test_a_file_that_is_no_export_or_too_new_is_refused(eng: Engram, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with pytest.raises(NotFound):
        eng.load_export(file)
    for text in ("", "hello\n", '{"record":"header"}\n', "\xff\n", '{"a": 1}\n'):
        file.write_text(text, encoding="latin-1")
        with pytest.raises(NotOfFormat):
            eng.load_export(file)
    file.unlink()
    eng.export(file)
    header, _, rest = file.read_text(encoding="utf-8").partition("\n")
    file.write_text(f"{json.dumps({**json.loads(header), 'version': 99})}\n{rest}", encoding="utf-8")
    with pytest.raises(NotOfFormat, match="version 99"):
        eng.load_export(file)
    with pytest.raises(InvalidInput):
        eng.load_export(tmp_path)


@pytest.mark.requirement("MOVE-1")
def test_no_secret_of_an_access_token_leaves_with_an_export(eng: Engram, tmp_path: Path) -> None:
    eng.remember("A plan.")
    made = eng.access.tokens.create("laptop", "admin")
    eng.export(tmp_path / "a.jsonl", all_workspaces=True)
    text = (tmp_path / "a.jsonl").read_text()
    assert made.secret not in text and "laptop" not in text
    assert "access_tokens" in eng.export(tmp_path / "b.jsonl").left_out


@pytest.mark.requirement("MOVE-2")
def test_damaged_json_of_the_other_store_is_carried_as_it_is(
    eng: Engram, store_url: str, empty: str, tmp_path: Path
) -> None:
    eng.remember("A plan.", data={"a": 1})
    run(store_url, "UPDATE memories SET data = '{broken'")
    before = exported(eng, tmp_path / "a.jsonl")
    with opened(empty) as other:
        other.remember("Taken.", embed=False)
        other.workspace("x").load_export(tmp_path / "a.jsonl", into="moved")
    assert any("{broken" in line for line in before)
    assert body(tmp_path / "a.jsonl") == before
    assert load(url=store_url)
