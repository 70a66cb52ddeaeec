"""Limits on how often something may be tried, such as logging in from one address.

The counters are in the store, so several workers and servers share them. A counter covers a window of time that begins
with its first attempt. What is limited is stored as a digest, because it may be an address.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import checks
from ..clock import between, later
from ..errors import TooManyRequests
from .secret_texts import digest

if TYPE_CHECKING:
    from ..storage.engine import Engine

#: Counters that have ended and are removed whenever a new window begins.
_AT_ONCE = 20

_FIND = "SELECT count, ends_at FROM access_attempts WHERE bucket = :bucket"
# One statement, so that two attempts at once are both counted.
_COUNT = """
INSERT INTO access_attempts (bucket, count, ends_at) VALUES (:bucket, 1, :ends_at)
ON CONFLICT (bucket) DO UPDATE SET
  count = CASE WHEN access_attempts.ends_at <= :now THEN 1 ELSE access_attempts.count + 1 END,
  ends_at = CASE WHEN access_attempts.ends_at <= :now THEN :ends_at ELSE access_attempts.ends_at END
RETURNING count, ends_at
"""
_ENDED = "SELECT bucket FROM access_attempts WHERE ends_at <= :now AND bucket <> :bucket ORDER BY ends_at LIMIT :most"
_REMOVE = "DELETE FROM access_attempts WHERE bucket = :bucket AND ends_at <= :now"
_RESET = "DELETE FROM access_attempts WHERE bucket = :bucket"


class Attempts:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def allow(self, bucket: str, most: int, within: float) -> None:
        """Count an attempt. TooManyRequests if there were `most` already within that many seconds."""
        checks.whole(most, "most", least=1)
        checks.seconds(within, "within", least=0.001)
        name = digest(checks.text(bucket, "bucket"))
        # A read, so that a flood of refused attempts does not keep writers waiting.
        with self._engine.read() as tx:
            row = tx.one(_FIND, bucket=name)
            if row is not None and row[0] >= most:
                self._refuse_before(row[1], tx.now())
        with self._engine.write() as tx:
            now = tx.now()
            ((count, ends_at),) = tx.all(_COUNT, bucket=name, now=now, ends_at=later(now, within))
            if count == 1:
                for old in tx.column(_ENDED, now=now, bucket=name, most=_AT_ONCE):
                    tx.run(_REMOVE, bucket=old, now=now)
        if count > most:
            self._refuse_before(ends_at, now)

    def reset(self, bucket: str) -> None:
        """Begin anew, for example after a login that succeeded."""
        with self._engine.write() as tx:
            tx.run(_RESET, bucket=digest(bucket))

    def _refuse_before(self, ends_at: str, now: str) -> None:
        if ends_at > now:
            wait = max(1, math.ceil(between(now, ends_at)))
            raise TooManyRequests(f"Too many attempts. Try again in {wait} seconds.", wait)
