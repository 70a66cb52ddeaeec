"""A question about the person's own past that the store can answer, and its answer.

The question is made of what a late session was asked. Recall has to find that session by it: a question that recall
cannot answer is not shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ... import gist_text, outcomes, wording
from ...records import UNLIKELY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...client import Engram
    from ...records import Exchange, Hit, Session

#: Sessions that are looked at, and how many of them recall is asked about.
_LATEST, _TRIES = 20, 8
_HITS = 8
_LONGEST_SUBJECT, _LONGEST_ANSWER = 80, 420
#: A subject with fewer characters or words says too little to be a question.
_SHORTEST, _FEWEST = 12, 3
#: What stands before the matter itself in a title.
_LEAD = re.compile(
    r"^(?:(?:(?:please )?implement the following plan:|plan:|/[\w:-]{1,60}(?: [\w#-]{1,20})?:|"
    r"(?:hi|hello|hey)\b[\w ]{0,30}[!,.])\s*){1,3}",
    re.IGNORECASE,
)


class Answered(NamedTuple):
    """A question and what recall found."""

    question: str
    answer: str
    #: How it was found: the chance that the best result is about the question.
    score: float
    session_id: str
    #: The type, project and time of the session.
    type: str
    project: str | None
    at: str


class _Subject(NamedTuple):
    session: Session
    title: str
    #: What was asked, as far as the outcome is about it.
    text: str
    #: What came of it.
    outcome: str
    #: Whether the title is that of a command. Behind it are names of files rather than words.
    is_command: bool
    #: Whether the words stand for themselves, and the session was about nothing else.
    is_clear: bool


def answered(eng: Engram) -> Answered | None:
    """The latest matter that recall finds, with its answer; None if there is none."""
    for subject in _subjects(eng)[:_TRIES]:
        question = subject.text if subject.text.endswith("?") else f"What came of “{subject.text}”?"
        hits = _hits(eng, question, subject.session)
        answer = _answer(subject, hits)
        if answer:
            session = subject.session
            return Answered(
                question, answer, hits[0].score, session.id, session.type, session.project, session.heartbeat_at
            )
    return None


def query(eng: Engram, without: str | None = None) -> str | None:
    """A query that recall answers, not about the session `without` if there is another; None if there is none."""
    other = None
    for subject in sorted(_subjects(eng), key=lambda each: (each.is_command, not _is_clear(each.title)))[:_TRIES]:
        if any(_says_something(hit) for hit in _hits(eng, subject.title, subject.session)[:3]):
            text = subject.title.rstrip("…").rstrip()
            if subject.session.id != without:
                return text
            other = text
    return other


def _subjects(eng: Engram) -> list[_Subject]:
    """What the latest sessions are about. First those that are clear, and of which something came."""
    found = []
    for session in eng.sessions.list(_LATEST, subagents=False):
        said = eng.exchanges.history(session.id)
        # What a harness and an agent said to each other is not the person's past.
        if not any(turn.role == "user" for turn in said):
            continue
        gist = eng.memories.gist(session.id)
        parts = gist_text.parse(gist.content if gist is not None else "")
        title = parts.title or session.name or session.summary
        asked, outcome = title, parts.outcome or session.outcome
        # The title is the first thing that was asked, and the outcome is that of the last one.
        last = _last_of_several(said)
        if last is not None:
            asked, outcome = last
        text = _matter(asked) or (_matter(session.summary) if last is None else "")
        if text:
            is_clear = last is None and _is_clear(asked)
            found.append(_Subject(session, _matter(title) or text, text, outcome, title.startswith("/"), is_clear))
    return sorted(found, key=lambda each: (not each.is_clear, not each.outcome))


def _last_of_several(said: Sequence[Exchange]) -> tuple[str, str] | None:
    """The last thing that was asked in a session, and what came of it; None if one thing was asked."""
    of_user = [place for place, turn in enumerate(said) if turn.role == "user"]
    asks = wording.numbered_asks(said[place].content for place in of_user)
    asked = [(of_user[number], ask) for number, ask in asks if wording.is_substantial(ask)]
    if len(asked) < 2:
        return None
    place, ask = asked[-1]
    replies = [(turn.id, turn.content) for turn in reversed(said[place:]) if turn.role == "assistant"]
    came = outcomes.last_result(replies)
    return ask, came[1] if came else ""


def _is_clear(title: str) -> bool:
    """Whether words stand for themselves: a command or a reply in the middle of a review does not."""
    return not title.startswith("/") and "'" not in title


def _matter(title: str) -> str:
    """What a title is about, without a command before it; empty if it says too little."""
    text = _LEAD.sub("", " ".join(title.split()))
    text = wording.shorten(text.replace("“", "").replace("”", ""), _LONGEST_SUBJECT).rstrip(".")
    said_enough = len(text) >= _SHORTEST and len(text.split()) >= _FEWEST
    return text if said_enough and not text.startswith("/") else ""


def _hits(eng: Engram, question: str, session: Session) -> list[Hit]:
    """What recall finds of that session, the best first."""
    found = eng.recall(question, _HITS, note=False)
    return [hit for hit in found if hit.session_id == session.id and hit.score >= UNLIKELY]


def _answer(subject: _Subject, hits: list[Hit]) -> str:
    if not hits:
        return ""
    is_question = subject.text.endswith("?")
    replies = [hit.answer.text if hit.answer is not None else hit.text for hit in hits if _says_something(hit)]
    told = [*replies, subject.outcome] if is_question else [subject.outcome, *replies]
    return wording.shorten(next(filter(None, told), ""), _LONGEST_ANSWER)


def _says_something(hit: Hit) -> bool:
    """Whether a result is more than the person's own question."""
    return hit.answer is not None or hit.label != "user"
