"""The narrative and the reflection without a model: a plain summary of the gists.

Nothing is made up. Lines are lines of the gists, topics are words that occur in several of them, and the reflection
says that it was made by counting. An earlier narrative of this form, in `known`, is continued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from .. import headings
from ..protocol import Passage
from . import markers
from .gists import Line, Read, choose, read, weights
from .terms import Analyser

_ARC: Final = 12
_OPEN: Final = 8
_RECURS: Final = 2


class Topic(NamedTuple):
    written: str
    #: How many passages mention it.
    passages: int
    first: str
    last: str


class Thread(NamedTuple):
    """An open question or task: its words, its passage and its speaker."""

    terms: set[str]
    source: str
    role: str

    def ends_with(self, line: Line, terms: set[str]) -> bool:
        common = len(self.terms & terms)
        taken_up = line.source == self.source and line.role != self.role and common > 0
        return taken_up or (markers.is_done(line.text) and 2 * common >= len(self.terms))


def narrative(passages: Sequence[Passage], known: Sequence[Passage]) -> dict[str, list[str]]:
    """The sections of a narrative, each a list of lines."""
    analyser = Analyser()
    before = _sections(known)
    per_passage = [read([passage], analyser) for passage in passages]
    lines = [line for each in per_passage for line in each.lines]
    return {
        "arc": [*before["arc"], *_arc(per_passage)][-_ARC:],
        "open_threads": _open(before["open_threads"], lines, analyser)[-_OPEN:],
    }


def narrative_text(sections: dict[str, list[str]]) -> str:
    parts = [
        "\n".join([f"## {headings.NARRATIVE[name]}", *(f"- {line}" for line in lines)])
        for name, lines in sections.items()
        if lines
    ]
    return "\n\n".join(parts)


def reflection(passages: Sequence[Passage]) -> dict[str, str | float]:
    """Mood, energy, and two short texts that say what was counted."""
    analyser = Analyser()
    found = read(passages, analyser)
    said = [line.text for line in found.lines]
    well, trouble = markers.tone(said)
    open_ends = sum(markers.is_open(text) for text in said)
    topics = [topic.written for topic in _topics([read([passage], analyser) for passage in passages], least=1)[:5]]
    days = sorted(day for passage in passages if (day := passage.at[:10]))
    span = f" from {days[0]} to {days[-1]}" if days and days[0] != days[-1] else f" of {days[0]}" if days else ""
    about = f", mostly about {', '.join(topics)}" if topics else ""
    return {
        "mood": _mood(len(said), well, trouble),
        "energy": round(min(1.0, len(said) / 100), 2),
        "narrative": f"I looked through {_count(len(passages), 'text')}{span}{about}.",
        "reflection": (
            f"Counted without a model: of {_count(len(said), 'sentence')}, {well} sounded positive and {trouble} "
            f"negative; {_count(open_ends, 'question or task', 'questions or tasks')} remained open."
        ),
    }


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _mood(sentences: int, well: int, trouble: int) -> str:
    if not sentences:
        return "quiet"
    if trouble > well:
        return "strained"
    return "content" if well > 2 * trouble else "steady"


def _arc(per_passage: Sequence[Read]) -> list[str]:
    """The most informative line of each passage."""
    found = []
    for each in per_passage:
        best = choose(each.lines, weights(each), 1, 1_000_000)
        found += [each.lines[position].whole for position in best]
    return found


def _topics(per_passage: Sequence[Read], least: int = _RECURS) -> list[Topic]:
    """Words that occur in several passages, the most common first."""
    where: dict[str, list[str]] = {}
    written: dict[str, Counter[str]] = {}
    for each in per_passage:
        day = next((line.day for line in each.lines if line.day), "")
        words = [word for line in each.lines for word in line.words] + each.also
        for term, word in {word.term: word for word in words if word.telling and len(word.term) > 2}.items():
            where.setdefault(term, []).append(day)
            written.setdefault(term, Counter())[word.written] += 1
    common = sorted((term for term in where if len(where[term]) >= least), key=lambda term: -len(where[term]))
    return [
        Topic(written[term].most_common(1)[0][0], len(where[term]), where[term][0], where[term][-1]) for term in common
    ]


def _open(before: Sequence[str], lines: Sequence[Line], analyser: Analyser) -> list[str]:
    """Questions and tasks, without those that another speaker answered or that a later line calls done."""
    threads = {text: Thread({word.term for word in analyser.words(text)}, "", "") for text in before}
    for line in lines:
        terms = {word.term for word in line.words}
        threads = {text: thread for text, thread in threads.items() if not thread.ends_with(line, terms)}
        if markers.is_open(line.text) and not markers.is_done(line.text) and len(terms) > 1:
            threads[line.whole] = Thread(terms, line.source, line.role)
    return list(threads)


def _sections(known: Sequence[Passage]) -> dict[str, list[str]]:
    """The sections of an earlier narrative of this form; empty for any other text."""
    names = {title: name for name, title in headings.NARRATIVE.items()}
    found: dict[str, list[str]] = {name: [] for name in headings.NARRATIVE}
    for passage in known:
        current: list[str] | None = None
        for line in passage.text.splitlines():
            if line.startswith("## "):
                name = names.get(line[3:])
                current = found[name] if name else None
            elif current is not None and line.startswith("- "):
                current.append(line[2:])
    return found
