"""Messages in the transcripts of harnesses, and what of them is recorded.

Hooks and importers share this, so a session has the same turns whether a hook recorded it or its transcript was
imported later. The formats of transcripts differ and change. This module relies only on what they share: an entry of
the user or the assistant whose content is a text or a list of texts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from . import harness_payloads as payloads
from .checks import moment, new_name
from .errors import InvalidInput
from .framing import clean, own_words
from .harness_prompts import asked, compaction_summary, is_continued, said
from .redact import redact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Characters of a message before the closing one. A longer one is usually a pasted file.
LONGEST = 8_000
#: Characters of a compaction's summary that become the gist.
LONGEST_GIST = 16_000
#: Ends a message that was cut.
CUT = " …"
#: The harness's own words in place of a message of the model.
FAILURE = "API Error: "

#: Stands in Cursor's transcripts for what the model thought.
_THOUGHTS = "[REDACTED]"
#: Where entries keep their message, and the types of those entries: Claude Code's and Cursor's, Codex's.
_INSIDE = {"message": (None, "user", "assistant"), "payload": (None, "response_item", "compacted")}


class Message(NamedTuple):
    """One message of a transcript."""

    text: str
    #: The harness's own id of the message.
    id: str | None
    #: When it was written, as the harness says.
    at: str | None


def message_of(entry: Mapping[str, object]) -> tuple[str, Message] | None:
    """Who says what in an entry: `user`, `assistant`, or `summary`. None for an entry that is no message."""
    if entry.get("isMeta") is True or entry.get("isApiErrorMessage") is True:
        return None  # what the harness says, such as the text of a slash command for the model
    inside = _inside(entry)
    if inside is None:
        return None  # a copy of what was sent to the model, or an event
    if entry.get("type") == "compacted":
        summary = inside.get("message")
        return ("summary", Message(summary, None, None)) if isinstance(summary, str) and summary.strip() else None
    role = inside.get("role") or entry.get("role") or inside.get("type") or entry.get("type")
    role = "assistant" if role in ("gemini", "model") else role
    texts = texts_of(entry)
    if role == "assistant":
        text = "\n".join(texts)
    elif role == "user" and entry.get("toolUseResult") is None:
        if entry.get("isCompactSummary") is True or any(map(is_continued, texts)):
            return "summary", Message("\n".join(texts), _id(entry, inside), _text(entry.get("timestamp")))
        text = "\n".join(filter(None, map(said, texts)))
    else:
        return None
    if not text.strip() or (role == "assistant" and text.startswith(FAILURE)):
        return None
    return str(role), Message(text, _id(entry, inside), _text(entry.get("timestamp")))


def texts_of(entry: Mapping[str, object]) -> list[str]:
    """The texts of the message in an entry."""
    inside = _inside(entry) or {}
    content = inside.get("content", inside.get("text", inside.get("parts")))
    parts = content if isinstance(content, list) else [content]
    texts = [text for text in map(_part_text, parts) if text.strip()]
    # Cursor's entries have a role and no type. It writes what the person asked into an element, and a mark in place of
    # what the model thought.
    return texts if "type" in entry else [text for text in map(_without_thoughts, map(asked, texts)) if text]


def prompt_of(texts: Sequence[str]) -> str:
    """What the person said in a message of these texts, as hooks record it."""
    # A private passage may begin in one text and end in the next.
    if len(texts) > 1 and any("private" in text.lower() for text in texts):
        texts = ["\n".join(texts)]
    words = [own_words(payloads.storable(payloads.cut(text, payloads.LONGEST))) for text in texts]
    return redact("\n".join(filter(None, words)))


def is_worth_keeping(text: str, closing: str) -> bool:
    """Whether a message says something which the closing message after it does not repeat."""
    from .narration import is_substantial

    return text.strip() not in closing and is_substantial(text)


def usable(message: Message, *, in_full: bool) -> Message:
    """The message as it can be stored: without secrets and private parts. Unless `in_full`, narration goes, too."""
    longest = payloads.LONGEST if in_full else LONGEST
    # Of a text that is cut later, a little more is enough to find its secrets.
    read = payloads.LONGEST if in_full else 2 * longest
    text = redact(clean(payloads.storable(payloads.cut(message.text, read))))
    if not in_full:
        from .narration import without_narration

        text = without_narration(text)
    if len(text) > longest:
        text = text[:longest].rsplit(None, 1)[0] + CUT
    at = None
    with suppress(InvalidInput):
        at = message.at and moment(message.at, "time of a message")
    return Message(text, usable_id(message.id), at)


def usable_id(id: str | None) -> str | None:
    """The id of a message, if it can be stored."""
    with suppress(InvalidInput):
        return id and new_name(id, "id of a message")
    return None


def gist_text(summary: str) -> str:
    """The summary of a compaction as a gist; empty if it says nothing."""
    # Private parts go first: one may have a summary in it.
    text = clean(payloads.storable(payloads.cut(summary, payloads.LONGEST)))
    text = redact(clean(compaction_summary(text)))
    if len(text) > LONGEST_GIST:
        text = text[:LONGEST_GIST].rpartition("\n")[0] or text[:LONGEST_GIST]
    return text


def _inside(entry: Mapping[str, object]) -> Mapping[str, object] | None:
    """The part of an entry that has its message; None for an entry of another type."""
    for name, types in _INSIDE.items():
        inner = entry.get(name)
        if isinstance(inner, dict):
            return inner if entry.get("type") in types else None
    return entry


def _id(entry: Mapping[str, object], inside: Mapping[str, object]) -> str | None:
    return _text(entry.get("uuid")) or _text(entry.get("id")) or _text(inside.get("id"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 200 else None


def _without_thoughts(text: str) -> str:
    return text.rstrip().removesuffix(_THOUGHTS).rstrip()


def _part_text(part: object) -> str:
    if isinstance(part, dict) and part.get("type") in ("text", "output_text", "input_text", None):
        part = part.get("text")
    return part if isinstance(part, str) else ""
