"""`engram config …`, `engram completion` and `engram version`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from ..._version import VERSION
from .common import Group, as_json, command, load_settings, result
from .screen import table

if TYPE_CHECKING:
    from ...config import Config


@click.group(cls=Group)
def config() -> None:
    """Show the settings and where they come from.

    The first of these that has a setting decides: options, ENGRAM_… in the environment, the project's .engram.toml,
    the user's config.toml, the default.
    """


@config.command()
@click.pass_context
def show(ctx: click.Context) -> None:
    """Show every setting: its value, its origin, and whether a project's file may set it. Secrets are masked."""
    from ... import config as settings
    from ...store_url import masked

    # The table says what was ignored, too.
    found = load_settings(ctx, warn=as_json(ctx))
    declared = settings.SETTINGS
    values = {**found._asdict(), "url": shown_url(found), "llm_base_url": masked(found.llm_base_url)}
    values |= {each.name: each.shown(values[each.name]) for each in declared if each.is_secret}
    rows = [
        {
            "name": each.name,
            "value": values[each.name],
            "origin": found.origins[each.name],
            "project_file": each.project_file,
            "help": each.help,
        }
        for each in declared
    ]
    cells = [
        (each.name, each.shown(values[each.name]), found.origins[each.name], each.project_file) for each in declared
    ]
    head = ("setting", "value", "from", "may a project's file set it?")
    result(ctx, rows, lambda: "\n".join([table(head, cells, whole=("value", "from")), *found.notices]))


@config.command()
@click.pass_context
def path(ctx: click.Context) -> None:
    """Print the paths of the settings files. The user's file may not exist yet."""
    from ... import config as settings

    user = os.path.join(settings.config_dir(), settings.USER_FILE)
    project = settings.find_project_file(os.getcwd())
    result(ctx, {"user": user, "project": project}, "\n".join(filter(None, [user, project])))


@command()
@click.pass_context
def version(ctx: click.Context) -> None:
    """Print the version, as `engram --version` does."""
    result(ctx, {"version": VERSION}, f"engram, version {VERSION}")


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell's completion script.

    For bash and zsh, put eval "$(engram completion bash)" into the start-up file. For fish, use engram completion
    fish | source.
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(root, {}, "engram", "_ENGRAM_COMPLETE").source()
    result(ctx, {"shell": shell, "script": script}, script)


def shown_url(found: Config) -> str:
    """The store's address without its password."""
    if not found.url.startswith("postgresql://"):
        return found.url
    from ...store_url import masked

    return masked(found.url)
