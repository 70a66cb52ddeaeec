"""The portrait: what it is made of, whose it is, and that no forgetting or undo can lose or double it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from engram import Block, Engram, InvalidInput, Memory
from engram.dreaming.stages.portrait import load_self
from engram.llm import quoted
from engram.memory import citations
from tests._models import SESSION, Model, plainly, serve, session_answer
from tests._talks import add, talk
from tests.conftest import ShiftedClock

Open = Callable[..., Engram]


@pytest.fixture
def model() -> Iterator[Model]:
    pytest.importorskip("openai")
    with serve() as model:
        model.answer = telling
        yield model


@pytest.fixture
def served(open_store: Open, model: Model) -> Engram:
    return open_store(llm="openai:m", llm_base_url=model.url, embedder="none")


def telling(prompt: str) -> str:
    """A model that tells each gist in one line and keeps what it told before."""
    rows = quoted(prompt)
    if "Continue the narrative" in prompt:
        before = [text for id, text in rows if id == "draft" or id.startswith("b:")]
        known = [line[2:] for text in before for line in text.split("\n") if line.startswith("- ")]
        told = [f"{text.splitlines()[0][:80]} [{id}]" for id, text in rows if id.startswith("m")]
        return json.dumps({"arc": [*known, *told], "open_threads": []})
    if SESSION in prompt:
        return session_answer(title=f"Worked on {rows[-1][1].rpartition('of ')[2]}")
    return plainly(prompt)


def text_of(eng: Engram, name: str) -> str:
    block = eng.blocks.get(name)
    return block.content if block else ""


def lines_of(eng: Engram, name: str) -> list[str]:
    return [line for line in text_of(eng, name).split("\n") if line.startswith("- ")]


def told(eng: Engram) -> list[int]:
    """The gists that the arc names, in its order."""
    arc = text_of(eng, "narrative").split("## Open threads")[0]
    return [int(each[1:]) for line in arc.split("\n") for each in citations.handles(line)]


def in_order(eng: Engram) -> list[int]:
    """The gists in order of time."""
    found = [gist for gists in eng.memories.gists_by_month().values() for gist in gists]
    return [gist.memory_id for gist in sorted(found, key=lambda gist: (gist.at, gist.memory_id))]


def dream(eng: Engram) -> None:
    (report,) = eng.dream(force=True)
    assert report.errors == []


def about(eng: Engram, text: str, day: str = "2026-03-02", **more: object) -> Memory:
    return eng.remember(text, kind="fact", tags=["about-user"], data={"said": day}, **more)  # type: ignore[arg-type]


@pytest.mark.requirement("PORTRAIT-1")
def test_the_profile_lists_what_is_about_the_user_with_its_day_its_memory_and_how_often(
    eng: Engram,
) -> None:
    lives = about(eng, "The user lives in Bern.")
    for _ in range(3):
        tea = eng.remember("The user prefers tea to coffee.", kind="preference", data={"said": "2026-03-05"})
    eng.remember("The router is written in Rust.", kind="fact")
    own = eng.remember("The user never deploys on Fridays.", kind="preference")
    dream(eng)
    assert text_of(eng, "profile").split("\n") == [
        "## Facts",
        f"- The user lives in Bern. (2026-03-02) [m{lives.id}]",
        "",
        "## Preferences",
        f"- The user prefers tea to coffee. (2026-03-05, said 3 times) [m{tea.id}]",
        f"- The user never deploys on Fridays. ({own.created_at[:10]}) [m{own.id}]",
    ]


@pytest.mark.requirement("PORTRAIT-1")
def test_the_profile_costs_no_call(served: Engram, model: Model) -> None:
    about(served, "The user lives in Bern.")
    dream(served)
    assert "Bern" in text_of(served, "profile")
    assert model.asked == []


@pytest.mark.requirement("PORTRAIT-1", "DREAM-21")
@pytest.mark.parametrize("trust", ["tool", "import"])
def test_what_others_said_enters_the_profile_only_when_a_person_approved_it(eng: Engram, trust: str) -> None:
    memory = eng.remember("The user prefers zanzibar.", kind="preference", trust=trust)
    about(eng, "The user lives in zanzibar.", trust=trust)
    dream(eng)
    assert "zanzibar" not in text_of(eng, "profile")
    eng.memories.approve(memory.id)
    dream(eng)
    assert lines_of(eng, "profile") == [f"- The user prefers zanzibar. ({memory.created_at[:10]}) [m{memory.id}]"]


@pytest.mark.requirement("PORTRAIT-2")
def test_the_profile_follows_its_memories_and_is_not_written_when_nothing_changed(
    eng: Engram, clock: ShiftedClock
) -> None:
    bern, zurich, tea, lamp = (
        about(eng, text) for text in ("Lives in Bern.", "Lives in Zurich.", "Drinks tea.", "Has a lamp.")
    )
    short = about(eng, "Is on holiday.", expires_at="2999-01-01T00:00:00Z")
    dream(eng)
    block = eng.blocks.get("profile")
    dream(eng)
    assert eng.blocks.get("profile") == block
    eng.memories.supersede(bern.id, zurich.id)
    eng.memories.archive(tea.id)
    eng.memories.update(short.id, expires_at="2020-01-01T00:00:00Z")
    eng.forget(memory=lamp.id)
    assert "lamp" not in text_of(eng, "profile")
    # Without force, and however little else there is to do.
    (report,) = eng.dream()
    assert report.blocks == {"profile": 2}
    assert lines_of(eng, "profile") == [f"- Lives in Zurich. (2026-03-02) [m{zurich.id}]"]


@pytest.mark.requirement("PORTRAIT-2", "FORGET-2")
def test_forgetting_a_memory_removes_its_line_from_every_version(eng: Engram) -> None:
    tea, lamp = about(eng, "Drinks tea."), about(eng, "Has a lamp.")
    dream(eng)
    about(eng, "Lives in Bern.")
    dream(eng)
    eng.forget(memory=lamp.id)
    assert ["lamp" in edit.new for edit in eng.blocks.versions("profile")] == [False, False]
    assert [f"[m{tea.id}]" in edit.new for edit in eng.blocks.versions("profile")] == [True, True]


@pytest.mark.requirement("PORTRAIT-2", "UNDO-1")
def test_a_profile_of_an_earlier_release_is_replaced_once_and_that_can_be_undone(eng: Engram) -> None:
    old = "## Facts\n- “I live in Bern.” (2026-03-02) [e12]"
    eng.blocks.create("profile", old, actor="dream")
    memory = about(eng, "The user lives in Bern.")
    dream(eng)
    assert lines_of(eng, "profile") == [f"- The user lives in Bern. (2026-03-02) [m{memory.id}]"]
    dream(eng)
    assert [edit.version for edit in eng.blocks.versions("profile")] == [2, 1]
    eng.dreams.undo()
    assert text_of(eng, "profile") == old


@pytest.mark.requirement("PORTRAIT-2", "PORTRAIT-5")
def test_lines_that_a_person_added_to_a_profile_of_an_earlier_release_are_not_lost(eng: Engram) -> None:
    mixed = "## Facts\n- I am left-handed.\n- “I live in Bern.” (2026-03-02) [e12]"
    eng.blocks.create("profile", mixed, actor="dream")
    about(eng, "The user lives in Bern.")
    dream(eng)
    assert text_of(eng, "profile") == mixed
    assert [proposal.what for proposal in eng.proposals.list()] == ["rewrite"]


@pytest.mark.requirement("PORTRAIT-3")
@pytest.mark.parametrize("thinker", ["extractive", "model"])
def test_after_a_forget_the_narrative_is_in_order_and_tells_everything_once(
    open_store: Open, model: Model, thinker: str
) -> None:
    url = {"llm": "openai:m", "llm_base_url": model.url} if thinker == "model" else {}
    eng = open_store(embedder="none", **url)
    days = ("2026-03-20", "2026-03-02", "2026-04-07", "2026-03-11")
    sessions = [
        talk(eng, f"the {word}", at=f"{day}T10:00:00Z")
        for word, day in zip(("anvil", "bellows", "crucible", "dynamo"), days, strict=True)
    ]
    dream(eng)
    assert told(eng) == in_order(eng)
    eng.forget(exchange=eng.exchanges.history(sessions[0])[0].id)
    for _ in range(2):
        dream(eng)
        assert told(eng) == in_order(eng)
        assert len(told(eng)) == 4
    eng.forget(session=sessions[1])
    dream(eng)
    assert told(eng) == in_order(eng)
    assert len(told(eng)) == 3


@pytest.mark.requirement("PORTRAIT-3")
@pytest.mark.parametrize("thinker", ["extractive", "model"])
def test_the_narrative_goes_on_with_further_sessions_and_with_a_session_that_grew(
    open_store: Open, model: Model, thinker: str
) -> None:
    url = {"llm": "openai:m", "llm_base_url": model.url} if thinker == "model" else {}
    eng = open_store(embedder="none", **url)
    first = talk(eng, "the anvil", at="2026-03-20T10:00:00Z")
    dream(eng)
    talk(eng, "the bellows", at="2026-04-02T10:00:00Z")
    # An earlier day, as an import has it.
    talk(eng, "the crucible", at="2026-01-02T10:00:00Z")
    dream(eng)
    assert told(eng) == in_order(eng)
    assert len(told(eng)) == 3
    add(eng, first, "the dynamo", at="2026-03-21T10:00:00Z", turns=20)
    dream(eng)
    assert told(eng) == in_order(eng)
    assert len(told(eng)) == 3


@pytest.mark.requirement("PORTRAIT-3")
def test_a_narrative_loses_the_sections_that_an_earlier_release_wrote(eng: Engram) -> None:
    talk(eng)
    dream(eng)
    (line,) = lines_of(eng, "narrative")[:1]
    former = f"## How it went\n{line}\n\n## What keeps coming up\n- router (3 sessions)\n\n## Worth coming back to\n- x"
    eng.blocks.update("narrative", former, actor="dream")
    dream(eng)
    assert text_of(eng, "narrative") == f"## How it went\n{line}"


@pytest.mark.requirement("PORTRAIT-3")
def test_a_long_narrative_leaves_its_oldest_lines_to_the_eras(served: Engram) -> None:
    for number in range(45):
        talk(served, f"task {number:02}", at=f"2026-{1 + number // 15:02}-{1 + number % 15:02}T10:00:00Z", turns=2)
    dream(served)
    lines = lines_of(served, "narrative")
    assert lines[0] == "- Before: see the era of 2026-01."
    assert told(served) == in_order(served)[5:]
    talk(served, "one more", at="2026-04-01T10:00:00Z", turns=2)
    dream(served)
    lines = lines_of(served, "narrative")
    assert lines[0] == "- Before: see the era of 2026-01."
    assert sum("Before:" in line for line in lines) == 1
    assert told(served) == in_order(served)[6:]


@pytest.mark.requirement("PORTRAIT-4")
def test_no_era_is_lost_after_forget_undo_and_pass(eng: Engram) -> None:
    talk(eng, "the anvil", at="2026-03-02T10:00:00Z")
    gone = [talk(eng, f"the {word}", at="2026-04-02T10:00:00Z") for word in ("bellows", "crucible")]
    dream(eng)
    for session in gone:
        eng.forget(session=session)
    eng.dreams.undo()
    dream(eng)
    assert [era.key for era in eng.memories.list(kind="era")] == ["2026-03"]
    assert told(eng) == in_order(eng)


@pytest.mark.requirement("PORTRAIT-4")
def test_an_era_that_a_user_archived_comes_back_only_with_news_of_its_month(eng: Engram) -> None:
    session = talk(eng)
    dream(eng)
    (era,) = eng.memories.list(kind="era")
    eng.memories.archive(era.id)
    dream(eng)
    assert eng.memories.list(kind="era") == []
    add(eng, session, "the parser", turns=20)
    dream(eng)
    assert len(eng.memories.list(kind="era")) == 1


def era_of(eng: Engram, month: str) -> Memory:
    (era,) = (era for era in eng.memories.list(kind="era") if era.key == month)
    return era


@pytest.mark.requirement("PORTRAIT-4")
def test_the_count_of_an_era_follows_when_its_story_stays_the_same(served: Engram, model: Model) -> None:
    """The scripted model tells every month in the same words."""
    first = talk(served, "the anvil", at="2026-03-02T10:00:00Z")
    for number in range(2, 4):
        dream(served)
        talk(served, f"task {number}", at="2026-03-05T10:00:00Z")
        dream(served)
        era = era_of(served, "2026-03")
        assert isinstance(era.data, dict) and era.data["sessions"] == number
        assert era.content.startswith(f"2026-03: {number} sessions.\n")
    served.forget(session=first)
    dream(served)
    era = era_of(served, "2026-03")
    assert isinstance(era.data, dict) and era.data["sessions"] == 2
    assert era.content.startswith("2026-03: 2 sessions.\n")


@pytest.mark.requirement("PORTRAIT-4")
def test_a_session_that_moves_to_an_earlier_month_leaves_its_old_era(eng: Engram) -> None:
    session = talk(eng, "the anvil", at="2026-04-02T10:00:00Z")
    talk(eng, "the bellows", at="2026-04-03T10:00:00Z")
    dream(eng)
    add(eng, session, "the crucible", at="2026-03-02T10:00:00Z", turns=20)
    dream(eng)
    assert "anvil" not in era_of(eng, "2026-04").content
    assert era_of(eng, "2026-04").content.startswith("2026-04: 1 session.")
    assert era_of(eng, "2026-03").content.startswith("2026-03: 1 session.")


def owned(eng: Engram, name: str, text: str, actor: str | None = None) -> Block:
    if eng.blocks.get(name) is None:
        return eng.blocks.create(name, text, actor=actor)
    return eng.blocks.update(name, text, actor=actor)


@pytest.mark.requirement("PORTRAIT-5")
@pytest.mark.parametrize("actor", [None, "lyra"])
@pytest.mark.parametrize("name", ["profile", "narrative", "self"])
def test_a_text_of_a_person_or_a_companion_is_not_replaced_but_proposed_for(
    open_store: Open, clock: ShiftedClock, name: str, actor: str | None
) -> None:
    eng = open_store(companion=True)
    about(eng, "The user lives in Bern.")
    theirs = owned(eng, name, "Mine: I wrote this.", actor)
    clock.advance(60)
    talk(eng)
    for _ in range(2):
        (report,) = eng.dream(force=True)
        assert report.errors == []
        assert name not in report.blocks
    assert eng.blocks.get(name) == theirs
    (proposal,) = eng.proposals.list()
    assert (proposal.what, "Mine: I wrote this." in proposal.diff) == ("rewrite", True)
    assert f"wrote the text of block {name}" in proposal.why
    eng.proposals.apply(proposal.id, by_person=True)
    now = eng.blocks.get(name)
    assert now is not None
    assert (now.content, now.updated_by) == (proposal.content, "dream")
    # From here on the passes write it again.
    clock.advance(60)
    about(eng, "The user has a lamp.")
    talk(eng, "the parser", at="2026-05-05T10:00:00Z")
    eng.dream(force=True)
    assert eng.proposals.list() == []
    assert (eng.blocks.get(name) or now).version == now.version + 1


@pytest.mark.requirement("PORTRAIT-5", "UNDO-1")
def test_an_accepted_text_can_be_undone_and_then_is_theirs_again(eng: Engram) -> None:
    about(eng, "The user lives in Bern.")
    owned(eng, "profile", "Mine.")
    dream(eng)
    (proposal,) = eng.proposals.list()
    applied = eng.proposals.apply(proposal.id)
    eng.dreams.undo(applied.applied_as)
    assert text_of(eng, "profile") == "Mine."
    dream(eng)
    assert text_of(eng, "profile") == "Mine."


@pytest.mark.requirement("PORTRAIT-5")
def test_a_rejected_text_is_not_proposed_again_and_a_new_one_takes_the_place_of_an_undecided_one(eng: Engram) -> None:
    about(eng, "The user lives in Bern.")
    owned(eng, "profile", "Mine.")
    dream(eng)
    eng.proposals.reject(eng.proposals.list()[0].id)
    owned(eng, "profile", "Still mine.")
    dream(eng)
    assert eng.proposals.list() == []
    for word in ("lamp", "cat"):
        about(eng, f"The user has a {word}.")
        dream(eng)
        (proposal,) = eng.proposals.list()
        assert word in proposal.content
    assert text_of(eng, "profile") == "Still mine."


@pytest.mark.requirement("PORTRAIT-5")
def test_an_accepted_text_is_written_by_the_next_pass_unless_the_block_changed(eng: Engram) -> None:
    about(eng, "The user lives in Bern.")
    owned(eng, "profile", "Mine.")
    dream(eng)
    eng.proposals.accept(eng.proposals.list()[0].id, by_person=True)
    dream(eng)
    assert "Bern" in text_of(eng, "profile")
    owned(eng, "profile", "Mine again.")
    about(eng, "The user has a lamp.")
    dream(eng)
    eng.proposals.accept(eng.proposals.list()[0].id, by_person=True)
    owned(eng, "profile", "Mine, and later.")
    eng.dream(force=True)
    assert text_of(eng, "profile") == "Mine, and later."


@pytest.mark.requirement("PORTRAIT-5")
def test_an_imported_text_counts_as_derived(eng: Engram) -> None:
    about(eng, "The user lives in Bern.")
    owned(eng, "profile", "## Facts\n- Imported. [e1]", "import")
    dream(eng)
    assert "Imported" not in text_of(eng, "profile")
    assert eng.proposals.list() == []


@pytest.mark.requirement("PORTRAIT-5")
def test_the_text_of_a_rewrite_is_not_edited_in_the_review(eng: Engram) -> None:
    about(eng, "The user lives in Bern.")
    owned(eng, "profile", "Mine.")
    dream(eng)
    (proposal,) = eng.proposals.list()
    with pytest.raises(InvalidInput, match="edit the block itself"):
        eng.proposals.edit(proposal.id, "Another text.")


@pytest.mark.requirement("PORTRAIT-5")
def test_a_models_proposal_continues_their_narrative_with_everything_since(
    served: Engram, model: Model, clock: ShiftedClock
) -> None:
    owned(served, "narrative", "## How it went\n- I began alone.")
    for word in ("anvil", "bellows"):
        clock.advance(60)
        talk(served, f"the {word}")
        dream(served)
    (proposal,) = served.proposals.list()
    assert proposal.content.startswith("## How it went\n- I began alone.")
    assert "anvil" in proposal.content and "bellows" in proposal.content
    asked = len(model.asked)
    dream(served)
    assert len(model.asked) == asked


@pytest.mark.requirement("PORTRAIT-5", "FORGET-2")
def test_a_proposed_text_goes_when_something_it_tells_is_forgotten(eng: Engram, clock: ShiftedClock) -> None:
    owned(eng, "narrative", "Mine.")
    clock.advance(60)
    session = talk(eng)
    dream(eng)
    assert len(eng.proposals.list()) == 1
    eng.forget(exchange=eng.exchanges.history(session)[0].id)
    assert eng.proposals.list(None) == []
    assert text_of(eng, "narrative") == "Mine."


@pytest.mark.requirement("PORTRAIT-6")
def test_without_a_companion_there_is_no_reflection_no_mood_and_no_curiosity(eng: Engram) -> None:
    for number in range(4):
        talk(eng, f"task {number}")
        (report,) = eng.dream(force=True)
        assert "reflect" not in report.seconds
        assert report.drives.curiosity == 0
    assert eng.blocks.get("self") is None
    eng.blocks.create("self", json.dumps({"mood": "strained", "energy": 0.9}))
    assert "strained" not in eng.context("task", budget=20_000)
    assert "What keeps coming up" not in text_of(eng, "narrative")


@pytest.mark.requirement("PORTRAIT-6")
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("force", [True, False])
def test_asking_for_a_reflection_says_what_makes_a_workspace_a_companions(
    eng: Engram, force: bool, dry_run: bool
) -> None:
    with pytest.raises(InvalidInput, match=r"not a companion's.*\[workspaces.default\] and companion = true"):
        eng.dream(stages=["gists", "reflect"], force=force, dry_run=dry_run)


@pytest.mark.requirement("PORTRAIT-6")
def test_of_all_workspaces_only_the_companions_reflect(open_store: Open) -> None:
    eng = open_store(companion=True)
    for name in ("default", "work"):
        talk(eng.workspace(name))
        eng.workspace(name).dream(force=True, stages=["gists"])
    reports = eng.dream(force=True, stages=["reflect"], all_workspaces=True)
    assert [report.workspace for report in reports] == ["default"]
    assert eng.workspace("work").blocks.get("self") is None
    assert eng.blocks.get("self") is not None


@pytest.mark.requirement("PORTRAIT-6")
@pytest.mark.parametrize("text", ["", "3", "[1, 2]", '"calm"', '{"mood": 3}', "[" * 10_000, "I feel fine."])
def test_a_companion_may_write_anything_into_self(open_store: Open, text: str) -> None:
    eng = open_store(companion=True)
    data = {"mood": ["calm", {"since": "noon"}], "trust": 0.7}
    eng.blocks.create("self", text, actor="lyra", data=data)
    talk(eng)
    dream(eng)
    assert load_self(text) is None
    block = eng.blocks.get("self")
    assert block is not None
    assert (block.content, block.data) == (text, data)
    assert '"since": "noon"' in eng.context(budget=20_000)


@pytest.mark.requirement("PORTRAIT-6")
def test_a_reflection_leaves_the_companions_data_alone(open_store: Open, clock: ShiftedClock) -> None:
    eng = open_store(companion=True)
    eng.blocks.create("self", "", actor="lyra", data={"mood": "calm"})
    clock.advance(60)
    talk(eng)
    dream(eng)
    eng.proposals.apply(eng.proposals.list()[0].id)
    block = eng.blocks.get("self")
    assert block is not None
    assert block.data == {"mood": "calm"}
    assert load_self(block.content) is not None


@pytest.mark.requirement("PORTRAIT-7")
def test_a_reflection_is_one_call(open_store: Open, model: Model) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url, companion=True)
    talk(eng)
    dream(eng)
    asked = [prompt for prompt in model.asked if "first person" in prompt]
    assert len(asked) == 1
    assert "Before you answer, compare" in asked[0]


@pytest.mark.requirement("PORTRAIT-7")
def test_gists_are_quoted_in_order_with_their_date_time_and_project(served: Engram, model: Model) -> None:
    for at, project in (("2026-03-20T14:02:31Z", "shop"), ("2026-03-02T09:30:00Z", "lab")):
        session = served.sessions.register("claude-code", "work", project=project)
        add(served, session, "the router", at=at)
    dream(served)
    labels = ["2026-03-02 09:30, project lab", "2026-03-20 14:02, project shop"]
    for words in ("one calendar month", "Continue the narrative"):
        (prompt,) = [each for each in model.asked if words in each]
        rows = [json.loads(line) for line in prompt.split("\n") if line.startswith('{"passage"')]
        assert [row["by"] for row in rows] == labels


@pytest.mark.requirement("PORTRAIT-7")
def test_nothing_is_told_about_sessions_while_a_piece_of_one_waits(open_store: Open) -> None:
    eng = open_store(llm="agent", companion=True)
    talk(eng, "the anvil")
    eng.dream(force=True)
    while item := eng.work.next():
        eng.work.submit(item.id, telling(item.prompt))
    talk(eng, "the bellows")
    (report,) = eng.dream(force=True)
    assert report.errors == []
    assert [note.partition(":")[0] for note in report.notes or ()] == ["eras", "narrative", "reflect"]
    assert "put off, because" in (report.notes or [""])[0]
    assert eng.dreams.show(report.id or 0) == report
    stages = set()
    while item := eng.work.next():
        stages.add(item.stage)
    assert not stages & {"eras", "narrative", "reflect"}


@pytest.mark.requirement("PORTRAIT-7")
def test_work_that_agents_never_did_does_not_hold_up_a_model(open_store: Open, model: Model) -> None:
    eng = open_store(llm="agent")
    talk(eng)
    eng.dream(force=True)
    assert eng.work.counts().waiting
    served = open_store(llm="openai:m", llm_base_url=model.url)
    (report,) = served.dream(force=True)
    assert (report.errors, report.notes, report.eras) == ([], None, ["2026-03"])


@pytest.mark.requirement("PORTRAIT-8")
def test_what_the_user_said_in_an_imported_chat_is_the_users(eng: Engram) -> None:
    session = eng.sessions.register("import", "a chat of last year")
    said = "I prefer tea over coffee in every meeting."
    eng.exchanges.add_many(
        [
            {"session_id": session, "role": "user", "content": said, "created_at": "2025-03-02T10:00:00Z"},
            {"session_id": session, "role": "assistant", "content": "Noted.", "created_at": "2025-03-02T10:01:00Z"},
        ]
    )
    assert [turn.trust for turn in eng.exchanges.history(session)] == ["user", "agent"]
    dream(eng)
    assert "tea over coffee" in text_of(eng, "profile")
    assert "(2025-03-02)" in text_of(eng, "profile")


@pytest.mark.requirement("PORTRAIT-8", "DREAM-21")
def test_a_document_of_others_is_imported_and_never_passes_for_the_users_words(eng: Engram) -> None:
    session = eng.sessions.register("import", "a handbook")
    said = "I prefer tea over coffee in every meeting."
    eng.exchanges.add(session, "user", said, trust="import", created_at="2025-03-02T10:00:00Z")
    dream(eng)
    assert "tea" not in text_of(eng, "profile") + text_of(eng, "narrative")
