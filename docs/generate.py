"""Writes docs/cli.md from the commands' own help. `make docs` runs it; a test compares the page with what it makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from engram.interfaces.cli import cli

PAGE = Path(__file__).parent / "cli.md"

_HEAD = """\
# The command line

This page is made from the commands' own help by `make docs`.

Every command takes `--json`, `--workspace` and `--store`, before or after its name. With `--json` exactly one JSON
document is printed on standard output: the result, or `{"error": {"code", "message", "details"}}`.

A session can be given by its id, by a unique beginning or end of its id, or by its name. Lists show short ids, which
can be typed back; `--json` has the whole ones. A text that fits several sessions is an error that lists them.

Times are shown in your time zone (`TZ`). A time that you give without a zone is read in the same zone. With `--utc`,
and in JSON, times are UTC. On a terminal, tables fit its width; a pipe gets everything.

The library's nouns and verbs work, too: `engram sessions register` is `engram session start`.

| exit code | meaning |
| --- | --- |
| 0 | fine |
| 1 | failed: the store cannot be used, a log is broken, an editor was closed without saving |
| 2 | wrong use: an unknown option, a value that can never be right, a short id that fits several sessions |
| 3 | not found: a workspace, session, lease, block, version or recipient |
| 4 | conflict: a lease is held or lost, a version is stale, a block exists, the store is busy |
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


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
