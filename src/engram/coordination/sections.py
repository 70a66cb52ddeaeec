"""Fits sections into a budget of tokens, for the situation report and the brief.

Each section first gets a share of the budget, so that no section hides another one. What is left goes to the sections
in order of importance. A section is cut only between its entries, from the end, and then says how much is missing and
which command shows it. Some sections show the beginning of their first entry rather than nothing. Costs are counted in
quarters of a token, which add up exactly, so the budget is always kept.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from ..safe_text import visible
from ..tokens import estimate, weight

if TYPE_CHECKING:
    from collections.abc import Sequence


#: What a shortened entry may take at least, in quarters of a token, and the fewest characters that are worth showing.
_LEAST, _FEW = 160, 20


class Section:
    """A heading, its entries (one or more lines each), and what to say when not all of them fit."""

    def __init__(
        self,
        head: str,
        lines: list[str],
        unit: str,
        command: str,
        *,
        rank: int,
        share: float,
        optional: bool = False,
        shortens: bool = False,
        units: str = "",
    ) -> None:
        self.head = head
        self.lines = lines
        #: What one line is about; the plural adds an s to its first word, as in "line of the world state".
        self.unit = unit
        #: The plural, where that is wrong.
        self.units = units
        #: The command that shows all of them.
        self.command = command
        #: Sections with a low rank get room first.
        self.rank = rank
        #: The share of the budget that it may take before the other sections have had theirs.
        self.share = share
        #: Left out without a note when there is no room.
        self.optional = optional
        #: Shows the beginning of its first entry when there is no room for the whole.
        self.shortens = shortens
        self.shown = 0
        #: The first entry, if only its beginning is shown.
        self._whole: str | None = None
        #: The cost of the first lines, and of the section with so many lines, once they were asked for.
        self._costs: list[int] = []
        self._known: dict[int, int] = {}

    def text(self) -> list[str]:
        if self.optional and not self.shown:
            return []
        note = [self._note(self.shown)] if self.shown < len(self.lines) else []
        return [self.head, *self.lines[: self.shown], *note]

    def cost(self, shown: int) -> int:
        """The cost of the section with that many lines, in quarters of a token."""
        if self.optional and not shown:
            return 0
        known = self._known.get(shown)
        if known is None:
            self._costs = self._costs or list(accumulate((_cost(line) for line in self.lines), initial=0))
            note = _cost(self._note(shown)) if shown < len(self.lines) else 0
            known = self._known[shown] = _cost(self.head) + self._costs[shown] + note
        return known

    def grow(self, left: int, most: int) -> int:
        """Show more lines while there is room; the room left after that."""
        before = self.cost(self.shown)
        if self._whole is None and self.shown < len(self.lines):
            whole = self.cost(len(self.lines))
            if whole <= most and whole - before <= left:
                # Usually everything fits.
                self.shown = len(self.lines)
                return left - (whole - before)
        while self._whole is None and self.shown < len(self.lines):
            cost = self.cost(self.shown + 1)
            if cost > most or cost - before > left:
                break
            self.shown += 1
        return left - (self.cost(self.shown) - before)

    def shorten(self, left: int, most: int) -> int:
        """Show the beginning of the first entry if nothing is shown; the room left after that."""
        if not self.shortens or self.shown or not self.lines:
            return left
        before, whole = self.cost(0), self.lines[0]
        line = _beginning(whole, min(most, left + before) - (self.cost(1) - _cost(whole)))
        if line:
            self._replace_first(line)
            self._whole, self.shown = whole, 1
        return left - (self.cost(self.shown) - before)

    def lengthen(self, left: int) -> int:
        """Show the whole first entry instead of its beginning if there is room now; the room left after that."""
        if self._whole is None or _cost(self._whole) - _cost(self.lines[0]) > left:
            return left
        left -= _cost(self._whole) - _cost(self.lines[0])
        self._replace_first(self._whole)
        self._whole = None
        return left

    def _replace_first(self, line: str) -> None:
        self.lines[0] = line
        self._known.clear()
        self._costs = []

    def counted(self, count: int, more: str = "") -> str:
        """`1 session`, `2 sessions`, `3 more lines of the world state`."""
        first, of, rest = self.unit.partition(" of ")
        if count == 1:
            return f"{count} {more}{self.unit}"
        return f"{count} {more}{self.units or f'{first}s{of}{rest}'}"

    def _note(self, shown: int) -> str:
        return f"… {self.counted(len(self.lines) - shown, 'more ' if shown else '')}: `{self.command}`"


def world_state(head: str, content: str, *, rank: int, share: float) -> Section:
    """The world state. Its lines are quoted, so that nothing in it can pass for a line of the page around it."""
    lines = [f"> {visible(line)}" for line in content.splitlines()] if content.strip() else []
    return Section(head, lines, "line of the world state", "engram world show", rank=rank, share=share)


def fit(head: str, sections: Sequence[Section], budget: int | None, command: str) -> str:
    """The sections below the head, within `budget` tokens (None: uncut).

    If not even the headings fit, the text only counts what there is and names `command`, which shows it.
    """
    if budget is None or _surely_fits(head, sections, budget):
        for section in sections:
            section.shown = len(section.lines)
        return _joined(head, sections)
    left = budget * 4 - _cost(head) - sum(section.cost(0) for section in sections)
    if left < 0:
        for section in sections:
            section.shown = 0
        counts = ", ".join(section.counted(len(section.lines)) for section in sections)
        return fit_plain(f"{counts}: `{command}`", budget)
    # First each section's share, then the rest.
    ranked = sorted(sections, key=lambda section: section.rank)
    for section in ranked:
        share = int(budget * 4 * section.share)
        left = section.grow(left, share)
        left = section.shorten(left, max(share, _LEAST))
    for section in ranked:
        left = section.grow(section.lengthen(left), budget * 4)
    return _joined(head, sections)


def _surely_fits(head: str, sections: Sequence[Section], budget: int) -> bool:
    """Whether everything fits, judged in one step. Usually it does, and no line has to be counted."""
    lines = [head, *(line for section in sections for line in (section.head, *section.lines))]
    text = "\n".join(lines)
    # No character weighs more than twice its bytes, and a letter of ASCII weighs one.
    plain, size = len(text.encode("ascii", "ignore")), len(text.encode("utf-8", "surrogatepass"))
    return 2 * size - plain + 1 <= budget * 4


def fit_plain(text: str, budget: int | None) -> str:
    """A text without sections, cut at a character when it is too long."""
    if budget is None or estimate(text) <= budget:
        return text
    room = budget * 4 - weight("…")
    while weight(text) > room:
        text = text[: len(text) - max(1, (weight(text) - room) // 8)]
    return text + "…"


def _beginning(line: str, room: int) -> str:
    """The entry with its text cut and its last parenthesis, which names its source; empty if few words would fit."""
    text, mark, source = line.rpartition(" (")
    room -= _cost(f"…{mark}{source}")
    while len(text) >= _FEW and weight(text) > room:
        text = text[: min(len(text) - 1, len(text) - (weight(text) - room) // 8)]
    return f"{text.rstrip()}…{mark}{source}" if len(text) >= _FEW else ""


def _joined(head: str, sections: Sequence[Section]) -> str:
    return "\n".join([head, *(line for section in sections for line in section.text())])


def _cost(line: str) -> int:
    """A line with its line break."""
    return weight(line) + 1
