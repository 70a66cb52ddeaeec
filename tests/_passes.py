"""Passes of dreaming for tests: something to dream of, and passes that do exactly what a test says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram import Engram
from engram.dreaming import passes
from engram.dreaming.pass_context import PassContext
from engram.dreaming.passes import Stage
from engram.records import DreamReport

SAID = (
    "I prefer PostgreSQL for the billing service, because invoices need transactions.",
    "We decided to deploy the billing service on Mondays, never on a Friday.",
    "I learned that the nightly export holds its lock for forty minutes.",
    "Remember that the second replica in Zurich is still to be ordered.",
)


def talk(eng: Engram, *lines: str, summary: str = "billing") -> str:
    """A session in which somebody said these lines."""
    session = eng.sessions.register("claude-code", summary)
    for line in lines or SAID:
        eng.exchanges.add(session, "user", line)
    return session


def dream(eng: Engram) -> DreamReport:
    """A pass without errors."""
    (report,) = eng.dream(force=True)
    assert report.errors == []
    return report


def dream_of(eng: Engram, *steps: Callable[[PassContext], object]) -> DreamReport:
    """A pass whose only stage does these things, each as an action of its own."""

    def run(context: PassContext) -> None:
        for step in steps:
            with context.write():
                step(context)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(passes, "STAGES", (Stage("test", "continuity", run),))
        return dream(eng)
