"""One way to think for every stage, whoever does it: a model, nobody but the words themselves, or an agent later on.

A stage says what it is about (`subject`) and what its prompt covers; what it gets back says what the answer covers,
which with an agent is what the prompt covered when it was left. `Waiting` means that the stage has to do without for
now. No transaction is open here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from .. import columns
from ..llm import Prompt, check, load, render
from ..redact import clean, redact
from .usage import Meter
from .work import Work

if TYPE_CHECKING:
    from ..scope import Scope
    from ..storage.engine import Transaction

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
    #: To be called in the transaction that uses the thought.
    used: Callable[[Transaction], None]


class Thinker:
    def __init__(self, scope: Scope) -> None:
        config = scope.config
        self.meter = Meter(scope)
        self.waiting = 0
        self._work = Work(scope)
        self._provider = load(
            config.llm,
            base_url=config.llm_base_url,
            timeout=config.llm_timeout,
            meter=self.meter,
            sleep=scope.engine.clock.sleep,
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
            return self._ask_agents(stage, subject, build, form)
        prompt, covers = build()
        self.meter.stage = stage
        answer = self._provider.complete(prompt, system=SYSTEM, max_tokens=max_tokens, schema=form)
        # Whoever thinks has seen much else, and what it says enters the store here.
        return Thought(redact(answer.text), clean(answer.data), covers, lambda tx: None)

    def pending(self, stage: str, subject: str) -> object | None:
        """What a piece left to agents covers, while it waits or its answer does."""
        found = self._work.find(stage, subject) if self._provider is None else None
        return columns.load(found.covers, "work.covers") if found else None

    def _ask_agents(
        self,
        stage: str,
        subject: str,
        build: Callable[[], tuple[Prompt, object]],
        form: Mapping[str, object] | None,
    ) -> Thought:
        found = self._work.find(stage, subject)
        if found is None:
            prompt, covers = build()
            self._work.leave(stage, subject, columns.dump(covers, "covers"), f"{SYSTEM}\n\n{render(prompt)}", form)
        if found is None or found.answer is None:
            self.waiting += 1
            raise Waiting
        data = json.loads(found.answer) if form else None
        if form and check(data, form):
            raise AssertionError("an answer is checked when it is handed in")
        return Thought(
            found.answer,
            data,
            columns.load(found.covers, "work.covers"),
            lambda tx: self._work.done(tx, stage, subject),
        )


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
