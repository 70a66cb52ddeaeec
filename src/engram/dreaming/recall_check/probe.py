"""The proof that nothing was lost: what recall finds before a pass, it finds after it.

Asked for are everything that the pass is about to change, and a sample of the rest: recent turns, facts of the profile,
pinned memories. Each is asked for by the rarest words of its own text, by words alone and by words and meaning. What
was merged counts as found when the memory that took its place is found and still says everything it said; what was put
away, when it is found among the archived. Asking leaves no trace.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ... import sentences
from ...errors import MemoryNotFound
from ...memory import analyser, bm25, citations
from ...memory.memories import MERGED
from ...memory.recall import Recall
from .. import plans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...memory.blocks import Blocks
    from ...memory.memories import Memories
    from ...memory.provenance import Thing
    from ...records import Memory
    from ...store_view import StoreView

MODES = ("words", "hybrid")
#: A thing's own words bring it up among the first few; it may have been overtaken by some since.
_DEEP = 50
_TURNS, _FACTS, _PINNED = 8, 8, 8
#: So many words of a text are asked for; fewer, if more things than this would have to be looked at for them.
_WORDS, _LOOKED_AT = 6, 2_000
_SHELVES = ("turns", "memories")
_PROFILE = "profile"

_RECENT = """
SELECT id, content FROM exchanges WHERE workspace = :workspace AND role <> 'log'
ORDER BY created_at DESC, id DESC LIMIT :limit
"""
_EXCHANGE = "SELECT content FROM exchanges WHERE workspace = :workspace AND id = :id"


class Question(NamedTuple):
    """How a thing was asked for, and which ways found it."""

    thing: Thing
    query: str
    #: Its text and version then.
    text: str
    version: int
    found: frozenset[str]


class Probe:
    def __init__(self, view: StoreView, memories: Memories, blocks: Blocks) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._least = view.config.dream_similarity
        self._memories = memories
        self._blocks = blocks
        self._recall = Recall(view, memories)
        self._questions: dict[Thing, Question] = {}
        self._sampled = False

    def sample(self) -> None:
        """Ask for some of what a pass should leave as it is; once a pass, before it changes anything."""
        if self._sampled:
            return
        self._sampled = True
        with self._engine.read() as tx:
            turns = [(("exchange", id), text) for id, text in tx.all(_RECENT, workspace=self._workspace, limit=_TURNS)]
        for thing, text in (*turns, *self._facts()):
            self._ask(thing, text, 0)
        self.about(("memory", memory.id) for memory in self._memories.list(pinned=True, limit=_PINNED))

    def about(self, things: Iterable[Thing]) -> None:
        """Ask for what is about to be changed."""
        for thing in things:
            if thing[0] == "memory" and thing not in self._questions:
                memory = self._memories.get(thing[1])
                self._ask(thing, memory.content, memory.version)

    def lacks(self, thing: Thing, text: str, version: int) -> bool:
        """Whether a memory that said this, and was never asked for then, is not found by its words now."""
        query = self._own_words(text)
        return bool(query) and not self.kept(Question(thing, query, text, version, frozenset({"words"})), _touched)

    def lost(self, untouched: Callable[[Thing], bool]) -> list[Question]:
        """What was found and is not any more. `untouched` says whether the pass had nothing to do with a thing: then
        what somebody else has changed since is theirs."""
        return [question for question in self._questions.values() if not self.kept(question, untouched)]

    def kept(self, question: Question, untouched: Callable[[Thing], bool]) -> bool:
        kind, id = question.thing
        if kind == "exchange":
            return self._exists(id) is False or question.found <= self._finds(question, question.thing)
        try:
            memory = self._memories.get(id)
        except MemoryNotFound:  # only forgetting does that, and it is meant to
            return True
        if untouched(question.thing) and (memory.version != question.version or memory.status != "active"):
            return True
        try:
            stands = self._stands_for(memory)
        except MemoryNotFound:  # forgotten just now, or what took its place was
            return True
        if stands.id != id and not self._says(stands.content, question.text):
            return False
        away = stands.status != "active"
        return question.found <= self._finds(question, ("memory", stands.id), away=away)

    def _facts(self) -> list[tuple[Thing, str]]:
        """The latest lines of the profile, each with a turn it rests on."""
        block = self._blocks.get(_PROFILE)
        lines = block.content.split("\n") if block else []
        cited = [(citations.handles(line), citations.bare(line)) for line in lines]
        return [(("exchange", int(named[0][1:])), text) for named, text in cited if named][-_FACTS:]

    def _ask(self, thing: Thing, text: str, version: int) -> None:
        query = self._own_words(text)
        if query:
            question = Question(thing, query, text, version, frozenset())
            self._questions[thing] = question._replace(found=self._finds(question, thing))

    def _own_words(self, text: str) -> str:
        """The rarest words of a text: one, and more if few have them; so a pass costs no more in a large store."""
        terms: dict[str, str] = {}
        for word in re.findall(r"\w+", text):
            for term in analyser.terms(word):
                terms.setdefault(term, word)
        with self._engine.read() as tx:
            counts = bm25.weigh(tx, self._workspace, _SHELVES, list(terms)).found
        known = sorted((count, position, term) for position, (term, count) in enumerate(counts.items()) if count)
        rare = [known[:1], [each for each in known[1:_WORDS] if each[0] <= _LOOKED_AT]]
        return " ".join(dict.fromkeys(terms[term] for _, _, term in chain(*rare)))

    def _finds(self, question: Question, thing: Thing, *, away: bool = False) -> frozenset[str]:
        """The ways that find a thing by the question's words."""
        kind, id = thing
        found = set()
        for mode in MODES:
            hits = self._recall.recall(
                question.query,
                _DEEP,
                # By themselves: beside turns, a memory gives way to the one it only repeats.
                what=("memories",) if kind == "memory" else ("exchanges",),
                mode=mode,
                rerank="never",
                include_archived=away,
                note=False,
            )
            if id in {hit.memory_id if kind == "memory" else hit.exchange_id for hit in hits}:
                found.add(mode)
        return frozenset(found)

    def _stands_for(self, memory: Memory) -> Memory:
        """The memory that one was merged into, and so on; itself when it was not."""
        while memory.status == "superseded" and memory.superseded_by is not None:
            if (memory.id, memory.superseded_by, MERGED) not in self._memories.links(memory.id):
                break
            memory = self._memories.get(memory.superseded_by)
        return memory

    def _says(self, text: str, said: str) -> bool:
        found = sentences.parts(text)
        return all(plans.states(found, sentence, self._least) for sentence in sentences.parts(said))

    def _exists(self, exchange: int) -> bool:
        with self._engine.read() as tx:
            return tx.one(_EXCHANGE, workspace=self._workspace, id=exchange) is not None


def _touched(thing: Thing) -> bool:
    return False
