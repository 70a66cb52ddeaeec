"""Why recall has found something, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...safe_text import one_line
from ..http.html import Html
from .marks import spelled
from .parts import definition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...records import Hit

#: The share of a question, and the standard deviations, from which on words and meaning are a reason by themselves.
_WORDS, _CLOSE, _VERY_CLOSE = 0.05, 1.5, 4.0
_MOST_WORDS = 8


def found_by(hit: Hit, question: str) -> str:
    """The reason in a few words."""
    share, meaning = _number(hit, "share"), _number(hit, "meaning")
    reasons = []
    own = [stem for stem in _words(hit) if _has(hit, stem)]
    # Recall also weighs what was said just before and after, and a gist by words of its whole session.
    around = [stem for stem in _words(hit) if stem not in own]
    if share >= _WORDS and own:
        found = spelled(own, question)
        reasons.append(f"by the {'word' if len(found) == 1 else 'words'} {_listed(found)}")
    if share >= _WORDS and around:
        place = "neighbouring turns" if hit.memory_id is None else "its session"
        reasons.append(f"by {_listed(spelled(around, question))} in {place}")
    if meaning >= _VERY_CLOSE:
        reasons.append("by meaning, very close")
    elif meaning >= _CLOSE:
        reasons.append("by meaning")
    if not reasons:
        return "Found through neighbouring turns"
    # The words are a list themselves.
    return f"Found {('; ' if len(reasons) > 2 else ' and ').join(reasons)}"


def _has(hit: Hit, stem: str) -> bool:
    """Whether the text itself has a word with this stem. A stem may have an i where the word has a y."""
    text = hit.whole.lower()
    return stem in text or (stem.endswith("i") and f"{stem[:-1]}y" in text)


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - _MOST_WORDS} more" if len(words) > _MOST_WORDS else ""
    return f"{', '.join(words[:_MOST_WORDS])}{more}"


def parts_of(hit: Hit, question: str) -> Html:
    """The parts of a score: some that are added up, two factors, and the result."""
    share, meaning, tokens = _number(hit, "share"), _number(hit, "meaning"), _number(hit, "tokens")
    preference, form = _number(hit, "preference"), _number(hit, "form")
    words = ", ".join(spelled(_words(hit), question))
    dates = hit.why.get("dates")
    named = ", ".join(map(str, dates)) if isinstance(dates, list) else ""
    return definition(
        [
            (
                "Words",
                f"{min(share, 1):.0%} of the question: {words}" if share else None,
            ),
            ("Meaning", f"{meaning:.1f} standard deviations above an unrelated text" if meaning > 0 else None),
            ("Tokens", f"{tokens:.2f} similar, token by token" if tokens > 0 else None),
            ("Date", f"{one_line(named, 200)} in the question" if named else None),
            ("Preference", f"× {preference:.2f} for kind, date, recency and importance" if preference != 1 else None),
            (
                "Form",
                f"× {form:.2f} because the text is a question, an announcement, pasted or long" if form != 1 else None,
            ),
            ("Strength", f"{_number(hit, 'strength'):.2f}, all parts together"),
            ("Score", f"{hit.score:.2f}: the chance that it is about the question"),
            ("Trust", hit.trust),
        ]
    )


def by_words(hits: Iterable[Hit]) -> bool:
    """Whether no hit was compared by its meaning."""
    return not any(_number(hit, "meaning") for hit in hits)


def _words(hit: Hit) -> list[str]:
    matched = hit.why.get("matched")
    return [one_line(str(each), 40) for each in matched] if isinstance(matched, list) else []


def _number(hit: Hit, name: str) -> float:
    value = hit.why.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
