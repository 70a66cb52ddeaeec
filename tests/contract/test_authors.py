"""The author: the name of an access token, kept with everything that is written under it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram import Engram, InvalidInput
from engram.records import Hit
from tests._logical import logical
from tests._passes import dream, dream_of, talk
from tests._tables import columns, dump, run, values
from tests.importers._feeding import feed
from tests.importers._feeding import talk as told

TABLES = {
    *("sessions", "exchanges", "messages", "blocks", "block_versions"),
    *("memories", "memory_versions", "memory_states", "receipts", "items"),
}


@pytest.fixture
def laptop(eng: Engram) -> Engram:
    return eng.as_author("laptop")


@pytest.fixture
def phone(eng: Engram) -> Engram:
    return eng.as_author("phone")


@pytest.mark.requirement("AUTHOR-1")
def test_every_table_of_a_history_has_an_author(eng: Engram, store_url: str) -> None:
    assert {table for table, kinds in columns(store_url).items() if "author" in kinds} == TABLES


@pytest.mark.requirement("AUTHOR-1")
def test_local_use_has_no_author(eng: Engram, store_url: str) -> None:
    _write_everything(eng)
    assert [table for table in TABLES if values(store_url, table, "author")] == []


@pytest.mark.requirement("AUTHOR-1")
def test_everything_that_is_written_under_a_name_has_it_as_its_author(laptop: Engram, store_url: str) -> None:
    _write_everything(laptop)
    rows = {table: len(found) for table, found in dump(store_url).items() if table in TABLES}
    named = {table: values(store_url, table, "author") for table in TABLES}
    assert {name for names in named.values() for name in names} == {"laptop"}
    # The first state repeats what the memory was like when it was stored; its first version has the author.
    rows["memory_states"] -= 1
    assert {table: len(names) for table, names in named.items()} == rows


@pytest.mark.requirement("AUTHOR-1")
def test_the_records_name_the_author(eng: Engram, laptop: Engram) -> None:
    _write_everything(laptop)
    by, other, *_ = [session.id for session in reversed(eng.sessions.list())]
    assert {session.author for session in eng.sessions.list()} == {"laptop"}
    assert {turn.author for turn in (*eng.exchanges.history(by), *eng.exchanges.timeline())} == {"laptop"}
    assert {turn.author for turn in eng.exchanges.around(eng.exchanges.recent(by)[0].id)} == {"laptop"}
    assert {turn.author for turn in eng.memories.unsummarised(by)} == {"laptop"}
    assert {entry.author for entry in (*eng.sessions.logs(by), *eng.sessions.logs(other))} == {"laptop"}
    assert eng.memories.get(1).author == "laptop"
    assert {version.author for version in eng.memories.history(1)} == {"laptop"}
    assert [state.author for state in eng.memories.states(1)] == ["laptop", "laptop", None]
    block = eng.blocks.get("plan")
    assert block is not None and block.author == "laptop" and block in eng.blocks.list()
    assert {version.author for version in eng.blocks.versions("plan")} == {"laptop"}
    assert {message.author for message in eng.messages.inbox("person", peek=True)} == {"laptop"}
    assert {message.author for message in eng.messages.inbox(other)} == {"laptop"}
    assert [receipt.author for receipt in eng.receipts()] == ["laptop"]


@pytest.mark.requirement("AUTHOR-1")
def test_a_call_returns_what_it_has_written_with_its_author(eng: Engram, laptop: Engram) -> None:
    session = laptop.sessions.register("codex", "Working")
    assert laptop.sessions.heartbeat(session).author == "laptop"
    assert laptop.sessions.log(session, "router done") == eng.sessions.logs(session)[0]
    assert laptop.messages.send(None, session, "Are you there?").author == "laptop"
    assert laptop.remember("Deploys never happen on Fridays").author == "laptop"
    assert laptop.blocks.create("plan", "One.") == eng.blocks.get("plan")
    assert laptop.blocks.update("plan", "Two.") == eng.blocks.get("plan")
    assert laptop.world.set("All is well").author == "laptop"
    assert laptop.forget(memory=1, dry_run=True).author == "laptop"
    assert laptop.forget(memory=1) == eng.receipts()[0]


@pytest.mark.requirement("AUTHOR-1")
def test_a_broken_claim_is_logged_under_the_name_of_the_breaker(eng: Engram, laptop: Engram, phone: Engram) -> None:
    holder = laptop.sessions.register("codex", "Holding")
    breaker = phone.sessions.register("codex", "Breaking")
    laptop.leases.claim(holder, "db/schema", exclusive=True)
    phone.leases.break_lease("db/schema", breaker, "it hangs")
    assert [(entry.author, entry.content.split()[0]) for entry in eng.sessions.logs(holder)] == [("phone", "Lost")]
    assert [(entry.author, entry.content.split()[0]) for entry in eng.sessions.logs(breaker)] == [("phone", "Broke")]


@pytest.mark.requirement("AUTHOR-1")
def test_turns_that_are_added_together_or_before_another_have_the_author(eng: Engram, laptop: Engram) -> None:
    session = eng.sessions.register("codex", "Working")
    turn = {"session_id": session, "role": "user"}
    laptop.exchanges.add_many([{**turn, "content": "one"}, {**turn, "content": "two"}])
    last = eng.exchanges.add(session, "assistant", "four", words=False, embed=False)
    laptop.exchanges.insert_before(last, [{**turn, "content": "three"}])
    laptop.transcripts.add(session, [({"said": "five"}, "user", "five"), ({"called": "six"}, None, "")])
    said = [(turn.content, turn.author) for turn in eng.exchanges.history(session)]
    named = [(text, "laptop") for text in ("one", "two", "three")]
    assert said == [*named, ("four", None), ("five", "laptop")]
    assert [entry.author for entry in eng.sessions.logs(session)] == ["laptop", "laptop"]
    with pytest.raises(InvalidInput, match="An exchange has no author"):
        eng.exchanges.add_many([{**turn, "content": "seven", "author": "somebody else"}])


@pytest.mark.requirement("AUTHOR-2")
def test_another_workspace_or_other_settings_keep_the_author(laptop: Engram) -> None:
    assert laptop.author == "laptop"
    for other in (
        laptop.workspace("team"),
        laptop.with_settings(stale_after=5),
        laptop.workspace("team").workspace("x"),
    ):
        assert other.author == "laptop"
        assert other.remember("Deploys never happen on Fridays").author == "laptop"
    with laptop.write() as eng:
        assert eng.remember("Lunch is at noon").author == "laptop"
    assert laptop.as_author("phone").remember("Tea is at four").author == "phone"
    assert laptop.as_author(None).author is None
    assert laptop.as_author(None).remember("Dinner is at seven").author is None
    assert laptop.author == "laptop"


@pytest.mark.requirement("AUTHOR-2")
@pytest.mark.parametrize(
    "name, why",
    [
        ("", "author is empty"),
        (" \t", "author is empty"),
        ("x" * 101, "at most 100 fit"),
        ("two\nlines", "one plain line"),
        ("\x1b[31mred", "one plain line"),
        ("nul\x00", "NUL"),
        ("ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a", "seems to contain a secret"),
        (7, "must be text"),
    ],
)
def test_a_name_that_could_not_be_shown_is_refused(eng: Engram, name: object, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        eng.as_author(name)  # type: ignore[arg-type]
    for allowed in ("x" * 100, "Work laptop", "büro"):
        assert eng.as_author(allowed).author == allowed


@pytest.mark.requirement("AUTHOR-3")
def test_a_memory_keeps_its_first_author_and_each_version_has_its_own(
    eng: Engram, laptop: Engram, phone: Engram
) -> None:
    memory = laptop.remember("Deploys never happen on Fridays")
    assert phone.memories.update(memory.id, "Deploys never happen on Mondays").author == "laptop"
    eng.memories.update(memory.id, "Deploys never happen on Sundays")
    assert phone.memories.update(memory.id, pinned=True).author == "laptop"
    assert [version.author for version in eng.memories.history(memory.id)] == [None, "phone", "laptop"]
    changed = {state.changes: state.author for state in eng.memories.states(memory.id)}
    assert changed["pinned",] == "phone"
    assert changed["version 2",] == "phone"


@pytest.mark.requirement("AUTHOR-3")
def test_storing_the_same_again_does_not_change_the_author(laptop: Engram, phone: Engram) -> None:
    memory = laptop.remember("Deploys never happen on Fridays")
    again = phone.remember("Deploys never happen on Fridays", by_person=True)
    assert (again.id, again.reinforced, again.author) == (memory.id, 1, "laptop")


@pytest.mark.requirement("AUTHOR-3")
def test_what_replaces_a_memory_has_its_own_author(eng: Engram, laptop: Engram, phone: Engram) -> None:
    old = laptop.remember("The editor is vim", kind="preference", key="editor")
    new = phone.remember("The editor is helix", kind="preference", key="editor")
    assert (eng.memories.get(old.id).author, new.author) == ("laptop", "phone")
    replaced, _ = eng.memories.states(old.id)
    assert (replaced.changes, replaced.author) == ((f"replaced by memory {new.id}",), "phone")


@pytest.mark.requirement("AUTHOR-3")
def test_how_a_memory_stood_names_its_author(laptop: Engram, phone: Engram) -> None:
    memory = laptop.remember("Deploys never happen on Fridays")
    phone.memories.update(memory.id, "Deploys never happen on Mondays", importance=0.9)
    then = phone.memories.get(memory.id, at=memory.created_at)
    assert (then.version, then.author) == (1, "laptop")
    assert phone.memories.list(at=memory.created_at, author="laptop") == [then]
    assert phone.memories.list(at=memory.created_at, author="phone") == []


@pytest.mark.requirement("AUTHOR-3")
def test_a_session_keeps_the_author_who_registered_it_first(laptop: Engram, phone: Engram) -> None:
    session = laptop.sessions.register("codex", "Working", external_id="c-1")
    assert phone.sessions.register("codex", "Going on", external_id="c-1") == session
    assert phone.sessions.heartbeat(session).author == "laptop"
    assert phone.sessions.ensure(session).author == "laptop"
    assert phone.sessions.ensure("another").author == "phone"


@pytest.mark.requirement("AUTHOR-3")
def test_a_block_has_the_author_of_its_current_version(eng: Engram, laptop: Engram, phone: Engram) -> None:
    laptop.blocks.create("plan", "One.")
    phone.blocks.append("plan", " Two.")
    assert eng.blocks.update("plan", "Three.").author is None
    assert phone.blocks.restore("plan", 1).author == "phone"
    assert [edit.author for edit in eng.blocks.versions("plan")] == ["phone", None, "phone", "laptop"]


@pytest.mark.requirement("AUTHOR-4")
def test_what_a_pass_writes_has_no_author_whoever_has_started_it(eng: Engram, laptop: Engram, store_url: str) -> None:
    session = talk(laptop)
    report = dream(laptop)
    assert report.gists == [session] and report.blocks
    assert {memory.author for memory in eng.memories.list()} == {None}
    assert {block.author for block in eng.blocks.list()} == {None}
    (passed,) = [each for each in eng.sessions.list(dreams=True) if each.type == "dream"]
    assert passed.author is None
    assert values(store_url, "memory_versions", "author") == []


@pytest.mark.requirement("AUTHOR-4")
def test_a_pass_that_changes_a_memory_leaves_its_first_author(eng: Engram, laptop: Engram) -> None:
    memory = laptop.remember("The office is in Bern")
    dream_of(laptop, lambda context: context.memories.update(memory.id, "The office is in Basel"))
    assert eng.memories.get(memory.id).author == "laptop"
    assert [version.author for version in eng.memories.history(memory.id)] == [None, "laptop"]


@pytest.mark.requirement("AUTHOR-4")
def test_a_proposal_that_is_applied_by_hand_has_the_author_who_applies_it(open_store: Callable[..., Engram]) -> None:
    eng = open_store(dream_min_age=0)
    for text, kind in (("Invoices go out at noon.", "note"), ("Invoices go out at noon", "fact")):
        eng.as_author("laptop").remember(text, kind=kind)
    eng.dream(force=True, stages=["consolidate"])
    (proposal,) = eng.proposals.list()
    applied = eng.as_author("phone").proposals.apply(proposal.id)
    assert applied.result is not None
    assert eng.memories.get(applied.result).author == "phone"
    assert {eng.memories.get(id).author for _, id in proposal.targets} == {"laptop"}


@pytest.mark.requirement("AUTHOR-5", "UNDO-1")
def test_an_undo_brings_back_every_author(eng: Engram, laptop: Engram, phone: Engram) -> None:
    memory = laptop.remember("The office is in Bern")
    phone.memories.update(memory.id, "The office is in Basel")
    other = phone.remember("The canteen is in Bern")
    laptop.blocks.create("plan", "One.")
    phone.blocks.update("plan", "Two.")
    eng.backlog.work()
    before = logical(eng)
    dream_of(
        phone,
        lambda context: context.memories.update(memory.id, "The office is in Zug"),
        lambda context: context.memories.supersede(other.id, memory.id),
        lambda context: context.blocks.update("plan", "Three."),
        lambda context: context.blocks.delete("plan"),
    )
    assert logical(eng) != before
    laptop.dreams.undo()
    assert logical(eng) == before
    block = eng.blocks.get("plan")
    assert block is not None and block.author == "phone"
    assert [version.author for version in eng.blocks.versions("plan")] == ["phone", "laptop"]
    assert [version.author for version in eng.memories.history(memory.id)] == ["phone", "laptop"]
    assert [hit.memory_id for hit in eng.recall("the office in Basel", author="laptop")] == [memory.id]


@pytest.mark.requirement("AUTHOR-5", "UNDO-1")
def test_an_undo_with_a_snapshot_of_an_earlier_release_keeps_the_author(
    eng: Engram, laptop: Engram, store_url: str
) -> None:
    memory = laptop.remember("The office is in Bern")
    dream_of(eng, lambda context: context.memories.update(memory.id, "The office is in Zug"))
    (snapshot,) = values(store_url, "journal", "before")
    assert '"author":"laptop",' in snapshot
    run(store_url, """UPDATE journal SET before = REPLACE(before, '"author":"laptop",', '')""")
    eng.dreams.undo()
    restored = eng.memories.get(memory.id)
    assert (restored.content, restored.author) == ("The office is in Bern", "laptop")
    assert [hit.memory_id for hit in eng.recall("the office in Bern", author="laptop")] == [memory.id]


@pytest.mark.requirement("AUTHOR-5")
def test_forgetting_a_part_keeps_the_authors_of_the_rest(eng: Engram, laptop: Engram, phone: Engram) -> None:
    session = laptop.sessions.register("codex", "Working")
    turn = laptop.exchanges.add(session, "user", "The office is in Bern")
    kept = laptop.exchanges.add(session, "user", "The canteen is in Bern")
    memory = laptop.remember("The office and the canteen are in Bern", sources=[("exchange", turn), ("exchange", kept)])
    receipt = phone.forget(exchange=turn)
    assert receipt.author == "phone"
    assert eng.exchanges.get(kept).author == "laptop"
    assert eng.memories.get(memory.id).author == "laptop"
    assert {version.author for version in eng.memories.history(memory.id)} == {"laptop"}


@pytest.mark.requirement("AUTHOR-6")
@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
def test_recall_names_the_author_and_filters_by_it(eng: Engram, mode: str) -> None:
    texts = {"laptop": "Deploys never happen on Fridays", "phone": "Deploys on Fridays need two reviews"}
    for name, text in texts.items():
        author = eng.as_author(name)
        session = author.sessions.register("codex", "Working")
        author.exchanges.add(session, "user", f"{text}, she said.")
        author.remember(text, kind="decision")
        author.sessions.log(session, f"{text}, noted")
    eng.remember("Deploys on Fridays are frowned upon")
    eng.backlog.work()

    def recalled(**filters: str) -> list[Hit]:
        return eng.recall("deploys on Fridays", k=20, mode=mode, roles=["user", "log"], **filters)

    assert {hit.author for hit in recalled()} == {"laptop", "phone", None}
    for name, text in texts.items():
        found = recalled(author=name)
        assert {hit.author for hit in found} == {name}
        assert {hit.label for hit in found} >= {"decision", "log"}
        assert all(text in hit.text for hit in found)
    assert recalled(author="nobody") == []
    with pytest.raises(InvalidInput, match="author is empty"):
        recalled(author="")


@pytest.mark.requirement("AUTHOR-6")
def test_an_author_is_found_among_many_others(eng: Engram, laptop: Engram, phone: Engram) -> None:
    session = eng.sessions.register("codex", "Working")
    turn = {"session_id": session, "role": "user"}
    phone.exchanges.add_many({**turn, "content": f"Deploy number {number} was on a Friday"} for number in range(300))
    laptop.exchanges.add(session, "user", "A deploy may also be on a Monday")
    (hit,) = eng.recall("deploy on a Friday", k=5, author="laptop")
    assert (hit.author, hit.text) == ("laptop", "A deploy may also be on a Monday")


@pytest.mark.requirement("AUTHOR-6")
def test_the_turns_around_a_hit_name_their_authors(eng: Engram, laptop: Engram, phone: Engram) -> None:
    session = laptop.sessions.register("codex", "Working")
    laptop.exchanges.add(session, "user", "What about deploys?")
    phone.exchanges.add(session, "assistant", "They never happen on Fridays")
    (hit,) = [hit for hit in eng.recall("Fridays", k=1, roles=["assistant"], what=["exchanges"], neighbours=1)]
    assert [(turn.content, turn.author) for turn in hit.neighbours] == [("What about deploys?", "laptop")]


@pytest.mark.requirement("AUTHOR-6")
def test_memories_are_listed_by_their_first_author(eng: Engram, laptop: Engram, phone: Engram) -> None:
    first = laptop.remember("Deploys never happen on Fridays", tags=["deploy"])
    second = phone.remember("Deploys happen on Mondays", tags=["deploy"])
    eng.remember("Deploys take an hour", tags=["deploy"])
    laptop.memories.update(second.id, "Deploys happen on Tuesdays")
    for more in ({}, {"tag": "deploy"}, {"latest": True}, {"tag": "deploy", "latest": True}):
        assert [memory.id for memory in eng.memories.list(author="laptop", **more)] == [first.id]
        assert [memory.id for memory in eng.memories.list(author="phone", **more)] == [second.id]
    assert len(eng.memories.list()) == 3
    with pytest.raises(InvalidInput, match="author is empty"):
        eng.memories.list(author="")


@pytest.mark.requirement("AUTHOR-8")
def test_the_situation_report_names_authors_made_safe_to_show(eng: Engram) -> None:
    laptop = eng.as_author("laptop")
    mine = laptop.sessions.register("codex", "Working")
    eng.sessions.register("codex", "Working locally")
    done = eng.as_author('Work "laptop"').sessions.register("codex", "Testing")
    eng.sessions.complete(done, "Tested")
    laptop.messages.send(None, mine, "Are you there?")
    laptop.world.set("All is well", updated_by="lyra")
    report = eng.sitrep(session_id=mine)
    assert f"{mine} codex by laptop: Working" in report
    assert "codex: Working locally" in report
    assert rf'{done} codex by "Work \"laptop\"": Testing → Tested' in report
    assert "- from a person by laptop, " in report
    assert "by lyra (laptop)):" in report


@pytest.mark.requirement("AUTHOR-9")
def test_an_import_has_the_author_of_its_caller(eng: Engram, laptop: Engram, store_url: str) -> None:
    feed(laptop, told("one", "We deploy on Mondays", "Noted"))
    (session,) = eng.sessions.list()
    assert session.author == "laptop"
    assert {turn.author for turn in eng.exchanges.history(session.id)} == {"laptop"}
    feed(eng, told("one", "We deploy on Mondays", "Noted", "And on Tuesdays"))
    assert [turn.author for turn in eng.exchanges.history(session.id)] == ["laptop", "laptop", None]
    assert eng.sessions.get(session.id).author == "laptop"


def _write_everything(eng: Engram) -> None:
    """A row in every table that has authors."""
    by, other = eng.sessions.register("codex", "Working"), eng.sessions.ensure("other").id
    eng.exchanges.add(by, "user", "We deploy on Mondays")
    eng.sessions.log(by, "router done")
    eng.exchanges.add(other, "log", "noted")
    eng.messages.send(by, other, "May I deploy?")
    eng.messages.send(None, "person", "May I deploy?")
    memory = eng.remember("Deploys never happen on Fridays", session_id=by)
    eng.memories.update(memory.id, "Deploys never happen on Sundays")
    eng.memories.update(memory.id, pinned=True)
    eng.blocks.create("plan", "One.")
    eng.blocks.update("plan", "Two.")
    eng.forget(memory=eng.remember("The lift is broken").id)
    eng.backlog.work()
