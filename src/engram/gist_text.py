"""The text of a gist: a title, what came of the session, what is open, and then the story.

These parts are lines of one text, so that versions, undo, forgetting and search treat them like any other text. A
reader takes them apart again and shows the outcome and what is open first. A gist of an earlier release, or one that a
client wrote at a compaction, has no such lines: it is all story.

A story may begin with a line that looks like one of these parts. Then the line `Story:` is before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_TITLE: Final = "# "
_OUTCOME: Final = "Outcome: "
_OPEN: Final = "Open: "
_STORY: Final = "Story:"


class GistText(NamedTuple):
    #: What the session was about, in a few words.
    title: str = ""
    #: What came of it.
    outcome: str = ""
    #: What is not finished.
    open: tuple[str, ...] = ()
    story: str = ""


def compose(parts: GistText) -> str:
    """The text of a gist. Each part but the story is one line; an empty one is left out."""
    lines = [
        *([_TITLE + _flat(parts.title)] if parts.title.strip() else []),
        *([_OUTCOME + _flat(parts.outcome)] if parts.outcome.strip() else []),
        *(_OPEN + _flat(each) for each in parts.open if each.strip()),
    ]
    story = parts.story.strip()
    if story.startswith((_TITLE, _OUTCOME, _OPEN)) or story.split("\n", 1)[0] == _STORY:
        lines.append(_STORY)
    return "\n".join([*lines, *([story] if story else [])])


def parse(text: str) -> GistText:
    """The parts of a gist's text. Only its first lines can be a title, an outcome or an open point."""
    lines = text.split("\n")
    title = outcome = ""
    open_points: list[str] = []
    for position, line in enumerate(lines):
        if line.startswith(_TITLE) and position == 0:
            title = line.removeprefix(_TITLE)
        elif line.startswith(_OUTCOME) and not outcome and not open_points:
            outcome = line.removeprefix(_OUTCOME)
        elif line.startswith(_OPEN):
            open_points.append(line.removeprefix(_OPEN))
        else:
            begin = position + (line == _STORY)
            return GistText(title, outcome, tuple(open_points), "\n".join(lines[begin:]))
    return GistText(title, outcome, tuple(open_points), "")


def _flat(text: str) -> str:
    return " ".join(text.split())
