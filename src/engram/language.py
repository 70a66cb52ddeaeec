"""Stop words, and scripts without spaces between words."""

from __future__ import annotations

from typing import Final

_STOP: Final = """
a about above after again against all also am an and any are as at be because been before being below between both
but by can could did do does doing done down during each ever few for from further had has have having he her here
hers him his how i if in into is it its just ll me might mine more most must my no nor not of off on once only or
other our ours out over own re s same shall she should since so some such t than that the their theirs them then
there these they this those through to too under until up us ve very was we were what when where which while who
whom whose why will with would you your yours aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't
mustn't shouldn't wasn't weren't won't wouldn't i'd i'll i'm i've he'd he'll she'd she'll it'd it'll they'd they'll
they're they've we'd we'll we're we've you'd you'll you're you've
"""
#: English words without a meaning of their own, including question words and contractions.
STOP_WORDS: Final = frozenset(_STOP.split())

#: Letters of scripts without spaces between words, as ranges for a character class. Hangul is included, because it
#: joins particles to words.
UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)


def pairs(run: str) -> list[str]:
    """Overlapping pairs of characters, used instead of words in scripts without spaces. A single character is kept."""
    return [run] if len(run) == 1 else [run[start : start + 2] for start in range(len(run) - 1)]
