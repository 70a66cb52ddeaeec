"""The words that a sentence is about, for choosing sentences without a model.

The analyser of the word index is not used, because it belongs to a higher layer. Here only the texts of one prompt are
compared with each other. English words are stemmed; scripts without spaces give pairs of characters. There is no corpus
to learn from which words are rare, so the words that are common in every conversation are listed.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ...language import STOP_WORDS, UNSPACED, pairs

_SAID_ANYWAY: Final = """
able absolutely actually agree always amazing another anyone anything around ask away awesome awhile back basically
believe best better big bit bring bye came care catch chat come cool course day definitely different else enough
especially even everyone everything excited exciting fantastic feel feeling felt find first found fun gave get
getting give glad go going gone gonna good gosh got great guess guy guys haha happen happened happy hear heard hello
help helped hey hi hope huh idea important incredible inspiring instead interesting keep kind kinda know last let's
life like literally little lol long look looking looks lot lots love lovely made make makes making many maybe mean
month much myself need never new next nice now oh ok okay old one others ourselves part people perfect please plus
pretty probably proud put quite real really right said say see sharing show simply small someone something soon
sorry sound sounds special start started stay still stuff super sure take talk tell thank thanks thing things think
thinking thought time times today together told tomorrow took totally towards tried true truly try trying understand
understanding use used using usually via wanna want wanted way week weekend welcome well went whatever whole wonder
wonderful work working works world wow yeah year years yep yes yesterday yet yourself
"""
#: Words that are common in every conversation.
_FILLERS: Final = _SAID_ANYWAY.split()

_WORD: Final = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}](?:[^\W{UNSPACED}]|['’.:/@+-](?=[^\W{UNSPACED}]))*")
_IS_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_LONGEST: Final = 64


class Word(NamedTuple):
    term: str
    #: As it is written in the text.
    written: str
    #: Whether it says something about the topic, unlike a common word.
    telling: bool
    #: Whether it is a number or a name: a capital inside a sentence.
    particular: bool


class Analyser:
    """Finds the words of sentences. Threads must not share one, because they must not share a stemmer."""

    def __init__(self) -> None:
        import Stemmer

        self._stem = Stemmer.Stemmer("english").stemWord
        self._fillers = {self._stem(word) for word in _FILLERS}

    def words(self, sentence: str) -> list[Word]:
        """The words of a sentence without stop words, in order."""
        found: list[Word] = []
        for match in _WORD.finditer(sentence):
            written = match[0]
            if _IS_UNSPACED.match(written):
                found += [Word(pair, pair, True, False) for pair in pairs(written)]
                continue
            lower = written.lower().replace("’", "'")
            plain = lower.removesuffix("'s")
            if plain in STOP_WORDS or plain.partition("'")[0] in STOP_WORDS or len(written) > _LONGEST:
                continue
            term: str = self._stem(plain)
            name = written[0].isupper() and match.start() > 1 and sentence[match.start() - 2] not in ".!?:"
            found.append(Word(term, written, term not in self._fillers, name or written[0].isdigit()))
        return found

    def terms(self, text: str) -> frozenset[str]:
        """The terms of a text, to compare it with another."""
        return frozenset(word.term for word in self.words(text))
