"""The words that tell a session from others: rare in the workspace, and said in this session.

They go into the word index of the session's gist and not into its text, so that the session is found by a name that its
summary leaves out.
"""

from __future__ import annotations

from collections import Counter
from math import log
from typing import TYPE_CHECKING, Final

from . import term_counts, word_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..storage.engine import Transaction

#: Words of one session that are kept.
MOST: Final = 60
#: Words whose rarity is looked up, the most frequent first.
_CANDIDATES: Final = 1_500
#: Characters of one turn that are read. Pasted output may be very long.
_READ: Final = 8_000
#: A word counts at most this often, so that a pasted table does not decide.
_OFTEN: Final = 8
#: A word tells nothing if more than this share of all other turns contains it, and more than a few do.
_SHARE, _FEW = 0.02, 2
#: Longer terms are addresses and the like, which nobody asks for.
_LONGEST: Final = 40
_SHELF: Final = "turns"


def telling_words(tx: Transaction, workspace: str, texts: Iterable[str], besides: Sequence[str] = ()) -> list[str]:
    """Index terms of the texts, the most telling first, without those of the texts in `besides`."""
    # Imported here: a situation report imports the memory tier and analyses nothing.
    from . import analyser

    counts: Counter[str] = Counter()
    #: How many items of the index are the texts' own.
    own: Counter[str] = Counter()
    for text in texts:
        for _, part in word_index.parts(text[:_READ]):
            found = Counter(term for term in analyser.terms(part) if _may_tell(term))
            counts.update(found)
            own.update(found.keys())
    known = {term for text in besides for term in analyser.terms(text)}
    candidates = [term for term, _ in counts.most_common(_CANDIDATES + len(known)) if term not in known]
    numbers = word_index.find(tx, workspace, _SHELF, candidates)
    items = term_counts.count(tx, workspace, {_SHELF: numbers.values()})
    ((total, _),) = word_index.ask_size(tx, workspace, _SHELF).all()
    total = total or 0
    others = {term: max(0, items.get(numbers.get(term, 0), 0) - own[term]) for term in candidates}
    most = max(_FEW, _SHARE * total)
    worth = {
        term: log(1 + min(counts[term], _OFTEN)) * log((total + 2) / (others[term] + 1))
        for term in candidates
        if others[term] <= most
    }
    return sorted(worth, key=lambda term: (-worth[term], term))[:MOST]


def _may_tell(term: str) -> bool:
    """Whether a term can be a name or a topic: no number, no hash, no address, no remainder of an identifier."""
    if len(term) > _LONGEST or (len(term) < 3 and term.isascii()):
        return False
    if not any(map(str.isdigit, term)):
        return True
    # Numbers, dates and hashes have nothing but these.
    return bool(term.strip("0123456789abcdef-.:+_/@\\"))
