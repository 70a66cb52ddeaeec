"""Which turns of a session are in the store already.

An earlier import left a record of how far it read, so most is decided by counting. Hooks may have recorded the session
as well: what they stored is compared by the harness's id of the message, or by role, text and order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING

from ..redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..import_records import Known, PastTurn, Seen

#: How far ahead of the last turn that was found the same text still counts as the same turn.
_AHEAD = 100


class Recorded:
    """The turns that a session has, as an import looks through them from the first to the last."""

    def __init__(self, seen: Seen | None, stored: Iterable[Known] = ()) -> None:
        self.seen = seen
        self._place = 0
        self._ids: dict[str, int] = {}
        self._texts: dict[bytes, list[int]] = defaultdict(list)
        self._count = 0
        #: The turns without the harness's id, by their place.
        self._nameless: dict[int, int] = {}
        self._last_at = ""
        for place, known in enumerate(stored):
            if known.external_id is None:
                self._nameless[place] = known.id
            else:
                self._ids.setdefault(known.external_id, place)
            self._texts[_key(known.role, known.content)].append(place)
            self._last_at = max(self._last_at, known.created_at)
            self._count += 1

    def was_read(self, number: int, at: str | None) -> bool:
        """Whether an earlier import has read the turn with this number."""
        seen = self.seen
        if seen is None or (at is not None and seen.at is not None and at > seen.at):
            return False
        return number <= seen.records

    def find(self, turn: PastTurn) -> int | None:
        """The place of a turn among those that were stored by others; None if it is not among them."""
        if turn.external_id is not None and turn.external_id in self._ids:
            place = self._ids[turn.external_id]
            self._place = max(self._place, place + 1)
            return place
        if not self._count:
            return None
        places = self._texts.get(_key(turn.role, redact(turn.content)), [])
        at = bisect_left(places, self._place)
        if at == len(places) or places[at] > self._place + _AHEAD:
            return None
        self._place = places[at] + 1
        return places[at]

    def nameless(self, place: int) -> int | None:
        """The id of the exchange at a place, if the harness's id of it is not known yet."""
        return self._nameless.pop(place, None)

    def is_later(self, at: str) -> bool:
        """Whether a time is after everything that is stored."""
        return at > self._last_at

    @property
    def is_passed(self) -> bool:
        """Whether every turn that is stored was found."""
        return self._place >= self._count


def _key(role: str, text: str) -> bytes:
    return blake2b(f"{role}\n{' '.join(text.split())}".encode("utf-8", "replace"), digest_size=16).digest()
