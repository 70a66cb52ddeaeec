"""Waiting for a lease: a queue of claims in the store, in order of arrival, and one claim's position in it.

A waiter does not block. Each look is one short attempt, and between two looks the caller sleeps or does other work.
Most looks only read, so waiters do not slow down writers. A waiter renews its position. If its process was killed, the
position expires after `LIFE` seconds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from .. import mutexes
from ..clock import later
from ..errors import LeaseHeld, StoreBusy, StoreError
from . import resources, sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..records import Lease
    from ..storage.engine import Transaction
    from ..store_view import StoreView

#: Seconds that a waiting claim keeps its position without a call of `stay`.
LIFE = 10.0
#: The pause between two looks grows from the first value to the second, times the claims ahead, at most `FAR_BEHIND`.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
FAR_BEHIND = 8

_JOIN = """
INSERT INTO lease_waiters (workspace, session_id, resource, alive_until)
VALUES (:workspace, :session, :resource, :alive_until)
RETURNING id
"""
_STAY = "UPDATE lease_waiters SET alive_until = :alive_until WHERE workspace = :workspace AND id = :id"
_LEAVE = "DELETE FROM lease_waiters WHERE workspace = :workspace AND id = :id"
_CLEAR = "DELETE FROM lease_waiters WHERE workspace = :workspace AND alive_until <= :now"
_QUEUE = """
SELECT id, session_id, resource FROM lease_waiters
WHERE workspace = :workspace AND alive_until > :now AND session_id <> :session
ORDER BY id
"""


class Queue:
    """Claims that wait for a lease, in order of arrival."""

    def __init__(self, view: StoreView) -> None:
        self.engine = view.engine
        self._workspace = view.workspace

    def join(self, session: str, resource: str) -> int:
        """Wait at the end of the queue; returns the position."""
        with self.engine.write() as tx:
            tx.lock(mutexes.leases(self._workspace))
            now = tx.now()
            # The session may have been forgotten since its claim was refused.
            sessions.require(tx, self._workspace, session)
            tx.run(_CLEAR, workspace=self._workspace, now=now)
            alive_until = later(now, LIFE)
            waiter = {"session": session, "resource": resource, "alive_until": alive_until}
            position: int = tx.value(_JOIN, workspace=self._workspace, **waiter)
            return position

    def stay(self, position: int) -> None:
        """Record that this claim is still waiting."""
        with self.engine.write() as tx:
            tx.run(_STAY, workspace=self._workspace, id=position, alive_until=later(tx.now(), LIFE))

    def leave(self, tx: Transaction, position: int) -> None:
        tx.run(_LEAVE, workspace=self._workspace, id=position)

    def ahead(self, tx: Transaction, session: str, resource: str, position: int | None, now: str) -> list[str]:
        """Other sessions that wait for an overlapping resource before this position; all of them without a position."""
        queue = tx.all(_QUEUE, workspace=self._workspace, session=session, now=now)
        return [
            waiting
            for id, waiting, wanted in queue
            if (position is None or id < position) and resources.overlap(wanted, resource)
        ]


class Waiter:
    """One claim that waits its turn. As a context manager, it leaves the queue at the end of the block."""

    def __init__(
        self,
        queue: Queue,
        session: str,
        resource: str,
        *,
        attempt: Callable[[int | None], Lease],
        in_the_way: Callable[[int], tuple[int, int]],
        wait: float,
    ) -> None:
        self._queue = queue
        self._session = session
        self._resource = resource
        self._attempt = attempt
        #: How many overlapping leases others hold, and how many claims wait before this position.
        self._in_the_way = in_the_way
        self._clock = queue.engine.clock
        self._deadline = self._clock.monotonic() + wait
        self._place: int | None = None
        self._alive_at = 0.0
        self._pause = SHORTEST_PAUSE

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return max(0.0, min(self._pause, self._deadline - self._clock.monotonic()))

    def sleep(self) -> None:
        self._clock.sleep(self.pause)

    def look(self) -> Lease | None:
        """The lease, or None while it is not this claim's turn. LeaseHeld or StoreBusy when the time is up."""
        try:
            return self._check_turn()
        except (LeaseHeld, StoreBusy):
            if self._place is not None and self._clock.monotonic() >= self._deadline:
                raise
        if self._place is None:
            self._place = self._queue.join(self._session, self._resource)
            self._alive_at = self._clock.monotonic()
        return None

    def leave(self) -> None:
        """Give up the position. Otherwise it would block later claims until it expires."""
        position, self._place = self._place, None
        if position is not None:
            with suppress(StoreBusy, StoreError), self._queue.engine.write() as tx:
                self._queue.leave(tx, position)

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def _check_turn(self) -> Lease | None:
        if self._place is None:
            return self._attempt(None)
        now = self._clock.monotonic()
        due = now - self._alive_at > LIFE / 3
        # Now and then, and at the end, make a real attempt. Its refusal names the holders.
        if not due and now < self._deadline:
            held, waiting = self._in_the_way(self._place)
            self._pause = min(self._pause * 1.5, LONGEST_PAUSE * min(waiting + 1, FAR_BEHIND))
            if held or waiting:
                return None
        try:
            lease = self._attempt(self._place)
        except (LeaseHeld, StoreBusy):
            if due:
                self._queue.stay(self._place)
                self._alive_at = self._clock.monotonic()
            raise
        self._place = None  # granting it took it out of the queue
        return lease
