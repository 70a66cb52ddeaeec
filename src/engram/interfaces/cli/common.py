"""What all commands share: their common options, opening the store, and printing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ...client import Engram
    from ...config import Config

_Function = TypeVar("_Function", bound=Callable[..., Any])

_META = "engram"


def _remember(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    # Given before or after the command's name, it means the same; the one nearest to the command wins.
    if value is not None and value is not False:
        ctx.meta[f"{_META}.{parameter.name}"] = value


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(["--json"], is_flag=True, expose_value=False, callback=_remember, help="Print JSON."),
        click.Option(
            ["--workspace"], metavar="NAME", expose_value=False, callback=_remember, help="Whose memory to use."
        ),
        click.Option(
            ["--store"], metavar="URL", expose_value=False, callback=_remember, help="A path or postgresql://…"
        ),
    ]


COMMON_OPTIONS = _common_options()


class Command(click.Command):
    """A command with the common options after its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())


class Group(click.Group):
    command_class = Command


def command(name: str | None = None) -> Callable[[Callable[..., Any]], Command]:
    """A command that stands by itself, outside any group."""
    return click.command(name, cls=Command)


def session_option(*, required: bool = True) -> Callable[[_Function], _Function]:
    """`--session`, with ENGRAM_SESSION standing in for it."""
    return click.option(
        "--session",
        "session_id",
        envvar="ENGRAM_SESSION",
        metavar="ID",
        required=required,
        shell_complete=complete_session,
        help="The session that acts.",
    )


def open_store(ctx: click.Context) -> Engram:
    """The store the options, the environment and the settings name; closed when the command ends."""
    from ...client import Engram

    eng = Engram(settings=load_settings(ctx))
    ctx.call_on_close(eng.close)
    return eng


def load_settings(ctx: click.Context) -> Config:
    """The settings, with the common options as arguments."""
    from ...config import load

    return load(url=ctx.meta.get(f"{_META}.store"), workspace=ctx.meta.get(f"{_META}.workspace"))


def json_wanted(arguments: Sequence[str]) -> bool:
    """Whether JSON was asked for, also when the arguments were too wrong to parse."""
    before_text = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before_text


def as_json(ctx: click.Context) -> bool:
    return bool(ctx.meta.get(f"{_META}.json"))


def print_json(value: object) -> None:
    import json

    from ...records import plain

    click.echo(json.dumps(plain(value), ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def result(ctx: click.Context, value: object, text: str | Callable[[], str]) -> None:
    """The outcome of a command: as JSON, or as the text made for people."""
    if as_json(ctx):
        print_json(value)
        return
    shown = text() if callable(text) else text
    if shown:
        say(shown)


def say(text: str) -> None:
    """Print; colours only where they can be seen, and never where they are not wanted."""
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def print_stored(text: str) -> None:
    """Print stored text by itself: harmless on a terminal; a pipe gets it exactly, but for a line break at the end."""
    if text:
        click.echo(stored(text), nl=not text.endswith("\n"), color=True)


def stored(text: str) -> str:
    """Stored text for the screen, where its control characters could drive the terminal."""
    if not sys.stdout.isatty():
        return text
    from ...text import visible

    return "\n".join(visible(line) for line in text.split("\n"))


def one_line(text: str | None, longest: int = 60) -> str:
    """Stored text as a cell of a table."""
    from ...text import one_line as cut

    return cut(text or "", longest)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns under a bold head."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([click.style(shown[0], bold=True), *shown[1:]])


def fields(values: Mapping[str, object]) -> str:
    """One thing in full, a line for each of its parts."""
    width = max(len(name) for name in values)
    return "\n".join(
        f"{click.style(name.ljust(width), bold=True)}  {value}" for name, value in values.items() if value is not None
    )


def coloured_diff(diff: str) -> str:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    lines = (
        click.style(line, fg=colours.get(line[:1]), bold=line.startswith(("+++", "---"))) for line in diff.split("\n")
    )
    return "\n".join(lines)


def text_from(argument: str | None, current: str = "", what: str = "TEXT") -> str:
    """Text given as an argument, as `-` (standard input), or, with neither, written in $EDITOR."""
    if argument == "-":
        return sys.stdin.read()
    if argument is not None:
        return argument
    if not sys.stdin.isatty():
        raise click.UsageError(f"Give {what}, or - to read it from standard input.")
    return edited(current)


def edited(current: str) -> str:
    """What the user makes of the text in $EDITOR."""
    changed = click.edit(current, extension=".md", require_save=True)
    if changed is None:
        raise click.ClickException("The editor was closed without saving; nothing was changed.")
    return changed


def duration_type(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Seconds, from 90, 30s, 15m, 2h or 1d."""
    from ...config import duration

    return None if value is None else duration(value, parameter.opts[0])


def moment_type(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A time as it is given, or, from 30s, 15m, 2h or 7d, the time so long ago."""
    if value is None or not re.fullmatch(r"[\d.]+[smhd]", value.lower()):
        return value
    from ...clock import Clock, later
    from ...config import duration

    return later(Clock().now(), -duration(value, parameter.opts[0]))


def complete_session(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _complete(ctx, lambda eng: [(each.id, each.summary) for each in eng.sessions.list(limit=50)], incomplete)


def complete_block(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _complete(
        ctx, lambda eng: [(each.name, f"version {each.version}") for each in eng.blocks.list()], incomplete
    )


def _complete(
    ctx: click.Context, values: Callable[[Engram], list[tuple[str, str]]], incomplete: str
) -> list[CompletionItem]:
    from ...errors import EngramError

    try:
        found = values(open_store(ctx))
    except EngramError:
        return []  # a Tab key must never print an error into somebody's command line
    return [CompletionItem(value, help=one_line(help)) for value, help in found if value.startswith(incomplete)]
