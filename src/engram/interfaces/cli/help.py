"""`engram help`: the same text as `--help`."""

from __future__ import annotations

import click

from .common import command, result


@command()
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command, such as `engram help lock claim`."""
    shown = ctx.find_root()
    for name in names:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"`{shown.command_path}` has no commands.")
        _, member, _ = shown.command.resolve_command(shown, [name])
        assert member is not None
        shown = click.Context(member, info_name=member.name, parent=shown)
    text = shown.get_help()
    result(ctx, {"help": text}, text)
