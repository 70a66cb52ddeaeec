"""The gist of a session without a model: what was asked, what came of it, what is open, the files named as changed.

A session of work is told ask by ask, in the person's words and the agent's. A conversation has no asks and no results
(`conversations`). A line of the story is one ask or one sentence, so a story that grows loses lines in its middle and
stays within its limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ... import gist_text, outcomes, reviews, wording
from ...gist_text import GistText
from ...narration import announces
from ...sentences import parts
from ..protocol import GIST_SO_FAR, Passage
from . import conversations, files, open_points, results, talk, titles
from .quotes import AGENT, OLD_TOPICS, PLAIN_WORD, USER, quoted
from .talk import Turn

LONGEST: Final = 3_000
_OUTCOME: Final = 600
#: Of the result of the greatest ask, before the last one: its characters, and how many make it telling.
_MAIN: Final = 240
#: An ask that is greater than the last one by less than this is no greater.
_GREATER: Final = 1.1
_TELLING: Final = 80
#: Characters of an ask, of a result and of pasted output in the story.
_ASK: Final = 200
_RESULT: Final = 200
_PASTED: Final = 60
_MOST_ASKS: Final = 6
ONLY_COMMANDS: Final = "The session has only commands to the harness:"
#: The names are those that messages give. A session's edits are not known here.
_FILES: Final = "Files named as changed: "
_OLD_FILES: Final = "Files: "
_ASKED: Final = f"{USER} asked: "
_THEN: Final = "Then: "
#: A line of a gist of an earlier release: `2026-01-16 user: …`.
_OLD_LINE: Final = re.compile(r"\A\d{4}-\d\d-\d\d (user|assistant): (.+)\Z")
#: An ask that only says yes.
_CONFIRMS: Final = re.compile(
    r"\A(?:(?:yes|yeah|yep|yup|no|ok|okay|mmk|sure|proceed|continue|go|ahead|do|it|please|right|good|fine|thanks?|great"
    r"|ah|true|sounds|perfect|cool|implement|correct|agreed|now|[\da-d])\b\W*+)++\Z",
    re.IGNORECASE,
)


class _Step(NamedTuple):
    """An ask, and the agent's messages until the next one."""

    ask: str
    messages: list[Turn]
    #: Whether the user interrupted the agent, and said nothing after that.
    interrupted: bool

    @property
    def result(self) -> str:
        return results.of(self.messages)

    @property
    def is_review(self) -> bool:
        return any(reviews.is_review(turn.text) for turn in self.messages)

    @property
    def concludes(self) -> bool:
        """Whether the agent reviewed something, and said what it comes to."""
        return any(outcomes.concludes(turn.text) for turn in self.messages)

    @property
    def size(self) -> int:
        """Characters of the agent's messages: about how much work it was."""
        return sum(len(turn.text) for turn in self.messages)

    @property
    def breaks_off(self) -> bool:
        """Whether the work on the ask ends in the middle: interrupted, or with an announced step."""
        closing = self.messages[-1:]
        announced = any(announces(part) for turn in closing for part in parts(turn.text[: talk.READ]))
        # After a review, an announced step is one more check.
        announced = announced and not self.is_review
        return wording.is_substantial(self.ask) and (self.interrupted or announced) and not results.of(closing)


def story(turns: Sequence[Turn], passages: Sequence[Passage], known: Sequence[Passage], longest: int) -> GistText:
    """The parts of a session's gist, together with its gist so far."""
    before = _so_far(known)
    new = _work(turns, bool(before.story)) if _is_work(turns) else conversations.told(turns, passages, longest)
    if not new.story and not before.story:
        new = new._replace(story=_nothing(turns))
    still_open = dict.fromkeys([*open_points.kept(before.open, turns), *new.open])
    return GistText(
        wording.shorten(before.title or new.title, titles.LONGEST),
        wording.shorten(_later_outcome(before.outcome, new.outcome), _OUTCOME),
        tuple(wording.shorten(point, open_points.LONGEST) for point in still_open)[: open_points.MOST],
        "\n".join(_joined(before.story.splitlines(), new.story.splitlines(), longest)),
    )


def _later_outcome(before: str, new: str) -> str:
    """The outcome of a session that went on. What changed nothing does not take the place of what did."""
    keeps = before and results.did_something(before) and not results.reports_change(new)
    return before if keeps else new or before


def _so_far(known: Sequence[Passage]) -> GistText:
    """The gist so far. The lines of one of an earlier release become sentences."""
    text = next((passage.text for passage in known if passage.label == GIST_SO_FAR), "")
    found = gist_text.parse(text)
    lines: list[str] = []
    for line in found.story.splitlines():
        old = _OLD_LINE.match(line)
        if old:
            lines.append(quoted(f"{USER if old[1] == 'user' else AGENT} said: ", old[2]))
        elif line.strip() and not line.startswith(OLD_TOPICS):
            lines.append(line.strip())
    return found._replace(story="\n".join(lines))


def _is_work(turns: Sequence[Turn]) -> bool:
    """Whether an agent works here: commands, code, files, or announced steps. Otherwise it is a conversation."""
    if talk.is_of_two_people(turns):
        return False
    return any(
        turn.ask.startswith("/")
        or (turn.role == "user" and wording.command(turn.text)[0])
        or "`" in turn.text
        or (turn.role == "assistant" and announces(turn.text))
        or files.named(turn.text[:2_000])
        for turn in turns
    )


def _work(turns: Sequence[Turn], continued: bool) -> GistText:
    steps = _steps(turns)
    last = steps[-1] if steps else None
    broken_off = last is not None and last.breaks_off
    return GistText(
        titles.title([step.ask for step in steps], turns, (step.result for step in steps)),
        _outcome(steps),
        tuple(open_points.of_work(turns, last.ask if last and broken_off else "")),
        "\n".join(_lines(steps, continued)),
    )


def _steps(turns: Sequence[Turn]) -> list[_Step]:
    """The session ask by ask. An ask that only answers the agent ("yes") belongs to the one before."""
    steps: list[_Step] = []
    for turn in turns:
        if turn.role == "assistant":
            if not steps:
                steps.append(_Step("", [], False))
            steps[-1].messages.append(turn)
            steps[-1] = steps[-1]._replace(interrupted=False)
        elif turn.interrupts and steps:
            steps[-1] = steps[-1]._replace(interrupted=True)
        elif turn.ask and (not steps or not _CONFIRMS.match(turn.ask)):
            if steps and not steps[-1].messages and turn.ask.startswith(steps[-1].ask):
                # The command was given again, with its arguments.
                steps.pop()
            steps.append(_Step(talk.bare(turn.ask), [], False))
        elif turn.ask:
            steps[-1] = steps[-1]._replace(interrupted=False)
    return steps


def _lines(steps: Sequence[_Step], continued: bool) -> list[str]:
    told = [step for step in steps if step.ask]
    lines: list[str] = []
    for step in _main(told):
        if step.ask.startswith(wording.PASTED):
            line = quoted(f"{USER} pasted output: ", wording.shorten(step.ask.removeprefix(wording.PASTED), _PASTED))
        else:
            line = quoted(_THEN if lines or continued else _ASKED, wording.shorten(step.ask, _ASK))
        result = step.result
        if result:
            line += f" {quoted(f'{AGENT}: ', wording.shorten(result, _RESULT))}"
        lines.append(line)
    if not told and (result := results.of([turn for step in steps for turn in step.messages])):
        lines.append(quoted(f"{AGENT}: ", wording.shorten(result, _RESULT)))
    touched = files.touched(turn.text for step in steps for turn in step.messages)
    return [*lines, *([f"{_FILES}{', '.join(touched)}."] if touched else [])]


def _main(steps: Sequence[_Step]) -> list[_Step]:
    """The first and the last ask, and the longest of the others."""
    inner = sorted(range(1, len(steps) - 1), key=lambda place: (-len(steps[place].ask), place))[: _MOST_ASKS - 2]
    return [step for place, step in enumerate(steps) if place in (0, len(steps) - 1) or place in inner]


def _outcome(steps: Sequence[_Step]) -> str:
    """What came of the session: what came of its greatest ask, and the latest result that reports a change.

    Without a report of a change it is the latest result. A session often ends with a small step.
    """
    told = [(step, result) for step in steps if (result := step.result)]
    latest = told[: -results.NEAR_THE_END - 1 : -1]
    last = next((each for each in latest if results.reports_change(each[1])), None)
    reports = [each for each in told if each[0].concludes or (not each[0].is_review and results.did_something(each[1]))]
    main = max(reports, key=lambda each: each[0].size, default=None)
    if main is None or last is None:
        others = [result for _, result in latest if not outcomes.acknowledges(result)]
        return next(
            iter([each[1] for each in (last, main) if each] or [*others, *(result for _, result in latest)]), ""
        )
    first = wording.shorten(main[1], _MAIN)
    if main[0].size < _GREATER * last[0].size or len(first) < _TELLING or _share_words(first, last[1]):
        return last[1]
    return f"{first} {last[1]}"


def _share_words(one: str, other: str) -> bool:
    """Whether two results tell much of the same."""
    first, second = (set(PLAIN_WORD.findall(text.lower())) for text in (one, other))
    return 2 * len(first & second) > min(len(first), len(second))


def _nothing(turns: Sequence[Turn]) -> str:
    """What to say of a session in which nothing was asked and nothing came of it."""
    commands = [f"/{name}" for turn in turns if (name := wording.command(turn.text)[0])]
    if commands:
        return f"{ONLY_COMMANDS} {', '.join(dict.fromkeys(commands[:5]))}."
    said = next((turn.text for turn in turns if turn.text.strip() and not turn.foreign), "")
    return quoted(f"{USER} said: ", wording.shorten(said, _ASK)) if said else ""


def _joined(old: list[str], new: list[str], longest: int) -> list[str]:
    """The lines of both, and one line of files. Lines from the middle are left out until the text fits."""
    marks = (_FILES, _OLD_FILES)
    named = [line.partition(": ")[2] for line in [*old, *new] if line.startswith(marks)]
    lines = list(dict.fromkeys(line for line in [*old, *new] if not line.startswith(marks)))
    touched = list(dict.fromkeys(name for line in named for name in line.rstrip(".").split(", ")))
    last = [f"{_FILES}{', '.join(touched[: files.MOST])}."] if touched else []
    while len(lines) > 1 and len("\n".join([*lines, *last])) > longest:
        del lines[len(lines) // 3 or 1]
    if lines and len(lines) == 1 and len(lines[0]) > longest:
        lines = [wording.shorten(lines[0], longest)]
    return [*lines, *last]
