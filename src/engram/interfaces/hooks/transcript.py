"""The assistant's last message from a harness's own record of the conversation, for payloads that do not carry it.

Transcripts are JSON lines and grow to many megabytes, so only the end of the file is read. Their forms differ and
change; what is looked for is what they have in common: an assistant's entry whose content is text, or a list with texts
in it.
"""

from __future__ import annotations

import os

#: How much of the end of a transcript is read.
TAIL = 512 * 1024


def last_message(path: str) -> str:
    """The last text the assistant said; empty when there is none, or no transcript."""
    import json

    for line in reversed(_last_lines(path)):
        if b"assistant" not in line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that is still being written, or the second half of one
        said = _said(entry)
        if said:
            return said
    return ""


def _last_lines(path: str) -> list[bytes]:
    try:
        # Not blocking: what a payload calls a transcript may be a pipe.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []
    try:
        size = os.fstat(file).st_size
        return os.pread(file, TAIL, max(0, size - TAIL)).split(b"\n")
    except OSError:
        return []
    finally:
        os.close(file)


def _said(entry: object) -> str:
    if not isinstance(entry, dict):
        return ""
    for inside in ("message", "payload"):
        if isinstance(entry.get(inside), dict):
            outer, entry = entry, {**entry[inside]}
            entry.setdefault("role", outer.get("role") or outer.get("type"))
            break
    if (entry.get("role") or entry.get("type")) != "assistant":
        return ""
    content = entry.get("content", entry.get("text"))
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text for text in map(_text, parts) if text.strip())


def _text(part: object) -> str:
    if isinstance(part, dict) and part.get("type") in ("text", "output_text"):
        part = part.get("text")
    return part if isinstance(part, str) else ""
