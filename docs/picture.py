"""Writes docs/engram.svg, the picture in the README, from what the real commands print.

A small store is filled through the library: sessions of last week, and three agents at work now. Then commands run on
that store, and their output is drawn as it is, with its colours. The clock is fixed and the random part of session ids
is replaced, so the picture changes only when the product does. A test compares it with the file; `make docs` writes it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from engram import Clock, Engram
from engram.clock import stamp
from engram.interfaces.cli import cli

FILE = Path(__file__).parent / "engram.svg"

#: Thursday, 19 November 2026, 10:30 UTC.
_NOW = 1_795_084_200.0
_DAY = 86_400.0
_PROJECT = "acme/shop"


class Command(NamedTuple):
    arguments: list[str]
    #: How many lines of the output are drawn; the rest is left out, with a line that says so.
    lines: int = 99


class Pane(NamedTuple):
    title: str
    commands: list[Command]


PANES = [
    Pane("Three agents, one repository: each sees the others", [Command(["sitrep"])]),
    Pane("What was said last week is found again, also in other words", [Command(["recall", "which day do we ship?"])]),
    Pane(
        "While nobody is talking, it dreams: sessions become knowledge",
        [Command(["dream", "--force"], lines=6), Command(["block", "show", "profile"])],
    ),
]


class FixedClock(Clock):
    """Stands still unless it is moved, so that every age in the picture is the same each time."""

    def __init__(self) -> None:
        self.at = _NOW

    def now(self) -> str:
        return stamp(self.at)

    def monotonic(self) -> float:
        return self.at


#: Text in one style, by the codes that a terminal is sent for it.
Span = tuple[str, str]


def svg() -> str:
    """The whole picture."""
    return _draw(list(_shown()))


def _shown() -> Iterator[tuple[str, list[list[Span]]]]:
    """Each pane's title and lines: every command as it is typed, and what it printed."""
    clock, names = FixedClock(), dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="engram-picture-") as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
        environment |= {
            "ENGRAM_URL": os.path.join(folder, "engram.db"),
            "ENGRAM_CONFIG_DIR": folder,
            "ENGRAM_PROJECT": _PROJECT,
            "ENGRAM_EMBEDDER": "minilm",
            "ENGRAM_LLM": "extractive",
        }
        with patch("engram.client.Clock", return_value=clock), patch.dict(os.environ, environment, clear=True):
            with Engram(clock=clock) as eng:
                os.environ["ENGRAM_SESSION"] = _act(eng, clock)
            for pane in PANES:
                lines: list[list[Span]] = []
                for command in pane.commands:
                    typed = " ".join(f'"{each}"' if " " in each else each for each in command.arguments)
                    lines += [[]] if lines else []
                    lines.append([("prompt", "$ "), ("1", f"engram {typed}")])
                    printed = _with_fixed_ids(_run(command), names).rstrip("\n").split("\n")
                    lines += [_spans(line) for line in printed[: command.lines]]
                    if len(printed) > command.lines:
                        lines.append([("2", "…")])
                yield pane.title, lines


def _run(command: Command) -> str:
    result = CliRunner().invoke(cli, command.arguments, color=True)
    if result.exit_code:
        raise SystemExit(f"engram {' '.join(command.arguments)} failed: {result.output}{result.exception!r}")
    return result.stdout


def _with_fixed_ids(text: str, names: dict[str, str]) -> str:
    """The text with the random part of each session's id replaced, also where only that part is shown."""

    def fixed(id: re.Match[str]) -> str:
        return names.setdefault(id[0], f"{(len(names) + 1) * 0x2F4A91C7 % 2**32:08x}")

    return re.sub(r"(?<=\d{6}-)[0-9a-f]{8}\b|(?<=session )[0-9a-f]{8}\b", fixed, text)


def _spans(line: str) -> list[Span]:
    """A line cut where its style changes."""
    style, spans = "0", list[Span]()
    for number, part in enumerate(re.split(r"\x1b\[([0-9;]*)m", line)):
        if number % 2:
            style = part
        elif part:
            spans.append((style, part))
    return spans


def _act(eng: Engram, clock: FixedClock) -> str:
    """Last week's sessions, and today's three agents; the session that looks at the report."""
    clock.at = _NOW - 8 * _DAY
    past = eng.sessions.register("codex", "Upgrading the payment client")
    eng.exchanges.add(past, "user", "Remember that I never deploy on a Friday; releases go out on Tuesday mornings.")
    eng.exchanges.add(past, "assistant", "Understood. The payment client is upgraded, and the sandbox accepts it.")
    eng.exchanges.add(past, "user", "We decided to keep the old checkout until March.")
    eng.sessions.complete(past, "Payment client upgraded")
    clock.at = _NOW - 2 * _DAY
    past = eng.sessions.register("claude-code", "Making the tests faster")
    eng.exchanges.add(past, "user", "I prefer small pull requests, one change each.")
    eng.exchanges.add(past, "assistant", "I learned that the slow tests all wait for the same Redis container.")
    eng.remember("A deploy needs a green smoke test on staging.", kind="lesson", session_id=past)
    eng.sessions.complete(past, "Test suite down from 9 minutes to 3")

    clock.at = _NOW - 1_500
    claude = eng.sessions.register("claude-code", "Porting the router")
    eng.world.set("Goal: release 2.0 next week. The old router stays until the new one passes all tests.", claude)
    eng.leases.claim(claude, f"{_PROJECT}:src/router.py", "rewriting")
    clock.at = _NOW - 900
    codex = eng.sessions.register("codex", "Adding rate limits")
    eng.leases.claim(codex, f"{_PROJECT}:src/limits/**", "new module")
    clock.at = _NOW - 300
    cursor = eng.sessions.register("cursor", "Writing the release notes")
    eng.leases.claim(cursor, f"{_PROJECT}:CHANGELOG.md", "release notes", exclusive=True)
    clock.at = _NOW - 120
    eng.messages.send(codex, f"{_PROJECT}:src/router.py", "May I call the limiter from your new router?")
    clock.at = _NOW
    eng.sessions.heartbeat(claude)
    return claude


_WIDTH, _MARGIN, _PADDING = 900, 20, 16
_SIZE, _LINE, _COLUMNS = 13, 18.5, 104
_STYLES = {
    "prompt": 'fill="#38bdf8" font-weight="700"',
    "1": 'fill="#f8fafc" font-weight="700"',
    "2": 'fill="#94a3b8"',
    "31": 'fill="#f87171"',
    "32": 'fill="#4ade80"',
    "33": 'fill="#facc15"',
    "36": 'fill="#22d3ee"',
}
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" role="img" aria-label="{label}">
<rect width="{width}" height="{height:g}" rx="14" fill="#0f172a"/>
"""
_CARD = """\
<text x="{x}" y="{title:g}" fill="#7dd3fc" font-size="15" font-weight="700" font-family="{sans}">{text}</text>
<rect x="{x}" y="{top:g}" width="{width}" height="{height:g}" rx="9" fill="#1e293b" stroke="#334155"/>
"""
_SANS = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
_MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def _draw(panes: list[tuple[str, list[list[Span]]]]) -> str:
    """One card under another, each as high as its lines."""
    parts: list[str] = []
    y = float(_MARGIN)
    for title, lines in panes:
        rows = [row for line in lines for row in _wrapped(line)]
        # An empty line takes half the room of a written one.
        steps = list(accumulate((_LINE if row else _LINE / 2 for row in rows), initial=0.0))
        top, height = y + 26, steps[-1] + 2 * _PADDING - 6
        card = {"x": _MARGIN, "title": y + 14, "top": top, "width": _WIDTH - 2 * _MARGIN, "height": height}
        parts.append(_CARD.format(**card, sans=_SANS, text=escape(title)))
        parts.append(f'<g font-family="{_MONO}" font-size="{_SIZE}" fill="#cbd5e1" style="white-space: pre">\n')
        for row, step in zip(rows, steps, strict=False):
            baseline = top + _PADDING + step + 9
            spans = "".join(_span(style, text) for style, text in row)
            if row:
                parts.append(f'<text x="{_MARGIN + _PADDING}" y="{baseline:g}">{spans}</text>\n')
        parts.append("</g>\n")
        y = top + height + _MARGIN
    label = "Engram at work: " + "; ".join(title for title, _ in panes)
    return _HEAD.format(width=_WIDTH, height=y, label=escape(label)) + "".join(parts) + "</svg>\n"


def _wrapped(line: list[Span]) -> Iterator[list[Span]]:
    """The line in rows that fit the card; further rows are indented."""
    row, left = list[Span](), _COLUMNS
    for style, text in line:
        while len(text) > left:
            cut = text.rfind(" ", 0, left + 1)
            cut = cut if cut > 0 else left
            yield [*row, (style, text[:cut])]
            row, text, left = [("0", "  ")], text[cut:].lstrip(), _COLUMNS - 2
        row.append((style, text))
        left -= len(text)
    yield row


def _span(style: str, text: str) -> str:
    return f"<tspan {_STYLES[style]}>{escape(text)}</tspan>" if style in _STYLES else escape(text)


if __name__ == "__main__":
    FILE.write_text(svg(), encoding="utf-8")
