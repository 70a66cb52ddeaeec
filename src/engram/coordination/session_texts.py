"""What a session was asked, as a short text from one of its turns.

The ask is the first prompt with content: not a command to the harness (`/clear`), not a prompt that names nothing
("continue"), and of a long prompt its own words, not the log that was pasted into it.

Only the form of a text is read, so an unknown form counts as a statement.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..emphasis import without_emphasis
from ..harness_commands import CONTROLS, without_plan_lead
from ..outcomes import READ, cut, fit
from ..prose import own_words
from ..sentences import split

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Characters of an ask.
ASK_LENGTH: Final = 200

_COMMAND: Final = re.compile(r"\A/([\w:.-]{1,60})(?:\s|\Z)")


def first_ask(prompts: Iterable[tuple[int, str]]) -> tuple[int, str] | None:
    """The first of the prompts that asks for something: its id, and what it asks. The prompts are oldest first."""
    for id, prompt in prompts:
        if not _is_control(prompt) and _asks(prompt):
            return id, shortened_ask(prompt)
    return None


def shortened_ask(prompt: str) -> str:
    """A prompt on one line, in at most `ASK_LENGTH` characters; of a long prompt, what was not pasted."""
    prompt = without_plan_lead(prompt)
    line = " ".join(prompt.split())
    if len(line) <= ASK_LENGTH:
        return line
    said = [without_emphasis(sentence) for sentence in split(own_words(prompt[:READ]))]
    return fit(said, ASK_LENGTH) or cut(line, ASK_LENGTH)


def _is_control(prompt: str) -> bool:
    command = _COMMAND.match(prompt.strip())
    return prompt.lstrip().startswith("! ") or (command is not None and command[1].lower() in CONTROLS)


def _asks(prompt: str) -> bool:
    """Whether a prompt names something, or is a command of the user's own."""
    # Imported here: a command does not need it.
    from ..memory.prompt_gate import names_something

    return _COMMAND.match(prompt.strip()) is not None or names_something(prompt[:READ])
