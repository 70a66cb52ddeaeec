"""Work items for connected agents, which answer prompts in place of a model: no key, no extra bill.

Instead of asking a model, a pass leaves a work item and goes on. An agent takes it, answers, and hands the answer in.
The next pass finds the answer under the same stage and subject. An item that is not answered by its deadline goes to
the next agent that asks. Forgetting anything empties the queue, because prompts quote stored text; the next pass fills
it again.
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

#: Seconds that an agent has for its answer.
DEADLINE = 900.0

_FIND = """
SELECT id, covers, prompt, answer, CASE WHEN deadline > :now THEN 1 ELSE 0 END FROM work
WHERE workspace = :workspace AND stage = :stage AND subject = :subject
"""
_LEAVE = """
INSERT INTO work (workspace, stage, subject, covers, prompt, form, created_at)
VALUES (:workspace, :stage, :subject, :covers, :prompt, :form, :now)
"""
_REPLACED = "DELETE FROM work WHERE workspace = :workspace AND stage = :stage AND subject = :subject"
_LEFT = "SELECT 1 FROM work WHERE workspace = :workspace AND stage = :stage LIMIT 1"
_DROP_STAGE = "DELETE FROM work WHERE workspace = :workspace AND stage = :stage"
_ANSWERED = "SELECT 1 FROM work WHERE workspace = :workspace AND id = :id AND answer IS NOT NULL"
_DONE = "DELETE FROM work WHERE workspace = :workspace AND id = :id"
# Those about sessions come last, and of them the newest session first. What is told about sessions waits for them.
_FREE = """
SELECT id FROM work
WHERE workspace = :workspace AND answer IS NULL AND (deadline IS NULL OR deadline <= :now)
ORDER BY (SELECT s.heartbeat_at FROM sessions s WHERE s.workspace = work.workspace AND s.id = work.subject) DESC
  NULLS FIRST, id
LIMIT 1
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


class StoredItem(NamedTuple):
    """A work item as a pass finds it."""

    id: int
    covers: str
    prompt: str
    #: None until an agent has answered.
    answer: str | None
    #: Whether an agent has it now.
    taken: int = 0

    @property
    def waits(self) -> bool:
        """Whether no agent has seen it yet, so that it can be brought up to date."""
        return self.answer is None and not self.taken


class Work:
    """The work items of one workspace."""

    def __init__(self, view: StoreView) -> None:
        self._engine = view.engine
        self._workspace = view.workspace

    def find(self, stage: str, subject: str) -> StoredItem | None:
        """The work item on this subject, answered or not."""
        with self._engine.read() as tx:
            row = tx.one(_FIND, workspace=self._workspace, stage=stage, subject=subject, now=tx.now())
        return StoredItem(*row) if row else None

    def leave(self, stage: str, subject: str, covers: str, prompt: str, form: Mapping[str, object] | None) -> None:
        """Add a work item. It replaces an earlier one on the same subject.

        It gets a new number, so that an answer to the earlier item cannot be taken for an answer to this one.
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

    def drop(self, stage: str, subject: str | None = None) -> None:
        """Delete the work item on this subject, or all items of a stage."""
        with self._engine.read() as tx:
            if not tx.one(_LEFT, workspace=self._workspace, stage=stage):
                return
        with self._engine.write() as tx:
            if subject is None:
                tx.run(_DROP_STAGE, workspace=self._workspace, stage=stage)
            else:
                tx.run(_REPLACED, workspace=self._workspace, stage=stage, subject=subject)

    def require_answer(self, tx: Transaction, id: int) -> None:
        """Outdated when an answered item is gone. Then something was forgotten, and the answer may quote it."""
        if not tx.one(_ANSWERED, workspace=self._workspace, id=id):
            raise Outdated

    def finish(self, tx: Transaction, id: int) -> None:
        """Delete an item in the transaction that uses its answer."""
        if not tx.run(_DONE, workspace=self._workspace, id=id):
            raise Outdated

    def next(self, taker: str | None = None) -> WorkItem | None:
        """Take one item: what to think about, the form of the answer, the deadline. None when nothing is waiting."""
        checks.optional_new_name(taker, "taker")
        with self._engine.write() as tx:
            tx.lock(f"work/{self._workspace}")
            now = tx.now()
            free = tx.value(_FREE, workspace=self._workspace, now=now)
            if free is None:
                return None
            deadline = later(now, DEADLINE)
            taken = tx.one(_TAKE, workspace=self._workspace, id=free, by=taker, deadline=deadline)
        if taken is None:  # something was forgotten just now, which emptied the queue
            return None
        id, stage, subject, prompt, form, deadline = taken
        return WorkItem(
            id, stage, subject, prompt, json_columns.load_object(form, "work.form") if form else None, deadline
        )

    def submit(self, id: int, answer: str, taker: str | None = None) -> None:
        """Hand in an answer: text, or JSON when the item asks for a form. InvalidInput says what is wrong with it.

        LeaseLost when the item was answered already, or another agent has it now.
        """
        checks.whole(id, "work item", least=1)
        checks.text(answer, "answer")
        with self._engine.read() as tx:
            form, _, _, _ = self._row(tx, id)
        answer = _check_answer(answer, form)
        with self._engine.write() as tx:
            tx.lock(f"work/{self._workspace}")
            current_form, earlier_answer, taken_by, _ = self._row(tx, id)
            if earlier_answer is not None:
                raise LeaseLost(f"Work item {id} was answered already.", id, "answered")
            if taken_by != taker:
                raise LeaseLost(f"Work item {id} is now assigned to {taken_by or 'no agent'}.", id, "taken")
            if current_form != form or not tx.run(_ANSWER, workspace=self._workspace, id=id, answer=answer):
                raise self._not_found(id)

    def _row(self, tx: Transaction, id: int) -> Row:
        row = tx.one(_GET, workspace=self._workspace, id=id)
        if row is None:
            raise self._not_found(id)
        return row

    def counts(self) -> WorkCounts:
        """How many items wait for an agent, and how many answers wait for the next pass."""
        with self._engine.read() as tx:
            ((waiting, answered),) = tx.all(_COUNT, workspace=self._workspace)
        return WorkCounts(int(waiting), int(answered))

    def _not_found(self, id: int) -> WorkNotFound:
        return WorkNotFound(f"There is no work item {id} in workspace {self._workspace!r}; it may be done.")


def _check_answer(answer: str, form: str | None) -> str:
    """The answer as it is stored: without secrets, cut to the form's limits. InvalidInput if it does not match."""
    if form is None:
        return redact(answer)
    from ..llm import check, clip

    try:
        data = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The answer must be JSON that matches the requested schema: {error}.") from error
    schema = json_columns.load_object(form, "work.form")
    cleaned = clip(clean(data), schema)
    problems = check(cleaned, schema)
    if problems:
        raise InvalidInput(f"The answer does not match the requested schema: {'; '.join(problems)}.")
    return answer if cleaned == data else json_columns.dump(cleaned, "answer")
