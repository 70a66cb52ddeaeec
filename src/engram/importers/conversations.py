"""One session of a transcript on its way to items: what is kept of it is what hooks keep.

An agent works in runs. A run begins with a prompt and ends with the closing message, after which the harness waits for
the person. The closing message is kept in full. The others are kept if they say something that it does not repeat. So
the messages of a run are held until it ends, with the lines of the log between them.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime
from functools import lru_cache, wraps
from time import time
from typing import TYPE_CHECKING

from ..errors import NothingToImport, NotOfFormat
from ..harness_commands import CONTROLS
from ..harness_messages import FAILURE, Message, gist_text, is_worth_keeping, usable, usable_id
from ..harness_payloads import LONGEST as LONGEST_TEXT
from ..harness_payloads import Payload, cut, log_line, name, tool_target, written_paths
from ..safe_text import one_line
from .files import LONGEST, lines, parsed
from .items import EndItem, GistItem, SessionItem, Skipped, Turn
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from .files import Source
    from .items import Item, Options

#: Entries of a run that are held; hooks look back as far.
MOST_HELD = 400
#: Characters of a subagent's task that become its session's summary.
LONGEST_SUMMARY = 200
#: How much of a file's end is read for its title and the time of its last entry. If no time is there, more is read.
TAIL, LONGEST_TAIL = 128 * 1024, 8 * 1024 * 1024
#: Characters of an id of a call, and of a tool's name.
_LONGEST_ID, _LONGEST_NAME = 1_000, 200
#: Seconds after which a file that nobody has written to is taken as whole.
_STILL = 3 * 3600.0
UNFINISHED = "its last run may go on; import it again later"
#: The folder in which Engram runs a client that thinks for it; `llm/clients/running.py` makes it.
_THINKS = re.compile(r"[\\/]thinkers[\\/]run-[^\\/]{1,100}[\\/]empty[\\/]?\Z")
OWN = "one of Engram's own"
_TEXT_FIELD = re.compile(r'"(\w{1,40})"\s{0,9}:\s{0,9}("(?:[^"\\]|\\.){0,2000}")')
#: Folders below a repository in which harnesses check out its worktrees.
_WORKTREES = tuple(f"/.{harness}/worktrees/" for harness in ("claude", "cursor", "codex", "gemini"))


class Conversation:
    """A session and the run that is being read. Each method gives the items that are complete with it."""

    def __init__(self, session: SessionItem, *, of_agent: bool = False) -> None:
        #: It may be replaced until the first item was given.
        self.session = session
        #: In a subagent's session the prompts are words of another agent, and hooks do not see them.
        self._of_agent = of_agent
        self._has_begun = False
        #: What waits, with its trust.
        self._held: list[tuple[Message | Turn, str | None]] = []
        #: Whether what is read now cannot be told from the output of a tool. Then nobody vouches for it.
        self.is_doubtful = False
        #: Whether the last thing was a message, after which no tool was called.
        self.is_open = False

    def prompt(self, text: str, at: str | None, id: str | None, *, closes: bool | None = None) -> Iterator[Item]:
        """The person, or the agent above, says something. It ends the run."""
        yield from self.stop(closes=closes)
        if self._of_agent:
            if not self._has_begun and not self.session.summary:
                self.session = self.session._replace(summary=one_line(text, LONGEST_SUMMARY))
        elif text.startswith("! "):
            yield from self._begin(Turn(self.session.id, "log", one_line(text, LONGEST_SUMMARY), at))
        elif text and not is_control(text):
            yield from self._begin(Turn(self.session.id, "user", text, at, usable_id(id), self._trust))

    def say(self, text: str, at: str | None, id: str | None) -> Iterator[Item]:
        """The agent says something."""
        if text.strip() and not text.startswith(FAILURE):
            self.is_open = True
            yield from self._hold(Message(cut(text, LONGEST_TEXT), id, at))

    def call(self) -> None:
        """The agent calls a tool."""
        self.is_open = False

    def log(self, line: str, at: str | None) -> Iterator[Item]:
        """A tool has ended."""
        yield from self._hold(Turn(self.session.id, "log", line, at))

    def stop(self, *, closes: bool | None = None) -> Iterator[Item]:
        """The run ends. With `closes=False` the person interrupted it, so its last message is like the others."""
        closing = self._closing() if self.is_open and closes is not False else None
        self.is_open = False
        held, self._held = self._held, []
        for each, trust in held:
            yield from self._give(each, trust, closing)

    def gist(self, summary: str, at: str | None, id: str | None) -> Iterator[Item]:
        """The context is compacted, and a summary takes the place of what was said."""
        yield from self.stop()
        text = gist_text(summary)
        if text and self._has_begun:
            yield GistItem(self.session.id, text, at, usable_id(id))

    def end(self, *, is_whole: bool = True) -> Iterator[Item]:
        """Nothing more comes. If the file may grow, its last run is left out until it is known how it ends.

        Without times and ids a later import can only count turns, so a turn must never change.
        """
        if not is_whole and self.drop():
            yield Skipped(f"session {self.session.id}", UNFINISHED)
        yield from self.stop()
        if self._has_begun:
            yield EndItem(self.session.id)

    def drop(self) -> bool:
        """Leave out what was read of the run; whether there was something."""
        held, self._held, self.is_open = self._held, [], False
        return bool(held)

    @property
    def _trust(self) -> str | None:
        return "import" if self.is_doubtful else None

    def _closing(self) -> Message | None:
        return next((each for each, _ in reversed(self._held) if isinstance(each, Message)), None)

    def _hold(self, what: Message | Turn) -> Iterator[Item]:
        self._held.append((what, self._trust))
        if len(self._held) > MOST_HELD:
            yield from self._give(*self._held.pop(0), None)

    def _give(self, what: Message | Turn, trust: str | None, closing: Message | None) -> Iterator[Item]:
        if isinstance(what, Turn):
            yield from self._begin(what)
            return
        is_last = what is closing
        if is_last or is_worth_keeping(what.text, closing.text if closing is not None else ""):
            kept = usable(what, in_full=is_last)
            if kept.text:
                yield from self._begin(Turn(self.session.id, "assistant", kept.text, what.at, kept.id, trust))

    def _begin(self, turn: Turn) -> Iterator[Item]:
        if not self._has_begun:
            self._has_begun = True
            yield self.session
        yield turn


class Calls:
    """Calls of tools that wait for their results."""

    _MOST = 2_000

    def __init__(self, writing: frozenset[str]) -> None:
        self._writing = writing
        self._waiting: dict[str, tuple[str, str]] = {}

    def add(self, id: object, tool: object, given: object) -> None:
        """A tool is called."""
        if isinstance(id, str) and len(id) <= _LONGEST_ID:
            called = tool[:_LONGEST_NAME] if isinstance(tool, str) else ""
            self._waiting[id] = (called, target(called, given, self._writing))
            if len(self._waiting) > self._MOST:
                del self._waiting[next(iter(self._waiting))]

    def line(self, id: object, *, failed: bool) -> str | None:
        """The line of the log about a call that has ended; None if the call is not known."""
        tool, worked_on = self._waiting.pop(id, (None, "")) if isinstance(id, str) else (None, "")
        return None if tool is None else log_line(name({"tool": tool}, "tool") or "", worked_on, failed=failed)


def target(tool: str, given: object, writing: frozenset[str]) -> str:
    """What a tool works on, in one line, as hooks say it."""
    fields: Payload = given if isinstance(given, dict) else {}
    return tool_target(fields, written_paths(fields) if tool in writing else ())


def is_control(text: str) -> bool:
    """Whether a prompt is a command to the harness itself, such as /clear. Hooks do not see these."""
    return text.startswith("/") and text[1:].partition("\n")[0].partition(" ")[0] in CONTROLS


def careful(read: Callable[[Source, Options], Iterator[Item]]) -> Callable[[Source, Options], Iterator[Item]]:
    """A reader that names a file which cannot be read, so that the others are imported."""

    @wraps(read)
    def reading(source: Source, options: Options) -> Iterator[Item]:
        try:
            yield from read(source, options)
        except (NothingToImport, NotOfFormat, OSError):
            yield Skipped(source.name, "cannot be read")

    return reading


def is_own(folder: object) -> bool:
    """Whether a session in this folder is a client that thought for Engram."""
    return isinstance(folder, str) and _THINKS.search(folder) is not None


def own(id: str) -> Skipped:
    return Skipped(f"session {id}", OWN)


@lru_cache(maxsize=512)
def project_of(folder: str | None) -> str | None:
    """The project of a session in a folder: what hooks would say, if the folder is still there; else its name."""
    if not folder or len(folder) > 4_096:
        return None
    at = max(folder.replace("\\", "/").rfind(part) for part in _WORKTREES)
    repository = folder[:at] if at > 0 else folder
    for place in (folder, repository):
        if os.path.isabs(place) and os.path.isdir(place):
            from ..client import Engram

            return Engram.project_of(place)
    last = repository.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return one_line(last, 100).replace(":", "-") or None


def modified(source: Source) -> str | None:
    """When a file was last written; for formats that have no times."""
    try:
        return datetime.fromtimestamp(source.path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    except (OSError, ValueError, OverflowError):
        return None


def may_grow(source: Source) -> bool:
    """Whether an agent may still be writing a file: it was written to a short time ago."""
    try:
        return time() - source.path.stat().st_mtime < _STILL
    except OSError:
        return False


def small_file(path: Path, longest: int) -> bytes | None:
    """All of a small file that stands beside a transcript; None if it is none, is longer, or cannot be read."""
    try:
        # Non-blocking, because it may be a pipe.
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > longest:
            return None
        with os.fdopen(os.dup(file), "rb") as opened:
            return opened.read(longest)
    except OSError:
        return None
    finally:
        os.close(file)


def is_there(path: Path) -> bool:
    """Whether there is such a file. The name may come from data, so it may be one that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def tail(source: Source) -> list[dict[str, object]]:
    """The JSON objects on the last lines of a file, at least back to one with a time, unless that is very far."""
    if source.member is not None:
        return []
    length = TAIL
    while True:
        with source.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - length))
            lines = file.read(length).split(b"\n")
        found = (parsed(line, "") for line in (lines[1:] if size > length else lines) if line.strip())
        entries = [entry for entry in found if isinstance(entry, dict)]
        if length >= min(size, LONGEST_TAIL) or latest(entry.get("timestamp") for entry in entries) is not None:
            return entries
        length *= 2


def text_fields(document: str) -> dict[str, str]:
    """The fields with texts in a part of a JSON document; of several with the same name, the first."""
    found: dict[str, str] = {}
    for field, value in _TEXT_FIELD.findall(document):
        text = parsed(value, "")
        if isinstance(text, str):
            found.setdefault(field, text)
    return found


def text_lines(source: Source) -> Iterator[tuple[int, str] | Skipped]:
    """The lines of a text with their numbers, empty ones too."""
    number = 0
    for line in lines(source):
        yield from ((blank, "") for blank in range(number + 1, line.number))
        number = line.number
        if line.data is None:
            yield Skipped(f"line {number}", f"longer than {LONGEST // 1024 // 1024} MiB")
        else:
            yield number, line.data.decode(errors="replace").rstrip("\r")


def latest(times: Iterable[object]) -> str | None:
    """The latest of these times."""
    return max(filter(None, map(moment, times)), default=None)
