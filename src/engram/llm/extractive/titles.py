"""The title of a session of work.

It is the first ask that says what the session is about, without words that only lead to it. A command says nothing
itself: then it is what the pull request or the agent's report is called, or the files that the report goes through.
What the person answers to that report, often a complaint, is about a detail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from ... import reviews, wording
from . import conversations, files, wishes
from .quotes import PLAIN_WORD, heading
from .talk import Turn, bare

LONGEST: Final = 120
#: What `gh` prints of a pull request or an issue.
_GH_TITLE: Final = re.compile(r"^[^\n]{0,60}\btitle:\t(\S[^\n]{3,150})$", re.MULTILINE)
_REPORT_TITLE: Final = re.compile(r"^#{1,3} (\S[^\n]{8,150})$", re.MULTILINE)
_HEADING: Final = re.compile(r"^#{1,4} (\S[^\n]{3,200})$", re.MULTILINE)
#: What a review is called in its own title.
_REVIEW: Final = re.compile(
    r"\b(?:line-by-line|full|complete)? ?\b(?:code |pr |pull request )?review(?: summary)?\b"
    r"|\b(?:pr|pull request) ?#?\d+\b|#\d+",
    re.IGNORECASE,
)
#: Files of a report that its title names.
_MOST_FILES: Final = 3
#: An ask with fewer plain words does not say what a command is about.
_CLEAR_ASK: Final = 6
#: An ask that only names numbers of remarks.
_NUMBERS: Final = re.compile(
    r"\A\W*(?:address|adress|fix|do|explain|and|let's|lets|now|please|try|\W|\d)++\Z", re.IGNORECASE
)
#: Words before what is to be done, or looked at.
_LEAD: Final = re.compile(
    r"\A(?:(?:ok|okay|so|now|instead|please|then)\b[\s,]*+)*+"
    r"(?:(?:take|have) a (?:close |closer |quick )?look at|let's|let us"
    r"|(?:we|you)(?:'re| are) going to(?: proceed to)?|(?:i|we)(?:'d like| want| would like) (?:you )?to|want to"
    r"|(?:can|could|would) you(?: please)?|go ahead and|please)\s+(?=\S)",
    re.IGNORECASE,
)
_FEWEST_WORDS: Final = 2
_LOOKS: Final = re.compile(r"\A(?:take|have) a [\w ]{0,8}look at\b", re.IGNORECASE)
_WISHES: Final = re.compile(r"\b(?:want|need)s? (?:to|you)\b|\blet's\b", re.IGNORECASE)
_POINTS: Final = re.compile(r"\b(?:this|that|these|those|it|them)\b", re.IGNORECASE)
#: Sentences after the first one that may say what the session is about.
_NEXT: Final = 5
#: Somebody is not content with what the agent said or did.
_COMPLAINS: Final = re.compile(
    r"\A\W*(?:no\b(?! longer| more)|nope|uh+\b|wait\b|whoa|dude|man\b|what the\b|wtf|wrong\b|stop\b"
    r"|why (?:did|do|would|are|were|don't|didn't) (?:you|i have)\b|what are you\b|are you sure\b"
    r"|(?:this|that|it)(?:'s| is| was)? ?(?:just |simply |really )?(?:isn't|not|wasn't|doesn't|didn't)\b"
    r"|(?:this|that|it)(?:'s| is| was) (?:just |simply |really |all )?(?:wrong|bad|broken|garbage|terrible)\b"
    r"|you(?:'ve| have)? (?:just |again )?(?:put|forgot|broke|missed|did|didn't|made|changed|duplicated|repeated)\b)",
    re.IGNORECASE,
)


def title(asks: Sequence[str], turns: Sequence[Turn], results: Iterable[str]) -> str:
    """A heading from the first ask that says what the session is about, else from the first result."""
    asks = [ask for ask in asks if ask and not ask.startswith(wording.PASTED)]
    telling = [
        ask for ask in asks if not ask.startswith("/") and not _NUMBERS.match(ask) and wording.is_substantial(ask)
    ]
    if asks and asks[0].startswith("/"):
        return _of_command(asks[0], telling, turns)
    if not telling:
        return heading(next(filter(None, [*results, *asks]), ""))
    return _headline(conversations.first_ask(telling) or telling[0], turns)


def _of_command(command: str, telling: Sequence[str], turns: Sequence[Turn]) -> str:
    subject = _subject(turns)
    if not subject:
        long = [ask for ask in telling if len(PLAIN_WORD.findall(heading(ask))) >= _CLEAR_ASK and not complains(ask)]
        subject = next((heading(ask) for ask in long if wishes.stands_alone(heading(ask).rstrip("…"))), "")
    return wording.shorten(f"{command}: {subject}" if subject else command, LONGEST)


def complains(ask: str) -> bool:
    """Whether an ask begins with a complaint about what the agent said or did."""
    return _COMPLAINS.match(ask) is not None


def _headline(ask: str, turns: Sequence[Turn]) -> str:
    """The heading of an ask. If its first sentence names nothing, a later one is taken."""
    first, *rest = list(wording.sentences(ask)) or [""]
    if rest and (complains(first) or (_LOOKS.match(first) and not _names(_LEAD.sub("", first)))):
        rest = [each for each in rest[:_NEXT] if _names(each)] or rest
        first = next((each for each in rest if _WISHES.search(each)), rest[0])
        return heading(_without_lead(first))
    alone = heading(_without_lead(first))
    if rest and _POINTS.search(alone) and len(PLAIN_WORD.findall(alone)) < _CLEAR_ASK:
        # "Execute that plan" is clear only with the file that the person names.
        turn = next((turn for turn in turns if turn.ask and bare(turn.ask) == ask), None)
        named = [name for name in files.named(turn.text) if name not in alone] if turn else []
        if named:
            return f"{alone} ({named[0]})"
    return heading(_without_lead(ask))


def _without_lead(text: str) -> str:
    """A text without words that only lead to what it is about, if something meaningful stays."""
    rest = _LEAD.sub("", text, count=1)
    sentence = next(iter(wording.sentences(rest)), "")
    return rest if _names(sentence) else text


def _names(sentence: str) -> bool:
    return len(PLAIN_WORD.findall(sentence)) >= _FEWEST_WORDS


def _subject(turns: Sequence[Turn]) -> str:
    """What a command is about: the title of the pull request in its text, or of the report that the agent wrote."""
    for turn in turns:
        found = _GH_TITLE.search(turn.text[:2_000]) if turn.foreign else None
        if found:
            return found[1].strip()
    for turn in turns:
        found = _REPORT_TITLE.search(turn.text) if turn.role == "assistant" else None
        subject = _REVIEW.sub("", wording.plain(found[1])).strip("#*:()-–— .") if found else ""
        if len(PLAIN_WORD.findall(subject)) > 1 and "/" not in subject:
            return subject
    return _reviewed(turns)


def _reviewed(turns: Sequence[Turn]) -> str:
    """The files that the review goes through which answers the command; empty without such a review."""
    begun = next((place for place, turn in enumerate(turns) if turn.ask), len(turns))
    answer = takewhile(lambda turn: not turn.ask, turns[begun + 1 :])
    review = next((turn.text for turn in answer if turn.role == "assistant" and reviews.is_review(turn.text)), "")
    above = "\n".join(found[1] for found in _HEADING.finditer(review))
    names = list(dict.fromkeys(files.named(above)))
    more = f" and {len(names) - _MOST_FILES} more" if len(names) > _MOST_FILES else ""
    return ", ".join(names[:_MOST_FILES]) + more
