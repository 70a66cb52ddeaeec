"""Somebody forgets what a pass is thinking about: it is not written, the pass goes on, and a later one does it again.

Every turn has a word of its own, and the models here give back everything that they are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from engram import DreamReport, Engram, WorkNotFound
from engram.dreaming import grounds, plans
from engram.dreaming.pass_context import PassContext
from engram.dreaming.thinking import Thinker, Thought
from engram.llm import Answer, Prompt
from engram.llm.extractive.thinker import Extractive
from engram.memory.memories import Memories, Prepared
from tests._models import SESSION, Model, echoing, serve
from tests._passes import dream_of
from tests._tables import holds

Open = Callable[..., Engram]
#: By a word that only the prompt of that task has.
TASKS = {
    "session": SESSION,
    "era": "one calendar month",
    "narrative": "Continue the narrative",
    "reflect": "Write in the first person",
}
STAGES = {"session": "sessions", "era": "eras"}
GONE, KEPT = "xqgone", "xqkept"


class Meanwhile:
    """What is forgotten while a task is thought about; once."""

    def __init__(self, eng: Engram) -> None:
        self.eng = eng
        self.task = ""
        self.forget: Callable[[], object] = lambda: None
        self.times = 0

    def thinks(self, task: str, prompt: object) -> None:
        if task == self.task and not self.times and GONE in str(prompt):
            self.times += 1
            self.forget()


@pytest.fixture
def model() -> Iterator[Model]:
    pytest.importorskip("openai")
    with serve() as model:
        model.answer = echoing
        yield model


def filled(eng: Engram) -> tuple[str, int]:
    """Two sessions of the same month; the first one, and its turn that will be forgotten."""
    sessions = [eng.sessions.register("claude-code", f"session {number}") for number in range(2)]
    said = eng.exchanges.add(sessions[0], "user", f"I prefer {GONE} for the billing service.")
    for number in range(3):
        text = f"We decided to keep {KEPT}{number} in the billing service."
        eng.exchanges.add(sessions[0], ("user", "assistant")[number % 2], text)
    eng.exchanges.add(sessions[1], "user", f"We decided to order {KEPT}3 for the billing service on Monday.")
    return sessions[0], said


def extractive(open_store: Open, patched: pytest.MonkeyPatch) -> Meanwhile:
    meanwhile = Meanwhile(open_store(companion=True))
    complete = Extractive.complete

    def complete_slowly(self: Extractive, prompt: Prompt, **options: Any) -> Answer:
        meanwhile.thinks(prompt.task, prompt)
        return complete(self, prompt, **options)

    patched.setattr(Extractive, "complete", complete_slowly)
    return meanwhile


def served(open_store: Open, model: Model) -> Meanwhile:
    meanwhile = Meanwhile(open_store(llm="openai:m", llm_base_url=model.url, companion=True))

    def answer(prompt: str) -> str:
        meanwhile.thinks(next(task for task, words in TASKS.items() if words in prompt), prompt)
        return echoing(prompt)

    model.answer = answer
    return meanwhile


def agents(open_store: Open, patched: pytest.MonkeyPatch) -> Meanwhile:
    """Their answers are there already; what was shown is forgotten right before they are used."""
    meanwhile = Meanwhile(open_store(llm="agent", companion=True))
    think = Thinker.think

    def think_slowly(self: Thinker, stage: str, subject: str, build: Any, **options: Any) -> Thought:
        thought = think(self, stage, subject, build, **options)
        prompt, _ = build()
        meanwhile.thinks(prompt.task, prompt)
        return thought

    patched.setattr(Thinker, "think", think_slowly)
    return meanwhile


def dream(eng: Engram) -> DreamReport:
    """A pass; with agents, as many as it takes until nothing is waited for."""
    errors: list[str] = []
    for _ in range(15):
        (report,) = eng.dream(force=True)
        errors += report.errors
        while item := eng.work.next():
            eng.work.submit(item.id, echoing(item.prompt))
        if not report.waiting:
            break
    return report._replace(errors=errors)


def discarded(eng: Engram, url: str, task: str) -> None:
    """The pass says what it has discarded; the word is nowhere, and a later pass does what is left."""
    report = dream(eng)
    stage = STAGES.get(task, task)
    assert [error.partition(":")[0] for error in report.errors] == [stage]
    assert "forgotten or changed meanwhile" in report.errors[0]
    assert holds(url, GONE) == {}
    assert dream(eng).errors == []
    assert holds(url, GONE) == {}
    assert eng.blocks.get("narrative") and eng.blocks.get("self")
    assert eng.dreams.backlog().dirty == 0
    assert len(eng.memories.list(kind="gist")) == 2
    assert [f"{KEPT}3" in era.content for era in eng.memories.list(kind="era")] == [True]
    assert eng.work.counts() == (0, 0)


WITHOUT_A_MODEL = ("session", "era", "narrative", "reflect")


@pytest.mark.requirement("DREAM-23")
@pytest.mark.parametrize("task", WITHOUT_A_MODEL)
def test_a_turn_that_is_forgotten_during_a_task_is_not_written_back(
    open_store: Open, store_url: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = extractive(open_store, monkeypatch)
    _, said = filled(meanwhile.eng)
    meanwhile.task, meanwhile.forget = task, lambda: meanwhile.eng.forget(exchange=said)
    discarded(meanwhile.eng, store_url, task)
    assert meanwhile.times == 1


@pytest.mark.requirement("DREAM-23")
@pytest.mark.parametrize("task", TASKS)
def test_a_turn_that_is_forgotten_while_a_server_answers_is_not_written_back(
    open_store: Open, store_url: str, task: str, model: Model
) -> None:
    meanwhile = served(open_store, model)
    _, said = filled(meanwhile.eng)
    meanwhile.task, meanwhile.forget = task, lambda: meanwhile.eng.forget(exchange=said)
    discarded(meanwhile.eng, store_url, task)
    assert meanwhile.times == 1


@pytest.mark.requirement("DREAM-23", "WORK-6")
@pytest.mark.parametrize("task", TASKS)
def test_a_turn_that_is_forgotten_before_an_agents_answer_is_used_is_not_written_back(
    open_store: Open, store_url: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = agents(open_store, monkeypatch)
    _, said = filled(meanwhile.eng)
    meanwhile.task, meanwhile.forget = task, lambda: meanwhile.eng.forget(exchange=said)
    discarded(meanwhile.eng, store_url, task)
    assert meanwhile.times == 1


@pytest.mark.requirement("WORK-6")
@pytest.mark.parametrize("task", TASKS)
def test_a_turn_that_is_forgotten_while_a_piece_is_written_is_not_left_to_agents(
    open_store: Open, store_url: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store(llm="agent", companion=True)
    _, said = filled(eng)
    ask, left = Thinker._ask_agents, list[str]()

    def ask_slowly(self: Thinker, stage: str, subject: str, build: Any, form: Any) -> Thought:
        def build_slowly() -> tuple[Prompt, object]:
            prompt, covers = build()
            if prompt.task == task and not left and GONE in str(prompt):
                left.append(task)
                eng.forget(exchange=said)
            return prompt, covers

        return ask(self, stage, subject, build_slowly, form)

    monkeypatch.setattr(Thinker, "_ask_agents", ask_slowly)
    for _ in range(12):
        eng.dream(force=True)
        if left:
            assert holds(store_url, GONE) == {}
        while item := eng.work.next():
            eng.work.submit(item.id, echoing(item.prompt))
    assert left
    assert holds(store_url, GONE) == {}
    assert eng.work.counts() == (0, 0)
    assert eng.blocks.get("self") is not None


@pytest.mark.requirement("DREAM-23")
@pytest.mark.parametrize("task", ["era", "narrative", "reflect"])
@pytest.mark.parametrize("by", ["session", "memory", "before"])
def test_every_way_of_forgetting_is_noticed(open_store: Open, store_url: str, task: str, by: str, model: Model) -> None:
    meanwhile = served(open_store, model)
    eng = meanwhile.eng
    session, said = filled(eng)

    def forget() -> None:
        if by == "memory":
            gist = eng.memories.gist(session)
            assert gist is not None
            eng.forget(memory=gist.id)
            eng.forget(exchange=said)
        elif by == "before":
            eng.forget(before="2999-01-01T00:00:00Z")
        else:
            eng.forget(session=session)

    meanwhile.task, meanwhile.forget = task, forget
    report = dream(eng)
    assert [error.partition(":")[0] for error in report.errors][:1] == [task + "s" * (task == "era")]
    assert holds(store_url, GONE) == {}
    dream(eng)
    assert holds(store_url, GONE) == {}


@pytest.mark.requirement("DREAM-23")
@pytest.mark.parametrize(("task", "name"), [("narrative", "narrative"), ("reflect", "self")])
def test_a_block_that_is_forgotten_while_it_is_carried_on_is_not_written_back(
    open_store: Open, store_url: str, task: str, name: str, model: Model
) -> None:
    meanwhile = served(open_store, model)
    eng = meanwhile.eng
    session, _ = filled(eng)
    dream(eng)
    block = eng.blocks.get(name)
    assert block is not None
    eng.blocks.update(name, block.content.replace(f"{KEPT}1", "xqowned"))
    eng.exchanges.add(session, "user", "We decided to paint the billing service green.")
    meanwhile.task, meanwhile.forget = task, lambda: eng.forget(block=name)
    report = dream(eng)
    assert meanwhile.times == 1
    assert [error.partition(":")[0] for error in report.errors] == [task]
    assert holds(store_url, "xqowned") == {}


@pytest.mark.requirement("DREAM-23")
@pytest.mark.parametrize(("task", "name"), [("narrative", "narrative"), ("reflect", "self")])
def test_a_block_that_somebody_edits_while_it_is_carried_on_keeps_the_edit(
    open_store: Open, task: str, name: str, model: Model
) -> None:
    meanwhile = served(open_store, model)
    eng = meanwhile.eng
    session, _ = filled(eng)
    dream(eng)
    block = eng.blocks.get(name)
    assert block is not None
    theirs = block.content.replace(f"{KEPT}1", "xqtheirs")
    eng.exchanges.add(session, "user", "We decided to paint the billing service green.")
    meanwhile.task, meanwhile.forget = task, lambda: eng.blocks.update(name, theirs)
    (report,) = eng.dream(force=True)
    assert [error.partition(":")[0] for error in report.errors] == [task]
    edited = eng.blocks.get(name)
    assert edited is not None
    assert edited.content == theirs


@pytest.mark.requirement("WORK-6")
def test_an_answer_to_an_earlier_piece_is_not_taken_for_an_answer_to_a_later_one(open_store: Open) -> None:
    eng = open_store(llm="agent", companion=True)
    _, said = filled(eng)
    eng.dream(force=True)
    item = eng.work.next()
    assert item is not None
    eng.forget(exchange=said)
    eng.dream(force=True)
    again = eng.work.next()
    assert again is not None
    assert (again.subject, GONE in again.prompt) == (item.subject, False)
    assert again.id != item.id
    with pytest.raises(WorkNotFound):
        eng.work.submit(item.id, echoing(item.prompt))


@pytest.mark.requirement("WORK-6")
def test_an_answer_about_what_an_undo_has_removed_is_not_used(open_store: Open, store_url: str) -> None:
    eng = open_store(llm="agent", companion=True)
    _, said = filled(eng)
    eng.dream(force=True, stages=["sessions"])
    while item := eng.work.next():
        eng.work.submit(item.id, echoing(item.prompt))
    eng.dream(force=True, stages=["sessions"])
    eng.dream(force=True, stages=["narrative"])
    while item := eng.work.next():
        eng.work.submit(item.id, echoing(item.prompt))
    eng.dreams.undo()
    dream(eng)
    eng.forget(exchange=said)
    assert holds(store_url, GONE) == {}


def derived_twice(eng: Engram) -> int:
    """Two memories of the same text, both made of the same two turns; the turn whose sentence will go."""
    session = eng.sessions.register("claude-code", "billing")
    said = eng.exchanges.add(session, "user", f"The {GONE} is in the cellar.")
    other = eng.exchanges.add(session, "user", f"The {KEPT} is in the attic.")
    for kind in ("note", "fact"):
        text = f"The {GONE} is in the cellar. The {KEPT} is in the attic."
        eng.remember(text, kind=kind, sources=[("exchange", said), ("exchange", other)])
    return said


@pytest.mark.requirement("DREAM-23")
def test_a_merge_does_not_bring_back_what_was_forgotten_since_it_was_planned(
    open_store: Open, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store(dream_min_age=0)
    said = derived_twice(eng)
    prepare, times = plans.prepare, list[str]()

    def prepare_slowly(tiers: plans.Tiers, plan: plans.Plan) -> Prepared | None:
        if not times:
            times.append(plan.what)
            eng.forget(exchange=said)
        return prepare(tiers, plan)

    monkeypatch.setattr(plans, "prepare", prepare_slowly)
    (report,) = eng.dream(force=True, stages=["consolidate"])
    assert (times, report.alarms) == (["merge"], [])
    assert holds(store_url, GONE) == {}
    eng.dream(force=True, stages=["consolidate"])
    (one,) = [memory for memory in eng.memories.list() if memory.kind != "digest"]
    assert one.content == f"The {KEPT} is in the attic."


@pytest.mark.requirement("DREAM-23")
def test_a_proposal_does_not_quote_what_was_forgotten_since_it_was_planned(
    open_store: Open, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store(dream_min_age=0)
    said = derived_twice(eng)
    (note,) = eng.memories.list(kind="note")
    eng.memories.update(note.id, f"The {GONE} is in the cellar. The {KEPT} is in the attic")
    merge, times = plans.merge, list[str]()

    def merge_slowly(memories: Any, least: float, confidence: float) -> plans.Plan:
        plan = merge(memories, least, confidence)
        if not times:
            times.append(plan.content)
            eng.forget(exchange=said)
        return plan

    monkeypatch.setattr(plans, "merge", merge_slowly)
    eng.dream(force=True, stages=["consolidate"])
    assert GONE in times[0]
    assert holds(store_url, GONE) == {}


@pytest.mark.requirement("DREAM-23")
def test_what_was_agreed_to_is_not_done_when_it_is_forgotten_meanwhile(
    open_store: Open, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store(dream_min_age=0)
    said = derived_twice(eng)
    (note,) = eng.memories.list(kind="note")
    eng.memories.update(note.id, f"The {GONE} is in the cellar. The {KEPT} is in the attic")
    eng.dream(force=True, stages=["consolidate"])
    (proposal,) = eng.proposals.list()
    eng.proposals.accept(proposal.id)
    prepare, times = plans.prepare, list[str]()

    def prepare_slowly(tiers: plans.Tiers, plan: plans.Plan) -> Prepared | None:
        if not times:
            times.append(plan.what)
            eng.forget(exchange=said)
        return prepare(tiers, plan)

    monkeypatch.setattr(plans, "prepare", prepare_slowly)
    (report,) = eng.dream(force=True, stages=["consolidate"])
    assert (times, report.errors, report.alarms) == (["merge"], [], [])
    assert holds(store_url, GONE) == {}


@pytest.mark.requirement("DREAM-23")
def test_a_plan_that_lost_its_grounds_is_not_even_kept_as_refused(eng: Engram, store_url: str) -> None:
    said = derived_twice(eng)
    plan = plans.merge(eng.memories.list(), 0.9, 1.0)
    eng.forget(exchange=said)

    def refuse(context: PassContext) -> None:
        with pytest.raises(grounds.Outdated), context.engine.write() as tx:
            context.proposals.reject_plan(tx, plan, context.dream)

    dream_of(eng, refuse)
    assert holds(store_url, GONE) == {}


@pytest.mark.requirement("DREAM-23")
def test_the_digest_of_a_pass_does_not_quote_what_was_forgotten_while_it_was_made(
    open_store: Open, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store()
    _, said = filled(eng)
    prepare, times = Memories.prepare, list[str]()

    def prepare_slowly(self: Memories, content: str, **options: Any) -> Prepared:
        if content.startswith("Dreamt on") and not times:
            times.append(content)
            eng.forget(exchange=said)
        return prepare(self, content, **options)

    monkeypatch.setattr(Memories, "prepare", prepare_slowly)
    (report,) = eng.dream(force=True)
    assert report.errors == []
    assert GONE in times[0]
    assert holds(store_url, GONE) == {}
    (digest,) = eng.memories.list(kind="digest")
    assert KEPT in digest.content


@pytest.mark.requirement("DREAM-23")
def test_no_stage_can_write_from_a_thought_without_the_check(eng: Engram) -> None:
    session, _ = filled(eng)
    problems: list[str] = []

    def act(context: PassContext, said: Mapping[str, str]) -> None:
        prompt = Prompt("era", "", tuple(passages_of(context, session)))
        context.thinker.think("sessions", session, lambda: (prompt, None))
        with pytest.raises(AssertionError, match="outside of PassContext"):
            context.memories.remember("Anything.")
        stored = Prompt("era", "", (prompt.passages[0]._replace(id="text"),))
        with pytest.raises(AssertionError, match="cannot check what text quotes"):
            context.thinker.think("sessions", session, lambda: (stored, None))
        problems.append("both")

    from engram.dreaming import passes

    with pytest.MonkeyPatch.context() as patched:
        stage = passes.Stage("test", "continuity", lambda context: context.for_each("test", [{}], act))
        patched.setattr(passes, "STAGES", (stage,))
        eng.dream(force=True)
    assert problems == ["both"]
    assert [memory for memory in eng.memories.list() if memory.content == "Anything."] == []


def passages_of(context: PassContext, session: str) -> list[Any]:
    from engram.dreaming.stages.sessions import turn_passage

    return [turn_passage(turn) for turn in context.gists.unsummarised(session)]
