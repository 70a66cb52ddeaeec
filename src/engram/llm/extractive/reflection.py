"""The reflection of a companion without a model: it says what it counted, and that it was counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from ..protocol import Passage
from . import markers
from .choosing import Line, read
from .terms import Analyser

_TOPICS: Final = 5
#: Words that Engram itself put before what somebody said.
_LEADS: Final = re.compile(
    r"(?:\b(?:The user (?:asked|said|pasted output)|The agent(?: asked| said)?|Then|Outcome|Open|Files)|^#):? (?=\S)",
    re.MULTILINE,
)


def reflection(passages: Sequence[Passage]) -> dict[str, str | float]:
    """Mood, energy, and two short texts that say what was counted."""
    analyser = Analyser()
    bare = [passage._replace(text=_LEADS.sub("", passage.text)) for passage in passages]
    found = read(bare, analyser)
    said = [line.text for line in found]
    well, trouble = markers.tone(said)
    open_ends = sum(markers.is_open(text) for text in said)
    topics = _topics([read([passage], analyser) for passage in bare])[:_TOPICS]
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


def _topics(per_passage: Sequence[Sequence[Line]]) -> list[str]:
    """The words that occur in the most passages, the most common first."""
    where: Counter[str] = Counter()
    written: dict[str, Counter[str]] = {}
    for lines in per_passage:
        words = [word for line in lines for word in line.words]
        for term, word in {word.term: word for word in words if word.telling and len(word.term) > 2}.items():
            where[term] += 1
            written.setdefault(term, Counter())[word.written] += 1
    return [written[term].most_common(1)[0][0] for term, _ in where.most_common()]
