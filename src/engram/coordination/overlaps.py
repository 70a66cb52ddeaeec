"""Pairs of live leases of different sessions that overlap: what a person should see first.

Most leases are on plain paths. Two of those overlap if they are equal or one is a folder of the other, so each is
looked up by its own path and its folders. Only patterns are compared with every other lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..overview_records import Overlap
from . import resources
from .globs import has_magic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..records import Holder


def conflicting(claims: Sequence[tuple[Holder, str | None]]) -> list[Overlap]:
    """The pairs among live claims, each with the parent of its session, which are in the order of their claiming.

    Exclusive ones come first, then the pairs with the latest claim. A session and its subagent share what either holds.
    """
    pairs = []
    for first, second in sorted(set(_overlapping([each.resource for each, _ in claims]))):
        (a, parent_of_a), (b, parent_of_b) = claims[first], claims[second]
        if b.session_id not in (a.session_id, parent_of_a) and a.session_id != parent_of_b:
            pairs.append(Overlap(a, b))
    pairs.sort(key=lambda pair: (pair.first.exclusive or pair.second.exclusive, pair.second.claimed_at), reverse=True)
    return pairs


def _overlapping(claimed: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The numbers of resources that overlap, the lower one first."""
    plain: dict[str, list[int]] = {}
    patterns: list[int] = []
    for number, resource in enumerate(claimed):
        if has_magic(resource):
            patterns.append(number)
        else:
            plain.setdefault(resource, []).append(number)
    for number in patterns:
        for other, resource in enumerate(claimed):
            if other != number and resources.overlap(claimed[number], resource):
                yield min(number, other), max(number, other)
    for resource, numbers in plain.items():
        for folder in _and_folders(resource):
            # The comparison knows what has nothing below it, such as a URL.
            if folder in plain and resources.overlap(resource, folder):
                for number in numbers:
                    yield from ((min(number, other), max(number, other)) for other in plain[folder] if other != number)


def _and_folders(resource: str) -> Iterator[str]:
    """A resource, its folders, and the root of its project."""
    yield resource
    head, colon, path = resource.partition(":")
    is_qualified = bool(colon) and not resource.startswith("/")
    prefix, inside = (f"{head}:", path) if is_qualified else ("", resource)
    while "/" in inside:
        inside = inside.rpartition("/")[0]
        yield prefix + (inside or "/")
    if is_qualified and path != ".":
        yield f"{prefix}."
