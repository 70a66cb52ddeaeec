"""The documents say what is true."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from engram import Engram
from engram.config import SETTINGS
from engram.interfaces.mcp import tools

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@cache
def generate() -> ModuleType:
    specification = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.requirement("CLI-7")
def test_the_command_page_is_what_the_help_says() -> None:
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == generate().page(), "run `make docs`"


@pytest.mark.requirement("CONFIG-6")
def test_the_settings_page_is_what_the_settings_declare() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == generate().settings_page(), "run `make docs`"
    assert all(f"| `{setting.name}` |" in page and setting.help in page for setting in SETTINGS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_the_readme_s_example_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ENGRAM_URL", str(tmp_path / "engram.db"))
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})
    with Engram() as eng:
        assert eng.world.get() == "Schema is at 42."


@pytest.mark.requirement("CONFIG-4")
def test_the_settings_page_says_of_every_setting_whether_a_projects_file_may_set_it() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = [row.strip("|").split("|") for row in page.splitlines() if row.startswith("| `")]
    told = {name: row[-1].strip() for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert told == {setting.name: setting.project_file for setting in SETTINGS}


@pytest.mark.requirement("MCP-1")
def test_the_mcp_page_names_every_tool_and_action_that_is_offered() -> None:
    page = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*?)\|", page, re.MULTILINE))
    offered = {tool.name: set(actions) if len(actions) > 1 else set() for tool, actions in tools.offered()}
    assert {name: set(re.findall(r"`(\w+)`", actions)) for name, actions in rows.items()} == offered
