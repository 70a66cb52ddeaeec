"""SpecStory's histories: `.specstory/history/*.md`, one session of another agent each.

There are several generations. All have a line before each message (`_**User (time)**_`). The command line writes a
message for each step of the agent, with its time, and tools in an element `<tool-use>`. The extension for editors
writes the agent's steps between rules (`---`), and its older versions write tools as plain sections. The session's id
and its agent are in a comment; the oldest files have none.

The output of a tool may be another history. So a line before a message counts only where a message can begin, and
inside an element only if its time fits: an earlier history has earlier times. Older versions do not protect what they
quote, so an output can end its own element and go on like a message. Nobody can tell the two apart. Therefore
everything behind the first tool is imported without the trust that words of the person and of the agent have.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape
from typing import TYPE_CHECKING

from ..harness_messages import prompt_of
from ..harness_payloads import log_line, name
from ..interfaces.external_ids import of_session
from . import kinds
from .conversations import Conversation, careful, modified, project_of, text_lines
from .files import Source, below
from .formats import Format
from .items import SessionItem, Skipped
from .times import moment, zone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from pathlib import Path

    from .items import Item, Options

_TITLE = "SpecStory"
_LONGEST = 400_000
_TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
_HEADER = re.compile(
    r"\A_\*\*(User|Agent|Assistant|Recap|)( - [a-z, ]{1,40})?(?: \(([^()\n]{1,200})\))?\*\*_[ \t]{0,9}\Z"
)
_SESSION = re.compile(
    r"\A<!--\s{1,9}([A-Za-z][\w .+-]{0,60}?) Session ([^\s()]{1,200})(?: \(([^()]{1,60})\))?\s{1,9}-->"
)
_HEADING = re.compile(rf"\A##? (?:(.{{1,500}}?) )?\(?({_TIME}|\d{{1,2}}/\d{{1,2}}/\d{{4}}, [\d:]{{5,8}} [AP]M)\)?\Z")
_MESSAGE_ID = re.compile(r"\A<!-- message-id: ([^\s]{1,200}) -->\Z")
_IN_NAME = re.compile(r"\A(\d{4}-\d\d-\d\d)_(\d\d)-(\d\d)(?:-(\d\d))?(Z?)")
_LATEST = re.compile(rf"^_\*\*[^\n]{{0,200}}?({_TIME})\)\*\*_\r?$", re.MULTILINE)
_TOOL = re.compile(r"""\A<tool-use\b[^>\n]{0,200}\bdata-tool-name="([^"\n]{1,200})\"""")
_PLAIN_TOOL = re.compile(r"\ATool use: \*\*([^*\n]{1,200})\*\*(.{0,1000})")
#: Sections of the oldest files that are tools.
_OLD_TOOL = re.compile(r"\A(?:Read file: |<details>|```diff\Z|Cancelled\Z|Error calling tool)")
_QUOTED = re.compile(r"\A\s{0,4}`([^`]{1,1000})`\s{0,4}\Z")
_FENCE = re.compile(r"\A\s{0,3}(`{3,})(\w{0,20})")
_SHELLS = frozenset({"bash", "sh", "shell", "zsh"})
_RULE = "---"
#: The types of sessions, by what the comment calls the agent.
_TYPES = {
    "claude code": "claude-code",
    "codex cli": "codex",
    "codex": "codex",
    "gemini cli": "gemini",
    "cursor": "cursor",
    "cursor cli": "cursor",
    "cursor ide": "cursor",
    "cursoride": "cursor",
}


def _find(path: Path) -> list[Source]:
    if not path.is_dir():
        found = Source(path)
        kinds.require(path, kinds.kind_of(found), kinds.SPECSTORY, _TITLE)
        return [found]
    sources = [Source(file) for file in below(path, ".md") if _folder(file) is not None or path.name == "history"]
    return [source for source in sources if kinds.is_kind(source, kinds.SPECSTORY)]


@careful
def _read(source: Source, options: Options) -> Iterator[Item]:
    reader = _Reader(source, zone(options.timezone))
    for found in text_lines(source):
        if isinstance(found, Skipped):
            yield found
        else:
            yield from reader.take(*found)
    yield from reader.end()


class _Reader:
    def __init__(self, source: Source, naive: tzinfo | None) -> None:
        self._source = source
        self._naive = naive
        self._talks: dict[bool, Conversation] = {}
        #: What the beginning of the file says.
        self._agent, self._id, self._name, self._begun = "", "", "", ""
        #: The message that is being read: whose, when, its id, whether it is a subagent's, and its text.
        self._role = ""
        self._at: str | None = None
        self._message_id: str | None = None
        self._is_aside = False
        self._held: list[str] = []
        self._size = 0
        #: Whether rules separate the agent's messages.
        self._has_rules = False
        #: The element that is open: `tool`, `think` or `skip`; the tool in it; the mark that ends a fence.
        self._inside = ""
        self._tool: tuple[str, str] = ("", "")
        self._fence = ""
        #: The latest time of a message, and whether the person's messages have times.
        self._latest = ""
        self._has_times = False
        #: The last line that was not empty, and the last line.
        self._before = self._line_before = ""
        #: Whether a tool was used, so what follows may be its output; and where the last element began.
        self._is_doubtful = False
        self._number = self._begun_at = 0

    def take(self, number: int, line: str) -> Iterator[Item]:
        self._number = number
        header = _HEADER.match(line)
        if header is not None and self._can_begin(header):
            is_clear = not self._inside and not self._fence
            yield from self._complete()
            self._is_doubtful = self._is_doubtful or not is_clear
            self._start(header, is_clear=is_clear)
        elif header is not None and self._is_doubtful and not (self._inside or self._fence or self._line_before):
            # Its time does not fit. It belongs to an output, or an output before it had a false time.
            yield from self._complete()
            yield Skipped(f"line {number}", "a message whose time does not fit")
            self._role = "other"
        elif not self._role:
            self._preface(line)
        elif self._inside:
            yield from self._skip(line)
        else:
            yield from self._read_on(line)
        self._line_before = line.strip()
        self._before = self._line_before or self._before

    def end(self) -> Iterator[Item]:
        yield from self._complete()
        for talk in self._talks.values():
            yield from talk.end()

    def _preface(self, line: str) -> None:
        if found := _SESSION.match(line):
            self._agent, self._id = found[1].lower(), found[2]
            self._begun = found[3] or self._begun
        elif line.startswith("**Title:** "):
            self._name = line.removeprefix("**Title:** ").strip()
        elif found := _HEADING.match(line):
            self._name, self._begun = found[1] or self._name, self._begun or found[2]
        elif line.startswith("# "):
            self._name = line[2:].strip()

    def _can_begin(self, header: re.Match[str]) -> bool:
        """Whether a message begins here, and this is not a line of another history."""
        if self._line_before:
            return False
        at = self._time(header[3])
        if at is not None and self._latest and at < _earlier(self._latest):
            return False
        if at is None and header[1] == "User" and self._has_times:
            return False
        if not self._inside and not self._fence:
            return True
        if self._inside == "tool" and header[1] == "User":
            return False  # the agent goes on after a tool, so this is output
        # An element that is not closed, or is closed inside a fence that is not.
        has_ended = not self._inside or self._inside == "skip" or self._before.endswith(("</tool-use>", "</think>"))
        return at is not None and at >= self._latest and has_ended

    def _start(self, header: re.Match[str], *, is_clear: bool) -> None:
        role, aside, about = header.groups()
        about = about or ""
        self._role = {"User": "user", "Recap": "other", "": self._role or "assistant"}.get(role, "assistant")
        if aside and "queued" in aside:
            self._role = "other"  # it was not sent
        self._is_aside = bool(aside) and "sidechain" in str(aside)
        self._at = self._time(about)
        if is_clear:  # a false time must not hide what follows
            self._latest = max(self._latest, self._at or "")
        self._has_times = self._has_times or (role == "User" and self._at is not None)
        self._message_id = None
        self._has_rules = self._role == "assistant" and (role != "Agent" or not about or "mode" in about)

    def _read_on(self, line: str) -> Iterator[Item]:
        stripped = line.strip()
        fence = _FENCE.match(line)
        if self._fence:
            if stripped == self._fence or (fence and not fence[2] and stripped.startswith(self._fence)):
                self._fence = ""
        elif not self._held and (found := _MESSAGE_ID.match(stripped)):
            self._message_id = found[1]
            return
        elif self._role != "user" and (tool := _TOOL.match(line)):
            yield from self._say()
            self._open("tool", tool[1])
            return
        elif self._role != "user" and line.startswith("<think>"):
            self._inside, self._begun_at = "" if stripped.endswith("</think>") else "think", self._number
            return
        elif self._role == "assistant" and (plain := _PLAIN_TOOL.match(line)):
            yield from self._say()
            self._open("skip", plain[1], _worked_on(plain[2]))
            yield from self._log()
            return
        elif self._role == "assistant" and not any(self._held) and self._has_rules and _OLD_TOOL.match(stripped):
            self._open("skip")
            self._talk().call()
            return
        elif stripped == _RULE and self._has_rules:
            yield from self._say()
            return
        elif fence:
            self._fence = fence[1]
        if self._size < _LONGEST:
            self._held.append(line)
            self._size += len(line) + 1

    def _open(self, element: str, tool: str = "", worked_on: str = "") -> None:
        """A tool is used. Nothing behind it is surely what it seems to be."""
        self._inside, self._tool, self._begun_at = element, (tool, worked_on), self._number
        self._is_doubtful = True

    def _skip(self, line: str) -> Iterator[Item]:
        """A line inside an element. Of a tool, what it works on is read."""
        stripped = line.strip()
        fence = _FENCE.match(line)
        if self._fence:
            if stripped.startswith(self._fence) and not stripped.strip("`"):
                self._fence = ""
            elif self._inside == "tool" and not self._tool[1] and self._before in _SHELL_FENCES:
                self._tool = (self._tool[0], stripped)
        elif self._inside == "tool" and stripped.endswith("</tool-use>"):
            self._inside = ""
            yield from self._log()
        elif (self._inside == "think" and stripped.endswith("</think>")) or (
            self._inside == "skip" and stripped == _RULE and self._has_rules
        ):
            self._inside = ""
        elif fence:
            self._fence = fence[1]
        elif self._inside == "tool" and "Tool use: **" in line:
            self._tool = (self._tool[0], _worked_on(line.partition("Tool use: **")[2].partition("**")[2]))
        elif self._inside == "tool" and not self._tool[1] and (quoted := _QUOTED.match(line)):
            self._tool = (self._tool[0], quoted[1])

    def _log(self) -> Iterator[Item]:
        tool, worked_on = self._tool
        talk = self._talk()
        talk.call()
        yield from talk.log(log_line(name({"tool": tool}, "tool") or "", worked_on, failed=False), self._at)

    def _complete(self) -> Iterator[Item]:
        if self._inside == "tool":  # the file ends in it
            yield from self._log()
        if self._inside in ("tool", "think"):
            yield Skipped(f"line {self._begun_at}", "an element without a clear end")
        yield from self._say()
        self._inside = self._fence = ""

    def _say(self) -> Iterator[Item]:
        """Give the text that was read of a message."""
        while self._held and self._held[-1].strip() in ("", _RULE):
            self._held.pop()
        said = "\n".join(self._held).strip()
        self._held, self._size, self._fence = [], 0, ""
        if not said or self._role in ("", "other"):
            return
        talk = self._talk()
        talk.is_doubtful = self._is_doubtful
        if self._role == "user":
            yield from talk.prompt(prompt_of([said]), self._at, self._message_id)
        else:
            yield from talk.say(said, self._at, self._message_id)

    def _talk(self) -> Conversation:
        if self._is_aside not in self._talks:
            self._talks[self._is_aside] = self._new_talk()
        return self._talks[self._is_aside]

    def _new_talk(self) -> Conversation:
        file = self._source.path
        id = self._id or file.stem
        begun = self._time(self._begun) or _time_in_name(file.name, self._naive) or self._at or modified(self._source)
        folder = _folder(file)
        return Conversation(
            SessionItem(
                id=of_session(id, "sidechain") if self._is_aside else id,
                type=(_TYPES.get(self._agent) or "-".join(self._agent.split()) or "specstory"),
                started_at=begun,
                last_at=self._last(),
                project=project_of(str(folder)) if folder is not None else None,
                name=None if self._is_aside else self._name[:1_000] or None,
                parent=id if self._is_aside else None,
            ),
            of_agent=self._is_aside,
        )

    def _last(self) -> str | None:
        """The time of the last message, from the end of the file."""
        with self._source.path.open("rb") as file:
            file.seek(max(0, self._source.size - 64 * 1024))
            end = file.read(64 * 1024).decode(errors="replace")
        return max(filter(None, map(self._time, _LATEST.findall(end))), default=None) or modified(self._source)

    def _time(self, about: str | None) -> str | None:
        found = re.search(rf"{_TIME}\Z", about.strip()) if about else None
        return moment(found[0], self._naive) if found else None


_SHELL_FENCES = frozenset(f"```{shell}" for shell in _SHELLS)


def _earlier(at: str) -> str:
    """A time before which no later message was sent. Messages of subagents are not quite in order."""
    return (datetime.fromisoformat(at) - timedelta(hours=1)).isoformat()


def _worked_on(about: str) -> str:
    """What a tool worked on, from the words behind its name: a command in quotes, or `• Read file: src/app.py`."""
    about = unescape(about.partition("</summary>")[0]).strip()
    label, colon, value = about.removeprefix("•").strip().strip("`").partition(": ")
    return value if colon and about.startswith("•") else f"{label}{colon}{value}"


def _folder(file: Path) -> Path | None:
    """The folder of the project whose history a file is in."""
    return next((folder.parent for folder in file.absolute().parents if folder.name == ".specstory"), None)


def _time_in_name(file: str, naive: tzinfo | None) -> str | None:
    found = _IN_NAME.match(file)
    return moment(f"{found[1]}T{found[2]}:{found[3]}:{found[4] or '00'}{found[5]}", naive) if found else None


FORMAT = Format("specstory", "SpecStory's histories", _find, _read, (".specstory/history",))
