"""The command lines that go into settings files, and how to recognise them there."""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import Any, NamedTuple

from ..._version import DISTRIBUTION
from ...errors import SettingsUnusable

HOOK = "engram-hook"
SERVER = "engram"


class Commands(NamedTuple):
    """The programs of one installation, by absolute path: a harness has a search path and a folder of its own."""

    hook: str
    server: str

    def hook_line(self, harness: str) -> str:
        """The hook as one line for a shell; harnesses hand it to whichever shell they find."""
        words = [self.hook, harness]
        if os.name == "nt":
            import subprocess

            return subprocess.list2cmdline(words)
        return shlex.join(words)


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
    """Whether a command line starts Engram's hook, of whichever installation."""
    if not isinstance(line, str):
        return False
    try:
        words = shlex.split(line, posix=os.name != "nt")
    except ValueError:
        return False
    return bool(words) and _program(words[0]) == HOOK


def is_server(entry: object) -> bool:
    """Whether an MCP server's entry starts Engram's server, of whichever installation.

    SettingsUnusable if it starts Engram with arguments that are no list: nobody can say what it was meant to be.
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
    return arguments[:1] == ["mcp"]


def _program(path: str) -> str:
    return re.split(r"[\\/]", path.strip("\"'"))[-1].removesuffix(".exe")
