"""The description of a harness."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: Seconds that a harness lets a hook run. The hook stops long before; the limit is for a machine that is too busy to
#: start it.
PATIENCE = 10

#: The name under which harnesses know Engram's MCP server.
SERVER_NAME = "engram"


#: An entry of a settings file, made from the hook's command line.
Entry = Callable[[str], dict[str, Any]]


class Files(NamedTuple):
    """The settings files of one harness, for one user or one project; they may be the same file."""

    hooks: Path
    servers: Path


class Harness(NamedTuple):
    name: str
    #: Its name for people.
    title: str
    #: Any of these on the search path means that it is installed.
    programs: tuple[str, ...]
    #: Any of these files means the same.
    traces: Callable[[], tuple[Path, ...]]
    user_files: Callable[[], Files]
    project_files: Callable[[Path], Files]
    #: For each event, the entry of its list, made from the hook's command line.
    hooks: Mapping[str, Entry]
    #: The entries of an event that earlier releases wrote in another form. Such an entry is renewed.
    earlier: Mapping[str, Sequence[Entry]] = {}
    #: Where MCP servers are listed, and what an entry needs besides `command` and `args`.
    servers_key: str = "mcpServers"
    server_extras: Mapping[str, object] = {}
    #: What a new file for hooks holds besides them.
    skeleton: Mapping[str, Any] = {}
    #: Whether its JSON files may have comments.
    comments: bool = False
    #: What the user still has to do.
    notes: tuple[str, ...] = ()


def grouped(timeout: int, *, tools: Iterable[str] = (), in_background: bool = False) -> Entry:
    """An entry as Claude Code defined it: a group of handlers; without a matcher it applies to everything.

    With `tools` the harness starts the hook only for these tools. With `in_background` it does not wait for the hook.
    """
    matcher = {"matcher": matching(tools)} if tools else {}
    background = {"async": True} if in_background else {}
    return lambda line: {
        **matcher,
        "hooks": [{"type": "command", "command": line, "timeout": timeout, **background}],
    }


def matching(tools: Iterable[str]) -> str:
    """A matcher for these tools."""
    return "|".join(sorted(tools))


def folder(variable: str, default: str) -> Path:
    """A harness's settings folder: from its own variable, or below the home folder."""
    given = os.environ.get(variable)
    return Path(given).expanduser().absolute() if given else Path.home() / default
