"""Claude Code's transcripts: a file of JSON lines for each session, and one for each of its subagents.

An entry names its session. `isSidechain` marks those of a subagent: in files of their own with an `agentId`, or, in
older versions, among the entries of the session. Nothing is ever removed from a file. After a rewind the person has
still said what was said before it, and hooks have recorded it, so all branches are kept, in the order of the file.

A session that was resumed or forked begins with a copy of the earlier one. The copies are left out: they name where
they come from, or the file of the earlier session is imported, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import NothingToImport
from ..harness_messages import message_of, prompt_of, texts_of
from ..interfaces.external_ids import of_session
from ..interfaces.hooks.claude_code import WRITING_TOOLS
from . import kinds
from .conversations import (
    Calls,
    Conversation,
    careful,
    is_own,
    is_there,
    latest,
    modified,
    own,
    project_of,
    small_file,
    tail,
)
from .files import Source, below, json_lines, lines, parsed
from .formats import Format
from .items import SessionItem, Skipped
from .times import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .items import Item, Options

_TITLE = "Claude Code"
#: Agents that the harness starts for itself. Their files repeat the session.
_INTERNAL = ("acompact", "aprompt_suggestion", "aside_question")
#: The result of a call that the person did not allow. Hooks do not see such a call.
_REJECTED = ("The user doesn't want to proceed with this tool use", "[Request interrupted by user")
_INTERRUPTED = "[Request interrupted by user"
#: The model of a message that the harness wrote itself.
_SYNTHETIC = "<synthetic>"
#: Sessions of one file that are open at the same time.
_MOST_OPEN = 500
_UUID = re.compile(r'"uuid"\s{0,4}:\s{0,4}"([^"]{1,200})"')


class Transcript(Source):
    """A file, and the earlier ones whose entries it repeats."""

    earlier: tuple[Path, ...] = ()


def _find(path: Path) -> list[Transcript]:
    files = below(path, ".jsonl")
    if not path.is_dir():
        found = Transcript(path)
        kinds.require(path, kinds.kind_of(found), kinds.CLAUDE_CODE, _TITLE)
        return [found]
    firsts: dict[tuple[Path, str], list[Transcript]] = {}
    transcripts = []
    for file in files:
        if file.name.startswith(tuple(f"agent-{name}" for name in _INTERNAL)):
            continue
        found = Transcript(file)
        if not kinds.is_kind(found, kinds.CLAUDE_CODE):
            continue
        transcripts.append(found)
        if not file.name.startswith("agent-") and (first := _first_uuid(found)):
            firsts.setdefault((file.parent, first), []).append(found)
    for same in firsts.values():
        same.sort(key=lambda each: modified(each) or "")
        for place, each in enumerate(same):
            each.earlier = tuple(other.path for other in same[:place])
    return transcripts


def _first_uuid(source: Source) -> str:
    """The id of a file's first entry. Two files have the same one if the later begins with a copy of the earlier."""
    try:
        entries = kinds.objects(source.head(64 * 1024))
    except NothingToImport:
        return ""
    return next((str(entry["uuid"]) for entry in entries if "uuid" in entry), "")


@careful
def _read(source: Source, options: Options) -> Iterator[Item]:
    reader = _Reader(source)
    for found in json_lines(source):
        if isinstance(found, Skipped):
            yield found
        else:
            yield from reader.take(*found)
    yield from reader.end()


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        #: The session of the last entry.
        self._session = source.path.stem
        self._talks: dict[str, Conversation] = {}
        self._own: set[str] = set()
        self._calls = Calls(WRITING_TOOLS)
        #: The last entry of each subagent that has no id, and the subagent's name here.
        self._ends: dict[str, str] = {}
        earlier = source.earlier if isinstance(source, Transcript) else ()
        self._copied = {id for file in earlier for id in _uuids(file)}
        #: Whether the entries of another session are copies.
        self._is_other: dict[str, bool] = {}
        self._titles, self._last = _ends_of(source)

    def take(self, number: int, entry: dict[str, object]) -> Iterator[Item]:
        type = entry.get("type")
        if not isinstance(type, str):
            yield Skipped(f"line {number}", "not an entry of a transcript")
            return
        if type not in ("user", "assistant", "attachment") or self._is_copy(entry):
            return
        if type != "attachment" and not isinstance(entry.get("message"), dict):
            yield Skipped(f"line {number}", "no message")
            return
        session = self._session = _text(entry.get("sessionId")) or self._session
        if is_own(entry.get("cwd")):
            if session not in self._own:
                self._own.add(session)
                yield own(session)
            return
        talk = self._talk(session, entry)
        if type == "attachment":
            yield from self._queued(talk, entry)
        elif type == "assistant":
            yield from self._answer(talk, entry)
        else:
            yield from self._results(talk, entry)
            yield from self._prompt(talk, entry)
        if len(self._talks) > _MOST_OPEN:
            yield from self._talks.pop(next(iter(self._talks))).end()

    def end(self) -> Iterator[Item]:
        for talk in self._talks.values():
            yield from talk.end()

    def _talk(self, session: str, entry: dict[str, object]) -> Conversation:
        agent = self._agent(entry) if entry.get("isSidechain") is True else None
        id = session if agent is None else of_session(session, agent)
        if id not in self._talks:
            self._talks[id] = Conversation(
                SessionItem(
                    id=id,
                    type="claude-code",
                    started_at=moment(entry.get("timestamp")),
                    last_at=self._last.get(session) or modified(self._source),
                    project=project_of(_text(entry.get("cwd"), 4_096)),
                    name=self._titles.get(session) if agent is None else self._agent_type(),
                    parent=None if agent is None else session,
                ),
                of_agent=agent is not None,
            )
        return self._talks[id]

    def _agent(self, entry: dict[str, object]) -> str:
        """The id of a subagent. Older versions have none; their entries name the entry before them."""
        if id := _text(entry.get("agentId")):
            return id
        above, this = _text(entry.get("parentUuid")), _text(entry.get("uuid")) or ""
        if above is None:
            agent = f"sidechain-{this}"
        else:
            agent = self._ends.pop(above, "") or next(reversed(self._ends.values()), f"sidechain-{above}")
        self._ends[this] = agent
        if len(self._ends) > _MOST_OPEN:
            del self._ends[next(iter(self._ends))]
        return agent

    def _agent_type(self) -> str | None:
        """The type of the subagent whose file this is."""
        found = parsed(small_file(self._source.path.with_suffix(".meta.json"), 64 * 1024) or b"", "")
        return _text(found.get("agentType")) if isinstance(found, dict) else None

    def _is_copy(self, entry: dict[str, object]) -> bool:
        if isinstance(entry.get("forkedFrom"), dict) or _text(entry.get("uuid")) in self._copied:
            return True
        session, file = _text(entry.get("sessionId")), self._source.path
        if session is None or session == file.stem or entry.get("agentId") or "/" in session or "\\" in session:
            return False
        if session not in self._is_other and len(self._is_other) < _MOST_OPEN:
            self._is_other[session] = is_there(file.parent / f"{session}.jsonl")
        return self._is_other.get(session, False)

    def _prompt(self, talk: Conversation, entry: dict[str, object]) -> Iterator[Item]:
        found, texts = message_of(entry), texts_of(entry)
        at, id = moment(entry.get("timestamp")), _text(entry.get("uuid"))
        if found is not None and found[0] == "summary":
            yield from talk.gist(found[1].text, at, id)
        elif texts and entry.get("toolUseResult") is None:
            is_interrupted = any(text.lstrip().startswith(_INTERRUPTED) for text in texts)
            if found is None or not _is_persons(entry.get("origin")):
                # A notice of the harness. If the agent had finished, it goes on because of it.
                if talk.is_open or is_interrupted:
                    yield from talk.stop(closes=not is_interrupted)
            else:
                yield from talk.prompt(prompt_of(texts), at, id, closes=not is_interrupted)

    def _queued(self, talk: Conversation, entry: dict[str, object]) -> Iterator[Item]:
        """What the person typed while the agent worked."""
        given = entry.get("attachment")
        if not isinstance(given, dict) or given.get("type") != "queued_command":
            return
        text = prompt_of(texts_of({"type": "user", "content": given.get("prompt")}))
        if text and _is_persons(given.get("origin")):
            yield from talk.prompt(text, moment(entry.get("timestamp")), _text(entry.get("uuid")))

    def _answer(self, talk: Conversation, entry: dict[str, object]) -> Iterator[Item]:
        found, message = message_of(entry), entry.get("message")
        assert isinstance(message, dict)
        if found is not None and message.get("model") != _SYNTHETIC:
            yield from talk.say(found[1].text, moment(entry.get("timestamp")), found[1].id)
        for part in _parts(message):
            if part.get("type") == "tool_use":
                talk.call()
                self._calls.add(part.get("id"), part.get("name"), part.get("input"))

    def _results(self, talk: Conversation, entry: dict[str, object]) -> Iterator[Item]:
        message = entry.get("message")
        assert isinstance(message, dict)
        for part in _parts(message):
            if part.get("type") == "tool_result":
                failed = part.get("is_error") is True
                line = self._calls.line(part.get("tool_use_id"), failed=failed)
                if line is not None and not (failed and _said(part.get("content")).startswith(_REJECTED)):
                    yield from talk.log(line, moment(entry.get("timestamp")))


def _ends_of(source: Source) -> tuple[dict[str, str], dict[str, str]]:
    """The titles of the sessions in a file, and the times of their last entries, from its end."""
    titles: dict[str, tuple[int, str]] = {}
    times: dict[str, list[object]] = {}
    leaves: dict[str, str] = {}
    uuids: set[str | None] = set()
    entries = tail(source)
    if source.size > 0:
        entries = [*(each for each in kinds.objects(source.head(64 * 1024)) if each.get("type") == "summary"), *entries]
    session = source.path.stem
    for entry in entries:
        session = _text(entry.get("sessionId")) or session
        uuids.add(_text(entry.get("uuid")))
        times.setdefault(session, []).append(entry.get("timestamp"))
        for rank, field in enumerate(("aiTitle", "customTitle")):
            if title := _text(entry.get(field), 1_000):
                titles[session] = max((rank, title), titles.get(session, (0, "")), key=lambda each: each[0])
        if entry.get("type") == "summary" and (leaf := _text(entry.get("leafUuid"))):
            leaves[leaf] = _text(entry.get("summary"), 1_000) or ""
    # The title of another session may stand here, too. It names an entry of that session.
    named = [leaf for leaf in leaves if leaf in uuids] or (_mentioned(source, leaves) if leaves else [])
    if named and session not in titles:
        titles[session] = (0, leaves[named[-1]])
    last = {session: latest(each) for session, each in times.items()}
    return {id: title for id, (_, title) in titles.items()}, {id: at for id, at in last.items() if at is not None}


def _mentioned(source: Source, leaves: dict[str, str]) -> list[str]:
    """Which of these entries the file has."""
    return [id for id in _uuids(source.path) if id in leaves] if source.member is None else []


def _uuids(file: Path) -> Iterator[str]:
    """The ids of all entries in a file."""
    for _, data in lines(Source(file)):
        yield from _UUID.findall((data or b"").decode(errors="replace"))


def _parts(message: dict[str, object]) -> list[dict[str, object]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _said(content: object) -> str:
    return "\n".join(texts_of({"type": "user", "content": content})).strip()


def _is_persons(origin: object) -> bool:
    """Whether a message is the person's. Messages of other agents have another origin."""
    return not isinstance(origin, dict) or origin.get("kind") in (None, "human")


def _text(value: object, longest: int = 200) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= longest else None


FORMAT = Format("claude-code", "Claude Code's transcripts", _find, _read, ("~/.claude/projects",))
