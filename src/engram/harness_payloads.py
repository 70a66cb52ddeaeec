"""Reads fields of what a harness writes: payloads of events, and entries of transcripts.

All of it is untrusted input: any field may be missing, of the wrong type, or far too long. So fields are read only
through these functions, which return a text of limited length or nothing. Hooks import this module at every event.
"""

from __future__ import annotations

from collections.abc import Mapping

from .safe_text import one_line

#: The longest text read from a payload. A longer turn is usually a pasted log; its beginning is enough.
LONGEST = 200_000
LONGEST_NAME = 200
#: Characters of what a tool works on, in one line of a session's log.
LONGEST_TARGET = 200
#: Characters at the end of a text that is too long, of which an unfinished word is removed.
_LONGEST_WORD = 900

Payload = Mapping[str, object]


def text(payload: Payload, *names: str, longest: int = LONGEST) -> str:
    """The first of these fields that is a non-blank text; empty if there is none."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value.strip():
            return storable(value[:longest] if longest <= LONGEST_NAME else cut(value, longest))
    return ""


def cut(value: str, longest: int) -> str:
    """The beginning of a text, without a word that the cut would split: half a secret is not recognised as one."""
    if len(value) <= longest:
        return value
    head, tail = value[: longest - _LONGEST_WORD], value[longest - _LONGEST_WORD : longest + 1]
    # Nothing of the tail is kept if it has no blank.
    return head + tail[: max(0, *map(tail.rfind, " \n\t\r"))]


def storable(value: str) -> str:
    """The text without a NUL and with a mark for each lone surrogate: neither can be stored."""
    value = value.replace("\x00", "")
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def name(payload: Payload, *names: str) -> str | None:
    """The first of these fields that is a text, as one short line that can be stored as a name."""
    return one_line(text(payload, *names, longest=LONGEST_NAME), LONGEST_NAME) or None


def inner(payload: Payload, field: str) -> Payload:
    """A field that is an object, or JSON text of an object; otherwise an empty object."""
    value = payload.get(field)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        import json

        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def texts(payload: Payload, field: str, most: int = 20) -> list[str]:
    """A field that is a list of texts."""
    values = payload.get(field)
    if not isinstance(values, list):
        return []
    return [value[:4_096] for value in values[:most] if isinstance(value, str) and value.strip()]


def written_paths(given: Payload) -> tuple[str, ...]:
    """The files that a writing tool's input names."""
    path = text(given, "file_path", "notebook_path", "path", "target_file", longest=4_096)
    if path:
        return (path,)
    patch = text(given, "command", "patch", "input")
    return patched_paths(patch) if "*** Begin Patch" in patch else ()


def patched_paths(patch: str, most: int = 50) -> tuple[str, ...]:
    """The files that a patch in `apply_patch` format adds, updates, moves or deletes."""
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    lines = [line.strip() for line in patch.split("\n") if line.startswith("*** ")]
    found = [line[len(mark) :].strip() for line in lines for mark in marks if line.startswith(mark)]
    return tuple(dict.fromkeys(path[:4_096] for path in found if path))[:most]


def tool_target(given: Payload, paths: tuple[str, ...]) -> str:
    """What a tool works on, for one line of the log. It never includes the content that the tool writes."""
    if paths:
        return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return text(
        given, "file_path", "path", "command", "pattern", "query", "url", "description", "prompt", longest=1_000
    )


def log_line(tool: str, target: str, *, failed: bool) -> str:
    """The line of a session's log about a tool: its name, what it worked on, and how it ended."""
    from .framing import clean
    from .redact import redact

    target = one_line(redact(clean(target)), LONGEST_TARGET)
    return f"{one_line(tool, 60) or 'tool'} {target}".rstrip() + f": {'failed' if failed else 'done'}"
