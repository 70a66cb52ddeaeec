"""Reading a file as an import does, and comparing with what hooks record of the same session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from engram import Engram
from engram.importers import formats
from engram.importers.items import Item, Options, SessionItem, Turn
from engram.interfaces.hooks import respond

#: Messages of an agent that say something.
FINDING = "The port is read twice: once in config.py and once more in the router, which wins."
DECISION = "The router now takes the port from the settings, so both places agree."
NARRATION = "Now let me run the linter."
CLOSING = "Done."


def read(format: str, path: Path, **options: Any) -> list[Item]:
    """All items of the files at a path."""
    found = formats.get(format)
    return [item for source in found.find(path) for item in found.read(source, Options(**options))]


def sessions(items: Iterable[Item]) -> list[SessionItem]:
    return [item for item in items if isinstance(item, SessionItem)]


def turns(items: Iterable[Item], *, logs: bool = False) -> list[tuple[str, str, str | None]]:
    """Role, text and id of each turn."""
    found = [item for item in items if isinstance(item, Turn)]
    return [(turn.role, turn.text, turn.id) for turn in found if logs or turn.role != "log"]


def texts(items: Iterable[Item]) -> list[str]:
    return [text for _, text, _ in turns(items, logs=True)]


def write_lines(path: Path, entries: Iterable[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in entries))
    return path


def report(harness: str, session: str, **given: Any) -> Callable[..., None]:
    """Reports events to the hooks of a harness."""

    def event(name: str, **fields: Any) -> None:
        payload = {"session_id": session, "hook_event_name": name, **given, **fields}
        respond(harness, json.dumps(payload).encode())

    return event


def recorded(eng: Engram, external_id: str, *, logs: bool = False) -> list[tuple[str, str, str | None]]:
    """Role, text and id of each turn that hooks recorded."""
    found = eng.sessions.find(external_id)
    assert found is not None
    if logs:
        return [("log", entry.content, None) for entry in reversed(eng.sessions.logs(found.id, 0))]
    return [(turn.role, turn.content, turn.external_id) for turn in eng.exchanges.history(found.id)]
