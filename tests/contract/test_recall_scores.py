"""How many hits recall returns, and what their scores mean, with one item or thousands, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from engram import Engram, InvalidInput
from engram.clock import later
from engram.interfaces.mcp.answers import Answer
from engram.interfaces.mcp.connections import Connection
from engram.interfaces.mcp.host import Host
from engram.memory.backdrop import _SAID
from engram.records import UNLIKELY, Hit
from tests.conftest import ShiftedClock

OpenStore = Callable[..., Engram]

DEPLOYS = "Deploys never happen on Fridays"
SHIP = "when can we ship?"
SMOOTHIE = "how do I make a banana smoothie with oat milk?"
#: Questions, and the statements that answer them.
CLEAR = [
    ("which port does the metrics exporter listen on?", "The metrics exporter listens on port 9187."),
    ("who approves changes to the billing schema?", "Changes to the billing schema are approved by the finance team."),
]


def fill(eng: Engram, count: int, session: str = "filling") -> None:
    """Turns about many things."""
    eng.sessions.ensure(session)
    topics = [
        *("orchard irrigation", "violin lessons", "tax returns", "bicycle repair", "museum tickets", "glass recycling"),
        *("parser errors", "linker flags", "cache eviction", "image resizing", "queue depth", "font rendering"),
    ]
    moods = ["went well", "took longer than planned", "was cancelled", "needs another look", "surprised everyone"]
    eng.exchanges.add_many(
        {
            "session_id": session,
            "role": "user",
            "content": f"{topics[n % len(topics)].capitalize()} {moods[n % len(moods)]} in week {n}.",
        }
        for n in range(count)
    )


def score(hits: Iterable[Hit], text: str) -> float:
    return next(hit.score for hit in hits if hit.text == text)


@pytest.mark.requirement("RECALL-18")
@pytest.mark.parametrize("mode", ["hybrid", "vectors"])
def test_a_single_memory_gist_or_era_is_found_by_meaning(eng: Engram, mode: str) -> None:
    made = eng.remember(DEPLOYS)
    (hit,) = eng.recall(SHIP, mode=mode)
    assert (hit.memory_id, hit.text) == (made.id, DEPLOYS)
    assert hit.score > 0
    eng.sessions.ensure("s")
    eng.exchanges.add("s", "user", "Hello.")
    gist = eng.memories.store_gist("s", "The team agreed that releases wait until Monday.", 1)
    era = eng.remember("Releases were moved from Fridays to Mondays.", kind="era")
    assert [hit.memory_id for hit in eng.memories.recall_gists(SHIP)] == [gist.id]
    assert [hit.memory_id for hit in eng.memories.recall_eras(SHIP)] == [era.id]


@pytest.mark.requirement("RECALL-18")
def test_a_better_model_finds_a_single_memory_above_the_floor(open_store: OpenStore) -> None:
    eng = open_store(embedder="minilm")
    eng.remember(DEPLOYS)
    assert [hit.text for hit in eng.recall(SHIP, min_score=UNLIKELY)] == [DEPLOYS]
    assert eng.recall(SMOOTHIE, min_score=UNLIKELY) == []


def populate(eng: Engram, clock: ShiftedClock) -> tuple[str, str]:
    """Things of every kind. Returns a session, and the time between their turns and the memories."""
    a, b = (eng.sessions.register("codex", "Working", project=name) for name in ("a", "b"))
    eng.exchanges.add_many(
        {"session_id": sid, "role": role, "content": f"The {role} of {sid[:4]} counts sheep, number {n}."}
        for n in range(12)
        for sid in (a, b)
        for role in ("user", "assistant")
    )
    long = " ".join(f"Sentence {n} is about gardens, rivers and the tools of a smith." for n in range(150))
    eng.exchanges.add(a, "user", long)
    clock.advance(3_600)
    middle = clock.now()
    clock.advance(3_600)
    for n in range(6):
        eng.remember(f"The harbour has {n} cranes.", kind="fact", tags=["port"], project="a")
        eng.remember(f"Whales sing for {n} hours.", kind="note", tags=["sea", "port"])
        eng.remember(f"This expires, number {n}.", kind="note", tags=["sea"], expires_at=later(clock.now(), 60))
    eng.remember(f"Long memory. {long}", kind="note", tags=["sea"])
    clock.advance(3_600)
    return a, middle


@pytest.mark.requirement("RECALL-19")
@pytest.mark.parametrize("mode", ["hybrid", "vectors"])
def test_by_meaning_there_are_as_many_hits_as_the_filters_leave(eng: Engram, clock: ShiftedClock, mode: str) -> None:
    session, middle = populate(eng, clock)
    left: list[tuple[int, dict[str, Any]]] = [
        (62, {}),
        (49, {"what": ["exchanges"]}),
        (13, {"what": ["memories"]}),
        (6, {"kinds": ["fact"], "what": ["memories"]}),
        (25, {"roles": ["user"], "what": ["exchanges"]}),
        (12, {"tags": ["port"]}),
        (6, {"tags": ["port", "sea"]}),
        (31, {"project": "a"}),
        (13, {"since": middle}),
        (49, {"until": middle}),
        (25, {"session_id": session}),
        (37, {"exclude_session": session}),
        (0, {"tags": ["nowhere"]}),
    ]
    for query in (SMOOTHIE, "the smith's tools"):
        for count, filters in left:
            for k in (1, 7, count, 1_000):
                if k:
                    hits = eng.recall(query, k, mode=mode, **filters)
                    assert len(hits) == min(k, count), (filters, k)
                    assert len({(hit.exchange_id, hit.memory_id) for hit in hits}) == len(hits)


@pytest.mark.requirement("RECALL-19")
def test_far_away_items_that_alone_fit_the_filters_are_found_among_thousands(eng: Engram) -> None:
    fill(eng, 1_300)
    eng.sessions.ensure("far")
    for text in ("Pancakes.", "Zinc oxide.", "Ballet."):
        eng.exchanges.add("far", "assistant", text)
    eng.remember("Quartz.", tags=["stone"])
    query = "orchard irrigation went well in week 12"
    for mode in ("hybrid", "vectors"):
        assert len(eng.recall(query, 5, mode=mode, session_id="far")) == 3
        assert len(eng.recall(query, 5, mode=mode, roles=["assistant"], what=["exchanges"])) == 3
        assert len(eng.recall(query, 5, mode=mode, tags=["stone"])) == 1
        assert len(eng.recall(query, 5, mode=mode, exclude_session="filling")) == 4
        assert len(eng.recall(query, 1_000, mode=mode)) == 1_000


@pytest.mark.requirement("RECALL-19")
def test_words_alone_find_only_what_shares_a_word(eng: Engram, open_store: OpenStore) -> None:
    eng.remember(DEPLOYS)
    eng.remember("Ships leave at noon")
    assert eng.recall("when can we release?", mode="words") == []
    without = open_store(embedder="none")
    assert [hit.text for hit in without.recall(SHIP)] == ["Ships leave at noon"]
    assert without.recall(SMOOTHIE) == []


@pytest.mark.requirement("RECALL-19")
@pytest.mark.parametrize("k", [2, 60])
def test_turns_that_are_left_out_are_made_up_for(eng: Engram, k: int) -> None:
    eng.sessions.ensure("s")
    for n in range(40):
        turn = eng.exchanges.add("s", "user", f"The kiln of workshop {n} reaches 900 degrees.")
        if n < 20:
            eng.remember(f"The kiln of workshop {n} reaches 900 degrees.", sources=[("exchange", turn)])
    fill(eng, 30)
    assert len(eng.recall("kiln degrees", k)) == k
    assert len(eng.recall("kiln degrees", k, mode="vectors")) == k


@pytest.mark.requirement("RECALL-20")
@pytest.mark.parametrize("embedder", ["static", "minilm"])
def test_a_clear_match_has_about_the_same_score_alone_and_among_many(open_store: OpenStore, embedder: str) -> None:
    eng = open_store(embedder=embedder)
    for _, statement in CLEAR:
        eng.remember(statement)
    alone = [score(eng.recall(question, 5), statement) for question, statement in CLEAR]
    fill(eng, 2_000 if embedder == "static" else 150)
    among = [eng.recall(question, 5) for question, _ in CLEAR]
    for before, hits, (_, statement) in zip(alone, among, CLEAR, strict=True):
        assert hits[0].text == statement
        assert before > 0.5
        assert hits[0].score == pytest.approx(before, abs=0.1)


@pytest.mark.requirement("RECALL-20")
@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
def test_scores_are_chances_and_sorted(eng: Engram, mode: str) -> None:
    for text in [*_SAID, "release release release", "Release"]:
        eng.remember(text)
    for query in ("release", "release notes", "Release?", _SAID[3], "the", "x" * 3_000, SMOOTHIE):
        scores = [hit.score for hit in eng.recall(query, 1_000, mode=mode)]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 0.99 for score in scores)


@pytest.mark.requirement("RECALL-20")
def test_an_unrelated_question_finds_nothing_likely(eng: Engram) -> None:
    eng.remember(DEPLOYS)
    for more in (0, 9, 290):
        fill(eng, more)
        hits = eng.recall(SMOOTHIE, 10)
        assert len(hits) == min(10, 1 + (more and more))
        assert hits[0].score <= UNLIKELY, (more, hits[0].text)


@pytest.mark.requirement("RECALL-21")
def test_min_score_leaves_out_what_is_less_likely(eng: Engram) -> None:
    eng.remember(CLEAR[0][1])
    eng.remember(DEPLOYS)
    both = eng.recall(CLEAR[0][0], 10)
    assert len(both) == 2 and both[0].score > both[1].score
    assert len(eng.recall(CLEAR[0][0], 10, min_score=0)) == 2
    for floor in (both[0].score, (both[0].score + both[1].score) / 2):
        assert [hit.text for hit in eng.recall(CLEAR[0][0], 10, min_score=floor)] == [CLEAR[0][1]]
    assert eng.recall(CLEAR[0][0], 10, min_score=1) == []
    eng.sessions.ensure("s")
    eng.exchanges.add("s", "user", "Hello.")
    eng.memories.store_gist("s", CLEAR[0][1], 1)
    eng.remember(CLEAR[1][1], kind="era")
    for recall, (question, _) in zip((eng.memories.recall_gists, eng.memories.recall_eras), CLEAR, strict=True):
        assert len(recall(question, min_score=0.3)) == len(recall(SMOOTHIE)) == 1
        assert recall(SMOOTHIE, min_score=0.3) == []


@pytest.mark.requirement("RECALL-21")
def test_a_min_score_that_is_no_share_is_refused(eng: Engram) -> None:
    recalls: list[Callable[..., list[Hit]]] = [eng.recall, eng.memories.recall_gists, eng.memories.recall_eras]
    for recall in recalls:
        for bad in (-0.01, 1.01, float("nan"), float("inf"), True, "0.5", None):
            with pytest.raises(InvalidInput, match="min_score"):
                recall(SHIP, min_score=bad)


@pytest.mark.requirement("RECALL-21")
def test_an_agent_gets_nothing_unlikely_unless_it_asks_for_it(eng: Engram) -> None:
    made = eng.remember(DEPLOYS)
    host, connection = Host(lambda: eng), Connection("codex")

    def recall(**arguments: object) -> Answer:
        answer = host.call(connection, "recall", arguments)
        assert answer is not None
        return answer

    assert recall(query=SMOOTHIE).text == "Nothing found."
    assert eng.memories.get(made.id).recalled == 0
    everything = recall(query=SMOOTHIE, min_score=0)
    assert DEPLOYS in everything.text
    assert DEPLOYS in recall(query="do deploys happen on Fridays?").text
    assert recall(query="do deploys happen on Fridays?", min_score=1).text == "Nothing found."
    refused = recall(query=SHIP, min_score=2)
    assert refused.failed and "min_score" in refused.text


@pytest.mark.requirement("RECALL-18")
def test_a_text_that_says_little_is_found_too(eng: Engram) -> None:
    made = {eng.remember(text).id for text in ("!!!", "   .", "the", "\u200b", "🙂", "1", "漢")}
    assert {hit.memory_id for hit in eng.recall(SMOOTHIE, 20)} == made
