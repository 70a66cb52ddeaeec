"""The storage protocol: what a tier may ask of an engine, and what both engines do alike.

A tier opens `engine.write()` or `engine.read()` and runs its own SQL constants on that transaction. The engine knows no
nouns; the tiers see no driver. SQL is a constant, never text built at run time; a test checks this. Write list
parameters exactly like this: `id IN (SELECT value FROM json_each(:ids))`, with `ids=tx.array(…)`.

Transactions are joined, not nested. Inside `write()` on the same thread, another `write()` becomes a savepoint, and a
`read()` sees the writer's own state. So `with eng.write():` can make any number of facade calls one atomic step. After
a fork, the child drops the thread's state, because it must never use its parent's connections.

Changes are collected during a transaction and written to the feed at its end. On SQLite their numbers follow the order
of commits. On PostgreSQL several transactions commit at once, so a reader also needs `feed_end`, up to which all
numbers are decided.

A statement whose result is not needed at once is better sent with `ask`, `later` or `many`: on PostgreSQL it shares the
round trip of the next statement whose result is needed. Its error, if it has one, is raised there.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from ..clock import Clock
from ..errors import StoreUnavailable

if TYPE_CHECKING:
    from ..health_records import Check
    from .migrate import Outcome
    from .rows import Table

Row = tuple[Any, ...]
#: Larger than every number of a row.
LAST = 2**63 - 1


class Closest(NamedTuple):
    """The vectors most similar to a query, with mean and standard deviation of the similarity of all vectors."""

    #: Items with their cosine similarity.
    items: list[tuple[int, float]]
    mean: float
    spread: float


class TableSize(NamedTuple):
    """What a table takes with its indexes. The numbers may be estimates."""

    name: str
    rows: int
    bytes: int


class TableSizes(NamedTuple):
    """What each table takes, and the bytes between them that new rows will use (None if that is not known)."""

    tables: tuple[TableSize, ...]
    free: int | None


class Answer:
    """The rows of a statement. Reading them waits for the server if that is still necessary."""

    __slots__ = ("rows",)

    def __init__(self, rows: list[Row] | None = None) -> None:
        self.rows = rows

    def all(self) -> list[Row]:
        """All rows."""
        assert self.rows is not None
        return self.rows

    def one(self) -> Row | None:
        """The first row, if any."""
        rows = self.all()
        return rows[0] if rows else None

    def value(self) -> Any:
        """The only column of the first row; None when there is no row."""
        rows = self.all()
        return rows[0][0] if rows else None

    def column(self) -> list[Any]:
        """The only column of every row."""
        return [value for (value,) in self.all()]


class Transaction(ABC):
    """One unit of work on one connection."""

    #: What this process remembers about the store; see `Engine.memo`.
    memo: dict[str, Any]
    #: Writers with different slots can update counters that are spread over slots without waiting for each other.
    slot = 0
    #: Whether a call inside a transaction of its caller is running.
    is_nested = False

    def __init__(self, *, writable: bool) -> None:
        self.writable = writable
        #: Feed entries (workspace, what, id) of this transaction, in order, each once.
        self.notes: dict[tuple[str, str, str], None] = {}
        #: Called right before the commit. If one raises, the transaction rolls back.
        self.checks: list[Callable[[], None]] = []
        #: Called right after the commit, to update `memo`. They must not fail.
        self.afterwards: list[Callable[[], None]] = []

    @abstractmethod
    def all(self, sql: LiteralString, **values: object) -> list[Row]:
        """All rows of a statement."""

    @abstractmethod
    def run(self, sql: LiteralString, **values: object) -> int:
        """Run a statement that returns no rows. Returns the number of changed rows."""

    @abstractmethod
    def many(self, sql: LiteralString, values: Sequence[Mapping[str, object]]) -> None:
        """Run a statement that returns no rows once for each set of values."""

    def ask(self, sql: LiteralString, **values: object) -> Answer:
        """The rows of a statement, to be read later."""
        return Answer(self.all(sql, **values))

    def later(self, sql: LiteralString, **values: object) -> None:
        """Run a statement whose result nobody needs, before or together with the next one."""
        self.run(sql, **values)

    def close_after(self) -> None:
        """Say that what was asked so far is all. The transaction may then end in the same round trip."""
        return None

    @abstractmethod
    def insert_rows(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert whole rows, with the numbers that they have in another store."""

    def lock_table(self, table: Table) -> None:
        """Keep other transactions from adding rows to a table until this one ends."""
        return None

    def analyse(self) -> None:
        """Tell the engine that the tables have many more rows now, so that it plans for them."""
        return None

    def flush(self) -> None:
        """Wait until everything that was sent so far is done, so that its errors are raised here."""
        return None

    @abstractmethod
    def last_number(self, table: Table) -> int:
        """The last number that the table has given, also to a row that was deleted since; 0 before the first."""

    @abstractmethod
    def raise_number(self, table: Table, last: int) -> None:
        """Make the next number of the table larger than `last`."""

    @abstractmethod
    def array(self, values: Iterable[int] | Iterable[str]) -> object:
        """A list parameter, in the form that the engine needs for `json_each`."""

    @abstractmethod
    def now(self) -> str:
        """The engine's present time, not the time when the transaction began: it may have waited for a lock since."""

    @abstractmethod
    def lock(self, name: str, *, shared: bool = False) -> None:
        """Take a named lock until the transaction ends. Other transactions wait for the same name.

        Several transactions can have a lock if all of them took it `shared`.
        """

    def number_items(self) -> None:
        """Say that this transaction is going to add items, so that `items_end` stays below their numbers."""
        return None

    @property
    def feed_end(self) -> int | None:
        """The number up to which this transaction sees every change that there will ever be; None if it is unknown."""
        return LAST

    @property
    def items_end(self) -> int | None:
        """The same for the numbers of items."""
        return LAST

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[None]:
        """Roll back only the statements inside the block if it raises."""

    def closest(
        self, workspace: str, model: str, query: Sequence[float], shelves: Sequence[str], most: int, size: int | None
    ) -> Callable[[], Closest] | None:
        """Ask for the `most` vectors on some shelves that are closest to a query. Calling the result reads the answer.

        None if the engine cannot compare vectors.

        If the caller gives the shelves' `size`, the engine may use an index and estimate mean and spread.
        """
        return None

    def one(self, sql: LiteralString, **values: object) -> Row | None:
        """The first row, if any."""
        return Answer(self.all(sql, **values)).one()

    def value(self, sql: LiteralString, **values: object) -> Any:
        """The only column of the first row; None when there is no row."""
        return Answer(self.all(sql, **values)).value()

    def column(self, sql: LiteralString, **values: object) -> list[Any]:
        """The only column of every row."""
        return Answer(self.all(sql, **values)).column()

    def note(self, workspace: str, what: str, id: object) -> None:
        """Add a change to the feed when this transaction commits."""
        self.notes[workspace, what, str(id)] = None


class Engine(ABC):
    """A store that hands out transactions. Thread-safe; usable in the child after a fork."""

    #: The engine's name in messages and tests.
    name: str
    #: What opening the store changed.
    outcome: Outcome

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        #: What this process remembers about the store, by subject. Empty in a forked child.
        self.memo: dict[str, Any] = {}
        self._pid = os.getpid()
        self._local = threading.local()

    @contextmanager
    def write(self, *, patient: bool = True) -> Iterator[Transaction]:
        """A write transaction. It commits at the end of the block and rolls back if the block raises.

        With `patient=False` it does not wait for other writers but raises StoreBusy at once.
        """
        outer = self._current() or self._begin_deferred()
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
                        "This process was forked inside a transaction. Only the parent process can end it."
                    )
                for check in transaction.checks:
                    check()
                self._write_changes(transaction)
            finally:
                self._local.transaction = None
        for afterwards in transaction.afterwards:
            afterwards()

    @contextmanager
    def read(self, *, feed: bool = False) -> Iterator[Transaction]:
        """A read transaction. All its statements see the same state of the store.

        With `feed` it knows `feed_end` and `items_end`, unless it is part of a transaction that does not.
        """
        outer = self._current()
        if outer is not None:
            with self._translating():
                yield outer
            return
        with self._reading(feed) as transaction:
            transaction.memo = self._memo_for(transaction)
            self._local.transaction = transaction
            try:
                yield transaction
            finally:
                self._local.transaction = None

    @contextmanager
    def deferred_write(self, first: Callable[[Transaction], object]) -> Iterator[None]:
        """One transaction for everything that the block writes. It begins with the block's first write.

        So what the block computes before, such as an embedding, holds no lock, and what it reads before is not part of
        the transaction. `first` is called before any other statement of the transaction.
        """
        with ExitStack() as stack:
            if self._current() is not None:
                first(stack.enter_context(self.write()))
                yield
                return

            def begin() -> Transaction:
                self._local.deferred = None
                try:
                    transaction = stack.enter_context(self.write())
                except BaseException:
                    # The next write tries again. It must not become a transaction of its own.
                    self._local.deferred = begin
                    raise
                first(transaction)
                return transaction

            self._local.deferred = begin
            try:
                yield
            finally:
                self._local.deferred = None

    @property
    def joined(self) -> bool:
        """Whether this thread is inside a transaction, or inside one that begins with its first write."""
        return self._current() is not None or getattr(self._local, "deferred", None) is not None

    def index_vectors(self, workspace: str, models: Sequence[str]) -> None:
        """Make an index of the workspace's vectors for each of these models, and drop those for other models.

        Does nothing on an engine without such indexes. May take long. Must not be called inside a transaction.
        """
        return None

    def remark(self) -> str | None:
        """What `set_remark` has said about the store as a whole. SQLite has no remarks."""
        return None

    def set_remark(self, text: str | None) -> None:
        """Say something about the store as a whole, for whoever opens it next."""
        return None

    @abstractmethod
    def scrub(self) -> None:
        """Remove bytes of deleted rows from the store's files, as far as this engine can. Never fails."""

    @abstractmethod
    def backups(self, before: str) -> tuple[str, ...]:
        """Copies of the store from before a time. They still contain what was deleted since."""

    @abstractmethod
    def vacuum(self) -> None:
        """Give unused space back, as far as this engine can while others use the store. Not inside a transaction."""

    @abstractmethod
    def health(self, *, full: bool = False) -> list[Check]:
        """Checks of the store's files or server, whatever is in its tables. With `full` they read everything."""

    @property
    def is_encrypted(self) -> bool:
        """Whether Engram encrypts the store's files."""
        return False

    @abstractmethod
    def size(self) -> int:
        """Bytes that the store uses on the disk, as far as this process can see."""

    @abstractmethod
    def table_sizes(self) -> TableSizes:
        """About what each table takes. Must not be called inside a transaction."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection. Later use is an error. Closing twice is allowed."""

    def _memo_for(self, transaction: Transaction) -> dict[str, Any]:
        """The memo that belongs to the state that the transaction sees."""
        return self.memo

    @abstractmethod
    def _writing(self, patient: bool) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def _reading(self, feed: bool) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def _translating(self) -> AbstractContextManager[None]:
        """Turn the driver's errors into Engram's errors."""

    @abstractmethod
    def _write_changes(self, transaction: Transaction) -> None:
        """Write the transaction's notes to the change feed."""

    @abstractmethod
    def _after_fork(self) -> None:
        """In the child: drop the parent's connections and locks without touching them."""

    def _current(self) -> Transaction | None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._local = threading.local()
            self.memo = {}
            self._after_fork()
        return getattr(self._local, "transaction", None)

    def _begin_deferred(self) -> Transaction | None:
        begin: Callable[[], Transaction] | None = getattr(self._local, "deferred", None)
        return None if begin is None else begin()

    @contextmanager
    def _nested(self, outer: Transaction) -> Iterator[None]:
        notes, checks, afterwards = len(outer.notes), len(outer.checks), len(outer.afterwards)
        was_nested, outer.is_nested = outer.is_nested, True
        try:
            with self._translating(), outer.savepoint():
                yield
        except BaseException:
            for late in list(outer.notes)[notes:]:
                del outer.notes[late]
            del outer.checks[checks:]
            del outer.afterwards[afterwards:]
            raise
        finally:
            outer.is_nested = was_nested
