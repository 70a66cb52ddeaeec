"""Transcripts: the messages of a conversation exactly as a framework gave them, in order.

A framework wants its messages back as they were, with tool calls, reasoning and ids. Other agents want to recall what
was said. So a message is stored as JSON in a log entry, and its text, if it has one, as a turn before that entry. The
entry names the turn as its source: forgetting the turn takes the entry too. Secrets are removed from both.

All messages of one call are written in one transaction, so writers of the same session do not mix their messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import checks, json_columns
from ..errors import InvalidInput
from . import exchanges, provenance, word_index
from .embedding_queue import EmbeddingQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Transaction
    from ..store_view import StoreView
    from .embedding_queue import Vectors

#: Stands before the JSON in a log entry.
BEGINNING = "Message as JSON: "
_DAMAGED = object()
#: The roles that a message may have.
_ROLES = ("user", "assistant", "system", "tool")

_LATEST = """
SELECT e.id, e.content,
  (SELECT s.source_id FROM sources s
   WHERE s.workspace = e.workspace AND s.derived_kind = 'exchange' AND s.derived_id = e.id
     AND s.source_kind = 'exchange' LIMIT 1)
FROM exchanges e
WHERE e.workspace = :workspace AND e.session_id = :session AND e.role = 'log'
  AND SUBSTR(e.content, 1, :length) = :beginning
ORDER BY e.seq DESC LIMIT :limit
"""


class Recorded(NamedTuple):
    """A stored message."""

    #: The id of its log entry.
    id: int
    #: The id of the turn with its text; None if it has none.
    turn: int | None
    #: As it was given, without secrets.
    value: object


class _Checked(NamedTuple):
    role: str | None
    text: str
    pieces: list[word_index.Piece]
    line: str


class Transcripts:
    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._author = view.author
        self._embedding_queue = EmbeddingQueue(view)

    def add(self, session_id: str, messages: Iterable[tuple[object, str | None, str]]) -> None:
        """Add messages at the end of a session's transcript, all or none.

        Each is any JSON value, the role of its speaker (`user`, `assistant`, `system` or `tool`), and the text that can
        be recalled. A message without a role or a text becomes no turn.
        """
        checks.name(session_id, "session id")
        checked = [_check(*message) for message in messages]
        if not checked:
            return
        vectors = self._vectors(checked)
        with self._engine.write() as tx:
            now = tx.now()
            for each, of_it in zip(checked, vectors, strict=True):
                self._write(tx, session_id, each, now, of_it)

    def latest(self, session_id: str, n: int | None = None) -> list[Recorded]:
        """The last messages of a session, oldest first; all of them without `n`. Empty if there is no such session."""
        checks.name(session_id, "session id")
        limit = checks.MAX_WHOLE if n is None else checks.whole(n, "n", least=0)
        with self._engine.read() as tx:
            rows = tx.all(
                _LATEST,
                workspace=self._workspace,
                session=session_id,
                beginning=BEGINNING,
                length=len(BEGINNING),
                limit=limit,
            )
        found = [
            Recorded(id, turn, json_columns.load(content[len(BEGINNING) :], "exchanges.content", _DAMAGED))
            for id, content, turn in reversed(rows)
        ]
        return [each for each in found if each.value is not _DAMAGED]

    def _vectors(self, checked: Sequence[_Checked]) -> list[Vectors | None]:
        """The vectors of each message's text, computed together; None where there is no text or no model."""
        made = self._embedding_queue.vectors([each.pieces for each in checked if each.role])
        left = iter(made or ())
        return [next(left, None) if each.role else None for each in checked]

    def _write(self, tx: Transaction, session: str, each: _Checked, now: str, vectors: Vectors | None) -> None:
        by = self._author
        if each.role is None:
            # Nothing that is not known to be said by the user or an agent may count as said by them.
            exchanges.append(tx, self._workspace, session, "log", each.line, now, trust="tool", author=by)
            return
        turn, _ = exchanges.append(
            tx, self._workspace, session, each.role, each.text, now, pieces=each.pieces, vectors=vectors, author=by
        )
        source = [("exchange", turn)]
        trust = provenance.trust(tx, self._workspace, source)
        entry, _ = exchanges.append(tx, self._workspace, session, "log", each.line, now, trust=trust, author=by)
        provenance.add(tx, self._workspace, "exchange", entry, 1, source)


def _check(value: object, role: str | None, text: str) -> _Checked:
    line = checks.text(BEGINNING + json_columns.dump(value, "message"), "message")
    if role is not None and role not in _ROLES:
        raise InvalidInput(f"role is {role!r}; it must be one of {', '.join(_ROLES)}, or None.")
    if role is None or not text.strip():
        return _Checked(None, "", [], line)
    text = checks.content(text, "text of the message")
    return _Checked(role, text, word_index.cut(text), line)
