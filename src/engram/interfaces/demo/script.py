"""Reads the texts of the made-up month.

A file in `texts/` has one entry after the other. An entry begins with a line of words and options,

    == WORD WORD … [name=value] …: SUMMARY

and the lines below it are its text. In a value, `_` is a space. The texts of sessions are turns, with their role as a
letter, and the outcome; other lines continue the one before.

A time is two words: the days before today and a local time (`29 09:12`), or `now` and the minutes before now
(`now 95`). Nothing of yesterday is later than 19:00, and nothing of `now` is more than 290 minutes ago, so the order is
the same whenever the month is played.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from importlib.resources import files
from typing import NamedTuple

_SESSIONS = ("shop.txt", "billing.txt", "docs.txt", "others.txt", "today.txt")
_ROLES = {"U: ": "user", "A: ": "assistant", "L: ": "log"}
_HEAD, _OUTCOME = "== ", "O: "


class Entry(NamedTuple):
    words: tuple[str, ...]
    options: Mapping[str, str]
    summary: str
    text: str


class Turn(NamedTuple):
    role: str
    text: str


class Session(NamedTuple):
    key: str
    begins: str
    minutes: int
    type: str
    project: str | None
    summary: str
    parent: str | None
    author: str | None
    #: `done`; `open` for a session that nobody ended; `active` for one that is at work now.
    end: str
    turns: tuple[Turn, ...]
    outcome: str | None


def moment(text: str, now: float) -> float:
    """A time in seconds since 1970."""
    day, clock = text.split()
    if day == "now":
        return now - 60 * float(clock)
    hour, minute = clock.split(":")
    then = datetime.fromtimestamp(now) - timedelta(days=int(day))
    return then.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0).timestamp()


def sessions() -> list[Session]:
    """All sessions, in the order of the files."""
    return [_session(entry) for name in _SESSIONS for entry in entries(name)]


def entries(name: str) -> Iterator[Entry]:
    """The entries of a file in `texts/`."""
    text = files(__package__).joinpath("texts", name).read_text(encoding="utf-8")
    for part in f"\n{text}".split(f"\n{_HEAD}")[1:]:
        first, _, body = part.partition("\n")
        head, _, summary = f"{first} ".partition(": ")
        words = head.split()
        options = dict(word.replace("_", " ").split("=") for word in words if "=" in word)
        yield Entry(tuple(word for word in words if "=" not in word), options, summary.strip(), body.strip())


def _session(entry: Entry) -> Session:
    key, day, clock, minutes, type, project = entry.words
    turns, outcome = _turns(entry.text)
    return Session(
        key=key,
        begins=f"{day} {clock}",
        minutes=int(minutes),
        type=type,
        project=None if project == "-" else project,
        summary=entry.summary,
        parent=entry.options.get("parent"),
        author=entry.options.get("author"),
        end=entry.options.get("end", "done"),
        turns=turns,
        outcome=outcome,
    )


def _turns(body: str) -> tuple[tuple[Turn, ...], str | None]:
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines():
        if line[:3] in _ROLES or line.startswith(_OUTCOME):
            found.append((line[:3], [line[3:]]))
        else:
            found[-1][1].append(line)
    texts = [(mark, "\n".join(lines).strip()) for mark, lines in found]
    turns = tuple(Turn(_ROLES[mark], text) for mark, text in texts if mark in _ROLES)
    return turns, next((text for mark, text in texts if mark == _OUTCOME), None)
