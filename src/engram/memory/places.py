"""Places for lists of values in SQL.

The engines have no common way to bind a list, so a statement has a fixed number of places, written out, and those left
over are filled with something that changes nothing.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: For `IN (…)`, filled by `padded`.
CHUNK = (
    ":x0, :x1, :x2, :x3, :x4, :x5, :x6, :x7, :x8, :x9, :x10, :x11, :x12, :x13, :x14, :x15, "
    ":x16, :x17, :x18, :x19, :x20, :x21, :x22, :x23, :x24, :x25, :x26, :x27, :x28, :x29, :x30, :x31, "
    ":x32, :x33, :x34, :x35, :x36, :x37, :x38, :x39, :x40, :x41, :x42, :x43, :x44, :x45, :x46, :x47, "
    ":x48, :x49, :x50, :x51, :x52, :x53, :x54, :x55, :x56, :x57, :x58, :x59, :x60, :x61, :x62, :x63"
)
_CHUNK_NAMES = tuple(f"x{number}" for number in range(64))

#: For a second list of few values, filled by `few`.
FEW = (
    ":y0, :y1, :y2, :y3, :y4, :y5, :y6, :y7, :y8, :y9, :y10, :y11, "
    ":y12, :y13, :y14, :y15, :y16, :y17, :y18, :y19, :y20, :y21, :y22, :y23"
)
_FEW_NAMES = tuple(f"y{number}" for number in range(24))

#: For a table of numbers and weights, filled by `weighted`.
PAIRS = (
    "(:t0, :w0), (:t1, :w1), (:t2, :w2), (:t3, :w3), (:t4, :w4), (:t5, :w5), (:t6, :w6), (:t7, :w7), "
    "(:t8, :w8), (:t9, :w9), (:t10, :w10), (:t11, :w11), (:t12, :w12), (:t13, :w13), (:t14, :w14), (:t15, :w15), "
    "(:t16, :w16), (:t17, :w17), (:t18, :w18), (:t19, :w19), (:t20, :w20), (:t21, :w21), (:t22, :w22), (:t23, :w23), "
    "(:t24, :w24), (:t25, :w25), (:t26, :w26), (:t27, :w27), (:t28, :w28), (:t29, :w29), (:t30, :w30), (:t31, :w31), "
    "(:t32, :w32), (:t33, :w33), (:t34, :w34), (:t35, :w35), (:t36, :w36), (:t37, :w37), (:t38, :w38), (:t39, :w39), "
    "(:t40, :w40), (:t41, :w41), (:t42, :w42), (:t43, :w43), (:t44, :w44), (:t45, :w45), (:t46, :w46), (:t47, :w47)"
)
PAIRS_SIZE = 48
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


def padded(values: Sequence[object]) -> Iterator[dict[str, object]]:
    """Values in portions for the places of `CHUNK`; those left over repeat the last one."""
    return _portions(_CHUNK_NAMES, values)


def few(values: Sequence[object]) -> Iterator[dict[str, object]]:
    """The same for the places of `FEW`."""
    return _portions(_FEW_NAMES, values)


def _portions(names: Sequence[str], values: Sequence[object]) -> Iterator[dict[str, object]]:
    for start in range(0, len(values), len(names)):
        some = values[start : start + len(names)]
        yield dict(zip(names, [*some, *[some[-1]] * (len(names) - len(some))], strict=True))


def weighted(pairs: Sequence[tuple[int, float]]) -> dict[str, object]:
    """Numbers and weights for `PAIRS`; those left over have a number that nothing has."""
    filled = [*pairs, *[(-1, 0.0)] * (PAIRS_SIZE - len(pairs))]
    return dict(zip(_PAIRS_NAMES, chain.from_iterable(filled), strict=True))


def ranges(values: Sequence[tuple[str, int, int]]) -> Iterator[dict[str, object]]:
    """Ranges in portions for `RANGES`; those left over are empty."""
    for start in range(0, len(values), _RANGES_SIZE):
        some = values[start : start + _RANGES_SIZE]
        filled = [*some, *[("", 1, 0)] * (_RANGES_SIZE - len(some))]
        yield dict(zip(_RANGES_NAMES, chain.from_iterable(filled), strict=True))
