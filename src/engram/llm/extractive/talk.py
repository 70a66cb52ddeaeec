"""The turns of a session, read for what their speakers said.

A user's turn is often not the user's: it is a notice of the harness, the text that a command stands for, a log, a plan
that an agent wrote, a quoted remark of a review. `Turn.own` has only the lines that the person wrote. A conversation of
two people has their names before what they say (`Anna: …`); the names are taken off, and so is a picture's caption.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from ... import prose, wording
from ...language import UNSPACED
from ...safe_text import one_line
from ...sentences import parts
from ..protocol import Passage

#: Characters of a turn that are read.
READ: Final = 40_000
_SPEAKER: Final = re.compile(r"\A\s*+([^\W\d_][\w.'-]{0,30}(?: [^\W\d_][\w.'-]{0,30})?): ")
_CAPTION: Final = re.compile(r"\[[^\[\]\n]{3,400}\]\s*\Z")
#: A name has to begin this share of a role's turns.
_NAMED: Final = 0.8
_FENCE: Final = ("```", "~~~")
#: Marks at the beginning of a line that a person did not write as their own sentence.
_TICKED: Final = re.compile(r"\A\s*+(?:[-*+•]\s*+)?(?:\[[ xX]\]|[✅✔✓☑⚠❌✖☐])")
_BULLET: Final = re.compile(r"\A\s*+(?:[-*+•]|\d{1,3}[.)])\s+")
#: "Let's address: 2. Repeated pattern" quotes a remark behind the colon.
_QUOTES_ITEM: Final = re.compile(r":\s+(?:\(?\d{1,3}[.)]\)?\s|[-*•]\s|\(\d)")
#: Words before an ask that say nothing, and characters of a path that is shown whole.
_LEAD: Final = re.compile(r"\A(?:(?:ok|okay|mmk|ah|um+|hm+|so|and|also|well|oh)\b[\s,.!…—–-]*+)++(?=\S)", re.IGNORECASE)
_LONG_PATH: Final = 40
#: A user's list in a longer turn was probably pasted.
_OWN_LIST: Final = 1_200
#: A turn with more lines has probably pasted text.
_MANY_LINES: Final = 4
#: A turn of more lines without a sentence is output.
_OUTPUT: Final = 6
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
#: A wrapped line is at least this long.
_WRAPPED: Final = 60
#: A short sentence that says what holds instead of what the one before denies.
_NEGATES: Final = re.compile(r"n[’']t\b|\b(?:not|never|no)\b", re.IGNORECASE)
_INSTEAD: Final = re.compile(
    r"\A(?:[^.!?]{1,40} (?:is|are|does|do|must|should|can|will)|(?:use|prefer|only|just) [^.!?]{1,40})[.!]?\Z",
    re.IGNORECASE,
)
_FEW_WORDS: Final = 4
_ABBREVIATED: Final = ("e.g.", "i.e.", "vs.", "etc.", "cf.", "approx.")
_ENDS: Final = (".", "!", "?", ":", ";", "…", "。", "！", "？")


class Turn(NamedTuple):
    #: The id of its passage.
    source: str
    role: str
    at: str
    text: str
    #: What a user's turn asks, on one line; empty if it asks nothing.
    ask: str
    #: The name before the turn; empty if there is none.
    speaker: str
    #: Whether the harness wrote it: a notice, or the text of a command.
    foreign: bool

    @property
    def interrupts(self) -> bool:
        return self.role == "user" and wording.is_interruption(self.text)


def read(passages: Sequence[Passage]) -> list[Turn]:
    """The turns of the user and of agents, in order."""
    spoken = [each for each in passages if each.role in ("user", "assistant") and each.text.strip()]
    names = {role: _names([each.text for each in spoken if each.role == role]) for role in ("user", "assistant")}
    turns: list[Turn] = []
    for passage in spoken:
        text, speaker = passage.text[:READ], ""
        found = _SPEAKER.match(text)
        if found and found[1] in names[passage.role]:
            speaker, text = found[1], _CAPTION.sub("", text[found.end() :]).strip()
        turns.append(Turn(passage.id, passage.role, passage.at, text, "", speaker, False))
    said = [position for position, turn in enumerate(turns) if turn.role == "user"]
    asked = {said[number]: ask for number, ask in wording.numbered_asks(_asking(turns[each]) for each in said)}
    for position, ask in asked.items():
        if not ask.startswith("/") and _is_output(turns[position].text):
            asked[position] = wording.PASTED + one_line(turns[position].text.strip().splitlines()[0], 100)
    return [
        turn._replace(ask=asked.get(position, ""), foreign=turn.role == "user" and position not in asked)
        for position, turn in enumerate(turns)
    ]


def is_of_two_people(turns: Sequence[Turn]) -> bool:
    return any(turn.speaker for turn in turns if turn.role == "user")


def bare(ask: str) -> str:
    """An ask without filler words before it, and with long paths cut to their last part."""
    lead = _LEAD.match(ask)
    ask = ask[lead.end() :] or ask if lead else ask
    return " ".join(_short_path(word) for word in ask.split(" "))


def own_sentences(turn: Turn) -> list[str]:
    """The sentences that the person wrote, cut at line ends and at every mark, since many write in lower case."""
    if turn.foreign or turn.ask.startswith("/"):
        return []
    found: list[str] = []
    for line in _own_lines(turn.text):
        for part in parts(line):
            if found and (found[-1].endswith(_ABBREVIATED) or _completes(found[-1], part)):
                found[-1] = f"{found[-1]} {part}"
            else:
                found.append(part)
    return found


def _completes(before: str, part: str) -> bool:
    """Whether a sentence is half of a statement: "Ask me. Not the others.", "Speed is not a goal. Safety is."."""
    if part.startswith(("Not ", "not ")):
        return True
    return len(part.split()) <= _FEW_WORDS and bool(_NEGATES.search(before) and _INSTEAD.match(part))


def _own_lines(text: str) -> list[str]:
    """The lines of prose that are the person's.

    Left out are code, headings and what is below them, quotations, ticked lists, and remarks behind a colon.
    """
    lines: list[str] = []
    in_code, introduced = False, False
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(_FENCE):
            in_code = not in_code
            continue
        if bare.startswith("#") and bare.lstrip("#")[:1] == " ":
            # A document follows. Its first heading ends what the person wrote.
            break
        if in_code or not bare:
            introduced = introduced and not bare
            continue
        listed = _BULLET.match(line)
        pasted = bare.startswith((">", "|")) or _TICKED.match(line) or (line[:1] in " \t" and not listed)
        if pasted or (listed and (introduced or len(text) > _OWN_LIST or line[:1] in " \t")):
            continue
        quoted = _QUOTES_ITEM.search(bare)
        introduced = bare.endswith(":") or quoted is not None
        bare = bare[: quoted.start()] if quoted else bare[listed.end() :] if listed else bare
        if not prose.is_prose(bare):
            continue
        if lines and len(lines[-1]) >= _WRAPPED and not lines[-1].endswith(_ENDS) and bare[:1].islower() and not listed:
            lines[-1] = f"{lines[-1]} {bare}"
        else:
            lines.append(bare)
    return lines


def _short_path(word: str) -> str:
    if len(word) <= _LONG_PATH or word.count("/") < 3 or "://" in word:
        return word
    return f"…/{word.rstrip('/').rpartition('/')[2]}"


def _asking(turn: Turn) -> str:
    """A user's turn as it is read for what it asks: of a document, what is before it, and its title; of a turn of many
    lines, its prose."""
    text = _before_document(turn)
    lines = text.splitlines()
    written = [line for line in lines if prose.is_prose(line)]
    if len(lines) <= _MANY_LINES or wording.is_notice(text) or wording.command(text)[0] or not written:
        return text
    # A heading at the beginning shows what a command stands for.
    return text if text.lstrip().startswith("## ") else "\n\n".join(written)


def _is_output(text: str) -> bool:
    """Whether a turn is nothing but output of a program."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) > _OUTPUT and not _UNSPACED.search(text) and not any(map(prose.is_prose, lines))


def _before_document(turn: Turn) -> str:
    before: list[str] = []
    for line in turn.text.splitlines():
        bare = line.strip()
        if bare.startswith("# ") and any(before):
            title = bare.lstrip("# ").removeprefix("Plan: ")
            return "\n".join([*before, title])
        if bare.startswith("## ") and any(before):
            return "\n".join(before)
        before.append(line)
    return turn.text


def _names(texts: Sequence[str]) -> set[str]:
    """The names that most of these turns begin with."""
    found = Counter(match[1] for text in texts if (match := _SPEAKER.match(text)))
    return {name for name, count in found.items() if count >= 2 and count >= _NAMED * len(texts)}
