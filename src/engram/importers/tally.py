"""Counts what an import did and what it left out."""

from __future__ import annotations

from collections import Counter

from ..import_records import ImportReport, LeftOut

#: The most examples that are named for each reason to leave a record out.
_EXAMPLES = 3
#: The most notes that a report has.
_NOTES = 20


class Tally:
    def __init__(self, source: str) -> None:
        self._source = source
        self._counts: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = {}
        self._notes: dict[str, None] = {}
        self._times: tuple[str, str] | None = None
        #: The source that is being read.
        self.where = ""

    def add(self, what: str, number: int = 1) -> None:
        """Count something: the name of a field of the report."""
        self._counts[what] += number

    def leave_out(self, why: str, where: str, number: int = 1) -> None:
        """Count a record that is not imported. `where` is its place in the source."""
        self._left_out[why] += number
        examples = self._examples.setdefault(why, [])
        if len(examples) < _EXAMPLES:
            examples.append(f"{self.where}, {where}" if where and where != self.where else self.where)

    def left_out(self, why: str) -> int:
        """How many records were left out for reasons that begin so."""
        return sum(number for each, number in self._left_out.items() if each.startswith(why))

    def note(self, text: str) -> None:
        """Tell the person something, once."""
        if len(self._notes) < _NOTES:
            self._notes[text] = None

    def imported_at(self, at: str) -> None:
        """A turn or memory of this time was imported."""
        first, last = self._times or (at, at)
        self._times = (min(first, at), max(last, at))

    def report(self) -> ImportReport:
        left_out = tuple(
            LeftOut(why, number, tuple(self._examples[why])) for why, number in self._left_out.most_common()
        )
        first, last = self._times or (None, None)
        return ImportReport(
            self._source, **self._counts, left_out=left_out, notes=tuple(self._notes), first_at=first, last_at=last
        )
