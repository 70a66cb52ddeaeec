"""The words that a sentence is about, for choosing sentences without a model.

Small and by itself: the analyser of the word index belongs to a higher layer, and here only the texts of one prompt are
compared with each other. English words are stemmed; scripts without spaces give pairs of characters. There is no
corpus to learn from which words are rare, so the words that every conversation is full of are listed.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_STOP: Final = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below between both
    but by can could did do does doing done down during each ever few for from further had has have having he her here
    hers him his how i if in into is it its just me might mine more most must my no nor not of off on once only or
    other our ours out over own same shall she should since so some such than that the their theirs them then there
    these they this those through to too under until up us very was we were what when where which while who whom whose
    why will with would you your yours ll re ve don didn doesn isn wasn aren couldn wouldn won
    """.split()
)
#: What people say to each other whatever they talk about.
_FILLERS: Final = """
    able absolutely actually agree always amazing another anyone anything around ask away awesome awhile back
    basically believe best better big bit bring bye came care catch chat come cool course day definitely different
    else enough especially even everyone everything excited exciting fantastic feel feeling felt find first found
    fun gave get getting give glad go going gone gonna good gosh got great guess guy guys haha happen happened happy
    hear heard hello help helped hey hi hope huh idea important incredible inspiring instead interesting keep kind
    kinda know last let's life like literally little lol long look looking looks lot lots love lovely made make
    makes making many maybe mean month much myself need never new next nice now oh ok okay old one others ourselves
    part people perfect please plus pretty probably proud put quite real really right said say see sharing show
    simply small someone something soon sorry sound sounds special start started stay still stuff super sure take
    talk tell thank thanks thing things think thinking thought time times today together told tomorrow took totally
    towards tried true truly try trying understand understanding use used using usually via wanna want wanted way
    week weekend welcome well went whatever whole wonder wonderful work working works world wow yeah year years yep
    yes yesterday yet yourself
    """.split()

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7ff\uf900-\ufaff"
)
_WORD: Final = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}](?:[^\W{_UNSPACED}]|['’.:/@+-](?=[^\W{_UNSPACED}]))*")
_IS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
_LONGEST: Final = 64


class Word(NamedTuple):
    term: str
    #: As it stands in the text.
    written: str
    #: Whether it carries a topic, unlike what everybody says all the time.
    telling: bool
    #: A number, or a name: a capital where no sentence begins.
    particular: bool


class Analyser:
    """Not shared by threads: a stemmer must not be."""

    def __init__(self) -> None:
        import Stemmer

        self._stem = Stemmer.Stemmer("english").stemWord
        self._fillers = {self._stem(word) for word in _FILLERS}

    def words(self, sentence: str) -> list[Word]:
        """The words of a sentence that mean something, in order."""
        found: list[Word] = []
        for match in _WORD.finditer(sentence):
            written = match[0]
            if _IS_UNSPACED.match(written):
                found += [Word(pair, pair, True, False) for pair in _pairs(written)]
                continue
            lower = written.lower().replace("’", "'")
            plain = lower.removesuffix("'s")
            if plain.partition("'")[0] in _STOP or len(written) > _LONGEST:
                continue
            term: str = self._stem(plain)
            name = written[0].isupper() and match.start() > 1 and sentence[match.start() - 2] not in ".!?:"
            found.append(Word(term, written, term not in self._fillers, name or written[0].isdigit()))
        return found


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[place : place + 2] for place in range(len(run) - 1)]
