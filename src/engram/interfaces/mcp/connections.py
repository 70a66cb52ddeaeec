"""What is known about each client, and a claim of a client that waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...access_records import OWNER

if TYPE_CHECKING:
    from ...access_records import Grant
    from ...client import Engram
    from ...records import Lease
    from . import identity
    from .answers import Answer
    from .host import Host

#: The session type for a client that does not give its name.
UNKNOWN_CLIENT = "mcp"


class Kept:
    """What a process remembers about a client between two requests."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: Whether an answer has said why the model cannot be used.
        self.told = False


class Remote(NamedTuple):
    """A client that reaches the server over a network."""

    grant: Grant
    #: Its workspace. What is written through it has the client's token as author.
    eng: Engram
    #: The name under which the store remembers the client's session; None if nothing connects its requests.
    key: str | None = None
    #: Raises Unauthorized if the token counts no more. A claim may wait for minutes.
    verify: Callable[[], object] = lambda: None


class Connection:
    """One connected client, or one request of a client over HTTP."""

    def __init__(
        self,
        client: str = UNKNOWN_CLIENT,
        session: str | None = None,
        origin: identity.Origin | None = None,
        remote: Remote | None = None,
        kept: Kept | None = None,
    ) -> None:
        self.client = client
        self.remote = remote
        #: The session of calls that name none.
        self.session = session
        self.project: str | None = None
        #: What started the server; None for a client that reaches it over a network.
        self.origin = origin
        #: Whether the caller chose the session. Then it is neither looked up nor ended with the client.
        self.chosen = session is not None
        #: The session that hooks report for this client, also if it has ended.
        self.known: identity.Known | None = None
        #: Whether the client has completed its session.
        self.ended = False
        self.kept = kept or Kept()
        #: Answers with messages whose sending the transport reports; None if it does not.
        self.unsent: list[Answer] | None = None

    @property
    def grant(self) -> Grant:
        return OWNER if self.remote is None else self.remote.grant

    @property
    def key(self) -> str | None:
        return None if self.remote is None else self.remote.key


class Waiter(Protocol):
    """A claim in the queue for a lease, as the facade returns it."""

    @property
    def pause(self) -> float: ...
    def look(self) -> Lease | None: ...
    def sleep(self) -> None: ...
    def leave(self) -> None: ...


class Pending:
    """A waiting claim. As a context manager, it leaves the queue at its end."""

    def __init__(self, host: Host, connection: Connection, session: str, waiter: Waiter) -> None:
        self._host = host
        self.connection = connection
        self.session = session
        self.waiter = waiter

    @property
    def pause(self) -> float:
        """Seconds until the next check."""
        return self.waiter.pause

    def look(self) -> Answer | None:
        """The answer; None while the claim still waits."""
        return self._host.look(self)

    def sleep(self) -> None:
        self.waiter.sleep()

    def leave(self) -> None:
        self.waiter.leave()

    def __enter__(self) -> Pending:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
