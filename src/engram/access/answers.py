"""Answers to requests that carry an idempotency key: a repeated request is answered, not done again.

The answer is stored in the transaction that does the work. So a server can be killed between the commit and the answer,
and any other server on the same store still answers the client's next attempt (`once`). Two requests with the same key
at once: the second waits for the first, then gets its answer.

Some work cannot be one transaction, such as a pass of dreaming. There the key is claimed first and the answer stored
afterwards (`begin`, `finish`). If the server dies in between, the key stays claimed for some minutes.

Answers contain stored text, so forgetting blanks those of its workspace (`forgetting.answers`). An answer that was
being made meanwhile is not stored: each row has the number of the newest receipt at its beginning. The lock `ANSWERS`
orders the two, because forgetting does not see a row that is not committed yet.
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
SELECT state, workspace, digest, answer, created_at FROM access_answers WHERE grant_id = :grant_id AND key = :key
"""
# On PostgreSQL this waits for a transaction that has inserted the same key.
_CLAIM = """
INSERT INTO access_answers (grant_id, key, workspace, digest, state, answer, receipt, created_at)
VALUES (:grant_id, :key, :workspace, :digest, 'running', '', (SELECT COALESCE(MAX(id), 0) FROM receipts), :now)
ON CONFLICT (grant_id, key) DO NOTHING
"""
_REMOVE = "DELETE FROM access_answers WHERE grant_id = :grant_id AND key = :key AND created_at = :at"
# `own` is the receipt of the request itself, if it forgets something. A receipt quotes nothing.
_STORE = """
UPDATE access_answers SET state = 'done', answer = :answer
WHERE grant_id = :grant_id AND key = :key AND created_at = :at AND state = 'running'
  AND NOT EXISTS (
    SELECT 1 FROM receipts r
    WHERE r.id > access_answers.receipt AND r.id <> :own
      AND (r.workspace = access_answers.workspace OR access_answers.workspace IS NULL)
  )
"""
_BLANK = """
UPDATE access_answers SET state = :state, digest = '', answer = ''
WHERE grant_id = :grant_id AND key = :key AND created_at = :at AND state = 'running'
"""
_TIDY = """
DELETE FROM access_answers WHERE (grant_id, key) IN (
  SELECT grant_id, key FROM access_answers WHERE created_at <= :before ORDER BY created_at LIMIT :most
)
"""


class Claim(NamedTuple):
    """A key that this request has claimed."""

    grant_id: str
    key: str
    #: When it was claimed. A later claim of the same key is another one.
    at: str


class _Request(NamedTuple):
    grant_id: str
    key: str
    digest: str
    workspace: str | None


class _Replay(BaseException):
    """Ends a call whose request was done before. Not an Exception, so that no tier takes it for a failure."""

    def __init__(self, answer: str) -> None:
        self.answer = answer


class Answers:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def once(
        self, grant_id: str, key: str, digest: str, workspace: str | None, perform: Callable[[], str]
    ) -> tuple[str, bool]:
        """Do something once for this key: the answer, and whether it is the answer of an earlier request.

        `perform` does the work and returns the answer as JSON text. Everything that it writes is one transaction with
        the stored answer. The transaction begins with its first write, so what it computes before holds no lock. An
        error rolls all of it back, and the key stays free.

        `grant_id` says whose key it is, `digest` stands for the request's content. IdempotencyConflict if the key was
        used for another request, or if the answer was forgotten since. `workspace` None: the answer may quote any
        workspace.
        """
        request = _checked(grant_id, key, digest, workspace)
        # First of all: work that was done already may fail now, before it writes anything.
        done = self._stored(request)
        if done is not None:
            return done, True
        self._tidy()
        claims: list[Claim] = []
        try:
            with self._engine.deferred_write(lambda tx: claims.append(self._claim(tx, request))):
                answer = perform()
                # Joins the transaction, or begins it if nothing was written.
                with self._engine.write() as tx:
                    self._store(tx, *claims, answer=answer)
        except _Replay as replay:
            return replay.answer, True
        except EngramError:
            # Another request with this key may have been faster, so that this one failed.
            done = None if claims else self._stored(request)
            if done is None:
                raise
            return done, True
        return answer, False

    def begin(self, grant_id: str, key: str, digest: str, workspace: str | None) -> Claim | str:
        """Claim a key for work that is not one transaction. Returns the stored answer if the work was done before.

        Call `finish` or `abandon` afterwards. IdempotencyConflict as for `once`, and while the work is still running.
        """
        request = _checked(grant_id, key, digest, workspace)
        self._tidy()
        try:
            with self._engine.write() as tx:
                return self._claim(tx, request)
        except _Replay as replay:
            return replay.answer

    def finish(self, claim: Claim, answer: str) -> None:
        """Store the answer of work that has ended."""
        with self._engine.write() as tx:
            self._store(tx, claim, answer=answer)

    def abandon(self, claim: Claim) -> None:
        """Free the key: the work failed, and a repeated request tries again."""
        with self._engine.write() as tx:
            tx.run(_REMOVE, **claim._asdict())

    def _stored(self, request: _Request) -> str | None:
        """The answer of an earlier request; None if there is none."""
        with self._engine.read() as tx:
            found = tx.one(_FIND, grant_id=request.grant_id, key=request.key)
            if found is None or _is_over(found, now := tx.now()):
                return None
        return _answer(found, request, now)

    def _claim(self, tx: Transaction, request: _Request) -> Claim:
        """Insert the row of a new request. Raises _Replay with the answer of an earlier one."""
        now = tx.now()
        while not tx.run(_CLAIM, now=now, **request._asdict()):
            found = tx.one(_FIND, grant_id=request.grant_id, key=request.key)
            # None: it was removed in between.
            if found is not None:
                if not _is_over(found, now):
                    raise _Replay(_answer(found, request, now))
                tx.run(_REMOVE, grant_id=request.grant_id, key=request.key, at=found[-1])
        return Claim(request.grant_id, request.key, now)

    def _store(self, tx: Transaction, claim: Claim, *, answer: str) -> None:
        tx.lock(mutexes.ANSWERS)
        own = max((int(id) for _, what, id in tx.notes if what == "receipt"), default=0)
        if contains_secret(answer):
            # A secret is shown once and never stored.
            tx.run(_BLANK, state="withheld", **claim._asdict())
        elif not tx.run(_STORE, answer=answer, own=own, **claim._asdict()):
            tx.run(_BLANK, state="forgotten", **claim._asdict())

    def _tidy(self) -> None:
        """Remove some old answers now and then, in a short transaction of its own."""
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


def _checked(grant_id: str, key: object, digest: str, workspace: str | None) -> _Request:
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise InvalidInput(f"An idempotency key has 1 to {MAX_KEY} printable ASCII characters.")
    if workspace is not None:
        checks.workspace(workspace)
    return _Request(checks.name(grant_id, "grant"), key, checks.name(digest, "digest"), workspace)


def _is_over(found: tuple[str, str | None, str, str, str], now: str) -> bool:
    """Whether the row counts no more: its answer is old, or its server has died."""
    return found[-1] <= later(now, -(GIVEN_UP if found[0] == "running" else KEPT))


def _answer(found: tuple[str, str | None, str, str, str], request: _Request, now: str) -> str:
    state, workspace, digest, answer, _ = found
    if state == "forgotten":
        raise IdempotencyConflict(
            "The request with this idempotency key was done, but its answer was forgotten with other text of the "
            "workspace. Do not repeat the request; read the state instead."
        )
    if (digest, workspace) != (request.digest, request.workspace) and state != "withheld":
        raise IdempotencyConflict("This idempotency key was used for another request. Use a new key for each request.")
    if state == "withheld":
        raise IdempotencyConflict(
            "The request with this idempotency key was done. Its answer has a secret, which is shown only once."
        )
    if state == "running":
        raise IdempotencyConflict("The request with this idempotency key is still running. Try again later.")
    return answer
