"""What all commands share: their common options, opening the store, and their results."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from .reading import only_reads, open_to_read
from .screen import one_line, print_json, say, style

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
        click.Option(["--workspace"], metavar="NAME", expose_value=False, callback=_remember, help="Workspace to use."),
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


def open_store(ctx: click.Context, *, warn: bool = True) -> Engram:
    """The store the options, the environment and the settings name; closed when the command ends.

    A command that only reads does not make it: see `reading`.
    """
    from ...client import Engram

    settings = load_settings(ctx, warn=warn)
    eng = open_to_read(ctx, settings) if only_reads(ctx) else Engram(settings=settings)
    ctx.call_on_close(eng.close)
    return eng


def load_settings(ctx: click.Context, *, warn: bool = True) -> Config:
    """The settings, with the common options as arguments; what was ignored is told on standard error."""
    from ...config import load

    found = load(url=ctx.meta.get(f"{_META}.store"), workspace=ctx.meta.get(f"{_META}.workspace"))
    if warn:
        for notice in found.notices:
            say(f"{style('Warning:', fg='yellow')} {notice}", err=True)
    return found


def json_wanted(arguments: Sequence[str]) -> bool:
    """Whether JSON was asked for, also when the arguments were too wrong to parse."""
    before_text = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before_text


def as_json(ctx: click.Context) -> bool:
    return bool(ctx.meta.get(f"{_META}.json"))


def result(ctx: click.Context, value: object, text: str | Callable[[], str]) -> None:
    """The outcome of a command: as JSON, or as the text made for people."""
    if as_json(ctx):
        print_json(value)
        return
    shown = text() if callable(text) else text
    if shown:
        say(shown)


def text_from(argument: str | None, current: str = "", what: str = "TEXT") -> str:
    """Text given as an argument, as `-` (standard input), or, with neither, written in $EDITOR."""
    if argument == "-":
        return _without_last_newline(sys.stdin.read())
    if argument is not None:
        return argument
    return edited(current, f"Give {what}, or - to read it from standard input.")


def edited(current: str, instead: str) -> str:
    """What the user makes of the text in $EDITOR; `instead` says how to give the text without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(f"The editor needs a terminal. {instead}")
    changed = click.edit(current, extension=".md", require_save=True)
    if changed is None:
        raise click.ClickException("The editor was closed without saving; nothing was changed.")
    return _without_last_newline(changed)


def _without_last_newline(text: str) -> str:
    """Programs and editors end the last line; that line break is not part of the text."""
    return text.removesuffix("\n").removesuffix("\r")


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
    from ...client import Engram
    from ...errors import EngramError

    try:
        with Engram(settings=load_settings(ctx, warn=False), create=False) as eng:
            found = values(eng)
    except EngramError:
        return []  # a Tab key must never print an error into somebody's command line
    # A value has to be exact, so one that is not fit for a screen is not offered.
    return [
        CompletionItem(value, help=one_line(help))
        for value, help in found
        if value.startswith(incomplete) and one_line(value, len(value)) == value
    ]
