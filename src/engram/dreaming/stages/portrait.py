"""The portrait: the blocks `profile`, `narrative` and `self`.

The profile lists standing facts, each with its date and the turn it comes from. A pass adds new facts and names further
sources of known ones. The narrative is continued with the new gists. Both use only trusted text, and every line names
its sources, so that forgetting can remove exactly the right lines. `self` is Engram's own reflection on all of this.
Nothing here ever cuts these blocks.
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
from ..pass_context import TRUSTED, gist_passage, prompt_portions, turn_passage
from ..thinking import Thought, think_about_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...memory.provenance import Thing
    from ...records import Block, Gist
    from ...storage.engine import Row
    from ..grounds import Ground
    from ..pass_context import PassContext

PROFILE, NARRATIVE, SELF = "profile", "narrative", "self"
REFLECT = "reflect"
#: Budget of these blocks. Nothing cuts them; a reader shows as much as fits.
TOKENS = 32_768
#: A statement with less confidence than this is ignored.
LEAST_CONFIDENCE = 0.5
#: A line names at most this many sources.
_NAMED = 3
_REFLECTIONS = 6
#: Gists that a reflection looks at, the latest first.
_LOOKED_AT = 20

UNFOLDED_GISTS = """
SELECT f.gist, f.after, g.session_id, s.gist_seq FROM folds f
  JOIN gists g ON g.memory_id = f.gist JOIN sessions s ON s.workspace = g.workspace AND s.id = g.session_id
WHERE f.workspace = :workspace AND f.target = :target ORDER BY f.gist
"""
_NEW_GISTS = """
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust, m.project
FROM folds f JOIN gists g ON g.memory_id = f.gist JOIN memories m ON m.id = g.memory_id
WHERE f.workspace = :workspace AND f.target = 'narrative' AND m.status = 'active' ORDER BY g.at, g.memory_id
"""
_LATEST_GISTS = """
SELECT g.session_id, g.memory_id, g.at, m.content, m.trust, m.project, m.updated_at
FROM memories m JOIN gists g ON g.memory_id = m.id
WHERE m.workspace = :workspace AND m.kind = 'gist' AND m.status = 'active' AND m.content <> ''
  AND m.trust IN ('user', 'agent')
ORDER BY m.id DESC LIMIT :limit
"""
_MARKED_FOR_REBUILD = """
SELECT 1 FROM rebuilds r JOIN blocks b ON b.id = r.ref
WHERE r.workspace = :workspace AND r.kind = 'block' AND b.name = :name
"""


def profile(context: PassContext) -> None:
    """Read the new turns and add what they say about the user."""
    with context.engine.read() as tx:
        waiting = tx.all(UNFOLDED_GISTS, workspace=context.workspace, target=PROFILE)
    context.for_each(PROFILE, waiting, _add_session_facts)


def _add_session_facts(context: PassContext, row: Row) -> None:
    """Add the facts of one session to the profile."""
    gist, after, session, upto = row
    turns = context.gists.unsummarised(session, after=after)
    said = [turn for turn in turns if turn.trust in TRUSTED and turn.role in ("user", "assistant") and turn.seq <= upto]
    portions = prompt_portions([turn_passage(turn) for turn in said])
    facts: list[dict[str, Any]] = []
    thoughts = think_about_all(
        portions, lambda number, portion: _find_facts(context, f"{session} {after}-{upto} part {number}", portion)
    )
    for thought in thoughts:
        facts += cast(dict[str, Any], thought.data)["facts"]
    with context.write() as tx:
        # These locks keep others from editing the profile between reading and writing it.
        context.memories.lock(tx)
        tx.lock(mutexes.embedding_queue(context.workspace))
        tx.lock(mutexes.block(context.workspace, PROFILE))
        _add_facts(context, facts, {turn.id: turn for turn in said})
        context.gists.mark_folded(tx, PROFILE, gist)


def _find_facts(context: PassContext, subject: str, portion: list[Passage]) -> Thought:
    # Facts are added to the profile as it is then, so edits in the meantime do no harm.
    prompt = Prompt(PROFILE, prompts.PROFILE, tuple(portion), _block_so_far(context, PROFILE, grounds.of_version))
    return context.thinker.think(PROFILE, subject, lambda: (prompt, None), form=prompts.PROFILE_FORM)


def _add_facts(context: PassContext, facts: list[dict[str, Any]], said: dict[int, Exchange]) -> None:
    block = context.blocks.get(PROFILE)
    before = block.content if block else ""
    lines = _ProfileText(before)
    sources = set()
    for fact in facts:
        turn = said.get(id_of_handle(fact["source"])) if fact["source"].startswith("e") else None
        if turn is None or fact["confidence"] < LEAST_CONFIDENCE:
            continue
        lines.add(fact["kind"], _statement(context, fact["text"]), turn.created_at[:10], f"e{turn.id}")
        sources.add(("exchange", turn.id))
    text = lines.text()
    if text != before:
        _write(context, PROFILE, text, "more was said", sources)


class _ProfileText:
    """The profile while it is edited: lines under headings."""

    def __init__(self, text: str) -> None:
        self._heads: dict[str, list[str]] = {}
        head = ""
        for line in text.split("\n"):
            if line.startswith("## "):
                head = line[3:]
            elif line.strip():
                self._heads.setdefault(head, []).append(line)

    def add(self, kind: str, statement: str, day: str, handle: str) -> None:
        """Add a statement, or add its source to the line that already makes it."""
        lines = self._heads.setdefault(headings.PROFILE[kind], [])
        for position, line in enumerate(lines):
            if _is_same_statement(line, statement):
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
    """Continue the narrative with the new gists. If forgetting took text from it, rebuild it from the latest gists."""
    with context.engine.read() as tx:
        waiting = [gist for gist, *_ in tx.all(UNFOLDED_GISTS, workspace=context.workspace, target=NARRATIVE)]
        gists = _gist_records(tx.all(_NEW_GISTS, workspace=context.workspace))
        if tx.one(_MARKED_FOR_REBUILD, workspace=context.workspace, name=NARRATIVE):
            gists = _gist_records(tx.all(_LATEST_GISTS, workspace=context.workspace, limit=_LOOKED_AT * 5))[::-1]
    context.checkpoint(NARRATIVE, 0, len(waiting))
    trusted = [gist for gist in gists if gist.trust in TRUSTED and gist.text]
    portions = prompt_portions([gist_passage(gist) for gist in trusted])
    for position in range(len(portions)):
        if not context.attempt(NARRATIVE, _continue_narrative, portions[position:]):
            return
    rest = [gist for gist in waiting if gist not in {each.memory_id for each in trusted}]
    with context.write() as tx:
        context.memories.lock(tx)
        for gist in rest:
            context.gists.mark_folded(tx, NARRATIVE, gist)
    context.checkpoint(NARRATIVE, len(waiting), len(waiting))


def _continue_narrative(context: PassContext, portions: list[list[Passage]]) -> None:
    """Continue with the first portion. The others stay marked as not folded in, so that no pass can lose them."""
    portion, *later = portions
    known = _block_so_far(context, NARRATIVE)
    prompt = Prompt(NARRATIVE, prompts.NARRATIVE, tuple(portion), known)
    thought = context.thinker.think(
        NARRATIVE, NARRATIVE, lambda: (prompt, [passage.id for passage in portion]), form=prompts.NARRATIVE_FORM
    )
    covered = [id_of_handle(id) for id in cast(list[str], thought.covers)]
    text = _render_sections(cast(dict[str, list[str]], thought.data), portion, known)
    with context.write() as tx:
        _write(context, NARRATIVE, text, "the story went on", {("memory", id) for id in covered})
        for passage in portion:
            if thought.was_shown(id_of_handle(passage.id), passage.text):
                context.gists.mark_folded(tx, NARRATIVE, id_of_handle(passage.id))
        for passage in (passage for portion in later for passage in portion):
            context.gists.mark_unfolded(tx, NARRATIVE, id_of_handle(passage.id))


def _render_sections(data: dict[str, list[str]], portion: list[Passage], known: tuple[Passage, ...]) -> str:
    """The sections as text. A line's sources are those given with it, those it had before, or those with the same
    words."""
    before = {citations.bare(line): line for passage in known for line in passage.text.split("\n")}
    matchers = {passage.id: citations.SourceMatcher([passage.text], []) for passage in portion}
    ids = set(matchers)
    ids |= {handle for line in before.values() for handle in citations.handles(line)}
    parts = []
    for name, head in headings.NARRATIVE.items():
        lines = []
        for given in data[name]:
            bare = f"- {citations.bare(given).removeprefix('- ')}"
            named = [handle for handle in citations.handles(given) if handle in ids]
            named = named or citations.handles(before.get(bare, "")) or _matching_sources(bare, matchers)
            lines.append(citations.cited(bare, named))
        if lines:
            parts.append("\n".join([f"## {head}", *lines]))
    return "\n\n".join(parts)


def _matching_sources(line: str, matchers: dict[str, citations.SourceMatcher]) -> list[str]:
    """The passages that contain the line's words."""
    return [id for id, matcher in matchers.items() if matcher.came_from_lost(line)][:_NAMED]


def reflect(context: PassContext) -> None:
    """Write a reflection into `self`, in the first person."""
    with context.engine.read() as tx:
        rows = tx.all(_LATEST_GISTS, workspace=context.workspace, limit=_LOOKED_AT)
        lost = tx.one(_MARKED_FOR_REBUILD, workspace=context.workspace, name=SELF) is not None
    context.checkpoint(REFLECT, 0, 1)
    gists = _gist_records(rows)[::-1]
    if not gists:
        return
    block = context.blocks.get(SELF)
    if block and block.content and not lost and all(updated_at <= block.updated_at for *_, updated_at in rows):
        context.reflected = True  # the last reflection saw the same gists
        return
    if context.attempt(REFLECT, _write_reflection, gists):
        context.reflected = True
        context.checkpoint(REFLECT, 1, 1)


def _write_reflection(context: PassContext, gists: list[Gist]) -> None:
    made = _think_reflection(context, tuple(gist_passage(gist) for gist in gists))
    with context.engine.read() as tx:
        now = tx.now()
    old = current_self(context)
    reflections = [*(old or {}).get("reflections", []), {"at": now, "text": made["reflection"]}][-_REFLECTIONS:]
    content = dump_self({**{name: made[name] for name in ("mood", "energy", "narrative")}, "reflections": reflections})
    with context.write():
        _write(context, SELF, content, "reflected", {("memory", gist.memory_id) for gist in gists})


def _think_reflection(context: PassContext, looked_at: tuple[Passage, ...]) -> dict[str, Any]:
    """With a model: draft, critique, revision. Without one: a plain summary."""
    known = _block_so_far(context, SELF)
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
    """The values of the `self` block; None when it is empty or contains something else."""
    try:
        data = json.loads(content)
    except ValueError:
        return None
    return data if not check(data, prompts.SELF_FORM) else None


def dump_self(data: dict[str, Any]) -> str:
    """The text of the `self` block. InvalidInput when a value is missing or wrong."""
    problems = check(data, prompts.SELF_FORM)
    if problems:
        raise InvalidInput(f"The self block does not match its schema: {'; '.join(problems)}.")
    return json.dumps(clean(data), ensure_ascii=False, indent=1)


def _write(context: PassContext, name: str, text: str, reason: str, sources: set[Thing]) -> None:
    block = context.blocks.derive(name, text, reason, "dream", TOKENS, sources)
    context.new_blocks[name] = block.version


def _block_so_far(
    context: PassContext, name: str, how: Callable[[Block], Ground] = grounds.of_block
) -> tuple[Passage, ...]:
    block = context.blocks.get(name)
    if not block or not block.content:
        return ()
    handle, text = how(block)
    return (Passage(handle, f"the {name} so far", text),)


def _gist_records(rows: list[Row]) -> list[Gist]:
    from ...records import Gist

    return [Gist(*row[:6]) for row in rows]


def _statement(context: PassContext, text: str) -> str:
    """A model's sentence as it is. Without a model, the speaker's own words in quotation marks."""
    plain = " ".join(text.split())
    return f"“{plain}”" if context.thinker.extractive else plain


def _is_same_statement(line: str, statement: str) -> bool:
    undated = re.sub(r"\(\d{4}-\d\d-\d\d\)$", "", citations.bare(line).rstrip())
    return citations.plain(undated) == citations.plain(statement)


def id_of_handle(handle: str) -> int:
    """The id in the handle of an exchange or a memory; 0 for any other handle."""
    return int(handle[1:]) if re.fullmatch(r"[a-z]\d{1,18}", handle) else 0
