"""Lets nobody in without a token: pure ASGI, in front of every route.

A request without the secret of a token gets 401 at once; the store is not asked. With one, the request goes on, and
its token is verified in the thread that does its work, right before the work: that saves a second hop between threads.
Whoever needs the store gets it from `Caller.engram`, which verifies first. Should a route answer without that, the
guard verifies before the first byte of the answer leaves.

A browser sends the cookie of a login instead. Other sites can make it do that, so a request with a cookie that changes
something must come from a page of this server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...errors import EngramError, Forbidden, Unauthorized
from . import answers, cookies
from .answers import Message, Receive, Scope, Send, send_answer
from .pages import refused_page

if TYPE_CHECKING:
    from ...access_records import Grant
    from ...client import Engram
    from .service import Service

#: Every path that needs no token. Below a path that ends in a slash, none does.
OPEN = (
    *("/health", "/ready", "/.well-known/"),
    # A person logs in. The style of that page is no secret.
    *("/login", "/static/"),
    # OAuth's own: the consent asks for a login, and the others for what the client was given.
    *("/authorize", "/token", "/register", "/revoke"),
)

_OPEN_PATHS = frozenset(path for path in OPEN if not path.endswith("/"))
_OPEN_FOLDERS = tuple(path for path in OPEN if path.endswith("/"))
_CALLER = "engram.caller"
_WORKSPACE = b"x-engram-workspace"
#: The project of the folder that the caller works in. Relative paths count from it.
_PROJECT = b"x-engram-project"
_ONLY_READ = ("GET", "HEAD", "OPTIONS")


def is_open(path: str) -> bool:
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS)


def caller_of(scope: Scope) -> Caller:
    """Who makes this request. Only requests to open paths have no caller."""
    caller: Caller = scope[_CALLER]
    return caller


def caller_if_any(scope: Scope) -> Caller | None:
    caller: Caller | None = scope.get(_CALLER)
    return caller


class Caller:
    """Who makes a request, by the secret that it carries."""

    __slots__ = ("_by_cookie", "_grant", "_service", "headers", "secret", "used")

    def __init__(self, service: Service, secret: str, headers: dict[bytes, bytes], *, by_cookie: bool = False) -> None:
        self._service = service
        #: Identifies the token or the login. Never written anywhere.
        self.secret = secret
        self._by_cookie = by_cookie
        self._grant: Grant | None = None
        #: The workspace that the request was let into; empty before.
        self.used = ""
        #: The headers of the request; of several with the same name, the last.
        self.headers = headers

    @property
    def is_verified(self) -> bool:
        return self._grant is not None

    @property
    def name(self) -> str:
        """The name of the verified token; empty before."""
        return "" if self._grant is None else self._grant.name

    def grant(self) -> Grant:
        """What the caller may do, verified on the first call. Asks the store: call it in a thread."""
        if self._grant is None:
            self._grant = self._verified()
        return self._grant

    async def verify(self) -> Grant:
        """The same from the event loop."""
        if self._grant is None:
            return await self._service.readers.run(self.grant)
        return self._grant

    def verify_again(self) -> Grant:
        """What the caller may do now. A stream outlives the moment when its token was checked."""
        self._grant = self._verified()
        return self._grant

    def _verified(self) -> Grant:
        if self._by_cookie:
            return self._service.eng.access.logins.grant_of(self.secret)
        grant, _, audience = self._service.tokens.bearer(self.secret)
        if audience is not None and not self._service.places.owns(audience):
            raise Unauthorized(f"The token {grant.name!r} is for another server.")
        return grant

    def workspace(self) -> str:
        """The workspace of this request: the one in its header, else the token's, else the server's."""
        named = self.headers.get(_WORKSPACE)
        if named is not None:
            return named.decode("latin-1")
        return self.grant().workspace or self._service.eng.workspace_name

    def engram(self, needed: str) -> Engram:
        """The workspace of this request, with the token as author of what is written.

        Unauthorized or Forbidden unless the token allows it. Asks the store: call it in a thread.
        """
        workspace = self.workspace()
        project = self.headers.get(_PROJECT)
        named = None if project is None else project.decode("utf-8", "replace")
        found = self._service.facade(self.grant(), needed, workspace, named)
        self.used = workspace
        return found


class Guard:
    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        if is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        secret = _bearer(headers)
        by_cookie = secret is None
        if secret is None:
            secret = cookies.find(self._service.places, scope)
        if secret is None:
            missing = Unauthorized("This needs a token: Authorization: Bearer engram_…")
            await self._refuse(scope, send, missing)
            return
        if by_cookie and scope["method"] not in _ONLY_READ and not self._service.places.is_same_origin(scope):
            await self._refuse(scope, send, Forbidden("A page of another site sent this."))
            return
        caller = scope[_CALLER] = Caller(self._service, secret, headers, by_cookie=by_cookie)
        refused = False

        async def send_verified(message: Message) -> None:
            nonlocal refused
            if not caller.is_verified and not refused:
                try:
                    await caller.verify()
                except EngramError as error:
                    refused = True
                    await self._refuse(scope, send, error)
            if not refused:
                await send(self._challenged(scope, message))

        try:
            await self._app(scope, receive, send_verified)
        except Unauthorized as error:
            # Raised before an answer was begun: a large body is read only for a caller that is let in.
            await self._refuse(scope, send, error)

    async def _refuse(self, scope: Scope, send: Send, error: EngramError) -> None:
        answer = refusal(self._service, error)
        if scope["method"] == "GET" and b"text/html" in dict(scope["headers"]).get(b"accept", b""):
            answer = refused_page(error, _address(scope))

        async def send_challenged(message: Message) -> None:
            await send(self._challenged(scope, message))

        await send_answer(send_challenged, answer)

    def _challenged(self, scope: Scope, message: Message) -> Message:
        """A 401 with the header from which a client that knows OAuth learns where to begin."""
        if message["type"] == "http.response.start" and message["status"] == 401:
            metadata = f"{self._service.places.base(scope)}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer realm="engram", resource_metadata="{metadata}"'.encode("latin-1")
            message["headers"] = [*message.get("headers", ()), (b"www-authenticate", challenge)]
        return message


def refusal(service: Service, error: EngramError) -> answers.Answer:
    """The answer to a caller that is not let in. The guard adds a challenge."""
    return answers.refusal(error)


def _bearer(headers: dict[bytes, bytes]) -> str | None:
    """The secret in the header Authorization; None if there is none."""
    scheme, _, secret = headers.get(b"authorization", b"").partition(b" ")
    secret = secret.strip()
    return secret.decode("latin-1") if scheme.lower() == b"bearer" and secret else None


def _address(scope: Scope) -> str:
    """The path and query of a request, as they were sent."""
    query = scope["query_string"].decode("ascii", "replace")
    return quote(scope["path"]) + (f"?{query}" if query else "")
