"""The narrative: how the work went, and what is open now, in the block `narrative`.

A model continues it with the new gists. Without a model it is told anew from the latest gists. It is also told anew,
from all gists in order of time, when forgetting took text from it, when it is gone, or when it names a gist that is
gone. Every line names the gists it comes from. The lines are kept in order of time. Lines beyond the limit leave it:
the eras hold what they said, and the narrative names those. Only gists of trusted text are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from ...llm import Passage, Prompt, headings
from ...memory import citations
from .. import grounds, plans, prompts
from ..pass_context import GIST_CHARACTERS, TRUSTED, gist_passage, prompt_portions
from . import portrait
from .portrait import NARRATIVE, cited_memories, id_of_handle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...records import Block, Gist
    from ...storage.engine import Transaction
    from ..pass_context import PassContext
    from ..thinking import Thought

#: The arc has at most this many lines and characters.
_ARC_LINES, _ARC_CHARACTERS = 40, 12_000
#: Without a model, this many of the latest gists are told.
_TOLD = 30
#: A line that was given no sources names at most this many, which have its words.
_NAMED = 3
_TOKENS = 4_000
_BEFORE = "Before: see the era"

_GISTS = """
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust, m.project, m.updated_at
FROM gists g JOIN memories m ON m.id = g.memory_id
WHERE g.workspace = :workspace AND m.status = 'active' AND m.content <> '' ORDER BY g.at, g.memory_id
"""
_ERAS = """
SELECT key FROM memories
WHERE workspace = :workspace AND kind = 'era' AND status = 'active' AND content <> '' ORDER BY key
"""


class _Material(NamedTuple):
    """What the narrative is made of."""

    block: Block | None
    #: Gists of trusted text, in order of time, and when each was last written.
    gists: list[Gist]
    written: dict[int, str]
    #: The gists that are not in the narrative yet, of any trust.
    waiting: set[int]
    #: The months that have an era.
    eras: list[str]
    #: It has to be told anew.
    lost: bool

    @property
    def text(self) -> str:
        return self.block.content if self.block else ""


def run(context: PassContext) -> None:
    """Continue the narrative with the new gists, or tell it anew."""
    if portrait.sessions_wait(context, NARRATIVE):
        return
    _drop_former_sections(context)
    material = _read(context)
    if not material.waiting and not material.lost:
        return
    context.checkpoint(NARRATIVE, 0, len(material.waiting))
    if portrait.is_writers(material.block):
        done = context.attempt(NARRATIVE, _propose, material)
    elif context.thinker.extractive or not material.gists:
        done = context.attempt(NARRATIVE, _tell_latest, material)
    else:
        done = _continue_in_portions(context, material)
    if not done:
        return
    told = {gist.memory_id for gist in material.gists}
    with context.write() as tx:
        context.memories.lock(tx)
        for gist in sorted(material.waiting - told):
            context.gists.mark_folded(tx, NARRATIVE, gist)
    context.checkpoint(NARRATIVE, len(material.waiting), len(material.waiting))


def _read(context: PassContext) -> _Material:
    workspace = context.workspace
    block = context.blocks.get(NARRATIVE)
    with context.engine.read() as tx:
        rows = [row for row in tx.all(_GISTS, workspace=workspace) if row[4] in TRUSTED]
        waiting = {gist for gist, *_ in tx.all(portrait.UNFOLDED_GISTS, workspace=workspace, target=NARRATIVE)}
        eras = tx.column(_ERAS, workspace=workspace)
        marked = portrait.lost_text(tx, workspace, NARRATIVE)
    gists = portrait.gist_records(rows)
    written = {memory_id: updated_at for _, memory_id, *_, updated_at in rows}
    text = block.content if block else ""
    gone = cited_memories(text) - written.keys()
    lost = not portrait.is_writers(block) and (marked or bool(gone) or (bool(gists) and not text))
    return _Material(block, gists, written, waiting, eras, lost)


def _drop_former_sections(context: PassContext) -> None:
    """Remove sections that an earlier release wrote, such as words that recur."""
    block = context.blocks.get(NARRATIVE)
    if block is None or portrait.is_writers(block):
        return
    parts = block.content.split("\n\n")
    kept = [part for part in parts if part.split("\n")[0] not in {f"## {head}" for head in headings.FORMER_NARRATIVE}]
    if len(kept) < len(parts):
        with context.write() as tx:
            context.memories.lock(tx)
            now = context.blocks.get(NARRATIVE)
            if now == block:
                text = "\n\n".join(kept)
                context.new_blocks[NARRATIVE] = context.blocks.update(
                    NARRATIVE, text, "a section is no longer kept", actor=plans.DREAM
                ).version


def _tell_latest(context: PassContext, material: _Material) -> None:
    """Tell the latest gists, without a model."""
    latest = material.gists[-_TOLD:]
    passages = [gist_passage(gist) for gist in latest]
    text, thought = "", None
    if passages:
        prompt = Prompt(NARRATIVE, prompts.NARRATIVE, tuple(passages))
        thought = _think(context, NARRATIVE, prompt)
        text = _Text(material, passages, "").render(thought)
    with context.write() as tx:
        context.memories.lock(tx)
        if text != material.text or material.lost:
            _save(context, tx, text, {gist.memory_id for gist in latest}, thought)
        for gist in material.gists:
            if gist.memory_id in material.waiting:
                context.gists.mark_folded(tx, NARRATIVE, gist.memory_id)


def _continue_in_portions(context: PassContext, material: _Material) -> bool:
    """Continue with the new gists, or tell all of them anew; whether all of it is done."""
    chosen = [gist for gist in material.gists if material.lost or gist.memory_id in material.waiting]
    portions = prompt_portions([gist_passage(gist) for gist in chosen], GIST_CHARACTERS)
    for position, portion in enumerate(portions):
        anew = material.lost and position == 0
        later = [passage for rest in portions[position + 1 :] for passage in rest]
        if not context.attempt(NARRATIVE, _continue, _Step(material, portion, later, anew)):
            return False
    return True


class _Step(NamedTuple):
    material: _Material
    portion: list[Passage]
    #: The passages of later steps. They stay marked as not folded in, so that no pass can lose them.
    later: list[Passage]
    #: Nothing of the text so far is used.
    anew: bool


def _continue(context: PassContext, step: _Step) -> None:
    block = None if step.anew else context.blocks.get(NARRATIVE)
    known: tuple[Passage, ...] = ()
    if block and block.content:
        handle, text = grounds.of_block(block)
        known = (Passage(handle, "the narrative so far", text),)
    prompt = Prompt(NARRATIVE, prompts.NARRATIVE, tuple(step.portion), known)
    thought = _think(context, NARRATIVE, prompt)
    text = _Text(step.material, step.portion, block.content if block else "").render(thought)
    with context.write() as tx:
        _save(context, tx, text, {id_of_handle(id) for id in cast(list[str], thought.covers)}, thought)
        for passage in step.portion:
            gist = id_of_handle(passage.id)
            if thought.was_shown(gist, passage.text):
                context.gists.mark_folded(tx, NARRATIVE, gist)
            else:  # it has grown since an agent was asked
                context.gists.mark_unfolded(tx, NARRATIVE, gist)
        for passage in step.later:
            context.gists.mark_unfolded(tx, NARRATIVE, id_of_handle(passage.id))


def _propose(context: PassContext, material: _Material) -> None:
    """Propose to continue the text of a person or a companion with the gists since they wrote it.

    Without a model, the proposal is the narrative that a pass would have written.
    """
    block = material.block
    assert block is not None
    since = [gist for gist in material.gists if material.written[gist.memory_id] > block.updated_at]
    chosen = material.gists[-_TOLD:] if context.thinker.extractive else since
    handle, text = grounds.of_block(block)
    known = (Passage(handle, "the narrative so far", text),) if text and not context.thinker.extractive else ()
    rests_on: list[grounds.Ground] = []
    if since:
        passages = [gist_passage(gist) for gist in chosen]
        told = text if known else ""
        for number, portion in enumerate(prompt_portions(passages, GIST_CHARACTERS), 1):
            prompt = Prompt(NARRATIVE, prompts.NARRATIVE, tuple(portion), known)
            thought = _think(context, NARRATIVE if number == 1 else f"{NARRATIVE} {number}", prompt)
            told = _Text(material, portion, told).render(thought)
            known = (Passage("draft", "the narrative so far", told),)
            rests_on += thought.grounds
    with context.write() as tx:
        context.memories.lock(tx)
        if since and told != text:
            sources = {("memory", gist.memory_id) for gist in chosen}
            portrait.write(context, tx, NARRATIVE, told, "the story went on", sources, rests_on)
        for gist in sorted(material.waiting):
            context.gists.mark_folded(tx, NARRATIVE, gist)


def _think(context: PassContext, subject: str, prompt: Prompt) -> Thought:
    covers = [passage.id for passage in prompt.passages]
    return context.thinker.think(
        NARRATIVE, subject, lambda: (prompt, covers), form=prompts.NARRATIVE_FORM, max_tokens=_TOKENS
    )


def _save(context: PassContext, tx: Transaction, text: str, covered: Iterable[int], thought: Thought | None) -> None:
    sources = {("memory", id) for id in covered}
    rests_on = thought.grounds if thought else ()
    portrait.write(context, tx, NARRATIVE, text, "the story went on", sources, rests_on)


class _Text:
    """Makes the text of an answer's sections."""

    def __init__(self, material: _Material, portion: Sequence[Passage], before: str) -> None:
        self._at = {f"m{gist.memory_id}": gist.at for gist in material.gists}
        self._material = material
        #: The lines of the narrative so far, by their words.
        self._before = {citations.bare(line): line for line in before.split("\n")}
        self._new = {passage.id for passage in portion}
        self._labels = {passage.id: passage.label for passage in portion}
        self._matchers = {passage.id: citations.SourceMatcher([passage.text], []) for passage in portion}

    def render(self, thought: Thought) -> str:
        data = cast(dict[str, list[str]], thought.data)
        parts = []
        for name, head in headings.NARRATIVE.items():
            lines = self._lines(data[name])
            if name == "arc":
                lines = self._bounded(self._in_order(self._without_replaced(lines)))
            if lines:
                parts.append("\n".join([f"## {head}", *lines]))
        return "\n\n".join(parts)

    def _lines(self, given: Iterable[str]) -> list[str]:
        """The lines, each once. Their sources are those given with them, those they had before, or those with the same
        words."""
        known = self._new | {each for line in self._before.values() for each in citations.handles(line)}
        lines: dict[str, str] = {}
        for line in given:
            bare = f"- {' '.join(citations.bare(line).removeprefix('- ').split())}"
            if bare == "- " or bare.startswith(f"- {_BEFORE}"):
                continue
            named = [each for each in citations.handles(line) if each in known and each in self._at]
            named = named or citations.handles(self._before.get(bare, "")) or self._sources_of(bare)
            lines.setdefault(bare, citations.cited(bare, named))
        return list(lines.values())

    def _sources_of(self, line: str) -> list[str]:
        """The passage whose label the line begins with, or else those that contain the line's words."""
        labelled = [id for id, label in self._labels.items() if line.startswith(f"- {label}")]
        named = [id for id in labelled or self._matchers if self._matchers[id].came_from_lost(line)]
        return (named or labelled)[: 1 if labelled else _NAMED]

    def _without_replaced(self, lines: list[str]) -> list[str]:
        """Without the old lines about sessions that a new line tells again: their gists have grown."""
        is_old = [citations.bare(line) in self._before for line in lines]
        again = {each for line, old in zip(lines, is_old, strict=True) if not old for each in citations.handles(line)}
        again &= self._new
        return [
            line
            for line, old in zip(lines, is_old, strict=True)
            if not (old and citations.handles(line) and set(citations.handles(line)) <= again)
        ]

    def _in_order(self, lines: list[str]) -> list[str]:
        """In order of time. A line without sources stays behind the one before it."""
        keys: list[tuple[str, int]] = []
        for line in lines:
            times = [(self._at[each], id_of_handle(each)) for each in citations.handles(line) if each in self._at]
            keys.append(max(times) if times else keys[-1] if keys else ("", 0))
        return [line for _, line in sorted(zip(keys, lines, strict=True), key=lambda pair: pair[0])]

    def _bounded(self, lines: list[str]) -> list[str]:
        """The newest lines that fit, and before them where to read about the time before."""
        kept: list[str] = []
        for line in reversed(lines[-_ARC_LINES:]):
            if sum(map(len, kept)) + len(line) > _ARC_CHARACTERS:
                break
            kept.insert(0, line)
        times = [self._at[each] for line in kept for each in citations.handles(line) if each in self._at]
        if not times or not (len(kept) < len(lines) or self._has_left()):
            return kept
        months = sorted({at[:7] for at in self._at.values() if at < min(times)} & set(self._material.eras))
        return [f"- {_before(months)}", *kept] if months else kept

    def _has_left(self) -> bool:
        """Whether older lines are missing: some have left before, or not all gists were told."""
        return any(_BEFORE in line for line in self._before) or (
            len(self._before) == 1 and len(self._new) < len(self._material.gists)
        )


def _before(months: list[str]) -> str:
    if len(months) == 1:
        return f"{_BEFORE} of {months[0]}."
    named = ", ".join(months) if len(months) <= 4 else f"{months[0]} to {months[-1]}"
    return f"{_BEFORE}s of {named}."
