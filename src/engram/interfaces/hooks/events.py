"""One event model for all harnesses, and what may be read from a payload.

A payload is data from outside: any field may be missing, of another type, or far too long. Adapters therefore take
fields only through the functions here, which give a text of a bounded length or nothing. (Annotations are not postponed
here, as in `records`: they would be compiled from their text at every start.)
"""

from collections.abc import Mapping
from typing import NamedTuple

from ...safe_text import one_line

#: What a harness can report, by the names used here.
START = "start"
PROMPT = "prompt"
BEFORE_TOOL = "before tool"
AFTER_TOOL = "after tool"
STOP = "stop"
COMPACT = "before compaction"
SUBAGENT_START = "subagent start"
SUBAGENT_STOP = "subagent stop"
END = "end"

#: The longest text taken from a payload; a turn of this length is a pasted log, and its head says what it is.
LONGEST = 200_000
LONGEST_NAME = 200

Payload = Mapping[str, object]


class Event(NamedTuple):
    kind: str
    #: The harness's own name for it, which some answers must repeat.
    name: str
    #: The harness's own id of the session.
    session: str
    #: Of a subagent, when the event happened in one.
    agent: str | None = None
    agent_type: str | None = None
    folder: str | None = None
    #: What was said: the prompt, or the assistant's last message.
    text: str = ""
    #: Where the harness keeps the conversation, for messages that are not in the payload.
    transcript: str | None = None
    tool: str = ""
    #: The files the tool writes; empty for a tool that writes none.
    paths: tuple[str, ...] = ()
    #: What the tool works on, in a line.
    target: str = ""
    failed: bool = False
    #: Why it happened: what started the session, or the compaction.
    reason: str = ""
    #: Whether the harness shows the answer's context to the model.
    takes_context: bool = False
    #: Whether a warning about a file can only be given after the tool has run.
    warn_late: bool = False


class Answer(NamedTuple):
    #: Text for the model; empty for none.
    context: str = ""
    #: Why the tool may not run; empty when it may.
    denied: str = ""


def text(payload: Payload, *names: str, longest: int = LONGEST) -> str:
    """The first of these fields that is a text with something in it; empty when there is none."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value.strip():
            # A lone surrogate or a NUL cannot be stored, and is no reason to lose the rest.
            cut = value[:longest].replace("\x00", "")
            return cut if cut.isascii() else cut.encode("utf-8", "replace").decode()
    return ""


def name(payload: Payload, *names: str) -> str | None:
    """A field that is a name, as it can be stored: one plain line."""
    return one_line(text(payload, *names, longest=LONGEST_NAME), LONGEST_NAME) or None


def inner(payload: Payload, field: str) -> Payload:
    """A field that is an object, also when it comes as JSON in a text; otherwise an empty one."""
    value = payload.get(field)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        import json

        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def texts(payload: Payload, field: str, most: int = 20) -> list[str]:
    """A field that is a list of texts."""
    values = payload.get(field)
    if not isinstance(values, list):
        return []
    return [value[:4_096] for value in values[:most] if isinstance(value, str) and value.strip()]


def written_paths(given: Payload) -> tuple[str, ...]:
    """The files that the input of a writing tool names."""
    path = text(given, "file_path", "notebook_path", "path", "target_file", longest=4_096)
    if path:
        return (path,)
    patch = text(given, "command", "patch", "input")
    return patched_paths(patch) if "*** Begin Patch" in patch else ()


def patched_paths(patch: str, most: int = 50) -> tuple[str, ...]:
    """The files a patch in the format of `apply_patch` adds, updates, moves or deletes."""
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    lines = [line.strip() for line in patch.split("\n") if line.startswith("*** ")]
    found = [line[len(mark) :].strip() for line in lines for mark in marks if line.startswith(mark)]
    return tuple(dict.fromkeys(path[:4_096] for path in found if path))[:most]


def tool_target(given: Payload, paths: tuple[str, ...]) -> str:
    """What a tool works on, for one line of a log; never the contents it writes."""
    if paths:
        return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return text(
        given, "file_path", "path", "command", "pattern", "query", "url", "description", "prompt", longest=1_000
    )
