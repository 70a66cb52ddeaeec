"""One way to think for every stage, whoever does it: a model, nobody but the words themselves, or an agent later on.

A stage says what it is about (`subject`) and what its prompt covers; what it gets back says what the answer covers,
which with an agent is what the prompt covered when it was left. `Waiting` means that the stage has to do without for
now. No transaction is open here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from .. import json_columns
from ..llm import Prompt, check, load, quoted, render
from ..redact import clean, redact
from . import grounds
from .agent_queue import Work
from .grounds import Shown
from .usage import Meter

if TYPE_CHECKING:
    from ..storage.engine import Transaction
    from ..store_view import StoreView
    from .agent_queue import Found

AGENT = "agent"
SYSTEM = (
    "You distil what happened between a person and their AI agents into what is worth knowing later. Be factual and "
    "brief, keep names, numbers, dates and decisions exactly, and add nothing that the quoted data does not say."
)


T = TypeVar("T")


class Waiting(Exception):
    """An agent will answer this later."""


class Thought(NamedTuple):
    text: str
    #: What a form was asked for, in that form.
    data: object
    #: What the prompt was about.
    covers: object
    #: What the thinker was shown of the store.
    shown: tuple[Shown, ...]
    #: The piece of work that an agent answered.
    piece: int | None

    def saw(self, gist: int, text: str) -> bool:
        """Whether it rests on this text of a gist; one that has grown since it was shown is still to be folded in."""
        return bool({Shown(f"m{gist}", text), Shown(f"h{gist}", text)} & set(self.shown))


class Thinker:
    """Thoughts are open from when they are had until the next write of the pass, which checks that all they rest on is
    still there, and uses them up. So no stage has to remember to check."""

    def __init__(self, view: StoreView) -> None:
        config = view.config
        self.meter = Meter(view)
        self.waiting = 0
        self._engine = view.engine
        self._workspace = view.workspace
        self._work = Work(view)
        self._open: list[Thought] = []
        self._settled: Transaction | None = None
        self._provider = load(
            config.llm,
            base_url=config.llm_base_url,
            timeout=config.llm_timeout,
            meter=self.meter,
            sleep=view.engine.clock.sleep,
        )

    @property
    def name(self) -> str:
        return self._provider.name if self._provider else AGENT

    @property
    def extractive(self) -> bool:
        return self.name == "extractive"

    def think(
        self,
        stage: str,
        subject: str,
        build: Callable[[], tuple[Prompt, object]],
        *,
        form: Mapping[str, object] | None = None,
        max_tokens: int = 1_000,
    ) -> Thought:
        """The answer to the prompt that `build` makes; it also says what it covers, as JSON values."""
        if self._provider is None:
            thought = self._ask_agents(stage, subject, build, form)
        else:
            prompt, covers = build()
            rests_on = grounds.by(prompt)
            self.meter.stage = stage
            answer = self._provider.complete(prompt, system=SYSTEM, max_tokens=max_tokens, schema=form)
            # Whoever thinks has seen much else, and what it says enters the store here.
            thought = Thought(redact(answer.text), clean(answer.data), covers, rests_on, None)
        self._open.append(thought)
        return thought

    def pending(self, stage: str, subject: str) -> object | None:
        """What a piece left to agents covers, while it waits or its answer does."""
        found = self._find(stage, subject) if self._provider is None else None
        return json_columns.load(found.covers, "work.covers") if found else None

    def settle(self, tx: Transaction) -> None:
        """Check what the open thoughts rest on, in the transaction that writes from them; Outdated when it differs."""
        if self._open:
            self._check(tx)
            for thought in self._open:
                if thought.piece is not None:
                    self._work.done(tx, thought.piece)
            self._settled = tx

    def drop(self) -> None:
        """The open thoughts are used up, or nobody will use them."""
        self._open, self._settled = [], None

    def require_settled(self, tx: Transaction) -> None:
        """Whoever writes from a thought does it in a transaction that has checked it."""
        if self._open and self._settled is not tx:
            raise AssertionError("a stage wrote from a thought outside of PassContext.write")

    def _check(self, tx: Transaction, more: tuple[Shown, ...] = ()) -> None:
        grounds.hold(tx, self._workspace, [*more, *(each for thought in self._open for each in thought.shown)])
        for thought in self._open:
            if thought.piece is not None:
                self._work.require(tx, thought.piece)

    def _find(self, stage: str, subject: str) -> Found | None:
        """The piece, unless what it quotes has changed since it was left."""
        found = self._work.find(stage, subject)
        if found is None:
            return None
        with self._engine.read() as tx:
            stands = grounds.stands(tx, self._workspace, grounds.left(quoted(found.prompt)))
        return found if stands else None

    def _ask_agents(
        self,
        stage: str,
        subject: str,
        build: Callable[[], tuple[Prompt, object]],
        form: Mapping[str, object] | None,
    ) -> Thought:
        found = self._find(stage, subject)
        if found is None:
            prompt, covers = build()
            covered, text = json_columns.dump(covers, "covers"), f"{SYSTEM}\n\n{render(prompt)}"
            with self._engine.write() as tx:
                # A piece quotes what was read before; whoever forgot some of it since has emptied the queue already.
                self._check(tx, grounds.by(prompt))
                self._work.leave(stage, subject, covered, text, form)
        if found is None or found.answer is None:
            self.waiting += 1
            raise Waiting
        data = json.loads(found.answer) if form else None
        if form and check(data, form):
            raise AssertionError("an answer is checked when it is handed in")
        about = json_columns.load(found.covers, "work.covers")
        return Thought(found.answer, data, about, grounds.left(quoted(found.prompt)), found.id)


def all_thoughts(portions: Iterable[T], ask: Callable[[int, T], Thought]) -> list[Thought]:
    """What is thought about each portion, by its number from 1; all are asked about before any is waited for."""
    thoughts: list[Thought] = []
    waiting = False
    for number, portion in enumerate(portions, 1):
        try:
            thoughts.append(ask(number, portion))
        except Waiting:
            waiting = True
    if waiting:
        raise Waiting
    return thoughts
