"""The memories of the brief: pins, what is known to hold, todos, and what was learnt since the last session.

Every agent reads the brief, so nothing enters it that only claims to be true. A memory from a tool or an import, and a
pin that an agent set, need the approval of a person. An agent's pin without it counts as an ordinary memory.

A memory that recall would call replaced by another one here says so, and stands last. It is not left out: a person
stored it, and words alone do not prove that it no longer holds.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, NamedTuple

from ... import json_columns
from ...clock import age_in_words, between, said_at
from ...coordination.sections import Entry, Section
from ...safe_text import brief_text, name

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from ...storage.engine import Transaction
    from .snapshot import Snapshot

#: Kinds that say what holds. A fact is among them if it is important, and whatever a person stored or approved.
HOLDS = ("preference", "decision", "lesson")
IMPORTANT_FACT = 0.7
TODO = "todo"
#: Kinds that Engram writes.
DERIVED = ("gist", "era", "digest")
#: Sources whose memories need no approval.
TRUSTED = ("user", "agent")
#: Memories that are read, the strongest first. More would not fit into any brief.
_MOST = 200
#: Seconds in which the worth of being recent halves.
_HALF_LIFE = 30 * 86_400

_COLUMNS = (
    "id, kind, SUBSTR(content, 1, 2000), LENGTH(content), importance, pinned, COALESCE(project, ''), reinforced, "
    "updated_at, created_at, COALESCE(data, ''), trust"
)
_PINNED = (
    "SELECT "
    + _COLUMNS
    + """ FROM memories
WHERE workspace = :workspace AND status = 'active' AND pinned = 1 AND approved = version AND content <> ''
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY id DESC LIMIT :limit"""
)
_KNOWN = (
    "SELECT "
    + _COLUMNS
    + """ FROM memories
WHERE workspace = :workspace AND status = 'active' AND content <> ''
  AND (kind IN ('preference', 'decision', 'lesson') OR (kind = 'fact' AND importance >= :important)
    OR (approved = version AND kind NOT IN ('gist', 'era', 'digest', 'todo')))
  AND (trust IN ('user', 'agent') OR approved = version) AND pinned = 0
  AND (expires_at IS NULL OR expires_at > :now) AND (project IS NULL OR project = :project)
ORDER BY CASE WHEN project = :project THEN 0 ELSE 1 END,
  importance + 0.1 * CASE WHEN reinforced > 5 THEN 5 ELSE reinforced END DESC, updated_at DESC, id DESC
LIMIT :limit"""
)
_TODOS = (
    "SELECT "
    + _COLUMNS
    + """ FROM memories
WHERE workspace = :workspace AND status = 'active' AND content <> '' AND kind = 'todo'
  AND (trust IN ('user', 'agent') OR approved = version) AND pinned = 0
  AND (expires_at IS NULL OR expires_at > :now) AND (project IS NULL OR project = :project)
ORDER BY CASE WHEN project = :project THEN 0 ELSE 1 END, id DESC LIMIT :limit"""
)
_LEARNT = (
    "SELECT "
    + _COLUMNS
    + """ FROM memories
WHERE workspace = :workspace AND status = 'active' AND content <> '' AND created_at > :since AND pinned = 0
  AND kind NOT IN ('gist', 'era', 'digest', 'todo') AND (trust IN ('user', 'agent') OR approved = version)
  AND (expires_at IS NULL OR expires_at > :now) AND (project IS NULL OR project = :project)
  AND EXISTS (SELECT 1 FROM memory_tags t WHERE t.memory_id = memories.id AND t.tag = 'extracted')
ORDER BY importance DESC, id DESC LIMIT :limit"""
)
# What may have been in the brief of an earlier time, and perhaps more. A memory never changes its kind and its project.
# What it was like then is worked out only for these.
_CANDIDATES_THEN = """
SELECT id FROM memories
WHERE workspace = :workspace AND created_at <= :now
  AND (((project IS NULL OR project = :project)
      AND (kind IN ('preference', 'decision', 'lesson', 'todo', 'fact') OR (kind NOT IN ('gist', 'era', 'digest')
        AND (approved IS NOT NULL OR EXISTS (SELECT 1 FROM memory_states s
          WHERE s.memory_id = memories.id AND s.approved IS NOT NULL)))))
    OR pinned = 1 OR EXISTS (SELECT 1 FROM memory_states s WHERE s.memory_id = memories.id AND s.pinned = 1))
ORDER BY id DESC
"""
# Todos that a pass takes to be done, until a person decides.
_SEEM_DONE = """
SELECT p.ref FROM proposals q JOIN proposal_parts p ON p.workspace = q.workspace AND p.proposal = q.id
WHERE q.workspace = :workspace AND q.state = 'pending' AND q.what = 'archive' AND p.part = 'target'
  AND p.kind = 'memory'
"""
# The filter `waiting` of `memories.list`.
_WAITING = """
SELECT COUNT(*) FROM memories
WHERE workspace = :workspace AND status = 'active' AND (approved IS NULL OR approved <> version)
  AND (pinned = 1 OR (trust IN ('tool', 'import') AND kind NOT IN ('gist', 'era', 'digest')))
  AND (expires_at IS NULL OR expires_at > :now)
"""


class Known(NamedTuple):
    id: int
    kind: str
    #: The beginning of its content, and the length of the whole.
    text: str
    length: int
    importance: float
    pinned: bool
    project: str
    reinforced: int
    updated_at: str
    created_at: str
    #: JSON, or empty.
    data: str
    trust: str

    @property
    def at(self) -> str:
        """When it was said, if it was extracted from a turn; otherwise when it last changed."""
        return self.said if '"said"' in self.data else self.updated_at

    @property
    def said(self) -> str:
        """When it was said, if it was extracted from a turn; otherwise when it was stored."""
        if '"said"' not in self.data:
            return self.created_at
        return said_at(json_columns.load_object(self.data, "memories.data"), self.created_at)


def sections(snapshot: Snapshot, news: Set[int] = frozenset()) -> list[Section]:
    """Pins, what holds, and todos, in this order. Memories in `news` are told elsewhere."""
    pinned, known = _earlier(snapshot) if snapshot.past else _now(snapshot)
    pinned.sort(key=lambda each: (each.project not in (snapshot.project, ""), -each.id))
    known.sort(key=lambda each: (each.project != snapshot.project, -_worth(each, snapshot.now), -each.id))
    older = _replaced([*pinned, *(each for each in known if each.kind != TODO)])
    holds = [each for each in known if each.kind != TODO and each.id not in news]
    holds.sort(key=lambda each: each.id in older)
    todos = [each for each in known if each.kind == TODO]
    done = _seem_done(snapshot) if todos and not snapshot.past else set()
    todos.sort(key=lambda each: each.id in done)
    seems_done = f"seems done, `{snapshot.view.typed('engram dream review')}`"
    return [
        Section(
            "## Pinned",
            [entry(each, snapshot, older.get(each.id, "")) for each in pinned],
            "pinned memory",
            "engram memory list --pinned",
            rank=3,
            share=0.12,
            shortens=True,
            units="pinned memories",
        ),
        Section(
            "## Known to hold here",
            [entry(each, snapshot, older.get(each.id, "")) for each in holds],
            "memory",
            "engram memory list",
            rank=4,
            share=0.18,
            shortens=True,
            units="memories",
        ),
        Section(
            "## To do",
            [entry(each, snapshot, seems_done if each.id in done else "") for each in todos],
            "todo",
            "engram memory list --kind todo",
            rank=6,
            share=0.08,
        ),
    ]


def waiting(tx: Transaction, workspace: str, now: str) -> int:
    """How many memories a person has to approve before they can enter a brief."""
    count: int = tx.value(_WAITING, workspace=workspace, now=now)
    return count


def _now(snapshot: Snapshot) -> tuple[list[Known], list[Known]]:
    values = {"workspace": snapshot.workspace, "now": snapshot.now, "limit": _MOST}
    tx = snapshot.tx
    pinned = tx.all(_PINNED, **values)
    known = tx.all(_KNOWN, project=snapshot.project, important=IMPORTANT_FACT, **values)
    todos = tx.all(_TODOS, project=snapshot.project, **values)
    return [Known(*row) for row in pinned], [Known(*row) for row in (*known, *todos)]


def learnt(tx: Transaction, workspace: str, project: str, since: str, now: str) -> list[Known]:
    """What passes have learnt since then, for this project or for all, the most important first."""
    rows = tx.all(_LEARNT, workspace=workspace, project=project, since=since, now=now, limit=_MOST)
    return [Known(*row) for row in rows]


def open_todos(tx: Transaction, workspace: str, project: str, now: str) -> list[Known]:
    """The todos of this project and the general ones, the latest first."""
    return [Known(*row) for row in tx.all(_TODOS, workspace=workspace, project=project, now=now, limit=_MOST)]


def _seem_done(snapshot: Snapshot) -> set[int]:
    tx = snapshot.tx
    return set(tx.column(_SEEM_DONE, workspace=snapshot.workspace))


def _earlier(snapshot: Snapshot) -> tuple[list[Known], list[Known]]:
    # Imported here: a hook reads no history.
    from ...memory import memory_rows

    wanted = memory_rows.Filters("active", None, None, None, None, None, 0.0, 0, 0)
    tx, workspace = snapshot.tx, snapshot.workspace
    ids = tx.column(_CANDIDATES_THEN, workspace=workspace, project=snapshot.project, now=snapshot.now)
    then = memory_rows.of_ids_at(tx, workspace, ids, wanted, snapshot.now)
    pinned: list[Known] = []
    known: list[Known] = []
    for each in then:
        memory = Known(
            each.id, each.kind, each.content, len(each.content), each.importance, each.pinned and each.approved,
            each.project or "", each.reinforced, each.updated_at, each.created_at,
            json_columns.dump(each.data, "data") if isinstance(each.data, dict) else "", each.trust,
        )  # fmt: skip
        holds = (
            each.kind in (*HOLDS, TODO)
            or (each.kind == "fact" and each.importance >= IMPORTANT_FACT)
            or (each.approved and each.kind not in DERIVED)
        )
        if memory.pinned:
            pinned.append(memory)
        elif (
            holds
            and not each.pinned
            and (each.trust in TRUSTED or each.approved)
            and memory.project in (snapshot.project, "")
        ):
            known.append(memory)
    return pinned, known


def _replaced(memories: Sequence[Known]) -> dict[int, str]:
    """A note for each memory that another one replaces, as recall decides it.

    Both have to be about the same project, and the newer one was both said and confirmed later.
    """
    # A memory states something unless it asks. `text_forms` would know more, but costs a hook its compiled patterns.
    told = [each for each in memories if "?" not in each.text and "？" not in each.text]
    if len(told) < 2:
        return {}
    from ...memory import matters

    by_id = {each.id: each for each in told}
    notes: dict[int, str] = {}
    for project in {each.project for each in told}:
        found = [
            matters.found(
                ("memory", each.id), each.text, each.length, each.said, each.trust, None, 1.0, frozenset(), None
            )
            for each in told
            if each.project == project
        ]
        for (_, older), (_, newer) in matters.replaced(found).items():
            if by_id[newer].at > by_id[older].at:
                notes[older] = f"replaced by memory {newer}"
    return notes


def _worth(memory: Known, now: str) -> float:
    """Importance, plus what repetition and being recent add."""
    recent: float = 0.5 ** (max(0.0, between(memory.updated_at, now)) / _HALF_LIFE)
    return memory.importance + 0.15 * min(3.0, log2(1 + memory.reinforced)) + 0.3 * recent


def entry(memory: Known, snapshot: Snapshot, note: str = "") -> Entry:
    elsewhere = memory.project not in (snapshot.project, "")
    text, cut = brief_text(memory.text, memory.length)
    about = [
        memory.kind if memory.kind != TODO else "",
        name(memory.project) if elsewhere else "",
        "general" if not memory.project and snapshot.project else "",
        age_in_words(memory.at, snapshot.now),
        f"memory {memory.id}",
        note,
        f"cut from {memory.length:,} characters" if cut else "",
    ]
    shown = ", ".join(name(each) if each == memory.kind else each for each in about if each)
    return Entry(f"- {text} ({shown})", ("memory", memory.id))
