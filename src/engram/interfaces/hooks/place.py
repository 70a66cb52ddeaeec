"""What the handlers ask about the agent's machine.

Where the store is on the same machine, `Here` looks it up when a handler asks, because most events need little of it.
For a server it is looked up before and sent along with the event; `serving` has that form.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from .. import harness_process
from . import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ...config import Config
    from .events import Event
    from .transcript import Spoken

    class Place(Protocol):
        @property
        def project(self) -> str | None:
            """The project of the agent's folder."""

        @property
        def process(self) -> str | None:
            """The harness's process; None if it is not known."""

        @property
        def runs_one(self) -> bool:
            """Whether the process is known, and runs one session at a time."""

        @property
        def lock_policy(self) -> str: ...

        @property
        def brief_budget(self) -> int: ...

        @property
        def may_dream(self) -> bool:
            """Whether the end of this session may start a pass of dreaming."""

        @property
        def files(self) -> Sequence[File]:
            """The files that the tool writes."""

        @property
        def has_transcript(self) -> bool:
            """Whether there may be anything that was said."""

        def spoken(self) -> list[Spoken]:
            """What was said since the last prompts, newest first."""

        def summary(self) -> str:
            """The summary of a compaction as a gist; empty if there is none."""


#: Harnesses that run one session at a time in a process. Cursor runs several at once.
_ONE_AT_A_TIME = frozenset({"claude-code", "codex", "gemini"})


class File(NamedTuple):
    """A file that a tool writes."""

    #: As the tool names it.
    path: str
    #: The resource, in its stored form.
    resource: str


class Here:
    """This machine, for one event. The current folder is that of the agent."""

    #: A local store finds the project of the current folder itself.
    project: str | None = None

    def __init__(
        self,
        event: Event,
        harness: str,
        settings: Config,
        resource: Callable[[str], str],
        *,
        read_at_prompt: float | None = None,
    ) -> None:
        """`resource` returns the stored form of a path."""
        self._event = event
        self._harness = harness
        self._resource = resource
        #: Seconds for reading the transcript at a prompt, if fewer than usual.
        self._read_at_prompt = read_at_prompt
        self.lock_policy = settings.lock_policy
        self.brief_budget = settings.brief_budget
        self.may_dream = settings.auto_dream == "on"
        self.has_transcript = event.transcript is not None

    @cached_property
    def process(self) -> str | None:
        return harness_process.find()

    @property
    def runs_one(self) -> bool:
        process = self.process
        return (
            self._harness in _ONE_AT_A_TIME and process is not None and not harness_process.has_many_sessions(process)
        )

    @cached_property
    def files(self) -> Sequence[File]:
        return [File(path, self._resource(path)) for path in self._event.paths]

    def spoken(self) -> list[Spoken]:
        from . import spoken

        if self._event.kind == events.PROMPT:
            return spoken.at_prompt(self._event, self._read_at_prompt)
        return spoken.at_stop(self._event)

    def summary(self) -> str:
        from .spoken import summary

        return summary(self._event)
