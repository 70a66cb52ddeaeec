"""The promises that both local models keep."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram import InvalidInput
from engram.embedding import Embedder, Part, TokenEmbedder, WeightedEmbedder


class Local(Embedder, TokenEmbedder, Protocol):
    """A model on this machine has both."""


@pytest.fixture(params=["static", "minilm"])
def embedder(request: pytest.FixtureRequest) -> Local:
    chosen: Local = request.getfixturevalue(request.param)
    return chosen


#: Hypothesis runs a test many times with one embedder, which is what a process does.
many_texts = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60)


@pytest.mark.requirement("EMBED-1")
def test_each_text_gets_a_row_of_unit_length_in_order(embedder: Local) -> None:
    texts = [
        "We never deploy on a Friday.",
        "The cat sleeps.",
        "def main() -> None: ...",
        "東京タワー",
        "The cat sleeps.",
    ]
    rows = embedder.embed(texts)
    assert rows.shape == (5, embedder.dims)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.array_equal(rows[1], rows[4])
    assert not np.array_equal(rows[0], rows[1])


@pytest.mark.requirement("EMBED-1")
def test_no_texts_give_no_rows(embedder: Local) -> None:
    assert embedder.embed([]).shape == (0, embedder.dims)
    assert embedder.tokens([]) == []


@pytest.mark.requirement("EMBED-1")
def test_a_texts_vector_does_not_depend_on_the_other_texts(embedder: Local) -> None:
    text = "Melanie: I painted that lake sunrise last year! It's special to me."
    alone = embedder.embed([text])[0]
    crowd = [text, "short", "word " * 300, "", "\N{GRINNING FACE}", "Some other sentence of a common length."] * 10
    assert np.array_equal(embedder.embed(crowd)[::6], np.tile(alone, (10, 1)))


@pytest.mark.requirement("EMBED-1")
def test_texts_with_the_same_meaning_are_closer_than_others(embedder: Local) -> None:
    question, answer, other = embedder.embed(
        ["Which animal lives with the family?", "We have a dog as a pet at home.", "The invoice was paid in March."]
    )
    assert question @ answer > question @ other + 0.1


@pytest.mark.requirement("EMBED-2")
@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_a_text_without_content_is_a_row_of_zeros_without_tokens(embedder: Local, text: str) -> None:
    silent, spoken = embedder.embed([text, "something"])
    assert not silent.any()
    assert spoken.any()
    (tokens,) = embedder.tokens([text])
    assert tokens.ids.shape == (0,)
    assert tokens.vectors.shape == (0, embedder.dims)


@many_texts
@given(texts=st.lists(storable, max_size=4))
@pytest.mark.requirement("EMBED-2")
def test_every_row_has_unit_length_or_is_zero_and_never_nan(embedder: Local, texts: list[str]) -> None:
    rows = embedder.embed(texts)
    lengths = np.linalg.norm(rows, axis=1)
    assert rows.shape == (len(texts), embedder.dims)
    assert np.all(np.isclose(lengths, 1, atol=1e-5) | (lengths == 0))


@pytest.mark.requirement("EMBED-2")
@pytest.mark.parametrize("text", ["\ud800 half a character", "NUL \x00", "x" * 1_000_001, None])
def test_a_text_that_cannot_be_stored_cannot_be_embedded(embedder: Local, text: str) -> None:
    with pytest.raises(InvalidInput, match="a text to embed"):
        embedder.embed(["fine", text])


@pytest.mark.requirement("EMBED-2")
def test_one_text_instead_of_a_list_is_refused(embedder: Local) -> None:
    with pytest.raises(InvalidInput, match="list"):
        embedder.embed("letter by letter")


@pytest.mark.requirement("EMBED-2")
def test_a_text_of_a_megabyte_is_embedded_by_its_beginning(embedder: Local) -> None:
    long = ("It rained in Lisbon. " * 50_000)[:1_000_000]
    whole, beginning = embedder.embed([long, long[:5_000]])
    assert whole @ beginning > 0.99


@pytest.mark.requirement("EMBED-11")
def test_the_same_token_has_the_same_number_in_every_text(embedder: Local) -> None:
    one, other = embedder.tokens(["The dog barks", "A cat and a dog"])
    shared = set(one.ids.tolist()) & set(other.ids.tolist())
    assert len(shared) == 1
    assert one.vectors.shape == (len(one.ids), embedder.dims)
    assert np.allclose(np.linalg.norm(one.vectors, axis=1), 1, atol=1e-5)


@pytest.mark.requirement("EMBED-11")
def test_tokens_find_the_sentence_that_answers(embedder: Local) -> None:
    question, *answers = embedder.tokens(
        ["When did Anna adopt the kitten?", "Anna took in a kitten on Monday.", "The invoice was paid on Monday."]
    )
    best = [(question.vectors @ answer.vectors.T).max(axis=1).sum() for answer in answers]
    assert best[0] > best[1]


class Weighing(Local, WeightedEmbedder, Protocol):
    """A local model also weighs words."""


@pytest.mark.requirement("EMBED-17")
def test_a_word_with_more_weight_pulls_the_vector_towards_it(embedder: Weighing) -> None:
    text = "kitten and invoice"
    kitten, invoice = embedder.embed(["A small cat.", "A bill to be paid."])

    def lean(first: float, last: float) -> float:
        made = embedder.weighted(text, [Part(0, 6, first), Part(11, 18, last)])
        assert np.linalg.norm(made.vector) == pytest.approx(1, abs=1e-5)
        assert made.tokens.shape == (len(made.weights), embedder.dims)
        assert np.allclose(np.linalg.norm(made.tokens, axis=1), 1, atol=1e-5)
        assert set(made.weights.tolist()) == {first, last, 0.0}
        return float(made.vector @ kitten - made.vector @ invoice)

    assert lean(1, 0.125) > lean(0.5, 0.5) > lean(0.125, 1)


@pytest.mark.requirement("EMBED-17")
def test_if_all_words_have_no_weight_all_count_equally(embedder: Weighing) -> None:
    for parts in ([], [Part(0, 6, 0.0)], [Part(500, 600, 1.0)]):
        made = embedder.weighted("kitten and invoice", parts)
        assert set(made.weights.tolist()) == {1.0}
        assert made.vector @ embedder.embed(["kitten and invoice"])[0] > 0.9


@pytest.mark.requirement("EMBED-2", "EMBED-17")
@pytest.mark.parametrize("text", ["", " ", "\U0001f600", "\u6771\u4eac", "storm " * 20_000])
def test_any_text_can_be_weighted(embedder: Weighing, text: str) -> None:
    made = embedder.weighted(text, [Part(0, len(text), 0.5)])
    assert not np.isnan(made.vector).any()
    assert len(made.tokens) == len(made.weights)
