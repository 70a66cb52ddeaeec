"""Find, add and remove Engram's entries in a settings document.

An entry exactly as an earlier release wrote it is renewed. An entry that a person has changed stays as it is, and
`edited` names it: another timeout or matcher, options that the other entries lack, a command around the hook's. If the
command is nothing but the hook, its path is updated. A removed entry leaves no empty list or object behind, and nothing
else changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from ...errors import SettingsConflict, SettingsUnusable
from .commands import Commands, hook_options, is_hook, is_server, is_wrapped_hook, server_options
from .harness import SERVER_NAME, Harness
from .jsontext import JsonText, Path

#: `--workspace` and `--store` with their values.
Options = tuple[str, ...]


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
    #: Whether a person put another command around the hook. Such a line is never changed.
    is_wrapped: bool = False


def add_hooks(document: JsonText, harness: Harness, commands: Commands, carried: Options) -> None:
    """Add and update the hooks. `carried` are the options that most entries have; others are a person's."""
    line = commands.hook_line(harness.name)
    superfluous: list[Path] = []
    found: set[str] = set()
    seen: list[tuple[str, Any]] = []
    for handler in list(_handlers(document, harness)):
        is_edited = _is_edited(document, harness, handler, carried)
        tools = (handler.event, _entry_of(document, handler).get("matcher"))
        # A person may have several entries for one event, with a matcher each.
        is_second = tools in seen if is_edited else handler.event in found
        if handler.event not in harness.hooks or (is_second and not handler.is_wrapped):
            superfluous.append(handler.path)
            continue
        found.add(handler.event)
        seen.append(tools)
        if handler.is_wrapped:
            continue
        keeps = _has_own_options(handler, carried)
        if not keeps and _is_earlier(document, harness, handler):
            document.put(handler.path[:3], harness.hooks[handler.event](line))
            continue
        wanted = commands._replace(options=hook_options(handler.line)).hook_line(harness.name) if keeps else line
        if handler.line != wanted:
            document.put((*handler.path, "command"), wanted)
    _take_out(document, superfluous)
    for key, value in harness.skeleton.items():
        if key not in document.value():
            document.put((key,), value)
    for event, entry in harness.hooks.items():
        if event not in found:
            _typed(document.value().get("hooks", {}).get(event, []), list, f"hooks.{event}")
            document.append(("hooks", event), entry(line))


def edited(document: Document, harness: Harness, carried: Options) -> list[str]:
    """The events whose entry a person has changed, so that it is not as this release writes it."""
    return [
        handler.event
        for handler in _handlers(document, harness)
        if handler.event in harness.hooks and _is_edited(document, harness, handler, carried)
    ]


def wrapped(document: Document, harness: Harness) -> list[str]:
    """The events with a command that a person put around the hook."""
    return [handler.event for handler in _handlers(document, harness) if handler.is_wrapped]


def remove_hooks(document: JsonText, harness: Harness) -> None:
    """Remove the hooks, except commands that a person put around one."""
    _take_out(document, [handler.path for handler in _handlers(document, harness) if not handler.is_wrapped])


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
    return any(_handlers(document, harness)) or is_server(_servers(document, harness).get(SERVER_NAME))


def options(document: Document, harness: Harness) -> list[Options]:
    """The options in each of Engram's entries."""
    found = [hook_options(handler.line) for handler in _handlers(document, harness) if not handler.is_wrapped]
    server = _servers(document, harness).get(SERVER_NAME)
    return [*found, server_options(server)] if is_server(server) else found


def _handlers(document: Document, harness: Harness) -> Iterator[_Handler]:
    """Engram's hooks in a document, in both forms harnesses use: as entries, or as members of an entry's group."""

    def handler(path: Path, line: object) -> Iterator[_Handler]:
        is_wrapped = is_wrapped_hook(line, harness.name)
        if is_wrapped or is_hook(line):
            yield _Handler(str(path[1]), path, str(line), is_wrapped)

    events = _typed(document.value().get("hooks", {}), dict, "hooks")
    for event, entries in events.items():
        if not isinstance(entries, list):
            continue  # Gemini CLI keeps switches of its own between the events
        for at, entry in enumerate(entries):
            path: Path = ("hooks", event, at)
            if not isinstance(entry, dict):
                continue
            yield from handler(path, entry.get("command"))
            group = _typed(entry.get("hooks") or [], list, f"hooks.{event}[{at}].hooks")
            for inner, member in enumerate(group):
                if isinstance(member, dict):
                    yield from handler((*path, "hooks", inner), member.get("command"))


def _is_edited(document: Document, harness: Harness, handler: _Handler, carried: Options) -> bool:
    """Whether a person has changed the entry."""
    if handler.event not in harness.hooks:
        return False
    if handler.is_wrapped or _has_own_options(handler, carried):
        return True
    is_current = _entry_of(document, handler) == harness.hooks[handler.event](handler.line)
    return not is_current and not _is_earlier(document, harness, handler)


def _has_own_options(handler: _Handler, carried: Options) -> bool:
    """Whether a person gave this entry options that the others lack."""
    return hook_options(handler.line) not in ((), carried)


def _is_earlier(document: Document, harness: Harness, handler: _Handler) -> bool:
    """Whether the entry is exactly as an earlier release wrote it."""
    entry = _entry_of(document, handler)
    return any(entry == earlier(handler.line) for earlier in harness.earlier.get(handler.event, ()))


def _entry_of(document: Document, handler: _Handler) -> Any:
    """The entry of the event's list that has the hook."""
    return _at(document.value(), handler.path[:3])


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
