"""The answer to the task `session`: the parts of the gist, the statements, and what is closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..protocol import Passage
from . import lasting, stories, talk


def answer(passages: Sequence[Passage], known: Sequence[Passage], max_tokens: int) -> dict[str, Any]:
    turns = talk.read(passages)
    longest = max(200, min(stories.LONGEST, 3 * max_tokens))
    told = stories.story(turns, passages, known, longest)
    return {
        "title": told.title,
        "outcome": told.outcome,
        "open": list(told.open),
        "gist": told.story,
        "statements": [each._asdict() for each in lasting.statements(turns, known)],
        "closed": [each._asdict() for each in lasting.closed(turns, known)],
    }
