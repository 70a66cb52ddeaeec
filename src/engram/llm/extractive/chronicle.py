"""Eras and the narrative without a model: a list of outcomes, one line for each session, oldest first.

A line has the day, the project, the title of the session's gist and what came of it, in the words of the person and the
agent. What is open is listed once, until a later gist takes it up or says that it is done. Nothing is counted and
nothing is made up. An earlier list, in `known`, is continued; a gist replaces the line that it had there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

from ... import gist_text, wording
from .. import headings
from ..protocol import Passage
from . import markers, stories
from .quotes import OLD_TOPICS
from .terms import Analyser

#: Characters of a line, and lines of a narrative and an era.
LONGEST: Final = 500
_MOST: Final = 30
_MOST_OF_ERA: Final = 60
_MOST_OPEN: Final = 8
#: Characters of a line of an era with many sessions.
_SHORTEST: Final = 220
#: Characters of a title in a line.
_TITLE: Final = 90
_DASH: Final = " — "
OPEN_HEADING: Final = "Still open:"
#: Share of the words of an open point that a later text has that takes it up, or calls it done.
_TAKEN_UP: Final = 0.6
_DONE: Final = 0.5
#: After this time nobody waits for an answer.
_WAITED_FOR: Final = timedelta(days=14)
_HEADER: Final = re.compile(r"\A\d{4}-\d\d: \d{1,6} sessions?\.\Z")
_CITED: Final = re.compile(r"(?<! )\s?\[[a-z]\d{1,18}(?:, ?[a-z]\d{1,18}){0,20}\]\Z")
_PROJECT: Final = re.compile(r"\bproject ([^,\n]{1,100})")
#: The day before a line, and the first words of an open point.
_WHEN: Final = re.compile(r"\A\d{4}-\d\d-\d\d[^:]{0,110}: ")
_LEAD: Final = re.compile(r"\A(?:Not (?:answered|finished)|[\w ]{1,40} asked): ")


class _Entry(NamedTuple):
    id: str
    #: The day and the project.
    when: str
    title: str
    outcome: str
    open: tuple[str, ...]
    story: str

    @property
    def head(self) -> str:
        return f"{self.when}{self.title or _first_words(self.story)}"

    def line(self, longest: int) -> str:
        """The line of a session; empty if it has nothing to tell."""
        if not self.title and not self.outcome:
            return ""
        # A title that was made of the outcome says nothing more.
        repeats = self.title and self.outcome.startswith(self.title.rstrip("…."))
        title = "" if repeats else wording.shorten(self.title, _TITLE).replace("……", "…")
        told = _DASH.join(filter(None, [title, self.outcome]))
        return clipped(f"{self.when}{told}", longest)


def era(passages: Sequence[Passage], known: Sequence[Passage], max_tokens: int) -> str:
    """The lines of a month, and what is still open."""
    entries = [_entry(passage) for passage in passages]
    old, threads = _known_era(known)
    heads = [entry.head for entry in entries if entry.title]
    kept = [line for line in old if not any(line.startswith(head) for head in heads)]
    room = max(_SHORTEST, min(LONGEST, 4 * max_tokens // max(1, len(kept) + len(entries))))
    told = [line for entry in entries if (line := entry.line(room))]
    lines = list(dict.fromkeys([*(clipped(line, room) for line in kept), *told]))
    lines = [*_undated(lines), *sorted(_dated(lines), key=lambda line: line[:10])][-_MOST_OF_ERA:]
    still = [point for point, _ in _threads(threads, entries)]
    return "\n".join([*lines, *([OPEN_HEADING, *(f"- {point}" for point in still)] if still else [])])


def narrative(passages: Sequence[Passage], known: Sequence[Passage]) -> dict[str, list[str]]:
    """The sections of a narrative. Each line names its gist."""
    entries = [_entry(passage) for passage in passages]
    before = _sections(known)
    ids = {entry.id for entry in entries}
    kept = [line for line in before["arc"] if not (named := _ids(line)) or not named <= ids]
    arc = list(kept)
    said = {_bare(line) for line in kept}
    for entry in entries:
        line = entry.line(LONGEST - len(entry.id) - 3)
        if line and line not in said:
            arc.append(_cited(line, entry.id))
            said.add(line)
    arc = [*_undated(arc), *sorted(_dated(arc), key=lambda line: line[:10])]
    threads = [(_bare(line), line) for line in before["open_threads"] if not (named := _ids(line)) or not named <= ids]
    still = [line for _, line in _threads(threads, entries)]
    return {"arc": arc[-_MOST:], "open_threads": still}


def narrative_text(sections: dict[str, list[str]]) -> str:
    parts = [
        "\n".join([f"## {headings.NARRATIVE[name]}", *(f"- {line}" for line in lines)])
        for name, lines in sections.items()
        if lines and name in headings.NARRATIVE
    ]
    return "\n\n".join(parts)


def clipped(line: str, longest: int) -> str:
    """A line of at most this length, cut at the end of a sentence or at a word."""
    line = " ".join(line.split())
    if len(line) <= longest:
        return line
    head, dash, outcome = line.partition(_DASH)
    room = longest - len(head) - len(dash)
    if dash and room >= 40:
        return f"{head}{dash}{wording.shorten(outcome, room)}"
    return wording.shorten(line, longest)


def _entry(passage: Passage) -> _Entry:
    parts = gist_text.parse(passage.text)
    day = passage.at[:10] or _day(passage.label)
    project = found[1].strip() if (found := _PROJECT.search(passage.label)) else ""
    when = ", ".join(filter(None, [day, project]))
    title, outcome = parts.title, parts.outcome
    if not title and not outcome:
        # A gist of an earlier release, or one that a client wrote, is all story.
        outcome = _first_words(parts.story)
    return _Entry(passage.id, f"{when}: " if when else "", title, outcome, parts.open, parts.story)


def _day(label: str) -> str:
    found = re.search(r"\b\d{4}-\d\d-\d\d\b", label)
    return found[0] if found else ""


def _first_words(story: str) -> str:
    """The beginning of a gist that has no title, without the day and the speaker of an old one."""
    line = next((line for line in story.splitlines() if line.strip() and not line.startswith("#")), "")
    if line.startswith(stories.ONLY_COMMANDS):
        return ""
    return wording.shorten(_WHEN.sub("", line.strip()), 200)


def _threads(before: Sequence[tuple[str, str]], entries: Sequence[_Entry]) -> list[tuple[str, str]]:
    """What is open: the text of each point, and its line. A later gist that takes a point up or ends it removes it."""
    analyser = Analyser()

    def terms(text: str) -> set[str]:
        return {word.term for word in analyser.words(text) if word.telling}

    found: dict[str, tuple[str, set[str]]] = {}
    for point, line in before:
        found[point] = (line, terms(_LEAD.sub("", _WHEN.sub("", point))))
    for entry in entries:
        whole = terms("\n".join([entry.title, entry.outcome, entry.story]))
        done = [
            terms(part)
            for part in wording.sentences(f"{entry.outcome} {' '.join(entry.story.split())}")
            if markers.is_done(part)
        ]
        for point, (_, wanted) in list(found.items()):
            taken = len(wanted & whole) >= max(1, _TAKEN_UP * len(wanted))
            if taken or any(len(wanted & each) >= max(1, _DONE * len(wanted)) for each in done):
                del found[point]
        for point in entry.open:
            text = clipped(f"{entry.when}{point}", LONGEST - 30)
            found[text] = (_cited(text, entry.id), terms(_LEAD.sub("", point)))
    latest = max((entry.when[:10] for entry in entries), default="")
    still = [(point, line) for point, (line, _) in found.items() if not _is_stale(point, latest)]
    return still[-_MOST_OPEN:]


def _is_stale(point: str, latest: str) -> bool:
    """Whether a question or an ask is so old that nobody waits for its answer."""
    asked = _LEAD.match(_WHEN.sub("", point))
    try:
        return bool(asked) and date.fromisoformat(latest) - date.fromisoformat(point[:10]) > _WAITED_FOR
    except ValueError:
        return False


def _known_era(known: Iterable[Passage]) -> tuple[list[str], list[tuple[str, str]]]:
    """The lines of the era so far, and its open points."""
    lines: list[str] = []
    threads: list[tuple[str, str]] = []
    for passage in known:
        below = False
        for line in (each.strip() for each in passage.text.splitlines()):
            if line == OPEN_HEADING:
                below = True
            elif below and line.startswith("- "):
                threads.append((line[2:], line[2:]))
            elif line and not _HEADER.match(line) and not line.startswith(OLD_TOPICS):
                lines.append(line)
    return lines, threads


def _sections(known: Iterable[Passage]) -> dict[str, list[str]]:
    """The lines of an earlier narrative of this form, by section; empty for any other text."""
    wanted = {title: name for name, title in headings.NARRATIVE.items()}
    found: dict[str, list[str]] = {"arc": [], "open_threads": []}
    for passage in known:
        current: list[str] | None = None
        for line in passage.text.splitlines():
            if line.startswith("## "):
                current = found.get(wanted.get(line[3:], ""))
            elif current is not None and line.startswith("- "):
                current.append(_limited(line[2:]))
    return found


def _limited(line: str) -> str:
    """A known line within the limit, with its sources."""
    if len(line) <= LONGEST:
        return line
    cited = found[0] if (found := _CITED.search(line)) else ""
    return f"{clipped(_bare(line), LONGEST - len(cited) - 1)} {cited.strip()}".strip()


def _cited(line: str, id: str) -> str:
    return f"{line} [{id}]" if re.fullmatch(r"[a-z]\d{1,18}", id) else line


def _bare(line: str) -> str:
    return _CITED.sub("", line)


def _ids(line: str) -> set[str]:
    found = _CITED.search(line)
    return {each.strip() for each in found[0].strip(" []").split(",")} if found else set()


def _dated(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if _WHEN.match(line)]


def _undated(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not _WHEN.match(line)]
