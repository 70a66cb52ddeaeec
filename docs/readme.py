"""Runs the examples of the README, and writes what they print into it.

Each block runs in a terminal of its own, one after the other, on one new store. The clock and the embedder are fixed,
and the random part of session ids is replaced, so the README changes only when the product does. Output is written
where the README shows some already; other blocks are only run. A test compares; `make docs` writes.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from engram import Clock, Engram
from engram.clock import stamp
from engram.interfaces.cli import cli

FILE = Path(__file__).parent.parent / "README.md"

#: Commands that are not run, by their beginning, with the reason.
NOT_RUN = {
    "make run": "builds an environment, and plays a scene that the end-to-end tests play too",
    "make test": "would run itself",
    "uv tool install": "needs a package index",
    "pip install": "needs a package index",
    "engram import claude-code": "reads the real transcripts; tests/importers/test_claude_code.py imports some",
    "engram init": "sets up the real agents; tests/interfaces/test_init.py runs it",
    "engram install claude-code": "changes the settings of the real client; tests/interfaces/test_install.py runs it",
}
#: In the first block that uses a store. What the README assumes to have happened since comes after it.
_FIRST = "engram remember"
_BLOCK = re.compile(r"(?<=```)(console|python)\n(.*?)(?=```)", re.DOTALL)
_COMMAND = re.compile(r"\$ (?P<typed>.*?)(?:\s+#\s.*)?")
#: Thursday, 19 November 2026, 10:30 UTC.
_NOW = 1_795_084_200.0
_WEEK = 7 * 86_400


class Block(NamedTuple):
    language: str
    lines: list[str]


class SteppingClock(Clock):
    """Goes on by a second with each command, whatever the real time is."""

    at = _NOW

    def now(self) -> str:
        return stamp(self.at)

    def monotonic(self) -> float:
        return self.at


def text() -> str:
    """The README with what its examples print now."""
    before = FILE.read_text(encoding="utf-8")
    printed = _all_printed(before)
    return _BLOCK.sub(lambda block: "\n".join([block[1], *next(printed), ""]), before)


def blocks(readme: str) -> list[Block]:
    return [Block(language, lines.splitlines()) for language, lines in _BLOCK.findall(readme)]


def is_run(typed: str) -> bool:
    return not typed.startswith(tuple(NOT_RUN))


def _all_printed(readme: str) -> Iterator[list[str]]:
    """Each block with what it prints now."""
    clock, names = SteppingClock(), dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="engram-readme-") as folder, chdir(folder):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAM_")}
        environment |= {
            "ENGRAM_URL": os.path.join(folder, "engram.db"),
            "ENGRAM_CONFIG_DIR": folder,
            "ENGRAM_PROJECT": "shop",
            "ENGRAM_EMBEDDER": "static",
            "ENGRAM_LLM": "extractive",
        }
        with patch("engram.client.Clock", return_value=clock), patch.dict(os.environ, environment, clear=True):
            begun = has_passed = False
            for block in blocks(readme):
                if begun and not has_passed:
                    _meanwhile(clock)
                    has_passed = True
                begun = begun or any(_FIRST in line for line in block.lines)
                with patch.dict(os.environ):
                    printed = _python(block) if block.language == "python" else _console(block, clock, names)
                shows = block.language == "python" or not all(map(_COMMAND.fullmatch, block.lines))
                yield printed if shows else block.lines


def _meanwhile(clock: SteppingClock) -> None:
    """What the README assumes after its first try: hooks recorded a session."""
    with Engram(clock=clock) as eng:
        clock.at -= _WEEK
        past = eng.sessions.register("codex", "Repairing the nightly build")
        eng.exchanges.add(past, "user", "Why does the nightly build fail?")
        eng.exchanges.add(past, "assistant", "Let me look at the log.")
        eng.exchanges.add(past, "assistant", "Its token expired on Monday. I made a new one that is valid for a year.")
        eng.sessions.complete(past, "Nightly build repaired")
        clock.at += _WEEK


def _console(block: Block, clock: SteppingClock, names: dict[str, str]) -> list[str]:
    shown = []
    for line in block.lines:
        command = _COMMAND.fullmatch(line)
        if command is not None:
            shown.append(line)
            if is_run(command["typed"]):
                clock.at += 1
                shown += _with_fixed_ids(_run(command["typed"]), names).splitlines()
    return shown


def _run(typed: str) -> str:
    """What an `engram` command prints; nothing if a variable is set to what it prints, or to a text, or unset."""
    if variable := re.fullmatch(r"(?:export (\w+)=([\w.-]+)|unset (\w+))", typed):
        os.environ.pop(variable[1] or variable[3], None)
        os.environ.update({variable[1]: variable[2]} if variable[1] else {})
        return ""
    export = re.fullmatch(r"export (\w+)=\$\((.*)\)", typed)
    program, *arguments = shlex.split(export[2] if export else typed)
    result = CliRunner().invoke(cli, arguments) if program == "engram" else None
    if result is None or result.exit_code:
        raise SystemExit(f"The README's example `{typed}` failed: {result and (result.output, result.exception)}")
    if export is None:
        return result.stdout
    os.environ[export[1]] = result.stdout.strip()
    return ""


def _with_fixed_ids(printed: str, names: dict[str, str]) -> str:
    def fixed(id: re.Match[str]) -> str:
        return names.setdefault(id[0], f"{(len(names) + 1) * 0x2F4A91C7 % 2**32:08x}")

    return re.sub(r"(?<=session )[0-9a-f]{8}\b|(?<=\d{8}-\d{6}-)[0-9a-f]{8}\b", fixed, printed)


def _python(block: Block) -> list[str]:
    """The block. A call of `print` with a comment behind it prints one line, which becomes the comment."""
    with redirect_stdout(io.StringIO()) as printed:
        exec("\n".join(block.lines), {})
    said = iter(printed.getvalue().splitlines())
    return [re.sub(r"(print\(.*\))  # .*", lambda call: f"{call[1]}  # {next(said, '')}", line) for line in block.lines]


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
