"""What all requests of one process share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import checks
from ...access.permission import author_of, require
from .feed import Feed
from .metrics import Metrics
from .origins import places
from .threads import Threads

if TYPE_CHECKING:
    from ...access_records import Grant
    from ...client import Engram
    from .logs import Log
    from .options import Options

#: Threads by engine: those that read, and those that write. They are apart, so that no reader waits behind writers.
#: SQLite has one writer at a time; PostgreSQL gets as many as the pool has connections.
_THREADS = {"sqlite": (6, 4), "postgresql": (8, 6)}
#: Threads in which waiting claims look. They are few: a look is short.
_WAITERS = 2
#: Facades that are kept ready, by workspace and author.
_MOST_FACADES = 256


class Service:
    """The store and everything around it. `start` and `stop` are called in the event loop that serves."""

    #: Threads for what only reads, for what may write, and for the looks of waiting claims.
    readers: Threads
    writers: Threads
    waiters: Threads
    #: Follows the change feed for the event streams.
    feed: Feed

    def __init__(self, eng: Engram, options: Options) -> None:
        self.eng = eng
        self.options = options
        #: The addresses of this server.
        self.places = places(options.host, options.port, tls=options.tls, public_url=options.public_url)
        self.tokens = eng.access.tokens
        self.metrics = Metrics(self)
        #: Where each request gets a line; None: nowhere.
        self.log: Log | None = None
        self._facades: dict[tuple[str, str], Engram] = {}

    async def start(self) -> None:
        on_server = self.eng.settings.url.startswith("postgresql://")
        readers, writers = _THREADS["postgresql" if on_server else "sqlite"]
        self.readers = Threads(self.options.readers or readers, "read")
        self.writers = Threads(self.options.writers or writers, "write")
        self.waiters = Threads(_WAITERS, "wait")
        self.feed = Feed(self)
        self.feed.start()

    async def stop(self) -> None:
        await self.feed.stop()
        for threads in (self.readers, self.writers, self.waiters):
            threads.close(within=1.0)

    def facade(self, grant: Grant, needed: str, workspace: str) -> Engram:
        """A workspace, if the grant includes this scope in it. What is written through it has the grant as author."""
        checks.workspace(workspace)
        require(grant, needed, workspace)
        key = (workspace, grant.name)
        found = self._facades.get(key)
        if found is None:
            if len(self._facades) >= _MOST_FACADES:
                self._facades.clear()
            # The server's folder says nothing about the caller's project.
            found = self._facades[key] = self.eng.workspace(workspace).from_elsewhere().as_author(author_of(grant))
        return found
