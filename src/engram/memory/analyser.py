"""Turns text into index terms. Writing and searching use the same analyser.

1. Text that is not ASCII is normalised: full-width forms and ligatures folded, Latin accents dropped.
2. It is cut into tokens: runs of letters, digits and underscores, joined by `. - / \\ : @ + '` *between* them. So a
path, an identifier, a date or an e-mail address is one token. 3. A plain word is lower-cased, dropped if it is a stop
word, and stemmed: irregular forms by a table, the rest by Snowball. 4. A compound (`src/userStore.py`,
`max_retry-count`, `2023-05-07`) gives its parts, as plain words, and itself. 5. Scripts written without spaces
(Chinese, Japanese, Korean, Thai, …) give overlapping pairs of characters.

Every step is linear in the length of the text, and the same text gives the same terms in every process.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final

import Stemmer

from ..language import STOP_WORDS, UNSPACED, pairs

#: The longest term. A longer word is cut; of a longer compound only the parts are indexed.
MAX_TERM: Final = 64


#: Forms that a stemmer does not reduce (`went` to `go`, `children` to `child`). Each group begins with the base form.
_IRREGULAR: Final = {
    form: base
    for base, *forms in map(
        str.split,
        """
        arise arose arisen; awake awoke awoken; beat beaten; become became; begin began begun; bend bent;
        bite bitten; bleed bled; blow blew blown; break broke broken; breed bred; bring brought; build built;
        burn burnt; buy bought; catch caught; choose chose chosen; come came; creep crept; deal dealt; dig dug;
        draw drew drawn; dream dreamt; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen;
        feed fed; feel felt; fight fought; find found; flee fled; fly flew flown; forbid forbade forbidden;
        forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given;
        go goes went gone; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept;
        kneel knelt; know knew known; lay laid; lead led; lean leant; leap leapt; learn learnt; leave left;
        lend lent; lie lain; light lit; lose lost; make made; mean meant; meet met; mistake mistook mistaken;
        overcome overcame; pay paid; prove proven; ride rode ridden; ring rang rung; rise risen; run ran; say said;
        see saw seen; seek sought; sell sold; send sent; sew sewn; shake shook shaken; shine shone; shoot shot;
        show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept; slide slid;
        speak spoke spoken; spell spelt; spend spent; spin spun; stand stood; steal stole stolen; stick stuck;
        sting stung; strike struck; swear swore sworn; sweep swept; swell swollen; swim swam swum; swing swung;
        take took taken; teach taught; tear tore torn; tell told; think thought; throw threw thrown;
        understand understood; wake woke woken; wear wore worn; weave wove woven; weep wept; win won;
        withdraw withdrew withdrawn; write wrote written; rebuild rebuilt; undergo underwent undergone;
        undertake undertook undertaken; child children; man men; woman women; foot feet; tooth teeth; mouse mice;
        goose geese; person people; wife wives; knife knives; shelf shelves; half halves; wolf wolves; loaf loaves;
        thief thieves; calf calves; index indices; matrix matrices; vertex vertices; criterion criteria;
        analysis analyses; crisis crises; thesis theses; hypothesis hypotheses; diagnosis diagnoses
        """.split(";"),
    )
    for form in forms
}

# Vowel signs and other marks that are part of a word, but that Python's \w does not match.
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0966-\u0dff\u200c\u200d"
)

_ASCII_TOKEN: Final = re.compile(r"\w+(?:(?:[-./\\@+']|:[:\\]?|://)\w+)*", re.ASCII)
_LINK: Final = re.compile(r"[-./\\:@+'_]+")
# Compiled on first use: only text that is not ASCII needs these, and compiling them takes as long as starting Python.
_TOKEN: Final = rf"[\w{_MARKS}]+(?:(?:[-./\\@+']|:[:\\]?|://)[\w{_MARKS}]+)*"
_ACCENT: Final = "[\u0300-\u036f]+"
_STACKED: Final = rf"[{_MARKS}\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{{31,}}"
_RUNS: Final = rf"[{UNSPACED}]+|[^{UNSPACED}]+"
_UNSPACED_CHAR: Final = rf"[{UNSPACED}]"
# fooBar → foo Bar · HTTPServer → HTTP Server · sha256 stays
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_stemmer: Final = Stemmer.Stemmer("english", 0)
_stemming: Final = threading.Lock()  # a Stemmer must not be used by two threads at once
_known: dict[str, tuple[str, ...]] = {}  # token as written → its terms
_KNOWN_MAX: Final = 50_000


def tokens(text: str) -> list[str]:
    """The words of a text as they are written. A compound is one word."""
    return _ASCII_TOKEN.findall(text) if text.isascii() else _compiled(_TOKEN).findall(_fold(text))


def places(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each word of a text. A compound is one word."""
    for word in (_ASCII_TOKEN if text.isascii() else _compiled(_TOKEN)).finditer(text):
        yield word.span()


def terms(text: str) -> list[str]:
    """The index terms of a text, in order, repeated as often as they occur."""
    found: list[str] = []
    for token in tokens(text):
        known = _known.get(token)
        found += _learn(token) if known is None else known
    return found


def _fold(text: str) -> str:
    """The text in one spelling: without compatibility forms, Latin accents and different apostrophes."""
    # No real letter has this many marks, and the time to sort them grows with the square of their number.
    text = _compiled(_STACKED).sub(lambda marks: marks[0][:30], text)
    text = unicodedata.normalize("NFKD", text.replace("\u2019", "'").replace("\u02bc", "'"))
    return unicodedata.normalize("NFC", _compiled(_ACCENT).sub("", text))


def _learn(token: str) -> tuple[str, ...]:
    """Compute the terms of a token and cache them if it is short. A full cache is emptied."""
    made = tuple(_token_terms(token))
    if len(token) <= MAX_TERM:
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        _known[token] = made
    return made


def _token_terms(token: str) -> list[str]:
    lower = token.lower()
    if lower in STOP_WORDS:
        return []
    if lower.endswith("'s"):
        token, lower = token[:-2], lower[:-2]
    parts = [part for piece in _LINK.split(token) if piece for part in _parts(piece)]
    if parts == [token]:
        return _word(token)
    found = [term for part in parts for term in _word(part)]
    if len(parts) > 1 and len(lower) <= MAX_TERM and not _has_unspaced(lower):
        found.append(lower.strip("_"))
    return found


def _parts(piece: str) -> list[str]:
    """The words of a camelCase piece. A piece that is too long to be a name stays whole."""
    if len(piece) > MAX_TERM or not piece.isascii() or piece.islower():
        return [piece]
    return _HUMP.split(piece)


def _word(word: str) -> list[str]:
    """The terms of a word: none for a stop word, pairs of characters in scripts without spaces, else its stem."""
    if _has_unspaced(word):
        runs = _compiled(_RUNS).findall(word)
        return [term for run in runs for term in (pairs(run) if _has_unspaced(run) else _word(run))]
    word = word.lower()
    if word in STOP_WORDS:
        return []
    with _stemming:
        return [_stemmer.stemWord(_IRREGULAR.get(word, word)[:MAX_TERM])]


def _has_unspaced(word: str) -> bool:
    return not word.isascii() and _compiled(_UNSPACED_CHAR).search(word) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
