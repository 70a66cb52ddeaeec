"""Reads the database of claude-mem: what it observed in sessions of Claude Code and other harnesses.

Prompts become turns of the session, which is the same one that hooks and transcripts name. The summaries of a session
become its outcome and its gist, and each observation a memory. Nothing is told twice.
"""

from __future__ import annotations

from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from .. import gist_text
from ..framing import clean
from . import times
from .foreign import Record, opened
from .formats import Format
from .items import EndItem, GistItem, MemoryItem, SessionItem, Skipped, Turn
from .recognise import databases
from .values import (
    identifier,
    items,
    json_object,
    json_value,
    kind,
    known,
    moment,
    naive_zone,
    tags,
    text,
    texts,
    whole,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from pathlib import Path

    from .files import Source
    from .foreign import ForeignDatabase
    from .items import Item, Options

NAME = "claude-mem"
#: The types of sessions, by claude-mem's names of harnesses.
_TYPES = {"claude": "claude-code", "gemini-cli": "gemini"}
_KINDS = {"decision": "decision", "bugfix": "lesson", "discovery": "fact"}
#: The session's id in its harness, and in claude-mem; each with the name that it had at first.
_HARNESS_ID = ("content_session_id", "claude_session_id")
_OWN_ID = ("memory_session_id", "sdk_session_id")
_SESSION = (
    *("project", "platform_source", "user_prompt", "started_at", "started_at_epoch"),
    *("completed_at", "completed_at_epoch", "status", "custom_title"),
)
_OBSERVATION = (
    *("id", "project", "merged_into_project", "text", "type", "title", "subtitle", "facts", "narrative", "concepts"),
    *("files_read", "files_modified", "metadata", "created_at", "created_at_epoch"),
)
_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_CREATED = ("created_at_epoch", "created_at")


class _Summary(NamedTuple):
    #: The texts of its parts; empty ones are left out.
    parts: dict[str, str]
    #: The number of the prompt that it was made after.
    prompt: int | None
    at: str | None


def find(path: Path) -> list[Source]:
    return databases(path, NAME)


def read(source: Source, options: Options) -> Iterator[Item]:
    with opened(source.path, source) as db:
        yield from _Reader(db, options).read()


class _Reader:
    def __init__(self, db: ForeignDatabase, options: Options) -> None:
        self._db = db
        self._project = options.project
        self._zone: tzinfo | None = naive_zone(options, UTC)
        self._harness_id = _column(db, "sdk_sessions", _HARNESS_ID)
        self._own_id = _column(db, "sdk_sessions", _OWN_ID)
        self._observed_id = _column(db, "observations", _OWN_ID)
        self._sessions = db.grouped("sdk_sessions", self._harness_id)
        self._by_own_id = db.grouped("sdk_sessions", self._own_id)
        self._prompts = db.grouped("user_prompts", _column(db, "user_prompts", _HARNESS_ID))
        self._summaries = db.grouped("session_summaries", _column(db, "session_summaries", _OWN_ID))

    def read(self) -> Iterator[Item]:
        self._db.expect("user_prompts", "session_summaries", "observations", "directives")
        for grouping in (self._sessions, self._prompts, self._summaries):
            yield from grouping.build()
        # Before it observes something, a session has no id of claude-mem's own.
        yield from self._by_own_id.build(is_needed=False)
        for id in self._sessions:
            yield from self._session(id)
        for id in self._prompts:
            if id not in self._sessions:
                yield from self._session(id)
        for id in self._summaries:
            if id not in self._by_own_id:
                yield from self._unknown(id)
        yield from items(self._db.records("observations", self._observed_id, *_OBSERVATION), self._observation)
        columns = ("id", "scope", "project", "content", "status", "source", *_CREATED)
        yield from items(self._db.records("directives", *columns), self._directive)

    def _session(self, id: str) -> Iterator[Item]:
        """A session with its prompts and summaries. Its own row may be missing."""
        record = self._sessions.first(id, self._own_id, *_SESSION)
        row: dict[str, object] = dict.fromkeys(_SESSION) if record is None else record.values
        summaries: list[_Summary] = []
        own = words(row.get(self._own_id))
        for each in self._summed_up(own) if own is not None else ():
            if isinstance(each, _Summary):
                summaries.append(each)
            else:
                yield each
        started = self._time(row, "started_at_epoch", "started_at")
        yield SessionItem(
            id,
            _type(row["platform_source"]),
            started_at=started,
            last_at=self._last(id, summaries, started, self._time(row, "completed_at_epoch", "completed_at")),
            project=words(row["project"]) or self._project,
            name=words(row["custom_title"]),
            summary=_said(summaries[:1], "request"),
            outcome=_said(summaries[-1:], "completed"),
            # An active one is not at work: claude-mem does not learn of every end.
            status="abandoned" if row["status"] == "failed" else "completed",
        )
        yield from self._turns(id, summaries, row["user_prompt"], started)
        yield EndItem(id)

    def _turns(self, id: str, summaries: list[_Summary], first: object, started: str | None) -> Iterator[Item]:
        """The prompts, and directly after the last one that it covers, the gist."""
        is_begun = False
        gist = _gist(summaries)
        covered = summaries[-1].prompt if summaries else None
        for record in self._prompts.of(id, "prompt_number", "prompt_text", *_CREATED):
            number = whole(record.values["prompt_number"]) if isinstance(record, Record) else None
            if gist and is_begun and covered is not None and number is not None and number > covered:
                yield GistItem(id, gist, summaries[-1].at)
                gist = ""
            for turn in items([record], partial(self._prompt, id)):
                is_begun = is_begun or isinstance(turn, Turn)
                yield turn
        if not is_begun and (prompt := words(first)):
            yield Turn(id, "user", clean(prompt), started)
            is_begun = True
        if gist and is_begun:
            yield GistItem(id, gist, summaries[-1].at)
        elif gist:
            yield MemoryItem(f"summary-{id}", gist, at=summaries[-1].at, data={"session": id})

    def _unknown(self, own: str) -> Iterator[Item]:
        """The summaries of a session that is not known: there is nothing else of it, so they are a note."""
        summaries = []
        for each in self._summed_up(own):
            if isinstance(each, _Summary):
                summaries.append(each)
            else:
                yield each
        if summaries:
            yield MemoryItem(f"summary-{own}", _gist(summaries), at=summaries[-1].at, data={"session": own})

    def _summed_up(self, own: str) -> Iterator[_Summary | Skipped]:
        for record in self._summaries.of(own, *_PARTS, "prompt_number", *_CREATED):
            if isinstance(record, Skipped):
                yield record
                continue
            row = record.values
            parts = {name: found.strip() for name in _PARTS if (found := words(row[name])) is not None}
            if parts:
                yield _Summary(parts, whole(row["prompt_number"]), self._time(row, *_CREATED))
            else:
                yield Skipped(record.where, "no text")

    def _prompt(self, session: str, record: Record) -> Turn:
        row = record.values
        # Without an id: the transcript knows the prompt by another one.
        # Its hooks know the same mark for what is private as ours.
        return Turn(session, "user", clean(text(row["prompt_text"], "prompt")), self._moment(row))

    def _observation(self, record: Record) -> MemoryItem:
        row = record.values
        own = words(row[self._observed_id])
        session = self._by_own_id.first(own, self._harness_id) if own is not None else None
        type = (words(row["type"]) or "").strip().lower()
        at = self._moment(row)
        return MemoryItem(
            _name("observation", record, at),
            _observed(row),
            kind(_KINDS.get(type), {}),
            tags(texts(row["concepts"]), [type] if type and type not in _KINDS.values() else []),
            at=at,
            project=words(row["merged_into_project"]) or words(row["project"]) or self._project,
            data=known(
                subtitle=words(row["subtitle"]) if words(row["narrative"]) else None,
                files_read=texts(row["files_read"]),
                files_modified=texts(row["files_modified"]),
                session=own if session is None else words(session.values[self._harness_id]),
                metadata=json_object(row["metadata"]),
            ),
        )

    def _directive(self, record: Record) -> MemoryItem:
        """A rule that the user gave for every session, or for those of a project."""
        row = record.values
        at = self._moment(row)
        return MemoryItem(
            _name("directive", record, at),
            text(row["content"], "content"),
            "preference",
            at=at,
            is_archived=row["status"] not in ("active", None),
            project=words(row["project"]) or self._project,
            trust="user" if row["source"] == "manual" else "import",
        )

    def _last(self, id: str, summaries: list[_Summary], *others: str | None) -> str | None:
        """The latest time of a session."""
        prompt = self._prompts.last(id, *_CREATED)
        own = [None if prompt is None else self._time(prompt.values, *_CREATED), *(each.at for each in summaries)]
        return max(filter(None, (*others, *own)), default=None)

    def _moment(self, row: dict[str, object]) -> str | None:
        """The time of a record, from whichever column has one that is possible."""
        return self._time(row, *_CREATED) or moment(row["created_at"] or row["created_at_epoch"], self._zone)

    def _time(self, row: dict[str, object], *columns: str) -> str | None:
        return next((at for column in columns if (at := times.moment(row[column], self._zone)) is not None), None)


def _column(db: ForeignDatabase, table: str, names: tuple[str, str]) -> str:
    """The name that a column has in this version."""
    return next((name for name in names if db.has(table, name)), names[0])


def _type(platform: object) -> str:
    name = (words(platform) or "claude").strip().lower()
    return _TYPES.get(name, name)


def _name(what: str, record: Record, at: str | None) -> str:
    """The id of a record. Two files count from 1, so the time belongs to it."""
    id = record.values["id"]
    return f"{what}-{identifier(record.number if id is None else id, 'id')}@{at or ''}"


def _observed(row: dict[str, object]) -> str:
    """The text of an observation. The subtitle says in short what the narrative tells, so only one of them is told."""
    found = json_value(row["facts"])
    facts = [f"- {fact}" for fact in (texts(found) if isinstance(found, list) else filter(None, [words(row["facts"])]))]
    story = words(row["narrative"]) or words(row["subtitle"])
    lines = [part.strip() for part in (words(row["title"]), story) if part] + facts
    return "\n".join(lines) if lines else text(row["text"], "text")


def _said(summaries: list[_Summary], part: str) -> str | None:
    return summaries[0].parts.get(part) if summaries else None


def _gist(summaries: list[_Summary]) -> str:
    """The gist of a session from its summaries: each was made after some prompts, and the last says how it stands."""
    if not summaries:
        return ""
    *_, last = summaries
    told = []
    for each in summaries:
        names = ["request"] if each is not summaries[0] else []
        names += ["investigated", "learned"] + (["completed"] if each is not last else []) + ["notes"]
        told += [each.parts[name] for name in names if name in each.parts]
    open_points = tuple(filter(None, [last.parts.get("next_steps")]))
    title = summaries[0].parts.get("request", "")
    return gist_text.compose(gist_text.GistText(title, last.parts.get("completed", ""), open_points, "\n\n".join(told)))


FORMAT = Format(NAME, "the database of claude-mem", find, read, ("~/.claude-mem/claude-mem.db",))
