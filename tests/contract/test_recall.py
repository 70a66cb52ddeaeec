"""Recall: what was said, done or learnt, found again by words and by meaning, on both engines."""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram, InvalidInput
from engram.clock import between, later
from engram.config import load
from engram.memory.embedding_queue import EmbeddingQueue
from engram.records import Hit
from engram.tokens import estimate
from tests.conftest import ShiftedClock

OpenStore = Callable[..., Engram]

TALK = [
    ("user", "Where should the invoices be stored?"),
    ("assistant", "In the archive bucket, one folder a year."),
    ("user", "The compiler rejects unsigned integers in src/parser/tokenStream.py"),
    ("assistant", "Bridges in the region need a regular inspection."),
    ("tool", "ValueError: invalid literal for int() with base 10: 'abc'"),
    ("user", "My puppy sleeps beside the fireplace."),
]


@pytest.fixture
def eng(open_store: OpenStore) -> Engram:
    return open_store(embedder="none")


def talk(eng: Engram, sid: str = "s") -> list[int]:
    eng.sessions.ensure(sid)
    return [eng.exchanges.add(sid, role, content) for role, content in TALK]


def texts(hits: list[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def found(eng: Engram, query: str, **options: Any) -> set[str]:
    return set(texts(eng.recall(query, 50, **options)))


@pytest.mark.requirement("RECALL-1")
@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
def test_a_hit_says_what_it_is_and_why(open_store: OpenStore, clock: ShiftedClock, mode: str) -> None:
    eng = open_store(embedder="static")
    sid = eng.sessions.register("codex", "Working", project="shop")
    ids = [eng.exchanges.add(sid, role, content) for role, content in TALK]
    made = eng.remember("The parser reads integers", kind="fact", project="depot", trust="import")
    clock.advance(3_600)
    hits = eng.recall("Which integers does the compiler reject?", 10, mode=mode)
    turn = next(hit for hit in hits if hit.exchange_id == ids[2])
    assert (turn.text, turn.memory_id, turn.label) == (TALK[2][1], None, "user")
    assert (turn.session_id, turn.project, turn.trust) == (sid, "shop", "user")
    memory = next(hit for hit in hits if hit.memory_id == made.id)
    assert (memory.text, memory.exchange_id, memory.label) == (made.content, None, "fact")
    assert (memory.session_id, memory.project, memory.trust) == (None, "depot", "import")
    assert (memory.created_at, turn.created_at) == (made.created_at, eng.exchanges.get(ids[2]).created_at)
    for hit in hits:
        assert 0 < hit.score < 1
        assert hit.age == pytest.approx(between(hit.created_at, clock.now()), abs=5)
        assert hit.neighbours == ()
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {"strength", "share", "meaning", "matched"} <= turn.why.keys()
    if mode != "vectors":
        assert {"compil", "integ", "reject"} <= set(turn.why["matched"])  # type: ignore[call-overload]


@pytest.mark.requirement("RECALL-1")
@pytest.mark.parametrize("k", [1, 3, 80])
def test_as_many_hits_come_as_were_asked_for(eng: Engram, k: int) -> None:
    eng.sessions.ensure("s")
    eng.exchanges.add_many({"session_id": "s", "role": "user", "content": f"zebra {n}"} for n in range(90))
    assert len(eng.recall("zebra", k)) == k


@pytest.mark.requirement("RECALL-1")
@pytest.mark.parametrize(
    "query, place",
    [
        # The answer comes before the question, which alone contains the word.
        ("invoices", 1),
        ("INVOICE?", 1),
        ("storing an invoice", 1),
        ("tokenStream", 2),
        ("token_stream.py", 2),
        ("src/parser/tokenStream.py", 2),
        ("parser", 2),
        ("bridge inspections", 3),
        (
            "Traceback (most recent call last):\n  File 'x.py'\nValueError: invalid literal for int() with base 10: ''",
            4,
        ),
        ("sleeping puppies", 5),
    ],
)
def test_a_word_a_path_an_identifier_or_a_pasted_error_finds_what_is_meant(eng: Engram, query: str, place: int) -> None:
    talk(eng)
    assert eng.recall(query)[0].text == TALK[place][1]


@pytest.mark.requirement("RECALL-1")
@pytest.mark.parametrize("mode", ["hybrid", "vectors"])
def test_a_paraphrase_without_a_common_word_is_found_by_meaning(open_store: OpenStore, mode: str) -> None:
    eng = open_store(embedder="static")
    talk(eng)
    assert eng.recall("what does the dog do near the hearth", 1, mode=mode)[0].text == TALK[5][1]
    assert eng.recall("hearth", mode="words") == []


@pytest.mark.requirement("RECALL-1")
def test_nothing_is_found_where_nothing_is(eng: Engram, open_store: OpenStore) -> None:
    for store in (eng, open_store(embedder="static")):
        for mode in ("hybrid", "words", "vectors"):
            assert store.recall("zebra", mode=mode) == []
    talk(eng)
    assert eng.recall("zebra") == []


def populate(eng: Engram, clock: ShiftedClock) -> None:
    """One zebra in every place a filter can tell apart, an hour from one to the next."""
    red, blue = (eng.sessions.register("codex", "Working", project=project) for project in ("shop", "depot"))
    for place, (sid, role) in enumerate([(red, "user"), (red, "assistant"), (blue, "user"), (blue, "tool")]):
        eng.exchanges.add(sid, role, f"zebra turn {place}")
        clock.advance(3_600)
    eng.sessions.log(blue, "zebra log")
    for described in ("note a", "fact a b", "gist a", "era", "digest", "note old", "gist old"):
        kind, *tags = described.split()
        project = "shop" if described == "note a" else None
        made = eng.remember(f"zebra {described}", kind=kind, tags=tags, project=project)
        clock.advance(3_600)
        if "old" in tags:
            eng.memories.archive(made.id)
    EmbeddingQueue(eng._view).work()


TURNS = {f"zebra turn {place}" for place in range(4)}
MEMORIES = {"zebra note a", "zebra fact a b"}


@pytest.mark.requirement("RECALL-2", "RECALL-3")
@pytest.mark.parametrize("mode", ["words", "hybrid"])
def test_every_filter_leaves_exactly_what_it_names(open_store: OpenStore, clock: ShiftedClock, mode: str) -> None:
    eng = open_store(embedder="static")
    start = clock.now()
    populate(eng, clock)
    red, blue = ({session.project: session.id for session in eng.sessions.list()}[name] for name in ("shop", "depot"))
    turn = {place: f"zebra turn {place}" for place in range(4)}
    table: list[tuple[dict[str, Any], set[str]]] = [
        ({}, TURNS | MEMORIES),
        ({"what": ("exchanges",)}, TURNS),
        ({"what": ["memories"]}, MEMORIES),
        ({"what": ()}, set()),
        ({"session_id": red}, {turn[0], turn[1]}),
        ({"exclude_session": red}, {turn[2], turn[3]} | MEMORIES),
        ({"kinds": ["fact"]}, TURNS | {"zebra fact a b"}),
        ({"kinds": ["fact"], "what": ["memories"]}, {"zebra fact a b"}),
        ({"kinds": ["gist"], "what": ["memories"]}, {"zebra gist a"}),
        ({"kinds": ["era", "digest"], "what": ["memories"]}, {"zebra era", "zebra digest"}),
        ({"kinds": ["note", "gist"], "what": ["memories"]}, {"zebra note a", "zebra gist a"}),
        ({"roles": ["user"]}, {turn[0], turn[2]} | MEMORIES),
        ({"roles": ["user", "tool"], "what": ["exchanges"]}, {turn[0], turn[2], turn[3]}),
        ({"roles": ["log"], "what": ["exchanges"]}, {"zebra log"}),
        ({"roles": ["log", "tool"], "what": ["exchanges"]}, {"zebra log", turn[3]}),
        ({"tags": ["a"]}, MEMORIES),
        ({"tags": ["a", "b"]}, {"zebra fact a b"}),
        ({"tags": ["a"], "kinds": ["gist"]}, {"zebra gist a"}),
        ({"project": "shop"}, {turn[0], turn[1], "zebra note a"}),
        ({"since": later(start, 7_000)}, {turn[2], turn[3]} | MEMORIES),
        ({"until": later(start, 7_000)}, {turn[0], turn[1]}),
        ({"since": later(start, 3_000), "until": later(start, 11_000)}, {turn[1], turn[2], turn[3]}),
        ({"include_archived": True}, TURNS | MEMORIES | {"zebra note old"}),
        ({"include_archived": True, "kinds": ["gist"], "what": ["memories"]}, {"zebra gist a", "zebra gist old"}),
        ({"session_id": blue, "roles": ["user"], "since": later(start, 3_000), "project": "depot"}, {turn[2]}),
        ({"exclude_session": "nobody"}, TURNS | MEMORIES),
    ]
    for options, expected in table:
        hits = found(eng, "zebra", mode=mode, **options)
        if mode == "words":
            assert hits == expected, options
        else:
            # By meaning something that fits less may be cut off, but nothing that the filter excludes may come.
            assert hits <= expected, options
            assert bool(hits) == bool(expected), options


@pytest.mark.requirement("RECALL-2")
@pytest.mark.parametrize(
    "by, mode",
    [
        *(
            (by, "words")
            for by in ("session_id", "exclude_session", "project", "since", "until", "roles", "kinds", "tags")
        ),
        *((by, "vectors") for by in ("session_id", "until", "roles", "tags")),
    ],
)
def test_a_filter_finds_what_fits_however_much_fits_better_without_it(
    open_store: OpenStore, clock: ShiftedClock, by: str, mode: str
) -> None:
    eng = open_store(embedder="static")
    red, blue = (eng.sessions.register("codex", "Working", project=project) for project in ("red", "blue"))
    wanted = "Somebody once saw a zebra near the old mill, or so the story in the village goes."

    def write(sid: str, contents: list[str]) -> None:
        role, kind, project = ("user", "note", "red") if sid == red else ("assistant", "fact", "blue")
        if by in ("kinds", "tags"):
            for content in contents:
                eng.remember(content, kind=kind, tags=[kind], project=project)
        else:
            eng.exchanges.add_many({"session_id": sid, "role": role, "content": content} for content in contents)

    others = [f"zebra zebra {number}" for number in range(55)]
    if mode == "vectors":
        # So much else that what is wanted is still closer than most.
        others += [f"invoice {number} is due" for number in range(90)]
    first, second = ((blue, [wanted]), (red, others)) if by == "until" else ((red, others), (blue, [wanted]))
    write(*first)
    clock.advance(3_600)
    between_them = clock.now()
    clock.advance(3_600)
    write(*second)
    options: dict[str, Any] = {
        "session_id": blue,
        "exclude_session": red,
        "project": "blue",
        "since": between_them,
        "until": between_them,
        "roles": ["assistant"],
        "kinds": ["fact"],
        "tags": ["fact"],
    }
    assert texts(eng.recall("zebra", mode=mode, **{by: options[by]})) == [wanted]


@pytest.mark.requirement("RECALL-2")
@pytest.mark.parametrize("mode", ["words", "hybrid"])
def test_the_texts_of_all_hits_together_keep_to_the_budget(open_store: OpenStore, mode: str) -> None:
    eng = open_store(embedder="static")
    for number in range(20):
        eng.remember(f"zebra {number} " + "grazing " * number)
    everything = eng.recall("zebra", 20, mode=mode)
    for budget in (1, 3, 10, 30, 100):
        hits = eng.recall("zebra", 20, mode=mode, budget=budget)
        assert sum(estimate(hit.text) for hit in hits) <= budget
        assert texts(hits) == texts(everything)[: len(hits)]
    assert texts(eng.recall("zebra", 20, mode=mode, budget=10_000)) == texts(everything)


@pytest.mark.requirement("RECALL-3")
def test_dreams_never_take_a_turns_place(eng: Engram) -> None:
    eng.sessions.ensure("s")
    for number in range(20):
        for kind in ("gist", "era", "digest"):
            eng.remember(f"zebra {kind} {number}", kind=kind)
        eng.sessions.log("s", f"zebra log {number}")
    EmbeddingQueue(eng._view).work()
    eng.exchanges.add("s", "user", "Somebody once saw a zebra near the old mill, they say.")
    assert [hit.label for hit in eng.recall("zebra")] == ["user"]
    assert {hit.label for hit in eng.recall("zebra", 20, kinds=["era"], what=["memories"])} == {"era"}


@pytest.mark.requirement("RECALL-3")
@pytest.mark.parametrize("kind", ["gist", "era", "digest"])
def test_a_superseded_gist_comes_from_the_archive_only_when_gists_are_named(eng: Engram, kind: str) -> None:
    for text in ("The zebra talk, first draft", "The zebra talk, second draft"):
        eng.remember(text, kind=kind, key="s")
    assert found(eng, "zebra", include_archived=True) == set()
    assert len(found(eng, "zebra", include_archived=True, kinds=[kind])) == 2


WORDS = ["zebra", "okapi", "lion", "tiger", "panther", "heron", "otter", "badger", "lynx", "stoat", "mole", "vole"]


def generated(seed: int, count: int) -> list[str]:
    """Texts of few words, so that many are alike and scores lie close together."""
    chooser = random.Random(seed)
    return [" ".join(chooser.choices(WORDS, k=chooser.randint(1, 12))) for _ in range(count)]


def fill(eng: Engram) -> None:
    for sid in ("a", "b"):
        eng.sessions.ensure(sid)
        eng.exchanges.add_many(
            {"session_id": sid, "role": "user", "content": content, "created_at": "2023-05-07"}
            for content in [*generated(ord(sid), 80), *["lion tiger heron"] * 10]
        )
    for number, content in enumerate(dict.fromkeys(generated(3, 40))):
        eng.remember(content, importance=number % 5 / 4, kind="fact" if number % 3 else "note")
    eng.exchanges.add("a", "user", "東京の図書館で zebra を見た。 Café naïve. " * 60)


QUERIES = [
    *generated(4, 5),
    *WORDS[:2],
    " ".join(WORDS),
    " ".join(WORDS * 4 + [f"x{n}" for n in range(40)]),
    "東京の図書館 cafe",
]


@pytest.mark.requirement("RECALL-4")
def test_both_engines_give_the_identical_first_ten_by_words(sqlite_url: str, postgres_url: str) -> None:
    answers = []
    for url in (sqlite_url, postgres_url):
        with Engram(settings=load(url=url, embedder="none")) as eng:
            fill(eng)
            answers.append(
                [
                    [(hit.text, hit.score, hit.why, hit.exchange_id, hit.memory_id) for hit in hits]
                    for query in QUERIES
                    for hits in (
                        eng.recall(query, 10, mode="words"),
                        eng.recall(query, 10, mode="words", session_id="a"),
                        eng.recall(query, 10, mode="words", what=["memories"]),
                    )
                ]
            )
    assert answers[0] == answers[1]
    assert sum(len(hits) == 10 for hits in answers[0]) > len(QUERIES)


def answers(eng: Engram, mode: str) -> list[tuple[object, ...]]:
    return [
        (query, hit.text, hit.exchange_id, hit.memory_id, hit.label, round(hit.score, 4))
        for query in ("okapi and zebra", "dogs resting")
        for hit in eng.recall(query, 10, mode=mode, include_archived=True)
    ]


@pytest.mark.requirement("RECALL-5")
@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
def test_every_process_gives_the_same_hits_also_after_others_changed_things(open_store: OpenStore, mode: str) -> None:
    one, other = open_store(embedder="static"), open_store(embedder="static")
    one.sessions.ensure("s")
    for content in ["zebra in the yard", "the okapi ran", "lion and zebra", "my dog rests"]:
        one.exchanges.add("s", "user", content)
    made = [one.remember(content, key=content[:3]) for content in ("taxes rise", "zebra crossing", "old lion", "mole")]
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: other.memories.update(made[0].id, "the okapi pays no duty"),
        lambda: other.remember("zebra and lion, new", key="zeb"),
        lambda: other.memories.archive(made[2].id),
        lambda: other.exchanges.add("s", "user", "another lion came by"),
        lambda: one.memories.update(made[3].id, "a mole and an okapi"),
        lambda: one.memories.unarchive(made[2].id),
        lambda: EmbeddingQueue(other._view).work(),
        lambda: other.remember("embedded later: zebra", embed=False),
        lambda: EmbeddingQueue(one._view).work(),
    ]
    for step, change in enumerate(changes):
        change()
        expected = answers(open_store(embedder="static"), mode)
        assert answers(one, mode) == expected, step
        assert answers(other, mode) == expected, step
        assert answers(one.workspace("default"), mode) == expected, step


@pytest.mark.requirement("RECALL-5", "STORE-13")
@pytest.mark.parametrize("mode", ["hybrid", "vectors"])
def test_what_was_recalled_inside_a_transaction_that_failed_leaves_no_trace(open_store: OpenStore, mode: str) -> None:
    eng = open_store(embedder="static")
    eng.sessions.ensure("s")
    for content in ("invoices are due", "taxes rise"):
        eng.remember(content)
    with pytest.raises(ZeroDivisionError), eng.write():
        eng.exchanges.add("s", "user", "my dog rests by the fireplace")
        eng.recall("dogs resting", mode=mode)
        raise ZeroDivisionError
    eng.remember("bridges need inspection")
    assert answers(eng, mode) == answers(open_store(embedder="static"), mode)


@pytest.mark.requirement("RECALL-5", "STORE-13")
def test_a_transaction_finds_what_it_has_just_written_by_words(open_store: OpenStore) -> None:
    eng = open_store(embedder="static")
    with eng.write():
        eng.remember("the zebra is out")
        assert texts(eng.recall("zebra")) == ["the zebra is out"]


NASTY = [
    "\"unbalanced 'zebra",
    "zebra AND OR NOT NEAR(zebra, 2)",
    "zebra* ^zebra -zebra +zebra zebra:okapi",
    "zebra'; DROP TABLE items; --",
    "%zebra_ \\ ( [ {",
    ":term :x0 $1 %s %(x)s ? {zebra}",
    "zebra 🎉👩‍👩‍👧 zebra",
    "\u202ezebra\u200b",
    "zebra " * 16_000,
    "zebra " + " ".join(f"word{number}" for number in range(12_000)),
    "zebra " + "/".join(["a"] * 50_000),
    "zebra " + "數據" * 30_000,
]


@pytest.mark.requirement("RECALL-6")
@pytest.mark.parametrize("embedder", ["none", "static"])
def test_any_query_is_safe_and_still_finds_its_words(open_store: OpenStore, embedder: str) -> None:
    eng = open_store(embedder=embedder)
    talk(eng)
    eng.remember("the zebra is out")
    before = eng.memories.list(), eng.exchanges.history("s")
    # One long question is enough for the model; the others are about words.
    for query in NASTY if embedder == "none" else NASTY[:9]:
        assert "the zebra is out" in texts(eng.recall(query)), query[:60]
    for query in ("🎉", "?!", "the", "\u0301", "𝔷", "'", "%", "_", "猫"):
        for mode in ("hybrid", "words", "vectors"):
            assert len(eng.recall(query, mode=mode)) <= 5
    after = [memory._replace(recalled=0, recalled_at=None) for memory in eng.memories.list()]
    assert (after, eng.exchanges.history("s")) == before


@pytest.mark.requirement("RECALL-6")
def test_a_chinese_or_japanese_phrase_finds_its_sentence(eng: Engram) -> None:
    for content in ("我们昨天完成了数据库迁移。", "東京の図書館は月曜日に休みです。", "한국어 문서를 번역했다"):
        eng.remember(content)
    for query, expected in [("数据库", "我们"), ("図書館の休み", "東京"), ("문서 번역", "한국")]:
        assert eng.recall(query)[0].text.startswith(expected)


@pytest.mark.requirement("RECALL-6")
@pytest.mark.parametrize("what", ["memories", "archive", "logs", "gists"])
def test_a_long_question_reaches_every_shelf_it_names(eng: Engram, what: str) -> None:
    eng.sessions.ensure("s")
    question = " ".join(f"{word}{number}" for word in WORDS[:10] for number in range(2))
    eng.exchanges.add("s", "user", f"{question} turn")
    eng.remember(f"{question} memory")
    eng.memories.archive(eng.remember(f"{question} put away").id)
    eng.sessions.log("s", f"{question} log")
    for kind in ("gist", "era", "digest"):
        eng.remember(f"{question} {kind}", kind=kind)
    EmbeddingQueue(eng._view).work()
    options: dict[str, Any] = {
        "include_archived": True,
        "kinds": ["note", "gist", "era", "digest"],
        "roles": ["user", "log"],
    }
    ending = {"memories": "memory", "archive": "put away", "logs": "log", "gists": "gist"}[what]
    assert f"{question} {ending}" in found(eng, question, **options)


@pytest.mark.requirement("RECALL-6", "MEMORY-6")
@pytest.mark.parametrize(
    "wrong",
    [
        *({"query": query} for query in ["", "  \n\t", "a\x00b", "a\ud800b", "x" * 1_000_001, None, 7]),
        *({"k": k} for k in [0, -1, 1.5, "5", None, True, 1_001]),
        *({what: name} for what in ("session_id", "exclude_session", "project") for name in ["", "a\x00", "\ud800", 7]),
        *({"tags": tags} for tags in [[""], ["a\x00"], "text", [7]]),
        *({what: time} for what in ("since", "until") for time in ["", "once upon a time", 5]),
        *({"budget": budget} for budget in [0, -1, 1.5, math.nan, "9"]),
        *({"mode": mode} for mode in ["", "Words", "fuzzy", None]),
        *({"what": what} for what in ["memories", ["dreams"]]),
        *({"kinds": kinds} for kinds in ["fact", [7]]),
        *({"roles": roles} for roles in ["user", ["bot"]]),
        {"neighbours": -1},
    ],
    ids=lambda wrong: f"{next(iter(wrong))} {str(next(iter(wrong.values())))[:12]!a}",
)
def test_a_bad_question_is_a_typed_error(sqlite_url: str, wrong: dict[str, Any]) -> None:
    with Engram(settings=load(url=sqlite_url, embedder="none")) as eng, pytest.raises(InvalidInput):
        eng.recall(**{"query": "zebra", **wrong})


@pytest.mark.requirement("RECALL-7")
def test_a_turn_is_found_by_the_words_of_the_turns_around_it(eng: Engram) -> None:
    for sid in ("far", "near"):
        eng.sessions.ensure(sid)
    eng.exchanges.add("far", "user", "The capital has a railway station.")
    for content in ("Which town has the zebra sanctuary?", "It opened last year.", "The capital, I think."):
        eng.exchanges.add("near", "user", content)
        for _ in range(5):
            eng.sessions.log("near", "noise between the turns")
    hits = eng.recall("zebra sanctuary capital", 10)
    # The question that contains the words comes after what follows it.
    assert texts(hits)[0] == "The capital, I think."
    assert texts(hits).index("Which town has the zebra sanctuary?") < texts(hits).index(
        "The capital has a railway station."
    )
    assert "It opened last year." in texts(hits)


@pytest.mark.requirement("RECALL-7")
@pytest.mark.parametrize("embedder", ["none", "static"])
def test_neighbours_alone_make_no_turn_likely(open_store: OpenStore, embedder: str) -> None:
    eng = open_store(embedder=embedder)
    eng.sessions.ensure("other")
    eng.exchanges.add_many({"session_id": "other", "role": "user", "content": f"Bus {n} is late."} for n in range(40))
    eng.sessions.ensure("s")
    answer = "The zebra sanctuary renamed its striped feeding flag."
    for content in ("Fix the linting", answer, "/exit"):
        eng.exchanges.add("s", "user", content)
    hits = eng.recall("why did the zebra sanctuary rename its striped feeding flag?", 3)
    assert hits[0].whole == answer
    assert hits[0].score > 0.6
    # They are still found, and below what an even chance would be.
    assert {hit.whole for hit in hits[1:]} == {"Fix the linting", "/exit"}
    assert max(hit.score for hit in hits[1:]) < 0.45


@pytest.mark.requirement("RECALL-7")
def test_only_the_border_of_a_long_turn_lifts_its_neighbours(open_store: OpenStore) -> None:
    eng = open_store(embedder="none")
    eng.sessions.ensure("other")
    eng.exchanges.add_many({"session_id": "other", "role": "user", "content": f"Bus {n} is late."} for n in range(40))
    filler = "Meadows are green in spring and rivers are blue. " * 60
    said = "The zebra sanctuary opens on Sundays. "
    for session, long in (("middle", filler + said + filler), ("end", filler + filler + said)):
        eng.sessions.ensure(session)
        eng.exchanges.add(session, "user", long)
        eng.exchanges.add(session, "assistant", "It is free on that day, for all.")
    found = [hit.session_id for hit in eng.recall("zebra sanctuary", 10) if hit.whole.startswith("It is free")]
    assert found[0] == "end"
    share = {hit.session_id: hit.why["share"] for hit in eng.recall("zebra sanctuary", 10) if len(hit.whole) < 50}
    assert share["end"] and not share.get("middle")


@pytest.mark.requirement("RECALL-7")
@pytest.mark.parametrize("n, expected", [(0, []), (1, [1, 3]), (2, [0, 1, 3, 4]), (100, [0, 1, 3, 4, 5])])
def test_the_turns_around_a_hit_come_on_request(eng: Engram, n: int, expected: list[int]) -> None:
    talk(eng, "other")
    eng.sessions.log("other", "noise")
    ids = talk(eng)
    made = eng.remember("tokenStream is a class")
    hits = {hit.exchange_id: hit for hit in eng.recall("tokenStream", 20, neighbours=n)}
    assert [turn.id for turn in hits[ids[2]].neighbours] == [ids[place] for place in expected]
    assert {turn.session_id for turn in hits[ids[2]].neighbours} <= {"s"}
    assert (hits[None].memory_id, hits[None].neighbours) == (made.id, ())


@pytest.mark.requirement("RECALL-8")
@pytest.mark.parametrize("mode", ["hybrid", "vectors"])
def test_vectors_of_another_model_are_not_mixed_in_and_a_warning_says_so(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    eng = open_store(embedder="static")
    talk(eng)
    with eng._view.engine.write() as tx:
        tx.run("UPDATE vectors SET model = 'older:model'")
        tx.run("UPDATE models SET model = 'older:model'")
    other = open_store(embedder="static")
    other.exchanges.add("s", "user", "The parser was written anew")
    with caplog.at_level(logging.WARNING, "engram"):
        hits = other.recall("the parser for dogs", mode=mode)
    assert texts(hits) == texts(other.recall("the parser for dogs", mode="words")) != []
    assert {hit.why["meaning"] for hit in hits} == {0.0}
    assert "older:model" in caplog.text
    with eng._view.engine.read() as tx:
        assert tx.all("SELECT DISTINCT model FROM vectors") == [("older:model",)]


@pytest.mark.requirement("RECALL-8")
def test_without_a_model_words_answer_and_nobody_is_warned(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    talk(open_store(embedder="static"))
    with caplog.at_level(logging.WARNING, "engram"):
        assert open_store(embedder="none").recall("puppy")[0].text == TALK[5][1]
    assert caplog.records == []


@pytest.mark.requirement("RECALL-9")
def test_recall_notes_which_memories_it_returned(eng: Engram, clock: ShiftedClock) -> None:
    used, unused = eng.remember("the zebra is out"), eng.remember("the okapi is in")
    assert (used.recalled, used.recalled_at) == (0, None)
    for times in (1, 2):
        clock.advance(60)
        before = clock.now()
        eng.recall("zebra")
        noted = eng.memories.get(used.id)
        assert noted.recalled == times
        assert noted.recalled_at is not None and noted.recalled_at >= later(before, -1)
        assert noted.updated_at == used.updated_at
    assert eng.memories.get(unused.id) == unused


@pytest.mark.requirement("RECALL-9")
def test_recall_neither_waits_nor_fails_while_another_writes(open_store: OpenStore, clock: ShiftedClock) -> None:
    eng, writer = open_store(embedder="static"), open_store(embedder="none")
    made = eng.remember("the zebra is out")
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with writer.write():
            writer.memories.update(made.id, importance=0.9)
            holding.set()
            assert done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert holding.wait(10)
        start = clock.monotonic()
        assert texts(eng.recall("zebra")) == ["the zebra is out"]
        # The store would wait for 30 seconds.
        assert clock.monotonic() - start < 15
    finally:
        done.set()
        thread.join(10)
    assert eng.memories.get(made.id).importance == 0.9


@pytest.mark.requirement("RECALL-9", "STORE-13")
def test_recall_inside_a_transaction_does_not_spoil_it(eng: Engram) -> None:
    with eng.write():
        made = eng.remember("the zebra is out")
        assert texts(eng.recall("zebra")) == ["the zebra is out"]
        with pytest.raises(InvalidInput):
            eng.recall("")
        eng.remember("the okapi is in")
    assert (len(eng.memories.list()), eng.memories.get(made.id).content) == (2, "the zebra is out")
