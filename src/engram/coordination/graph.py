"""The graph around a memory, session, file or block: what it is made from, what it replaces, what it is about.

The graph is read breadth first, two links far, and stays small: each node adds a limited number of neighbours, the
newest ones, and says how many it leaves out. It shows what the store has now, so nothing that was forgotten is in it.

What the store knows about files are the claims of sessions, the lines of their logs about tools that write, and paths
in memories. For the file that was asked for, the word index finds log lines and memories with the words of its path,
and each is compared with the path: whatever leads to a file is found from that file. For other files only the present
claims are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..errors import BlockNotFound, InvalidInput, MemoryNotFound
from ..overview_records import Graph, GraphLink, GraphNode
from . import resources, sessions
from .neighbours import Edge, Key, Neighbours, Thing, file_thing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..storage.engine import Transaction
    from ..store_view import StoreView

KINDS = ("memory", "session", "file", "block")
MOST_NODES = 60
#: Neighbours that one node adds.
DEGREE = 12
#: Links from the first node to the farthest.
DEPTH = 2
#: Stands for a project, whichever it is.
_ANY = "?"
_BLOCK = "SELECT id FROM blocks WHERE workspace = :workspace AND name = :name"


def around(view: StoreView, kind: str, id: int | str, limit: int = MOST_NODES) -> Graph:
    """What is around one thing, at most `limit` nodes."""
    checks.whole(limit, "limit", least=1, most=MOST_NODES)
    if kind not in KINDS:
        raise InvalidInput(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}.")
    named = _checked(kind, id)
    with view.engine.read() as tx:
        reader = Neighbours(tx, view.workspace)
        if kind == "file":
            named = _find_file(reader, view, str(named))
        root = _key(tx, view.workspace, kind, named)
        return _Growing(reader, root, limit).graph()


def _checked(kind: str, id: int | str) -> int | str:
    """The id in the form of the store; of a file the text that was given."""
    if kind == "memory":
        if isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 19:
            id = int(id)
        return checks.whole(id, "memory id", least=1)
    if kind != "file":
        return checks.name(id, f"{kind} id" if kind == "session" else "block name")
    return checks.text(id, "file", longest=resources.MAX_LENGTH)


def _key(tx: Transaction, workspace: str, kind: str, id: int | str) -> Key:
    if kind == "session":
        sessions.require(tx, workspace, str(id))
    elif kind == "block":
        found = tx.value(_BLOCK, workspace=workspace, name=id)
        if found is None:
            raise BlockNotFound(f"There is no block {id!r} in workspace {workspace!r}.")
        return kind, found
    return kind, id


def _find_file(reader: Neighbours, view: StoreView, text: str) -> str:
    """The resource that a text means, after a search for whatever is about it."""
    resource = _resource(view, text)
    # A store has paths of other machines. A path that means something else on this one is looked for as it is, too.
    if reader.find_file([resource, resources.elsewhere(text, None)]):
        return resource
    # A person writes a path from the root of a project without being in that project.
    in_any = resources.elsewhere(text, _ANY)
    path = in_any.removeprefix(f"{_ANY}:")
    found = reader.somewhere(path) if path != in_any else None
    if found is None:
        return resource
    reader.find_file([found])
    return found


def _resource(view: StoreView, text: str) -> str:
    return resources.normalise(text) if view.elsewhere is None else resources.elsewhere(text, view.elsewhere.project)


class _Growing:
    """A graph that grows from its first node, level by level."""

    def __init__(self, reader: Neighbours, root: Key, limit: int) -> None:
        self._reader = reader
        self._limit = limit
        self._root = root
        self._things: dict[Key, Thing] = self._read([root], {})
        if root not in self._things:
            raise MemoryNotFound(f"There is no memory {root[1]} in this workspace.")
        self._steps: dict[Key, int] = {root: 0}
        self._more: dict[Key, int] = {}
        #: In the order in which they were found.
        self._links: dict[tuple[str, Key, Key], None] = {}

    def graph(self) -> Graph:
        level = [self._root]
        for step in range(1, DEPTH + 1):
            level = self._next(level, step)
        order = sorted(self._steps, key=lambda key: self._things[key].at or "", reverse=True)
        order.sort(key=self._steps.__getitem__)
        nodes = tuple(self._node(key) for key in order)
        links = tuple(GraphLink(type, self._name(start), self._name(end)) for type, start, end in self._links)
        return Graph(nodes, links, self._more[self._root])

    def _next(self, level: list[Key], step: int) -> list[Key]:
        """Add the neighbours of a level; those that are new."""
        edges = self._reader.edges({key: self._things[key] for key in level})
        ends = {end for key in level for edge in edges[key] for end in (edge.start, edge.end)}
        times = _file_times(edge for key in level for edge in edges[key])
        if self._root in times and self._root in level:
            self._things[self._root] = self._things[self._root]._replace(at=times[self._root])
        known = self._read([end for end in ends if end not in self._things], times)
        added: list[Key] = []
        for key in level:
            others = {_other(edge, key): None for edge in edges[key]}
            new = [other for other in others if other in known and not known[other].is_pass]
            new = [other for other in new if other not in self._steps]
            new.sort(key=lambda other: known[other].at or "", reverse=True)
            taken = new[: max(0, min(DEGREE, self._limit - len(self._steps)))]
            for other in taken:
                self._things[other] = known[other]
                self._steps[other] = step
            added += taken
            self._more[key] = len(new) - len(taken)
            for edge in edges[key]:
                if edge.start in self._steps and edge.end in self._steps and edge.start != edge.end:
                    self._links[edge.type, edge.start, edge.end] = None
        return added

    def _read(self, keys: Iterable[Key], times: dict[Key, str]) -> dict[Key, Thing]:
        files = {key: file_thing(str(key[1]), times.get(key)) for key in keys if key[0] == "file"}
        found = self._reader.things(key for key in keys if key not in files)
        return {**found, **files}

    def _node(self, key: Key) -> GraphNode:
        thing = self._things[key]
        return GraphNode(key[0], thing.id, thing.label, thing.detail, thing.at, self._steps[key], self._more.get(key))

    def _name(self, key: Key) -> tuple[str, str]:
        return key[0], self._things[key].id


def _other(edge: Edge, key: Key) -> Key:
    return edge.end if edge.start == key else edge.start


def _file_times(edges: Iterable[Edge]) -> dict[Key, str]:
    """The latest time of each file."""
    times: dict[Key, str] = {}
    for edge in edges:
        if edge.end[0] == "file" and edge.at is not None:
            times[edge.end] = max(edge.at, times.get(edge.end, ""))
    return times
