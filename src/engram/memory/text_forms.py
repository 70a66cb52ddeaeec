"""What form a text has: how much of it asks, announces the next step, or was pasted.

A question repeats the words of its answer without answering. Three of four turns of a coding agent announce what it
does next ("Now let me run the linter."). Output, logs and diffs contain every word. Recall finds all of them and lets
them count less than a sentence that states something.

Only the form is read, never the language's meaning, so an unknown form counts as a statement.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ..narration import announces, is_narration
from ..sentences import parts
from ..wording import command
from .exchanges import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable

#: A line with fewer characters is too short to be pasted output.
_SHORT: Final = 240
#: Characters that are read of a text. The form of a passage shows at its beginning.
_READ: Final = 2_000

#: "Melanie: …" and "[10:32]" before what was said.
_SPEAKER: Final = re.compile(r"\A(?:\[[^\]\n]{1,30}\]\s*)?[A-Z][\w.'-]{0,30}(?: [A-Z][\w.'-]{0,30})?: ")
#: A question without its mark: "which port is staging on", "can we ship today", "how to deploy".
_ASKS: Final = re.compile(
    r"\A(?:so |and |but |ok(?:ay)?,? |hey,? |hi,? |well,? |also,? )*+"
    r"(?:(?:who|whom|whose|what|which|when|where|why|how)(?: [\w'-]{1,20}){0,2}? "
    r"(?:is|are|was|were|do|does|did|can|could|should|shall|would|will|has|have|had|to|about)\b"
    r"|(?:is|are|am|was|were|do|does|did|can|could|should|shall|would|will|has|have|had|may|might)(?:n't)? "
    r"(?:i|you|we|they|it|he|she|the|this|that|there|these|those|my|our|your|their)\b"
    r"|(?:tell|show|remind) (?:me|us)\b|explain\b)",
    re.IGNORECASE,
)
#: "What matters most is latency" and "When the build is red, run it again" are statements.
_RULE: Final = re.compile(r"\A(?:what|how) (?:\w+ ){1,2}is\b(?! \w+\Z)|\A(?:when|where)[^?]*,\s", re.IGNORECASE)
#: The harness's own notices.
_NOTICE: Final = re.compile(
    r"\A\s*+(?:</?[a-z]+(?:-[a-z]+)+>|\[(?:Request interrupted|Image: source)|API Error:|Caveat: )"
)
#: A piece with one of these lines is a part of a diff, of which most lines look like any text.
_DIFF: Final = re.compile(r"^(?:@@ -\d|diff --git |index [0-9a-f]{7}|\+\+\+ b/)", re.MULTILINE)
#: How lines begin that a program wrote: diffs, log lines, stack traces, shell prompts, listings, fields, JSON, tables.
_OUTPUT_LINE: Final = re.compile(
    r"\A(?:[+-](?![\s-])|[+-]\s{2,}|@@|diff --git|index [0-9a-f]{7}|(?:---|\+\+\+) [ab/]"
    r"|\s*at \S+\(|\s*File \"|Traceback|\[?\d{4}-\d\d-\d\d[T ]\d\d:|\d\d:\d\d:\d\d"
    r"|(?:INFO|DEBUG|WARN(?:ING)?|ERROR)\b[\s:\]|]|\$ |>>> |\s*\d+\s*[|│→:]\s"
    r"|\w[\w -]{0,30}:\t|\s*[\]}{]|\s*\"[\w -]{1,40}\":|(?:ok|FAIL|PASS|---)\s|[drwx-]{10}\s|\s*[|│├└╰┌+][-─|│+├└\s])"
)
#: What may stand after the mark that ends a sentence.
_CLOSING: Final = "\"'”’)*_` "
_LETTERS: Final = re.compile(r"[^\W\d_]{2,}")


class Form(NamedTuple):
    """The shares of a text, from 0 to 1, that are not statements."""

    asked: float
    announced: float
    pasted: float
    #: The name of a command to the harness. Whatever follows it, the turn states nothing.
    commanded: float = 0.0


def form(text: str, label: str) -> Form:
    """The form of a text. Only an assistant announces what it does next.

    A memory was stored on purpose: whatever it looks like, it states something, unless it ends with a question.
    """
    read = _SPEAKER.sub("", text[:_READ])
    said = parts(read)
    if label not in ROLES:
        asked = _share(said, _has_question_mark) if said and _has_question_mark(said[-1]) else 0.0
        return Form(asked, 0.0, 0.0)
    if _NOTICE.match(read):
        return Form(0.0, 0.0, 1.0)
    name, words = command(read) if label == "user" else ("", "")
    if name:
        # A name alone, such as `/clear`, says nothing that anybody looks for.
        return Form(0.0, 0.0, 0.0 if words else 1.0, (len(name) + 1) / len(read.strip()))
    announced = _share(said, is_narration) if label == "assistant" else 0.0
    pasted = 0.0 if label != "tool" and _is_short(read) else _pasted(read)
    return Form(_share(said, _is_asked), announced, pasted)


def announced(text: str) -> float:
    """The share of a text that announces what comes next."""
    return _share(parts(text[:_READ]), announces)


def _is_short(read: str) -> bool:
    """Whether a text is one line, which may be just what somebody wants to know: a number, a path."""
    return len(read) < _SHORT and "\n" not in read.strip()


def _pasted(read: str) -> float:
    """The share of a text that a program wrote."""
    lines = [line for line in read.splitlines() if line.strip()]
    return 1.0 if _DIFF.search(read) else _share(lines, is_output)


def is_question(text: str) -> bool:
    """Whether a text mostly asks: it ends with a question, or most of it is one."""
    read = _SPEAKER.sub("", text[:_READ])
    said = [] if _NOTICE.match(read) else parts(read)
    return bool(said) and (_share(said, _is_asked) >= 0.5 or (_is_asked(said[-1]) and len(said) <= 3))


def _is_asked(sentence: str) -> bool:
    if _has_question_mark(sentence):
        return True
    end = sentence.rstrip(_CLOSING)
    if end.endswith((".", "!", ":", "。")) or len(end) >= 200:
        return False
    return _ASKS.match(sentence) is not None and _RULE.match(sentence) is None


def _has_question_mark(sentence: str) -> bool:
    return sentence.rstrip(_CLOSING).endswith(("?", "？"))


def is_output(line: str) -> bool:
    """Whether a line looks like a program's: by its beginning, or because few of its characters belong to words."""
    if _OUTPUT_LINE.match(line):
        return True
    letters = sum(len(word) for word in _LETTERS.findall(line))
    return len(line) > 20 and letters < 0.55 * len(line.replace(" ", ""))


def _share(pieces: list[str], chosen: Callable[[str], bool]) -> float:
    whole = sum(map(len, pieces))
    return sum(len(piece) for piece in pieces if chosen(piece)) / whole if whole else 0.0
