"""Fits sections into a budget of tokens, for the situation report and the brief.

Each section first gets a share of the budget, so that no section hides another one. What is left goes to the sections
in order of importance. A section is cut only between its entries, from the end, and then says how much is missing and
which command shows it. Some sections show the beginning of their first entry rather than nothing. Costs are counted in
quarters of a token, which add up exactly, so the budget is always kept.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ..records import WORLD
from ..safe_text import visible
from ..tokens import estimate, weight

if TYPE_CHECKING:
    from collections.abc import Sequence


#: What a shortened entry may take at least, in quarters of a token, and the fewest characters that are worth showing.
_LEAST, _FEW = 160, 20


class Entry(NamedTuple):
    """A part of a page that is shown or left out as a whole: one or more lines."""

    text: str
    #: What it shows, by kind and id, such as `("memory", 7)`. None for a heading and for a note.
    source: tuple[str, str | int] | None = None


class Section:
    """A heading, its entries, and what to say when not all of them fit."""

    def __init__(
        self,
        head: str,
        entries: list[Entry],
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
        self.entries = entries
        #: What one entry is about; the plural adds an s to its first word, as in "line of the world state".
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
        self._whole: Entry | None = None
        #: The cost of the first entries, and of the section with so many entries, once they were asked for.
        self._costs: list[int] = []
        self._known: dict[int, int] = {}

    def page(self) -> list[Entry]:
        """What is shown of it: the heading, the entries that fit, and the note."""
        if self.optional and not self.shown:
            return []
        note = [Entry(self._note(self.shown))] if self.shown < len(self.entries) else []
        return [Entry(self.head), *self.entries[: self.shown], *note]

    def cost(self, shown: int) -> int:
        """The cost of the section with that many entries, in quarters of a token."""
        if self.optional and not shown:
            return 0
        known = self._known.get(shown)
        if known is None:
            self._costs = self._costs or list(accumulate((_cost(each.text) for each in self.entries), initial=0))
            note = _cost(self._note(shown)) if shown < len(self.entries) else 0
            known = self._known[shown] = _cost(self.head) + self._costs[shown] + note
        return known

    def grow(self, left: int, most: int) -> int:
        """Show more entries while there is room; the room left after that."""
        before = self.cost(self.shown)
        if self._whole is None and self.shown < len(self.entries):
            whole = self.cost(len(self.entries))
            if whole <= most and whole - before <= left:
                # Usually everything fits.
                self.shown = len(self.entries)
                return left - (whole - before)
        while self._whole is None and self.shown < len(self.entries):
            cost = self.cost(self.shown + 1)
            if cost > most or cost - before > left:
                break
            self.shown += 1
        return left - (self.cost(self.shown) - before)

    def shorten(self, left: int, most: int) -> int:
        """Show the beginning of the first entry if nothing is shown; the room left after that."""
        if not self.shortens or self.shown or not self.entries:
            return left
        before, whole = self.cost(0), self.entries[0]
        line = _beginning(whole.text, min(most, left + before) - (self.cost(1) - _cost(whole.text)))
        if line:
            self._replace_first(whole._replace(text=line))
            self._whole, self.shown = whole, 1
        return left - (self.cost(self.shown) - before)

    def lengthen(self, left: int) -> int:
        """Show the whole first entry instead of its beginning if there is room now; the room left after that."""
        if self._whole is None:
            return left
        more = _cost(self._whole.text) - _cost(self.entries[0].text)
        if more > left:
            return left
        self._replace_first(self._whole)
        self._whole = None
        return left - more

    def _replace_first(self, entry: Entry) -> None:
        self.entries[0] = entry
        self._known.clear()
        self._costs = []

    def counted(self, count: int, more: str = "") -> str:
        """`1 session`, `2 sessions`, `3 more lines of the world state`."""
        first, of, rest = self.unit.partition(" of ")
        if count == 1:
            return f"{count} {more}{self.unit}"
        return f"{count} {more}{self.units or f'{first}s{of}{rest}'}"

    def _note(self, shown: int) -> str:
        return f"… {self.counted(len(self.entries) - shown, 'more ' if shown else '')}: `{self.command}`"


def world_state(head: str, content: str, *, rank: int, share: float) -> Section:
    """The world state. Its lines are quoted, so that nothing in it can pass for a line of the page around it."""
    source = ("block", WORLD)
    lines = [Entry(f"> {visible(line)}", source) for line in content.splitlines()] if content.strip() else []
    return Section(head, lines, "line of the world state", "engram world show", rank=rank, share=share)


def fit(head: str, sections: Sequence[Section], budget: int | None, command: str) -> list[Entry]:
    """The head and what is shown of the sections below it, within `budget` tokens (None: uncut).

    If not even the headings fit, the text only counts what there is and names `command`, which shows it.
    """
    if budget is None or _surely_fits(head, sections, budget):
        for section in sections:
            section.shown = len(section.entries)
        return _page(head, sections)
    left = budget * 4 - _cost(head) - sum(section.cost(0) for section in sections)
    if left < 0:
        for section in sections:
            section.shown = 0
        counts = ", ".join(section.counted(len(section.entries)) for section in sections)
        return [Entry(fit_plain(f"{counts}: `{command}`", budget))]
    # First each section's share, then the rest.
    ranked = sorted(sections, key=lambda section: section.rank)
    for section in ranked:
        share = int(budget * 4 * section.share)
        left = section.grow(left, share)
        left = section.shorten(left, max(share, _LEAST))
    for section in ranked:
        left = section.grow(section.lengthen(left), budget * 4)
    return _page(head, sections)


def _surely_fits(head: str, sections: Sequence[Section], budget: int) -> bool:
    """Whether everything fits, judged in one step. Usually it does, and no line has to be counted."""
    text = "\n".join([head, *(section.head for section in sections)])
    text += "".join(f"\n{each.text}" for section in sections for each in section.entries)
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


def joined(entries: Sequence[Entry]) -> str:
    """The text of a page."""
    return "\n".join([each.text for each in entries])


def _page(head: str, sections: Sequence[Section]) -> list[Entry]:
    return [Entry(head), *(each for section in sections for each in section.page())]


def _cost(line: str) -> int:
    """A line with its line break."""
    return weight(line) + 1
