"""Helpers for passes: sessions with content, and passes that run only the given steps."""

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
    """Create a session in which the user said these lines."""
    session = eng.sessions.register("claude-code", summary)
    for line in lines or SAID:
        eng.exchanges.add(session, "user", line)
    return session


def dream(eng: Engram) -> DreamReport:
    """Run a pass and check that it has no errors."""
    (report,) = eng.dream(force=True)
    assert report.errors == []
    return report


def dream_of(eng: Engram, *steps: Callable[[PassContext], object]) -> DreamReport:
    """Run a pass whose only stage runs these steps, each as one action."""

    def run(context: PassContext) -> None:
        for step in steps:
            with context.write():
                step(context)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(passes, "STAGES", (Stage("test", "continuity", run),))
        return dream(eng)
