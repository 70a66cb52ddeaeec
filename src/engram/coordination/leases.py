"""Leases: a session's claim on a resource, and the fencing tokens that keep a late writer out.

A lease is a row, and its number is its fencing token. Claiming again after a lease has ended makes a new, higher
number, so tokens only rise. A row that has ended is never revived. Claims of a workspace are decided one at a time, by
the engine's clock: SQLite has a single writer, and PostgreSQL uses a lock. Before a claim is decided, expired
leases are marked as ended. On PostgreSQL this waits for a fenced write in progress on such a lease, because that write
holds the row. So no session is granted a resource while the previous holder's last write is still in progress.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from .. import checks, mutexes
from ..clock import age, between, duration, later
from ..errors import InvalidInput, LeaseHeld, LeaseLost, LeaseNotFound, SessionEnded, StoreBusy, StoreError
from ..records import Holder, Lease
from ..safe_text import one_line, visible
from . import resources, session_leases, sessions
from .lease_queue import Queue, Waiter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..overview_records import Overlap
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView
    from .sessions import SessionRow

#: Holders that an error names when the claim that it is about is gone.
_NAMED = 5
_COLUMNS = "token, session_id, resource, note, exclusive, ttl, claimed_at, expires_at"
_EXPIRE = """
UPDATE leases SET ended_at = expires_at, ended_because = 'expired'
WHERE workspace = :workspace AND ended_at IS NULL AND expires_at <= :now
RETURNING token
"""
LIVE = """
SELECT l.session_id, s.type, s.summary, s.status, s.heartbeat_at, l.resource, l.exclusive, l.note, l.claimed_at,
       l.expires_at, s.parent_id
FROM leases l JOIN sessions s ON s.workspace = l.workspace AND s.id = l.session_id
WHERE l.workspace = :workspace AND l.ended_at IS NULL AND (l.expires_at IS NULL OR l.expires_at > :now)
ORDER BY l.token
"""
_OWN = (
    "SELECT "
    + _COLUMNS
    + """ FROM leases
WHERE workspace = :workspace AND session_id = :session AND resource = :resource AND ended_at IS NULL
  AND (expires_at IS NULL OR expires_at > :now)"""
)
_INSERT = """
INSERT INTO leases (workspace, session_id, resource, note, exclusive, ttl, claimed_at, expires_at)
VALUES (:workspace, :session, :resource, :note, :exclusive, :ttl, :now, :expires)
RETURNING token
"""
_CLAIM_AGAIN = """
UPDATE leases SET note = COALESCE(:note, note), exclusive = :exclusive, ttl = :ttl, expires_at = :expires
WHERE workspace = :workspace AND token = :token
"""
_OF_SESSION = (
    "SELECT "
    + _COLUMNS
    + """ FROM leases
WHERE workspace = :workspace AND session_id = :session AND resource >= '' AND ended_at IS NULL
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY token"""
)
_ALL_LIVE = (
    "SELECT "
    + _COLUMNS
    + """ FROM leases
WHERE workspace = :workspace AND ended_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY token"""
)
_BY_TOKEN = (
    "SELECT " + _COLUMNS + """, ended_at, ended_because FROM leases WHERE workspace = :workspace AND token = :token"""
)
_END = """
UPDATE leases SET ended_at = :now, ended_because = :because
WHERE workspace = :workspace AND token = :token AND ended_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
"""
_RENEW = """
UPDATE leases SET ttl = :ttl, expires_at = :expires
WHERE workspace = :workspace AND token = :token AND ended_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
"""
# These lock a row without changing it. Whether it may be renewed is decided by the time after waiting for the lock.
_TAKE = "UPDATE leases SET exclusive = exclusive WHERE workspace = :workspace AND token = :token AND ended_at IS NULL"
_TAKE_OWN = """
UPDATE leases SET exclusive = exclusive
WHERE workspace = :workspace AND session_id = :session AND resource = :resource AND ended_at IS NULL
"""
# Writing to the row takes its lock until the end of the fenced transaction.
_FENCE = """
UPDATE leases SET fenced_at = :now
WHERE workspace = :workspace AND token = :token AND ended_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
"""


class Leases:
    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._engine = view.engine
        self._workspace = view.workspace
        self._author = view.author
        self._config = view.config
        self._queue = Queue(view)

    #: A file's name as a resource, with special characters escaped. For callers that have a file name, not a pattern.
    escape = staticmethod(resources.escape)
    #: A resource as it is stored.
    normalise = staticmethod(resources.normalise)

    def claim(
        self,
        session_id: str,
        resource: str,
        note: str | None = None,
        *,
        exclusive: bool = False,
        ttl: float | None = None,
        wait: float = 0,
    ) -> Lease:
        """Claim a resource.

        An advisory claim always succeeds and lists the other holders. An exclusive claim raises LeaseHeld when another
        session holds an overlapping lease, or asked earlier and is still waiting. With `wait`, it first waits its turn
        for that many seconds. Claiming a resource again renews the lease and keeps the token. An exclusive lease stays
        exclusive until it is released.
        """
        checks.flag(exclusive, "exclusive")
        checks.seconds(wait, "wait")
        if wait and exclusive:
            waiter = self.line_up(session_id, resource, note, ttl=ttl, wait=wait)
            with waiter:
                while (lease := waiter.look()) is None:
                    waiter.sleep()
        else:
            lease = self._attempt(self._claim(session_id, resource, note, exclusive, ttl))
        if lease.conflicts:
            _warn(lease)
        return lease

    def line_up(
        self, session_id: str, resource: str, note: str | None = None, *, ttl: float | None = None, wait: float
    ) -> Waiter:
        """An exclusive claim that waits its turn without blocking: the caller calls `look` repeatedly.

        For callers that do other work meanwhile, such as a server. `claim` with `wait` uses it.
        """
        checks.seconds(wait, "wait")
        if self._engine.joined:
            raise InvalidInput(
                "wait cannot be used inside a transaction: no session could release the lease meanwhile."
            )
        claim = self._claim(session_id, resource, note, True, ttl)
        return Waiter(
            self._queue,
            claim.session_id,
            claim.resource,
            attempt=lambda position: self._attempt(claim, position),
            in_the_way=lambda position: self._in_the_way(claim, position),
            wait=wait,
        )

    def release(self, session_id: str, resource: str) -> Lease:
        """Release a lease. LeaseNotFound when the session does not hold it."""
        checks.name(session_id, "session id")
        resource = self._stored(resource, session_id)
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            now = tx.now()
            row = self._own(tx, session_id, resource, now)
            if row is None:
                sessions.require(tx, self._workspace, session_id)
                raise LeaseNotFound(f"Session {session_id} holds no live claim on {resource!r}.")
            lease = _lease(row)
            self._end(tx, lease.token, now, "released")
        return lease

    def release_all(self, session_id: str) -> list[Lease]:
        """Release everything that the session holds."""
        checks.name(session_id, "session id")
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            now = tx.now()
            sessions.require(tx, self._workspace, session_id)
            held = tx.all(_OF_SESSION, workspace=self._workspace, session=session_id, now=now)
            ended = set(session_leases.end(tx, self._workspace, session_id, now, "released"))
        return [lease for lease in map(_lease, held) if lease.token in ended]

    def end(self, token: int) -> bool:
        """Release a lease by its token; False if it has ended already."""
        checks.whole(token, "token", least=1)
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            ended = tx.run(_END, workspace=self._workspace, token=token, now=tx.now(), because="released")
            if ended:
                tx.note(self._workspace, "lease", token)
            return bool(ended)

    def renew(self, token: int, ttl: float | None = None) -> Lease:
        """Restart the lease's time to live. LeaseLost when it has ended."""
        checks.whole(token, "token", least=1)
        if ttl is not None:
            checks.seconds(ttl, "ttl", least=0.001)
        with self._engine.write() as tx:
            tx.run(_TAKE, workspace=self._workspace, token=token)
            now = tx.now()
            lease = self._require_live(tx, token, now)
            ttl = lease.ttl if ttl is None else ttl
            expires = later(now, ttl) if ttl is not None else None
            if not tx.run(_RENEW, workspace=self._workspace, token=token, ttl=ttl, expires=expires, now=now):
                self._require_live(tx, token, now)
            tx.note(self._workspace, "lease", token)
            return lease._replace(ttl=ttl, expires_at=expires)

    def verify(self, token: int) -> Lease:
        """The lease, if its token is valid. LeaseLost once it has expired or was released, broken or superseded."""
        checks.whole(token, "token", least=1)
        with self._engine.read() as tx:
            return self._require_live(tx, token, tx.now())

    def check(self, resource: str) -> list[Holder]:
        """The holders of the resource and of anything that overlaps it, oldest lease first."""
        resource = self._stored(resource)
        with self._engine.read() as tx:
            now = tx.now()
            stale_before = later(now, -self._config.stale_after)
            return [holder(row, stale_before, now) for row in self._overlapping(tx, resource, now)]

    def overlaps(self, limit: int = 100) -> list[Overlap]:
        """Pairs of leases of different sessions that overlap now: exclusive ones first, then the latest.

        A session and its subagents count as one.
        """
        # Imported here: a hook looks at one resource.
        from .overlaps import conflicting

        most = checks.whole(limit, "limit", least=0) or None
        with self._engine.read() as tx:
            now = tx.now()
            rows = tx.all(LIVE, workspace=self._workspace, now=now)
        stale_before = later(now, -self._config.stale_after)
        claims = [(holder(row, stale_before, now), row[-1]) for row in rows]
        return conflicting(claims)[:most]

    def break_lease(self, resource: str, by: str | None, reason: str, *, token: int | None = None) -> list[Lease]:
        """End the leases that other sessions hold on the resource, and log it for both sides.

        `by` is the session that breaks them. None means a person, who has no log. With `token`, only the lease with
        this fencing token ends; LeaseNotFound when it has ended already, even if another lease has the resource now.
        """
        # Imported here: no hook breaks a lease.
        from . import break_log

        resource = self._stored(resource, by)
        reason = checks.content(reason, "reason", longest=2_000)
        if token is not None:
            checks.whole(token, "token", least=1)
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            now = tx.now()
            if by is not None:
                sessions.require(tx, self._workspace, by)
            rows = tx.all(_ALL_LIVE, workspace=self._workspace, now=now)
            held = [lease for lease in map(_lease, rows) if resources.overlap(lease.resource, resource)]
            taken = [lease for lease in held if lease.session_id != by and token in (None, lease.token)]
            if not taken and token is not None:
                raise self._not_breakable(tx, resource, token, held, now)
            if not taken:
                raise LeaseNotFound(f"No other session holds {resource!r}; there is nothing to break.")
            lost: dict[str, list[str]] = {}
            for lease in taken:
                self._end(tx, lease.token, now, "broken")
                lost.setdefault(lease.session_id, []).append(lease.resource)
            break_log.log_break(tx, self._workspace, lost, by, reason, now, self._author)
        return taken

    @contextmanager
    def hold(
        self,
        session_id: str,
        resource: str,
        note: str | None = None,
        *,
        exclusive: bool = True,
        ttl: float | None = None,
        wait: float = 0,
    ) -> Iterator[Lease]:
        """Hold a resource during the block. It is renewed in the background and released at the end.

        LeaseLost at the end of the block when the lease was lost meanwhile, so that the holder knows that it was not
        alone. Use its token with `write(fence=…)` to have every single write checked.
        """
        if self._engine.joined:
            raise InvalidInput("hold cannot be used inside a transaction: its renewals could not be seen.")
        lease = self.claim(session_id, resource, note, exclusive=exclusive, ttl=ttl, wait=wait)
        done = threading.Event()
        renewer = threading.Thread(target=self._renew_until, args=(lease, done), name="engram-lease", daemon=True)
        if lease.ttl is not None:
            renewer.start()
        try:
            yield lease
        except BaseException:
            self._stop_and_release(lease, done, renewer)
            raise
        if not self._stop_and_release(lease, done, renewer):
            try:
                self.verify(lease.token)
            except LeaseLost as lost:
                if lost.reason not in ("released", "completed"):  # released inside the block
                    raise

    def fence(self, tx: Transaction, token: int) -> None:
        """Check the token now and again right before the transaction commits."""
        checks.whole(token, "token", least=1)
        now = tx.now()
        if not tx.run(_FENCE, workspace=self._workspace, token=token, now=now):
            self._require_live(tx, token, now)
        tx.checks.append(lambda: self._recheck(tx, token))

    def _recheck(self, tx: Transaction, token: int) -> None:
        self._require_live(tx, token, tx.now())

    def _stored(self, resource: str, session_id: str | None = None) -> str:
        """The resource as it is stored. A relative path of a caller elsewhere counts from its session's project."""
        if self._view.elsewhere is None:
            return resources.normalise(resource)
        project = self._view.elsewhere.project
        if session_id is not None:
            with self._engine.read() as tx:
                project = sessions.require(tx, self._workspace, session_id).project or project
        return resources.elsewhere(resource, project)

    def _claim(self, session_id: str, resource: str, note: str | None, exclusive: bool, ttl: float | None) -> _Claim:
        """A claim from a caller's arguments. InvalidInput when one is wrong."""
        checks.name(session_id, "session id")
        stored = self._stored(resource, session_id)
        # Normalising removes backslashes and doubled slashes, which may be what separates a secret from the text
        # before it.
        if stored != resource:
            checks.without_secrets(resource, "resource")
        resource = checks.without_secrets(stored, "resource")
        note = checks.optional_content(note, "note", longest=2_000)
        if ttl is not None:
            checks.seconds(ttl, "ttl", least=0.001)
        return _Claim(session_id, resource, note, exclusive, ttl)

    def _attempt(self, claim: _Claim, position: int | None = None) -> Lease:
        """Claim now or raise LeaseHeld. Holders whose processes are gone do not count."""
        try:
            return self._try(claim, position)
        except LeaseHeld as held:
            # Imported here: most claims are granted.
            from .harness_processes import HarnessProcesses

            if not HarnessProcesses(self._view).free_gone(holder.session_id for holder in held.holders):
                raise
        return self._try(claim, position)

    def _try(self, claim: _Claim, position: int | None = None) -> Lease:
        """Claim now or raise LeaseHeld. `position` is the caller's number in the queue."""
        with self._engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            tx.run(_TAKE_OWN, workspace=self._workspace, session=claim.session_id, resource=claim.resource)
            now = tx.now()
            claimant = sessions.require(tx, self._workspace, claim.session_id)
            _require_at_work(claimant)
            for token in tx.column(_EXPIRE, workspace=self._workspace, now=now):
                tx.note(self._workspace, "lease", token)
            others = self._of_others(tx, claimant, claim.resource, now)
            row = self._own(tx, claim.session_id, claim.resource, now)
            # An exclusive holder keeps its lease, even when others have advisory leases or wait for it.
            if claim.exclusive and not (row and _lease(row).exclusive):
                waiting = self._queue.ahead(tx, claim.session_id, claim.resource, position, now)
                barring = [other for other in others if other.bars]
                if barring or waiting:
                    raise _held(claim.resource, barring, waiting)
            if position is not None:
                self._queue.leave(tx, position)
            return self._grant(tx, claim, row, now)._replace(conflicts=tuple(other.holder for other in others))

    def _grant(self, tx: Transaction, claim: _Claim, row: Row | None, now: str) -> Lease:
        mine = _lease(row) if row else None
        exclusive = claim.exclusive or (mine is not None and mine.exclusive)
        ttl = claim.ttl
        # A lease that becomes exclusive gets the usual time of an exclusive one, not that of the weaker claim.
        if ttl is None and mine is not None and mine.exclusive == exclusive:
            ttl = mine.ttl
        if ttl is None and exclusive:
            ttl = self._config.lease_ttl
        expires = later(now, ttl) if ttl is not None else None
        values = {"note": claim.note, "exclusive": int(exclusive), "ttl": ttl, "expires": expires}
        if mine:
            token = mine.token
            tx.run(_CLAIM_AGAIN, workspace=self._workspace, token=token, **values)
        else:
            token = tx.value(
                _INSERT,
                workspace=self._workspace,
                session=claim.session_id,
                resource=claim.resource,
                now=now,
                **values,
            )
        tx.note(self._workspace, "lease", token)
        return Lease(
            token=token,
            session_id=claim.session_id,
            resource=claim.resource,
            note=claim.note if claim.note is not None or mine is None else mine.note,
            exclusive=exclusive,
            ttl=ttl,
            claimed_at=mine.claimed_at if mine else now,
            expires_at=expires,
        )

    def _in_the_way(self, claim: _Claim, position: int) -> tuple[int, int]:
        """How many leases of others overlap a waiting claim, and how many claims wait before it. Only reads."""
        with self._engine.read() as tx:
            now = tx.now()
            claimant = sessions.require(tx, self._workspace, claim.session_id)
            _require_at_work(claimant)
            held = [other for other in self._of_others(tx, claimant, claim.resource, now) if other.bars]
            return len(held), len(self._queue.ahead(tx, claim.session_id, claim.resource, position, now))

    def _of_others(self, tx: Transaction, claimant: SessionRow, resource: str, now: str) -> list[_Other]:
        """The overlapping leases of other sessions."""
        rows = self._overlapping(tx, resource, now)
        stale_before = later(now, -self._config.stale_after) if rows else ""
        others = []
        for row in rows:
            held, parent = holder(row, stale_before, now), row[-1]
            if held.session_id != claimant.id:
                relation = "your subagent" if parent == claimant.id else ""
                relation = "your parent" if held.session_id == claimant.parent_id else relation
                others.append(_Other(held, relation))
        return others

    def _overlapping(self, tx: Transaction, resource: str, now: str) -> list[Row]:
        """The rows of `LIVE` whose resource overlaps this one."""
        live = tx.all(LIVE, workspace=self._workspace, now=now)
        return [row for row in live if resources.overlap(_resource_of(row), resource)]

    def _own(self, tx: Transaction, session: str, resource: str, now: str) -> Row | None:
        return tx.one(_OWN, workspace=self._workspace, session=session, resource=resource, now=now)

    def _end(self, tx: Transaction, token: int, now: str, because: str) -> None:
        if tx.run(_END, workspace=self._workspace, token=token, now=now, because=because):
            tx.note(self._workspace, "lease", token)

    def _require_live(self, tx: Transaction, token: int, now: str) -> Lease:
        row = tx.one(_BY_TOKEN, workspace=self._workspace, token=token)
        if row is None:
            raise LeaseNotFound(f"There is no lease with token {token} in workspace {self._workspace!r}.")
        *columns, ended_at, because = row
        lease = _lease(tuple(columns))
        if ended_at is None and lease.expires_at is not None and lease.expires_at <= now:
            ended_at, because = lease.expires_at, "expired"
        if ended_at is not None:
            raise LeaseLost(
                f"Lease {token} on {lease.resource!r} is no longer held: it was {because} {age(ended_at, now)}. "
                "Claim the resource again, and read what may have changed.",
                token,
                because,
            )
        return lease

    def _not_breakable(self, tx: Transaction, resource: str, token: int, held: list[Lease], now: str) -> LeaseNotFound:
        """Why the lease with this token cannot be broken, and which leases have the resource instead."""
        row = tx.one(_BY_TOKEN, workspace=self._workspace, token=token)
        if row is None:
            why = f"There is no claim with token {token}."
        else:
            *columns, ended_at, because = row
            lease = _lease(tuple(columns))
            if ended_at is None and lease.expires_at is not None and lease.expires_at <= now:
                ended_at, because = lease.expires_at, "expired"
            if ended_at is not None:
                why = f"The claim {token} on {lease.resource!r} is gone: it was {because} {age(ended_at, now)}."
            elif lease in held:
                why = f"The claim {token} on {lease.resource!r} is your own; release it."
            else:
                why = f"The claim {token} is on {lease.resource!r}, not on {resource!r}."
        others = [f"{each.session_id} ({each.resource!r}, token {each.token})" for each in held if each.token != token]
        shown = [*map(visible, others[:_NAMED]), *([f"{len(others) - _NAMED} more"] if len(others) > _NAMED else [])]
        holding = f" {resource!r} is now claimed by {'; '.join(shown)}." if others else ""
        return LeaseNotFound(f"{why}{holding} Nothing was broken.")

    def _renew_until(self, lease: Lease, done: threading.Event) -> None:
        """Renew until `done` is set. While the lease lives, try again when the store is briefly unavailable."""
        assert lease.ttl is not None
        while not self._engine.clock.wait(done, lease.ttl / 3):
            try:
                self.renew(lease.token)
            except (StoreBusy, StoreError):
                continue
            except (LeaseLost, LeaseNotFound):
                return

    def _stop_and_release(self, lease: Lease, done: threading.Event, renewer: threading.Thread) -> bool:
        """Stop renewing and release. False when another session had ended the lease already."""
        done.set()
        if renewer.is_alive():
            renewer.join()
        return self.end(lease.token)

    # Defined last, because the name `list` hides the type in annotations after it.
    def list(self, session_id: str | None = None) -> list[Lease]:
        """Live leases, oldest first; of one session if given."""
        with self._engine.read() as tx:
            now = tx.now()
            if session_id is None:
                rows = tx.all(_ALL_LIVE, workspace=self._workspace, now=now)
            else:
                sessions.require(tx, self._workspace, session_id)
                rows = tx.all(_OF_SESSION, workspace=self._workspace, session=session_id, now=now)
        return [_lease(row) for row in rows]


class _Other(NamedTuple):
    """An overlapping lease of another session."""

    holder: Holder
    #: What that session is to the claimant: its subagent or its parent; empty for any other.
    relation: str

    @property
    def bars(self) -> bool:
        """Whether it prevents an exclusive claim. A session and its subagent share what either holds as advisory."""
        return self.holder.exclusive or not self.relation


class _Claim:
    """A checked claim."""

    __slots__ = ("exclusive", "note", "resource", "session_id", "ttl")

    def __init__(self, session_id: str, resource: str, note: str | None, exclusive: bool, ttl: float | None) -> None:
        self.session_id = session_id
        self.resource = resource
        self.note = note
        self.exclusive = exclusive
        self.ttl = ttl


def _require_at_work(session: Row) -> None:
    """SessionEnded for a session that has ended, because nothing would release a lease that a late hook claims."""
    id, _, _, _, status, *_ = session
    if status in ("completed", "abandoned"):
        raise SessionEnded(f"Session {id} is {status} and cannot claim; send a heartbeat to reactivate it first.")


def _resource_of(row: Row) -> str:
    """The resource in a row of `LIVE`."""
    _, _, _, _, _, resource, *_ = row
    return str(resource)


def holder(row: Row, stale_before: str, now: str) -> Holder:
    """A row of `LIVE` as a record."""
    session_id, type, summary, status, heartbeat, resource, exclusive, note, claimed_at, expires_at, _ = row
    return Holder(
        session_id=session_id,
        session_type=type,
        summary=summary,
        stale=status == "active" and heartbeat < stale_before,
        resource=resource,
        exclusive=bool(exclusive),
        note=note,
        claimed_at=claimed_at,
        expires_at=expires_at,
        age=between(claimed_at, now),
    )


def _lease(row: Row) -> Lease:
    token, session_id, resource, note, exclusive, ttl, claimed_at, expires_at = row
    return Lease(
        token=token,
        session_id=session_id,
        resource=resource,
        note=note,
        exclusive=bool(exclusive),
        ttl=ttl,
        claimed_at=claimed_at,
        expires_at=expires_at,
    )


def _held(resource: str, barring: list[_Other], waiting: list[str]) -> LeaseHeld:
    holders = [other.holder for other in barring]
    parts = [_holding(resource, other) for other in barring]
    if waiting:
        parts.append(f"waiting before you: {', '.join(waiting)}")
    ask, *_ = [each.session_id for each in holders] or waiting
    return LeaseHeld(
        f"{resource!r} is taken. {'; '.join(parts)}.",
        resource,
        holders,
        waiting,
        typed=f"Ask with `engram message send {ask} …`, wait with --wait, or work on something else.",
    )


def _holding(resource: str, other: _Other) -> str:
    held = other.holder
    about = [visible(held.session_type), *filter(None, [other.relation]), *(["stale"] if held.stale else [])]
    what = "it" if held.resource == resource else repr(held.resource)
    how = "exclusively" if held.exclusive else "as advisory"
    note = f", with the note {one_line(held.note, 200)!r}" if held.note else ""
    return f"{visible(held.session_id)} ({', '.join(about)}) has held {what} {how} for {duration(held.age)}{note}"


def _warn(lease: Lease) -> None:
    import logging

    log = logging.getLogger("engram.leases")
    # Without a handler, Python prints warnings to standard error. The lease names the conflicts already, so only a
    # program that configures logging gets this one.
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    log.warning(
        "%s is also claimed by %s",
        visible(lease.resource),
        visible(", ".join(f"{other.session_id} ({other.session_type})" for other in lease.conflicts)),
    )
