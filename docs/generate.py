"""Writes what the documents take from the product.

That is: docs/cli.md from the commands' help, docs/reference from signatures, tables and the schema, the table of
settings in docs/configuration.md, the README's picture, and the output of the README's examples. `make docs` runs it.
Tests compare all of them with what it makes.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import click
from docs.generators import errors, library, mcp_tools, operations, schema

from engram.config import SETTINGS
from engram.interfaces.cli import cli

PAGE = Path(__file__).parent / "cli.md"
SETTINGS_PAGE = Path(__file__).parent / "configuration.md"
_TABLE = "| setting | in the environment | default | meaning | in a project's file |\n| --- | --- | --- | --- | --- |\n"
#: The pages below docs/ that are generated as a whole, by path.
REFERENCE = {
    "reference/library.md": library.page,
    "reference/mcp-tools.md": mcp_tools.page,
    "reference/operations.md": operations.page,
    "reference/errors.md": errors.page,
    "reference/schema.md": schema.page,
}

_HEAD = """\
# The command line

`make docs` writes this page from the commands' own help.

Every command takes `--json`, `--workspace` and `--store`, before or after its name. With `--json` a command prints
exactly one JSON document on standard output: the result, or `{"error": {"code", "message", "details"}}`.

A session can be given by its id, by a unique beginning or end of its id, or by its name. Lists show short ids, which
can be typed back; `--json` has the whole ones. A text that fits several sessions is an error that lists them.

Times are shown in your time zone (`TZ`). A time that you give without a zone is read in the same zone. With `--utc`,
and in JSON, times are UTC. On a terminal, tables fit its width; a pipe gets everything.

The library's nouns and verbs work, too: `engram sessions register` is `engram session start`.

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | failed: the store cannot be used, a log is broken, an editor was closed without saving |
| 2 | wrong use: an unknown option, a value that can never be right, a short id that fits several sessions |
| 3 | not found: a store, workspace, session, lease, block, version or recipient |
| 4 | conflict: a lease is held or lost, a version is stale, a block exists, a pass is running, the store is busy |
"""


def page() -> str:
    root = click.Context(cli, info_name="engram", terminal_width=100, **cli.context_settings)
    return _HEAD + "".join(f"\n## {title}\n\n```text\n{help}\n```\n" for title, help in _commands(root))


def _commands(context: click.Context) -> Iterator[tuple[str, str]]:
    """Each command's full name and help text, groups before their members."""
    command = context.command
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None
            yield from _commands(click.Context(member, info_name=name, parent=context))


def settings_page() -> str:
    """The page on settings, its table made from their declarations."""
    before, _, rest = SETTINGS_PAGE.read_text(encoding="utf-8").partition(_TABLE)
    after = rest.partition("\n\n")[2]
    rows = ""
    for each in SETTINGS:
        default = f"`{each.shown(each.default)}`" if each.default != "" else ""
        rows += f"| `{each.name}` | `ENGRAM_{each.name.upper()}` | {default} | {each.help} | {each.project_file} |\n"
    return f"{before}{_TABLE}{rows}\n{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    for path, made in REFERENCE.items():
        (PAGE.parent / path).write_text(made(), encoding="utf-8")
    SETTINGS_PAGE.write_text(settings_page(), encoding="utf-8")
    for script in ("picture.py", "readme.py"):
        runpy.run_path(str(PAGE.with_name(script)), run_name="__main__")
