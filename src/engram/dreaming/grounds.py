"""What a thought or a plan rests on, and the check that this is unchanged when something is written from it.

No transaction is open while a thinker works, so another session may forget or change the text in the meantime. A
thought therefore keeps what its prompt quoted, and a plan keeps the texts it was made from. Both are compared with the
store again inside the transaction that writes. If anything differs, nothing is written, and a later pass does the work.

A ground names its text by a handle: `e12` is a turn, `m7` an active memory as it is now, `h7` any of its versions,
`b:world` a block as it is now, `v:3:profile` version 3 of a block, `s:ID` what a session set out to do. Forgetting
rewrites every version that it takes text from, so a version that is still the same contains nothing forgotten.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .. import mutexes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..llm import Prompt
    from ..records import Block, Exchange, Memory
    from ..storage.engine import Transaction

#: Characters of one turn that a prompt quotes. Output of tools and pasted text may be very long.
_HEAD, _TAIL = 6_000, 1_500
#: The longest turn that is quoted as a whole.
LONGEST = _HEAD + _TAIL
#: Handles of passages that quote other thoughts of the same step: a part of a gist, a draft, its critique.
_THOUGHTS = re.compile(r"p\d+|draft|critique")
_TURN, _MEMORY, _HISTORY = re.compile(r"e(\d+)"), re.compile(r"m(\d+)"), re.compile(r"h(\d+)")
_BLOCK, _VERSION, _SESSION = re.compile(r"b:(.+)"), re.compile(r"v:(\d+):(.+)"), re.compile(r"s:(.+)")
#: Characters of a session's summary that a prompt quotes.
_SUMMARY = 300

_TURNS = """
SELECT id, session_id, content FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
# The casts keep SQLite from reading all active memories of the workspace.
_MEMORIES = """
SELECT id, content FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace AND status = 'active'
"""
_VERSIONS = """
SELECT m.id, v.content FROM memories m JOIN memory_versions v ON v.memory_id = m.id
WHERE m.id IN (SELECT value FROM json_each(:ids)) AND CAST(m.workspace AS TEXT) = :workspace
"""
_SUMMARIES = """
SELECT id, summary FROM sessions
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""
_CURRENT = "SELECT content FROM blocks WHERE workspace = :workspace AND name = :name"
_EARLIER = """
SELECT v.content FROM block_versions v JOIN blocks b ON b.id = v.block_id
WHERE b.workspace = :workspace AND b.name = :name AND v.version = :version
"""
_LOCK_SESSION = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :session"


class Outdated(Exception):
    """Something that this rests on was forgotten or changed."""

    def __init__(self) -> None:
        super().__init__("its sources were forgotten or changed meanwhile; a later pass does it again")


class Ground(NamedTuple):
    """A stored text that was quoted, by its handle."""

    handle: str
    text: str


def of_turn(turn: Exchange) -> Ground:
    return Ground(f"e{turn.id}", shortened(turn.content))


def of_session(id: str, summary: str) -> Ground:
    """What a session set out to do. It may repeat its first turn."""
    return Ground(f"s:{id}", " ".join(summary.split())[:_SUMMARY])


def of_memory(memory: Memory) -> Ground:
    return Ground(f"m{memory.id}", memory.content)


def of_block(block: Block) -> Ground:
    """A block as it is now. Any edit makes it outdated."""
    return Ground(f"b:{block.name}", block.content)


def of_prompt(prompt: Prompt) -> tuple[Ground, ...]:
    """Everything that a prompt quotes from the store."""
    return of_quotes((passage.id, passage.text) for passage in (*prompt.known, *prompt.passages))


def of_quotes(quoted: Iterable[tuple[str, str]]) -> tuple[Ground, ...]:
    """The grounds of handles and their texts. A quote of another thought is left out: that thought has grounds of its
    own."""
    found = tuple(Ground(handle, text) for handle, text in quoted if not _THOUGHTS.fullmatch(handle))
    unknown = [each.handle for each in found if _kind(each) is None]
    if unknown:
        raise AssertionError(f"cannot check what {', '.join(unknown)} quotes")
    return found


def of_work_item(quoted: Iterable[tuple[str, str]]) -> tuple[Ground, ...]:
    """What a work item quotes. It may wait for days while gists grow and memories are replaced, so any version of a
    quoted memory is accepted."""
    found = of_quotes(quoted)
    return tuple(each._replace(handle=_MEMORY.sub(r"h\1", each.handle)) if _is_memory(each) else each for each in found)


def require_unchanged(tx: Transaction, workspace: str, shown: Iterable[Ground]) -> None:
    """Lock what the grounds name, so that no writer can change it until the commit, and compare it. Outdated when it
    differs."""
    wanted = set(shown)
    if not wanted:
        return
    # Every writer takes these locks in this order: sessions, memories, the embedding queue, blocks. Forgetting always
    # takes the one of memories. The sessions are locked because the caller may change their rows afterwards.
    turns = tx.all(_TURNS, workspace=workspace, ids=tx.array(_numbers(_TURN, wanted)))
    summarised = {found[1] for each in wanted if (found := _SESSION.fullmatch(each.handle))}
    for session in sorted({session for _, session, _ in turns} | summarised):
        tx.run(_LOCK_SESSION, workspace=workspace, session=session)
    tx.lock(mutexes.memories(workspace))
    names = {found[1] for each in wanted if (found := _BLOCK.fullmatch(each.handle))}
    names |= {found[2] for each in wanted if (found := _VERSION.fullmatch(each.handle))}
    if names:
        tx.lock(mutexes.embedding_queue(workspace))
        for name in sorted(names):
            tx.lock(mutexes.block(workspace, name))
    if not are_unchanged(tx, workspace, wanted):
        raise Outdated


def are_unchanged(tx: Transaction, workspace: str, shown: Iterable[Ground]) -> bool:
    """Whether all grounds are unchanged. Without locks this holds only for the moment."""
    wanted = set(shown)
    there = _turns(tx, workspace, wanted) | _memories(tx, workspace, wanted) | _sessions(tx, workspace, wanted)
    for each in wanted:
        if found := _BLOCK.fullmatch(each.handle):
            there |= {Ground(each.handle, text) for text in tx.column(_CURRENT, workspace=workspace, name=found[1])}
        elif found := _VERSION.fullmatch(each.handle):
            version = {"version": int(found[1]), "name": found[2]}
            there |= {Ground(each.handle, text) for text in tx.column(_EARLIER, workspace=workspace, **version)}
    return wanted <= there


def shortened(text: str) -> str:
    """The part of a long turn that a prompt quotes."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:_HEAD]} […] {text[-_TAIL:]}"


def _turns(tx: Transaction, workspace: str, wanted: set[Ground]) -> set[Ground]:
    ids = _numbers(_TURN, wanted)
    found = tx.all(_TURNS, workspace=workspace, ids=tx.array(ids)) if ids else []
    return {Ground(f"e{id}", shortened(content)) for id, _, content in found}


def _sessions(tx: Transaction, workspace: str, wanted: set[Ground]) -> set[Ground]:
    ids = sorted({found[1] for each in wanted if (found := _SESSION.fullmatch(each.handle))})
    return {of_session(*row) for row in tx.all(_SUMMARIES, workspace=workspace, ids=tx.array(ids))} if ids else set()


def _memories(tx: Transaction, workspace: str, wanted: set[Ground]) -> set[Ground]:
    now, ever = _numbers(_MEMORY, wanted), _numbers(_HISTORY, wanted)
    found = tx.all(_MEMORIES, workspace=workspace, ids=tx.array(now)) if now else []
    versions = tx.all(_VERSIONS, workspace=workspace, ids=tx.array(ever)) if ever else []
    return {Ground(f"m{id}", text) for id, text in found} | {Ground(f"h{id}", text) for id, text in versions}


def _numbers(kind: re.Pattern[str], wanted: Iterable[Ground]) -> list[int]:
    return sorted({int(found[1]) for each in wanted if (found := kind.fullmatch(each.handle))})


def _kind(shown: Ground) -> re.Pattern[str] | None:
    return next((kind for kind in (_TURN, _MEMORY, _BLOCK, _VERSION, _SESSION) if kind.fullmatch(shown.handle)), None)


def _is_memory(shown: Ground) -> bool:
    return _MEMORY.fullmatch(shown.handle) is not None
