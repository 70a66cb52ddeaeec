"""Decides what a prompt gets: few remembered lines that are worth their place in the model's context.

**The query** is the person's own prose. Pasted lines, code, links and paths find other pasted texts. A prompt that
names nothing ("continue", "run the tests", "address 3 and 8") asks for nothing.

**The gate.** About a quarter of the prompts in real coding sessions have something in earlier sessions that helps. It
is mostly a finding, a decision or an exact place that an agent stated, and it shares telling words with the prompt.
Requests, announcements and output hardly ever help, whatever they share with the prompt. `worth` weighs that: it is a
logistic regression on judged lines (`bench/injection.py`), with few features, so that it is not fitted to single
prompts. A memory was stored on purpose, so a moderate match is enough.

Nothing is given twice in a session, and nothing that the prompt itself says.
"""

from __future__ import annotations

import re
from math import inf, log
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

from . import analyser, text_forms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ..records import Hit
    from .provenance import Thing

#: Characters of a prompt that are read. The beginning says what it is about.
READ: Final = 4_000
#: Characters of its prose that are looked for.
QUERY_LENGTH: Final = 1_000
#: A person's turn with more characters is a document or a template, of which any passage says little about the person.
_DOCUMENT: Final = 2_000

_FENCE: Final = "```"
_HEADING: Final = re.compile(r"^(#{1,4})[ \t]\S[^\n]*+$", re.MULTILINE)
_LINK: Final = re.compile(r"\bhttps?://\S++")
#: A path: at least two names with slashes between them, or a name after `~/`, `./` or `@`.
_PATH: Final = re.compile(
    r"(?<![\w.@~+/-])(?:@?(?:~|\.{1,2})?/[\w.@~+-]++(?:/[\w.@~+-]*+)*+|@?[\w.@~+-]++(?:/[\w.@~+-]++)++/?)"
)
#: A name from code: foo_bar, fooBar, foo.py, foo-bar.
_NAME: Final = re.compile(r"\w[_.-]\w|[a-z][A-Z]")
#: Words that say what to do or how it went, and name nothing.
_EMPTY_WORDS: Final = """
bump implement continue proceed go ahead yes yeah yep yup no nope ok okay okey sure thanks thank thx great good nice
perfect cool fine right correct exactly done do did does it that this these those them again try retry run rerun test
tests testing fix fixed fixes address addressed commit push merge pull undo revert redo stop wait next now then please
lets let's let looks look sounds seems works work working worked all everything anything something nothing one two
three first second third last more less show explain tell think thoughts what why how when where which who keep going
start begin finish make sense plan plans step steps phase option both either same other else also too just only really
still already check build lint review change changes update updates code file files line lines here there ready happy
love like want need get got give me us you we i my your our
hm hmm hmmm mm mmm mhm uh um ah aha oh ooh wow lol haha ty np pls plz yay hi hey hello thankyou
"""
_EMPTY: Final = frozenset(_EMPTY_WORDS.split())
_REQUEST: Final = re.compile(
    r"\A\W*+(?:(?:ok|okay|now|so|also|then|and|but|yes|yeah|no|hmm|great|cool)\b[\s,.!]*+)*+"
    r"(?:let's|lets|please|(?:can|could|would|will) you|i (?:want|need) you|(?:take|have) a look|look at|read|address"
    r"|fix|add|update|run|remove|change|implement|review|explain|make|put|create|check|write|use|go ahead|proceed"
    r"|consider|try|show|give|find|move|rename|delete|revert|commit|push|test|start|continue|keep|do|document"
    r"|refactor)\b",
    re.IGNORECASE,
)
#: How a person states what holds: a preference, a decision, a rule.
_RULE: Final = re.compile(
    r"\b(?:never|always|must(?:n't)?|prefer(?:s|red)?|instead of|rather than|no longer|from now on|convention|policy"
    r"|(?:do not|don't|does not|doesn't|not) (?:want|need|like|use|allow|deploy|commit|test)"
    r"|we (?:want|use|keep|decided|agreed)"
    r"|should(?:n't)? (?:not |never |always |only )?(?:be|have|use|go|stay|live|come))\b",
    re.IGNORECASE,
)


class Weights(NamedTuple):
    """The gate for turns: the log-odds that a line clearly helps. `bench/injection.py --fit` prints them."""

    base: float
    score: float
    #: The rarity of the shared words, if an agent stated the passage, or a person stated a rule or a decision.
    telling: float
    meaning: float
    announced: float
    #: If a person asks for something in it.
    request: float
    #: The least log-odds that pass.
    least: float


WORDS = Weights(-6.3, 3.0, 0.85, 0.0, -1.0, -0.9, -2.2)
MEANING = Weights(-6.1, 1.4, 0.8, 0.6, -2.8, -0.9, -1.8)
#: The least score of a memory.
LEAST_MEMORY: Final = 0.2
#: The rarity above which more shared words tell nothing more.
_MOST_TELLING: Final = 3.0
#: The most of a passage that may announce the next step.
_ANNOUNCED: Final = 0.5
#: The most that a program may have written of a person's passage, and of an agent's.
_PASTED, _QUOTING = 0.3, 0.5
#: The least share of a line's terms that the prompt does not have: of a short line, and of one with many terms. A long
#: passage that repeats a third of its terms from the prompt is mostly what the prompt quotes.
_NEWS, _NEWS_OF_MANY, _MANY = 0.15, 0.7, 40
#: The least share of the terms of a line found by words that the prompt has, too. Otherwise its neighbours match.
_SHARED: Final = 0.1
#: A turn with fewer terms only says how a step went: "The linter passes with no issues."
_FEWEST: Final = 4
#: Two lines with more than this share of the shorter one's terms in common say the same.
_SAME: Final = 0.6


def query(said: str) -> str:
    """The person's own prose in a prompt; empty if it names nothing to look for."""
    text = " ".join(said[:READ].split(_FENCE)[::2])
    # A prompt with headings is a document that was pasted, or a command's template. Its title says what it is about.
    title = _HEADING.search(text)
    if title:
        text = text[: title.end() if title[1] == "#" else title.start()]
    lines = (line for line in text.splitlines() if line.strip() and not text_forms.is_output(line))
    prose = " ".join(_PATH.sub(" ", _LINK.sub(" ", "\n".join(lines))).split())[:QUERY_LENGTH]
    return prose if names_something(prose) else ""


def names_something(prose: str) -> bool:
    """Whether the prose names something: a word that is neither common nor only says what to do."""
    return any(len(term) > 1 for word in _names(prose) for term in analyser.terms(word))


def _names(prose: str) -> Iterator[str]:
    """The words of the prose that do not only say what to do."""
    return (word for word in analyser.tokens(prose) if word.lower() not in _EMPTY and not word.isdigit())


def _names_enough(said: str) -> bool:
    """Whether a prompt names two things, or one by a name from code. Otherwise any turn with the word would fit."""
    words = set(_names(query(said)))
    terms = {term for word in words for term in analyser.terms(word) if len(term) > 1}
    return len(terms) > 1 or any(_NAME.search(word) for word in words)


def worthy(
    hits: Sequence[Hit], said: str, by_meaning: bool, given: Collection[Thing] = (), before: Iterable[str] = ()
) -> Iterator[Hit]:
    """The hits that are worth injecting, the best first. Those in `given` were given, and `before` are their texts."""
    prompt = set(analyser.terms(said[:READ]))
    told = [set(analyser.terms(text[:READ])) for text in before]
    if not _names_enough(said):
        hits = [hit for hit in hits if hit.memory_id is not None]
    weighed = sorted(((worth(hit, by_meaning), hit) for hit in hits), key=lambda each: -each[0])
    for value, hit in weighed:
        if value < 0 or hit.replaced_by is not None or not things(hit).isdisjoint(given):
            continue
        terms = set(analyser.terms(content(hit)))
        if hit.memory_id is None and len(terms) < _FEWEST:
            continue
        if not number(hit, "meaning") and len(terms & prompt) < _SHARED * len(terms):
            continue
        if _repeats(terms, prompt) or any(_is_same(terms, other) for other in told):
            continue
        told.append(terms)
        yield hit


def content(hit: Hit) -> str:
    """What a hit says: the answer, if it is a question that was answered."""
    return hit.text if hit.answer is None else hit.answer.text


def things(hit: Hit) -> set[Thing]:
    """The turns and memories that a line about the hit shows."""
    if hit.memory_id is not None:
        return {("memory", hit.memory_id)}
    ids = hit.answer.exchange_ids if hit.answer else ()
    return {("exchange", id) for id in (hit.exchange_id, *ids) if id is not None}


def worth(hit: Hit, by_meaning: bool) -> float:
    """How far a hit is above the gate, in log-odds; below 0 it is not injected."""
    if hit.memory_id is not None:
        return _log_odds(hit.score) - _log_odds(LEAST_MEMORY)
    if _is_pasted(hit) or _is_narration(hit) or not _states(hit):
        return -inf
    # A turn that was just recorded has no vector yet.
    weights = MEANING if by_meaning and number(hit, "meaning") else WORDS
    return log_odds(hit, weights) - weights.least


def log_odds(hit: Hit, weights: Weights) -> float:
    """The log-odds that a turn clearly helps."""
    return weights.base + sum(map(mul, features(hit), weights[1:-1]), 0.0)


def features(hit: Hit) -> tuple[float, ...]:
    """What the gate weighs, in the order of `Weights`."""
    text = content(hit)
    by_person = hit.label == "user" and hit.answer is None
    form = text_forms.form(text, "assistant" if hit.answer else hit.label)
    return (
        hit.score,
        min(number(hit, "telling"), _MOST_TELLING) if _states(hit) else 0.0,
        max(number(hit, "meaning"), 0.0),
        form.announced,
        float(by_person and _REQUEST.match(text) is not None),
    )


def _states(hit: Hit) -> bool:
    """Whether an agent said it, or a person stated a rule or a decision. A person's other turns ask or answer."""
    return hit.label != "user" or hit.answer is not None or _RULE.search(hit.text) is not None


def _is_narration(hit: Hit) -> bool:
    """Whether most of the passage announces what an agent does next."""
    return hit.label == "assistant" and text_forms.form(content(hit), hit.label).announced > _ANNOUNCED


def _is_pasted(hit: Hit) -> bool:
    """Whether a program wrote most of the passage, or a person pasted the document that it is from."""
    by_person = hit.label == "user" and hit.answer is None
    if by_person and len(hit.whole) > _DOCUMENT:
        return True
    pasted = text_forms.form(content(hit), hit.label).pasted
    # An agent's finding often quotes code.
    return pasted > (_PASTED if by_person else _QUOTING)


def _repeats(terms: set[str], prompt: set[str]) -> bool:
    """Whether a line says mostly what the prompt says."""
    least = _NEWS + (_NEWS_OF_MANY - _NEWS) * min(len(terms) / _MANY, 1.0)
    return len(terms - prompt) < least * len(terms)


def _is_same(terms: set[str], other: set[str]) -> bool:
    return len(terms & other) > _SAME * min(len(terms), len(other))


def _log_odds(chance: float) -> float:
    chance = min(max(chance, 1e-6), 1 - 1e-6)
    return log(chance / (1 - chance))


def number(hit: Hit, part: str) -> float:
    """A figure of a hit's `why`."""
    value = hit.why.get(part)
    return float(value) if isinstance(value, int | float) else 0.0
