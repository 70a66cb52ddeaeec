"""Reranking: how much of it is done, and the token vectors that a process keeps for it; on both engines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engram import Engram, embedding
from engram.embedding import TokenVectors
from engram.embedding.static import StaticEmbedder
from engram.memory import rerank
from engram.memory.passages import passage
from engram.memory.rerank import MOST_CHARACTERS, PASSAGE, Kept, choose
from engram.memory.scoring import Item, Query
from engram.records import Hit

OpenStore = Callable[..., Engram]

SAID = [
    "The harbour was closed because of the storm.",
    "A ferry left the harbour at noon, full of tourists.",
    "My puppy sleeps beside the fireplace.",
    "The storm broke two windows of the ferry terminal.",
]
QUESTION = "Which storm closed the harbour?"


class Counting(StaticEmbedder):
    """The default model. It records the texts whose tokens it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: list[str] = []

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        self.compared += texts
        return super().tokens(texts)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Counting:
    model = Counting()
    monkeypatch.setitem(embedding._loaded, "static", model)
    return model


@pytest.fixture
def eng(open_store: OpenStore, model: Counting) -> Engram:
    eng = open_store(embedder="static")
    for text in SAID:
        eng.remember(text)
    return eng


def asked(eng: Engram, **options: Any) -> list[Hit]:
    return eng.recall(QUESTION, 10, note=False, **{"rerank": "always", **options})


def kept(eng: Engram) -> Kept:
    with eng._view.engine.read() as tx:
        found: Kept = tx.memo["tokens"]
    return found


def item(id: int) -> Item:
    return Item(id, "memories", "memory", id, 0, "fact", None, None, None, "2026-01-01")


def question(*words: str) -> Query:
    """A question of these words, each rarer than the next."""
    weights = {word: float(len(words) - number) for number, word in enumerate(words)}
    return Query(list(words), 100, 20.0, dict.fromkeys(words, 1), weights, {})


@pytest.mark.requirement("RECALL-16")
def test_the_best_are_compared_until_their_texts_are_long_enough() -> None:
    texts = ["x" * 200] * 40
    chosen = choose(question("x"), ((item(number), text) for number, text in enumerate(texts)))
    assert list(chosen) == list(range(MOST_CHARACTERS // 200))
    assert choose(question("x"), [(item(1), "short"), (item(2), "x" * PASSAGE)]) == {1: "short", 2: "x" * PASSAGE}


@pytest.mark.requirement("RECALL-16")
@pytest.mark.parametrize("before", [0, 10, 150, 700])
@pytest.mark.parametrize("filling", ["The ferry left at noon. ", "ferry" * 40, "\u6771\u4eac" * 10])
def test_of_a_long_text_the_passage_with_most_of_the_question_is_compared(before: int, filling: str) -> None:
    fill = (filling * 50)[:before]
    text = f"{fill} A storm closed the harbour, the storm. {filling * 10} The storm storm storm. {filling * 10}"
    compared = passage(text, question("harbour", "storm", "close").weights, PASSAGE)
    assert "A storm closed the harbour" in compared
    assert compared.strip("…") in text
    assert len(compared.strip("…")) <= PASSAGE


@pytest.mark.requirement("RECALL-16")
def test_a_long_text_without_a_word_of_the_question_is_compared_by_its_beginning() -> None:
    text = "The ferry left at noon. " * 50
    for terms in (["harbour"], []):
        compared = passage(text, question(*terms).weights, PASSAGE)
        assert compared.endswith("…")
        assert text.startswith(compared.strip("…"))


@pytest.mark.requirement("RECALL-16")
def test_recall_among_long_texts_reads_a_passage_of_each(open_store: OpenStore, model: Counting) -> None:
    eng = open_store(embedder="static")
    for number in range(30):
        ferries = "The ferry left at noon, full of tourists. " * 10
        eng.remember(f"{ferries} Storm {number} closed the harbour. {ferries}")
    assert asked(eng)
    assert len(model.compared) == MOST_CHARACTERS // PASSAGE
    assert all("closed the harbour" in text for text in model.compared)


@pytest.mark.requirement("RECALL-17", "RECALL-5")
def test_what_is_kept_saves_the_model_s_work_and_changes_no_answer(
    open_store: OpenStore, eng: Engram, model: Counting
) -> None:
    cold = asked(eng)
    assert sorted(model.compared) == sorted(hit.text for hit in cold) != []
    model.compared.clear()
    assert [hit[:3] for hit in asked(eng)] == [hit[:3] for hit in cold]
    assert model.compared == []
    # Another process has other tokens at hand.
    other = open_store(embedder="static")
    other.recall("Where does the puppy sleep?", rerank="always", note=False)
    assert [hit[:3] for hit in asked(other)] == [hit[:3] for hit in cold]


@pytest.mark.requirement("RECALL-17", "FORGET-1")
@pytest.mark.parametrize("by", ["itself", "another process"])
def test_the_tokens_of_a_forgotten_text_are_gone_with_the_next_recall(
    open_store: OpenStore, eng: Engram, model: Counting, by: str
) -> None:
    found = asked(eng)
    before = len(kept(eng))
    (eng if by == "itself" else open_store(embedder="none")).forget(memory=found[0].memory_id)
    asked(eng)
    assert len(kept(eng)) == before - 1
    assert found[0].memory_id not in {each.ref for each in kept(eng)._items.values()}


@pytest.mark.requirement("RECALL-17")
def test_a_text_that_was_changed_is_compared_as_it_is_now(open_store: OpenStore, eng: Engram, model: Counting) -> None:
    first, *_ = asked(eng)
    assert first.memory_id is not None
    changed = "A storm of protest closed the harbour."
    open_store(embedder="none").memories.update(first.memory_id, changed)
    model.compared.clear()
    assert changed in [hit.text for hit in asked(eng)]
    assert model.compared == [changed]


@pytest.mark.requirement("RECALL-17")
def test_an_older_snapshot_brings_nothing_back(open_store: OpenStore, eng: Engram, model: Counting) -> None:
    first, *_ = asked(eng)
    assert first.memory_id is not None
    # On SQLite, forgetting waits this long for the older snapshot before it leaves the log as it is.
    other = open_store(embedder="none", busy_timeout=0.1)
    tokens = kept(eng)
    name = eng._view.workspace
    (key,) = [key for key, each in tokens._items.items() if each.ref == first.memory_id]
    found = {key.item: tokens._items[key].tokens}
    old = item(key.item)._replace(ref=first.memory_id)
    with eng._view.engine.read(feed=True) as tx:
        tx.value("SELECT COUNT(*) FROM memories")
        other.forget(memory=first.memory_id)
        later = threading.Thread(target=asked, args=(eng,))
        later.start()
        later.join()
        tokens.keep(tx, name, model.name, [old], {old.id: first.text}, found)
    # On an encrypted store forgetting rewrites the file, and a process starts again with nothing kept.
    assert key not in kept(eng)._items


@pytest.mark.requirement("RECALL-17")
def test_only_so_much_is_kept(eng: Engram, model: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(eng)
    tokens = kept(eng)
    everything = tokens.bytes
    assert everything == sum(each.tokens.nbytes for each in tokens._items.values()) > 0
    monkeypatch.setattr(rerank, "MOST_BYTES", everything - 1)
    asked(eng)
    assert tokens.bytes < everything
    assert tokens.bytes == sum(each.tokens.nbytes for each in tokens._items.values())


@pytest.mark.requirement("RECALL-17")
def test_threads_that_ask_at_once_get_the_same_answer(eng: Engram, model: Counting) -> None:
    together, answers = threading.Barrier(4), []

    def ask() -> None:
        together.wait()
        answers.append([hit[:3] for hit in asked(eng)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert all(answer == answers[0] for answer in answers)
    assert kept(eng).bytes == sum(each.tokens.nbytes for each in kept(eng)._items.values())


@pytest.mark.requirement("RECALL-17")
def test_a_transaction_that_may_be_rolled_back_keeps_nothing(eng: Engram, model: Counting) -> None:
    asked(eng)
    before = len(kept(eng))
    with eng.write():
        eng.remember("The harbour master predicted the storm.")
        assert "The harbour master predicted the storm." in [hit.text for hit in asked(eng)]
    assert len(kept(eng)) == before
