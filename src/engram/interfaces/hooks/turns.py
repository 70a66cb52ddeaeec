"""Records what was said as turns of its session; `spoken` says what that is.

Each message is recorded once, however often a stop is reported: it is known by the harness's own id of it, or by its
text, if a turn since the prompt contains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...harness_messages import CUT
from .spoken import is_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...client import Engram
    from ...harness_messages import Message
    from ...records import Exchange
    from .transcript import Spoken

#: Turns of the session in which a message without an id is looked for.
_RECENT = 60


def record_closing(eng: Engram, session_id: str, text: str) -> int | None:
    """Record the closing message that an event has; its id, or None if the session has all of it already.

    This comes before the transcript is read, which may be slow.
    """
    recorded = [turn.content for turn in _since(eng.exchanges.recent(session_id, _RECENT), 1)]
    text = _new_part(text, recorded)
    return eng.exchanges.add(session_id, "assistant", text, embed=False, words=False) if text else None


def record_turns(eng: Engram, session_id: str, spoken: list[Spoken], closing: tuple[str, int | None]) -> None:
    """Add the messages that the session does not have yet, and note the ids of the turns that it has.

    `closing` is the closing message that was recorded first, and its id. The messages go before it.
    """
    text, closing_id = closing
    turns = eng.exchanges.recent(session_id, _RECENT)
    prompts = [turn for turn in turns if turn.role == "user"]
    current, *earlier = spoken
    messages = list(current.messages)
    if current.prompt is not None and current.prompt.id is not None and prompts:
        _identify(eng, prompts[-1:], current.prompt)
    if text and messages and is_end(messages[-1].text, text):
        last = messages.pop()
        if closing_id is not None and last.id is not None:
            eng.exchanges.set_external_id(closing_id, last.id)
        else:
            _identify(eng, _since(turns, 1), last._replace(text=text))
    # The same words after an earlier prompt are another message.
    new = _unrecorded(eng, session_id, messages, _since(turns, 1))
    if earlier and len(prompts) > 1 and _is_prompt(prompts[-2], earlier[0].prompt):
        new = [*_unrecorded(eng, session_id, earlier[0].messages, _since(turns, 2)), *new]
    _add(eng, session_id, new, closing_id)


def record_interrupted(eng: Engram, session_id: str, prompt_id: int, read: Callable[[], list[Spoken]]) -> None:
    """Add what was said since the prompt before this one, if no stop has reported it: the person interrupted it.

    `read` returns what was said since the last prompts. It may read a transcript, so it is called only if needed.
    """
    turns = eng.exchanges.recent(session_id, 2)
    if len(turns) < 2 or turns[0].role != "user" or turns[1].id != prompt_id:
        return
    # The transcript may have the new prompt already, or not yet.
    for spoken in read():
        if spoken.messages and _is_prompt(turns[0], spoken.prompt):
            return _add(eng, session_id, _unrecorded(eng, session_id, spoken.messages, []), prompt_id)


def keep_summary(eng: Engram, session_id: str, text: str) -> bool:
    """Make the harness's summary of a compaction the session's gist so far; whether there is a summary.

    Its sources are the turns that the last gist does not cover, and a log entry: the summary is the words of an agent,
    even if only the person's turns were recorded.
    """
    if not text or not eng.exchanges.recent(session_id, 1):
        return False
    noted = eng.sessions.log(session_id, "The context was compacted; its summary is the gist so far")
    turns = eng.memories.unsummarised(session_id)
    eng.memories.store_gist(session_id, text, noted.seq, sources=[*(turn.id for turn in turns), noted.id], embed=False)
    return True


def _since(turns: Sequence[Exchange], prompts: int) -> list[Exchange]:
    """The assistant's turns since the last prompt, or since the one before."""
    asked = [turn.seq for turn in turns if turn.role == "user"][-prompts:]
    return [turn for turn in turns if turn.role == "assistant" and turn.seq > (asked[0] if asked else 0)]


def _is_prompt(turn: Exchange, prompt: Message | None) -> bool:
    """Whether a turn records the prompt of a transcript."""
    if prompt is None:
        return False
    return _plain(turn.content) == _plain(prompt.text) or (prompt.id is not None and turn.external_id == prompt.id)


def _unrecorded(eng: Engram, session_id: str, messages: list[Message], turns: Sequence[Exchange]) -> list[Message]:
    """The messages that none of the turns contains. A turn with the same text gets the message's id."""
    recorded = [turn.content for turn in turns]
    new: list[Message] = []
    for message in messages:
        if message.id is not None and eng.exchanges.find(session_id, message.id) is not None:
            continue
        text = _new_part(message.text, recorded)
        if text:
            new.append(message._replace(text=text))
            recorded.append(text)
        else:
            _identify(eng, turns, message)
    return new


def _new_part(text: str, recorded: Sequence[str]) -> str:
    """What a text adds to the recorded ones; empty if one of them contains it."""
    from ...narration import without_narration

    # A harness joins messages that were recorded separately.
    for known in recorded:
        if text.startswith(known) and text[len(known) : len(known) + 1] in ("", "\n"):
            text = text[len(known) :].lstrip()
    if not text:
        return ""
    # A message that was recorded as one among others lacks its narration.
    forms = [f" {form} " for form in map(_plain, (text, without_narration(text))) if form]
    return "" if any(form in f" {_plain(known)} " for known in recorded for form in forms) else text


def _plain(text: str) -> str:
    return " ".join(text.removesuffix(CUT).split())


def _identify(eng: Engram, turns: Sequence[Exchange], message: Message) -> None:
    """Give the turn that records the message the message's id, if it has none."""
    if message.id is None:
        return
    text = _plain(message.text)
    for turn in reversed(turns):
        known = _plain(turn.content)
        if turn.external_id is None and (known == text or (message.text.endswith(CUT) and known.startswith(text))):
            eng.exchanges.set_external_id(turn.id, message.id)
            return


def _add(eng: Engram, session_id: str, messages: list[Message], before: int | None) -> None:
    """Add the messages, before a turn that was recorded earlier in the same event if there is one."""
    given = []
    for message in messages:
        at = eng.exchanges.plausible_time(session_id, message.at) if message.at is not None else None
        known = {"created_at": at, "external_id": message.id}
        fields = {name: value for name, value in known.items() if value is not None}
        given.append({"session_id": session_id, "role": "assistant", "content": message.text, **fields})
    if before is not None:
        eng.exchanges.insert_before(before, given)
        return
    for each in given:
        eng.exchanges.add(**each, embed=False, words=False)
