"""Which files an import has read completely, so that the next one passes over those that have not changed.

Reading a file again adds nothing, but thousands of transcripts take minutes. A file is recognised by its path, size and
time of change. The record has no text: the path is stored as a digest.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..import_records import FILE, Seen
from .conversations import UNFINISHED
from .session_writing import AT_WORK, PARENT_LEFT_OUT

if TYPE_CHECKING:
    from ..client import Engram
    from .files import Source
    from .tally import Tally

#: Files that tell by their size and time that they have changed. A database may keep its changes beside itself.
_ENDINGS = (".jsonl", ".json", ".txt", ".md")
#: What was left out for one of these reasons may be imported later, although the file stays as it is.
_FOR_NOW = (UNFINISHED, AT_WORK, PARENT_LEFT_OUT, "cannot be read")


class KnownFiles:
    def __init__(self, eng: Engram, format: str, tally: Tally) -> None:
        self._eng = eng
        self._format = format
        self._tally = tally

    def has(self, source: Source) -> bool:
        """Whether an import has read this file as it is now."""
        state = _state(source)
        return state is not None and self._eng.imports.seen(self._format, FILE, str(source.path.resolve())) == state

    def left_for_now(self) -> int:
        """How many records were left out so far that may be imported later."""
        return sum(self._tally.left_out(why) for why in _FOR_NOW)

    def note(self, source: Source, state: Seen | None) -> None:
        """Record that the file was read completely. `state` is its state before it was read."""
        if state is not None and _state(source) == state:
            self._eng.imports.note(self._format, FILE, str(source.path.resolve()), state)

    @staticmethod
    def state(source: Source) -> Seen | None:
        return _state(source)


def _state(source: Source) -> Seen | None:
    """What a file is recognised by; None if nothing tells that it has changed."""
    if source.member is not None or source.path.suffix not in _ENDINGS:
        return None
    try:
        found = source.path.stat()
        at = datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="microseconds")
    except (OSError, ValueError, OverflowError):
        return None
    return Seen(FILE, found.st_size, at)
