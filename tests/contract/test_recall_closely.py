"""Recall, the second look: reranking, dates, recency, and no transaction while a model works; on both engines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from engram import EmbedderFailed, Engram, InvalidInput, SessionNotFound, embedding
from engram.embedding import Part, TokenVectors, WeightedText
from engram.embedding.static import StaticEmbedder
from engram.memory.scoring import weights_of
from engram.records import Hit
from tests.conftest import ShiftedClock

if TYPE_CHECKING:
    from engram.embedding.protocol import Vectors

OpenStore = Callable[..., Engram]

SAID = [
    "The harbour was closed because of the storm.",
    "A ferry left the harbour at noon, full of tourists.",
    "My puppy sleeps beside the fireplace.",
    "Invoices are kept in the archive bucket.",
    "The storm broke two windows of the ferry terminal.",
]


def texts(hits: list[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def say(eng: Engram, contents: Sequence[str] = SAID, sid: str = "s", **options: Any) -> list[int]:
    eng.sessions.ensure(sid)
    return [eng.exchanges.add(sid, "user", content, **options) for content in contents]


class Watched:
    """The default model, with something that happens whenever it works."""

    name = StaticEmbedder.name
    dims = StaticEmbedder.dims

    def __init__(self) -> None:
        self._model = StaticEmbedder()
        self.calls: list[str] = []
        self.happens: Callable[[str], None] = lambda what: None

    def _note(self, what: str) -> None:
        self.calls.append(what)
        self.happens(what)

    def embed(self, texts: Sequence[str]) -> Vectors:
        self._note("embed")
        return self._model.embed(texts)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        self._note("tokens")
        return self._model.tokens(texts)

    def weighted(self, text: str, parts: Sequence[Part]) -> WeightedText:
        self._note("weighted")
        return self._model.weighted(text, parts)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    model = Watched()
    monkeypatch.setitem(embedding._loaded, "static", model)
    return model


@pytest.mark.requirement("RECALL-10")
def test_reranking_compares_the_tokens_of_the_best_and_says_so(open_store: OpenStore, watched: Watched) -> None:
    eng = open_store(embedder="static")
    say(eng)
    hits = eng.recall("Which storm closed the harbour?", rerank="always")
    assert hits[0].text == SAID[0]
    assert hits[0].why["tokens"] == 1.0
    assert len({hit.why["tokens"] for hit in hits}) > 1
    assert watched.calls[-2:] == ["weighted", "tokens"]


@pytest.mark.requirement("RECALL-10")
@pytest.mark.parametrize(
    "options", [{"rerank": "never"}, {"rerank": "auto"}, {}, {"mode": "words", "rerank": "always"}]
)
def test_tokens_are_not_compared_unless_that_pays_or_was_asked_for(
    open_store: OpenStore, watched: Watched, options: dict[str, Any]
) -> None:
    eng = open_store(embedder="static")
    say(eng)
    assert {hit.why["tokens"] for hit in eng.recall("Which storm closed the harbour?", **options)} == {0.0}
    assert "tokens" not in watched.calls


@pytest.mark.requirement("RECALL-10")
def test_it_pays_for_models_that_read_a_text_in_context() -> None:
    assert weights_of("minilm:all-MiniLM-L6-v2").reranks
    assert not weights_of("static:l2_supercat_256").reranks


@pytest.mark.requirement("RECALL-10")
@pytest.mark.parametrize("rerank", ["", "sometimes", True, None, 1])
def test_another_word_for_rerank_is_refused(open_store: OpenStore, rerank: object) -> None:
    with pytest.raises(InvalidInput, match="rerank"):
        open_store(embedder="none").recall("storm", rerank=rerank)


@pytest.mark.requirement("RECALL-10")
def test_without_a_model_rerank_changes_nothing(open_store: OpenStore) -> None:
    eng = open_store(embedder="none")
    say(eng)
    assert texts(eng.recall("the storm", rerank="always")) == texts(eng.recall("the storm", rerank="never")) != []


@pytest.mark.requirement("RECALL-10")
def test_a_model_that_fails_to_compare_costs_nothing_but_the_comparison(
    open_store: OpenStore, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    eng = open_store(embedder="static")
    say(eng)

    def fail(what: str) -> None:
        if what == "tokens":
            raise EmbedderFailed("out of memory")

    watched.happens = fail
    with caplog.at_level(logging.WARNING, "engram"):
        hits = eng.recall("the storm", rerank="always")
    assert texts(hits) == texts(eng.recall("the storm", rerank="never")) != []
    assert "out of memory" in caplog.text


@pytest.mark.requirement("RECALL-6", "RECALL-10")
@pytest.mark.parametrize(
    "query",
    [
        "'\";--",
        "%",
        "OR AND NOT (",
        "\U0001f600",
        "\u6771\u4eac",
        "?!",
        "the of and",
        "e\u0301" * 50,
        "storm " * 17_000,
        "x" * 100_000,
    ],
)
def test_any_query_may_be_reranked(open_store: OpenStore, query: str) -> None:
    eng = open_store(embedder="static")
    say(eng)
    eng.remember("storm " * 2_000)
    for mode in ("hybrid", "vectors"):
        assert all(0 <= hit.score < 1 for hit in eng.recall(query, mode=mode, rerank="always"))


@pytest.mark.requirement("RECALL-15")
@pytest.mark.parametrize("rerank", ["always", "never"])
def test_no_transaction_is_open_while_the_model_works(open_store: OpenStore, watched: Watched, rerank: str) -> None:
    eng = open_store(embedder="static")
    say(eng)
    open_ones = []
    watched.happens = lambda what: open_ones.append(eng._view.engine._current())
    assert eng.recall("Which storm closed the harbour?", rerank=rerank)
    assert open_ones == [None] * (2 if rerank == "always" else 1)


@pytest.mark.requirement("RECALL-15", "RECALL-5")
@pytest.mark.parametrize("moment", ["weighted", "tokens"])
def test_what_changes_while_the_model_works_is_recalled_as_it_is_afterwards(
    open_store: OpenStore, watched: Watched, moment: str
) -> None:
    eng, other = open_store(embedder="static"), open_store(embedder="none")
    say(eng)
    edited = eng.remember("The storm took the roof of the harbour office.")
    gone = eng.remember("The storm sank a boat in the harbour.")

    def change(what: str) -> None:
        if what == moment and other.memories.get(gone.id).status == "active":
            other.memories.update(edited.id, "The storm took the chimney of the harbour office.")
            other.memories.archive(gone.id)
            other.exchanges.add("s", "user", "A storm in the harbour again.")

    watched.happens = change
    found = texts(eng.recall("What did the storm do in the harbour?", 20, rerank="always"))
    assert "The storm took the chimney of the harbour office." in found
    assert "A storm in the harbour again." in found
    assert not {edited.content, gone.content} & set(found)


@pytest.mark.requirement("RECALL-15")
def test_a_store_that_never_rests_is_answered_without_comparing_tokens(open_store: OpenStore, watched: Watched) -> None:
    eng, other = open_store(embedder="static"), open_store(embedder="none")
    say(eng)

    def change(what: str) -> None:
        if what == "tokens":
            other.exchanges.add("s", "user", f"The storm came back, time {len(watched.calls)}.")

    watched.happens = change
    hits = eng.recall("the storm", 20, rerank="always")
    assert {hit.why["tokens"] for hit in hits} == {0.0}
    assert watched.calls.count("tokens") == 3
    assert len([text for text in texts(hits) if "came back" in text]) == 3


@pytest.mark.requirement("RECALL-11")
@pytest.mark.parametrize("mode", ["words", "hybrid"])
def test_of_what_fits_equally_well_the_time_that_is_named_comes_first(
    open_store: OpenStore, clock: ShiftedClock, mode: str
) -> None:
    eng = open_store(embedder="static")
    for sid, at in (("a", "2023-03-10"), ("b", "2023-05-20"), ("c", "2023-09-01"), ("d", clock.now())):
        say(eng, ["The storm closed the harbour."], sid, created_at=at)
    hits = eng.recall("What did the storm close in May 2023?", 4, mode=mode)
    assert hits[0].session_id == "b"
    assert hits[0].why["dates"] == ["May 2023"]
    assert eng.recall("What did the storm close today?", 4, mode=mode)[0].session_id == "d"
    undated = eng.recall("What did the storm close?", 4, mode=mode)
    assert (undated[0].session_id, undated[0].why["dates"]) == ("d", [])


@pytest.mark.requirement("RECALL-11", "RECALL-12")
@pytest.mark.parametrize("mode", ["words", "hybrid"])
def test_neither_a_date_nor_recency_buries_an_exact_match(
    open_store: OpenStore, clock: ShiftedClock, mode: str
) -> None:
    eng = open_store(embedder="static")
    exact = "The password of the harbour wifi is larch-otter."
    say(eng, [exact], "old", created_at="2021-01-01")
    for day in range(30):
        say(eng, [f"The harbour was quiet, day {day}."], f"day {day}", created_at="2023-05-07")
        say(eng, [f"Somebody asked for a password, {day}."], f"today {day}", created_at=clock.now())
    for question in (
        "password of the harbour wifi",
        "What is the password of the harbour wifi on 2023-05-07, and today?",
    ):
        assert eng.recall(question, mode=mode)[0].text == exact


@pytest.mark.requirement("RECALL-12")
@pytest.mark.parametrize("mode", ["words", "hybrid"])
def test_of_what_fits_equally_well_the_newer_comes_first(open_store: OpenStore, clock: ShiftedClock, mode: str) -> None:
    eng = open_store(embedder="static")
    for sid in ("a", "b", "c"):
        say(eng, ["The storm closed the harbour."], sid)
        clock.advance(40 * 86_400)
    assert [hit.session_id for hit in eng.recall("harbour storm", mode=mode)] == ["c", "b", "a"]


@pytest.mark.requirement("RECALL-13")
def test_an_unknown_session_is_an_error_to_search_in_but_may_be_left_out(open_store: OpenStore) -> None:
    eng = open_store(embedder="none")
    say(eng)
    for mode in ("words", "hybrid"):
        with pytest.raises(SessionNotFound, match="nobody"):
            eng.recall("storm", session_id="nobody", mode=mode)
    assert texts(eng.recall("storm", exclude_session="nobody")) == texts(eng.recall("storm")) != []


@pytest.mark.requirement("RECALL-14")
def test_gists_and_eras_are_found_by_themselves(open_store: OpenStore) -> None:
    eng = open_store(embedder="static")
    ids = say(eng)
    gist = eng.remember("A storm closed the harbour.", kind="gist", session_id="s", sources=[("exchange", ids[0])])
    era = eng.remember("The year of the storms.", kind="era")
    eng.remember("The storm was loud.")
    assert [hit.memory_id for hit in eng.memories.recall_gists("the storm")] == [gist.id]
    assert eng.memories.recall_gists("the storm", exclude_session="s") == []
    assert [hit.memory_id for hit in eng.memories.recall_eras("the storm")] == [era.id]
