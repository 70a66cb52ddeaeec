"""What all requests of one process share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ... import checks
from ...access.permission import author_of, require
from ...errors import EngramError
from . import answers
from .answers import Answer
from .chores import Chores
from .feed import Feed
from .logs import Log
from .metrics import Metrics
from .origins import places
from .threads import SharedWrites, Threads

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...access_records import Grant
    from ...client import Engram
    from .calls import Kind
    from .options import Options

_T = TypeVar("_T")

#: Threads by engine: for short reads, for short writes, and for long work. They are apart, so that no reader waits
#: behind writers, and nothing short behind a model. SQLite has one writer at a time. PostgreSQL gets about as many as
#: there are connections in its pool.
_THREADS = {"sqlite": (4, 2, 4), "postgresql": (6, 6, 4)}
#: Threads in which waiting claims look. They are few: a look is short.
_WAITERS = 2
#: Seconds that threads get to end.
_PARTING = 1.0
#: Facades that are kept ready, by workspace, author and project.
_MOST_FACADES = 256


class Service:
    """The store and everything around it. `start` and `stop` are called in the event loop that serves."""

    readers: Threads
    writers: Threads
    workers: Threads
    #: For the looks of waiting claims.
    waiters: Threads
    #: The application that this is the service of.
    app: FastAPI
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
        self._chores: Chores | None = None
        self._facades: dict[tuple[str, str, str | None], Engram] = {}

    async def start(self) -> None:
        #: The event loop that serves.
        self.loop = asyncio.get_running_loop()
        #: Set when the process was asked to stop.
        self.stopping = asyncio.Event()
        on_server = self.eng.settings.url.startswith("postgresql://")
        readers, writers, workers = _THREADS["postgresql" if on_server else "sqlite"]
        self.readers = Threads(self.options.readers or readers, "read")
        self.writers = Threads(self.options.writers or writers, "write")
        self.workers = Threads(workers, "work")
        self.waiters = Threads(_WAITERS, "wait")
        self._threads = {"reads": self.readers, "writes": self.writers, "long work": self.workers}
        # PostgreSQL has many writers. In one transaction they would take their locks in any order.
        shared = self.writers if on_server else SharedWrites("shared", self.eng.write, self._failed)
        self._threads["shared writes"] = shared
        self.feed = Feed(self)
        self.feed.start()
        if self.options.log:
            self.log = Log()
            self.log.start()
        if self.options.chores:
            self._chores = Chores(self)
            self._chores.start()

    def begin_stop(self) -> None:
        """End what would go on for long: event streams, and claims that wait."""
        self.stopping.set()
        self.feed.end_streams()

    async def stop(self) -> None:
        await self.feed.stop()
        if self._chores is not None:
            self._chores.close(_PARTING)
        for threads in {*self._threads.values(), self.waiters}:
            threads.close(_PARTING)
        if self.log is not None:
            self.log.close()

    def run(self, kind: Kind, job: Callable[[], _T]) -> asyncio.Future[_T]:
        """Do some work in a thread of this kind."""
        return self._threads[kind].run(job)

    def _failed(self, error: Exception) -> Answer:
        if isinstance(error, EngramError):
            return answers.refusal(error)
        return answers.mistake(error, "a shared transaction")

    def facade(self, grant: Grant, needed: str, workspace: str, project: str | None = None) -> Engram:
        """A workspace, if the grant includes this scope in it. What is written through it has the grant as author.

        The caller works in `project`, if it is known.
        """
        checks.workspace(workspace)
        require(grant, needed, workspace)
        key = (workspace, grant.name, project)
        found = self._facades.get(key)
        if found is None:
            if len(self._facades) >= _MOST_FACADES:
                self._facades.clear()
            # The server's folder says nothing about the caller's project.
            found = self._facades[key] = (
                self.eng.workspace(workspace).from_elsewhere(project).as_author(author_of(grant))
            )
        return found
