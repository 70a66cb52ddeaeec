"""The documents say what is true."""

from __future__ import annotations

import importlib.util
import re
import runpy
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

import click
import pytest
from docs import site_pages
from docs.generators import library

from engram import Engram
from engram.config import SETTINGS
from engram.interfaces.cli import cli
from engram.interfaces.mcp import tools
from engram.remote.calls import CALLS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
REFERENCE = ("library", "mcp-tools", "operations", "errors", "schema")


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


@pytest.mark.requirement("DOCS-5")
@pytest.mark.parametrize("name", REFERENCE)
def test_a_reference_page_is_what_the_code_declares(name: str) -> None:
    path = f"reference/{name}.md"
    assert (ROOT / "docs" / path).read_text(encoding="utf-8") == generate().REFERENCE[path](), "run `make docs`"


@pytest.mark.requirement("DOCS-5")
def test_every_reference_page_is_generated() -> None:
    assert {path.stem for path in (ROOT / "docs" / "reference").iterdir()} == set(REFERENCE)


@pytest.mark.requirement("DOCS-5")
def test_every_public_method_is_on_the_library_page_and_explained() -> None:
    page = (ROOT / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
    methods = list(library.public_methods())
    assert len(methods) > 200
    assert [each.call for each in methods if f"### {each.call}\n" not in page and f"`{each.call}`" not in page] == []
    silent = re.findall(r"^### (eng\S+)\n\n```python\n[^`]*```\n\n(?:#|Over a server: scope)", page, re.MULTILINE)
    assert silent == []
    assert {*CALLS} - {""} <= {each.name.rpartition(".")[0] for each in methods}


@pytest.mark.requirement("DOCS-2")
def test_the_picture_shows_what_the_commands_print() -> None:
    picture = runpy.run_path(str(ROOT / "docs" / "picture.py"))["svg"]()
    assert (ROOT / "docs" / "engram.svg").read_text(encoding="utf-8") == picture, "run `make docs`"


@pytest.mark.requirement("CONFIG-6")
def test_the_settings_page_is_what_the_settings_declare() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == generate().settings_page(), "run `make docs`"
    assert all(f"| `{setting.name}` |" in page and setting.help in page for setting in SETTINGS)


def _without_code(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def _anchors(page: Path) -> set[str]:
    """What a link to a part of the page can name, on GitHub and on the site."""
    titles = re.findall(r"^#+ (.*)$", _without_code(page), re.MULTILINE)
    return {site_pages.slug(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)) for title in titles}


@pytest.mark.requirement("DOCS-6")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", _without_code(page))
    missing = [link for link, _ in links if not (page.parent / link).exists()]
    named = [(page.parent / link if link else page, anchor) for link, anchor in links if anchor]
    missing += [f"{target.name}#{anchor}" for target, anchor in named if anchor not in _anchors(target.resolve())]
    assert missing == []


@pytest.mark.requirement("DOCS-6")
def test_every_test_file_that_a_page_names_exists() -> None:
    named = {
        (page.name, path) for page in PAGES for path in re.findall(r"`(tests/[\w/]+\.py)`", page.read_text("utf-8"))
    }
    assert len(named) > 40
    assert [each for each in sorted(named) if not (ROOT / each[1]).exists()] == []


@pytest.mark.requirement("DOCS-6")
def test_every_page_is_in_the_navigation_of_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"^ +- [^#\n]*: (\S+\.md)$", nav, re.MULTILINE)
    there = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert sorted(named) == sorted([*there, *site_pages.AT_ROOT.values()])


@pytest.mark.requirement("DOCS-6")
def test_pages_of_the_site_link_to_pages_of_the_site() -> None:
    text = "[a](../CHANGELOG.md#x) [b](../src/engram/config.py) [c](memory.md) [d](https://e) [e](#f) [g](nowhere.md)"
    expected = "[a](CHANGELOG.md#x) b [c](memory.md) [d](https://e) [e](#f) [g](nowhere.md)"
    assert site_pages.for_site(text, "team.md") == expected
    assert site_pages.for_site("[a](../memory.md)\n```\n[b](../../src)\n```\n", "reference/library.md") == (
        "[a](../memory.md)\n```\n[b](../../src)\n```\n"
    )
    readme = '[a](docs/memory.md#recall) [b](Makefile) <img src="docs/img/now-light.png">'
    assert site_pages.for_site(readme, "index.md") == '[a](memory.md#recall) b <img src="img/now-light.png">'


@pytest.mark.requirement("CONFIG-4")
def test_the_settings_page_says_of_every_setting_whether_a_projects_file_may_set_it() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = [row.strip("|").split("|") for row in page.splitlines() if row.startswith("| `")]
    told = {name: row[-1].strip() for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert told == {setting.name: setting.project_file for setting in SETTINGS}


@pytest.mark.requirement("DOCS-3")
def test_every_call_on_the_library_page_exists(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    groups = re.findall(r"^\| `eng\.(\w+)` \|(.*)\|$", page, re.MULTILINE)
    calls = re.findall(r"`eng\.(\w+)\(", page)
    assert len(groups) > 8
    assert len(calls) > 8
    with Engram(str(tmp_path / "engram.db")) as eng:
        methods = [(getattr(eng, group), name) for group, cell in groups for name in re.findall(r"`(\w+)`", cell)]
        missing = [name for owner, name in [*methods, *((eng, call) for call in calls)] if not hasattr(owner, name)]
    assert missing == []


@pytest.mark.requirement("MCP-1")
def test_the_mcp_page_names_every_tool_and_action_that_is_offered() -> None:
    page = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*?)\|", page, re.MULTILINE))
    offered = {tool.name: set(actions) if len(actions) > 1 else set() for tool, actions in tools.offered()}
    assert {name: set(re.findall(r"`(\w+)`", actions)) for name, actions in rows.items()} == offered


def _glossary() -> list[list[str]]:
    """Its rows: word, meaning, library names, commands, words that are not used."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    return [row for row in rows if row[0] not in ("word", "---")]


def _quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _resolve(name: str, eng: Engram) -> object:
    """What a dotted name of the glossary stands for: `eng.…`, or a module or name below the package."""
    head, *rest = name.split(".")
    found: object = eng if head == "eng" else import_module("engram")
    path = "engram"
    for part in rest if head == "eng" else [head, *rest]:
        path = f"{path}.{part}"
        if hasattr(found, "__path__") and importlib.util.find_spec(path) is not None:
            found = import_module(path)
        else:
            found = getattr(found, part)
    return found


@pytest.mark.requirement("DOCS-1")
def test_every_library_name_in_the_glossary_exists(tmp_path: Path) -> None:
    names = [name for row in _glossary() for name in _quoted(row[2])]
    assert len(names) > 100
    missing = []
    with Engram(str(tmp_path / "engram.db")) as eng:
        for name in names:
            try:
                _resolve(name, eng)
            except (AttributeError, ImportError):
                missing.append(name)
    assert missing == []


@pytest.mark.requirement("DOCS-1")
def test_every_command_in_the_glossary_exists() -> None:
    commands = _commands()
    named = [command for row in _glossary() for command in _quoted(row[3])]
    assert len(named) > 40
    missing = []
    for each in named:
        command, _, option = each.partition(" --")
        found = commands.get(command)
        options = {name for parameter in found.params for name in parameter.opts} if found else set()
        if found is None or (option and f"--{option}" not in options):
            missing.append(each)
    assert missing == []


@pytest.mark.requirement("DOCS-1")
def test_every_word_has_one_row_in_the_glossary_and_every_row_five_cells() -> None:
    rows = _glossary()
    assert {len(row) for row in rows} == {5}
    assert len({row[0] for row in rows}) == len(rows)


@pytest.mark.requirement("DOCS-1")
def test_words_that_the_glossary_rules_out_are_on_no_page_and_in_no_help_text() -> None:
    ruled_out = [word for row in _glossary() for word in _quoted(row[4])]
    assert len(ruled_out) > 5
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES if page.name != "glossary.md"}
    texts |= {name: " ".join(_help(command)) for name, command in _commands().items()}
    found = [
        (where, word)
        for where, text in texts.items()
        for word in ruled_out
        if re.search(rf"\b{re.escape(word)}\b", re.sub(r"\s+", " ", text), re.IGNORECASE)
    ]
    assert found == []


def _commands() -> dict[str, click.Command]:
    """Every command of the command line by its full name."""
    found: dict[str, click.Command] = {}

    def walk(command: click.Command, name: str) -> None:
        found[name] = command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for member in command.list_commands(context):
                below = command.get_command(context, member)
                assert below is not None
                walk(below, f"{name} {member}")

    walk(cli, "engram")
    return found


def _typed(page: Path) -> list[str]:
    """The commands that a page names: in a sentence, on a line of their own, or behind a prompt."""
    named = re.findall(r"(?<!`)`(engram [^`]+)`(?!`)", _without_code(page).replace("\n", " "))
    return named + re.findall(r"^(?:    |\$ )(engram .*?)(?:\s+#.*)?$", page.read_text(encoding="utf-8"), re.MULTILINE)


def _wrong_words(typed: str) -> list[str]:
    """The words of a typed command that Engram does not know: a command or an option."""
    words, command = typed.split()[1:], cast(click.Command, cli)
    context = click.Context(cli, info_name="engram")
    known = {"--json", "--workspace", "--store", "--utc", "--help", "-h"}
    while words and isinstance(command, click.Group):
        if words[0] in known:
            words = words[1 if words[0] in ("--json", "--utc") else 2 :]
            continue
        if words[0].startswith(("-", "…")):
            break
        try:
            name, below, words = command.resolve_command(context, words)
        except click.UsageError:
            return [words[0]]
        assert below is not None
        command, context = below, click.Context(below, info_name=name, parent=context)
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    if isinstance(command, click.Group) and "run" in command.commands:
        # `engram dream` is `engram dream run`.
        options |= {name for parameter in command.commands["run"].params for name in parameter.opts}
    given = [word.partition("=")[0].rstrip(",.;") for word in words if re.match(r"--?[a-z]", word)]
    return [word for word in given if word not in options | known]


@pytest.mark.requirement("DOCS-7")
def test_every_command_and_option_that_a_page_names_exists() -> None:
    named = [(page.name, typed) for page in PAGES for typed in _typed(page)]
    assert len(named) > 400
    assert [(page, typed, wrong) for page, typed in named if (wrong := _wrong_words(typed))] == []
    assert _wrong_words("engram remeber x") == ["remeber"]
    assert _wrong_words("engram --store a.db recall x --maximum 3") == ["--maximum"]


def _help(command: click.Command) -> list[str]:
    options = [parameter.help or "" for parameter in command.params if isinstance(parameter, click.Option)]
    return [command.help or "", *options]
