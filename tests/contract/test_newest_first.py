"""After an import more sessions wait than the caps allow: the newest are read first, and what they cost is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engram import Engram
from engram.dream_records import DreamEstimate, cost
from engram.llm import quoted
from tests._models import SESSION, Model, plainly, serve, session_answer

Open = Callable[..., Engram]


@pytest.fixture
def model() -> Iterator[Model]:
    pytest.importorskip("openai")
    with serve() as model:
        yield model


@pytest.fixture
def opened(open_store: Open, model: Model) -> Open:
    return lambda **settings: open_store(llm="openai:m", llm_base_url=model.url, embedder="none", **settings)


def past(eng: Engram, day: int, *texts: str, month: str = "2024-03") -> str:
    """A session of a day long ago, as an import writes it."""
    at = f"{month}-{day:02d}T10:00:00Z"
    with eng.write():
        session = eng.sessions.register("codex", f"Work of day {day}", project="shop", at=at)
        for number, text in enumerate(texts or (f"Port part {day} of the router.", "It is ported.")):
            eng.exchanges.add(session, ("user", "assistant")[number % 2], text, created_at=at, embed=False)
        eng.sessions.complete(session, at=at)
    return session


def days(eng: Engram, *order: int) -> list[str]:
    """Sessions of the days 1, 2, 3, …, imported in another order."""
    made = {day: past(eng, day) for day in order}
    return [made[day] for day in sorted(order)]


def gists(eng: Engram, **options: Any) -> list[str]:
    (report,) = eng.dream(**options)
    return list(report.gists)


def test_a_cap_on_calls_leaves_the_oldest_for_the_next_pass(opened: Open) -> None:
    eng = opened(dream_pass_calls=2)
    one, two, three, four, five = days(eng, 3, 5, 1, 4, 2)
    assert gists(eng) == [four, five]
    assert gists(eng) == [two, three]
    assert gists(eng) == [one]


def test_months_and_the_narrative_are_told_in_order_of_time(opened: Open, model: Model) -> None:
    eng = opened(dream_pass_calls=3)
    sessions = days(eng, 2, 1, 4, 3)
    assert gists(eng, force=True) == sessions[1:]
    assert gists(eng, force=True) == sessions[:1]
    ids = []
    for session in sessions:
        gist = eng.memories.gist(session)
        assert gist is not None
        ids.append(f"m{gist.id}")
    told = [[id for id, _ in quoted(prompt) if id in ids] for prompt in model.asked if SESSION not in prompt]
    assert told == [ids, ids]


def test_a_cap_on_tokens_takes_the_newest_that_surely_fit_and_then_the_next(opened: Open) -> None:
    # A pass estimates some 4,600 tokens for one of these sessions; this model takes 110.
    eng = opened(dream_pass_tokens=14_000)
    one, two, three, four, five = days(eng, 1, 2, 3, 4, 5)
    assert gists(eng, stages=["sessions"]) == [four, five, two, three, one]


def test_an_automatic_pass_takes_the_newest_within_its_own_caps(opened: Open) -> None:
    eng = opened(auto_dream_llm="same", auto_dream_day_calls=1)
    *_, last = days(eng, 1, 2, 3)
    report = eng.dreams.dream_if_due()
    assert getattr(report, "gists", None) == [last]


def test_if_everything_fits_sessions_are_read_in_order_of_time(opened: Open, open_store: Open) -> None:
    eng = opened()
    sessions = days(eng, 2, 1, 3)
    assert gists(eng) == sessions
    words = open_store(embedder="none").workspace("words")
    sessions = days(words, 3, 1, 2)
    assert gists(words) == sessions


def test_agents_get_the_newest_session_first(open_store: Open) -> None:
    eng = open_store(llm="agent", embedder="none")
    one, two, three = days(eng, 2, 1, 3)
    eng.dream(force=True)
    new = past(eng, 9)
    eng.dream(force=True)
    taken = []
    while item := eng.work.next():
        taken.append(item.subject)
        eng.work.submit(item.id, plainly(item.prompt))
    assert taken == [new, three, two, one]


def answer(model: Model, *texts: tuple[str, dict[str, Any]]) -> None:
    """Let the model answer about a session by a word that it contains. `e1` stands for its first passage."""

    def about(prompt: str) -> str:
        if SESSION not in prompt:
            return plainly(prompt)
        rows = quoted(prompt)
        first = next(id for id, _ in rows if id.startswith("e"))
        for word, given in texts:
            if any(word in text for id, text in rows if id.startswith("e")):
                fields = {"closed": [{**each, "source": first} for each in given.get("closed", [])]}
                statement = {"text": given["text"], "source": first, "replaces": given.get("replaces", "")}
                return session_answer(statement, **fields)
        return plainly(prompt)

    model.answer = about


def test_what_an_older_session_says_does_not_replace_or_close_what_was_said_later(opened: Open, model: Model) -> None:
    eng = opened(dream_pass_calls=1)
    past(eng, 1, "The shop is on port 80.")
    past(eng, 2, "The shop moved to port 8080.")
    answer(model, ("moved", {"text": "The shop listens on port 8080."}))
    eng.dream(stages=["sessions"])
    (new,) = eng.memories.list(tag="extracted")
    named = f"m{new.id}"
    older = {"text": "The shop listens on port 80.", "replaces": named, "closed": [{"known": named}]}
    answer(model, ("on port 80.", older))
    eng.dream(stages=["sessions"])
    old = next(each for each in eng.memories.list(tag="extracted") if each.id != new.id)
    (proposal,) = eng.proposals.list()
    assert (proposal.what, proposal.why) == (
        "supersede",
        f"memory {new.id} (2024-03-02) replaces memory {old.id} (2024-03-01)",
    )
    eng.proposals.apply(proposal.id)
    assert eng.memories.get(old.id).superseded_by == new.id


def test_what_was_stored_after_a_session_had_ended_is_not_closed_by_it(opened: Open, model: Model) -> None:
    eng = opened()
    todo = eng.remember("Order a second server.", kind="todo", project="shop")
    earlier = eng.remember("Order a third server.", kind="todo", project="shop", at="2024-02-01")
    past(eng, 1, "The servers were ordered.")
    closed = [{"known": f"m{todo.id}"}, {"known": f"m{earlier.id}"}]
    answer(model, ("ordered", {"text": "Servers take a week.", "closed": closed}))
    eng.dream(stages=["sessions"])
    (proposal,) = eng.proposals.list()
    assert proposal.targets == (("memory", earlier.id),)


def test_the_estimate_says_what_a_model_would_read_and_write(opened: Open, model: Model) -> None:
    eng = opened(dream_pass_calls=2, dream_day_calls=4)
    assert eng.dreams.estimate()[:5] == (0, 0, 0, 0, 0)
    for day in range(1, 6):
        past(eng, day, "a" * 4_000, "b" * 4_000)
    found = eng.dreams.estimate()
    assert (found.sessions, found.turns, found.calls, found.thinker) == (5, 10, 5, "openai:m")
    assert (found.passes, found.days) == (3, 2)
    assert 5 * (2_000 + 1_400) < found.input_tokens < 5 * (2_000 + 5_000)
    assert 5 * 300 < found.output_tokens < 5 * 1_500
    eng.dream(stages=["sessions"])
    left = eng.dreams.estimate()
    assert (left.sessions, left.calls) == (3, 3)
    assert left.input_tokens * 5 == found.input_tokens * 3


def test_the_estimate_counts_as_a_pass_reads(opened: Open, model: Model) -> None:
    eng = opened()
    session = past(eng, 1, "a" * 30_000)
    short = eng.dreams.estimate()
    assert short.input_tokens < 6_000  # a very long turn is quoted in part
    for _ in range(20):
        eng.exchanges.add(session, "tool", "x" * 7_000, embed=False)
    assert eng.dreams.estimate().calls == 1 + 3  # output of tools is asked about separately, in pieces
    working = eng.sessions.register("codex", "At work")
    eng.exchanges.add(working, "user", "Not yet.", embed=False)
    assert eng.dreams.estimate().sessions == 1
    eng.memories.store_gist(session, "It was long.", 21)
    assert eng.dreams.estimate().turns == 21  # a gist whose turns nobody has read for statements
    (report,) = eng.dream(stages=["sessions"])
    assert report.errors == [] and 1 < report.calls <= 4
    assert eng.dreams.estimate().sessions == 0


def test_without_room_there_are_no_passes(opened: Open) -> None:
    eng = opened(dream_pass_tokens=0)
    past(eng, 1)
    assert (eng.dreams.estimate().passes, eng.dreams.estimate().days) == (None, 1)


def test_the_cost_is_said_in_words() -> None:
    found = DreamEstimate(812, 9_000, 1_012, 3_456_789, 712_345, 10, 2, "openai:m")
    told = "Dreaming about 812 sessions takes about 3,500,000 tokens to read and 710,000 to write"
    assert cost(found) == f"{told}. Within the caps that is 10 passes on 2 days, the newest sessions first."
    assert cost(found._replace(thinker="agent")) == f"{told}, by the agents that answer."
    assert cost(found._replace(passes=None)).endswith("The caps on calls and tokens allow none.")
    assert cost(found._replace(passes=1, days=1)).endswith("Within the caps that is 1 pass, the newest sessions first.")
    assert "costs nothing without a model" in cost(found._replace(thinker="extractive"))
    assert cost(found._replace(sessions=0)) == "No session waits to be read."
