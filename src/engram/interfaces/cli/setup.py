"""`engram init`, `engram config …` and `engram completion`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from .common import Group, as_json, command, load_settings, open_store, result
from .screen import table

if TYPE_CHECKING:
    from ...config import Config


@command()
@click.pass_context
def init(ctx: click.Context) -> None:
    """Make the store, or bring it up to date, and say where it is."""
    eng = open_store(ctx)
    where = shown_url(eng.settings)
    result(
        ctx,
        {"store": where, "workspace": eng.workspace_name},
        f"The store is ready: {where}, workspace {eng.workspace_name}.",
    )


@click.group(cls=Group)
def config() -> None:
    """Settings, and where they come from.

    Arguments come first, then ENGRAM_… in the environment, the project's .engram.toml, the user's config.toml, and
    defaults.
    """


@config.command()
@click.pass_context
def show(ctx: click.Context) -> None:
    """Every setting, its value, its origin, and whether a project's file may set it; secrets are masked."""
    from ... import config as settings
    from ...store_url import masked

    # The table says what was ignored, too.
    found = load_settings(ctx, warn=as_json(ctx))
    values = {**found._asdict(), "url": shown_url(found), "llm_base_url": masked(found.llm_base_url)}
    rows = [
        {
            "name": each.name,
            "value": values[each.name],
            "origin": found.origins[each.name],
            "project_file": each.project_file,
            "help": each.help,
        }
        for each in settings.SETTINGS
    ]
    cells = [(row["name"], _shown(row["value"]), row["origin"], row["project_file"]) for row in rows]
    head = ("setting", "value", "from", "may a project's file set it?")
    result(ctx, rows, lambda: "\n".join([table(head, cells, whole=("value", "from")), *found.notices]))


@config.command()
@click.pass_context
def path(ctx: click.Context) -> None:
    """Where the settings files are; the user's may still have to be written."""
    from ... import config as settings

    user = os.path.join(settings.config_dir(), settings.USER_FILE)
    project = settings.find_project_file(os.getcwd())
    result(ctx, {"user": user, "project": project}, "\n".join(filter(None, [user, project])))


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell's completion script.

    bash and zsh: eval "$(engram completion bash)" in the start-up file; fish: engram completion fish | source.
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


def _shown(value: object) -> str:
    return f"{value:g}s" if isinstance(value, float) else str(value)
