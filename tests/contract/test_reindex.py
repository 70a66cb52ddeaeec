"""Reindexing: another model's vectors for everything, the old ones serving meanwhile, on both engines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from engram import Conflict, Engram, InvalidInput
from engram.embedding import load
from engram.memory import word_index
from engram.memory.embedding_queue import STEP

OpenStore = Callable[..., Engram]

#: No word in common with the question that it answers.
ANSWER, QUESTION = "The puppy sleeps beside the fireplace", "where do dogs rest?"
OTHERS = ["Invoices are due in March", "The compiler rejects unsigned integers", "Bridges need regular inspection"]
OLDER = "older:model"


@pytest.fixture
def eng(open_store: OpenStore) -> Engram:
    return open_store(embedder="static")


def name_of(choice: str) -> str:
    embedder = load(choice)
    assert embedder is not None
    return embedder.name


STATIC = name_of("static")


def say(eng: Engram, *texts: str) -> list[int]:
    eng.sessions.ensure("s")
    return [eng.exchanges.add("s", "user", text) for text in texts]


def fill(eng: Engram, count: int) -> None:
    eng.sessions.ensure("s")
    eng.exchanges.add_many({"session_id": "s", "role": "user", "content": f"turn {n}"} for n in range(count))


def age(eng: Engram) -> None:
    """As if everything so far had been embedded with an older model."""
    with eng._view.engine.write() as tx:
        tx.run("UPDATE vectors SET model = 'older:model'")
        tx.run("UPDATE models SET model = 'older:model'")


def models(eng: Engram) -> dict[str, int]:
    """How many vectors there are of each model."""
    with eng._view.engine.read() as tx:
        return {model: count for model, count in tx.all("SELECT model, COUNT(*) FROM vectors GROUP BY model")}


def state(eng: Engram) -> tuple[str, str | None]:
    with eng._view.engine.read() as tx:
        ((model, next),) = tx.all(
            "SELECT model, next FROM models WHERE workspace = :workspace", workspace=eng.workspace_name
        )
    return model, next


def items(eng: Engram) -> int:
    with eng._view.engine.read() as tx:
        count: int = tx.all("SELECT COUNT(*) FROM items")[0][0]
    return count


def closest(eng: Engram, query: str = QUESTION) -> str | None:
    """What is found by meaning alone."""
    hits = eng.recall(query, 1, mode="vectors")
    return hits[0].text if hits and hits[0].why["meaning"] else None


class Meanwhile:
    """Lets something happen once, after the first step."""

    def __init__(self, happening: Callable[[], object]) -> None:
        self._happening: Callable[[], object] | None = happening

    def __call__(self, done: int, total: int) -> None:
        if done and self._happening:
            happening, self._happening = self._happening, None
            happening()


@pytest.mark.requirement("REINDEX-1")
def test_everything_gets_vectors_of_the_new_model_and_the_old_ones_go(eng: Engram) -> None:
    say(eng, ANSWER, *OTHERS, "a long text of many words " * 100)
    eng.remember("Taxes rise again")
    eng.memories.archive(eng.remember("Cats chase mice").id)
    eng.backlog.work()
    age(eng)
    assert closest(eng) is None
    assert eng.reindex() == items(eng) > 7
    assert models(eng) == {STATIC: items(eng)}
    assert state(eng) == (STATIC, None)
    assert closest(eng) == ANSWER
    assert closest(eng, "levies are going up") == "Taxes rise again"


@pytest.mark.requirement("REINDEX-1")
def test_a_named_model_takes_over_and_the_configured_one_falls_back_to_words(
    eng: Engram, open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    say(eng, ANSWER, *OTHERS)
    assert closest(eng) == ANSWER
    assert open_store(embedder="static").reindex("minilm") == 4
    assert models(eng) == {name_of("minilm"): 4}
    assert closest(open_store(embedder="minilm")) == ANSWER
    with caplog.at_level(logging.WARNING, "engram"):
        assert {hit.why["meaning"] for hit in eng.recall("puppy")} == {0.0}
    assert name_of("minilm") in caplog.text
    say(eng, "Taxes rise again")
    assert (models(eng), eng.backlog.size()) == ({name_of("minilm"): 4}, 1)


@pytest.mark.requirement("REINDEX-1")
def test_progress_goes_from_what_is_done_to_all_there_is(eng: Engram) -> None:
    fill(eng, 2 * STEP + 1)
    age(eng)
    seen: list[tuple[int, int]] = []
    eng.reindex(progress=lambda done, total: seen.append((done, total)))
    total = 2 * STEP + 1
    assert [each[1] for each in seen] == [total] * len(seen)
    assert (seen[0][0], seen[-1][0]) == (0, total)
    assert [each[0] for each in seen] == sorted(each[0] for each in seen)


@pytest.mark.requirement("REINDEX-1")
def test_with_the_model_that_serves_only_what_lacks_a_vector_is_embedded(eng: Engram, open_store: OpenStore) -> None:
    say(eng, *OTHERS)
    say(open_store(embedder="none"), ANSWER)
    assert closest(eng) != ANSWER
    assert (eng.reindex(), eng.reindex()) == (1, 0)
    assert closest(eng) == ANSWER


@pytest.mark.requirement("REINDEX-1")
def test_only_the_own_workspace_is_reindexed(eng: Engram) -> None:
    foo, foobar = eng.workspace("foo"), eng.workspace("foobar")
    say(foo, *OTHERS)
    say(foobar, ANSWER)
    age(eng)
    assert foo.reindex() == 3
    assert (state(foo), state(foobar)) == ((STATIC, None), (OLDER, None))
    assert models(eng) == {STATIC: 3, OLDER: 1}


@pytest.mark.requirement("REINDEX-1")
def test_without_a_model_or_inside_a_transaction_reindex_is_refused(eng: Engram, open_store: OpenStore) -> None:
    with pytest.raises(InvalidInput, match="none"):
        open_store(embedder="none").reindex()
    with pytest.raises(InvalidInput, match="no embedder 'nonsense'"):
        eng.reindex("nonsense")
    with eng.write(), pytest.raises(InvalidInput, match="outside of write"):
        eng.reindex()


@pytest.mark.requirement("REINDEX-2")
def test_the_old_vectors_serve_until_the_new_ones_are_complete(eng: Engram, open_store: OpenStore) -> None:
    say(eng, ANSWER, *OTHERS)
    fill(eng, STEP)
    seen: list[object] = []

    def look() -> None:
        assert 0 < models(eng)[name_of("minilm")] < STEP + 4
        assert state(eng) == (STATIC, name_of("minilm"))
        seen.append(closest(eng))
        seen.append(closest(open_store(embedder="minilm")))

    open_store().reindex("minilm", progress=Meanwhile(look))
    assert seen == [ANSWER, None]
    assert closest(open_store(embedder="minilm")) == ANSWER


@pytest.mark.requirement("REINDEX-2")
def test_a_run_that_died_goes_on_where_it_was(eng: Engram, open_store: OpenStore) -> None:
    fill(eng, 3 * STEP)
    age(eng)

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_store(embedder="static").reindex(progress=Meanwhile(die))
    assert (models(eng)[OLDER], state(eng)) == (3 * STEP, (OLDER, STATIC))
    made = models(eng)[STATIC]
    assert 0 < made < 3 * STEP
    assert eng.reindex() == 3 * STEP - made
    assert models(eng) == {STATIC: 3 * STEP}


@pytest.mark.requirement("REINDEX-2")
def test_old_vectors_that_a_run_left_when_it_died_go_with_the_next(eng: Engram) -> None:
    say(eng, ANSWER, *OTHERS)
    with eng._view.engine.write() as tx:
        tx.run("INSERT INTO vectors (item, model, vector) SELECT item, 'older:model', vector FROM vectors")
    assert models(eng) == {STATIC: 4, OLDER: 4}
    assert eng.reindex() == 0
    assert models(eng) == {STATIC: 4}


@pytest.mark.requirement("REINDEX-3")
def test_what_others_write_edit_and_take_away_meanwhile_is_right_at_the_end(eng: Engram, open_store: OpenStore) -> None:
    edited, archived = eng.remember("Old news"), eng.remember("Cats chase mice")
    fill(eng, 3 * STEP)
    other, plain = open_store(embedder="static"), open_store(embedder="none")

    def happen() -> None:
        say(other, ANSWER)
        say(plain, *OTHERS)
        other.memories.update(edited.id, "Taxes rise again")
        other.memories.archive(archived.id)

    open_store().reindex("minilm", progress=Meanwhile(happen))
    now = open_store(embedder="minilm")
    assert models(now) == {name_of("minilm"): items(now)}
    assert closest(now) == ANSWER
    assert closest(now, "levies are going up") == "Taxes rise again"
    assert [hit.memory_id for hit in now.recall("felines hunting", 1, include_archived=True)] == [archived.id]


@pytest.mark.requirement("REINDEX-3")
def test_a_write_that_is_under_way_at_the_change_is_not_left_behind(eng: Engram, open_store: OpenStore) -> None:
    fill(eng, STEP + 1)
    other = open_store(embedder="static")
    begun, finish = threading.Event(), threading.Event()

    def write() -> None:
        with other.write():
            say(other, ANSWER)
            begun.set()
            finish.wait(30)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        assert begun.wait(30)
        timer = threading.Timer(0.3, finish.set)
        timer.start()
        open_store().reindex("minilm")
        writing.result()
        timer.join()
    now = open_store(embedder="minilm")
    # Either it came before the change, then it was embedded, or after, then it waits for somebody with the new model.
    now.backlog.work()
    assert models(now) == {name_of("minilm"): items(now)}
    assert closest(now) == ANSWER


@pytest.mark.requirement("REINDEX-3")
def test_a_long_lived_process_notices_that_the_model_has_changed(eng: Engram, open_store: OpenStore) -> None:
    new = open_store(embedder="minilm")
    say(eng, *OTHERS)
    assert closest(eng) is not None
    say(new, "Taxes rise again")
    assert new.backlog.size() == 1
    open_store().reindex("minilm")
    say(new, ANSWER)
    assert closest(new) == ANSWER
    say(eng, "Cats chase mice")
    assert models(eng) == {name_of("minilm"): 5}
    open_store().reindex("static")
    assert closest(eng) == ANSWER
    assert closest(eng, "felines hunting") == "Cats chase mice"
    assert models(eng) == {STATIC: 6}


@pytest.mark.requirement("REINDEX-4")
def test_two_at_once_share_the_work(eng: Engram, open_store: OpenStore) -> None:
    fill(eng, 10 * STEP)
    age(eng)
    stores, barrier = [open_store(embedder="static"), open_store(embedder="static")], threading.Barrier(2)

    def run(store: Engram) -> int:
        return store.reindex(progress=Meanwhile(lambda: barrier.wait(30)))

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(run, stores))
    # How much each gets is up to the machine. Nothing is done twice, and nothing is left.
    assert sum(done) == 10 * STEP
    assert models(eng) == {STATIC: 10 * STEP}
    assert state(eng) == (STATIC, None)


@pytest.mark.requirement("REINDEX-4")
def test_of_two_models_at_once_the_later_one_wins_and_the_other_says_so(eng: Engram, open_store: OpenStore) -> None:
    fill(eng, 2 * STEP)
    age(eng)
    with pytest.raises(Conflict, match=name_of("minilm")):
        eng.reindex("minilm", progress=Meanwhile(lambda: open_store().reindex("static")))
    assert models(eng) == {STATIC: 2 * STEP}
    assert state(eng) == (STATIC, None)


@pytest.mark.requirement("REINDEX-3")
def test_every_shelf_is_held_while_a_workspace_changes_over(eng: Engram) -> None:
    say(eng, ANSWER)
    eng.sessions.log("s", "a zebra was seen")
    for kind in ("note", "gist", "era", "digest"):
        eng.remember(f"a {kind} of things", kind=kind)
    eng.memories.archive(eng.remember("Cats chase mice").id)
    eng.backlog.work()
    with eng._view.engine.read() as tx:
        used = tx.all("SELECT DISTINCT shelf FROM items ORDER BY shelf")
    assert [shelf for (shelf,) in used] == list(word_index.SHELVES)


@pytest.mark.requirement("REINDEX-4")
def test_who_writes_without_a_pause_does_not_keep_it_from_its_end(eng: Engram, open_store: OpenStore) -> None:
    other = open_store(embedder="none")
    say(eng, *OTHERS)
    age(eng)
    steps = 0

    def write(done: int, total: int) -> None:
        nonlocal steps
        steps += 1
        assert steps < 100, "it follows the writer for ever"
        say(other, f"turn {steps}")

    eng.reindex(progress=write)
    assert state(eng) == (STATIC, None)
    assert models(eng) == {STATIC: len(OTHERS) + steps}
    assert eng.backlog.size() == 0
