"""What a thought or a plan rests on, and the check that it is still there when something is written from it.

While somebody thinks, no transaction is open, and anybody may forget or change what is being thought about. So a
thought keeps what its prompt quoted, a plan keeps the texts it was made from, and both are compared with the store
again inside the transaction that writes. If anything differs, nothing is written, and the work is still due.

`e12` is a turn, `m7` an active memory as it is now, `h7` any of its versions, `b:world` a block as it is now,
`v:3:profile` version 3 of a block. Forgetting rewrites every version that it takes text from, so a version that is
still there as it was shown holds nothing forgotten.
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

#: Of one turn, so many characters are shown; what a tool prints or somebody pastes may be very long.
_HEAD, _TAIL = 6_000, 1_500
#: Passages that quote other thoughts of the same step: a part of a gist, a draft and its critique.
_THOUGHTS = re.compile(r"p\d+|draft|critique")
_TURN, _MEMORY, _HISTORY = re.compile(r"e(\d+)"), re.compile(r"m(\d+)"), re.compile(r"h(\d+)")
_BLOCK, _VERSION = re.compile(r"b:(.+)"), re.compile(r"v:(\d+):(.+)")

_TURNS = """
SELECT id, session_id, content FROM exchanges
WHERE workspace = :workspace AND id IN (SELECT value FROM json_each(:ids))
"""
# The casts keep SQLite from going through all active memories of the workspace.
_MEMORIES = """
SELECT id, content FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) AND CAST(workspace AS TEXT) = :workspace AND status = 'active'
"""
_VERSIONS = """
SELECT m.id, v.content FROM memories m JOIN memory_versions v ON v.memory_id = m.id
WHERE m.id IN (SELECT value FROM json_each(:ids)) AND CAST(m.workspace AS TEXT) = :workspace AND m.status = 'active'
"""
_CURRENT = "SELECT content FROM blocks WHERE workspace = :workspace AND name = :name"
_EARLIER = """
SELECT v.content FROM block_versions v JOIN blocks b ON b.id = v.block_id
WHERE b.workspace = :workspace AND b.name = :name AND v.version = :version
"""
_LOCK_SESSION = "UPDATE sessions SET last_seq = last_seq WHERE workspace = :workspace AND id = :session"


class Outdated(Exception):
    """Something that was shown was forgotten or changed since."""

    def __init__(self) -> None:
        super().__init__("what this was made of was forgotten or changed meanwhile; a later pass does it again")


class Shown(NamedTuple):
    handle: str
    text: str


def turn(turn: Exchange) -> Shown:
    return Shown(f"e{turn.id}", shortened(turn.content))


def memory(memory: Memory) -> Shown:
    return Shown(f"m{memory.id}", memory.content)


def block(block: Block) -> Shown:
    """A block as it is now: any edit outdates what was made from it."""
    return Shown(f"b:{block.name}", block.content)


def version(block: Block) -> Shown:
    """One version of a block, which others may go on editing."""
    return Shown(f"v:{block.version}:{block.name}", block.content)


def by(prompt: Prompt) -> tuple[Shown, ...]:
    """What a prompt quotes from the store."""
    return rows((passage.id, passage.text) for passage in (*prompt.known, *prompt.passages))


def rows(quoted: Iterable[tuple[str, str]]) -> tuple[Shown, ...]:
    """The same for handles and texts; what quotes another thought rests on what that thought rests on."""
    found = tuple(Shown(handle, text) for handle, text in quoted if not _THOUGHTS.fullmatch(handle))
    unknown = [each.handle for each in found if _kind(each) is None]
    if unknown:
        raise AssertionError(f"nobody could check what {', '.join(unknown)} quotes")
    return found


def left(quoted: Iterable[tuple[str, str]]) -> tuple[Shown, ...]:
    """What a piece of work quotes. It may wait for days, and gists grow meanwhile: their earlier texts are enough."""
    found = rows(quoted)
    return tuple(each._replace(handle=_MEMORY.sub(r"h\1", each.handle)) if _is_memory(each) else each for each in found)


def hold(tx: Transaction, workspace: str, shown: Iterable[Shown]) -> None:
    """Outdated unless all of it is as it was; from here to the commit nobody can forget or change it."""
    wanted = set(shown)
    if not wanted:
        return
    # Everybody takes these in this order: sessions, memories, the backlog, blocks. Who forgets takes the second one,
    # whatever it is; the first is only taken because the writer may change the session's row afterwards.
    turns = tx.all(_TURNS, workspace=workspace, ids=tx.array(_numbers(_TURN, wanted)))
    for session in sorted({session for _, session, _ in turns}):
        tx.run(_LOCK_SESSION, workspace=workspace, session=session)
    tx.lock(mutexes.memories(workspace))
    names = {found[1] for each in wanted if (found := _BLOCK.fullmatch(each.handle))}
    names |= {found[2] for each in wanted if (found := _VERSION.fullmatch(each.handle))}
    if names:
        tx.lock(mutexes.backlog(workspace))
        for name in sorted(names):
            tx.lock(mutexes.block(workspace, name))
    if not stands(tx, workspace, wanted):
        raise Outdated


def stands(tx: Transaction, workspace: str, shown: Iterable[Shown]) -> bool:
    """Whether all of it is as it was; without a lock that is true only for the moment."""
    wanted = set(shown)
    there = _turns(tx, workspace, wanted) | _memories(tx, workspace, wanted)
    for each in wanted:
        if found := _BLOCK.fullmatch(each.handle):
            there |= {Shown(each.handle, text) for (text,) in tx.all(_CURRENT, workspace=workspace, name=found[1])}
        elif found := _VERSION.fullmatch(each.handle):
            version = {"version": int(found[1]), "name": found[2]}
            there |= {Shown(each.handle, text) for (text,) in tx.all(_EARLIER, workspace=workspace, **version)}
    return wanted <= there


def shortened(text: str) -> str:
    """As much of a long turn as is shown."""
    if len(text) <= _HEAD + _TAIL:
        return text
    return f"{text[:_HEAD]} […] {text[-_TAIL:]}"


def _turns(tx: Transaction, workspace: str, wanted: set[Shown]) -> set[Shown]:
    ids = _numbers(_TURN, wanted)
    found = tx.all(_TURNS, workspace=workspace, ids=tx.array(ids)) if ids else []
    return {Shown(f"e{id}", shortened(content)) for id, _, content in found}


def _memories(tx: Transaction, workspace: str, wanted: set[Shown]) -> set[Shown]:
    now, ever = _numbers(_MEMORY, wanted), _numbers(_HISTORY, wanted)
    found = tx.all(_MEMORIES, workspace=workspace, ids=tx.array(now)) if now else []
    versions = tx.all(_VERSIONS, workspace=workspace, ids=tx.array(ever)) if ever else []
    return {Shown(f"m{id}", text) for id, text in found} | {Shown(f"h{id}", text) for id, text in versions}


def _numbers(kind: re.Pattern[str], wanted: Iterable[Shown]) -> list[int]:
    return sorted({int(found[1]) for each in wanted if (found := kind.fullmatch(each.handle))})


def _kind(shown: Shown) -> re.Pattern[str] | None:
    return next((kind for kind in (_TURN, _MEMORY, _BLOCK, _VERSION) if kind.fullmatch(shown.handle)), None)


def _is_memory(shown: Shown) -> bool:
    return _MEMORY.fullmatch(shown.handle) is not None
