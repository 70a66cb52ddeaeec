"""The storage protocol: what a tier may ask of an engine, and what both engines do alike.

A tier opens `engine.write()` or `engine.read()` and runs its own SQL constants on that transaction. The engine knows no
nouns; the tiers see no driver. SQL is a constant, never text built at run time; a test checks this. Write list
parameters exactly like this: `id IN (SELECT value FROM json_each(:ids))`, with `ids=tx.array(…)`.

Transactions are joined, not nested. Inside `write()` on the same thread, another `write()` becomes a savepoint, and a
`read()` sees the writer's own state. So `with eng.write():` can make any number of facade calls one atomic step. After
a fork, the child drops the thread's state, because it must never use its parent's connections.

Changes are collected during a transaction and written to the feed at its end. So their numbers follow the order of
commits on both engines. On PostgreSQL the feed's lock is then held only for the commit itself.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from ..clock import Clock
from ..errors import StoreUnavailable

if TYPE_CHECKING:
    from .migrate import Outcome

Row = tuple[Any, ...]


class Closest(NamedTuple):
    """The vectors most similar to a query, with mean and spread of the similarity of all vectors."""

    #: Items and their cosines.
    items: list[tuple[int, float]]
    mean: float
    spread: float


class Transaction(ABC):
    """One unit of work on one connection."""

    #: What this process remembers about the store; see `Engine.memo`.
    memo: dict[str, Any]

    def __init__(self, *, writable: bool) -> None:
        self.writable = writable
        #: Feed entries (workspace, what, id) of this transaction, in order, each once.
        self.notes: dict[tuple[str, str, str], None] = {}
        #: Called right before the commit. One that raises rolls everything back.
        self.checks: list[Callable[[], None]] = []
        #: Called right after the commit, to update what the process remembers. Must not fail.
        self.afterwards: list[Callable[[], None]] = []

    @abstractmethod
    def all(self, sql: LiteralString, **values: object) -> list[Row]:
        """All rows of a statement."""

    @abstractmethod
    def run(self, sql: LiteralString, **values: object) -> int:
        """Run a statement that returns no rows; returns how many rows it changed."""

    @abstractmethod
    def many(self, sql: LiteralString, values: Sequence[Mapping[str, object]]) -> None:
        """Run a statement that returns no rows once for each set of values."""

    @abstractmethod
    def array(self, values: Iterable[int] | Iterable[str]) -> object:
        """A list parameter, in the form that the engine needs for `json_each`."""

    @abstractmethod
    def now(self) -> str:
        """The engine's time at this moment. The transaction may have waited for a lock since its start."""

    @abstractmethod
    def lock(self, name: str) -> None:
        """Keep other transactions that take a lock of the same name waiting until this one ends."""

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[None]:
        """Roll back what happens inside, and only that, when it raises."""

    def closest(
        self, workspace: str, model: str, query: Sequence[float], shelves: Sequence[str], most: int, size: int | None
    ) -> Closest | None:
        """The `most` vectors on some shelves that are closest to a query; None when the engine cannot compare vectors.

        With the shelves' `size`, an index may answer, with an estimate of mean and spread.
        """
        return None

    def one(self, sql: LiteralString, **values: object) -> Row | None:
        """The first row, if any."""
        rows = self.all(sql, **values)
        return rows[0] if rows else None

    def value(self, sql: LiteralString, **values: object) -> Any:
        """The only column of the first row; None when there is no row."""
        rows = self.all(sql, **values)
        return rows[0][0] if rows else None

    def column(self, sql: LiteralString, **values: object) -> list[Any]:
        """The only column of every row."""
        return [value for (value,) in self.all(sql, **values)]

    def note(self, workspace: str, what: str, id: object) -> None:
        """Add a change to the feed when this transaction commits."""
        self.notes[workspace, what, str(id)] = None


class Engine(ABC):
    """A store that hands out transactions. Thread-safe; usable in the child after a fork."""

    #: What to call this engine in messages and tests.
    name: str
    #: What opening the store has changed in it.
    outcome: Outcome

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        #: What this process remembers about the store, by subject. A forked child starts with nothing.
        self.memo: dict[str, Any] = {}
        self._pid = os.getpid()
        self._local = threading.local()

    @contextmanager
    def write(self, *, patient: bool = True) -> Iterator[Transaction]:
        """A write transaction: committed at the end of the block, rolled back when it raises.

        `patient=False` gives up with StoreBusy at once instead of waiting for other writers.
        """
        outer = self._joined()
        if outer is not None:
            if not outer.writable:
                raise RuntimeError("a write cannot begin inside a read; this is a mistake in Engram")
            with self._nested(outer):
                yield outer
            return
        pid = os.getpid()
        with self._writing(patient) as transaction:
            transaction.memo = self._memo_for(transaction)
            self._local.transaction = transaction
            try:
                yield transaction
                if os.getpid() != pid:
                    raise StoreUnavailable(
                        "This process was forked inside a transaction, which is its parent's to end."
                    )
                self._flush(transaction)
                for check in transaction.checks:
                    check()
            finally:
                self._local.transaction = None
        for afterwards in transaction.afterwards:
            afterwards()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A read transaction: every statement in it sees the same state of the store."""
        outer = self._joined()
        if outer is not None:
            with self._translated():
                yield outer
            return
        with self._reading() as transaction:
            transaction.memo = self._memo_for(transaction)
            self._local.transaction = transaction
            try:
                yield transaction
            finally:
                self._local.transaction = None

    @property
    def joined(self) -> bool:
        """Whether this thread is inside a transaction already."""
        return self._joined() is not None

    def index_vectors(self, workspace: str, models: Sequence[str]) -> None:
        """Keep an index of the workspace's vectors for each of these models and for no other, if the engine supports
        it.

        May take long. Must not be called inside a transaction.
        """
        return None

    @abstractmethod
    def scrub(self) -> None:
        """Remove what the store's files still contain of deleted rows, as far as this engine can. Never fails."""

    @abstractmethod
    def backups(self, before: str) -> tuple[str, ...]:
        """Copies of the store from before that time, which still contain what was deleted since."""

    @abstractmethod
    def size(self) -> int:
        """How many bytes the store takes on the disk, as far as can be seen from here."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection; later use is an error. Closing twice is fine."""

    def _memo_for(self, transaction: Transaction) -> dict[str, Any]:
        """What this process remembers about the state that the transaction sees."""
        return self.memo

    @abstractmethod
    def _writing(self, patient: bool) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def _translated(self) -> AbstractContextManager[None]:
        """Turn the driver's errors into Engram's."""

    @abstractmethod
    def _flush(self, transaction: Transaction) -> None:
        """Write the noted changes to the feed, numbered in commit order."""

    @abstractmethod
    def _after_fork(self) -> None:
        """In the child: drop the parent's connections and locks without touching them."""

    def _joined(self) -> Transaction | None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._local = threading.local()
            self.memo = {}
            self._after_fork()
        return getattr(self._local, "transaction", None)

    @contextmanager
    def _nested(self, outer: Transaction) -> Iterator[None]:
        notes, checks, afterwards = len(outer.notes), len(outer.checks), len(outer.afterwards)
        try:
            with self._translated(), outer.savepoint():
                yield
        except BaseException:
            for late in list(outer.notes)[notes:]:
                del outer.notes[late]
            del outer.checks[checks:]
            del outer.afterwards[afterwards:]
            raise
