"""Gives items to the writers as a reader would."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engram import Engram
from engram.import_records import ImportReport
from engram.importers.asked import Asked
from engram.importers.importing import write_items
from engram.importers.items import EndItem, Item, SessionItem, Turn
from engram.importers.memory_writing import MemoryWriter
from engram.importers.session_writing import SessionWriter
from engram.importers.tally import Tally


def feed(eng: Engram, *sources: Iterable[Item], **asked: Any) -> ImportReport:
    """Import items; each argument is one source."""
    tally = Tally("test")
    wanted = Asked("test", **asked)
    sessions, memories = SessionWriter(eng, wanted, tally), MemoryWriter(eng, wanted, tally)
    for number, items in enumerate(sources):
        tally.where = f"file {number + 1}"
        for _ in write_items(items, sessions, memories, tally):
            pass
    return tally.report()


def talk(
    id: str, *texts: str, begin: int = 1, timed: bool = True, ids: bool = True, type: str = "test", **session: Any
) -> list[Item]:
    """A session in which the user and the assistant speak in turn, a minute each."""
    items: list[Item] = [SessionItem(id, type, **session)]
    for number, text in enumerate(texts, begin):
        items.append(
            Turn(
                id,
                "user" if number % 2 else "assistant",
                text,
                f"2026-01-02T10:{number:02}:00+00:00" if timed else None,
                f"{id}-{number}" if ids else None,
            )
        )
    return [*items, EndItem(id)]
