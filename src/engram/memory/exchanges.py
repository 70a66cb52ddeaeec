"""What was said and done in a session, in order.

Adding an exchange first updates the session's row, which locks it. So `seq` numbers the exchanges of a session in the
order of their commits, on PostgreSQL too. Turns (every exchange that is not a log) are also numbered among themselves,
so that a turn's neighbours are found by number however many logs lie between them.

A turn can be found by its words at once. Its vector is computed in the same call if this process may load a model, and
otherwise through the embedding queue. Logs are many, so their words are indexed through the queue too.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .. import checks
from ..clock import later
from ..errors import ExchangeNotFound, InvalidInput, SessionNotFound
from ..records import Exchange
from . import embedding_queue, word_index
from .given_vectors import GivenVectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ..storage.engine import Transaction
    from ..store_view import StoreView

T = TypeVar("T")

ROLES = ("user", "assistant", "system", "tool", "log")
TRUSTS = ("user", "agent", "tool", "import")
#: The trust of each role, unless the caller gives another one.
ROLE_TRUST = {"user": "user", "assistant": "agent", "system": "agent", "tool": "tool", "log": "agent"}
#: Exchanges that `add_many` writes in one transaction; few enough that other writers do not wait long.
BATCH = 500
_TIME = "time of the exchange"
#: Seconds by which the time that a harness gives for a turn may be before the session's beginning.
_EARLY = 86_400

# An exchange counts as a heartbeat, but only for an active session: a late hook must not revive one that ended. If the
# exchange has a time of its own, that is the time of the heartbeat.
_NEXT_SEQ = """
UPDATE sessions
SET last_seq = last_seq + 1, turns = turns + :turn,
    heartbeat_at = CASE WHEN status = 'active' AND :alive = 1 AND (:past = 0 OR heartbeat_at < :beat) THEN :beat
      ELSE heartbeat_at END
WHERE workspace = :workspace AND id = :session
"""
_INSERT = """
INSERT INTO exchanges (workspace, session_id, seq, turn, role, content, trust, created_at, external_id, author)
SELECT workspace, id, last_seq, CASE WHEN :turn = 1 THEN turns ELSE NULL END, :role, :content, :trust, :at,
  :external_id, :author
FROM sessions WHERE workspace = :workspace AND id = :session
RETURNING id, seq, turn
"""
_NEXT_SEQS = """
UPDATE sessions
SET last_seq = last_seq + :count, turns = turns + :turns,
    heartbeat_at = CASE WHEN status = 'active' AND (:past = 0 OR heartbeat_at < :beat) THEN :beat
      ELSE heartbeat_at END
WHERE workspace = :workspace AND id = :session
RETURNING last_seq, turns, project
"""
_INSERT_NUMBERED = """
INSERT INTO exchanges (workspace, session_id, seq, turn, role, content, trust, created_at, external_id, author)
VALUES (:workspace, :session, :seq, :turn, :role, :content, :trust, :at, :external_id, :author)
RETURNING id
"""
_PROJECT = "SELECT project FROM sessions WHERE workspace = :workspace AND id = :session"
_COLUMNS = "id, session_id, seq, role, content, trust, created_at, external_id, author"
_GET = "SELECT " + _COLUMNS + " FROM exchanges WHERE workspace = :workspace AND id = :id"
# The cast keeps SQLite from reading the whole workspace through an index.
_SOME = (
    "SELECT "
    + _COLUMNS
    + " FROM exchanges WHERE CAST(workspace AS TEXT) = :workspace AND id IN (SELECT value FROM json_each(:ids))"
)
_TURN_OF = "SELECT session_id, turn FROM exchanges WHERE workspace = :workspace AND id = :id"
_RECENT = (
    "SELECT "
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
ORDER BY seq DESC LIMIT :limit"""
)
_HISTORY = (
    "SELECT "
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
  AND seq > :after ORDER BY seq LIMIT :limit"""
)
_EARLIER = (
    "SELECT "
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
  AND seq > :after AND seq < :before ORDER BY seq DESC LIMIT :limit"""
)
# Turns and logs have an index each, so each is read in its order.
_HISTORY_WITH_LOGS = (
    "SELECT * FROM (SELECT "
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
  AND seq > :after ORDER BY seq LIMIT :limit) AS turns
UNION ALL SELECT * FROM (SELECT """
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role = 'log'
  AND seq > :after ORDER BY seq LIMIT :limit) AS logs
ORDER BY seq LIMIT :limit"""
)
_EARLIER_WITH_LOGS = (
    "SELECT * FROM (SELECT "
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
  AND seq > :after AND seq < :before ORDER BY seq DESC LIMIT :limit) AS turns
UNION ALL SELECT * FROM (SELECT """
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role = 'log'
  AND seq > :after AND seq < :before ORDER BY seq DESC LIMIT :limit) AS logs
ORDER BY seq DESC LIMIT :limit"""
)
_AROUND = (
    "SELECT "
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
  AND turn BETWEEN :first AND :last ORDER BY seq"""
)
_SINCE = (
    "SELECT "
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND role <> 'log' AND created_at >= :since
  AND created_at <= :at AND (created_at < :at OR id < :id)
ORDER BY created_at DESC, id DESC LIMIT :limit"""
)
#: After every time, so that the first page begins with the newest.
_LAST = "~"
_FIND = (
    "SELECT "
    + _COLUMNS
    + """ FROM exchanges WHERE workspace = :workspace AND session_id = :session AND external_id = :external_id
ORDER BY seq LIMIT 1"""
)
_SET_EXTERNAL_ID = """
UPDATE exchanges SET external_id = :external_id WHERE workspace = :workspace AND id = :id AND external_id IS NULL
"""
# Nothing may know the last turn yet by its number: neither the index nor a gist.
_LAST_TURN = """
SELECT e.turn, e.created_at FROM exchanges e JOIN sessions s ON s.workspace = e.workspace AND s.id = e.session_id
WHERE e.workspace = :workspace AND e.id = :id AND e.session_id = :session AND e.turn = s.turns
  AND e.seq > COALESCE(s.gist_seq, 0)
  AND NOT EXISTS (SELECT 1 FROM items i WHERE i.workspace = e.workspace AND i.kind = 'exchange' AND i.ref = e.id)
"""
_MOVE = "UPDATE exchanges SET seq = :seq, turn = :turn WHERE workspace = :workspace AND id = :id"
_MAKE_ROOM = """
UPDATE sessions SET last_seq = last_seq + :numbers, turns = turns + :turns
WHERE workspace = :workspace AND id = :session RETURNING last_seq, turns
"""
_BEGAN = "SELECT created_at FROM sessions WHERE workspace = :workspace AND id = :session"
_SESSION = "SELECT 1 FROM sessions WHERE workspace = :workspace AND id = :session"


class CheckedExchange(NamedTuple):
    """An exchange that was checked and is ready to be written."""

    session_id: str
    role: str
    content: str
    trust: str
    #: None means now.
    at: str | None
    #: None for a log, and for text stored without its words. Both wait in the embedding queue.
    pieces: list[word_index.Piece] | None
    external_id: str | None = None
    #: The vectors of its pieces. None: left to the embedding queue.
    vectors: embedding_queue.Vectors | None = None
    author: str | None = None


class Added(NamedTuple):
    """The numbers of an exchange that was added."""

    id: int
    seq: int


class Exchanges:
    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self._embedding_queue = embedding_queue.EmbeddingQueue(view)

    def add(
        self,
        session_id: str,
        role: str,
        content: str,
        *,
        created_at: str | None = None,
        trust: str | None = None,
        external_id: str | None = None,
        embed: bool = True,
        words: bool = True,
    ) -> int:
        """Add what was said or done; returns its id. `embed=False` leaves its vector to the embedding queue.

        `created_at` is when it was said or done, by default now.
        `external_id` is the harness's own id of the message. `find` looks the exchange up by it.
        `words=False` leaves its words to the queue too, for a caller that may be killed while they are indexed.
        `EmbeddingQueue.index_words` catches up.
        """
        said = self._check(session_id, role, content, created_at, trust, external_id, words=words)
        (said,) = self._embedded([said]) if embed else [said]
        with self._engine.write() as tx:
            id, _ = self._write(tx, said, tx.now())
        return id

    def add_many(
        self,
        exchanges: Iterable[Mapping[str, Any]],
        *,
        embed: bool = True,
        progress: Callable[[int], None] | None = None,
        atomic: bool = False,
        model: str | None = None,
        added: list[Added] | None = None,
    ) -> int:
        """Add many exchanges, each a mapping of `add`'s arguments, in batches of one transaction each; returns how
        many.

        `progress` is called after each batch with the number written so far. With `atomic` all of them are one
        transaction, which begins when all are checked and embedded: an error or a crash leaves nothing.

        A mapping may also have a `vector`, a sequence of numbers from the embedding model that `model` names.
        InvalidInput unless that is the workspace's model. It is used if the text is not cut into pieces. `added` is a
        list that takes the id and the `seq` of each exchange, in order.
        """
        given = GivenVectors(self._view, model)
        checked = (self.prepare(each, given) for each in exchanges)
        written = 0
        if checks.flag(atomic, "atomic"):
            ready = [said for batch in _batches(checked) for said in (self._embedded(batch) if embed else batch)]
            batches = iter([ready] if ready else [])
        else:
            batches = (self._embedded(batch) if embed else batch for batch in _batches(checked))
        for batch in batches:
            with self._engine.write() as tx:
                numbers = append_many(tx, self._workspace, batch, tx.now())
            written += len(numbers)
            if added is not None:
                added += numbers
            if progress:
                progress(written)
        return written

    def prepare(self, given: Mapping[str, Any], vectors: GivenVectors | None = None) -> CheckedExchange:
        """Check an exchange before a transaction begins; `append_many` writes it.

        It is a mapping of `add`'s arguments, which may also have a `vector` if `vectors` is given.
        """
        arguments = _arguments(given, "vector")
        vector = arguments.pop("vector", None)
        said = self._check(words=True, **arguments)
        return said if vector is None or vectors is None else said._replace(vectors=vectors.row(vector, said.pieces))

    def insert_before(self, id: int, exchanges: Sequence[Mapping[str, str]]) -> None:
        """Add exchanges of one session, each a mapping of `add`'s arguments, before its last turn, which has that id.

        A hook stores the closing message first and learns later what was said before it. If the index or a gist has the
        last turn already, the exchanges are added behind it.
        """
        checked = [self._check(**_arguments(given), words=False) for given in exchanges]
        if not checked:
            return
        session = checked[0].session_id
        with self._engine.write() as tx:
            # The update locks the session, so that no other writer adds a turn in the meantime.
            known = tx.one(_MAKE_ROOM, workspace=self._workspace, session=session, numbers=0, turns=0)
            if known is None:
                raise SessionNotFound(f"There is no session {session!r} in workspace {self._workspace!r}.")
            last = tx.one(_LAST_TURN, workspace=self._workspace, session=session, id=id)
            if last is None:
                for each in checked:
                    self._write(tx, each, tx.now())
                return
            turn, latest = last
            count = len(checked)
            ((last_seq, turns),) = tx.all(
                _MAKE_ROOM, workspace=self._workspace, session=session, numbers=count + 1, turns=count
            )
            tx.run(_MOVE, workspace=self._workspace, id=id, seq=last_seq, turn=turns)
            tx.note(self._workspace, "exchange", id)
            for place, each in enumerate(checked):
                number: int = tx.value(
                    _INSERT_NUMBERED,
                    workspace=self._workspace,
                    session=session,
                    seq=last_seq - count + place,
                    turn=turn + place,
                    role=each.role,
                    content=each.content,
                    trust=each.trust,
                    at=latest if each.at is None else checks.past(each.at, tx.now(), _TIME),
                    external_id=each.external_id,
                    author=each.author,
                )
                tx.note(self._workspace, "exchange", number)
                embedding_queue.enqueue(tx, self._workspace, "exchange", number, indexed=False, words_due=True)

    def plausible_time(self, session_id: str, at: str) -> str | None:
        """A time that a harness gives for a turn; None if it is in the future or long before the session began."""
        with self._engine.read() as tx:
            began = tx.value(_BEGAN, workspace=self._workspace, session=session_id)
            now = tx.now()
        earliest = later(began, -_EARLY) if began is not None else at
        return at if earliest <= at <= later(now, checks.AHEAD) else None

    def get(self, id: int) -> Exchange:
        """One exchange; ExchangeNotFound if there is none."""
        with self._engine.read() as tx:
            row = tx.one(_GET, workspace=self._workspace, id=checks.whole(id, "exchange id", least=1))
        if row is None:
            raise self._not_found(id)
        return Exchange(*row)

    def some(self, ids: Iterable[int]) -> dict[int, Exchange]:
        """Several exchanges, by id, in one read. One that is not there is left out."""
        wanted = [checks.whole(id, "exchange id", least=1) for id in ids]
        with self._engine.read() as tx:
            rows = tx.all(_SOME, workspace=self._workspace, ids=tx.array(wanted))
        return {row[0]: Exchange(*row) for row in rows}

    def find(self, session_id: str, external_id: str) -> Exchange | None:
        """The exchange of a session that records the harness's message with that id."""
        checks.name(external_id, "external id")
        with self._engine.read() as tx:
            self._require(tx, session_id)
            row = tx.one(_FIND, workspace=self._workspace, session=session_id, external_id=external_id)
        return Exchange(*row) if row else None

    def set_external_id(self, id: int, external_id: str) -> bool:
        """Note the harness's own id of the message that an exchange records, if it has none yet; whether it was set."""
        checks.new_name(external_id, "external id")
        checks.whole(id, "exchange id", least=1)
        with self._engine.write() as tx:
            done = tx.run(_SET_EXTERNAL_ID, workspace=self._workspace, id=id, external_id=external_id)
            if done:
                tx.note(self._workspace, "exchange", id)
        return bool(done)

    def recent(self, session_id: str, n: int = 10, *, logs: bool = False) -> list[Exchange]:
        """The last turns of a session, oldest first; with `logs` the entries of its log among them."""
        checks.whole(n, "n", least=1)
        if checks.flag(logs, "logs"):
            return self.history(session_id, n, before=checks.MAX_WHOLE, logs=True)
        with self._engine.read() as tx:
            self._require(tx, session_id)
            rows = tx.all(_RECENT, workspace=self._workspace, session=session_id, limit=n)
        return [Exchange(*row) for row in reversed(rows)]

    def history(
        self, session_id: str, limit: int = 0, *, after: int = 0, before: int | None = None, logs: bool = False
    ) -> list[Exchange]:
        """The turns of a session, oldest first; limit 0: all. `after`, the last `seq` of a page, gives the next.

        `before`, the first `seq` of a page, gives the page before it: the last turns with a lower `seq`. With `logs`
        the entries of the session's log are among the turns, and count as well.
        """
        most = checks.whole(limit, "limit", least=0) or checks.MAX_WHOLE
        page = {"after": checks.whole(after, "after", least=0), "limit": most}
        if before is not None:
            page["before"] = checks.whole(before, "before", least=1)
        with_logs = checks.flag(logs, "logs")
        with self._engine.read() as tx:
            self._require(tx, session_id)
            if before is None and with_logs:
                rows = tx.all(_HISTORY_WITH_LOGS, workspace=self._workspace, session=session_id, **page)
            elif before is None:
                rows = tx.all(_HISTORY, workspace=self._workspace, session=session_id, **page)
            elif with_logs:
                rows = tx.all(_EARLIER_WITH_LOGS, workspace=self._workspace, session=session_id, **page)
            else:
                rows = tx.all(_EARLIER, workspace=self._workspace, session=session_id, **page)
        return [Exchange(*row) for row in (rows if before is None else reversed(rows))]

    def around(self, id: int, n: int = 2) -> list[Exchange]:
        """A turn with the n turns before and after it."""
        checks.whole(n, "n", least=0)
        with self._engine.read() as tx:
            row = tx.one(_TURN_OF, workspace=self._workspace, id=checks.whole(id, "exchange id", least=1))
            if row is None:
                raise self._not_found(id)
            session, turn = row
            if turn is None:
                raise InvalidInput(f"Exchange {id} is a log entry; only turns have turns around them.")
            rows = tx.all(_AROUND, workspace=self._workspace, session=session, first=turn - n, last=turn + n)
        return [Exchange(*found) for found in rows]

    def timeline(
        self, since: str | None = None, limit: int = 50, *, before: tuple[str, int] | None = None
    ) -> list[Exchange]:
        """Turns of all sessions, newest first; by default those of the last week.

        `before`, the time and id of the last turn of a page, gives the next page.
        """
        checks.whole(limit, "limit", least=1)
        start = None if since is None else checks.moment(since, "since")
        at, id = _LAST, 0
        if before:
            at, id = checks.moment(before[0], "before"), checks.whole(before[1], "before", least=0)
        with self._engine.read() as tx:
            start = start or later(tx.now(), -7 * 86_400)
            page = {"since": start, "at": at, "id": id, "limit": limit}
            return [Exchange(*row) for row in tx.all(_SINCE, workspace=self._workspace, **page)]

    def _check(
        self,
        session_id: str,
        role: str,
        content: str,
        created_at: str | None = None,
        trust: str | None = None,
        external_id: str | None = None,
        *,
        words: bool = True,
    ) -> CheckedExchange:
        if role not in ROLES:
            raise InvalidInput(f"role is {role!r}; it must be one of {', '.join(ROLES)}.")
        if trust is not None and trust not in TRUSTS:
            raise InvalidInput(f"trust is {trust!r}; it must be one of {', '.join(TRUSTS)}.")
        checks.name(session_id, "session id")
        content = checks.content(content, "content")
        at = None if created_at is None else checks.moment(created_at, _TIME)
        pieces = word_index.cut(content) if words and role != "log" else None
        external_id = checks.optional_new_name(external_id, "external id")
        return CheckedExchange(
            session_id, role, content, trust or ROLE_TRUST[role], at, pieces, external_id, author=self._view.author
        )

    def _embedded(self, batch: list[CheckedExchange]) -> list[CheckedExchange]:
        """The exchanges with the vectors of those that bring none, if this process has a model."""
        texts = [said.pieces or [] if said.vectors is None else [] for said in batch]
        made = self._embedding_queue.vectors(texts) if any(texts) else None
        if made is None:
            return batch
        return [
            said._replace(vectors=vectors) if pieces else said
            for said, pieces, vectors in zip(batch, texts, made, strict=True)
        ]

    def _write(self, tx: Transaction, said: CheckedExchange, now: str) -> tuple[int, int]:
        return append(
            tx,
            self._workspace,
            said.session_id,
            said.role,
            said.content,
            now,
            trust=said.trust,
            at=said.at,
            pieces=said.pieces,
            vectors=said.vectors,
            external_id=said.external_id,
            author=said.author,
        )

    def _require(self, tx: Transaction, session_id: str) -> None:
        checks.name(session_id, "session id")
        if not tx.one(_SESSION, workspace=self._workspace, session=session_id):
            raise SessionNotFound(f"There is no session {session_id!r} in workspace {self._workspace!r}.")

    def _not_found(self, id: int) -> ExchangeNotFound:
        return ExchangeNotFound(f"There is no exchange {id} in workspace {self._workspace!r}.")


def append(
    tx: Transaction,
    workspace: str,
    session: str,
    role: str,
    content: str,
    now: str,
    *,
    alive: bool = True,
    trust: str | None = None,
    at: str | None = None,
    pieces: list[word_index.Piece] | None = None,
    vectors: embedding_queue.Vectors | None = None,
    external_id: str | None = None,
    author: str | None = None,
) -> tuple[int, int]:
    """Add one exchange; returns its id and `seq`. `alive=False` when another session wrote it about this one."""
    is_turn = int(role != "log")
    when = checks.past(at, now, _TIME)
    beat = {"beat": when, "past": int(at is not None), "alive": int(alive)}
    tx.later(_NEXT_SEQ, workspace=workspace, session=session, turn=is_turn, **beat)
    asked = None if pieces is None else tx.ask(_PROJECT, workspace=workspace, session=session)
    inserted = tx.ask(
        _INSERT,
        workspace=workspace,
        session=session,
        turn=is_turn,
        role=role,
        content=content,
        trust=trust or ROLE_TRUST[role],
        at=when,
        external_id=external_id,
        author=author,
    )
    row = inserted.one()
    if row is None:
        raise SessionNotFound(f"There is no session {session!r} in workspace {workspace!r}.")
    id, seq, turn = row
    tx.note(workspace, "exchange", id)
    if pieces is None or asked is None:
        embedding_queue.enqueue(tx, workspace, "exchange", id, indexed=False, words_due=turn is not None)
    else:
        project = asked.value()
        entry = word_index.Entry("turns", "exchange", id, role, session, project, turn, when, pieces, author=author)
        embedding_queue.store_vectors(tx, workspace, [entry], [vectors])
    return id, seq


def append_many(tx: Transaction, workspace: str, exchanges: Sequence[CheckedExchange], now: str) -> list[Added]:
    """Add many exchanges like `append`, in order, with as few statements as possible; their numbers."""
    added: list[Added] = []
    if len(exchanges) > BATCH:
        word_index.lock_words(tx, workspace, "turns")
    numbered = zip(exchanges, _number_batch(tx, workspace, exchanges, now), strict=True)
    for batch in _batches(numbered):
        entries: list[word_index.Entry] = []
        vectors: list[embedding_queue.Vectors | None] = []
        inserted = []
        for said, (seq, turn, _) in batch:
            at = checks.past(said.at, now, _TIME)
            asked = tx.ask(
                _INSERT_NUMBERED,
                workspace=workspace,
                session=said.session_id,
                seq=seq,
                turn=turn,
                role=said.role,
                content=said.content,
                trust=said.trust,
                at=at,
                external_id=said.external_id,
                author=said.author,
            )
            inserted.append((asked, at))
        for (said, (seq, turn, project)), (asked, at) in zip(batch, inserted, strict=True):
            id: int = asked.value()
            added.append(Added(id, seq))
            tx.note(workspace, "exchange", id)
            if said.pieces is None:
                embedding_queue.enqueue(tx, workspace, "exchange", id, indexed=False)
                continue
            place = (said.role, said.session_id, project, turn, at, said.pieces)
            entries.append(word_index.Entry("turns", "exchange", id, *place, author=said.author))
            vectors.append(said.vectors)
        if entries:
            embedding_queue.store_vectors(tx, workspace, entries, vectors)
    return added


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of `BATCH`: one bounds what is in memory, or how long other writers wait."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _number_batch(
    tx: Transaction, workspace: str, batch: Sequence[CheckedExchange], now: str
) -> Iterator[tuple[int, int | None, str | None]]:
    """The `seq` of each exchange, its number among the turns, and the session's project."""
    counts = Counter(said.session_id for said in batch)
    turns = Counter(said.session_id for said in batch if said.role != "log")
    heard: dict[str, set[str | None]] = {}
    for said in batch:
        heard.setdefault(said.session_id, set()).add(said.at)
    last: dict[str, tuple[int, int, str | None]] = {}
    # In order of id, so that two writers cannot wait for each other's sessions.
    for session, count in sorted(counts.items()):
        past = None not in heard[session]
        row = tx.one(
            _NEXT_SEQS,
            workspace=workspace,
            session=session,
            beat=min(now, max(filter(None, heard[session]))) if past else now,
            past=int(past),
            count=count,
            turns=turns[session],
        )
        if row is None:
            raise SessionNotFound(f"There is no session {session!r} in workspace {workspace!r}.")
        last_seq, last_turn, project = row
        last[session] = (last_seq - count, last_turn - turns[session], project)
    for said in batch:
        seq, turn, project = last[said.session_id]
        is_turn = said.role != "log"
        last[said.session_id] = (seq + 1, turn + is_turn, project)
        yield seq + 1, turn + 1 if is_turn else None, project


def _arguments(given: Mapping[str, Any], *more: str) -> dict[str, Any]:
    unknown = given.keys() - {"session_id", "role", "content", "created_at", "trust", "external_id", *more}
    if unknown:
        raise InvalidInput(f"An exchange has no {', '.join(sorted(unknown))}.")
    missing = {"session_id", "role", "content"} - given.keys()
    if missing:
        raise InvalidInput(f"An exchange needs {', '.join(sorted(missing))}.")
    return dict(given)
