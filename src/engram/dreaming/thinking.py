"""One way to think for every stage: with a model, without one (`extractive`), or through an agent that answers later.

A stage names its subject and what its prompt covers. The answer says what it covers: for an agent's answer, that is
what the prompt covered when it was left. `AnswerPending` means that no agent has answered yet, so the stage has to wait
for a later pass. No transaction is open while a thinker works.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .. import json_columns
from ..llm import CLIENTS, Prompt, check, clip, load, quoted, render
from ..redact import clean, redact
from . import grounds
from .agent_queue import Work
from .grounds import Ground
from .usage import Meter

if TYPE_CHECKING:
    from ..llm import Provider
    from ..storage.engine import Transaction
    from ..store_view import StoreView
    from .agent_queue import StoredItem

AGENT = "agent"
SYSTEM = (
    "You distil what happened between a person and their AI agents into what is worth knowing later. Be factual and "
    "brief, keep names, numbers, dates and decisions exactly, and add nothing that the quoted data does not say."
)


class AnswerPending(Exception):
    """An agent will answer this later."""


class Thought(NamedTuple):
    text: str
    #: The answer's data, when a form was requested.
    data: object
    #: What the prompt covered.
    covers: object
    #: Stored texts that the prompt quoted.
    grounds: tuple[Ground, ...]
    #: The work item that an agent answered.
    work_item: int | None

    def memories_shown(self) -> dict[int, str]:
        """The memories that the prompt quoted, by their ids."""
        return {int(each.handle[1:]): each.text for each in self.grounds if each.handle[0] in "mh"}

    def was_shown(self, gist: int, text: str) -> bool:
        """Whether the prompt quoted this text of a gist. A gist that has grown since is still to be folded in."""
        return bool({Ground(f"m{gist}", text), Ground(f"h{gist}", text)} & set(self.grounds))


class Thinker:
    """Asks for thoughts and keeps them open until the next write of the pass.

    That write checks that everything the open thoughts rest on is unchanged, and uses them up. So no stage has to
    remember the check.
    """

    def __init__(self, view: StoreView) -> None:
        config = view.config
        self.meter = Meter(view)
        self.pending_answers = 0
        self._engine = view.engine
        self._workspace = view.workspace
        self._work = Work(view)
        self._open: list[Thought] = []
        self._confirmed: Transaction | None = None
        self._provider = self._given(view) or load(
            config.llm,
            base_url=config.llm_base_url,
            programs={name: config.program_of(name) for name in CLIENTS},
            timeout=config.llm_timeout,
            meter=self.meter,
            sleep=view.engine.clock.sleep,
        )

    def _given(self, view: StoreView) -> Provider | None:
        """The Python object that was given as thinker, metered."""
        from ..llm.extractive.thinker import Extractive
        from ..llm.given import Given

        if view.llm is None or isinstance(view.llm, Extractive):
            return view.llm
        return Given(view.llm, self.meter)

    @property
    def name(self) -> str:
        return self._provider.name if self._provider else AGENT

    @property
    def extractive(self) -> bool:
        return self.name == "extractive"

    @property
    def capped(self) -> bool:
        """Whether the caps on calls and tokens hold for it."""
        return not self.extractive and self._provider is not None

    def think(
        self,
        stage: str,
        subject: str,
        build: Callable[[], tuple[Prompt, object]],
        *,
        form: Mapping[str, object] | None = None,
        max_tokens: int = 1_000,
    ) -> Thought:
        """The answer to the prompt that `build` makes. `build` also returns what the prompt covers, as JSON values."""
        if self._provider is None:
            thought = self._ask_agents(stage, subject, build, form)
        else:
            prompt, covers = build()
            rests_on = grounds.of_prompt(prompt)
            self.meter.stage = stage
            answer = self._provider.complete(prompt, system=SYSTEM, max_tokens=max_tokens, schema=form)
            # A model may repeat secrets from anywhere, and this is where its text enters Engram.
            data = clean(answer.data)
            # A redaction can be longer than the secret was.
            data = clip(data, form) if form else data
            thought = Thought(redact(answer.text), data, covers, rests_on, None)
        self._open.append(thought)
        return thought

    def pending_coverage(self, stage: str, subject: str) -> object | None:
        """What a work item covers that still waits for its answer or for the use of it."""
        found = self._find_current(stage, subject) if self._provider is None else None
        return json_columns.load(found.covers, "work.covers") if found else None

    def withdraw(self, stage: str, subject: str | None = None) -> None:
        """Delete a work item that no longer fits, answered or not; without a subject, all items of a stage."""
        if self._provider is None:
            self._work.drop(stage, subject)

    def confirm(self, tx: Transaction) -> None:
        """Check what the open thoughts rest on, in the transaction that writes from them. Outdated when anything
        changed."""
        if self._open:
            self._check(tx)
            for thought in self._open:
                if thought.work_item is not None:
                    self._work.finish(tx, thought.work_item)
            self._confirmed = tx

    def discard_open(self) -> None:
        """Forget the open thoughts: they are used up, or nothing will use them."""
        self._open, self._confirmed = [], None

    def require_confirmed(self, tx: Transaction) -> None:
        """Fail when a write uses a thought that its transaction has not checked."""
        if self._open and self._confirmed is not tx:
            raise AssertionError("a stage wrote from a thought outside of PassContext.write")

    def _check(self, tx: Transaction, more: tuple[Ground, ...] = ()) -> None:
        grounds.require_unchanged(
            tx, self._workspace, [*more, *(each for thought in self._open for each in thought.grounds)]
        )
        for thought in self._open:
            if thought.work_item is not None:
                self._work.require_answer(tx, thought.work_item)

    def _find_current(self, stage: str, subject: str) -> StoredItem | None:
        """The work item, unless a text that it quotes has changed since."""
        found = self._work.find(stage, subject)
        if found is None:
            return None
        with self._engine.read() as tx:
            unchanged = grounds.are_unchanged(tx, self._workspace, grounds.of_work_item(quoted(found.prompt)))
        return found if unchanged else None

    def _leave_work(
        self,
        stage: str,
        subject: str,
        build: Callable[[], tuple[Prompt, object]],
        form: Mapping[str, object] | None,
        left: StoredItem | None,
    ) -> None:
        """Leave a work item, or bring one up to date that no agent has seen."""
        prompt, covers = build()
        covered, text = json_columns.dump(covers, "covers"), f"{SYSTEM}\n\n{render(prompt)}"
        if left is not None and (left.prompt, left.covers) == (text, covered):
            return
        with self._engine.write() as tx:
            # A work item quotes stored text. Forgetting empties the queue, so check before adding to it.
            self._check(tx, grounds.of_prompt(prompt))
            if left is None or self._work.find(stage, subject) == left:
                self._work.leave(stage, subject, covered, text, form)

    def _ask_agents(
        self,
        stage: str,
        subject: str,
        build: Callable[[], tuple[Prompt, object]],
        form: Mapping[str, object] | None,
    ) -> Thought:
        """The agent's answer if there is one. Otherwise leave a work item and raise AnswerPending."""
        found = self._find_current(stage, subject)
        if found is None or found.waits:
            # More may be known since the item was left.
            self._leave_work(stage, subject, build, form, found)
        if found is None or found.answer is None:
            self.pending_answers += 1
            raise AnswerPending
        data = json.loads(found.answer) if form else None
        if form and check(data, form):
            raise AssertionError("an answer is checked when it is handed in")
        about = json_columns.load(found.covers, "work.covers")
        return Thought(found.answer, data, about, grounds.of_work_item(quoted(found.prompt)), found.id)
