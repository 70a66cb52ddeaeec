"""What of a conversation is recorded. It is read on the agent's machine.

At a stop these are the assistant's messages since the last prompt that say something: findings, decisions, results. A
harness gives the last one with the event; the others are in its transcript. Nothing that leaves this module has a
secret or a private part in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...harness_messages import FAILURE, Message, gist_text, is_worth_keeping, usable
from .transcript import Spoken, last_summary, last_turns

if TYPE_CHECKING:
    from .events import Event

#: The most messages that one stop records. The latest are kept: they are closest to what came of it.
MOST = 12


def closing_message(text: str) -> str:
    """The closing message of an event as it is stored; empty if there is none."""
    return "" if text.startswith(FAILURE) else usable(Message(text, None, None), in_full=True).text


def at_stop(event: Event) -> list[Spoken]:
    """The messages since the last prompt that are worth recording, and those since the prompt before, newest first.

    The second turn has messages that no stop reported if the person interrupted it.
    """
    if event.transcript is None:
        return []
    spoken = last_turns(event.transcript, event.agent)
    # The closing message as the event has it, because it is compared with messages of the transcript.
    closing = "" if event.text.startswith(FAILURE) else event.text
    return [_chosen(spoken[0], closing, with_last=not closing.strip()), *(_chosen(each, "") for each in spoken[1:])]


def at_prompt(event: Event, within: float | None = None) -> list[Spoken]:
    """The messages since the last prompts, newest first, for the case that the person interrupted the last turn.

    Reading the transcript takes at most so many seconds, by default those of `transcript.LONGEST_READ`.
    """
    if event.transcript is None:
        return []
    return [_chosen(each, "") for each in last_turns(event.transcript, event.agent, within=within)]


def summary(event: Event) -> str:
    """The summary of a compaction as a gist; empty if there is none. The event has it, or the transcript."""
    text = event.text or (last_summary(event.transcript, event.agent) if event.transcript is not None else "")
    return gist_text(text)


def is_end(message: str, closing: str) -> bool:
    """Whether a message of the transcript is the end of the closing one. The event joins separate messages."""
    return bool(message.strip()) and closing.strip().endswith(message.strip())


def _chosen(spoken: Spoken, closing: str, *, with_last: bool = False) -> Spoken:
    """The prompt and the messages as they are stored, if they say something which the closing one does not repeat.

    With `with_last` the last message counts as the closing one, which is kept in full.
    """
    messages = spoken.messages
    last = messages[-1:] if with_last or (messages and is_end(messages[-1].text, closing)) else []
    rest = messages[:-1] if last else messages
    closing = last[0].text if with_last and last else closing
    chosen = [usable(message, in_full=False) for message in _worth_keeping(rest, closing)]
    chosen += [usable(message, in_full=True) for message in last]
    prompt = spoken.prompt and usable(spoken.prompt, in_full=True)
    return Spoken(prompt, [message for message in chosen if message.text])


def _worth_keeping(messages: list[Message], closing: str) -> list[Message]:
    """The messages that say something which the closing one does not repeat; the latest, in order."""
    kept: list[Message] = []
    for message in reversed(messages):
        if len(kept) == MOST - 1:
            break
        if is_worth_keeping(message.text, closing):
            kept.append(message)
    return kept[::-1]
