"""Coherence, second half, and curiosity: the blocks `profile`, `narrative` and `self`.

The profile is a list of standing facts, each with its date and the turn it rests on; new ones are added, what is known
is named again. The narrative is carried on from the gists that are new. Both take only words of sufficient trust, and
every line names its sources, so that forgetting can take exactly its own. `self` is what Engram makes of it all.
None of the three is ever cut here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from ... import mutexes
from ...errors import InvalidInput
from ...llm import Passage, Prompt, check, headings
from ...memory import citations
from ...records import Exchange
from ...redact import clean
from .. import grounds, prompts
from ..pass_context import TRUSTED, gist_passage, pieces, turn_passage
from ..thinking import Thought, all_thoughts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...memory.provenance import Thing
    from ...records import Block, Gist
    from ...storage.engine import Row
    from ..grounds import Shown
    from ..pass_context import PassContext

PROFILE, NARRATIVE, SELF = "profile", "narrative", "self"
REFLECT = "reflect"
#: They may be long: nothing cuts them, and whoever shows them shows what fits.
TOKENS = 32_768
#: A statement less sure than this is not worth a line.
SURE = 0.5
#: So many sources a line names; more would only repeat that it is so.
_NAMED = 3
_REFLECTIONS = 6
#: Gists that a reflection looks at, the latest first.
_LOOKED_AT = 20

WAITING = """
SELECT f.gist, f.after, g.session_id, s.gist_seq FROM folds f
  JOIN gists g ON g.memory_id = f.gist JOIN sessions s ON s.workspace = g.workspace AND s.id = g.session_id
WHERE f.workspace = :workspace AND f.target = :target ORDER BY f.gist
"""
_NEW_GISTS = """
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust
FROM folds f JOIN gists g ON g.memory_id = f.gist JOIN memories m ON m.id = g.memory_id
WHERE f.workspace = :workspace AND f.target = 'narrative' AND m.status = 'active' ORDER BY g.at, g.memory_id
"""
_LATEST_GISTS = """
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust, m.updated_at
FROM memories m JOIN gists g ON g.memory_id = m.id
WHERE m.workspace = :workspace AND m.kind = 'gist' AND m.status = 'active' AND m.content <> ''
  AND m.trust IN ('user', 'agent')
ORDER BY m.id DESC LIMIT :limit
"""
_LOST = """
SELECT 1 FROM rebuilds r JOIN blocks b ON b.id = r.ref
WHERE r.workspace = :workspace AND r.kind = 'block' AND b.name = :name
"""


def profile(context: PassContext) -> None:
    """Read what was said since, and add what it says about the user."""
    with context.engine.read() as tx:
        waiting = tx.all(WAITING, workspace=context.workspace, target=PROFILE)
    context.each(PROFILE, waiting, _read_session)


def _read_session(context: PassContext, row: Row) -> None:
    gist, after, session, upto = row
    turns = context.gists.unsummarised(session, after=after)
    said = [turn for turn in turns if turn.trust in TRUSTED and turn.role in ("user", "assistant") and turn.seq <= upto]
    portions = pieces([turn_passage(turn) for turn in said])
    facts: list[dict[str, Any]] = []
    thoughts = all_thoughts(
        portions, lambda number, portion: _find_facts(context, f"{session} {after}-{upto} part {number}", portion)
    )
    for thought in thoughts:
        facts += cast(dict[str, Any], thought.data)["facts"]
    with context.write() as tx:
        # Nobody may edit the profile between the reading and the writing of it.
        context.memories.lock(tx)
        tx.lock(mutexes.backlog(context.workspace))
        tx.lock(mutexes.block(context.workspace, PROFILE))
        _add_facts(context, facts, {turn.id: turn for turn in said})
        context.gists.folded(tx, PROFILE, gist)


def _find_facts(context: PassContext, subject: str, portion: list[Passage]) -> Thought:
    # Facts are added to whatever the profile is by then, so it may be edited meanwhile.
    prompt = Prompt(PROFILE, prompts.PROFILE, tuple(portion), _known(context, PROFILE, grounds.version))
    return context.thinker.think(PROFILE, subject, lambda: (prompt, None), form=prompts.PROFILE_FORM)


def _add_facts(context: PassContext, facts: list[dict[str, Any]], said: dict[int, Exchange]) -> None:
    block = context.blocks.get(PROFILE)
    before = block.content if block else ""
    lines = _Lines(before)
    sources = set()
    for fact in facts:
        turn = said.get(number(fact["source"])) if fact["source"].startswith("e") else None
        if turn is None or fact["confidence"] < SURE:
            continue
        lines.add(fact["kind"], _statement(context, fact["text"]), turn.created_at[:10], f"e{turn.id}")
        sources.add(("exchange", turn.id))
    text = lines.text()
    if text != before:
        _write(context, PROFILE, text, "more was said", sources)


class _Lines:
    """The profile as it is edited: a list of lines under each heading."""

    def __init__(self, text: str) -> None:
        self._heads: dict[str, list[str]] = {}
        head = ""
        for line in text.split("\n"):
            if line.startswith("## "):
                head = line[3:]
            elif line.strip():
                self._heads.setdefault(head, []).append(line)

    def add(self, kind: str, statement: str, day: str, handle: str) -> None:
        lines = self._heads.setdefault(headings.PROFILE[kind], [])
        for position, line in enumerate(lines):
            if _same(line, statement):
                named = citations.handles(line)
                if handle not in named:
                    bare = citations.bare(line)
                    lines[position] = citations.cited(bare, [*named, handle][-_NAMED:])
                return
        lines.append(citations.cited(f"- {statement} ({day})", [handle]))

    def text(self) -> str:
        usual = headings.PROFILE.values()
        order = ["", *usual, *(head for head in self._heads if head not in usual and head)]
        parts = [
            "\n".join([*([f"## {head}"] if head else []), *self._heads[head]])
            for head in order
            if self._heads.get(head)
        ]
        return "\n\n".join(parts)


def narrative(context: PassContext) -> None:
    """Carry the narrative on with the gists that are new; from the latest ones when it lost text to forgetting."""
    with context.engine.read() as tx:
        waiting = [row[0] for row in tx.all(WAITING, workspace=context.workspace, target=NARRATIVE)]
        gists = _gists(tx.all(_NEW_GISTS, workspace=context.workspace))
        if tx.one(_LOST, workspace=context.workspace, name=NARRATIVE):
            gists = _gists(tx.all(_LATEST_GISTS, workspace=context.workspace, limit=_LOOKED_AT * 5))[::-1]
    context.step(NARRATIVE, 0, len(waiting))
    trusted = [gist for gist in gists if gist.trust in TRUSTED and gist.text]
    portions = pieces([gist_passage(gist) for gist in trusted])
    for position in range(len(portions)):
        if not context.attempt(NARRATIVE, _carry_on, portions[position:]):
            return
    rest = [gist for gist in waiting if gist not in {each.memory_id for each in trusted}]
    with context.write() as tx:
        context.memories.lock(tx)
        for gist in rest:
            context.gists.folded(tx, NARRATIVE, gist)
    context.step(NARRATIVE, len(waiting), len(waiting))


def _carry_on(context: PassContext, portions: list[list[Passage]]) -> None:
    """Tell the first portion; the others are still to be told, whatever becomes of this pass."""
    portion, *later = portions
    known = _known(context, NARRATIVE)
    prompt = Prompt(NARRATIVE, prompts.NARRATIVE, tuple(portion), known)
    thought = context.thinker.think(
        NARRATIVE, NARRATIVE, lambda: (prompt, [passage.id for passage in portion]), form=prompts.NARRATIVE_FORM
    )
    covered = [number(id) for id in cast(list[str], thought.covers)]
    text = _sections(cast(dict[str, list[str]], thought.data), portion, known)
    with context.write() as tx:
        _write(context, NARRATIVE, text, "the story went on", {("memory", id) for id in covered})
        for passage in portion:
            if thought.saw(number(passage.id), passage.text):
                context.gists.folded(tx, NARRATIVE, number(passage.id))
        for passage in (passage for portion in later for passage in portion):
            context.gists.unfolded(tx, NARRATIVE, number(passage.id))


def _sections(data: dict[str, list[str]], portion: list[Passage], known: tuple[Passage, ...]) -> str:
    """The sections as text, every line with its sources: as given, as before, or where its words are from."""
    before = {citations.bare(line): line for passage in known for line in passage.text.split("\n")}
    sieves = {passage.id: citations.Sieve([passage.text], []) for passage in portion}
    ids = set(sieves)
    ids |= {handle for line in before.values() for handle in citations.handles(line)}
    parts = []
    for name, head in headings.NARRATIVE.items():
        lines = []
        for given in data[name]:
            bare = f"- {citations.bare(given).removeprefix('- ')}"
            named = [handle for handle in citations.handles(given) if handle in ids]
            named = named or citations.handles(before.get(bare, "")) or _from(bare, sieves)
            lines.append(citations.cited(bare, named))
        if lines:
            parts.append("\n".join([f"## {head}", *lines]))
    return "\n\n".join(parts)


def _from(line: str, sieves: dict[str, citations.Sieve]) -> list[str]:
    return [id for id, sieve in sieves.items() if sieve.holds(line)][:_NAMED]


def reflect(context: PassContext) -> None:
    """Say how things stand, in the first person."""
    with context.engine.read() as tx:
        rows = tx.all(_LATEST_GISTS, workspace=context.workspace, limit=_LOOKED_AT)
        lost = tx.one(_LOST, workspace=context.workspace, name=SELF) is not None
    context.step(REFLECT, 0, 1)
    gists = _gists(rows)[::-1]
    if not gists:
        return
    block = context.blocks.get(SELF)
    if block and block.content and not lost and all(row[5] <= block.updated_at for row in rows):
        context.reflected = True  # on the very same, and nothing new would come of it
        return
    if context.attempt(REFLECT, _look_back, gists):
        context.reflected = True
        context.step(REFLECT, 1, 1)


def _look_back(context: PassContext, gists: list[Gist]) -> None:
    made = _reflection(context, tuple(gist_passage(gist) for gist in gists))
    with context.engine.read() as tx:
        now = tx.now()
    old = current_self(context)
    reflections = [*(old or {}).get("reflections", []), {"at": now, "text": made["reflection"]}][-_REFLECTIONS:]
    content = dump_self({**{name: made[name] for name in ("mood", "energy", "narrative")}, "reflections": reflections})
    with context.write():
        _write(context, SELF, content, "reflected", {("memory", gist.memory_id) for gist in gists})


def _reflection(context: PassContext, looked_at: tuple[Passage, ...]) -> dict[str, Any]:
    """Draft, critique and revise with a model; a plain readout without one."""
    known = _known(context, SELF)
    think, form = context.thinker.think, prompts.REFLECT_FORM
    draft = think(REFLECT, "draft", lambda: (Prompt(REFLECT, prompts.REFLECT, looked_at, known), None), form=form)
    if context.thinker.extractive:
        return cast(dict[str, Any], draft.data)
    drafted = Passage("draft", "the draft", json.dumps(draft.data, ensure_ascii=False))
    critique = think(
        REFLECT, "critique", lambda: (Prompt("critique", prompts.CRITIQUE, looked_at, (*known, drafted)), None)
    )
    remarks = Passage("critique", "the critique", critique.text)
    revised = think(
        REFLECT,
        "revise",
        lambda: (Prompt("revise", prompts.REVISE, looked_at, (*known, drafted, remarks)), None),
        form=form,
    )
    return cast(dict[str, Any], revised.data)


def current_self(context: PassContext) -> dict[str, Any] | None:
    return load_self(block.content) if (block := context.blocks.get(SELF)) else None


def load_self(content: str) -> dict[str, Any] | None:
    """The `self` block's values; None while it is empty or holds something else."""
    try:
        data = json.loads(content)
    except ValueError:
        return None
    return data if not check(data, prompts.SELF_FORM) else None


def dump_self(data: dict[str, Any]) -> str:
    """As the block keeps it; InvalidInput when a value is missing or wrong."""
    problems = check(data, prompts.SELF_FORM)
    if problems:
        raise InvalidInput(f"The self block must have its form: {'; '.join(problems)}.")
    return json.dumps(clean(data), ensure_ascii=False, indent=1)


def _write(context: PassContext, name: str, text: str, reason: str, sources: set[Thing]) -> None:
    block = context.blocks.derive(name, text, reason, "dream", TOKENS, sources)
    context.new_blocks[name] = block.version


def _known(context: PassContext, name: str, how: Callable[[Block], Shown] = grounds.block) -> tuple[Passage, ...]:
    block = context.blocks.get(name)
    if not block or not block.content:
        return ()
    handle, text = how(block)
    return (Passage(handle, f"the {name} so far", text),)


def _gists(rows: list[Row]) -> list[Gist]:
    from ...records import Gist

    return [Gist(*row[:5]) for row in rows]


def _statement(context: PassContext, text: str) -> str:
    """A model's sentence as it is; without one, the speaker's own words, marked as such."""
    plain = " ".join(text.split())
    return f"“{plain}”" if context.thinker.extractive else plain


def _same(line: str, statement: str) -> bool:
    undated = re.sub(r"\(\d{4}-\d\d-\d\d\)$", "", citations.bare(line).rstrip())
    return citations.plain(undated) == citations.plain(statement)


def number(handle: str) -> int:
    """Of an exchange or a memory that a passage's handle names; 0 for anything else."""
    return int(handle[1:]) if re.fullmatch(r"[a-z]\d{1,18}", handle) else 0
