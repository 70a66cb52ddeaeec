"""What a session states for later ones: wishes, rules, decisions, lessons, facts about the person.

Only the user's own words count, with one exception: a line of an agent that begins with "Decision:" or "Lesson:". A
statement that the user repeats is surer. One that is known already names the known one, and one that a later sentence
calls done closes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...emphasis import without_emphasis
from ...sentences import parts
from ..protocol import Passage
from . import markers, talk, wishes
from .talk import Turn
from .terms import Analyser

MOST: Final = 20
LONGEST: Final = 400
#: Two statements that share this much of their words say the same.
_SAME: Final = 0.75
_REPEATED: Final = 0.1
_SUREST: Final = 0.95
_BY_AN_AGENT: Final = 0.6
#: Share of the words of a todo that the sentence has that calls it done.
_CLOSES: Final = 0.75
_FEWEST_TO_CLOSE: Final = 3
_SAID_BY_AGENT: Final = re.compile(
    r"\A\W{0,6}(decision|lesson(?: learned| learnt)?)\W{0,4}:\W{0,4}\s+(?=\S)", re.IGNORECASE
)


class Statement(NamedTuple):
    text: str
    kind: str
    source: str
    confidence: float
    about_user: bool
    same_as: str = ""
    replaces: str = ""


class Closed(NamedTuple):
    known: str
    source: str


def statements(turns: Sequence[Turn], known: Sequence[Passage]) -> list[Statement]:
    """The statements of the turns, in order. Of two that say the same, the later one, with more confidence."""
    analyser = Analyser()
    of_two = talk.is_of_two_people(turns)
    kept: list[tuple[Statement, frozenset[str]]] = []
    for turn in turns:
        found = _of_agent(turn) if turn.role == "assistant" else _of_user(turn, of_two)
        for statement in found:
            terms = analyser.terms(statement.text)
            if not terms:
                continue
            again = [other for other, theirs in kept if _alike(terms, theirs)]
            if again:
                surer = min(_SUREST, max(other.confidence for other in again) + _REPEATED)
                statement = statement._replace(confidence=round(max(surer, statement.confidence), 2))
            kept = [(other, theirs) for other, theirs in kept if not _alike(terms, theirs)]
            kept.append((statement, terms))
    old = [(passage, analyser.terms(passage.text)) for passage in known if passage.id.startswith("m")]
    surest = sorted(range(len(kept)), key=lambda position: -kept[position][0].confidence)[:MOST]
    return [_compared(*kept[position], old) for position in sorted(surest)]


def closed(turns: Sequence[Turn], known: Sequence[Passage]) -> list[Closed]:
    """The known todos that a sentence of the session calls done."""
    analyser = Analyser()
    todos = [
        (passage.id, terms)
        for passage in known
        if passage.label.startswith("todo") and len(terms := analyser.terms(passage.text)) >= _FEWEST_TO_CLOSE
    ]
    found: dict[str, Closed] = {}
    if not todos:
        return []
    for turn in turns:
        if turn.foreign:
            continue
        for sentence in parts(turn.text):
            if not markers.is_done(sentence) or markers.is_open(sentence):
                continue
            terms = analyser.terms(sentence)
            for id, wanted in todos:
                if len(wanted & terms) >= _CLOSES * len(wanted):
                    found.setdefault(id, Closed(id, turn.source))
    return list(found.values())[:MOST]


def _of_user(turn: Turn, of_two_people: bool) -> list[Statement]:
    found = []
    for sentence in talk.own_sentences(turn):
        text = without_emphasis(wishes.core(sentence)).strip()
        form = wishes.form_of(text, of_two_people=of_two_people)
        if form and len(text) <= LONGEST:
            found.append(Statement(wishes.bare(text), form.kind, turn.source, form.confidence, form.about_user))
    return found


def _of_agent(turn: Turn) -> list[Statement]:
    """Lines that an agent marks as a decision or a lesson."""
    found = []
    for line in turn.text.splitlines():
        marked = _SAID_BY_AGENT.match(line)
        text = without_emphasis(line[marked.end() :]).strip("*_ ") if marked else ""
        if marked and 20 <= len(text) <= LONGEST and not text.endswith(":") and wishes.stands_alone(text):
            kind = "decision" if marked[1].lower().startswith("d") else "lesson"
            found.append(Statement(text, kind, turn.source, _BY_AN_AGENT, False))
    return found


def _compared(statement: Statement, terms: frozenset[str], old: Sequence[tuple[Passage, frozenset[str]]]) -> Statement:
    same = next((passage.id for passage, theirs in old if _alike(terms, theirs)), "")
    return statement._replace(same_as=same)


def _alike(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return bool(mine) and len(mine & theirs) >= _SAME * len(mine | theirs)
