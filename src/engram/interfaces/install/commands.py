"""The command lines in settings files: how to write and recognise them."""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import Any, NamedTuple

from ..._version import DISTRIBUTION
from ...errors import InvalidInput, SettingsUnusable
from ...store_url import masked

HOOK = "engram-hook"
SERVER = "engram"
#: The command of that program that serves MCP.
SERVE = "mcp"
#: The options of both programs that `engram install` writes.
OPTIONS = ("--workspace", "--store")


class Commands(NamedTuple):
    """The programs of one installation, by absolute path: a harness has a search path and a folder of its own."""

    hook: str
    server: str
    #: `--workspace` and `--store` with their values, if they override the settings.
    options: tuple[str, ...] = ()

    def hook_line(self, harness: str) -> str:
        """The hook as one line for a shell: harnesses run it in a shell."""
        words = [self.hook, harness, *self.options]
        if os.name == "nt":
            import subprocess

            return subprocess.list2cmdline(words)
        return shlex.join(words)

    def server_arguments(self) -> list[str]:
        return [SERVE, *self.options]


def carried(workspace: str | None, store: str | None) -> tuple[str, ...]:
    """The options of the installed commands. The hook and the server both accept them.

    InvalidInput for an address with a password: other users of the machine can see the arguments of a program.
    """
    if store is not None and masked(store) != store:
        raise InvalidInput(
            "The store's address has a password, which would be visible to every user of this machine. Leave --store "
            "out here, and set url in Engram's config.toml (`engram config path` shows where it is) or ENGRAM_URL."
        )
    chosen = zip(OPTIONS, (workspace, store), strict=True)
    return tuple(word for name, value in chosen if value is not None for word in (name, value))


def this_installation() -> Commands:
    """The programs that were installed together with the running one."""
    import sysconfig

    suffix = ".exe" if os.name == "nt" else ""
    # The interpreter's own folder first: a link to the program, as pipx makes them, may move; the environment stays.
    folders = (os.path.dirname(sys.executable), sysconfig.get_path("scripts"), os.path.dirname(sys.argv[0]))
    for folder in map(os.path.abspath, folders):
        if os.path.isfile(os.path.join(folder, SERVER + suffix)):
            return Commands(os.path.join(folder, HOOK + suffix), os.path.join(folder, SERVER + suffix))
    raise SettingsUnusable(
        f"The program {SERVER!r} is not in any of {', '.join(folders)}, so a harness could not start it. "
        f"Install Engram as a package (uv tool install {DISTRIBUTION}), then try again."
    )


def is_hook(line: object) -> bool:
    """Whether a command line starts Engram's hook, of any installation."""
    words = _words(line)
    return bool(words) and _program(words[0]) == HOOK


def is_wrapped_hook(line: object, harness: str) -> bool:
    """Whether a command line runs Engram's hook for that harness, but as a part of something that a person wrote.

    Examples are `nice /bin/engram-hook codex` and `ENGRAM_LOCK_POLICY=warn /bin/engram-hook codex`.
    """
    if not isinstance(line, str):
        return False
    if is_hook(line):
        words = _words(line)
        return words[1:2] == [harness] and not _are_options(words[2:])
    return re.search(rf"(?:^|[\\/\s\"'=;&|(]){HOOK}(?:\.exe)?[\"']?\s+{re.escape(harness)}(?![\w-])", line) is not None


def _are_options(words: list[str]) -> bool:
    return len(words) % 2 == 0 and all(word in OPTIONS for word in words[::2])


def hook_options(line: str) -> tuple[str, ...]:
    """The options in the command line of a hook."""
    return tuple(_words(line)[2:])


def is_server(entry: object) -> bool:
    """Whether an MCP server's entry starts Engram's server, of any installation.

    SettingsUnusable if it starts Engram with arguments that are not a list.
    """
    if not isinstance(entry, dict):
        return False
    server: dict[str, Any] = entry
    command = server.get("command")
    if not isinstance(command, str) or _program(command) != SERVER:
        return False
    arguments = server.get("args") or []
    if not isinstance(arguments, list):
        raise SettingsUnusable(f"the 'args' of its MCP server {SERVER!r} are not a list")
    return arguments[:1] == [SERVE]


def server_options(entry: Any) -> tuple[str, ...]:
    """The options in the entry of Engram's server."""
    return tuple(map(str, entry["args"][1:]))


def _words(line: object) -> list[str]:
    """The words of a command line; none if it is not text or a shell could not parse it."""
    if not isinstance(line, str):
        return []
    try:
        return shlex.split(line, posix=os.name != "nt")
    except ValueError:
        return []


def _program(path: str) -> str:
    return re.split(r"[\\/]", path.strip("\"'"))[-1].removesuffix(".exe")
