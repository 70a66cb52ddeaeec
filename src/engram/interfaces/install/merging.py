"""Find, add and remove Engram's entries in a settings document.

A correct entry stays as it is, even if a person changed its timeout or matcher. In an older entry only the command is
updated. A removed entry leaves no empty list or object behind, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from ...errors import SettingsConflict, SettingsUnusable
from .commands import Commands, hook_options, is_hook, is_server, server_options
from .harness import SERVER_NAME, Harness
from .jsontext import JsonText, Path


class Document(Protocol):
    """A settings file as text that can be edited, and as data."""

    def text(self) -> str: ...
    def value(self) -> dict[str, Any]: ...
    def put(self, path: Path, value: object) -> None: ...
    def remove(self, path: Path) -> None: ...


class _Handler(NamedTuple):
    """One of Engram's hooks, where it was found."""

    event: str
    path: Path
    line: str


def add_hooks(document: JsonText, harness: Harness, commands: Commands) -> None:
    line = commands.hook_line(harness.name)
    superfluous: list[Path] = []
    found: set[str] = set()
    for handler in list(_handlers(document)):
        if handler.event not in harness.hooks or handler.event in found:
            superfluous.append(handler.path)
            continue
        found.add(handler.event)
        if handler.line != line:
            document.put((*handler.path, "command"), line)
    _take_out(document, superfluous)
    for key, value in harness.skeleton.items():
        if key not in document.value():
            document.put((key,), value)
    for event, entry in harness.hooks.items():
        if event not in found:
            _typed(document.value().get("hooks", {}).get(event, []), list, f"hooks.{event}")
            document.append(("hooks", event), entry(line))


def remove_hooks(document: JsonText) -> None:
    _take_out(document, [handler.path for handler in _handlers(document)])


def add_server(document: Document, harness: Harness, commands: Commands) -> None:
    path = (harness.servers_key, SERVER_NAME)
    wanted = {"command": commands.server, "args": commands.server_arguments()}
    entry = _servers(document, harness).get(SERVER_NAME)
    if entry is None:
        document.put(path, {**wanted, **harness.server_extras})
    elif not is_server(entry):
        raise SettingsConflict(
            f"{harness.title} already has an MCP server called {SERVER_NAME!r} that is not Engram's. "
            "Rename or remove it, then try again."
        )
    else:
        for key, value in wanted.items():
            if entry[key] != value:
                document.put((*path, key), value)


def remove_server(document: Document, harness: Harness) -> None:
    servers = _servers(document, harness)
    if is_server(servers.get(SERVER_NAME)):
        document.remove((harness.servers_key, SERVER_NAME) if len(servers) > 1 else (harness.servers_key,))


def has_entries(document: Document, harness: Harness) -> bool:
    """Whether the document has entries of Engram."""
    return any(_handlers(document)) or is_server(_servers(document, harness).get(SERVER_NAME))


def options(document: Document, harness: Harness) -> set[tuple[str, ...]]:
    """The options in Engram's entries; more than one set if they differ."""
    found = {hook_options(handler.line) for handler in _handlers(document)}
    server = _servers(document, harness).get(SERVER_NAME)
    return found | {server_options(server)} if is_server(server) else found


def _handlers(document: Document) -> Iterator[_Handler]:
    """Engram's hooks in a document, in both forms harnesses use: as entries, or as members of an entry's group."""
    events = _typed(document.value().get("hooks", {}), dict, "hooks")
    for event, entries in events.items():
        if not isinstance(entries, list):
            continue  # Gemini CLI keeps switches of its own between the events
        for at, entry in enumerate(entries):
            path: Path = ("hooks", event, at)
            if not isinstance(entry, dict):
                continue
            if is_hook(entry.get("command")):
                yield _Handler(event, path, entry["command"])
            group = _typed(entry.get("hooks") or [], list, f"hooks.{event}[{at}].hooks")
            for inner, handler in enumerate(group):
                if isinstance(handler, dict) and is_hook(handler.get("command")):
                    yield _Handler(event, (*path, "hooks", inner), handler["command"])


def _take_out(document: JsonText, paths: list[Path]) -> None:
    for path in reversed(paths):  # from the end, so that positions stay valid
        outermost = path
        for length in range(len(path) - 1, 0, -1):
            is_group = length == 3  # a group without handlers has no effect
            if not is_group and len(_at(document.value(), path[:length])) > 1:
                break
            outermost = path[:length]
        document.remove(outermost)


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _servers(document: Document, harness: Harness) -> dict[str, Any]:
    servers: dict[str, Any] = _typed(document.value().get(harness.servers_key, {}), dict, harness.servers_key)
    return servers


def _typed(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise SettingsUnusable(f"its {name!r} does not have the form that the harness documents")
    return value
