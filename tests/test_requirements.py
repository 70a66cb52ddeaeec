"""Every promised behaviour has a test, and every test that claims one claims a promised one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests._requirements import REQUIREMENTS

TESTS = Path(__file__).parent


def marks(tree: ast.Module) -> list[str]:
    """The ids in all `pytest.mark.requirement(...)` of a file."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"line {node.lineno}: an id must be written out"
                found.append(str(argument.value))
    return found


@cache
def claimed() -> dict[str, set[str]]:
    """For each id, the files whose tests show it."""
    found: dict[str, set[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for id in marks(ast.parse(file.read_text(), str(file))):
            found.setdefault(id, set()).add(str(file.relative_to(TESTS)))
    return found


def test_every_requirement_is_shown_by_a_test() -> None:
    assert {id: sentence for id, sentence in REQUIREMENTS.items() if id not in claimed()} == {}


def test_every_id_on_a_test_is_a_requirement() -> None:
    unknown = {id: files for id, files in claimed().items() if id not in REQUIREMENTS}
    assert unknown == {}


def test_requirements_are_sentences_with_plain_ids() -> None:
    assert [id for id in REQUIREMENTS if not re.fullmatch(r"[A-Z]+-([0-9]+|[A-Z]+)", id)] == []
    assert [id for id, sentence in REQUIREMENTS.items() if not sentence.endswith(".")] == []


def test_the_reader_of_marks_finds_them_wherever_they_stand() -> None:
    source = """
pytestmark = [pytest.mark.requirement("A-1")]
@pytest.mark.requirement("B-1", "B-2")
@other
class TestIt:
    @pytest.mark.requirement("C-1")
    def test_it(self): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("D-1"))])
def test_that(x): ...
"""
    assert sorted(marks(ast.parse(source))) == ["A-1", "B-1", "B-2", "C-1", "D-1"]
