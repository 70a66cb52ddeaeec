"""The backlog: what waits for its vector, or, if it is a log, for its words, on both engines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest

from engram import Engram
from engram.embedding import Embedder
from engram.errors import EmbedderFailed
from engram.memory import word_index
from engram.memory.embedding_queue import PIECES, STEP, EmbeddingQueue
from tests.conftest import ShiftedClock
from tests.embedding._processes import may_fork, works_in_a_child

OpenStore = Callable[..., Engram]

#: No word in common with the question that it answers.
ANSWER, QUESTION = "The puppy sleeps beside the fireplace", "where do dogs rest?"
OTHERS = ["Invoices are due in March", "The compiler rejects unsigned integers", "Bridges need regular inspection"]


class InterruptedEmbedder:
    """Lets something happen, once unless `always`, while a worker computes for a long time."""

    def __init__(self, embedder: Embedder, interruption: Callable[[], object]) -> None:
        self._embedder = embedder
        self._interruption: Callable[[], object] | None = interruption
        self.name, self.dims = embedder.name, embedder.dims
        self.always = False

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        made = self._embedder.embed(texts)
        interruption = self._interruption
        if not self.always:
            self._interruption = None
        if interruption:
            interruption()
        return made


class InterruptedQueue(EmbeddingQueue):
    model: InterruptedEmbedder

    def embedder(self) -> Embedder:
        return self.model


@pytest.fixture
def eng(open_store: OpenStore) -> Engram:
    """A process that may load a model."""
    return open_store(embedder="static")


def backlog(eng: Engram) -> EmbeddingQueue:
    return EmbeddingQueue(eng._view)


def interrupted(eng: Engram, interruption: Callable[[], object]) -> InterruptedQueue:
    made = InterruptedQueue(eng._view)
    embedder = backlog(eng).embedder()
    assert embedder is not None
    made.model = InterruptedEmbedder(embedder, interruption)
    return made


def say(eng: Engram, *texts: str, embed: bool = True) -> list[int]:
    eng.sessions.ensure("s")
    return [eng.exchanges.add("s", "user", text, embed=embed) for text in texts]


def fill(eng: Engram, count: int) -> None:
    eng.sessions.ensure("s")
    eng.exchanges.add_many(
        ({"session_id": "s", "role": "user", "content": f"turn {n}"} for n in range(count)), embed=False
    )


def closest(eng: Engram, query: str = QUESTION) -> str | None:
    """What is found by meaning alone."""
    hits = eng.recall(query, 1, mode="vectors")
    return hits[0].text if hits else None


def vectors(eng: Engram) -> list[tuple[str, int, str]]:
    """What has a vector, and by which model, each as often as it has one."""
    with eng._view.engine.read() as tx:
        rows = tx.all("SELECT i.kind, i.ref, v.model FROM vectors v JOIN items i ON i.id = v.item ORDER BY i.id")
    return [(kind, ref, model) for kind, ref, model in rows]


def die_holding(eng: Engram, count: int) -> None:
    """A worker takes its share and is never heard of again."""

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(eng, die).work(count)


@pytest.mark.requirement("BACKLOG-1")
def test_a_turn_without_a_vector_is_found_by_words_at_once_and_by_meaning_later(eng: Engram) -> None:
    say(eng, *OTHERS)
    (id,) = say(eng, ANSWER, embed=False)
    assert [hit.exchange_id for hit in eng.recall("puppy fireplace", 1)] == [id]
    assert (backlog(eng).size(), closest(eng) == ANSWER) == (1, False)
    assert backlog(eng).work() == 1
    assert (backlog(eng).size(), closest(eng)) == (0, ANSWER)


@pytest.mark.requirement("BACKLOG-1")
def test_a_memory_without_a_vector_is_found_by_words_at_once_and_by_meaning_later(eng: Engram) -> None:
    for other in OTHERS:
        eng.remember(other)
    made = eng.remember(ANSWER, embed=False)
    assert [hit.memory_id for hit in eng.recall("puppy fireplace", 1)] == [made.id]
    assert (backlog(eng).size(), closest(eng) == ANSWER) == (1, False)
    assert backlog(eng).work() == 1
    assert (backlog(eng).size(), closest(eng)) == (0, ANSWER)


@pytest.mark.requirement("BACKLOG-1")
def test_nothing_waits_where_the_model_is_at_hand(eng: Engram) -> None:
    say(eng, ANSWER, *OTHERS)
    eng.remember(ANSWER)
    assert (backlog(eng).size(), backlog(eng).work()) == (0, 0)
    assert len(vectors(eng)) == 5


@pytest.mark.requirement("BACKLOG-1")
def test_what_a_process_without_a_model_writes_is_embedded_by_one_that_has_it(
    eng: Engram, open_store: OpenStore
) -> None:
    plain = open_store(embedder="none")
    say(plain, ANSWER, *OTHERS)
    assert (closest(eng), backlog(eng).size()) == (None, 4)
    backlog(eng).work()
    assert closest(eng) == closest(open_store()) == ANSWER


@pytest.mark.requirement("BACKLOG-1")
def test_a_worker_without_a_model_leaves_the_vectors_to_those_who_can_make_them(
    eng: Engram, open_store: OpenStore
) -> None:
    say(eng, *OTHERS)
    say(eng, ANSWER, embed=False)
    backlog(open_store(embedder="none")).work()
    assert backlog(eng).size() == 1
    assert len(vectors(eng)) == 3


@pytest.mark.requirement("BACKLOG-1", "RECALL-8")
def test_a_worker_with_another_model_leaves_the_vectors_to_those_who_have_the_right_one(
    eng: Engram, open_store: OpenStore
) -> None:
    say(eng, *OTHERS)
    say(eng, ANSWER, embed=False)
    with eng._view.engine.write() as tx:
        tx.run("UPDATE models SET model = 'another'")
    other = open_store()
    backlog(other).work()
    assert len(vectors(other)) == 3
    assert backlog(other).size() == 1


@pytest.mark.requirement("BACKLOG-2")
@pytest.mark.parametrize(
    "limit, steps", [(None, [STEP, STEP + 6]), (10, [10]), (STEP + 1, [STEP, STEP + 1]), (1_000, [STEP, STEP + 6])]
)
def test_work_is_done_in_bounded_steps_with_progress(eng: Engram, limit: int | None, steps: list[int]) -> None:
    fill(eng, STEP + 6)
    seen: list[int] = []
    assert backlog(eng).work(limit, seen.append) == steps[-1]
    assert seen == steps
    assert backlog(eng).size() == STEP + 6 - steps[-1]
    assert len(vectors(eng)) == steps[-1]


@pytest.mark.requirement("BACKLOG-2")
def test_no_transaction_is_open_while_a_worker_computes(eng: Engram, open_store: OpenStore) -> None:
    say(eng, ANSWER, embed=False)
    other = open_store(embedder="none", busy_timeout=5)
    assert interrupted(eng, lambda: other.world.set("written meanwhile")).work() == 1
    assert eng.world.get() == "written meanwhile"


@pytest.mark.requirement("BACKLOG-2")
def test_two_workers_at_once_do_everything_exactly_once(eng: Engram, open_store: OpenStore) -> None:
    fill(eng, 150)
    stores, barrier = [eng, open_store()], threading.Barrier(2)

    def work(store: Engram) -> int:
        return interrupted(store, lambda: barrier.wait(10)).work()

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(work, stores))
    assert sum(done) == 150
    assert min(done) > 0
    assert backlog(eng).size() == 0
    assert [ref for _, ref, _ in vectors(eng)] == [turn.id for turn in eng.exchanges.history("s")]


@pytest.mark.requirement("BACKLOG-2")
def test_the_share_of_a_dead_worker_is_taken_over_after_its_time(
    eng: Engram, open_store: OpenStore, clock: ShiftedClock
) -> None:
    say(eng, *OTHERS, embed=False)
    die_holding(eng, 2)
    other = open_store()
    assert backlog(other).work() == 1
    assert backlog(other).size() == 2
    clock.advance(61)
    assert backlog(other).work() == 2
    assert len(set(vectors(eng))) == len(vectors(eng)) == 3


@pytest.mark.requirement("BACKLOG-2")
def test_a_worker_that_comes_back_after_its_time_does_nothing_twice(
    eng: Engram, open_store: OpenStore, clock: ShiftedClock
) -> None:
    say(eng, *OTHERS, embed=False)
    eng.sessions.log("s", "a zebra was seen")
    other = open_store()

    def overtake() -> None:
        clock.advance(61)
        assert backlog(other).work() == 4

    interrupted(eng, overtake).work()
    assert len(set(vectors(eng))) == len(vectors(eng)) == 4
    assert len(eng.recall("zebra", roles=["log"], mode="words")) == 1


@pytest.mark.requirement("BACKLOG-2")
def test_a_worker_that_comes_back_after_its_time_does_not_free_what_another_has_taken_over(
    eng: Engram, open_store: OpenStore, clock: ShiftedClock
) -> None:
    say(eng, ANSWER, embed=False)
    other = open_store()

    def overtake() -> None:
        clock.advance(61)
        die_holding(other, 1)
        raise EmbedderFailed("too late")

    # Its model failed, so it can only give back what it took.
    assert interrupted(eng, overtake).work() == 0
    assert backlog(eng).work() == 0
    clock.advance(61)
    assert backlog(eng).work() == 1


@pytest.mark.requirement("BACKLOG-2")
def test_a_failed_step_leaves_everything_to_be_done(eng: Engram, clock: ShiftedClock) -> None:
    say(eng, ANSWER, *OTHERS, embed=False)
    eng.sessions.log("s", "a zebra was seen")
    die_holding(eng, 5)
    assert (backlog(eng).size(), vectors(eng)) == (5, [])
    clock.advance(61)
    assert backlog(eng).work() == 5
    assert closest(eng) == ANSWER


@pytest.mark.requirement("BACKLOG-2")
def test_a_memory_that_is_edited_while_a_worker_computes_gets_the_vector_of_its_new_text(
    eng: Engram, open_store: OpenStore, clock: ShiftedClock
) -> None:
    plain = open_store(embedder="none")
    for other in OTHERS:
        eng.remember(other)
    made = plain.remember(ANSWER)
    interrupted(eng, lambda: plain.memories.update(made.id, "Taxes rise again")).work()
    clock.advance(61)
    backlog(eng).work()
    assert closest(eng, "puppies and dogs by the hearth") != "Taxes rise again"
    assert closest(eng, "levies are going up") == "Taxes rise again"


@pytest.mark.requirement("BACKLOG-2")
def test_each_workspace_has_a_backlog_of_its_own(eng: Engram) -> None:
    foo, foobar = eng.workspace("foo"), eng.workspace("foobar")
    say(foo, ANSWER, embed=False)
    say(foobar, *OTHERS, embed=False)
    assert (backlog(foo).size(), backlog(foobar).size()) == (1, 3)
    assert backlog(foo).work() == 1
    assert (backlog(foo).size(), backlog(foobar).size()) == (0, 3)


@pytest.mark.requirement("BACKLOG-3")
@pytest.mark.parametrize("embedder", ["none", "static"])
def test_logs_are_found_once_the_backlog_was_worked_off(open_store: OpenStore, embedder: str) -> None:
    eng = open_store(embedder=embedder)
    sid = eng.sessions.register("codex", "Working", project="shop")
    entry = eng.sessions.log(sid, "deployed the zebra service")
    again = eng.exchanges.add(sid, "log", "the zebra service is up")
    assert eng.recall("zebra", roles=["log"]) == []
    assert backlog(eng).size() == 2
    backlog(eng).work()
    hits = eng.recall("zebra", roles=["log"], project="shop")
    assert {hit.exchange_id for hit in hits} == {entry.id, again}
    assert {(hit.label, hit.session_id, hit.trust) for hit in hits} == {("log", sid, "agent")}
    assert eng.recall("zebra", mode="words") == []
    assert backlog(eng).work() == 0


@pytest.mark.requirement("BACKLOG-4")
def test_a_worker_without_a_model_looks_once_at_what_lacks_its_words_and_never_at_what_lacks_a_vector_only(
    open_store: OpenStore,
) -> None:
    plain = open_store(embedder="none")
    fill(plain, 2 * STEP)
    plain.remember("Taxes rise again")
    plain.sessions.log("s", "a zebra was seen")
    steps: list[int] = []
    assert plain.backlog.work(progress=steps.append) == 0
    assert steps == [0]  # the log
    assert plain.recall("zebra", roles=["log"])
    assert plain.backlog.work(progress=steps.append) == 0
    assert steps == [0]
    assert plain.backlog.size() == 2 * STEP + 2
    assert open_store(embedder="static").backlog.work() == 2 * STEP + 2


@pytest.mark.requirement("BACKLOG-4")
def test_a_model_that_fails_is_asked_once_and_the_words_are_indexed_all_the_same(eng: Engram) -> None:
    fill(eng, 2 * STEP)
    eng.sessions.log("s", "a zebra was seen")
    asked: list[int] = []

    def fail() -> None:
        asked.append(1)
        raise EmbedderFailed("no answer")

    failing = interrupted(eng, fail)
    failing.model.always = True
    assert failing.work() == 0
    assert asked == [1]
    assert eng.recall("zebra", roles=["log"], mode="words")
    assert backlog(eng).work() == 2 * STEP + 1


def left_without_words(eng: Engram, text: str) -> int:
    """A turn as a hook leaves it that was killed right after its first commit."""
    eng.sessions.ensure("s")
    return eng.exchanges.add("s", "user", text, embed=False, words=False)


#: More pieces than are indexed in one transaction, each with a word of its own.
LONG = " ".join(f"marker{number} " + f"filler{number} " * 100 for number in range(3 * PIECES))


@pytest.mark.requirement("BACKLOG-5")
def test_a_turn_that_was_stored_without_its_words_is_there_and_found_once_they_are_indexed(eng: Engram) -> None:
    say(eng, *OTHERS)
    id = left_without_words(eng, ANSWER)
    assert eng.exchanges.get(id).content == ANSWER
    assert eng.recall("puppy fireplace", mode="words") == []
    eng.backlog.index_words()
    assert [hit.exchange_id for hit in eng.recall("puppy fireplace", 1, mode="words")] == [id]
    assert (backlog(eng).size(), backlog(eng).work(), backlog(eng).size()) == (1, 1, 0)
    assert closest(eng) == ANSWER


@pytest.mark.requirement("BACKLOG-5")
@pytest.mark.parametrize("embedder", ["static", "none"])
def test_a_worker_indexes_the_words_that_nobody_came_back_for(open_store: OpenStore, embedder: str) -> None:
    worker = open_store(embedder=embedder)
    ids = [left_without_words(worker, ANSWER), left_without_words(worker, LONG)]
    worker.backlog.work()
    assert [hit.exchange_id for hit in worker.recall("puppy fireplace", 1, mode="words")] == ids[:1]
    assert all(worker.recall(f"marker{number}", 1, mode="words") for number in range(3 * PIECES))
    assert worker.backlog.size() == (0 if embedder == "static" else 2)


@pytest.mark.requirement("BACKLOG-5")
@pytest.mark.parametrize("finish", ["index_words", "work"])
def test_words_that_were_indexed_half_way_are_completed_and_none_twice(eng: Engram, finish: str) -> None:
    id = left_without_words(eng, LONG)
    eng.backlog.index_words(Answers(False, True))
    with eng._view.engine.read() as tx:
        assert len(tx.all("SELECT id FROM items")) == PIECES, "one short transaction"
    getattr(eng.backlog, finish)()
    with eng._view.engine.read() as tx:
        rows = tx.all("SELECT piece FROM items WHERE ref = :id ORDER BY piece", id=id)
    assert [row[0] for row in rows] == list(range(len(word_index.cut(LONG))))


class Answers:
    """Gives its answers one after the other."""

    def __init__(self, *answers: bool) -> None:
        self._answers = iter(answers)

    def __call__(self) -> bool:
        return next(self._answers)


@pytest.mark.requirement("BACKLOG-5")
def test_many_who_index_the_same_words_at_once_index_them_once(eng: Engram, open_store: OpenStore) -> None:
    id = left_without_words(eng, LONG)
    stores, barrier = [eng, open_store(embedder="none"), open_store(embedder="static")], threading.Barrier(3)

    def finish(store: Engram) -> None:
        barrier.wait(60)
        store.backlog.index_words()

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(finish, store) for store in stores]:
            each.result(60)
    with eng._view.engine.read() as tx:
        rows = tx.all("SELECT piece FROM items WHERE ref = :id ORDER BY piece", id=id)
    assert [row[0] for row in rows] == list(range(len(word_index.cut(LONG))))


@pytest.mark.requirement("BACKLOG-5")
def test_a_turn_that_is_forgotten_before_its_words_are_indexed_leaves_none(eng: Engram) -> None:
    id = left_without_words(eng, LONG)
    eng.backlog.index_words(Answers(False, True))
    eng.forget(exchange=id)
    eng.backlog.index_words()
    with eng._view.engine.read() as tx:
        rows = [*tx.all("SELECT id FROM items"), *tx.all("SELECT id FROM terms"), *tx.all("SELECT id FROM backlog")]
    assert rows == []


@pytest.mark.requirement("BACKLOG-5", "BACKLOG-4")
def test_logs_wait_for_a_worker_and_not_for_a_hook(eng: Engram) -> None:
    eng.sessions.ensure("s")
    eng.sessions.log("s", "puppy by the fireplace")
    eng.backlog.index_words()
    assert eng.recall("puppy", roles=["log"], mode="words") == []


@pytest.mark.requirement("MESSAGE-7", "BACKLOG-5")
def test_what_the_release_before_finished_or_left_is_left_alone(eng: Engram) -> None:
    id = left_without_words(eng, ANSWER)
    with eng._view.engine.write() as tx:
        entry = backlog(eng)._entry(tx, "exchange", id)
        assert entry is not None
        word_index.add(tx, "default", [entry])
        # That release knows only of this mark.
        tx.run("UPDATE backlog SET indexed = 1")
        tx.run(
            "INSERT INTO backlog (workspace, kind, ref, taken_until, indexed) VALUES ('default', 'exchange', 99, '', 0)"
        )
    eng.backlog.index_words()
    assert len(eng.recall("puppy fireplace", mode="words")) == 1
    assert backlog(eng).work() == 2


@may_fork
@pytest.mark.requirement("MCP-16", "EMBED-6")
def test_a_forked_child_does_not_wait_for_the_thread_that_loads_its_parent_s_model(eng: Engram) -> None:
    queue = backlog(eng)
    queue.warm_later()
    assert not queue.is_warm()
    assert works_in_a_child(queue.is_warm)
    queue.warm()
    assert queue.is_warm()


@pytest.mark.requirement("MCP-16")
@pytest.mark.parametrize("embedder", ["none", "openai", "openai:text-embedding-3-large"])
def test_what_need_not_be_loaded_is_never_being_loaded(open_store: OpenStore, embedder: str) -> None:
    queue = backlog(open_store(embedder=embedder))
    queue.warm_later()
    assert queue.is_warm()
    queue.warm()
