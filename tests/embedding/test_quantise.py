"""8-bit vectors keep their direction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.embedding.quantise import from_int8, to_int8
from engram.embedding.static import StaticEmbedder

Vectors = npt.NDArray[np.float32]


def random_units(rows: int, dims: int) -> Vectors:
    values = np.random.default_rng(7).normal(size=(rows, dims))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return values.astype(np.float32)


@pytest.mark.requirement("EMBED-16")
@pytest.mark.parametrize("dims", [8, 256, 384, 3072])
def test_a_cosine_in_8_bits_is_off_by_less_than_a_hundredth(dims: int) -> None:
    vectors = random_units(200, dims)
    small = to_int8(vectors)
    assert small.dtype == np.int8
    assert small.shape == vectors.shape
    assert np.abs(vectors @ vectors.T - from_int8(small) @ from_int8(small).T).max() < 0.01


@pytest.mark.requirement("EMBED-16")
def test_real_vectors_keep_their_order(static: StaticEmbedder) -> None:
    vectors = static.embed(["where is the cat?", "the cat is in the garden", "a dog barks", "the invoice is paid"])
    small = from_int8(to_int8(vectors))
    assert np.argsort(vectors[1:] @ vectors[0]).tolist() == np.argsort(small[1:] @ small[0]).tolist()


@pytest.mark.requirement("EMBED-16")
def test_zeros_stay_zeros() -> None:
    vectors = np.array([[0, 0, 0], [0, -0.5, 0.25]], np.float32)
    assert to_int8(vectors).tolist() == [[0, 0, 0], [0, -127, 64]]
    assert from_int8(to_int8(vectors))[0].tolist() == [0, 0, 0]


@pytest.mark.requirement("EMBED-16")
def test_one_vector_and_no_vectors_are_accepted() -> None:
    assert to_int8(np.array([3, -4], np.float32)).tolist() == [95, -127]
    assert to_int8(np.zeros((0, 4), np.float32)).shape == (0, 4)
    assert np.allclose(from_int8(np.array([3, -4], np.int8)), [0.6, -0.8])


@pytest.mark.requirement("EMBED-16")
@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=16), st.floats(0.125, 1000, width=32))
def test_the_length_of_a_vector_makes_no_difference(values: list[float], factor: float) -> None:
    vector = np.array(values, np.float32)
    difference = to_int8(vector).astype(int) - to_int8((vector * np.float32(factor)).astype(np.float32))
    # One step where a value lies between two, and rounding decides.
    assert np.abs(difference).max() <= (1 if np.abs(vector).max() > 1e-30 else 127)
