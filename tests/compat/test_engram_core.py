"""Programs of engram-core on Engram, on both engines."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from engram import BlockExists, BlockNotFound, Conflict, Engram, InvalidInput, WorkspaceNotFound
from engram.clock import Clock, later
from engram.compat import engram_core
from engram.compat.engram_core import (
    BlockEditLog,
    ConsolidationCounts,
    ConsolidationPolicy,
    DreamConfig,
    DreamReport,
    DreamWorkspaceReport,
    MemoryBlock,
    Storage,
    archive_overflow,
    create_block,
    delete_block,
    dream_run_now,
    get_block,
    get_block_history,
    list_blocks,
    run_once_all,
    run_once_workspace,
    spawn_scheduler,
    update_block,
)

pytestmark = pytest.mark.requirement("COMPAT-3")

APPLY = DreamConfig(auto_consolidate=ConsolidationPolicy(dry_run=False))


@pytest.fixture
def storage(store_url: str) -> Iterator[Storage]:
    with Storage.open(store_url) as opened:
        yield opened


@pytest.fixture
def eng(storage: Storage) -> Engram:
    return storage.store


def remember_twice(eng: Engram, text: str, *, days: float = 2.0) -> None:
    """Two memories that say the same, of some days ago."""
    at = later(Clock().now(), -days * 86_400)
    eng.remember(text, kind="note", at=at)
    eng.remember(text.removesuffix("."), kind="fact", at=at)


def active(eng: Engram) -> list[str]:
    return sorted(memory.content for memory in eng.memories.list() if memory.kind != "digest")


PROGRAM = """
import json
from engram_core import (
    DreamConfig, Storage, archive_overflow, create_block, get_block_history, run_once_all, update_block
)

storage = Storage.open(PATH)
persona = create_block(storage, "persona", "I am a helpful assistant.", 512)
assert (persona.version, persona.max_tokens) == (1, 512)
update_block(storage, "persona", "I am a terse assistant.", "the person likes short answers")
for edit in get_block_history(storage, "persona", 10):
    print(edit.id, edit.block_name, "|", edit.old_content, "->", edit.new_content, "|", edit.edit_reason)
create_block(storage, "scratch", "12345678overflow", 2)
print(archive_overflow(storage, "scratch"))
report = run_once_all(storage, DreamConfig())
print(json.dumps(report.to_dict()["errors"]), len(report.workspaces))
"""


def test_a_program_works_with_one_import_line_changed(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAM.replace("from engram_core import", "from engram.compat.engram_core import")
    exec(compile(program, "program.py", "exec"), {"PATH": store_url})
    assert capsys.readouterr().out == (
        "1 persona | I am a helpful assistant. -> I am a terse assistant. | the person likes short answers\n"
        "overflow\n"
        "[] 1\n"
    )
    gc.collect()


def test_a_block_has_versions_and_a_history(storage: Storage) -> None:
    made = create_block(storage, "notes", "first", 256)
    assert made == get_block(storage, "notes")
    assert (made.name, made.content, made.version, made.max_tokens) == ("notes", "first", 1, 256)
    assert get_block_history(storage, "notes") == []
    for number, text in enumerate(["second", "third", "fourth"], 2):
        edited = update_block(storage, "notes", text, f"edit {number}")
        assert (edited.version, edited.content) == (number, text)
        assert edited.created_at == made.created_at < edited.updated_at
    newest, middle = get_block_history(storage, "notes", 2)
    assert newest == BlockEditLog(3, "notes", "third", "fourth", "edit 4", newest.timestamp)
    assert (middle.id, middle.old_content, middle.new_content) == (2, "second", "third")
    assert newest.timestamp > middle.timestamp
    # The first version is what the first edit replaced.
    assert get_block_history(storage, "notes", 0)[-1].old_content == "first"
    assert create_block(storage, "empty").max_tokens == 4_096


def test_blocks_are_listed_by_name_and_deleted_with_their_history(storage: Storage, eng: Engram) -> None:
    for name in ("beta", "alpha", "gamma"):
        create_block(storage, name, name, 64)
    update_block(storage, "beta", "changed")
    delete_block(storage, "beta")
    assert [block.name for block in list_blocks(storage)] == ["alpha", "gamma"]
    assert get_block(storage, "beta") is None
    assert get_block_history(storage, "beta") == []
    # The facade itself will do as storage.
    assert list_blocks(eng) == list_blocks(storage)
    json.dumps([asdict(block) for block in list_blocks(eng)])


def test_what_cannot_be_done_to_a_block_is_an_error(storage: Storage) -> None:
    create_block(storage, "taken", "text", 64)
    with pytest.raises(BlockExists):
        create_block(storage, "taken", "other", 64)
    with pytest.raises(InvalidInput):
        create_block(storage, "", "text", 64)
    with pytest.raises(BlockNotFound):
        update_block(storage, "ghost", "text", "reason")
    with pytest.raises(BlockNotFound):
        delete_block(storage, "ghost")
    with pytest.raises(BlockNotFound):
        archive_overflow(storage, "ghost")
    assert get_block(storage, "ghost") is None


def test_overflow_is_cut_off_once_and_stays_in_the_history(storage: Storage) -> None:
    create_block(storage, "small", "12345678überhang", 2)
    assert archive_overflow(storage, "small") == "überhang"
    assert archive_overflow(storage, "small") is None
    block = get_block(storage, "small")
    assert block is not None and (block.content, block.version) == ("12345678", 2)
    [edit] = get_block_history(storage, "small")
    assert (edit.old_content, edit.edit_reason) == ("12345678überhang", "overflow archived")


def test_a_configuration_has_the_defaults_of_engram_core() -> None:
    config = DreamConfig()
    assert config.interval == timedelta(hours=6)
    assert config.lock_ttl_seconds == 300
    assert config.auto_consolidate is not None and config.auto_consolidate.dry_run is True
    assert config.consolidation.min_age_hours == 24
    assert config.owner_id and config.owner_id != DreamConfig().owner_id


def test_a_pass_on_an_empty_store_reports_nothing(storage: Storage) -> None:
    report = run_once_all(storage, DreamConfig())
    assert (report.workspaces, report.errors) == ([], [])
    assert report.finished_at >= report.started_at
    assert run_once_workspace(storage, "default", DreamConfig()) == DreamWorkspaceReport(
        "default", auto_consolidate=ConsolidationCounts()
    )


def test_by_default_a_pass_changes_no_memory(storage: Storage, eng: Engram) -> None:
    remember_twice(eng, "Invoices go out with the first train.")
    at = later(Clock().now(), -2 * 86_400)
    for kind in ("note", "fact"):
        eng.remember("The deploy runs on Friday.", kind=kind, at=at)
    before = eng.memories.list()
    for report in (run_once_all(storage), dream_run_now(storage, dry_run=True)):
        [found] = report.workspaces
        assert report.errors == []
        assert (found.workspace, found.memories_merged, found.memories_archived) == ("default", 0, 0)
        assert (found.tokens_before, found.tokens_after, found.tokens_saved) == (0, 0, 0)
    assert eng.memories.list() == before
    # It says what it found, for a person to decide.
    assert sorted(proposal.what for proposal in eng.proposals.list()) == ["merge", "merge"]


def test_a_pass_merges_what_says_the_same_if_the_policy_allows_it(storage: Storage, eng: Engram) -> None:
    remember_twice(eng, "Invoices go out with the first train.")
    remember_twice(eng, "The printer stands in room 12.", days=0.1)
    report = run_once_all(storage, APPLY)
    [found] = report.workspaces
    assert report.errors == []
    assert (found.groups_found, found.memories_merged) == (1, 2)
    assert found.tokens_before > found.tokens_after > 0
    assert found.tokens_saved == found.tokens_before - found.tokens_after
    assert found.auto_consolidate is not None and found.auto_consolidate.duplicates_merged == 1
    # Younger memories are left alone.
    assert len([text for text in active(eng) if "printer" in text]) == 2
    assert len([text for text in active(eng) if "Invoices" in text]) == 1
    young = replace(APPLY, consolidation=replace(APPLY.consolidation, min_age_hours=1.0))
    assert run_once_workspace(storage, "default", young).memories_merged == 2


def test_a_pass_goes_over_every_workspace_or_over_the_named_ones(storage: Storage, eng: Engram) -> None:
    for name in ("default", "work", "home"):
        remember_twice(eng.workspace(name), "Invoices go out with the first train.")
    report = dream_run_now(storage, workspaces=["work"], dry_run=False)
    assert [(found.workspace, found.memories_merged) for found in report.workspaces] == [("work", 2)]
    assert [found.workspace for found in dream_run_now(storage, workspaces="home").workspaces] == ["home"]
    every = run_once_all(storage, APPLY)
    assert {found.workspace: found.memories_merged for found in every.workspaces} == {
        "default": 2,
        "home": 2,
        "work": 0,
    }
    missing = dream_run_now(storage, workspaces=["nowhere", "home"])
    assert [found.workspace for found in missing.workspaces] == ["home"]
    assert len(missing.errors) == 1 and "nowhere" in missing.errors[0]
    with pytest.raises(WorkspaceNotFound):
        run_once_workspace(storage, "nowhere")


def test_the_default_store_is_the_users_own(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    with Storage() as storage:
        remember_twice(storage.store, "Invoices go out with the first train.")
    [found] = dream_run_now(dry_run=False).workspaces
    assert found.memories_merged == 2


def test_another_holder_gives_a_report_with_an_error_and_no_workspaces(storage: Storage, eng: Engram) -> None:
    for name in ("default", "work"):
        remember_twice(eng.workspace(name), "Invoices go out with the first train.")
    other = eng.workspace("work")
    holder = other.sessions.register("dream", "dreaming")
    with other.leases.hold(holder, "dream", ttl=300):
        for report in (run_once_all(storage, APPLY), dream_run_now(storage)):
            assert report.workspaces == []
            assert len(report.errors) == 1 and "lock" in report.errors[0]
        with pytest.raises(Conflict, match="Another pass is running"):
            run_once_workspace(storage, "work", APPLY)
    assert len(run_once_all(storage, APPLY).workspaces) == 2


def test_a_report_is_json(storage: Storage, eng: Engram) -> None:
    remember_twice(eng, "Invoices go out with the first train.")
    report = run_once_all(storage, APPLY)
    assert json.loads(json.dumps(asdict(report))) == asdict(report)
    values = json.loads(json.dumps(report.to_dict()))
    assert values.keys() == {"started_at", "finished_at", "workspaces", "errors"}
    [found] = values["workspaces"]
    assert found["auto_consolidate"].keys() == {"duplicates_merged", "conflicts_resolved", "summarized", "skipped"}
    nothing = DreamReport("a", "b", [DreamWorkspaceReport("default")])
    assert "auto_consolidate" not in nothing.to_dict()["workspaces"][0]


def test_a_scheduler_runs_until_it_is_stopped(storage: Storage, eng: Engram) -> None:
    remember_twice(eng, "Invoices go out with the first train.")
    handle = spawn_scheduler(storage, replace(APPLY, interval=0.05))
    wait_for(lambda: len(active(eng)) == 1)
    handle.stop()
    handle.abort()
    passes = len(eng.dreams.list(0))
    remember_twice(eng, "The printer stands in room 12.")
    time.sleep(0.15)
    assert len(eng.dreams.list(0)) == passes


def test_a_scheduler_keeps_its_storage_open_and_proposes_by_default(store_url: str) -> None:
    with Engram(store_url) as eng:
        remember_twice(eng, "Invoices go out with the first train.")
        with spawn_scheduler(Storage.open(store_url), DreamConfig(interval=timedelta(milliseconds=50))):
            gc.collect()
            wait_for(lambda: bool(eng.proposals.list()))
        assert len(active(eng)) == 2
    gc.collect()


def test_a_wrong_configuration_is_refused(storage: Storage) -> None:
    with pytest.raises(InvalidInput, match="dream_similarity"):
        run_once_all(storage, DreamConfig(auto_consolidate=ConsolidationPolicy(duplicate_threshold=1.5)))
    with pytest.raises(InvalidInput, match="every"):
        spawn_scheduler(storage, DreamConfig(interval=-1.0))


def wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_names_of_engram_core_are_there() -> None:
    assert MemoryBlock.__name__ in vars(engram_core)


def test_without_a_policy_nothing_is_changed_and_nothing_is_counted(storage: Storage) -> None:
    create_block(storage, "persona", "I am terse.")
    config = DreamConfig(auto_consolidate=None)
    for report in (run_once_all(storage, config), dream_run_now(storage, dry_run=False, config=config)):
        assert report.errors == []
        assert [each.auto_consolidate for each in report.workspaces] == [None]
    assert run_once_workspace(storage, "default", config).auto_consolidate is None
    spawn_scheduler(storage, config).stop()
