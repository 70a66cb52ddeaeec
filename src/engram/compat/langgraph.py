"""A store for LangGraph: its `BaseStore` on Engram, with search by meaning, time to live and namespaces.

    from engram.compat.langgraph import EngramStore

    graph = builder.compile(store=EngramStore("path.db"))

An item is a memory of kind `store-item`, in a workspace of its own, so that it is in nobody's brief or recall. The
memory's data hold its value. The memory's text, which queries search, is made from the value or from the indexed
fields. Namespaces and keys may have any length and form, so the memory's key is a hash of both. Its tags are hashes of
the namespace and of each prefix of it. A search in a namespace looks for one tag, so `("foo",)` can never match
`("foobar",)`.

Putting an item again edits the memory. An item that has expired is never revived: a new put under its key makes another
memory. So a process that deletes expired items cannot hit one that another process has just stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import operator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import checks, json_columns
from .._version import install_command
from ..clock import between, later
from ..errors import InvalidInput, MemoryNotFound, MissingExtra
from ..redact import clean
from .given_store import GivenStore

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        PutOp,
        SearchItem,
        SearchOp,
        get_text_at_path,
    )
except ImportError as missing:
    raise MissingExtra(
        f"EngramStore needs a package that is not installed ({missing.name}). Install it: "
        f"{install_command('langgraph')}."
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langgraph.store.base import IndexConfig, MatchCondition, Op, Result, TTLConfig

    from ..records import Memory
    from .given_store import Store

    Namespace = tuple[str, ...]

#: The kind of the memories that are items. Dreaming leaves them alone.
KIND = "store-item"
WORKSPACE = "langgraph"
#: A namespace takes a tag of the memory for each label, and there is one for all namespaces.
MAX_LABELS = 49
#: The most hits that recall returns.
_MOST_HITS = 1_000
#: LangGraph counts the time to live in minutes.
_MINUTE = 60.0
#: The field that stands for the whole value.
_WHOLE = "$"
#: What a filter may ask for, apart from $eq and $ne.
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class _Draft(NamedTuple):
    """An item that is to be stored, already checked."""

    key: str
    content: str
    data: dict[str, object]
    tags: list[str]
    ttl: float | None


class _Entry(NamedTuple):
    """A memory that is an item."""

    memory: Memory
    namespace: Namespace
    key: str
    value: dict[str, Any]
    #: Whether a query may find it.
    indexed: bool
    ttl: float | None


class EngramStore(BaseStore):
    """A LangGraph store in an Engram store. All processes that open it share its items.

    `store` is an Engram, or the path or URL of a store; by default the user's own. `index` names the fields that a
    query searches (`{"fields": ["text"]}`), by default the whole value. Its `embed` and `dims` are not used: Engram's
    embedder computes the vectors. `ttl` is LangGraph's `TTLConfig`. Expired items are never returned. With
    `sweep_interval_minutes`, a put also deletes them if the last time was that long ago.

    Values are stored as JSON. A secret in a value is replaced by `[redacted: kind]`. A namespace or key that contains a
    secret is refused.
    """

    supports_ttl = True

    def __init__(
        self,
        store: Store = None,
        *,
        workspace: str = WORKSPACE,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        self.ttl_config = ttl
        self._fields = _checked_fields((index or {}).get("fields")) or [_WHOLE]
        #: When expired items were last deleted.
        self._swept: str | None = None
        self._given = GivenStore(store, workspace)
        self._eng = self._given.eng

    def setup(self) -> None:
        """Does nothing: opening a store prepares it. Programs for LangGraph's PostgreSQL store call this."""

    def close(self) -> None:
        """Close the store. An Engram that the caller gave stays open."""
        self._given.close()

    def __enter__(self) -> EngramStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> EngramStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations. Reads see the state before the batch; of several puts under one key, the last one counts.

        All puts are checked before the first one is written. Each is a transaction of its own.
        """
        ops = list(ops)
        last = {(tuple(op.namespace), op.key): op for op in ops if isinstance(op, PutOp)}
        drafts = {address: self._draft(op) for address, op in last.items()}
        results = [self._read(op) for op in ops]
        for address, draft in drafts.items():
            if draft is None:
                self._delete(*address)
            else:
                while not self._put(draft):
                    pass
        if drafts:
            self._sweep_if_due()
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like `batch`, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Delete all items that have expired. Returns how many."""
        # A pass of dreaming archives what has expired.
        expired = [
            memory.id
            for status in ("active", "archived")
            for memory in self._eng.memories.list(kind=KIND, status=status, expired=True)
        ]
        for id in expired:
            self._forget(id)
        return len(expired)

    def _sweep_if_due(self) -> None:
        interval = (self.ttl_config or {}).get("sweep_interval_minutes")
        if interval is None:
            return
        now = self._eng.now()
        if self._swept is None or between(self._swept, now) >= interval * _MINUTE:
            self._swept = now
            self.sweep_ttl()

    def _read(self, op: Op) -> Result:
        match op:
            case PutOp():
                return None
            case GetOp():
                return self._get(op)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._list_namespaces(op)
        raise InvalidInput(f"{type(op).__name__} is not an operation of a LangGraph store.")

    def _get(self, op: GetOp) -> Item | None:
        found = self._current(tuple(op.namespace), op.key)
        if found is None:
            return None
        if op.refresh_ttl:
            self._refresh([found])
        return Item(
            value=found.value,
            key=found.key,
            namespace=found.namespace,
            created_at=_moment(found.memory.created_at),
            updated_at=_moment(found.memory.updated_at),
        )

    def _search(self, op: SearchOp) -> list[SearchItem]:
        end = checks.whole(op.offset, "offset", least=0) + checks.whole(op.limit, "limit", least=0)
        query = _storable(op.query or "").strip()
        if not op.limit:
            return []
        found = self._ranked(query, op, end) if query else [(entry, None) for entry in self._listed(op, end)]
        page = found[op.offset : end]
        if op.refresh_ttl:
            self._refresh([entry for entry, _ in page])
        return [
            SearchItem(
                entry.namespace,
                entry.key,
                entry.value,
                _moment(entry.memory.created_at),
                _moment(entry.memory.updated_at),
                score,
            )
            for entry, score in page
        ]

    def _listed(self, op: SearchOp, most: int) -> list[_Entry]:
        """The items that a search without a query finds, the most recently changed first."""
        # Only Python can compare values, so with a filter all of the namespace is read.
        limit = 0 if op.filter else most
        tag = _tag(tuple(op.namespace_prefix))
        return [
            entry
            for memory in self._eng.memories.list(kind=KIND, tag=tag, latest=True, limit=limit)
            if (entry := _entry(memory)) and _fits(entry.value, op.filter)
        ]

    def _ranked(self, query: str, op: SearchOp, most: int) -> list[tuple[_Entry, float | None]]:
        """The items that a query finds, best first. Items that it does not find follow, without a score."""
        fitting = {entry.memory.id: entry for entry in self._listed(op, most)} if op.filter else None
        ranked: dict[int, tuple[_Entry, float | None]] = {}
        k = min(most, _MOST_HITS)
        while True:
            hits = self._eng.recall(
                query, k, what=("memories",), kinds=[KIND], tags=[_tag(tuple(op.namespace_prefix))], note=False
            )
            for id, score in ((hit.memory_id, hit.score) for hit in hits):
                if id is not None and id not in ranked:
                    entry = self._by_id(id) if fitting is None else fitting.get(id)
                    if entry is not None and entry.indexed:
                        ranked[id] = (entry, score)
            if len(ranked) >= most or len(hits) < k or k == _MOST_HITS:
                break
            k = min(4 * k, _MOST_HITS)
        if len(ranked) < most:
            rest = self._listed(op, most) if fitting is None else fitting.values()
            for entry in rest:
                ranked.setdefault(entry.memory.id, (entry, None))
        return list(ranked.values())

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        memories = self._eng.memories.list(kind=KIND, tag=_tag(_shared_prefix(conditions)))
        namespaces = {entry.namespace for entry in map(_entry, memories) if entry is not None}
        found = {each for each in namespaces if all(_matches(each, condition) for condition in conditions)}
        end = checks.whole(op.offset, "offset", least=0) + checks.whole(op.limit, "limit", least=0)
        if op.max_depth is not None:
            checks.whole(op.max_depth, "max_depth", least=0)
            found = {each[: op.max_depth] for each in found}
        return sorted(found)[op.offset : end]

    def _current(self, namespace: Namespace, key: str, *, lock: bool = False) -> _Entry | None:
        """The item under a key, unless it has expired."""
        memory = self._eng.memories.by_key(KIND, _hash(namespace, key), lock=lock)
        return None if memory is None or self._has_expired(memory) else _entry(memory)

    def _by_id(self, id: int) -> _Entry | None:
        with suppress(MemoryNotFound):
            return _entry(self._eng.memories.get(id))
        return None

    def _has_expired(self, memory: Memory) -> bool:
        return memory.expires_at is not None and memory.expires_at <= self._eng.now()

    def _refresh(self, read: Sequence[_Entry]) -> None:
        """Let the time to live of items that were read begin again."""
        limited = [entry for entry in read if entry.ttl is not None]
        if not limited:
            return
        with self._eng.write():
            for entry in limited:
                # Another process may have put the item again, with another time to live or none.
                current = self._current(entry.namespace, entry.key, lock=True)
                if current is not None and current.ttl is not None:
                    self._eng.memories.expire(current.memory.id, self._end(current.ttl))

    def _end(self, ttl: float | None) -> str | None:
        return None if ttl is None else later(self._eng.now(), ttl * _MINUTE)

    def _draft(self, op: PutOp) -> _Draft | None:
        """What a put stores; None if it deletes. InvalidInput if it cannot be stored."""
        if op.value is None:
            return None
        for what, given, wanted in (("key", op.key, str), ("value", op.value, dict)):
            if not isinstance(given, wanted):
                raise InvalidInput(f"The {what} is a {type(given).__name__}; it must be a {wanted.__name__}.")
        fields = None if op.index is False else _checked_fields(op.index)
        namespace = tuple(op.namespace)
        if len(namespace) > MAX_LABELS:
            raise InvalidInput(f"The namespace has {len(namespace)} labels; at most {MAX_LABELS} fit.")
        ttl = _minutes(op.ttl)
        address: dict[str, object] = {"namespace": list(namespace), "id": op.key}
        if clean(address) != address:
            raise InvalidInput("The namespace or the key seems to contain a secret; choose one without it.")
        data = {**address, "value": dict(op.value), "indexed": False, "ttl": ttl}
        json_columns.dump(data, "value")
        # Without its secrets: what a field's name tells is lost in a text of fields.
        value = clean(dict(op.value))
        text = "" if op.index is False else _text(value, self._fields if fields is None else fields)
        # A memory needs a text, also one that no query may find.
        content = checks.content(text or _storable(" / ".join((*namespace, op.key))).strip() or KIND, "value")
        tags = [_tag(namespace[:length]) for length in range(len(namespace) + 1)]
        return _Draft(_hash(namespace, op.key), content, {**data, "indexed": bool(text)}, tags, ttl)

    def _put(self, draft: _Draft) -> bool:
        """Store an item. False if the one under its key has expired in this moment; try again then."""
        memories = self._eng.memories
        before = memories.by_key(KIND, draft.key)
        if before is not None and self._has_expired(before):
            self._forget(before.id)
            before = None
        # The embedder works before the transaction begins, and not again for the same text.
        is_known = before is not None and before.content == draft.content
        prepared = memories.prepare(draft.content, embed=not is_known)
        with self._eng.write():
            current = memories.by_key(KIND, draft.key, lock=True)
            if current is None:
                memories.remember(
                    draft.content,
                    kind=KIND,
                    key=draft.key,
                    data=draft.data,
                    tags=draft.tags,
                    expires_at=self._end(draft.ttl),
                    project=self._eng.workspace_name,
                    prepared=prepared,
                )
                return True
            if self._has_expired(current):
                return False
            text = None if current.content == draft.content else draft.content
            memories.update(current.id, text, data=draft.data, prepared=prepared)
            memories.expire(current.id, self._end(draft.ttl))
            return True

    def _delete(self, namespace: Namespace, key: str) -> None:
        memory = self._eng.memories.by_key(KIND, _hash(namespace, key))
        if memory is not None:
            self._forget(memory.id)

    def _forget(self, id: int) -> None:
        with suppress(MemoryNotFound):  # another process was faster
            self._eng.forget(memory=id)


def _checked_fields(fields: object) -> list[str] | None:
    if fields is None:
        return None
    if not isinstance(fields, list | tuple) or not all(isinstance(field, str) for field in fields):
        raise InvalidInput(f"index is {fields!r}; it must be a list of the names of fields, or False.")
    return list(fields)


def _entry(memory: Memory) -> _Entry | None:
    """The item that a memory is. None if something else than a store has written the memory."""
    match memory.data:
        case {"namespace": list(namespace), "id": str(key), "value": dict(value), "indexed": indexed, "ttl": ttl}:
            return _Entry(memory, tuple(namespace), key, value, bool(indexed), ttl)
    return None


def _hash(namespace: Namespace, key: str) -> str:
    return _digest([namespace, key])


def _tag(prefix: Namespace) -> str:
    return f"namespace {_digest(prefix)}"


def _digest(names: object) -> str:
    # JSON keeps ("a", "b") and ("a, b",) apart, and it can express every text.
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _minutes(ttl: object) -> float | None:
    if ttl is None or (isinstance(ttl, int | float) and math.isfinite(ttl)):
        return ttl
    raise InvalidInput(f"ttl must be a number of minutes, or None for ever; it is {ttl!r}.")


def _text(value: object, fields: Sequence[str]) -> str:
    """What a query searches: the given fields of a value, one after the other."""
    found: list[str] = []
    for field in fields:
        found += _lines(value) if field == _WHOLE else get_text_at_path(value, field)
    return _storable("\n".join(found)).strip()


def _lines(value: object, name: str = "") -> Iterator[str]:
    """A value as lines of text, with the names of its fields: in `{"food": "none"}` the name says what it is about."""
    if isinstance(value, dict):
        for field, inner in value.items():
            yield from _lines(inner, f"{name} {field}".strip())
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _lines(inner, name)
    elif value is not None:
        yield f"{name}: {value}"


def _storable(text: str) -> str:
    """A text without what cannot be stored as text, cut to the longest that can."""
    return text.replace("\x00", " ").encode(errors="replace").decode()[: checks.MAX_TEXT]


def _shared_prefix(conditions: Iterable[MatchCondition]) -> Namespace:
    """The beginning that all namespaces have that meet the conditions, as far as one of them names it."""
    prefixes = [_literal(condition.path) for condition in conditions if condition.match_type == "prefix"]
    return max(prefixes, key=len, default=())


def _literal(path: Namespace) -> Namespace:
    return path[: path.index("*")] if "*" in path else tuple(path)


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise InvalidInput(f"match_type is {condition.match_type!r}; it must be prefix or suffix.")
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _fits(value: dict[str, Any], filter: dict[str, Any] | None) -> bool:
    return all(_equals(value.get(field), wanted) for field, wanted in (filter or {}).items())


def _equals(value: object, wanted: object) -> bool:
    """Whether a value is what a filter asks for: the same, or what its operators allow."""
    if isinstance(wanted, dict):
        if any(isinstance(name, str) and name.startswith("$") for name in wanted):
            return all(_compares(value, sign, operand) for sign, operand in wanted.items())
        return isinstance(value, dict) and all(_equals(value.get(name), inner) for name, inner in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_equals(inner, other) for inner, other in zip(value, wanted, strict=True))
        )
    return value == wanted


def _compares(value: object, sign: str, operand: object) -> bool:
    match sign:
        case "$eq":
            return value == operand
        case "$ne":
            return value != operand
    compare = _ORDERS.get(sign)
    if compare is None:
        raise InvalidInput(f"{sign!r} is not an operator of a filter; use $eq, $ne, {', '.join(_ORDERS)}.")
    pair = _comparable(value, operand)
    return pair is not None and compare(*pair)


def _comparable(value: Any, operand: Any) -> tuple[Any, Any] | None:
    """Both as numbers, or both as texts, such as dates. None if they have no order, so that no comparison holds."""
    with suppress(TypeError, ValueError, OverflowError):
        return float(value), float(operand)
    return (value, operand) if isinstance(value, str) and isinstance(operand, str) else None
