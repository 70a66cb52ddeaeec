"""The command line, for people and for agents.

Each group of commands is a module that is imported only when it is used, and imports the library only when it runs:
`engram --help` must not load a database. All errors are reported here, in one shape and with an exit code for
scripts: 0 success, 1 failure, 2 wrong usage, 3 not found, 4 conflict.
"""

from __future__ import annotations

import sys
from importlib import import_module
from keyword import iskeyword

import click

from ..._version import VERSION
from ...errors import EngramError
from . import output
from .common import COMMON_OPTIONS, Group, explained, json_wanted
from .screen import hanging, one_line, print_json, say, style

#: Where each command lives.
_MODULES = {
    "activity": "overview",
    "backup": "store",
    "block": "blocks",
    "brief": "report",
    "completion": "setup",
    "config": "setup",
    "context": "dream",
    "copy": "moving",
    "decrypt": "store",
    "demo": "demo",
    "doctor": "doctor",
    "dream": "dream",
    "embed": "memory",
    "embedder": "embedder",
    "encrypt": "store",
    "export": "moving",
    "forget": "forget",
    "graph": "overview",
    "harnesses": "overview",
    "help": "help",
    "history": "memory",
    "import": "importing",
    "init": "init",
    "install": "install",
    "lock": "locks",
    "mcp": "mcp",
    "memory": "memory",
    "message": "messages",
    "open": "browser",
    "recall": "memory",
    "receipts": "forget",
    "reindex": "reindex",
    "rekey": "store",
    "remember": "memory",
    "restore": "store",
    "say": "memory",
    "serve": "serve",
    "session": "sessions",
    "sitrep": "report",
    "stats": "report",
    "timeline": "memory",
    "token": "tokens",
    "uninstall": "install",
    "upgrade": "store",
    "usage": "dream",
    "vacuum": "store",
    "version": "setup",
    "workspace": "workspaces",
    "world": "blocks",
}


class LazyGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(cmd_name)
        if module is None:
            return None
        # A word of the language cannot be the name of a function.
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(import_module(f".{module}", __package__), name)
        return command


@click.command("engram", cls=LazyGroup, params=COMMON_OPTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="engram")
def cli() -> None:
    """One memory for all your AI agents.

    Agents see who is working on what, avoid each other's files, and remember what was said and learnt. Start with
    `engram init`, or watch `engram demo`. `engram help COMMAND` explains a command.
    """


def main() -> None:
    output.prepare()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    with output.guarded() as guard:
        guard.code = _run(arguments)
    return guard.code


def _run(arguments: list[str]) -> int:
    try:
        result = cli.main(arguments, prog_name="engram", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except EngramError as error:
        _report(arguments, error.code, str(error), error.details())
        return error.exit_code
    except click.UsageError as error:
        message = explained(error)
        if not json_wanted(arguments):
            say(_usage(error, message), err=True)
        else:
            _report(arguments, "usage", message, {})
        return 2
    except click.ClickException as error:
        _report(arguments, "failed", error.format_message(), {})
        return 1
    except (click.Abort, KeyboardInterrupt) as error:
        message = str(error) or "Stopped."
        if json_wanted(arguments):
            _report(arguments, "stopped", message, {})
        else:
            say(message, err=True)
        return 1


def _usage(error: click.UsageError, message: str) -> str:
    """The usage line that click makes, with our message."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return message  # the whole help
    from io import StringIO

    shown = StringIO()
    error.show(shown)
    # The message may quote an argument, and it is all that follows.
    usage = shown.getvalue().partition("Error: ")[0]
    return f"{usage}Error: {one_line(message, 2_000)}"


def _report(arguments: list[str], code: str, message: str, details: dict[str, object]) -> None:
    """Report an error: with --json a document on standard output, else a line on standard error."""
    if json_wanted(arguments):
        print_json({"error": {"code": code, "message": message, "details": details}})
    else:
        say(f"{style('Error:', fg='red', bold=True)} {hanging(message)}", err=True)
