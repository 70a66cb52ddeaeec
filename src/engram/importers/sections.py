"""Cuts a text into pieces that are each worth one memory: the sections below its headings, and parts of long ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Characters of a piece. A longer one would answer everything and nothing.
LONGEST = 4_000
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?")
#: The fence of a code block, and its length.
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_UNDERLINE = re.compile(r" {0,3}(={2,}|-{2,})[ \t]*")
#: The longest line that counts as a heading if it is underlined. A longer one is a paragraph before a rule.
_LONGEST_HEADING = 120
#: Lines that begin so are no headings, although a line of hyphens may follow.
_NO_HEADING = ("#", ">", "-", "*", "+", "|", "`", "~", "<", "    ", "\t")


class Section(NamedTuple):
    #: The headings that lead to it, with their levels.
    headings: tuple[tuple[int, str], ...]
    text: str

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(title for _, title in self.headings)


def sections(document: str) -> Iterator[Section]:
    """The sections of a Markdown text that say something. A heading in a code block is none."""
    lines = document.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    headings: list[tuple[int, str]] = []
    held: list[str] = []
    fence = ""
    for place, line in enumerate(lines):
        if fence:
            fence = "" if _closes(line, fence) else fence
        elif (opening := _FENCE.fullmatch(line)) and not (opening[1][0] == "`" and "`" in opening[2]):
            fence = opening[1]
        elif heading := _heading(lines, place, held):
            level, title, taken = heading
            if said := _body(held[: len(held) - taken]):
                yield Section(tuple(headings), said)
            held = []
            while headings and headings[-1][0] >= level:
                headings.pop()
            if title:
                headings.append((level, title))
            continue
        held.append(line)
    if said := _body(held):
        yield Section(tuple(headings), said)


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0]) and not line.startswith("    ")


def _heading(lines: list[str], place: int, held: list[str]) -> tuple[int, str, int] | None:
    """The level and the title of a heading that ends with this line, and how many lines before it belong to it."""
    line = lines[place]
    if found := _HEADING.fullmatch(line):
        title = (found[2] or "").strip()
        bare = title.rstrip("#")
        return len(found[1]), bare.rstrip() if bare != title and bare[-1:] in ("", " ", "\t") else title, 0
    if not (found := _UNDERLINE.fullmatch(line)) or not held:
        return None
    title = held[-1]
    is_alone = len(held) == 1 or not held[-2].strip()
    if not title.strip() or not is_alone or len(title) > _LONGEST_HEADING or title.startswith(_NO_HEADING):
        return None
    return 1 if found[1][0] == "=" else 2, title.strip(), 1


def _body(lines: list[str]) -> str:
    """The text of a section; nothing if it has only rules and empty lines."""
    said = "\n".join(lines).strip("\n").rstrip()
    return said if said.strip("-*_ \t\n") else ""


def pieces(said: str, longest: int = LONGEST) -> list[str]:
    """The text, cut at paragraphs into parts of at most this length; where there are none, at lines or words."""
    if len(said) <= longest:
        return [said] if said.strip() else []
    found: list[str] = []
    at = 0
    while at < len(said):
        end = _end(said, at, longest)
        if part := said[at:end].strip("\n").rstrip():
            found.append(part)
        at = end
    return found


def _end(said: str, at: int, longest: int) -> int:
    """Where the part that begins here ends."""
    if len(said) - at <= longest:
        return len(said)
    # A very short part says little, so it may not be the beginning that is cut off.
    least = at + longest // 4
    for border in ("\n\n", "\n", ". ", " "):
        found = said.rfind(border, least, at + longest)
        if found >= 0:
            return found + len(border)
    return at + longest
