"""How much a model would have to read and write about the sessions that wait, without loading their texts.

A pass uses the sizes to take the newest sessions that its caps leave room for. `Dreams.estimate` adds them up, so that
a person knows what a large import would cost. The figures per call are those of `bench/dream_tokens.py`: the
instructions, the known memories and the marks around the turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..dream_records import DreamEstimate
from ..memory.gists import Gists
from ..memory.memories import Memories
from ..tokens import CHARACTERS_PER_TOKEN
from . import drives, grounds
from .usage import Caps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: About this many characters of turns go into one prompt about a session.
PIECE = 60_000
#: Tokens of a prompt about a session besides its turns, and of the answer.
_BESIDES, _ANSWER = 2_750, 700
#: For each session, what prompts about its month and the narrative have of it, and their answers.
_TOLD, _TELLING = 475, 60

# The length in bytes is in the row's header, so that no text is read. Latin text has as many bytes as characters.
_SIZES = """
SELECT e.session_id, COUNT(*),
       SUM(CASE WHEN e.trust NOT IN ('user', 'agent') THEN 0
             WHEN OCTET_LENGTH(e.content) > :longest THEN :longest ELSE OCTET_LENGTH(e.content) END),
       SUM(CASE WHEN e.trust IN ('user', 'agent') THEN 0
             WHEN OCTET_LENGTH(e.content) > :longest THEN :longest ELSE OCTET_LENGTH(e.content) END)
FROM sessions s JOIN exchanges e ON e.workspace = s.workspace AND e.session_id = s.id AND e.role <> 'log'
  AND e.seq > s.gist_seq
WHERE s.workspace = :workspace AND s.turns > s.gist_turns
GROUP BY e.session_id
"""
_SIZES_UNREAD = """
SELECT e.session_id, COUNT(*),
       SUM(CASE WHEN e.trust NOT IN ('user', 'agent') THEN 0
             WHEN OCTET_LENGTH(e.content) > :longest THEN :longest ELSE OCTET_LENGTH(e.content) END),
       SUM(CASE WHEN e.trust IN ('user', 'agent') THEN 0
             WHEN OCTET_LENGTH(e.content) > :longest THEN :longest ELSE OCTET_LENGTH(e.content) END)
FROM folds f JOIN gists g ON g.memory_id = f.gist
  JOIN exchanges e ON e.workspace = g.workspace AND e.session_id = g.session_id AND e.role <> 'log' AND e.seq > f.after
WHERE f.workspace = :workspace AND f.target = 'extract'
GROUP BY e.session_id
"""


class Size(NamedTuple):
    """What is new in a session."""

    session: str
    turns: int
    #: Characters of what the user and agents said, as far as a prompt quotes them, and of output of tools and imports.
    said: int
    brought: int

    @property
    def calls(self) -> int:
        """Said and brought turns are asked about separately, in pieces."""
        return max(1, sum(-(-characters // PIECE) for characters in (self.said, self.brought)))

    @property
    def read(self) -> int:
        """Tokens of its prompts."""
        return (self.said + self.brought) // CHARACTERS_PER_TOKEN + self.calls * _BESIDES

    @property
    def written(self) -> int:
        """Tokens of the answers."""
        return self.calls * _ANSWER


def sizes(tx: Transaction, workspace: str, sessions: Collection[str]) -> dict[str, Size]:
    """The sizes of these sessions, as far as they have something new."""
    found: dict[str, Size] = {}
    rows = tx.all(_SIZES, workspace=workspace, longest=grounds.LONGEST)
    # A session with turns that nobody read is read from there on.
    rows += tx.all(_SIZES_UNREAD, workspace=workspace, longest=grounds.LONGEST)
    for session, turns, said, brought in rows:
        if session in sessions:
            found[session] = Size(session, int(turns), int(said), int(brought))
    return found


def estimate(view: StoreView) -> DreamEstimate:
    """What a model would read and write about everything that waits now."""
    with view.engine.read() as tx:
        silent = view.config.stale_after
        waiting = set(drives.sessions_to_summarise(tx, view.workspace, silent_after=silent))
        waiting |= Gists(view, Memories(view)).unread(tx).keys()
        found = sizes(tx, view.workspace, waiting).values()
    calls = sum(each.calls for each in found)
    read = sum(each.read + _TOLD for each in found)
    written = sum(each.written + _TELLING for each in found)
    caps = Caps.of(view.config)
    return DreamEstimate(
        sessions=len(found),
        turns=sum(each.turns for each in found),
        calls=calls,
        input_tokens=read,
        output_tokens=written,
        passes=_needed(((calls, caps.pass_calls), (read + written, caps.pass_tokens))),
        days=_needed(((calls, caps.day_calls), (read + written, caps.day_tokens))),
        thinker=view.thinker,
    )


def _needed(amounts: Iterable[tuple[int, int]]) -> int | None:
    """How often a cap has to be used up; None if it allows nothing."""
    found = [(amount, cap) for amount, cap in amounts if amount]
    return None if any(not cap for _, cap in found) else max((-(-amount // cap) for amount, cap in found), default=0)
