"""The formats that can be imported. Each is a module with a `FORMAT`, loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import InvalidInput

if TYPE_CHECKING:
    from .files import Source
    from .items import Item, Options


class Format(NamedTuple):
    name: str
    #: What it is, in a few words: `Claude Code's transcripts`.
    title: str
    #: The sources at a path that the user gave. A named file that has another format raises NotOfFormat, which says
    #: what is wrong and, if it is clear, which format it has. In a folder, files of other kinds are passed over.
    find: Callable[[Path], Iterable[Source]]
    #: Reads one source.
    read: Callable[[Source, Options], Iterator[Item]]
    #: Where the system keeps its files, with `~`; imported if the user names no path.
    places: tuple[str, ...] = ()


#: The module of each format.
MODULES = {
    "chatgpt": "chatgpt",
    "claude": "claude",
    "claude-code": "claude_code",
    "claude-mem": "claude_mem",
    "codex": "codex",
    "cursor": "cursor",
    "engram-core": "engram_core",
    "gemini": "gemini",
    "lyra": "lyra",
    "markdown": "markdown",
    "mcp-memory-service": "mcp_memory_service",
    "mem0": "mem0",
    "server-memory": "server_memory",
    "specstory": "specstory",
    "symbiont": "symbiont",
}


def get(name: str) -> Format:
    """The format of that name."""
    module = MODULES.get(name)
    if module is None:
        raise InvalidInput(f"There is no format {name!r}; the formats are {', '.join(MODULES)}.")
    found: Format = import_module(f".{module}", __package__).FORMAT
    return found
