"""Runs the examples of the documents: the blocks of Python and the `engram` commands of each page, in order.

Each page has a folder, a home and a store of its own. A comment behind a `print` is what it prints. What a page takes
for granted is made by `BEFORE`; what cannot run is in `NOT_RUN`, with the reason. No page shows any of this. The
README has a runner of its own (readme.py), because the output of its commands is written into it.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from engram import Engram, StoreUnavailable
from engram.interfaces.cli import cli

DOCS = Path(__file__).parent
#: Why a program is not run, by its name. These commands are not Engram's.
PROGRAMS = {
    "claude": "another program; tests/e2e runs it",
    "createdb": "needs a PostgreSQL of your own",
    "curl": "needs a running server; tests/interfaces/test_http_operations.py makes such requests",
    "export": "sets a variable of your shell",
    "pg_dump": "needs a PostgreSQL of your own; tests/team runs it",
    "pg_restore": "needs a PostgreSQL of your own; tests/team runs it",
    "pip": "needs a package index",
    "podman": "needs a container tool",
    "psql": "needs a PostgreSQL of your own; tests/team runs the files",
    ".venv/bin/python": "takes minutes",
}
#: Why an `engram` command or a block of Python is not run, by its beginning.
NOT_RUN = {
    "engram serve": "does not end; tests/interfaces/test_serve.py starts servers",
    "engram open": "opens a browser; tests/interfaces/test_open.py runs it",
    "engram dream thinker claude-code": "tries a client; tests/interfaces/test_cli_thinker.py runs it",
    "engram import": "reads files that are not here; tests/importers has files of each format",
    "engram install": "needs a server here; tests/interfaces/test_install.py runs it",
    "engram demo --fill": "writes a month; tests/interfaces/test_demo_month.py runs it",
    "engram dream undo 12": "needs twelve passes; the command before it undoes one",
    "engram backup /media/usb": "writes to a disk that is not here; the command before it writes into a folder",
    "engram restore /media/usb": "reads a disk that is not here; the command before it restores the last backup",
    "engram copy engram.db postgresql://": "needs a PostgreSQL of your own; tests/transfer copies between engines",
    "engram brief --utc": "shows a brief that took weeks to make; tests/contract/test_brief.py makes such ones",
    "seen = eng.changes.latest": "does not end; tests/contract/test_changes.py follows the feed",
    "from agents import Agent": "asks a model; tests/compat has the session",
    "from anthropic import Anthropic": "asks a model; tests/compat has the tool",
    "from engram import Engram\n\neng = Engram()  # the user's own store\neng = Engram(\"path/": "opens every kind",
}
#: What a page takes for granted, as Python. `show` stands for whatever the reader does with a value.
BEFORE = {
    "coordination.md": """
eng = Engram()
show = print
text = "The plan."
session_id = eng.sessions.register("codex", "work")
eng.blocks.create("plan", "")
lease = eng.leases.claim(session_id, "plan", exclusive=True)
""",
    "dreaming.md": """
eng = Engram()
session = eng.sessions.register("codex", "work")
eng.exchanges.add(session, "user", "Always run the tests of the router before a deploy.")
eng.sessions.complete(session, "Tests pass")
handbook = "Deploys happen on Mondays."
""",
    "frameworks.md": """
from langgraph.graph import MessagesState, StateGraph
builder = StateGraph(MessagesState)
builder.add_node("answer", lambda state: {})
builder.set_entry_point("answer")
""",
    "library.md": "eng = Engram()",
    "maintenance.md": """
with Engram() as eng:
    eng.remember("Deploys never happen on Fridays")
""",
    "moving-out.md": """
with Engram(workspace="team") as eng:
    eng.remember("Deploys never happen on Fridays")
""",
    "privacy.md": """
with Engram() as eng:
    session = eng.sessions.ensure("20261116-210412-6f61bc55")
    for number in range(12):
        eng.remember(f"Fact number {number}")
""",
}


class Block(NamedTuple):
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """What is typed, without comments. A backslash continues a line."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [re.sub(r"\s+#\s.*", "", line[2:]) for line in lines if line.startswith("$ ")]


class Failed(Exception):
    """An example does not do what its page says."""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```(python|console)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def why_not(example: str) -> str | None:
    """Why this command or block is not run; None if it is."""
    found = [reason for start, reason in NOT_RUN.items() if example.startswith(start)]
    program = example.split(maxsplit=1)[0]
    return found[0] if found else PROGRAMS.get(program)


def pages() -> Iterator[Path]:
    """The pages that have examples."""
    yield from (page for page in sorted(DOCS.rglob("*.md")) if page.parent == DOCS and blocks(page))


def run(page: Path) -> int:
    """Run the examples of a page; how many there were."""
    with tempfile.TemporaryDirectory(prefix="engram-docs-") as folder, chdir(folder):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ENGRAM_", "XDG_"))}
        environment |= {"HOME": folder, "ENGRAM_DATA_DIR": folder, "ENGRAM_CONFIG_DIR": folder}
        # The embedder that every installation has, and no model.
        environment |= {"ENGRAM_EMBEDDER": "static", "ENGRAM_LLM": "extractive", "ENGRAM_PROJECT": "shop"}
        with patch.dict(os.environ, environment, clear=True):
            names: dict[str, Any] = {"Engram": Engram}
            exec(BEFORE.get(page.name, ""), names)
            done = 0
            for block in blocks(page):
                _open_again(names)
                if block.language == "python":
                    done += _python(block.text, names, page)
                else:
                    done += sum(_command(typed, page) for typed in block.commands)
            for made in names.values():
                if isinstance(made, Engram):
                    made.close()
    return done


def _open_again(names: dict[str, Any]) -> None:
    """A block may close the store that the next one uses."""
    if isinstance(names.get("eng"), Engram):
        try:
            names["eng"].now()
        except StoreUnavailable:
            names["eng"] = Engram()


def _python(text: str, names: dict[str, Any], page: Path) -> bool:
    if why_not(text):
        return False
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()):
        exec(compile(text, page.name, "exec"), names)
    expected = re.findall(r"print\(.*\)  # (.*)", text)
    if expected and printed.getvalue().splitlines() != expected:
        raise Failed(f"{page.name} says {expected}; it is {printed.getvalue().splitlines()}.")
    return True


def _command(typed: str, page: Path) -> bool:
    if why_not(typed):
        return False
    program, *arguments = shlex.split(typed)
    if program != "engram":
        raise Failed(f"{page.name}: `{typed}` is neither a command of Engram nor in PROGRAMS.")
    if any(each.startswith(("/", "~")) for each in arguments):
        raise Failed(f"{page.name}: `{typed}` names a path outside of the folder of the examples; put it into NOT_RUN.")
    # `forget` asks, unless nobody is there.
    result = CliRunner().invoke(cli, arguments, input="y\n")
    if result.exit_code:
        raise Failed(f"{page.name}: `{typed}` ends with {result.exit_code}: {result.output}{result.exception!r}")
    return True
