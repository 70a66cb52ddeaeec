"""Connections to PostgreSQL: with which parameters they are made, and which are kept for later transactions.

A pool of our own, because of failover. The driver's pool connects in the background, with pauses that double up to
minutes. So a caller learns nothing about why it waits, and waits on when the server is back. Here each caller
connects by itself: it sees the error, and decides by its own time limit whether to try again.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict

from .postgres_errors import TookTooLong

if TYPE_CHECKING:
    from .engine import Row

    Connection = psycopg.Connection[Row]

# The driver logs problems with a broken connection, which Engram reports as errors. Without this they would appear on
# the screen of a command. A program that sets up logging still gets them.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

#: Seconds to connect to one address, for a caller that waits at least that long. The driver's minimum is 2.
CONNECT_WITHIN, CONNECT_WITHIN_AT_LEAST = 10, 2
#: A machine that lost its power closes no connection. These find that out after about 15 seconds: for data that was
#: sent and not confirmed (milliseconds), and for a connection on which an answer is awaited (seconds).
_NOTICE_SILENCE = {"tcp_user_timeout": 15_000, "keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 2}
#: Seconds after which an unused connection is closed. A router may have forgotten it by then.
_UNUSED_FOR = 600.0
#: Seconds after which a connection is closed in any case, because a server's memory for it grows.
_OLD_AFTER = 3_600.0


def parameters(url: str, busy_timeout: float) -> dict[str, Any]:
    """What Engram adds to the parameters of a URL. A parameter that the URL has is not touched."""
    given = conninfo_to_dict(url)
    added: dict[str, Any] = {
        # Otherwise the database or PGCLIENTENCODING decides what the driver can read and send.
        "client_encoding": "utf8",
        "connect_timeout": min(CONNECT_WITHIN, max(CONNECT_WITHIN_AT_LEAST, math.ceil(busy_timeout))),
        **_NOTICE_SILENCE,
    }
    if has_several_hosts(url) and "PGTARGETSESSIONATTRS" not in os.environ:
        # The first host that answers may be a standby, which cannot be written.
        added["target_session_attrs"] = "primary"
    return {name: value for name, value in added.items() if name not in given}


def has_several_hosts(url: str) -> bool:
    given = conninfo_to_dict(url)
    return "," in str(given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST", ""))


class _Kept(NamedTuple):
    connection: Connection
    since: float


class Pool:
    """At most `most` connections at a time, made when they are needed. Thread-safe.

    Calls `anew` before it makes the first connection, and again whenever none of the earlier ones is left or one was
    lost: the next one may lead to another server.
    """

    def __init__(self, connect: Callable[[], Connection], most: int, anew: Callable[[], None]) -> None:
        self._connect = connect
        self._anew = anew
        self._most = most
        self._places = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        #: Unused connections; the one that was used last is at the end.
        self._kept: list[_Kept] = []
        #: When each connection was made.
        self._made: dict[Connection, float] = {}
        self._closed = False

    def take(self, within: float) -> tuple[Connection, bool]:
        """A connection, and whether it is a new one. Waits so many seconds while all are in use."""
        if not self._places.acquire(timeout=max(0.0, within)):
            raise TookTooLong(f"all {self._most} connections of this process are in use")
        try:
            kept = self._take_kept()
            if kept is not None:
                return kept, False
            if not self._made:
                self._anew()
            connection = self._connect()
            # The driver warns about connections that were never closed, except those of a pool.
            connection._pool = None
            self._made[connection] = time.monotonic()
            return connection, True
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for later, unless it is broken, old or inside a transaction."""
        now = time.monotonic()
        usable = not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with self._lock:
            if usable and not self._closed and now - self._made.get(connection, 0.0) < _OLD_AFTER:
                self._kept.append(_Kept(connection, now))
                unused = [kept.connection for kept in self._kept if now - kept.since > _UNUSED_FOR]
                self._kept = [kept for kept in self._kept if now - kept.since <= _UNUSED_FOR]
            else:
                unused = [connection]
        self._close(unused)
        self._places.release()

    def drop_kept(self) -> None:
        """Close the connections that are not in use. Called when one was lost: then the others are likely lost too."""
        self._anew()
        self._close_kept()

    def close(self) -> None:
        """Close the unused connections now, and each other one when it is given back."""
        self._closed = True
        self._close_kept()

    def _close_kept(self) -> None:
        with self._lock:
            unused, self._kept = [kept.connection for kept in self._kept], []
        self._close(unused)

    def _take_kept(self) -> Connection | None:
        now = time.monotonic()
        with self._lock:
            while self._kept:
                connection, since = self._kept.pop()
                if now - since <= _UNUSED_FOR:
                    return connection
                self._close([connection])
        return None

    def _close(self, connections: list[Connection]) -> None:
        for connection in connections:
            self._made.pop(connection, None)
            connection.close()
