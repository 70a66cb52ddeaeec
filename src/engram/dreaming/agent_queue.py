"""Thinking that is left to the agents who are connected anyway: no key, no extra bill.

A pass that would ask a model leaves a work item instead and goes on. An agent takes one, answers, and hands it in; the
next pass finds the answer under the same stage and subject and uses it as if it had asked. An item that is not handed
in by its deadline goes to the next taker. Forgetting anything empties the queue, because prompts quote what was said;
the next pass fills it anew.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from .. import checks, json_columns
from ..clock import later
from ..errors import InvalidInput, LeaseLost, WorkNotFound
from ..records import WorkCounts, WorkItem
from ..redact import clean, redact
from .grounds import Outdated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

#: How long a taker has.
DEADLINE = 900.0

_FIND = """
SELECT id, covers, prompt, answer FROM work WHERE workspace = :workspace AND stage = :stage AND subject = :subject
"""
_LEAVE = """
INSERT INTO work (workspace, stage, subject, covers, prompt, form, created_at)
VALUES (:workspace, :stage, :subject, :covers, :prompt, :form, :now)
"""
_REPLACED = "DELETE FROM work WHERE workspace = :workspace AND stage = :stage AND subject = :subject"
_ANSWERED = "SELECT 1 FROM work WHERE workspace = :workspace AND id = :id AND answer IS NOT NULL"
_DONE = "DELETE FROM work WHERE workspace = :workspace AND id = :id"
_FREE = """
SELECT id FROM work
WHERE workspace = :workspace AND answer IS NULL AND (deadline IS NULL OR deadline <= :now) ORDER BY id LIMIT 1
"""
_TAKE = """
UPDATE work SET taken_by = :by, deadline = :deadline WHERE workspace = :workspace AND id = :id
RETURNING id, stage, subject, prompt, form, deadline
"""
_GET = "SELECT form, answer, taken_by, deadline FROM work WHERE workspace = :workspace AND id = :id"
_ANSWER = "UPDATE work SET answer = :answer WHERE workspace = :workspace AND id = :id"
_COUNT = """
SELECT COALESCE(SUM(CASE WHEN answer IS NULL THEN 1 ELSE 0 END), 0),
       COALESCE(SUM(CASE WHEN answer IS NULL THEN 0 ELSE 1 END), 0)
FROM work WHERE workspace = :workspace
"""


class Found(NamedTuple):
    id: int
    covers: str
    prompt: str
    #: None while it waits.
    answer: str | None


class Work:
    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace

    def find(self, stage: str, subject: str) -> Found | None:
        with self._engine.read() as tx:
            row = tx.one(_FIND, workspace=self._workspace, stage=stage, subject=subject)
        return Found(*row) if row else None

    def leave(self, stage: str, subject: str, covers: str, prompt: str, form: Mapping[str, object] | None) -> None:
        """Offer a piece of thinking to whoever takes it, in place of an earlier one on the same subject.

        It gets a number of its own: the answer to the earlier one must not be taken for an answer to this one.
        """
        about = {"workspace": self._workspace, "stage": stage, "subject": subject}
        with self._engine.write() as tx:
            tx.run(_REPLACED, **about)
            tx.run(
                _LEAVE,
                **about,
                covers=covers,
                prompt=prompt,
                form=None if form is None else json_columns.dump(form, "form"),
                now=tx.now(),
            )

    def require(self, tx: Transaction, id: int) -> None:
        """Outdated when an answered piece is gone: something was forgotten, and the answer may quote it."""
        if not tx.one(_ANSWERED, workspace=self._workspace, id=id):
            raise Outdated

    def done(self, tx: Transaction, id: int) -> None:
        """Its answer was used; in the transaction that used it."""
        if not tx.run(_DONE, workspace=self._workspace, id=id):
            raise Outdated

    def next(self, taker: str | None = None) -> WorkItem | None:
        """Take one piece: what to think about, the form of the answer, and by when; None when nothing waits."""
        checks.optional_new_name(taker, "taker")
        with self._engine.write() as tx:
            tx.lock(f"work/{self._workspace}")
            now = tx.now()
            row = tx.one(_FREE, workspace=self._workspace, now=now)
            if row is None:
                return None
            deadline = later(now, DEADLINE)
            taken = tx.one(_TAKE, workspace=self._workspace, id=row[0], by=taker, deadline=deadline)
        if taken is None:  # somebody forgot something just now, which empties the queue
            return None
        id, stage, subject, prompt, form, deadline = taken
        return WorkItem(
            id, stage, subject, prompt, json_columns.load_object(form, "work.form") if form else None, deadline
        )

    def submit(self, id: int, answer: str, taker: str | None = None) -> None:
        """Hand in the answer: text, or JSON when a form was asked for. What is wrong with it is said, and nothing kept.

        LeaseLost when it has gone to somebody else since.
        """
        checks.whole(id, "work item", least=1)
        checks.text(answer, "answer")
        with self._engine.read() as tx:
            form = self._row(tx, id)[0]
        answer = _checked(answer, form)
        with self._engine.write() as tx:
            tx.lock(f"work/{self._workspace}")
            now_asked, known, taken_by, _ = self._row(tx, id)
            if known is not None:
                raise LeaseLost(f"Work item {id} was answered already.", id, "answered")
            if taken_by != taker:
                raise LeaseLost(f"Work item {id} has gone to {taken_by or 'nobody'} since.", id, "taken")
            if now_asked != form or not tx.run(_ANSWER, workspace=self._workspace, id=id, answer=answer):
                raise self._gone(id)

    def _row(self, tx: Transaction, id: int) -> Row:
        row = tx.one(_GET, workspace=self._workspace, id=id)
        if row is None:
            raise self._gone(id)
        return row

    def counts(self) -> WorkCounts:
        """How many pieces wait for an agent, and how many answers for the next pass."""
        with self._engine.read() as tx:
            waiting, answered = tx.all(_COUNT, workspace=self._workspace)[0]
        return WorkCounts(int(waiting), int(answered))

    def _gone(self, id: int) -> WorkNotFound:
        return WorkNotFound(f"There is no work item {id} in workspace {self._workspace!r}; it may be done.")


def _checked(answer: str, form: str | None) -> str:
    """The answer as it is stored, without secrets; InvalidInput when it does not match the form."""
    if form is None:
        return redact(answer)
    from ..llm import check

    try:
        data = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The answer must be JSON of the form that was asked for: {error}.") from error
    cleaned = clean(data)
    problems = check(cleaned, json_columns.load_object(form, "work.form"))
    if problems:
        raise InvalidInput(f"The answer does not match the form that was asked for: {'; '.join(problems)}.")
    return answer if cleaned == data else json_columns.dump(cleaned, "answer")
