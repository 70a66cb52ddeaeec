"""One answer about a session: what its prompt shows, and what becomes of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engram import Engram, Memory
from engram.gist_text import parse
from engram.llm import quoted
from tests._models import SESSION, Model, plainly, serve, session_answer
from tests._talks import talk

Open = Callable[..., Engram]


@pytest.fixture
def model() -> Iterator[Model]:
    pytest.importorskip("openai")
    with serve() as model:
        yield model


@pytest.fixture
def eng(open_store: Open, model: Model) -> Engram:
    return open_store(llm="openai:m", llm_base_url=model.url)


def say(eng: Engram, *texts: str, at: str = "2026-03-02T10:00:00Z", project: str = "shop", **fields: Any) -> str:
    """A session in which the user and an agent say this in turn."""
    session = eng.sessions.register("claude-code", fields.pop("summary", "shop work"), project=project)
    for number, text in enumerate(texts):
        eng.exchanges.add(session, ("user", "assistant")[number % 2], text, created_at=at, **fields)
    return session


def answering(model: Model, *statements: dict[str, Any], **fields: Any) -> None:
    """Let the model answer so about sessions. `e1`, `e2`, … stand for the passages in their order."""

    def answer(prompt: str) -> str:
        if SESSION not in prompt:
            return plainly(prompt)
        rows = [id for id, _ in quoted(prompt) if id.startswith("e")]
        text = session_answer(*statements, **fields)
        for number, id in reversed(list(enumerate(rows, 1))):
            text = text.replace(f'"e{number}"', f'"{id}"')
        return text

    model.answer = answer


def dream(eng: Engram, **options: Any) -> Any:
    (report,) = eng.dream(force=True, stages=["sessions"], **options)
    return report


def prompts(model: Model) -> list[dict[str, tuple[str, str]]]:
    """What each prompt about a session quotes: label and text by handle."""
    return [rows(prompt) for prompt in model.asked if SESSION in prompt]


def rows(prompt: str) -> dict[str, tuple[str, str]]:
    lines = prompt.split("\n")
    first, last = (place for place, line in enumerate(lines) if line.startswith("=====data-"))
    found = [json.loads(line) for line in lines[first + 1 : last]]
    return {row.get("known") or row["passage"]: (row["by"], row["text"]) for row in found}


def extracted(eng: Engram) -> list[Memory]:
    return eng.memories.list(tag="extracted")[::-1]


@pytest.mark.requirement("READING-1")
def test_a_session_that_grows_sends_only_its_new_turns_and_its_gist(eng: Engram, model: Model) -> None:
    session = talk(eng)
    assert dream(eng).calls == 1
    assert dream(eng).calls == 0
    new = eng.exchanges.add(session, "user", "Now the parser, please.")
    assert dream(eng).calls == 1
    gist = eng.memories.gist(session)
    assert gist is not None
    first, second = prompts(model)
    assert [id for id in second if id.startswith("e")] == [f"e{new}"]
    assert second[f"m{gist.id}"][0] == "the gist so far"
    assert not set(first) & {f"e{new}", f"m{gist.id}"}


@pytest.mark.requirement("READING-2")
def test_sessions_are_read_oldest_first_with_project_title_and_times(eng: Engram, model: Model) -> None:
    late = say(eng, "Ship it.", at="2026-03-05T10:00:00Z", summary="shipping")
    early = say(eng, "Build it.", "Built.", at="2026-03-01T09:30:00Z", summary="building", project="mill")
    assert dream(eng).gists == [early, late]
    first, second = prompts(model)
    assert first[f"s:{early}"] == ("this session; project mill; 2026-03-01 09:30 to 2026-03-01 09:30 UTC", "building")
    assert second[f"s:{late}"] == ("this session; project shop; 2026-03-05 10:00 to 2026-03-05 10:00 UTC", "shipping")
    assert [by for id, (by, _) in first.items() if id.startswith("e")] == [
        "user, 2026-03-01 09:30",
        "assistant, 2026-03-01 09:30",
    ]


@pytest.mark.requirement("READING-2")
def test_the_nearest_memories_and_all_open_todos_of_the_project_are_shown(eng: Engram, model: Model) -> None:
    near = eng.remember("The billing service writes invoices at night.", kind="fact", data={"said": "2026-01-09"})
    todos = [eng.remember(f"Order part {number}.", kind="todo", project="shop") for number in range(25)]
    done = eng.remember("Order paper.", kind="todo", project="shop")
    eng.memories.archive(done.id)
    other = eng.remember("Water the plants.", kind="todo", project="garden")
    tool = eng.remember("The billing service is at 10.0.0.9.", kind="fact", trust="tool")
    for number in range(40):
        eng.remember(f"Fact {number} about the stars and planet {number}.", kind="fact", project="sky")
    session = say(eng, "The billing service has lost invoices of last night.")
    dream(eng)
    (shown,) = prompts(model)
    assert shown[f"m{near.id}"] == ("fact, 2026-01-09", near.content)
    assert {f"m{todo.id}" for todo in todos} <= set(shown)
    assert not {f"m{done.id}", f"m{tool.id}", f"s:{session}x"} & set(shown)
    assert len([id for id in shown if id.startswith("m")]) <= 25 + 18
    assert eng.memories.get(near.id).recalled == 0
    assert other.id not in {int(id[1:]) for id in list(shown)[:1] if id.startswith("m")}


@pytest.mark.requirement("READING-3")
def test_a_long_session_is_cut_before_a_turn_of_the_user(eng: Engram, model: Model) -> None:
    texts = [f"Turn {number}. " + "All of this was said at length. " * 200 for number in range(20)]
    session = say(eng, *texts)
    assert dream(eng).calls == 3
    turns = {f"e{turn.id}": turn.role for turn in eng.exchanges.history(session)}
    asked = [[id for id in shown if id in turns] for shown in prompts(model)]
    assert [id for piece in asked for id in piece] == list(turns)
    assert [turns[piece[0]] for piece in asked] == ["user"] * 3
    assert (
        max(sum(len(shown[id][1]) for id in piece) for piece, shown in zip(asked, prompts(model), strict=True)) < 70_000
    )
    assert [f"part {number} of 3" in shown[f"s:{session}"][0] for number, shown in enumerate(prompts(model), 1)] == [
        *(True, True, True),
    ]
    assert eng.memories.unsummarised(session) == []


@pytest.mark.requirement("READING-4")
def test_what_is_the_same_strengthens_the_known_memory(eng: Engram, model: Model) -> None:
    answering(model, {"text": "The user wants no deploys on Fridays.", "kind": "preference", "source": "e1"})
    say(eng, "Never deploy on a Friday.", "All right.")
    dream(eng)
    (known,) = extracted(eng)
    paraphrase = {"text": "Releases before the weekend are forbidden.", "kind": "preference", "source": "e1"}
    answering(model, {**paraphrase, "same_as": f"m{known.id}", "about_user": True})
    session = say(eng, "And no release right before the weekend!", "Sure.")
    assert dream(eng).extracted == 1
    (again,) = extracted(eng)
    assert (again.id, again.content, again.reinforced) == (known.id, known.content, 1)
    assert again.tags == ("about-user", "extracted")
    turn = eng.exchanges.history(session)[0].id
    assert ("exchange", turn) in eng.memories.sources(known.id)


@pytest.mark.requirement("READING-4")
def test_an_agent_that_repeats_the_user_s_wish_strengthens_nothing(eng: Engram, model: Model) -> None:
    answering(model, {"text": "The user wants no deploys on Fridays.", "kind": "preference", "source": "e1"})
    say(eng, "Never deploy on a Friday.", "All right.")
    dream(eng)
    (known,) = extracted(eng)
    answering(model, {"text": "No deploys on Fridays.", "source": "e2", "same_as": f"m{known.id}"})
    say(eng, "What were my rules?", "You said: no deploys on Fridays.")
    dream(eng)
    assert eng.memories.get(known.id).reinforced == 0
    assert len(extracted(eng)) == 1


@pytest.mark.requirement("READING-4")
def test_a_memory_that_was_not_shown_cannot_be_named(open_store: Open, model: Model) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url, dream_consolidate="apply")
    hidden = eng.remember("The vault opens at nine.", trust="tool")
    handle = f"m{hidden.id}"
    answering(
        model,
        {"text": "The vault opens at ten.", "source": "e1", "replaces": handle},
        {"text": "The vault has a clock.", "source": "e1", "same_as": handle},
        closed=[{"known": handle, "source": "e1"}, {"known": "m999999", "source": "e1"}],
    )
    say(eng, "The vault opens at ten, and it has a clock.")
    report = dream(eng)
    assert (report.errors, report.extracted, report.left_out) == ([], 2, {"sessions": 2})
    assert eng.memories.get(hidden.id) == hidden
    assert eng.proposals.list() == []


@pytest.mark.requirement("READING-5")
def test_what_is_replaced_or_closed_is_proposed(eng: Engram, model: Model) -> None:
    port = eng.remember("The shop listens on port 80.", kind="fact", project="shop")
    todo = eng.remember("Order a second server.", kind="todo", project="shop")
    answering(
        model,
        {"text": "The shop listens on port 8080 since 2026-03-02.", "source": "e1", "replaces": f"m{port.id}"},
        closed=[{"known": f"m{todo.id}", "source": "e2"}],
    )
    session = say(eng, "The shop now listens on port 8080.", "Noted. The second server was ordered.")
    assert dream(eng).proposals == 2
    (new,) = extracted(eng)
    asked, ordered = eng.exchanges.history(session)
    replaced, closed = eng.proposals.list()
    assert (replaced.what, set(replaced.targets)) == ("supersede", {("memory", port.id), ("memory", new.id)})
    assert (closed.what, closed.targets) == ("archive", (("memory", todo.id),))
    assert closed.sources == (("exchange", ordered.id), ("memory", todo.id))
    assert f"exchange {ordered.id} (assistant, agent, 2026-03-02) shows that memory {todo.id} is done" == closed.why
    for proposal in (replaced, closed):
        eng.proposals.apply(proposal.id)
    assert eng.memories.get(port.id).superseded_by == new.id
    assert eng.memories.get(todo.id).status == "archived"
    eng.dreams.undo(eng.proposals.show(closed.id).applied_as)
    assert eng.memories.get(todo.id).status == "active"
    assert asked.role == "user"


@pytest.mark.requirement("READING-5")
def test_where_the_settings_allow_it_both_are_carried_out_and_undone_with_the_pass(
    open_store: Open, model: Model
) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url, dream_consolidate="apply", dream_resolve_conflicts="on")
    port = eng.remember("The shop listens on port 80.", kind="fact", project="shop", trust="user")
    todo = eng.remember("Order a second server.", kind="todo", project="shop")
    pinned = eng.remember("Call the bank.", kind="todo", project="shop", pinned=True)
    answering(
        model,
        {"text": "The shop listens on port 8080.", "source": "e1", "replaces": f"m{port.id}"},
        closed=[{"known": f"m{todo.id}", "source": "e2"}, {"known": f"m{pinned.id}", "source": "e2"}],
    )
    say(eng, "The shop now listens on port 8080.", "The second server was ordered, and the bank was called.")
    report = dream(eng)
    assert (report.proposals, report.alarms, report.errors) == (1, [], [])
    (new,) = extracted(eng)
    assert eng.memories.get(port.id).superseded_by == new.id
    assert eng.memories.get(todo.id).status == "archived"
    assert eng.memories.get(pinned.id).status == "active"
    (digest,) = eng.memories.list(kind="digest")
    assert "Closed on 2026-03-02: Order a second server." in digest.content
    eng.dreams.undo()
    for memory in (port, todo, pinned):
        assert eng.memories.get(memory.id).status == "active"
    assert eng.proposals.list(None) == []
    assert extracted(eng) == []


@pytest.mark.requirement("READING-5")
def test_an_agent_s_word_does_not_end_what_the_user_said(open_store: Open, model: Model) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url, dream_consolidate="apply", dream_resolve_conflicts="on")
    rule = eng.remember("The user reviews every change.", kind="preference", project="shop", trust="user")
    answering(model, closed=[{"known": f"m{rule.id}", "source": "e2"}])
    say(eng, "Go on.", "Changes need no review any more.")
    assert dream(eng).proposals == 1
    assert eng.memories.get(rule.id).status == "active"


@pytest.mark.requirement("READING-5")
def test_a_rejected_closing_does_not_come_back_from_the_same_turn(eng: Engram, model: Model) -> None:
    todo = eng.remember("Order a second server.", kind="todo", project="shop")
    answering(model, closed=[{"known": f"m{todo.id}", "source": "e1"}])
    session = say(eng, "The server is on its way.")
    dream(eng)
    (proposal,) = eng.proposals.list()
    eng.proposals.reject(proposal.id)
    eng.dreams.undo()
    assert dream(eng).gists == [session]
    assert eng.proposals.list() == []


@pytest.mark.requirement("READING-6")
def test_an_odd_statement_is_left_out_or_clipped_and_counted(open_store: Open) -> None:
    # An agent's answer is checked when it is handed in; a provider of the user's own may return anything.
    from engram.llm import Answer, Prompt, Usage
    from engram.llm.extractive.thinker import Extractive

    def complete(self: Extractive, prompt: Prompt, **options: object) -> Answer:
        turn = prompt.passages[0].id
        usual = {"kind": "fact", "source": turn, "confidence": 0.9, "about_user": False, "same_as": "", "replaces": ""}
        given: list[object] = [
            {**usual, "text": "It is green."},
            {**usual, "text": "No such turn.", "source": "e999999"},
            {**usual, "text": "No such kind.", "kind": "rumour"},
            {**usual, "text": ""},
            {**usual, "text": "It is tall. " * 60},
            {**usual, "text": "Not sure.", "confidence": 0.2},
            "no object",
        ]
        data = {"title": 3, "outcome": "", "open": None, "gist": "All green.", "statements": given, "closed": "none"}
        return Answer("", data, Usage(0, 0, 0))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Extractive, "complete", complete)
        eng = open_store()
        session = say(eng, "It is green and tall.")
        report = dream(eng)
    assert (report.errors, report.extracted, report.left_out, report.gists) == ([], 2, {"sessions": 3}, [session])
    short, long = extracted(eng)
    assert short.content == "It is green."
    assert len(long.content) <= 400
    assert long.content.endswith("It is tall.")


@pytest.mark.requirement("READING-6")
def test_output_of_a_tool_after_the_gist_is_read_and_changes_no_gist(open_store: Callable[..., Engram]) -> None:
    eng = open_store()
    session = say(eng, "Build it.", "I built the shop.")
    dream(eng)
    before = eng.memories.gist(session)
    eng.exchanges.add(session, "tool", "make: nothing to be done")
    report = dream(eng)
    after = eng.memories.gist(session)
    assert before is not None and after is not None
    assert (report.errors, report.left_out, after.content) == ([], None, before.content)
    assert eng.memories.unsummarised(session) == []


@pytest.mark.requirement("READING-6")
def test_commands_alone_ask_no_model(eng: Engram, model: Model) -> None:
    session = say(eng, "/clear")
    report = dream(eng)
    gist = eng.memories.gist(session)
    assert gist is not None
    assert (report.errors, gist.content) == ([], "The session has only commands to the harness: /clear.")
    assert not [prompt for prompt in model.asked if SESSION in prompt]


@pytest.mark.requirement("READING-6")
def test_an_odd_answer_does_not_keep_the_other_sessions_from_being_read(eng: Engram, model: Model) -> None:
    odd = say(eng, "Never mind.", at="2026-03-01T10:00:00Z")
    other = say(eng, "Build it.", at="2026-03-02T10:00:00Z")
    model.answer = lambda prompt: "Sorry, no." if "Never mind." in prompt else plainly(prompt)
    report = dream(eng)
    assert report.gists == [other]
    assert (len(report.errors), report.left_out) == (1, {"sessions": 1})
    assert report.errors[0].startswith("sessions: an item was left out: ")
    model.answer = plainly
    assert dream(eng).gists == [odd]


@pytest.mark.requirement("READING-7")
def test_turns_under_the_summary_of_a_compaction_are_read_once(eng: Engram, model: Model) -> None:
    session = say(eng, "Never deploy on a Friday.", "All right.")
    turns = eng.exchanges.history(session)
    eng.memories.store_gist(session, "A summary by the harness.", turns[-1].seq, sources=[turn.id for turn in turns])
    answering(model, {"text": "The user wants no deploys on Fridays.", "kind": "preference", "source": "e1"})
    (report,) = eng.dream()  # little is pending, but these turns are
    assert report.extracted == 1
    (shown,) = prompts(model)
    assert [text for _, text in shown.values()][1:2] == ["A summary by the harness."]
    assert {f"e{turn.id}" for turn in turns} <= set(shown)
    (again,) = eng.dream()
    assert (again.calls, again.extracted) == (0, None)


@pytest.mark.requirement("READING-8")
def test_title_outcome_and_open_points_are_the_first_lines_of_the_gist(eng: Engram, model: Model) -> None:
    parts = {"title": "Ports", "outcome": "The port is 8080.", "open": ["Tell the team.", "Test it."], "gist": "Moved."}
    answering(model, **parts)
    session = say(eng, "Use port 8080.")
    dream(eng)
    gist = eng.memories.gist(session)
    assert gist is not None
    assert parse(gist.content) == ("Ports", "The port is 8080.", ("Tell the team.", "Test it."), "Moved.")


@pytest.mark.requirement("DREAM-23")
def test_what_repeats_a_shown_memory_goes_when_that_memory_goes(eng: Engram, model: Model) -> None:
    known = eng.remember("The aardvark cluster costs 4711 a month.", kind="fact", project="shop")
    plain = eng.remember("Backups run at night.", kind="fact", project="shop")
    answering(
        model,
        {"text": "The user wants the cluster smaller, because it costs 4711 a month.", "source": "e1"},
        gist="The user wants a smaller cluster. It costs 4711 now.",
    )
    session = say(eng, "Make the cluster smaller.")
    dream(eng)
    gist = eng.memories.gist(session)
    assert gist is not None
    assert ("memory", known.id) in eng.memories.sources(gist.id)
    assert ("memory", plain.id) not in eng.memories.sources(gist.id)
    (statement,) = extracted(eng)
    assert statement.trust == "user"
    eng.forget(memory=known.id)
    blank = eng.memories.gist(session)
    assert blank is not None
    assert blank.content == ""
    assert [memory.content for memory in extracted(eng) if "4711" in memory.content] == []
