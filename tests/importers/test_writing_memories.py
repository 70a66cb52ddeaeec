"""Importing memories and blocks: nothing twice, nothing overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram
from engram.import_records import LeftOut
from engram.importers.items import BlockItem, BlockVersion, EndItem, GistItem, Item, MemoryItem
from tests.importers._feeding import feed, talk

JANUARY, FEBRUARY = "2026-01-05T08:00:00Z", "2026-02-05T08:00:00Z"


@pytest.fixture
def eng(open_store: Callable[..., Engram]) -> Engram:
    return open_store(embedder="none")


def fact(id: str, text: str, **more: Any) -> MemoryItem:
    return MemoryItem(id, text, "fact", **{"at": JANUARY, **more})


def active(eng: Engram) -> dict[str, str]:
    return {memory.content: memory.kind for memory in eng.memories.list()}


@pytest.mark.requirement("IMPORT-7")
def test_a_memory_keeps_its_kind_tags_date_and_data_and_is_not_the_users_word(eng: Engram) -> None:
    report = feed(eng, [fact("1", "The office is in Porto.", tags=["office"], importance=0.9, data={"by": "app"})])
    assert (report.memories, report.left_out) == (1, ())
    (memory,) = eng.memories.list()
    assert (memory.kind, memory.tags, memory.importance, memory.trust) == ("fact", ("office",), 0.9, "import")
    assert (memory.created_at, memory.data, memory.project) == ("2026-01-05T08:00:00.000000Z", {"by": "app"}, None)
    assert eng.recall("where is the office?")[0].text == "The office is in Porto."


def test_the_same_memories_add_nothing_a_second_time(eng: Engram) -> None:
    items = [fact(str(number), f"Fact number {number} is true.") for number in range(120)]
    assert feed(eng, items).memories == 120
    before = eng.changes(0, 1000)
    report = feed(eng, items)
    assert (report.memories, report.known_memories) == (0, 120)
    assert eng.changes(0, 1000) == before


def test_a_text_that_changed_there_becomes_a_new_version_unless_it_was_changed_here(eng: Engram) -> None:
    feed(eng, [fact("1", "Deploys are on Monday."), fact("2", "Tests take a minute.")])
    ids = {memory.content: memory.id for memory in eng.memories.list()}
    eng.memories.update(ids["Tests take a minute."], "Tests take two minutes.")
    report = feed(eng, [fact("1", "Deploys are on Tuesday."), fact("2", "Tests take an hour.")])
    assert (report.updated, report.left_out[0].why) == (1, "changed here since its import")
    assert set(active(eng)) == {"Deploys are on Tuesday.", "Tests take two minutes."}
    assert [edit.content for edit in eng.memories.history(ids["Deploys are on Monday."])] == [
        "Deploys are on Tuesday.",
        "Deploys are on Monday.",
    ]
    assert feed(eng, [fact("1", "Deploys are on Tuesday.")]).known_memories == 1


def test_a_memory_that_was_forgotten_or_archived_here_stays_so(eng: Engram) -> None:
    items = [fact("1", "The old server is slow."), fact("2", "The new server is fast.")]
    feed(eng, items)
    ids = {memory.content: memory.id for memory in eng.memories.list()}
    eng.forget(memory=ids["The old server is slow."])
    eng.memories.archive(ids["The new server is fast."])
    assert feed(eng, items).left_out == (LeftOut("forgotten here", 1, ("file 1, memory 1",)),)
    assert active(eng) == {}
    assert feed(eng, items, again=True).memories == 1
    assert set(active(eng)) == {"The old server is slow."}


def test_everything_of_a_format_can_be_forgotten_at_once(eng: Engram) -> None:
    eng.remember("This one is mine.", kind="fact")
    items = [fact("1", "This one is theirs."), fact("2", "So is this one.")]
    feed(eng, items)
    eng.forget(source="test")
    assert set(active(eng)) == {"This one is mine."}
    assert feed(eng, [fact("3", "A new one of theirs.")]).memories == 1


def test_archived_memories_and_links_come_along(eng: Engram) -> None:
    feed(
        eng, [fact("1", "We used Jenkins.", is_archived=True), fact("2", "We use Actions.", links=[("1", "replaces")])]
    )
    (archived,) = eng.memories.list(status="archived")
    (memory,) = eng.memories.list()
    assert archived.content == "We used Jenkins."
    assert eng.memories.links(memory.id) == [(memory.id, archived.id, "replaces")]


def test_a_memory_that_is_refused_is_named_and_the_others_are_imported(eng: Engram) -> None:
    eng.remember("Our own rule.", kind="fact", key="rule", by_person=True)
    report = feed(eng, [fact("1", "Another rule.", key="rule"), fact("2", "Fine."), fact("3", "  ")])
    assert (report.memories, len(report.left_out)) == (1, 2)
    assert set(active(eng)) == {"Our own rule.", "Fine."}


def test_memories_before_a_date_are_left_out(eng: Engram) -> None:
    report = feed(eng, [fact("1", "Old."), fact("2", "New.", at=FEBRUARY)], since="2026-02-01T00:00:00.000000Z")
    assert (report.memories, report.left_out[0].why) == (1, "before --since")


def block(*texts: str, name: str = "notes", **more: Any) -> list[Item]:
    times = [JANUARY, FEBRUARY, None]
    return [BlockItem(name, [BlockVersion(text, times[n], f"edit {n}") for n, text in enumerate(texts)], **more)]


@pytest.mark.requirement("IMPORT-7")
def test_a_block_comes_with_its_versions_and_a_longer_history_adds_to_them(eng: Engram) -> None:
    assert feed(eng, block("one", "two", max_tokens=500, data={"mood": "calm"})).blocks == 1
    assert [(edit.new, edit.created_at[:10]) for edit in eng.blocks.history("notes")][-1] == ("two", "2026-02-05")
    found = eng.blocks.get("notes")
    assert found is not None
    assert (found.content, found.max_tokens, found.updated_by, found.data) == ("two", 500, "import", {"mood": "calm"})
    assert feed(eng, block("one", "two", max_tokens=500, data={"mood": "calm"})).blocks == 0
    assert feed(eng, block("one", "two", "three", max_tokens=500)).blocks == 1
    found = eng.blocks.get("notes")
    assert found is not None
    assert found.content == "three"
    eng.blocks.verify("notes")


@pytest.mark.requirement("IMPORT-7")
def test_a_block_here_is_not_overwritten(eng: Engram) -> None:
    eng.blocks.create("notes", "ours")
    report = feed(eng, block("theirs"))
    assert "notes-test" in report.notes[0]
    assert [eng.blocks.get(name).content for name in ("notes", "notes-test")] == ["ours", "theirs"]  # type: ignore[union-attr]
    eng.blocks.update("notes-test", "edited here")
    assert feed(eng, block("theirs", "theirs, too")).left_out[0].why == "changed here since its import"
    eng.blocks.delete("notes-test")
    assert feed(eng, block("theirs")).left_out[0].why == "forgotten here"


def test_a_dry_run_writes_no_memory_and_no_block(eng: Engram) -> None:
    items = [*block("one"), fact("1", "A fact.")]
    dry = feed(eng, items, dry_run=True)
    assert eng.changes(0, 10) == []
    assert (dry.memories, dry.blocks) == (1, 1)


def test_an_era_tells_the_gists_that_came_with_it_so_no_pass_writes_it_again(eng: Engram) -> None:
    items: list[Item] = [
        MemoryItem("2026-01", "In January we moved house.", "era", key="2026-01", at=FEBRUARY, data={"sessions": 1}),
        *talk("a", "Where are the boxes?", "They are in the new flat.")[:-1],
        GistItem("a", "About the boxes.", is_final=True),
        EndItem("a"),
    ]
    assert feed(eng, items).memories == 1
    eng.dream(force=True)
    assert [era.content for era in eng.eras.list()] == ["In January we moved house."]
    assert feed(eng, items).known_memories == 1


@pytest.mark.requirement("IMPORT-7")
def test_what_somebody_else_said_stays_theirs_whatever_the_other_system_does_with_it(eng: Engram) -> None:
    mine = eng.remember("Always use tabs.", kind="preference", trust="user", by_person=True)
    assert feed(eng, [fact("1", "Always use tabs.")._replace(kind="preference")]).known_memories == 1
    report = feed(eng, [fact("1", "Always run this script.")._replace(kind="preference")])
    assert (report.memories, report.updated) == (1, 0)
    assert eng.memories.get(mine.id).content == "Always use tabs."
    assert [memory.trust for memory in eng.memories.list() if memory.id != mine.id] == ["import"]
    feed(eng, [fact("1", "Always run this script.", is_archived=True)._replace(kind="preference")])
    assert eng.memories.get(mine.id).status == "active"
    eng.forget(source="test")
    assert set(active(eng)) == {"Always use tabs."}


@pytest.mark.requirement("IMPORT-7")
def test_what_a_person_says_again_is_theirs_when_the_import_is_taken_away(eng: Engram) -> None:
    feed(eng, [fact("1", "The office is in Porto.")])
    eng.remember("The office is in Porto.", kind="fact", by_person=True)
    eng.forget(source="test")
    (memory,) = eng.memories.list()
    assert (memory.trust, memory.approved) == ("user", True)


def test_a_text_that_changes_back_is_a_new_version_again(eng: Engram) -> None:
    for text in ("We use Postgres.", "We use SQLite.", "We use Postgres."):
        feed(eng, [fact("1", text)])
    assert set(active(eng)) == {"We use Postgres."}


def test_links_that_a_killed_import_did_not_make_are_made_by_the_next(eng: Engram) -> None:
    linked = [fact("1", "A fact."), fact("2", "Another fact.", links=[("1", "about")])]
    feed(eng, [each._replace(links=()) for each in linked])
    feed(eng, linked)
    (memory,) = [each for each in eng.memories.list() if each.content == "Another fact."]
    assert [relation for *_, relation in eng.memories.links(memory.id)] == ["about"]
    before = eng.changes(0, 1000)
    feed(eng, linked)
    assert eng.changes(0, 1000) == before


def test_an_id_that_comes_twice_counts_once(eng: Engram) -> None:
    items = [fact("1", "First text."), fact("1", "Second text.")]
    assert feed(eng, items).left_out[0].why == "the same id twice"
    assert feed(eng, items).known_memories == 1
    assert set(active(eng)) == {"First text."}


def test_a_block_of_a_system_without_versions_follows_it(eng: Engram) -> None:
    feed(eng, block("first profile"))
    assert feed(eng, block("second profile")).blocks == 1
    assert [edit.new for edit in eng.blocks.versions("notes")] == ["second profile", "first profile"]
    assert feed(eng, block("second profile")).blocks == 0


@pytest.mark.requirement("IMPORT-7")
def test_forgetting_a_source_takes_its_sessions_eras_and_blocks_whatever_their_type(eng: Engram) -> None:
    items: list[Item] = [
        *talk("a", "Where is it?", "It is here.", type="claude-code"),
        MemoryItem("2026-01", "A month.", "era", key="2026-01", data={"sessions": 0}),
        *block("theirs"),
    ]
    eng.blocks.create("ours", "ours")
    recorded = eng.sessions.register("claude-code", "By hooks", external_id="b")
    feed(eng, items)
    eng.forget(source="test")
    assert [session.id for session in eng.sessions.list()] == [recorded]
    assert [each.name for each in eng.blocks.list()] == ["ours"]
    assert eng.eras.list() == []
