"""Follows the change feed of the store for all event streams of this process.

One task reads the feed, a few times in a second while there are streams and not at all without any, and hands each
change to the streams of its workspace. One read finds the changes of other processes, too. So a stream that waits
costs nothing but its connection, and there is no thread for it.

Another task sends a comment now and then, so that proxies keep idle streams, and checks the tokens behind them. Tokens
are few: each is verified once, however many streams it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ...errors import EngramError, Forbidden, Unauthorized
from .answers import encoded

if TYPE_CHECKING:
    from ...setup_records import StoreChange
    from .guard import Caller
    from .service import Service

#: Seconds between two reads of the feed. A write of this process causes a read at once.
EVERY = 0.25
#: Changes in one read.
PAGE = 1_000
#: Events that wait for a slow reader: more than one read brings. With more, it is disconnected; it continues with
#: Last-Event-ID.
MOST_WAITING = 4_000
#: Seconds between two checks of the tokens, and checks between two comments.
CHECK_EVERY, COMMENT_AT = 5.0, 3
#: The kinds of events.
WHATS = ("session", "exchange", "lease", "message", "block", "memory", "proposal", "dream", "receipt")

_COMMENT = b": still here\n\n"


class Wanted(NamedTuple):
    """Which changes a stream is about."""

    #: None: those of all workspaces.
    workspace: str | None
    #: None: of every kind.
    whats: frozenset[str] | None

    def includes(self, change: StoreChange) -> bool:
        return (self.workspace is None or change.workspace == self.workspace) and (
            self.whats is None or change.what in self.whats
        )


def event(change: StoreChange) -> bytes:
    """A change as it is sent. It names what changed, and holds none of its text."""
    data = {"number": change.number, "what": change.what, "id": change.id, "workspace": change.workspace}
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (change.number, change.what.encode(), encoded(data))


class Stream:
    """What waits to be sent over one connection."""

    def __init__(self, wanted: Wanted, caller: Caller) -> None:
        self.wanted = wanted
        self.caller = caller
        #: Changes up to this number were sent, or are not wanted.
        self.after = 0
        self._waiting: deque[bytes] = deque()
        self._ready = asyncio.Event()
        #: Set when no more may be sent, even if something waits.
        self.dropped = asyncio.Event()
        self._ended = False

    def offer(self, data: bytes) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.dropped.set()
            return
        self._waiting.append(data)
        self._ready.set()

    def end(self) -> None:
        """End the stream after what waits."""
        self._ended = True
        self._ready.set()

    async def next(self) -> bytes | None:
        """What is to be sent next; None at the end."""
        while not self._waiting:
            if self._ended:
                return None
            self._ready.clear()
            await self._ready.wait()
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data


class Feed:
    """The streams of this process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._streams: set[Stream] = set()
        self._last = 0
        self._wanted = asyncio.Event()
        self._poked = asyncio.Event()
        self._opening = asyncio.Lock()
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._failing = False

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._tend())]

    @property
    def open(self) -> int:
        """The number of open streams."""
        return len(self._streams)

    def poke(self) -> None:
        """Look at once: this process has written something."""
        if self._streams:
            self._poked.set()

    async def subscribe(self, stream: Stream, after: int | None) -> int:
        """Add a stream. It gets the changes after the returned number that are also after the given one."""
        async with self._opening:
            if not self._streams:
                # Nobody has looked since the last stream ended.
                self._last = await self._service.readers.run(lambda: self._service.eng.changes.latest_everywhere)
            stream.after = max(self._last, after or 0)
            self._streams.add(stream)
            self._service.metrics.streams(len(self._streams))
            self._wanted.set()
            if self._closed:
                stream.end()
            return self._last

    def unsubscribe(self, stream: Stream) -> None:
        self._streams.discard(stream)
        self._service.metrics.streams(len(self._streams))
        if not self._streams:
            self._wanted.clear()

    def end_streams(self) -> None:
        """End all streams, also those that begin from now on: the server stops."""
        self._closed = True
        for stream in list(self._streams):
            stream.end()

    async def stop(self) -> None:
        self.end_streams()
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            self._poked.clear()
            found = await self._read()
            for change in found:
                self._tell(change)
            if len(found) == PAGE:
                # First the streams send what they got.
                await asyncio.sleep(0)
                continue
            alarm = loop.call_later(EVERY, self._poked.set)
            await self._poked.wait()
            alarm.cancel()

    async def _read(self) -> list[StoreChange]:
        last = self._last
        try:
            found = await self._service.readers.run(lambda: self._service.eng.changes.everywhere(last, PAGE))
            self._failing = False
            return found
        except EngramError as error:
            # Logged once. The streams stay open, and nothing is missed when the store is back.
            if not self._failing:
                logging.getLogger("engram.http").warning("the change feed cannot be read: %s", error.code)
            self._failing = True
            return []

    def _tell(self, change: StoreChange) -> None:
        self._last = change.number
        data = event(change)
        for stream in self._streams:
            if change.number > stream.after and stream.wanted.includes(change):
                stream.offer(data)

    async def _tend(self) -> None:
        """Send comments, and end streams whose token was revoked or has expired."""
        turn = 0
        while True:
            await self._wanted.wait()
            await asyncio.sleep(CHECK_EVERY)
            turn = (turn + 1) % COMMENT_AT
            if turn == 0:
                for stream in list(self._streams):
                    stream.offer(_COMMENT)
            by_token: dict[str, list[Stream]] = {}
            for stream in self._streams:
                by_token.setdefault(stream.caller.secret, []).append(stream)
            callers = [streams[0] for streams in by_token.values()]
            lost = await self._service.readers.run(lambda found=callers: _lost(found))  # type: ignore[misc]
            for secret in lost:
                for stream in by_token[secret]:
                    stream.end()


def _lost(streams: Iterable[Stream]) -> list[str]:
    """The secrets that do not work any more."""
    found = []
    for stream in streams:
        try:
            stream.caller.verify_again()
        except (Unauthorized, Forbidden):
            found.append(stream.caller.secret)
        except EngramError:
            continue  # the store cannot be asked now
    return found
