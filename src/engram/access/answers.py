"""Answers to requests that carry an idempotency key: a repeated request is answered, not done again.

The answer is stored in the transaction that does the work. So a server can be killed between the commit and the answer,
and any other server on the same store still answers the client's next attempt (`once`). Two requests with the same key
at once: the second waits for the first, then gets its answer.

Where an answer can be made again, only the work must not be done twice: an event of a hook is recorded once, and its
answer is made for each attempt. There the key alone is stored, in the transaction of the work (`is_first`).

Some work cannot be one transaction, such as a pass of dreaming. There the key is claimed first and the answer stored
afterwards (`begin`, `finish`). If the server dies in between, the key stays claimed for some minutes.

Answers contain stored text, so forgetting blanks those of its workspace (`forgetting.answers`). An answer that was
being made meanwhile is not stored: each row has the number of the newest receipt from before the work. A lock orders
the two, because forgetting does not see a row that is not committed yet.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .. import checks, mutexes
from ..clock import later
from ..errors import EngramError, IdempotencyConflict, InvalidInput, StoreBusy
from .secret_texts import contains_secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..storage.engine import Engine, Transaction

MAX_KEY = 200
#: Seconds that an answer is kept.
KEPT = 86_400.0
#: Seconds after which a claimed key is free again: the server that claimed it has died.
GIVEN_UP = 600.0
#: Old answers are removed after so many new ones or so many seconds, so many at once.
_TIDY_AFTER, _TIDY_EVERY, _AT_ONCE = 100, 60.0, 200
_TIDIED = "access/answers"

_FIND = """
SELECT n.receipt, a.state, a.digest, a.answer, a.created_at
FROM (SELECT COALESCE(MAX(id), 0) AS receipt FROM receipts WHERE workspace = :workspace) n
LEFT JOIN access_answers a ON a.workspace = :workspace AND a.grant_id = :grant_id AND a.key = :key
"""
# On PostgreSQL this waits for a transaction that has inserted the same key.
_CLAIM = """
INSERT INTO access_answers (grant_id, key, workspace, digest, state, answer, receipt, created_at)
VALUES (:grant_id, :key, :workspace, :digest, 'running', '', :receipt, :now)
ON CONFLICT (workspace, grant_id, key) DO NOTHING
"""
_NOTE = """
INSERT INTO access_answers (grant_id, key, workspace, digest, state, answer, receipt, created_at)
VALUES (:grant_id, :key, :workspace, '', 'done', '', 0, :now)
ON CONFLICT (workspace, grant_id, key) DO NOTHING
"""
_REMOVE = """
DELETE FROM access_answers
WHERE workspace = :workspace AND grant_id = :grant_id AND key = :key AND created_at = :at
"""
_ABANDON = """
DELETE FROM access_answers
WHERE workspace = :workspace AND grant_id = :grant_id AND key = :key AND created_at = :at AND state = 'running'
"""
# `own` is the receipt of the request itself, if it forgets something. A receipt quotes nothing.
_STORE = """
UPDATE access_answers SET state = 'done', answer = :answer
WHERE workspace = :workspace AND grant_id = :grant_id AND key = :key AND created_at = :at AND state = 'running'
  AND NOT EXISTS (
    SELECT 1 FROM receipts r
    WHERE r.workspace = :workspace AND r.id > access_answers.receipt AND r.id <> :own
  )
"""
_BLANK = """
UPDATE access_answers SET state = :state, digest = '', answer = ''
WHERE workspace = :workspace AND grant_id = :grant_id AND key = :key AND created_at = :at AND state = 'running'
"""
_TIDY = """
DELETE FROM access_answers WHERE (workspace, grant_id, key) IN (
  SELECT workspace, grant_id, key FROM access_answers WHERE created_at <= :before ORDER BY created_at LIMIT :most
)
"""


class Claim(NamedTuple):
    """A key that this request has claimed."""

    workspace: str
    grant_id: str
    key: str
    #: When it was claimed. A later claim of the same key is another one.
    at: str


class _Request(NamedTuple):
    workspace: str
    grant_id: str
    key: str
    digest: str


class _Found(NamedTuple):
    """What the store knows of a key."""

    #: The workspace's newest receipt of forgetting.
    receipt: int
    #: None: the key is new.
    state: str | None
    digest: str
    answer: str
    at: str

    def is_free(self, tx: Transaction) -> bool:
        """Whether the key can be used: it is new, its answer is old, or its server has died."""
        if self.state is None:
            return True
        return self.at <= later(tx.now(), -(GIVEN_UP if self.state == "running" else KEPT))

    def answer_to(self, request: _Request) -> str:
        """The stored answer. IdempotencyConflict if there is none for this request."""
        if self.state == "forgotten":
            raise IdempotencyConflict(
                "The request with this idempotency key was done, but its answer was forgotten with other text of the "
                "workspace. Do not repeat the request; read the state instead."
            )
        if self.state == "withheld":
            raise IdempotencyConflict(
                "The request with this idempotency key was done. Its answer has a secret, which is shown only once."
            )
        if self.digest != request.digest:
            raise IdempotencyConflict(
                "This idempotency key was used for another request. Use a new key for each request."
            )
        if self.state == "running":
            raise IdempotencyConflict("The request with this idempotency key is still running. Try again later.")
        return self.answer


class _Known(BaseException):
    """Ends a call whose key was used before. Not an Exception, so that no tier takes it for a failure of its own."""

    def __init__(self, found: _Found) -> None:
        self.found = found


class Answers:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def once(
        self, grant_id: str, key: str, digest: str, workspace: str, perform: Callable[[], str]
    ) -> tuple[str, bool]:
        """Do something once for this key: the answer, and whether it is the answer of an earlier request.

        `perform` does the work and returns the answer as JSON text. Everything that it writes is one transaction with
        the stored answer. The transaction begins with its first write, so what it computes before holds no lock. An
        error rolls all of it back, and the key stays free.

        A key belongs to its workspace and to `grant_id`. `digest` stands for the request's content. The answer must
        quote nothing of another workspace. IdempotencyConflict if the key was used for another request, or if the
        answer was forgotten since. Work that waits, such as a claim with `wait`, is refused: it needs `begin`.
        """
        request = _checked(grant_id, key, digest, workspace)
        # First of all: work that was done already may fail now, before it writes anything.
        found, free = self._look(request)
        if not free:
            return found.answer_to(request), True
        self.tidy()
        claims: list[tuple[Transaction, Claim]] = []

        def claim(tx: Transaction) -> None:
            # The receipt from before, because the work may read text that is forgotten before it writes.
            claims.append((tx, _claim(tx, request, found.receipt)))

        try:
            with self._engine.deferred_write(claim):
                answer = perform()
                if not claims:
                    # Nothing was written, so the transaction begins here.
                    with self._engine.write():
                        pass
                _store(*claims[0], answer)
        except _Known as known:
            return known.found.answer_to(request), True
        except EngramError:
            # Another request with this key may have been faster, so that this one failed.
            found, free = self._look(request)
            if claims or free:
                raise
            return found.answer_to(request), True
        return answer, False

    def is_first(self, grant_id: str, key: str, workspace: str) -> bool:
        """Whether no request with this key was carried out before. Notes that this one is.

        Call it in the transaction that does the work, so that both are committed or neither. Call `tidy` afterwards,
        outside of it.
        """
        request = _checked(grant_id, key, "none", workspace)
        given = {"grant_id": request.grant_id, "key": request.key, "workspace": request.workspace}
        with self._engine.write() as tx:
            return bool(tx.run(_NOTE, now=tx.now(), **given))

    def begin(self, grant_id: str, key: str, digest: str, workspace: str) -> Claim | str:
        """Claim a key for work that is not one transaction. Returns the stored answer if the work was done before.

        Call `finish` or `abandon` afterwards. IdempotencyConflict as for `once`, and while the work is still running.
        """
        request = _checked(grant_id, key, digest, workspace)
        self.tidy()
        try:
            with self._engine.write() as tx:
                return _claim(tx, request, _find(tx, request).receipt)
        except _Known as known:
            return known.found.answer_to(request)

    def finish(self, claim: Claim, answer: str) -> None:
        """Store the answer of work that has ended."""
        with self._engine.write() as tx:
            _store(tx, claim, answer)

    def abandon(self, claim: Claim) -> None:
        """Free the key: the work failed, and a repeated request tries again."""
        with self._engine.write() as tx:
            tx.run(_ABANDON, **claim._asdict())

    def _look(self, request: _Request) -> tuple[_Found, bool]:
        """What is known of the key, and whether it can be used."""
        with self._engine.read() as tx:
            found = _find(tx, request)
            return found, found.is_free(tx)

    def tidy(self) -> None:
        """Remove some old answers now and then, in a short transaction of its own. Usually there is nothing to do."""
        if self._engine.joined:
            return
        clock, memo = self._engine.clock, self._engine.memo
        count, at = memo.get(_TIDIED, (_TIDY_AFTER, 0.0))
        if count < _TIDY_AFTER and clock.monotonic() - at < _TIDY_EVERY:
            memo[_TIDIED] = count + 1, at
            return
        memo[_TIDIED] = 0, clock.monotonic()
        with suppress(StoreBusy), self._engine.write(patient=False) as tx:
            tx.run(_TIDY, before=later(tx.now(), -KEPT), most=_AT_ONCE)


def _checked(grant_id: str, key: object, digest: str, workspace: str) -> _Request:
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise InvalidInput(f"An idempotency key has 1 to {MAX_KEY} printable ASCII characters.")
    owner = checks.name(grant_id, "grant")
    return _Request(checks.workspace(workspace), owner, key, checks.name(digest, "digest"))


def _find(tx: Transaction, request: _Request) -> _Found:
    (found,) = tx.all(_FIND, workspace=request.workspace, grant_id=request.grant_id, key=request.key)
    return _Found(*found)


def _claim(tx: Transaction, request: _Request, receipt: int) -> Claim:
    """Insert the row of a new request. Raises _Known if there is one of an earlier request."""
    claim = Claim(request.workspace, request.grant_id, request.key, tx.now())
    while not tx.run(_CLAIM, now=claim.at, receipt=receipt, **request._asdict()):
        found = _find(tx, request)
        if not found.is_free(tx):
            raise _Known(found)
        tx.run(_REMOVE, **claim._replace(at=found.at)._asdict())
    return claim


def _store(tx: Transaction, claim: Claim, answer: str) -> None:
    tx.lock(mutexes.answers(claim.workspace))
    own = max((int(id) for _, what, id in tx.notes if what == "receipt"), default=0)
    if contains_secret(answer):
        # A secret is shown once and never stored.
        tx.run(_BLANK, state="withheld", **claim._asdict())
    elif not tx.run(_STORE, answer=answer, own=own, **claim._asdict()):
        tx.run(_BLANK, state="forgotten", **claim._asdict())
