"""What was answered: the turns that reply to a question, cut to the passage that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..records import Answer
from . import analyser, text_forms
from .passages import passage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..storage.engine import Transaction
    from .scoring import Item

#: Turns after a question that may reply to it. A coding agent may work for many turns before it answers.
_REACH: Final = 40
#: Characters of an answer.
_LONGEST: Final = 360
#: How much a turn gains because it is the last one before the person speaks again: mostly the conclusion.
_LAST: Final = 0.3
#: Turns with less worth than this say nothing.
_LEAST: Final = 0.15

# The beginning of a reply is enough: a turn may have a million characters, and there are many.
_AFTER = """
SELECT id, role, SUBSTR(content, 1, 10000) FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND turn > :turn AND turn <= :last
ORDER BY seq
"""


class _Reply(NamedTuple):
    id: int
    text: str
    worth: float


def answer(tx: Transaction, workspace: str, question: Item, text: str, weights: Mapping[str, float]) -> Answer | None:
    """What was answered to a turn that is a question; None when it was not answered."""
    if question.kind != "exchange" or question.turn is None or not text_forms.is_question(text):
        return None
    rows = tx.all(
        _AFTER, workspace=workspace, session=question.session_id, turn=question.turn, last=question.turn + _REACH
    )
    said: list[tuple[int, str, str]] = []
    for id, role, content in rows:
        if role == question.label:
            # A person may ask twice before the answer comes.
            if said or not text_forms.is_question(content):
                break
            continue
        if role != "tool":
            said.append((id, role, content))
    wanted = {**dict.fromkeys(analyser.terms(text), 1.0), **weights}
    replies = _worth_reading(said, wanted)
    if not replies:
        return None
    return Answer("\n".join(reply.text for reply in replies), tuple(reply.id for reply in replies))


def _worth_reading(said: Sequence[tuple[int, str, str]], wanted: Mapping[str, float]) -> list[_Reply]:
    """The best reply, and the last one if it is another and also says something; in the order they were said."""
    whole = sum(wanted.values()) or 1.0
    replies = []
    for place, (id, role, content) in enumerate(said):
        text = passage(content, wanted, _LONGEST)
        asks = text_forms.form(text, role).asked
        covered = sum(wanted[term] for term in sorted(set(analyser.terms(text)) & wanted.keys())) / whole
        # Output, a path or a number may well be the answer.
        telling = (1 - text_forms.announced(text)) * (1 - asks)
        worth = telling * (0.2 + covered + (_LAST if place == len(said) - 1 else 0.0))
        replies.append(_Reply(id, text, worth))
    good = [reply for reply in replies if reply.worth >= _LEAST]
    if not good:
        return []
    best = max(good, key=lambda reply: reply.worth)
    last = good[-1]
    if last.id == best.id or last.id != said[-1][0] or len(best.text) + len(last.text) > _LONGEST:
        return [best]
    return [best, last]
