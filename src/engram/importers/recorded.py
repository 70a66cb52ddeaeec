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
    """What a session has, as an import looks through it from the first to the last.

    Turns and log entries are looked through apart: hooks store the log of a run before its messages.
    """

    def __init__(self, seen: Seen | None, stored: Iterable[Known] = ()) -> None:
        self.seen = seen
        self._ids: dict[str, Known] = {}
        self._turns, self._logs = _Row(), _Row()
        for known in stored:
            if known.external_id is not None:
                self._ids.setdefault(known.external_id, known)
            self._row(known.role).append(known)

    def was_read(self, number: int, at: str | None) -> bool:
        """Whether an earlier import has read the turn with this number."""
        seen = self.seen
        if seen is None or (at is not None and seen.at is not None and at > seen.at):
            return False
        return number <= seen.records

    def find(self, turn: PastTurn) -> Known | None:
        """The exchange that records the turn; None if it is new."""
        row = self._row(turn.role)
        known = self._ids.get(turn.external_id or "")
        if known is not None:
            row.pass_by(known)
            return known
        return row.find(turn) if row.length else None

    def is_behind_all(self, role: str, at: str | None) -> bool:
        """Whether a turn of this role and time comes after everything of its sort that is stored."""
        rows = [self._logs, self._turns] if role == "log" else [self._turns]
        return all(row.place >= row.length or (at is not None and at > row.last_at) for row in rows)

    def _row(self, role: str) -> _Row:
        return self._logs if role == "log" else self._turns


class _Row:
    """Exchanges in their order, found by their texts."""

    def __init__(self) -> None:
        self.length = 0
        #: How far the import has come.
        self.place = 0
        self.last_at = ""
        self._texts: dict[bytes, list[tuple[int, Known]]] = defaultdict(list)
        self._places: dict[int, int] = {}

    def append(self, known: Known) -> None:
        # The text is not kept: a session may be long.
        self._texts[_key(known.role, known.content)].append((self.length, known._replace(content="")))
        self._places[known.id] = self.length
        self.last_at = max(self.last_at, known.created_at)
        self.length += 1

    def pass_by(self, known: Known) -> None:
        self.place = max(self.place, self._places[known.id] + 1)

    def find(self, turn: PastTurn) -> Known | None:
        found = self._texts.get(_key(turn.role, redact(turn.content)), [])
        at = bisect_left(found, self.place, key=lambda each: each[0])
        if at == len(found) or found[at][0] > self.place + _AHEAD:
            return None
        place, known = found[at]
        self.place = place + 1
        return known


def _key(role: str, text: str) -> bytes:
    return blake2b(f"{role}\n{' '.join(text.split())}".encode("utf-8", "replace"), digest_size=16).digest()
