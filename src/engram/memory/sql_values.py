"""Placeholders for tables of values in SQL.

The engines have no common way to bind a table of values. A statement therefore has a fixed number of rows, and unused
rows get values that match nothing. There are few such statements, so that psycopg keeps them prepared.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: For a table of numbers and weights, filled by `weighted`.
PAIRS = (
    "(:t0, :w0), (:t1, :w1), (:t2, :w2), (:t3, :w3), (:t4, :w4), (:t5, :w5), (:t6, :w6), (:t7, :w7), "
    "(:t8, :w8), (:t9, :w9), (:t10, :w10), (:t11, :w11), (:t12, :w12), (:t13, :w13), (:t14, :w14), (:t15, :w15), "
    "(:t16, :w16), (:t17, :w17), (:t18, :w18), (:t19, :w19), (:t20, :w20), (:t21, :w21), (:t22, :w22), (:t23, :w23)"
)
PAIRS_SIZE = 24
_PAIRS_NAMES = tuple(f"{name}{number}" for number in range(PAIRS_SIZE) for name in "tw")

#: For a table of sessions and the first and last of some turns, filled by `ranges`.
RANGES = (
    "(:s0, :f0, :l0), (:s1, :f1, :l1), (:s2, :f2, :l2), (:s3, :f3, :l3), "
    "(:s4, :f4, :l4), (:s5, :f5, :l5), (:s6, :f6, :l6), (:s7, :f7, :l7), "
    "(:s8, :f8, :l8), (:s9, :f9, :l9), (:s10, :f10, :l10), (:s11, :f11, :l11), "
    "(:s12, :f12, :l12), (:s13, :f13, :l13), (:s14, :f14, :l14), (:s15, :f15, :l15)"
)
_RANGES_SIZE = 16
_RANGES_NAMES = tuple(f"{name}{number}" for number in range(_RANGES_SIZE) for name in "sfl")


def weighted(pairs: Sequence[tuple[int, float]]) -> dict[str, object]:
    """At most `PAIRS_SIZE` numbers and weights for `PAIRS`; those left over have a number that nothing has."""
    filled = [*pairs, *[(-1, 0.0)] * (PAIRS_SIZE - len(pairs))]
    return dict(zip(_PAIRS_NAMES, chain.from_iterable(filled), strict=True))


def pairs(values: Sequence[tuple[int, int]]) -> Iterator[dict[str, object]]:
    """Pairs of numbers in portions for `PAIRS`; those left over begin with a number that nothing has."""
    for start in range(0, len(values), PAIRS_SIZE):
        some = values[start : start + PAIRS_SIZE]
        filled = [*some, *[(-1, 0)] * (PAIRS_SIZE - len(some))]
        yield dict(zip(_PAIRS_NAMES, chain.from_iterable(filled), strict=True))


def ranges(values: Sequence[tuple[str, int, int]]) -> Iterator[dict[str, object]]:
    """Ranges in portions for `RANGES`; those left over are empty."""
    for start in range(0, len(values), _RANGES_SIZE):
        some = values[start : start + _RANGES_SIZE]
        filled = [*some, *[("", 1, 0)] * (_RANGES_SIZE - len(some))]
        yield dict(zip(_RANGES_NAMES, chain.from_iterable(filled), strict=True))
