"""The README's examples run, and print what the README shows."""

from __future__ import annotations

import re
import runpy
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = runpy.run_path(str(ROOT / "docs" / "readme.py"))


@pytest.mark.requirement("DOCS-4")
def test_the_examples_of_the_readme_print_what_it_shows() -> None:
    assert EXAMPLES["text"]() == README, "run `make docs`"


@pytest.mark.requirement("DOCS-4")
def test_every_memory_command_of_the_readme_shows_its_output() -> None:
    shown = [line for block in EXAMPLES["blocks"](README) for line in [*block.lines, "$ "]]
    silent = [line for line, after in pairwise(shown) if line[:2] == after[:2] == "$ "]
    assert [line for line in silent if re.match(r"\$ engram (remember|recall|forget) ", line)] == []


@pytest.mark.requirement("DOCS-4")
def test_the_examples_that_are_not_run_are_declared_and_the_others_are_many() -> None:
    typed = [line[2:] for block in EXAMPLES["blocks"](README) for line in block.lines if line.startswith("$ ")]
    unused = [start for start in EXAMPLES["NOT_RUN"] if not any(each.startswith(start) for each in typed)]
    assert unused == []
    assert sum(map(EXAMPLES["is_run"], typed)) > 10
