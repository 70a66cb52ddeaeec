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
    words = spelled(_words(hit), question)
    if share >= _WORDS and words:
        more = f" and {len(words) - _MOST_WORDS} more" if len(words) > _MOST_WORDS else ""
        reasons.append(f"by the words {', '.join(words[:_MOST_WORDS])}{more}")
    if meaning >= _VERY_CLOSE:
        reasons.append("by meaning, very close")
    elif meaning >= _CLOSE:
        reasons.append("by meaning")
    if not reasons:
        return "Found through neighbouring turns"
    return f"Found {' and '.join(reasons)}"


def parts_of(hit: Hit) -> Html:
    """The parts of a score: some that are added up, two factors, and the result."""
    share, meaning, tokens = _number(hit, "share"), _number(hit, "meaning"), _number(hit, "tokens")
    preference, form = _number(hit, "preference"), _number(hit, "form")
    dates = hit.why.get("dates")
    named = ", ".join(map(str, dates)) if isinstance(dates, list) else ""
    return definition(
        [
            ("Words", f"{min(share, 1):.0%} of the question: {', '.join(_words(hit))}" if share else None),
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
