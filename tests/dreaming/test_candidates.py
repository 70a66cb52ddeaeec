"""Finding what is worth a comparison: on both engines, among what is new and the rest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engram import Engram
from engram.dreaming.duplicates import candidates as module
from engram.dreaming.duplicates.candidates import Pair, candidates
from engram.embedding.quantise import to_int8

TEXTS = [
    "The database listens on port 5432.",
    "Maria lives in Lisbon with two cats.",
    "Never deploy the billing service on Fridays.",
    "The nightly backup is written to the archive bucket.",
    "Jonas is allergic to peanuts.",
]


def changed(eng: Engram, since: int = 0) -> set[int]:
    return {int(change.id) for change in eng.changes(since, limit=10_000) if change.what == "memory"}


def found(eng: Engram, since: int = 0, **options: float) -> list[tuple[int, int]]:
    fresh = changed(eng, since)
    return [pair[:2] for pair in candidates(eng._view, fresh, **options)]  # type: ignore[arg-type]


def last_change(eng: Engram) -> int:
    return max((change.number for change in eng.changes(0, limit=10_000)), default=0)


def fill(eng: Engram) -> list[int]:
    return [eng.memories.remember(text).id for text in TEXTS]


@pytest.mark.requirement("SIMILAR-6")
def test_a_rewording_is_found_by_its_vector(eng: Engram) -> None:
    ids = fill(eng)
    again = eng.memories.remember("On port 5432 the database is listening.").id
    assert found(eng) == [(ids[0], again)]
    (pair,) = candidates(eng._view, changed(eng))
    assert pair.cosine is not None
    assert 0.75 <= pair.cosine <= 1


@pytest.mark.requirement("SIMILAR-6")
def test_without_vectors_words_find_it_and_there_is_no_cosine(open_store: Callable[..., Engram]) -> None:
    eng = open_store(embedder="none")
    ids = fill(eng)
    again = eng.memories.remember("The database is on port 5432; it listens.").id
    other = eng.memories.remember("The bucket of the archive has the nightly backup, encrypted.").id
    assert list(candidates(eng._view, changed(eng))) == [Pair(ids[0], again, None), Pair(ids[3], other, None)]


@pytest.mark.requirement("SIMILAR-6")
def test_those_with_the_same_words_meet_however_common_the_words_are(
    open_store: Callable[..., Engram], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COMMON", 1)
    eng = open_store(embedder="none")
    ids = fill(eng)
    again = eng.memories.remember("On port 5432 the database is listening!").id
    assert found(eng) == [(ids[0], again)]


@pytest.mark.requirement("SIMILAR-5")
def test_only_what_is_new_is_compared_with_the_rest(eng: Engram) -> None:
    ids = fill(eng)
    first = eng.memories.remember("The database is listening on port 5432").id
    mark = last_change(eng)
    assert found(eng, mark) == []
    second = eng.memories.remember("Jonas has an allergy to peanuts.").id
    assert found(eng, mark, least=0.6) == [(ids[4], second)]
    assert found(eng, 0, least=0.6) == [(ids[0], first), (ids[4], second)]


@pytest.mark.requirement("SIMILAR-5")
def test_an_edit_makes_a_memory_new_again(eng: Engram) -> None:
    ids = fill(eng)
    mark = last_change(eng)
    eng.memories.update(ids[1], "The database is listening on port 5432")
    assert found(eng, mark) == [(ids[0], ids[1])]


@pytest.mark.requirement("SIMILAR-5")
def test_what_was_put_away_expired_or_has_a_shelf_of_its_own_is_left_out(eng: Engram) -> None:
    fill(eng)
    eng.memories.archive(eng.memories.remember("The database is listening on port 5432").id)
    for kind in ("gist", "era", "digest"):
        eng.memories.remember("The database listens on port 5432!", kind=kind)
    eng.memories.remember("Listening on port 5432: the database", expires_at="2020-01-01T00:00:00.000000Z")
    assert found(eng) == []


@pytest.mark.requirement("SIMILAR-5", "STORE-16")
def test_workspaces_are_apart(eng: Engram) -> None:
    fill(eng)
    other = eng.workspace("another")
    other.memories.remember("The database is listening on port 5432")
    assert found(eng) == found(other) == []


@pytest.mark.requirement("SIMILAR-6")
def test_kinds_may_differ_and_a_long_memory_has_one_vector(eng: Engram) -> None:
    long = " ".join(f"{text} Remember it." for text in TEXTS) * 8
    first = eng.memories.remember(long).id
    second = eng.memories.remember(long + " Really.", kind="fact").id
    assert found(eng) == [(first, second)]


@pytest.mark.requirement("SIMILAR-6")
def test_each_has_at_most_so_many_others(eng: Engram) -> None:
    ids = [eng.memories.remember(f"The database listens on port 5432{'!' * count}").id for count in range(6)]
    assert len(found(eng)) == 15
    pairs = found(eng, most=1)
    assert 0 < len(pairs) < 15
    assert pairs == sorted(pairs) and {id for pair in pairs for id in pair} == set(ids)


@pytest.mark.requirement("SIMILAR-6")
def test_pairs_can_be_acted_upon_while_they_come(eng: Engram) -> None:
    fill(eng)
    eng.memories.remember("The database is listening on port 5432")
    for pair in candidates(eng._view, changed(eng)):
        eng.memories.link(pair.first, pair.second)
    assert eng.memories.links(1) != []


@pytest.mark.requirement("SIMILAR-6")
def test_many_new_ones_are_not_all_compared_and_still_nearly_all_close_ones_are_found() -> None:
    chance = np.random.default_rng(1)
    count, pairs, close = 6_000, 500, 0.95
    rows = chance.standard_normal((count, 64))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    aside = chance.standard_normal((pairs, 64))
    aside -= (aside * rows[:pairs]).sum(axis=1, keepdims=True) * rows[:pairs]
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    rows[pairs : 2 * pairs] = close * rows[:pairs] + (1 - close**2) ** 0.5 * aside
    none = np.zeros(0, np.int64)
    shelf = module._Shelf(np.arange(count), to_int8(rows.astype(np.float32)), none, none)
    assert count > module._TREES * module._LEAF
    places = module._by_vectors(shelf, np.ones(count, np.bool_), 0.9, 10)
    got = {(int(one), int(other)) for one, other in places}
    assert sum((place, place + pairs) in got for place in range(pairs)) > 0.97 * pairs


@pytest.mark.requirement("SIMILAR-5")
def test_long_texts_with_hardly_a_word_in_common_are_left_out(eng: Engram) -> None:
    crane = "The harbour crane lifts seven containers from the ferry beside the old lighthouse every morning at dawn."
    compiler = "Our compiler rejects unsigned integers unless somebody passes the strict option through a variable."
    again = "At dawn every morning the crane in the harbour lifts seven containers from the ferry by the lighthouse."
    ids = [eng.memories.remember(text).id for text in (crane, compiler, again, "Cats sleep.", "Dogs bark.")]
    # Everything is close enough by vectors here.
    assert set(found(eng, least=-1.0)) >= {(ids[0], ids[2]), (ids[3], ids[4])}
    assert (ids[0], ids[1]) not in found(eng, least=-1.0)
