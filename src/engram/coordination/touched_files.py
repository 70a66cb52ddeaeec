"""The files that stored texts name, as the resources that leases have.

A line of a session's log about a tool names the files that the tool wrote, as the harness gives them: mostly as
absolute paths of that machine. A memory may name a path, too. Nothing is looked up on the disk here: a store is read on
other machines. A path that leads through a folder with the project's name counts as a path of the project.

`naming` goes the other way, from a path to the texts. The word index gives the newest texts with all words of the path.
Recall is not used for this: it ranks, so a long text or a much named file would push others out, and it leaves out
old and repeated texts. Each text is then read as in the first direction, so both find the same files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ..errors import InvalidInput
from ..llm.extractive.files import paths
from . import resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..storage.engine import Answer, Transaction

#: The tools of all harnesses that write files and nothing else. A shell command names other things as well.
EDITING_TOOLS: Final = frozenset(
    {
        *("Write", "Edit", "MultiEdit", "NotebookEdit", "StrReplace", "Delete", "EditNotebook"),
        *("write_file", "replace", "edit", "apply_patch"),
    }
)
#: A line as hooks write it ends with the result. An agent that writes its log itself leaves it out.
_LINE: Final = re.compile(r"(\S{1,60}) (.{1,400}): (?:done|failed)")
_BARE_LINE: Final = re.compile(r"(\S{1,60}) ([^\s,:]{1,400})")
_MORE: Final = re.compile(r" and \d{1,4} more$")
#: Where a name such as `userStore` has its next word. Such a name is a compound, too.
_HUMP: Final = re.compile(r"[a-z0-9][A-Z]|[A-Z](?=[A-Z][a-z])")
#: The end of a text that was cut. A path before it may be cut, too.
_CUT: Final = "…"
#: Characters of a memory in which files are looked for.
TEXT: Final = 4_000
#: The newest texts that are compared with a path, of each shelf and of those that wait to be indexed.
_MOST: Final = 2_000
#: Items of one word that are counted, to begin with the rarest word.
_COUNTED: Final = 5_000
_SHELVES: Final = ("archive", "digests", "eras", "gists", "memories")

_HOW_MANY = "SELECT COUNT(*) FROM (SELECT 1 FROM postings WHERE term = :term LIMIT :most) AS counted"
_LINES = """
SELECT e.session_id, e.content, MAX(e.created_at), s.project
FROM postings p CROSS JOIN items i CROSS JOIN exchanges e CROSS JOIN sessions s
WHERE p.term = :rarest AND i.id = p.item AND i.workspace = :workspace AND i.kind = 'exchange'
  AND e.id = i.ref AND e.workspace = :workspace AND s.workspace = :workspace AND s.id = e.session_id
  AND (SELECT COUNT(*) FROM postings o
       WHERE o.item = p.item AND o.term IN (SELECT value FROM json_each(:others))) = :count
GROUP BY e.session_id, e.content, s.project ORDER BY MAX(e.id) DESC LIMIT :most
"""
# Words of log lines are indexed some time after the lines were written.
_NEW_LINES = """
SELECT e.session_id, e.content, e.created_at, s.project
FROM (
  SELECT ref FROM backlog
  WHERE workspace = :workspace AND indexed = 0 AND kind = 'exchange' ORDER BY id DESC LIMIT :most
) b CROSS JOIN exchanges e CROSS JOIN sessions s
WHERE e.id = b.ref AND e.workspace = :workspace AND e.role = 'log' AND s.workspace = :workspace AND s.id = e.session_id
"""
_MEMORIES = """
SELECT DISTINCT m.id, SUBSTR(m.content, 1, :text), m.created_at, m.project
FROM postings p CROSS JOIN items i CROSS JOIN memories m
WHERE p.term = :rarest AND i.id = p.item AND i.workspace = :workspace AND i.kind = 'memory'
  AND m.id = i.ref AND m.workspace = :workspace
  AND (SELECT COUNT(*) FROM postings o
       WHERE o.item = p.item AND o.term IN (SELECT value FROM json_each(:others))) = :count
ORDER BY m.id DESC LIMIT :most
"""


class Named(NamedTuple):
    """A session or memory with the files that a text of it names."""

    kind: str
    id: int | str
    at: str
    files: list[str]


def edited(line: str, project: str | None) -> list[str]:
    """The resources of the files that a line of a session's log says were written."""
    match = _LINE.fullmatch(line) or _BARE_LINE.fullmatch(line)
    if match is None or match[1] not in EDITING_TOOLS:
        return []
    # Without a result it is a line about a file only if nothing but a path follows: not `Edit nothing`.
    if match.re is _BARE_LINE and paths(match[2]) != [match[2]]:
        return []
    return _resources((path for path in _MORE.sub("", match[2]).split(", ") if not path.endswith(_CUT)), project)


def mentioned(text: str, project: str | None) -> list[str]:
    """The resources of the paths in a text. A file's name without a folder may be any file, and is left out."""
    return _resources((path for path in paths(text) if "/" in path), project)


def naming(tx: Transaction, workspace: str, path: str) -> Iterator[Named]:
    """Sessions and memories with texts that have all words of a path, and the files that these texts name."""
    terms = _words(path)
    if not terms:
        return
    shelves = {shelf: _terms_of(tx, workspace, shelf, terms) for shelf in ("logs", *_SHELVES)}
    new = tx.ask(_NEW_LINES, workspace=workspace, most=_MOST)
    lines = _asked(tx, workspace, shelves.pop("logs"))
    memories = [_asked(tx, workspace, known, is_memory=True) for known in shelves.values()]
    for answer in (new, lines):
        for session, line, at, project in answer.all() if answer else ():
            yield Named("session", session, at, edited(line, project))
    for answer in memories:
        for id, content, at, project in answer.all() if answer else ():
            yield Named("memory", id, at, mentioned(content, project))


def _words(path: str) -> list[str]:
    """The terms of the words of a path, as every text has them that names it, whatever stands before the path.

    A compound is also a term as a whole, but only as it stands in the text: with other folders before it.
    """
    # Imported here: the analyser brings a stemmer, and few callers look for texts.
    from ..memory import analyser

    words = [word for token in analyser.tokens(path) for word in re.split(r"[-./\\:@+'_]+", token) if word]
    found: dict[str, None] = {}
    for word in words:
        whole = word.lower() if _HUMP.search(word) else None
        found |= dict.fromkeys(term for term in analyser.terms(word) if term != whole)
    return list(found)


def _terms_of(tx: Transaction, workspace: str, shelf: str, terms: list[str]) -> list[tuple[int, Answer]] | None:
    """The numbers of all these terms on a shelf, each with how many items have it. None if one is not there."""
    from ..memory import word_index

    numbers = [number for _, number in word_index.ask_terms(tx, workspace, shelf, terms).all()]
    if len(numbers) < len(terms):
        return None
    return [(number, tx.ask(_HOW_MANY, term=number, most=_COUNTED)) for number in numbers]


def _asked(
    tx: Transaction, workspace: str, known: list[tuple[int, Answer]] | None, *, is_memory: bool = False
) -> Answer | None:
    if known is None:
        return None
    rarest, *others = sorted((number for number, _ in known), key={n: count.value() for n, count in known}.__getitem__)
    values = {"workspace": workspace, "rarest": rarest, "count": len(others), "most": _MOST}
    if is_memory:
        return tx.ask(_MEMORIES, others=tx.array(others), text=TEXT, **values)
    return tx.ask(_LINES, others=tx.array(others), **values)


def _resources(names: Iterable[str], project: str | None) -> list[str]:
    return list(dict.fromkeys(found for name in names if (found := _resource(name, project)) is not None))


def _resource(path: str, project: str | None) -> str | None:
    folder = f"/{project.rpartition('/')[2]}/" if project else None
    if folder is not None and path.startswith("/") and folder in path:
        path = path.partition(folder)[2]
    if not path.startswith("/") and project is None:
        return None
    try:
        return resources.elsewhere(resources.escape(path), project)
    except InvalidInput:
        return None
