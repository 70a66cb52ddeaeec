"""Checks that recall finds after a pass what it found before.

The probe asks for everything that the pass is about to change, and for a sample of the rest: recent turns, facts of the
profile, pinned memories. It asks by the rarest words of each text, in two modes: words alone, and words with meaning. A
merged memory counts as found when recall finds the memory that replaced it and that one still says everything. An
archived one must be found among the archived. These searches do not count as recalls.
"""

from __future__ import annotations

import re
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
#: How many hits are searched for a thing. Its own words bring it up early, but others may rank before it later.
_DEEP = 50
_TURNS, _FACTS, _PINNED = 8, 8, 8
#: A question has at most this many words, and leaves out words that more things than this contain.
_WORDS, _LOOKED_AT = 6, 2_000
_SHELVES = ("turns", "memories")
_PROFILE = "profile"

_RECENT = """
SELECT id, content FROM exchanges WHERE workspace = :workspace AND role <> 'log'
ORDER BY created_at DESC, id DESC LIMIT :limit
"""
_EXCHANGE = "SELECT content FROM exchanges WHERE workspace = :workspace AND id = :id"


class Question(NamedTuple):
    """How the probe asked for a thing, and which modes found it."""

    thing: Thing
    query: str
    #: Its text and version before the pass.
    text: str
    version: int
    found: frozenset[str]


class Probe:
    """Asks for things before a pass changes them, and again afterwards."""

    def __init__(self, view: StoreView, memories: Memories, blocks: Blocks) -> None:
        self._engine = view.engine
        self._workspace = view.workspace
        self._least = view.config.dream_similarity
        self._memories = memories
        self._blocks = blocks
        self._recall = Recall(view, memories)
        self._questions: dict[Thing, Question] = {}
        self._sampled = False

    def ask_sample(self) -> None:
        """Ask for things that the pass should not change. Only the first call of a pass does anything."""
        if self._sampled:
            return
        self._sampled = True
        with self._engine.read() as tx:
            turns = [(("exchange", id), text) for id, text in tx.all(_RECENT, workspace=self._workspace, limit=_TURNS)]
        for thing, text in (*turns, *self._facts()):
            self._ask(thing, text, 0)
        self.ask_about(("memory", memory.id) for memory in self._memories.list(pinned=True, limit=_PINNED))

    def ask_about(self, things: Iterable[Thing]) -> None:
        """Ask for things before they are changed."""
        for thing in things:
            kind, id = thing
            if kind == "memory" and thing not in self._questions:
                memory = self._memories.get(id)
                self._ask(thing, memory.content, memory.version)

    def misses(self, thing: Thing, text: str, version: int) -> bool:
        """Whether recall does not find a memory by its earlier words now. For memories the probe did not ask for
        before."""
        query = self._own_words(text)
        return bool(query) and not self.is_kept(
            Question(thing, query, text, version, frozenset({"words"})), _nothing_untouched
        )

    def find_lost(self, untouched: Callable[[Thing], bool]) -> list[Question]:
        """Questions whose thing was found before and is not found now.

        `untouched` says whether the pass left a thing alone. Such a thing was changed by another writer, so that is no
        loss.
        """
        return [question for question in self._questions.values() if not self.is_kept(question, untouched)]

    def is_kept(self, question: Question, untouched: Callable[[Thing], bool]) -> bool:
        """Whether recall still finds the question's thing in every mode that found it before."""
        kind, id = question.thing
        if kind == "exchange":
            return self._exists(id) is False or question.found <= self._modes_finding(question, question.thing)
        try:
            memory = self._memories.get(id)
        except MemoryNotFound:  # it was forgotten, which is no loss
            return True
        if untouched(question.thing) and (memory.version != question.version or memory.status != "active"):
            return True
        try:
            current = self._follow_merges(memory)
        except MemoryNotFound:  # it or its replacement was forgotten just now
            return True
        if current.id != id and not self._contains_all(current.content, question.text):
            return False
        archived = current.status != "active"
        return question.found <= self._modes_finding(question, ("memory", current.id), archived=archived)

    def _facts(self) -> list[tuple[Thing, str]]:
        """The latest lines of the profile, each with the first turn it names."""
        block = self._blocks.get(_PROFILE)
        lines = block.content.split("\n") if block else []
        cited = [(citations.handles(line), citations.bare(line)) for line in lines]
        facts = [(("exchange", int(handle[1:])), text) for named, text in cited for handle in named[:1]]
        return facts[-_FACTS:]

    def _ask(self, thing: Thing, text: str, version: int) -> None:
        query = self._own_words(text)
        if query:
            question = Question(thing, query, text, version, frozenset())
            self._questions[thing] = question._replace(found=self._modes_finding(question, thing))

    def _own_words(self, text: str) -> str:
        """The rarest words of a text: the rarest one, and more if few things contain them. So large stores cost no
        more."""
        terms: dict[str, str] = {}
        for word in re.findall(r"\w+", text):
            for term in analyser.terms(word):
                terms.setdefault(term, word)
        with self._engine.read(feed=True) as tx:
            counts = bm25.weigh(tx, self._workspace, _SHELVES, list(terms)).found
        known = sorted((count, position, term) for position, (term, count) in enumerate(counts.items()) if count)
        rarest = [term for _, _, term in known[:1]]
        others = [term for count, _, term in known[1:_WORDS] if count <= _LOOKED_AT]
        return " ".join(dict.fromkeys(terms[term] for term in (*rarest, *others)))

    def _modes_finding(self, question: Question, thing: Thing, *, archived: bool = False) -> frozenset[str]:
        """The modes in which the question finds the thing."""
        kind, id = thing
        found = set()
        for mode in MODES:
            hits = self._recall.recall(
                question.query,
                _DEEP,
                # Separately, because in a mixed search a memory that repeats a turn is left out.
                what=("memories",) if kind == "memory" else ("exchanges",),
                mode=mode,
                rerank="never",
                include_archived=archived,
                note=False,
            )
            if id in {hit.memory_id if kind == "memory" else hit.exchange_id for hit in hits}:
                found.add(mode)
        return frozenset(found)

    def _follow_merges(self, memory: Memory) -> Memory:
        """The memory that this one was merged into, however often; itself when it was not merged."""
        while memory.status == "superseded" and memory.superseded_by is not None:
            if (memory.id, memory.superseded_by, MERGED) not in self._memories.links(memory.id):
                break
            memory = self._memories.get(memory.superseded_by)
        return memory

    def _contains_all(self, text: str, said: str) -> bool:
        found = sentences.parts(text)
        return all(plans.contains_statement(found, sentence, self._least) for sentence in sentences.parts(said))

    def _exists(self, exchange: int) -> bool:
        with self._engine.read() as tx:
            return tx.one(_EXCHANGE, workspace=self._workspace, id=exchange) is not None


def _nothing_untouched(thing: Thing) -> bool:
    return False
