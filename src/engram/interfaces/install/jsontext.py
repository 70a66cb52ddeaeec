"""Edit a JSON file as text, so that everything else stays byte for byte the same.

Comments, where a harness allows them, are overwritten with spaces in a copy of the text. The copy is plain JSON with
every value at the same place, so Python's own decoder finds where each one begins and ends.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

#: The path to a value: keys of objects and positions in lists.
Path = tuple[str | int, ...]

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


class _Member(NamedTuple):
    """One member of an object or list, by its places in the text."""

    key: str | int
    #: Where its key begins, or in a list the value.
    begin: int
    value: int
    end: int


class JsonText:
    """A JSON document that is edited in place."""

    def __init__(self, text: str, *, comments: bool = False) -> None:
        self._comments = comments
        self._text = text
        self._plain = ""
        self._value: dict[str, Any] = {}
        self._set(text if text.strip() else "{}\n")

    def text(self) -> str:
        return self._text

    def value(self) -> dict[str, Any]:
        """The document as data."""
        return self._value

    def put(self, path: Path, value: object) -> None:
        """Set a value; missing objects on the path are created."""
        found = self._walk(path)
        if len(found) == len(path):
            _, _, begin, end = found[-1]
            is_one_line = "\n" not in self._text[begin:end]
            new = json.dumps(value, ensure_ascii=False) if is_one_line else self._written(value, len(path))
            self._set(self._text[:begin] + new + self._text[end:])
            return
        key, *inner = path[len(found) :]
        for each in reversed(inner):
            value = {each: value}
        self._insert(found, str(key), value)

    def append(self, path: Path, value: object) -> None:
        """Add to the end of a list, which is created if it is missing."""
        found = self._walk(path)
        if len(found) == len(path):
            self._insert(found, None, value)
        else:
            self.put(path, [value])

    def remove(self, path: Path) -> None:
        """Remove one member from its object or list, with its comma."""
        *outer, mine = self._walk(path)
        start = self._start(outer)
        members, close = self._members(start)
        at = members.index(mine)
        follows = mine.end if at == len(members) - 1 else self._plain.index(",", mine.end) + 1
        before = self._text[: self._cut(mine.begin, follows)]
        after = self._text[mine.end : follows].removesuffix(",") + self._text[follows:]
        if len(members) == 1:
            left = before[start + 1 :] + self._text[follows:close]
            before, after = self._text[: start + 1] + (left if left.strip() else ""), self._text[close:]
        elif follows == mine.end:
            comma = self._plain.index(",", members[at - 1].end)
            before = before[:comma] + before[comma + 1 :]
        self._set(before + after)

    def _set(self, text: str) -> None:
        plain = _without_comments(text) if self._comments else text
        value = json.loads(plain)
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        self._text, self._plain, self._value = text, plain, value

    def _start(self, found: list[_Member]) -> int:
        """Where the last of the members on a way begins, or the whole document."""
        return found[-1].value if found else self._skip(0)

    def _walk(self, path: Path) -> list[_Member]:
        """The members on the way to a value, as far as they exist."""
        found: list[_Member] = []
        for key in path:
            members, _ = self._members(self._start(found))
            # If a key occurs twice, JSON readers use the last.
            member = next((each for each in reversed(members) if each.key == key), None)
            if member is None:
                break
            found.append(member)
        return found

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._plain, at)
        assert found is not None
        return found.end()

    def _members(self, start: int) -> tuple[list[_Member], int]:
        """The members of the object or list that begins here, and where it closes."""
        members: list[_Member] = []
        is_object = self._plain[start] == "{"
        at = self._skip(start + 1)
        while self._plain[at] not in "]}":
            begin = at
            key: str | int = len(members)
            if is_object:
                key, at = _DECODER.raw_decode(self._plain, at)
                at = self._skip(self._skip(at) + 1)
            _, end = _DECODER.raw_decode(self._plain, at)
            members.append(_Member(key, begin, at, end))
            at = self._skip(end)
            if self._plain[at] == ",":
                at = self._skip(at + 1)
        return members, at

    def _insert(self, outer: list[_Member], key: str | None, value: object) -> None:
        """Add a member at the end of an object or list, in the manner of those before it."""
        start, depth = self._start(outer), len(outer)
        members, close = self._members(start)
        one_line = bool(members) and "\n" not in self._text[start:close]
        member = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
        member += json.dumps(value, ensure_ascii=False) if one_line else self._written(value, depth + 1)
        last = members[-1].end if members else start + 1
        # Up to the bracket there may be a comment; the new member goes behind it.
        kept = self._text[last:close].rstrip()
        space = self._text[last + len(kept) : close] if members or kept else self._line(depth)
        self._set(
            self._text[:last]
            + ("," if members else "")
            + kept
            + (" " if one_line else self._line(depth + 1))
            + member
            + space
            + self._text[close:]
        )

    def _written(self, value: object, depth: int) -> str:
        written = json.dumps(value, ensure_ascii=False, indent=self._indent())
        return written.replace("\n", self._line(depth))

    def _line(self, depth: int) -> str:
        """A line break, in the file's own manner, and the indentation of that depth."""
        return ("\r\n" if "\r\n" in self._text else "\n") + self._indent() * depth

    def _indent(self) -> str:
        found = re.search(r"\n([ \t]+)[\"}\]]", self._plain)
        return found[1] if found else "  "

    def _cut(self, begin: int, follows: int) -> int:
        """From where to take out a member: with the white space before it, unless that ends a `//` comment which would
        swallow what follows."""
        blank = len(self._text[:begin].rstrip())
        is_code = bool(self._plain[blank - 1].strip())
        return blank if is_code or re.match(r"[ \t]*\r?\n", self._text[follows:]) else begin


def _without_comments(text: str) -> str:
    """The text with spaces for its comments; line breaks stay, so that errors name the right line."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\r\n]", " ", found[0])

    return _STRING_OR_COMMENT.sub(blank, text)
