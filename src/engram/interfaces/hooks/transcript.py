"""Reads a harness's transcript from its end: what was said since the person's last prompt.

A transcript is a file of JSON lines and can grow to many megabytes, so only its end is read, in blocks, back to the
last prompt. Gemini CLI keeps some sessions in one JSON document; that is read if it is small.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from ...harness_messages import Message, message_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: How far back a transcript is read, in bytes and in entries of the conversation.
MOST_BYTES, MOST_ENTRIES = 4 * 1024 * 1024, 400
#: Entries behind the summary of a compaction that has just happened.
_NEAR = 30
_BLOCK = 256 * 1024
#: Seconds after which no more of a transcript is read. A hook has other things to do.
LONGEST_READ = 0.4
#: Only entries with one of these in them are parsed. Most of a transcript is output of tools.
_SPEAKERS = (b'"assistant"', b'"user"', b'"gemini"', b'"model"', b'"compacted"')


class Spoken(NamedTuple):
    """What was said since the last prompt."""

    #: The person's last prompt; None if it is further back than the transcript is read.
    prompt: Message | None
    #: The assistant's messages since then, oldest first.
    messages: list[Message]


def since_last_prompt(path: str, agent: str | None = None) -> Spoken:
    """What was said since the last prompt; with `agent`, in that subagent."""
    return last_turns(path, agent, 1)[0]


def last_turns(path: str, agent: str | None = None, most: int = 2, *, within: float | None = None) -> list[Spoken]:
    """What was said since each of the last prompts, newest first; at least one.

    Reading takes at most so many seconds, by default `LONGEST_READ`.
    """
    turns: list[Spoken] = []
    found: list[Message] = []
    for role, message in _entries(path, agent, within):
        if role == "user":
            turns.append(Spoken(message, found[::-1]))
            found = []
            if len(turns) == most:
                return turns
        elif role == "assistant":
            found.append(message)
    return [*turns, Spoken(None, found[::-1])]


def last_summary(path: str, agent: str | None = None) -> str:
    """The summary with which a conversation goes on that was just compacted; empty if there is none near the end."""
    from itertools import islice

    near = islice(_entries(path, agent), _NEAR)
    return next((message.text for role, message in near if role == "summary"), "")


def _entries(path: str, agent: str | None, within: float | None = None) -> Iterator[tuple[str, Message]]:
    """The messages from the last to the first: of the `assistant`, of the `user`, and any `summary`."""
    seen = 0
    for entry in _objects(path, LONGEST_READ if within is None else within):
        found = message_of(entry) if _is_in(entry, agent) else None
        if found is None:
            continue
        yield found
        seen += 1
        if seen == MOST_ENTRIES:
            return


def _objects(path: str, within: float) -> Iterator[Mapping[str, object]]:
    """The JSON objects of the file from the last to the first, as far as it is read."""
    import json

    # A session in one document is written over several lines.
    lines = _lines(path, within)
    for line in [b"\n".join(reversed(list(lines)))] if path.endswith(".json") else lines:
        if not any(speaker in line for speaker in _SPEAKERS):
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that is still being written, or the second half of one
        if isinstance(entry, dict):
            messages = entry.get("messages")
            if isinstance(messages, list):  # the whole session in one document
                yield from (each for each in reversed(messages) if isinstance(each, dict))
            else:
                yield entry


def _lines(path: str, within: float) -> Iterator[bytes]:
    """The lines of the file from the last to the first, up to `MOST_BYTES`. The first one may be incomplete.

    Reading ends early when so many seconds have passed.
    """
    begun = monotonic()
    try:
        # Non-blocking, because the path in a payload may be a pipe.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    try:
        end = os.fstat(file).st_size
        least = max(0, end - MOST_BYTES)
        # The parts of the line that is not complete yet, in reverse order.
        tail: list[bytes] = []
        while end > least:
            begin = max(least, end - _BLOCK)
            first, *lines = os.pread(file, end - begin, begin).split(b"\n")
            end = begin
            if lines:
                lines[-1] += b"".join(reversed(tail))
                tail = []
                for count, line in enumerate(reversed(lines)):
                    if count % 16 == 0 and monotonic() - begun > within:
                        return
                    if line:
                        yield line
            tail.append(first)
        yield b"".join(reversed(tail))
    except OSError:
        return
    finally:
        os.close(file)


def _is_in(entry: Mapping[str, object], agent: str | None) -> bool:
    """Whether an entry belongs to the session, or to that subagent of it. Claude Code marks those of subagents."""
    if agent is None:
        return entry.get("isSidechain") is not True
    return entry.get("isSidechain") is not False and entry.get("agentId") in (None, agent)
