"""The word search: the same items as the full sum over all postings, and counts that are always exact."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from math import fsum, log
from pathlib import Path
from typing import NamedTuple

import pytest

from engram import Engram, StoreBusy
from engram.config import load
from engram.memory import analyser, bm25, pruning, recall_request, term_counts
from engram.memory.embedding_queue import EmbeddingQueue
from engram.memory.recall_request import Filters
from engram.storage.engine import Answer, Transaction
from tests._schemas import Schemas, url
from tests.conftest import KEY_FILE
from tests.stress._processes import scaled

OpenStore = Callable[..., Engram]

COMMON = ["yes", "okay", "think", "really", "people", "going", "thing", "time", "week", "good", "maybe", "want", "need"]
RARE = [
    f"{first}{last}" for first in ("bor", "kel", "vin", "mar", "tos", "lun") for last in ("dak", "fip", "gor", "zun")
]
COMPONENTS = ["parser", "router", "cache", "scheduler", "importer", "indexer", "gateway", "worker", "mailer"]
PROJECTS = ["atlas", "borealis", "cobalt", "delphi", "ember"]
TOOLS = ["sqlite", "postgres", "redis", "kafka", "nginx", "docker", "grafana", "pytest"]
TICKETS = (
    "why does the {c} in project {p} use {t} ticket {n}",
    "decision for project {p}: the {c} will use {t}, see ticket {n}",
    "tool report: tests of the {c} in project {p} passed, all use {t}, ticket {n}",
    "ticket {n} in project {p} is done, the {c} does use {t} now",
)


def chat(chooser: random.Random) -> str:
    """A few words by Zipf's law, some of them several times."""
    words = [*COMMON, *RARE, *(f"word{number}" for number in range(150))]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    return " ".join(chooser.choices(words, weights, k=chooser.randint(2, 25)))


def ticket(chooser: random.Random) -> str:
    fields = {"c": chooser.choice(COMPONENTS), "p": chooser.choice(PROJECTS), "t": chooser.choice(TOOLS)}
    return chooser.choice(TICKETS).format(n=chooser.randint(1, 300), **fields)


def code(chooser: random.Random) -> str:
    """A log line or a line of code: paths, identifiers and numbers."""
    part, other = chooser.choice(COMPONENTS), chooser.choice(TOOLS)
    return chooser.choice(
        (
            f"10:{chooser.randint(10, 59)}:00 ERROR src/{part}/{other}_client.py line {chooser.randint(1, 80)}",
            f"def load_{part}(self, {other}Url): return self.{part}Cache.get({chooser.randint(1, 40)})",
            f"INFO {part} worker {chooser.randint(1, 9)} connected to {other} in {chooser.randint(1, 200)} ms",
        )
    )


KINDS: dict[str, Callable[[random.Random], str]] = {"chat": chat, "ticket": ticket, "code": code}


def fill(eng: Engram, make: Callable[[random.Random], str], seed: int) -> None:
    """Turns of several sessions and projects, logs, memories, the archive, long texts and texts that are alike."""
    chooser = random.Random(seed)
    sessions = [eng.sessions.register("test", "made up", project=f"p{number % 2}") for number in range(5)]
    eng.exchanges.add_many(
        {
            "session_id": chooser.choice(sessions),
            "role": chooser.choice(("user", "assistant", "tool", "log")),
            "content": " ".join(make(chooser) for _ in range(30)) if number % 40 == 0 else make(chooser),
            "created_at": f"2026-0{chooser.randint(1, 9)}-01",
        }
        for number in range(400)
    )
    alike = make(chooser)
    eng.exchanges.add_many({"session_id": sessions[1], "role": "user", "content": alike} for _ in range(60))
    with eng.write():
        made = [eng.remember(f"{make(chooser)} {number}", kind="note").id for number in range(80)]
        for id in made[::4]:
            eng.memories.archive(id)
    EmbeddingQueue(eng._view).work()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engram]:
    """A store with a workspace for each kind of text."""
    if request.param == "sqlite":
        place, give_back = str(Path(tmp_path_factory.mktemp("words"), "engram.db")), None
    else:
        schemas: Schemas = request.getfixturevalue("postgres_schemas")
        schema = schemas.take()
        place, give_back = url(request.getfixturevalue("postgres_server"), schema), (schemas, schema)
    with Engram(settings=load(url=place, embedder="none")) as eng:
        for seed, (kind, make) in enumerate(KINDS.items()):
            fill(eng.workspace(kind), make, seed)
        yield eng
    if give_back is not None:
        give_back[0].give_back(give_back[1])


class Stored(NamedTuple):
    """What a workspace holds, read row by row."""

    #: By shelf and word: for each item, how often it has the word, and its length.
    postings: dict[tuple[str, str], dict[int, tuple[int, int]]]
    #: Shelf, session, project, time and length of each item.
    items: dict[int, tuple[str, str | None, str | None, str, int]]


def read(eng: Engram) -> Stored:
    postings: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
    with eng._view.engine.read(feed=True) as tx:
        rows = tx.all(
            "SELECT t.shelf, t.term, p.item, p.tf, p.length FROM terms t JOIN postings p ON p.term = t.id "
            "WHERE t.workspace = :workspace",
            workspace=eng._view.workspace,
        )
        items = tx.all(
            "SELECT id, shelf, session_id, project, at, length FROM items WHERE workspace = :workspace",
            workspace=eng._view.workspace,
        )
    for shelf, term, item, tf, length in rows:
        postings.setdefault((shelf, term), {})[item] = (tf, length)
    return Stored(postings, {id: row for id, *row in items})  # type: ignore[misc]


def full_sum(stored: Stored, filters: Filters, terms: list[str], limit: int) -> list[int]:
    """The best items by the sum over all postings of all words."""
    lengths = [length for shelf, _, _, _, length in stored.items.values() if shelf in filters.shelves]
    average = sum(lengths) / len(lengths) if lengths else 1.0
    counts = {term: sum(len(stored.postings.get((shelf, term), ())) for shelf in filters.shelves) for term in terms}
    kept = sorted((term for term in terms if counts[term]), key=lambda term: counts[term])[:24]
    parts: dict[int, list[float]] = {}
    for term in kept:
        weight = log(1 + (len(lengths) - counts[term] + 0.5) / (counts[term] + 0.5))
        for shelf in filters.shelves:
            for item, (tf, length) in stored.postings.get((shelf, term), {}).items():
                parts.setdefault(item, []).append(weight * tf * 1.9 / (tf + 0.9 * (0.6 + 0.4 * length / average)))
    found = [(-round(fsum(values), 9), item) for item, values in parts.items() if fits(stored, filters, item)]
    return [item for _, item in sorted(found)[:limit]]


def fits(stored: Stored, filters: Filters, item: int) -> bool:
    _, session, project, at, _ = stored.items[item]
    if not filters.filtered:
        return True
    return (
        (filters.session_id is None or session == filters.session_id)
        and (filters.exclude_session is None or session != filters.exclude_session)
        and (filters.project is None or project == filters.project)
        and (filters.since is None or at >= filters.since)
        and (filters.until is None or at < filters.until)
    )


def any_query(chooser: random.Random, make: Callable[[random.Random], str]) -> list[str]:
    """The words of a text, of several texts, or only common ones; at times words that nothing has."""
    words = " ".join(make(chooser) for _ in range(chooser.choice((1, 1, 2, 12)))).split()
    words = chooser.sample(words, min(len(words), chooser.choice((1, 2, 4, 8, 40))))
    if chooser.random() < 0.2:
        words += ["nowhere", chooser.choice(COMMON), "project use ticket"]
    return list(dict.fromkeys(analyser.terms(" ".join(words))))


def any_filters(chooser: random.Random, stored: Stored) -> Filters:
    def sometimes(value: str, odds: float = 0.15) -> str | None:
        return value if chooser.random() < odds else None

    sessions = sorted({session for _, session, _, _, _ in stored.items.values() if session is not None})
    return recall_request.filters(
        chooser.choice((("exchanges", "memories"), ("exchanges",), ("memories",))),
        sometimes(chooser.choice(sessions)),
        sometimes(chooser.choice(sessions)),
        None,
        chooser.choice((None, None, ["log"], ["user", "log"])),
        None,
        sometimes(f"p{chooser.randrange(2)}"),
        sometimes(f"p{chooser.randrange(2)}"),
        sometimes(f"2026-0{chooser.randint(1, 9)}-01"),
        sometimes(f"2026-0{chooser.randint(1, 9)}-01"),
        chooser.random() < 0.3,
    )


def found_by_words(eng: Engram, filters: Filters, terms: list[str], limit: int) -> list[int]:
    with eng._view.engine.read(feed=True) as tx:
        asked = bm25.weigh(tx, eng._view.workspace, filters.shelves, terms)
        return bm25.best_by_words(tx, asked, filters, limit)


@pytest.mark.requirement("WORDS-2")
def test_the_search_finds_exactly_what_the_full_sum_finds(filled: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small store is added up at once, so most questions are asked with limits as if it were large."""
    settled: list[tuple[bool, bool]] = []
    settle = pruning._Shelf._settle

    def noting(shelf: pruning._Shelf, count: int, limit: int) -> bool:
        done = settle(shelf, count, limit)
        settled.append((done, count < len(shelf._terms)))
        return done

    monkeypatch.setattr(pruning._Shelf, "_settle", noting)
    chooser = random.Random(20261116)
    queries = 2_000 if filled._view.engine.name == "sqlite" else scaled(300, 2_000)
    stored = {kind: read(filled.workspace(kind)) for kind in KINDS}
    for number in range(queries):
        kind = list(KINDS)[number % len(KINDS)]
        few, growth, fetched = chooser.choice(((1, 1, 5), (5, 2, 20), (20, 3, 60), (2_000, 3, 1_000)))
        monkeypatch.setattr(pruning, "_FEW", few)
        monkeypatch.setattr(pruning, "_GROWTH", growth)
        monkeypatch.setattr(pruning, "_MUCH", growth * 4)
        monkeypatch.setattr(pruning, "_FETCHED", fetched)
        terms, filters = any_query(chooser, KINDS[kind]), any_filters(chooser, stored[kind])
        limit = chooser.choice((1, 3, 10, 50, 50, 200, 1_000))
        expected = full_sum(stored[kind], filters, terms, limit)
        assert found_by_words(filled.workspace(kind), filters, terms, limit) == expected, (number, terms, filters)
    # Many were pruned, and many had to be added up further.
    assert settled.count((True, True)) > queries / 10 and settled.count((False, True)) > queries / 10


@pytest.mark.requirement("WORDS-2")
def test_of_equally_good_items_the_earliest_are_found(filled: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "_FEW", 1)
    eng = filled.workspace("ties")
    eng.sessions.ensure("s")
    texts = [f"zebra {rare} project use ticket" for rare in ("okapi", "heron") for _ in range(200)]
    eng.exchanges.add_many({"session_id": "s", "role": "user", "content": text} for text in texts)
    stored = read(eng)
    filters = recall_request.filters(("exchanges",), None, None, None, None, None, None, None, None, None, False)
    for query in ("okapi project", "project use ticket", "zebra okapi heron", "zebra nothing"):
        terms = list(dict.fromkeys(analyser.terms(query)))
        for limit in (50, 200, 390):
            assert found_by_words(eng, filters, terms, limit) == full_sum(stored, filters, terms, limit)


@pytest.mark.requirement("RECALL-4")
def test_both_engines_give_the_identical_first_ten_on_templated_text(
    sqlite_url: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_FEW", 50)
    chooser = random.Random(7)
    turns, questions = [ticket(chooser) for _ in range(300)], [ticket(chooser) for _ in range(15)]
    answers = []
    for place in (sqlite_url, postgres_url):
        with Engram(settings=load(url=place, embedder="none")) as eng:
            eng.sessions.ensure("s")
            eng.exchanges.add_many(
                {"session_id": "s", "role": "user", "content": turn, "created_at": "2026-11-01"} for turn in turns
            )
            answers.append(
                [
                    [(hit.text, hit.score, hit.why, hit.exchange_id) for hit in eng.recall(question, 10, mode="words")]
                    for question in questions
                ]
            )
    assert answers[0] == answers[1]
    assert all(len(hits) == 10 for hits in answers[0])


WORDS = ["zebra", "okapi", "heron", "project", "ticket"]
SHELVES = ("turns", "memories", "archive", "logs")


def counted(tx: Transaction, workspace: str) -> dict[str, int]:
    return bm25.weigh(tx, workspace, SHELVES, WORDS).found


def really(tx: Transaction, workspace: str) -> dict[str, int]:
    """The counts, row by row."""
    rows = tx.all(
        "SELECT t.term FROM terms t JOIN postings p ON p.term = t.id JOIN items i ON i.id = p.item "
        "WHERE t.workspace = :workspace",
        workspace=workspace,
    )
    found = [term for (term,) in rows]
    return {word: found.count(word) for word in WORDS}


def check(stores: Sequence[Engram]) -> None:
    for eng in stores:
        with eng._view.engine.read(feed=True) as tx:
            assert counted(tx, "default") == really(tx, "default")


def add_turns(eng: Engram, count: int, text: str = "zebra project ticket") -> None:
    eng.sessions.ensure("s")
    eng.exchanges.add_many({"session_id": "s", "role": "user", "content": text} for _ in range(count))


@pytest.fixture
def remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are remembered in small stores too."""
    monkeypatch.setattr(term_counts, "_COMMON", 2)


@pytest.mark.requirement("WORDS-3")
@pytest.mark.usefixtures("remembering")
def test_what_was_removed_edited_or_archived_by_any_process_is_not_counted(open_store: OpenStore) -> None:
    one, other = open_store(embedder="none"), open_store(embedder="none")
    add_turns(one, 8)
    made = [one.remember(f"okapi project {number}", key=f"k{number}").id for number in range(8)]
    check((one, other))
    steps: list[Callable[[], object]] = [
        lambda: other.exchanges.add("s", "user", "zebra and heron project"),
        lambda: other.exchanges.add("s", "user", "zebra project ticket " * 200),
        lambda: other.forget(exchange=3),
        lambda: one.forget(exchange=4),
        lambda: other.memories.update(made[0], "heron ticket"),
        lambda: other.memories.archive(made[1]),
        lambda: other.memories.unarchive(made[1]),
        lambda: other.remember("okapi ticket", key="k2"),
        lambda: other.forget(memory=made[3]),
        lambda: (other.forget(memory=made[4]), other.remember("okapi project, new")),
        lambda: (other.forget(exchange=5), other.exchanges.add("s", "user", "zebra project")),
        lambda: other.exchanges.add("s", "user", "zebra heron, later", words=False),
        lambda: EmbeddingQueue(other._view).index_words(),
        lambda: other.sessions.log("s", "zebra log ticket"),
        lambda: EmbeddingQueue(one._view).work(),
        lambda: other.forget(session="s"),
        lambda: add_turns(one, 3),
    ]
    for step in steps:
        step()
        check((one, other))
    check((open_store(embedder="none"),))


@pytest.mark.requirement("WORDS-3")
@pytest.mark.usefixtures("remembering")
def test_random_changes_by_two_processes_leave_every_count_exact(open_store: OpenStore) -> None:
    chooser = random.Random(3)
    stores = [open_store(embedder="none"), open_store(embedder="none")]
    add_turns(stores[0], 5)
    made = [stores[0].remember(f"okapi ticket {number}").id for number in range(5)]
    turns = [1, 2, 3, 4, 5]

    def text() -> str:
        return " ".join(chooser.choices(WORDS, k=chooser.choice((1, 3, 5, 400))))

    def change(eng: Engram) -> None:
        match chooser.randrange(6):
            case 0 | 1:
                turns.append(eng.exchanges.add("s", "user", text(), words=chooser.random() < 0.7))
            case 2:
                EmbeddingQueue(eng._view).index_words()
            case 3 if len(turns) > 1:
                eng.forget(exchange=turns.pop(chooser.randrange(len(turns))))
            case 4:
                eng.memories.update(chooser.choice(made), text())
            case _:
                made.append(eng.remember(f"{text()} {len(made)}").id)

    for _ in range(scaled(40, 400)):
        for _ in range(chooser.choice((1, 1, 2, 5))):
            change(chooser.choice(stores))
        check([chooser.choice(stores)])


@pytest.mark.requirement("WORDS-3")
@pytest.mark.usefixtures("remembering")
def test_common_words_are_counted_once_and_then_only_what_is_new(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_store(embedder="none"), open_store(embedder="static")
    add_turns(one, 8)
    check([one])
    whole: list[int] = []
    ask_counts = term_counts._ask_counts

    def noting(tx: Transaction, memo: term_counts._Memo, wanted: dict[int, str], end: int) -> list[Answer]:
        whole.extend(number for number in wanted if number not in term_counts._remembered(memo, wanted))
        return ask_counts(tx, memo, wanted, end)

    monkeypatch.setattr(term_counts, "_ask_counts", noting)
    check([one])
    other.exchanges.add("s", "user", "zebra ticket")
    check([one])
    EmbeddingQueue(other._view).work()  # embeds, which changes the things but no word
    check([one])
    assert whole == []
    other.forget(exchange=2)
    check([one])
    assert len(whole) == 3


@pytest.mark.requirement("WORDS-3")
@pytest.mark.usefixtures("remembering")
def test_an_old_snapshot_and_an_open_write_count_what_they_see(open_store: OpenStore) -> None:
    eng = open_store(embedder="none")
    add_turns(eng, 8)
    made = [eng.remember(f"okapi ticket {number}").id for number in range(3)]
    check([eng])
    begun, changed, wrong = threading.Event(), threading.Event(), list[object]()

    def count_late() -> None:
        with eng._view.engine.read(feed=True) as tx:
            before = really(tx, "default")
            begun.set()
            changed.wait(30)
            wrong.extend(found for found in (counted(tx, "default"),) if found != before)

    thread = threading.Thread(target=count_late)
    thread.start()
    begun.wait(30)
    eng.memories.update(made[0], "okapi okapi heron")
    add_turns(eng, 1, "zebra zebra okapi")
    check([eng])
    changed.set()
    thread.join()
    assert wrong == []
    with pytest.raises(KeyError), eng.write():
        add_turns(eng, 3, "heron zebra")
        check([eng])
        raise KeyError
    check([eng])


@pytest.mark.skipif(bool(KEY_FILE), reason="on an encrypted store forgetting makes every process count again")
@pytest.mark.requirement("WORDS-3")
@pytest.mark.usefixtures("remembering")
def test_a_count_that_failed_half_way_is_made_again(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = open_store(embedder="none"), open_store(embedder="none")
    add_turns(one, 8)
    check([one])
    other.forget(exchange=2)

    def failing(*_: object) -> bool:
        raise StoreBusy("cancelled")

    with monkeypatch.context() as patched:
        patched.setattr(term_counts, "_still_valid", failing)
        with pytest.raises(StoreBusy):
            check([one])
    check([one])
