"""The gist of a conversation: its most informative sentences, each with its speaker.

What people say of themselves tells more than how they react to each other, and greetings tell nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ... import wording
from ...gist_text import GistText
from ...sentences import parts
from ..protocol import Passage
from . import choosing, open_points, wishes
from .quotes import AGENT, USER, heading, quoted
from .talk import Turn, bare, is_of_two_people
from .terms import Analyser

_LEAST, _MOST = 4, 12
#: One line of the story for this many sentences.
_PER_LINE: Final = 3
#: Characters of a token, roughly.
_PER_TOKEN: Final = 4
#: Somebody speaks of themselves.
_SELF: Final = re.compile(r"\b(?:i|i'm|i've|i'll|i'd|my|we|we're|we've|our)\b", re.IGNORECASE)
_OWN: Final = 1.4
_LEAST_TOLD: Final = 2
_REACTS: Final = re.compile(
    r"\A(?:wow|woah|whoa|hey|hi|hello|thanks?|yeah|yay|aw+|congrats|congratulations|that's|that is|sounds|glad|cool"
    r"|nice|great|awesome|amazing|good|oh|bye|see you|take care)\b[^.?]{0,45}\Z",
    re.IGNORECASE,
)


def told(turns: Sequence[Turn], passages: Sequence[Passage], longest: int) -> GistText:
    """The title, what is open, and the story. A session without turns of people is told by its other passages."""
    analyser = Analyser()
    names = {turn.source: turn.speaker or (USER if turn.role == "user" else AGENT) for turn in turns}
    spoken = [
        Passage(turn.source, "", turn.text, turn.role, turn.at) for turn in turns if not turn.foreign or turn.speaker
    ] or ([] if turns else [passage for passage in passages if passage.text.strip()])
    found = choosing.read(spoken, analyser)
    found = [line for line in found if _tells(line)] or found
    room = max(_LEAST, min(_MOST, -(-len(found) // _PER_LINE)))
    chosen = choosing.choose(found, room, longest // _PER_TOKEN, lambda line: _OWN if _SELF.search(line.text) else 1.0)
    lines = [quoted(f"{names.get(line.source) or 'A ' + (line.role or 'text')}: ", line.text) for line in chosen]
    head = _head(chosen)
    title = "" if is_of_two_people(turns) else heading(first_ask([turn.ask for turn in turns if turn.ask]))
    if head and not title:
        speaker = names.get(head.source, "")
        title = (f"{speaker}: " if speaker not in ("", USER, AGENT) else "") + heading(head.text)
    return GistText(title, "", tuple(open_points.of_conversation(turns)), "\n".join(lines))


def first_ask(asks: Sequence[str]) -> str:
    """The first ask that says what a session is about; empty if none does.

    Thanks and greetings do not, and what is only stated to be remembered does not either.
    """
    bares = [bare(ask) for ask in asks if not ask.startswith((wording.PASTED, "/"))]
    return next((ask for ask in bares if wording.is_substantial(ask) and not _only_states(ask)), "")


def _only_states(ask: str) -> bool:
    """Whether a turn only greets, thanks, or states what is to last."""
    rest = [wishes.core(each) for each in parts(ask) if not _REACTS.match(each)]
    return not any(each and wishes.form_of(each) is None for each in rest)


def _tells(line: choosing.Line) -> bool:
    """Whether a sentence is more than a greeting or a reaction."""
    return sum(word.telling for word in line.words) >= _LEAST_TOLD and not _REACTS.match(line.text)


def _head(lines: Sequence[choosing.Line]) -> choosing.Line | None:
    """The sentence that is the title: the first that somebody says of themselves and that can be understood alone."""
    stated = [line for line in lines if not line.text.endswith(("?", "？"))] or list(lines)
    own = [line for line in stated if _SELF.search(line.text) and wishes.stands_alone(line.text)]
    return next(iter([*own, *stated]), None)
