"""What all commands share: their common options, opening the store, and their results."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ...errors import InvalidInput, NotFound, SessionEnded, Unauthorized, WorkspaceNotFound
from .reading import STORE_WIDE, only_reads, open_to_read, path
from .screen import META, one_line, print_json, say, style

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

    from ...client import Engram
    from ...config import Config

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPENED = f"{META}.opened"
#: Commands that change what is in a store already. Without a store they have nothing to do, so they make none.
_CHANGING = ("embed", "forget", "message inbox", "reindex")
_FOUND = f"{META}.found"

#: Aliases of commands by group: plurals, and the library's names. Help does not list them.
ALIASES: dict[str, dict[str, str]] = {
    "": {
        "blocks": "block",
        "dreams": "dream",
        "embedders": "embedder",
        "lease": "lock",
        "leases": "lock",
        "locks": "lock",
        "memories": "memory",
        "messages": "message",
        "sessions": "session",
        "tokens": "token",
        "workspaces": "workspace",
    },
    "block": {"get": "show", "view": "show", "update": "set", "archive_overflow": "archive"},
    "lock": {"break_lease": "break"},
    "memory": {"get": "show", "update": "edit"},
    "session": {"register": "start", "heartbeat": "beat", "complete": "done", "get": "show"},
    "world": {"get": "show"},
}


class SessionType(click.types.StringParamType):
    """A session: its id, the beginning or end of its id, or its name. `Command` replaces it with the whole id."""

    name = "session"


SESSION = SessionType()


def _remember(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    # An option may come before or after the command's name. The last one wins.
    if value is not None and value is not False:
        ctx.meta[f"{META}.{parameter.name}"] = value


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(["--json"], is_flag=True, expose_value=False, callback=_remember, help="Print JSON."),
        click.Option(["--workspace"], metavar="NAME", expose_value=False, callback=_remember, help="Workspace to use."),
        click.Option(
            ["--store"],
            metavar="URL",
            expose_value=False,
            callback=_remember,
            help="Store to use: a path, postgresql://…, or https://… of a server.",
        ),
    ]


COMMON_OPTIONS = _common_options()


class Command(click.Command):
    """A command with the common options after its own, and with whole session ids in place of their short forms."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())

    def invoke(self, ctx: click.Context) -> Any:
        try:
            done = self._invoke(ctx)
        except click.Abort as error:
            # click raises it in place of the end of the input.
            if isinstance(error.__context__, EOFError) and not sys.stdin.isatty():
                click.echo(err=True)  # the question has no end of line
                if any("--yes" in parameter.opts for parameter in self.params):
                    error.args = ("Stopped: nobody answered. --yes does not ask.",)
            raise
        except WorkspaceNotFound:
            raise  # it says the same
        except NotFound as error:
            if told := _empty_hint(ctx):
                error.args = (f"{error}\n{told}",)
            raise
        except SessionEnded as error:
            beat = typed("session", "beat", "--session", str(ctx.params.get("session_id")))
            error.args = (f"{error} `{beat}` does that.",)
            raise
        except Unauthorized as error:
            error.args = (f"{error}{_token_origin(ctx)}",)
            raise
        if told := _empty_hint(ctx):
            say(style(told, dim=True), err=True)
        return done

    def _invoke(self, ctx: click.Context) -> Any:
        # Not while the options are parsed: --workspace and --store may come after --session.
        for parameter in self.params:
            text = ctx.params.get(parameter.name or "")
            if isinstance(parameter.type, SessionType) and text is not None:
                with _naming([(parameter, "session id")]):
                    ctx.params[parameter.name or ""] = _whole_id(ctx, text)
        names = [(each, each.name) for each in self.params if each.name]
        with _naming([*names, *((each, name.replace("_", " ")) for each, name in names)]):
            return super().invoke(ctx)


def _token_origin(ctx: click.Context) -> str:
    """Where the token is from that a server has refused, and how to get another."""
    settings = load_settings(ctx, warn=False)
    if not (settings.is_remote and settings.token):
        return ""
    origin = settings.origins["token"]
    place = "ENGRAM_TOKEN" if origin == "environment" else f"`token` in {origin}"
    return (
        f" The token is from {place}. Make one with `engram token create NAME` where the store is; put it into {place}."
    )


def found_something(ctx: click.Context) -> None:
    """The command needs no advice about an empty workspace."""
    ctx.meta[_FOUND] = True


def _empty_hint(ctx: click.Context) -> str:
    """What would fill the workspace, if it is empty and a person may want to know."""
    eng: Engram | None = ctx.meta.get(_OPENED)
    if eng is None or as_json(ctx) or ctx.meta.get(_FOUND):
        return ""
    from .empty import hint

    # A command that reads a store that is not there has opened an empty one in its place.
    return hint(path(ctx), eng, load_settings(ctx, warn=False))


@contextmanager
def _naming(names: Sequence[tuple[click.Parameter, str]]) -> Iterator[None]:
    """Replace the library's name for a value with the option's name in an error message."""
    try:
        yield
    except InvalidInput as error:
        message = str(error)
        for parameter, name in names:
            if isinstance(parameter, click.Option) and message.startswith(f"{name} "):
                error.args = (f"{parameter.opts[0]}{message.removeprefix(name)}",)
                break
        raise


class Group(click.Group):
    """A group that knows aliases of its commands and suggests a command for a mistyped one."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = ALIASES.get(path(ctx), {}).get(args[0], args[0])
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            from difflib import get_close_matches

            close = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"`{ctx.command_path} --help` lists the commands."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, [name, *args[1:]])


def command(name: str | None = None) -> Callable[[Callable[..., Any]], Command]:
    """A command outside any group."""
    return click.command(name, cls=Command)


def limit_option(things: str, default: int) -> Callable[[_Function], _Function]:
    """`--limit`."""
    text = f"Maximum number of {things}; 0: all."
    return click.option("-n", "--limit", type=click.IntRange(min=0), default=default, show_default=True, help=text)


def session_option(*, required: bool = True, name: str = "session_id") -> Callable[[_Function], _Function]:
    """`--session`, or else the environment variable ENGRAM_SESSION."""
    return click.option(
        "--session",
        name,
        type=SESSION,
        envvar="ENGRAM_SESSION",
        metavar="ID",
        required=required,
        shell_complete=complete_session,
        help="Session that acts: its id, a unique beginning or end of it, or its name.  [env: ENGRAM_SESSION]",
    )


def utc_option(function: _Function) -> _Function:
    """`--utc`, for commands that print times."""
    # Eager: a time that is given as an option is read in the same time zone.
    return click.option(
        "--utc", is_flag=True, is_eager=True, expose_value=False, callback=_remember, help="Show times in UTC."
    )(function)


def explained(error: click.UsageError) -> str:
    """The message of a usage error, with advice."""
    # Brackets in the name of an argument say that it is optional, which would contradict the message.
    message = re.sub(
        r"^(Missing argument|Invalid value for) '\[([^\]]+)\](?:\.\.\.)?'", r"\1 '\2'", error.format_message()
    )
    if isinstance(error, click.MissingParameter) and error.param and isinstance(error.param.type, SessionType):
        variable = "Set ENGRAM_SESSION, or start" if error.param.envvar else "Start"
        message = f"{message} {variable} a session: `engram session start TYPE SUMMARY` prints its id."
        if isinstance(error.param, click.Argument) and error.ctx:
            command = f"{error.ctx.command_path} {error.param.make_metavar(error.ctx).strip('[]')}"
            message += f" For one of those there are: `engram session list --all` shows the ids for `{command}`."
        return message
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        return f"{error.message} Did you mean {error.possibilities[0]!r}?"
    return message


def open_store(ctx: click.Context, *, warn: bool = True) -> Engram:
    """The store that the options, the environment and the settings name. It is opened once, and closed at the end.

    A command that only reads does not create it: see `reading`. Neither does one that changes what is there. One that
    only reads refuses a workspace that does not exist, because an empty result would hide a mistyped name.
    """
    from ...client import Engram, lost_store

    eng: Engram | None = ctx.meta.get(_OPENED)
    if eng is None:
        settings = load_settings(ctx, warn=warn)
        reads = only_reads(ctx)
        is_needed = reads or path(ctx) in _CHANGING
        eng = ctx.meta[_OPENED] = open_to_read(ctx, settings) if is_needed else Engram(settings=settings)
        ctx.call_on_close(eng.close)
        if lost := lost_store(eng):
            say(f"{style('Warning:', fg='yellow')} {lost}", err=True)
        if reads and path(ctx) not in STORE_WIDE and settings.origins["workspace"] in ("argument", "environment"):
            eng.require_workspace()
    return eng


def _whole_id(ctx: click.Context, text: str) -> str:
    return open_store(ctx).sessions.resolve(text)


def load_settings(ctx: click.Context, *, warn: bool = True) -> Config:
    """The settings, with the common options as arguments. Warnings about ignored ones go to standard error."""
    from ...config import load

    with _naming([(each, {"store": "url"}.get(each.name or "", each.name or "")) for each in COMMON_OPTIONS]):
        found = load(url=ctx.meta.get(f"{META}.store"), workspace=ctx.meta.get(f"{META}.workspace"))
    if warn:
        for notice in found.notices:
            say(f"{style('Warning:', fg='yellow')} {notice}", err=True)
    return found


def json_wanted(arguments: Sequence[str]) -> bool:
    """Whether --json was given, even if the arguments cannot be parsed."""
    before_text = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before_text


def as_json(ctx: click.Context) -> bool:
    return bool(ctx.meta.get(f"{META}.json"))


def result(ctx: click.Context, value: object, text: str | Callable[[], str]) -> None:
    """Print the result of a command: as JSON, or as text."""
    if as_json(ctx):
        print_json(value)
        return
    shown = text() if callable(text) else text
    if shown:
        say(shown)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for `show(done, total)`. It appears with the first call, and only on a terminal."""
    with ExitStack() as stack:
        bars: list[ProgressBar[int]] = []

        def show(done: int, total: int) -> None:
            if not sys.stderr.isatty():
                return
            if not bars:
                bars.append(stack.enter_context(click.progressbar(length=max(total, 1), label=label, file=sys.stderr)))
            bars[0].length = max(total, 1)
            bars[0].update(done - bars[0].pos)

        yield show


def text_from(argument: str | None, current: str = "", what: str = "TEXT") -> str:
    """Text given as an argument, as `-` (standard input), or, with neither, written in $EDITOR."""
    if argument == "-":
        return _without_last_newline(sys.stdin.read())
    if argument is not None:
        return argument
    return edited(current, f"Give {what}, or - to read it from standard input.")


def edited(current: str, instead: str) -> str:
    """The text as the user edits it in $EDITOR; `instead` says how to give the text without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(f"The editor needs a terminal. {instead}")
    try:
        changed = click.edit(current, extension=".md", require_save=True)
    except (OSError, ValueError) as error:  # the editor's file is gone or is no text, or $EDITOR cannot be parsed
        raise click.ClickException(f"The editor left no text: {error}") from None
    if changed is None:
        raise click.ClickException("The editor was closed without saving; nothing was changed.")
    return _without_last_newline(changed)


def _without_last_newline(text: str) -> str:
    """Programs and editors end the last line; that line break is not part of the text."""
    return text.removesuffix("\n").removesuffix("\r")


def typed(*words: str) -> str:
    """A command for the user to type, with the store and workspace that were given as options. Passwords are hidden."""
    import shlex

    from ...store_url import masked

    meta = click.get_current_context().meta
    given = [
        word
        for name in ("store", "workspace")
        if (value := meta.get(f"{META}.{name}"))
        for word in (f"--{name}", masked(value))
    ]
    return shlex.join(["engram", *words, *given])


def duration_type(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Seconds, from 90, 30s, 15m, 1h30m or 1d."""
    from ...durations import duration

    return None if value is None else duration(value, parameter.opts[0])


def moment_type(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A time. 30s, 15m, 2h or 7d mean that long ago. A time without a zone is local, or UTC with --utc."""
    if value is None:
        return None
    if not re.fullmatch(r"(?:[\d.]+[smhd])+", value.lower()):
        given = value if ctx.meta.get(f"{META}.utc") else _with_zone(value)
        _check_moment(given, value, parameter.opts[0])
        return given
    from ...clock import Clock, later
    from ...durations import duration

    return later(Clock().now(), -duration(value, parameter.opts[0]))


def _check_moment(given: str, value: str, option: str) -> None:
    """InvalidInput, with all forms of a time, unless it is one."""
    from ... import checks

    try:
        checks.moment(given, option)
    except InvalidInput as error:
        if "write a time" not in str(error):
            raise
        raise InvalidInput(
            f"{option} is {value!r}; write a time such as 2026-11-15T18:36, a date such as 2026-11-15, or how long "
            "ago, such as 2h or 7d."
        ) from None


def _with_zone(value: str) -> str:
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(value)
        return value if moment.tzinfo else moment.astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        return value  # the library says what is wrong with it


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
        return []  # the Tab key must not print an error into the command line
    # A value has to be exact, so a value that cannot be printed safely is not offered.
    return [
        CompletionItem(value, help=one_line(help))
        for value, help in found
        if value.startswith(incomplete) and one_line(value, len(value)) == value
    ]
