"""Places for lists of values in SQL.

The engines have no common way to bind a list, so a statement has a fixed number of places, written out, and those left
over are filled with something that changes nothing.
"""

from __future__ import annotations

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
_CHUNK_SIZE = 64

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


def padded(values: Sequence[object]) -> Iterator[dict[str, object]]:
    """Values in portions for the places of `CHUNK`; those left over repeat the last one."""
    for start in range(0, len(values), _CHUNK_SIZE):
        some = values[start : start + _CHUNK_SIZE]
        yield {f"x{number}": some[min(number, len(some) - 1)] for number in range(_CHUNK_SIZE)}


def weighted(pairs: Sequence[tuple[int, float]]) -> dict[str, object]:
    """Numbers and weights for `PAIRS`; those left over have a number that nothing has."""
    places: dict[str, object] = {}
    for place in range(PAIRS_SIZE):
        places[f"t{place}"], places[f"w{place}"] = pairs[place] if place < len(pairs) else (-1, 0.0)
    return places
