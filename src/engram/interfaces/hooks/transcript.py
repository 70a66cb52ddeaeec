"""Reads the assistant's last message from a harness's transcript, for payloads that do not contain it.

A transcript is a file of JSON lines and can grow to many megabytes, so only its end is read. The formats differ and
change. This module relies only on what they share: an entry of the assistant whose content is a text or a list of
texts.
"""

from __future__ import annotations

import os

#: Bytes that are read from the end of a transcript.
TAIL = 512 * 1024


def last_message(path: str) -> str:
    """The assistant's last message; empty if there is none, or no transcript."""
    import json

    for line in reversed(_last_lines(path)):
        if b"assistant" not in line:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that is still being written, or the second half of one
        said = _assistant_text(entry)
        if said:
            return said
    return ""


def _last_lines(path: str) -> list[bytes]:
    try:
        # Non-blocking, because the path in a payload may be a pipe.
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


def _assistant_text(entry: object) -> str:
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
    return "\n".join(text for text in map(_part_text, parts) if text.strip())


def _part_text(part: object) -> str:
    if isinstance(part, dict) and part.get("type") in ("text", "output_text"):
        part = part.get("text")
    return part if isinstance(part, str) else ""
