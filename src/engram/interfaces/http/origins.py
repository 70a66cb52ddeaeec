"""Which addresses the server answers to, and the headers of every answer.

A browser can be made to send requests to a server that only its user can reach: by a page of another site, or by a
name that its owner points to 127.0.0.1 (DNS rebinding). So each request must name this server in `Host`, and a request
that a page sends must come from a page of this server. Both are compared as a whole with a short list that is fixed
at the start. Nothing is parsed out of what a client sends, so there is no second reading of it to exploit.

This runs before everything else, also for websockets. A proxy must pass on `Host` as it received it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from ...errors import InvalidInput
from .answers import Message, Receive, Scope, Send, problem, send_answer

App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_DEFAULT_PORTS = {"http": 80, "https": 443}

#: Pages load their style and script from this server and nothing else. There is no inline script or style.
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
#: Headers of every answer. An answer that sets one of them itself keeps its own.
_HEADERS = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_HEADERS_OF_HTTPS = (*_HEADERS, (b"strict-transport-security", b"max-age=31536000"))


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    code: str
    message: str


class Places:
    """The addresses of the server."""

    def __init__(self, origins: Iterable[str], public: str | None = None) -> None:
        """`origins` as a browser writes them. `public` is the one that users outside see."""
        #: The origin of each value that `Host` may have, in lower case.
        self._by_host = {name.encode(): origin for origin in origins for name in _host_values(origin)}
        self._origins = {origin.encode(): origin for origin in self._by_host.values()}
        self._public = public

    def origin(self, scope: Scope) -> str:
        """The origin under which the client reached the server. The request was checked."""
        return self._by_host[_values(scope, b"host")[0].lower()]

    def base(self, scope: Scope) -> str:
        """The address of this server for links and OAuth: the public one, else the one that the client used."""
        return self._public or self.origin(scope)

    def bases(self) -> frozenset[str]:
        """Every address that `base` can return."""
        return frozenset({self._public} if self._public else self._origins.values())

    def owns(self, resource: str) -> bool:
        """Whether an address that a client names is one of this server."""
        try:
            parts = urlsplit(resource)
        except ValueError:
            return False
        asked = f"{parts.scheme}://{parts.netloc}{parts.path}".lower()
        return any(asked == base or asked.startswith(f"{base}/") for base in self.bases())

    def is_https(self, scope: Scope) -> bool:
        """Whether the client reached the server over HTTPS, also if a proxy ended it."""
        hosts = _values(scope, b"host")
        return len(hosts) == 1 and self._by_host.get(hosts[0].lower(), "").startswith("https:")

    def is_same_origin(self, scope: Scope) -> bool:
        """Whether a page of this server sent the request, and not a page of another site or of another of its names."""
        origins = _values(scope, b"origin")
        if not origins:
            return _values(scope, b"sec-fetch-site") == [b"same-origin"]
        return origins == [self.origin(scope).encode()]

    def refusal(self, scope: Scope) -> Refusal | None:
        """Why the request is not answered; None if it is."""
        host = origin = None
        for name, value in scope["headers"]:
            if name == b"host":
                if host is not None:
                    return _NO_HOST
                host = value
            elif name == b"origin":
                if origin is not None:
                    return _WRONG_ORIGIN
                origin = value
        if host is None:
            return _NO_HOST
        if host.lower() not in self._by_host:
            return _WRONG_HOST
        return None if origin is None or origin in self._origins else _WRONG_ORIGIN


_NO_HOST = Refusal(400, "invalid_host", "A request needs exactly one Host header.")
_WRONG_HOST = Refusal(421, "wrong_host", "This server has another address. --public-url tells it its address.")
_WRONG_ORIGIN = Refusal(403, "wrong_origin", "Pages of other sites may not use this server.")


class CheckOrigins:
    """Refuses requests that are not for this server."""

    def __init__(self, app: App, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None if scope["type"] == "lifespan" else self._places.refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            status, code, message = refusal
            await send_answer(send, problem(status, code, message))
        else:
            # Closing before accepting answers the handshake with 403.
            await send({"type": "websocket.close", "code": 1008})


class SecurityHeaders:
    """Adds the headers that every answer has."""

    def __init__(self, app: App, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        added = _HEADERS_OF_HTTPS if self._places.is_https(scope) else _HEADERS

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", ())
                names = {name for name, _ in given}
                message["headers"] = [*given, *(each for each in added if each[0] not in names)]
            await send(message)

        await self._app(scope, receive, answer)


def places(host: str, port: int, *, tls: bool = False, public_url: str | None = None) -> Places:
    """The addresses of a server that listens on `host` and `port`.

    InvalidInput for a public URL that cannot be used, or if there would be no address at all.
    """
    scheme = "https" if tls else "http"
    public = None if public_url is None else public_origin(public_url)
    names: tuple[str, ...] = ()
    if is_loopback(host):
        names = tuple(dict.fromkeys((*_LOOPBACK_NAMES, _bracketed(host))))
    elif not _is_any(host):
        names = (_bracketed(host),)
    own = [_origin(scheme, name.lower(), port) for name in names]
    if not own and public is None:
        raise InvalidInput(f"{host} is not an address that a client can type. Give the server's address as public URL.")
    return Places([*own, *([public] if public else [])], public)


def public_origin(url: str) -> str:
    """The origin of the URL under which users reach the server. InvalidInput if it is more than an origin."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or ""), parts.port
    except ValueError:
        raise _not_public(url, "is not a URL") from None
    if parts.scheme not in _DEFAULT_PORTS or not _is_host(host):
        raise _not_public(url, "must be like https://engram.example.org")
    if parts.path not in ("", "/") or _has_more(url, parts):
        raise _not_public(url, "must end after the host name and port")
    if parts.scheme == "http" and not is_loopback(host):
        raise _not_public(url, "must begin with https://, because tokens are sent to it")
    return _origin(parts.scheme, _bracketed(host), port or _DEFAULT_PORTS[parts.scheme])


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def client_address(scope: Scope, *, behind_proxy: bool = False) -> str:
    """The address of the client, for limits. An IPv6 client can choose among many, so its network counts.

    A proxy appends the address that it sees to `X-Forwarded-For`. Only that last entry is not the client's to choose.
    """
    client = scope.get("client")
    address = str(client[0]) if client else "local"
    if behind_proxy:
        forwarded = _values(scope, b"x-forwarded-for")
        address = forwarded[-1].decode("latin-1").rpartition(",")[2].strip() if forwarded else address
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _origin(scheme: str, host: str, port: int) -> str:
    """An origin as a browser writes it."""
    return f"{scheme}://{host}" if port == _DEFAULT_PORTS[scheme] else f"{scheme}://{host}:{port}"


def _host_values(origin: str) -> tuple[str, ...]:
    scheme, _, host = origin.partition("://")
    if host.rpartition(":")[2].isdigit() and not host.endswith("]"):
        return (host,)
    return host, f"{host}:{_DEFAULT_PORTS[scheme]}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host


def _is_host(host: str) -> bool:
    """Whether it is an IPv6 address or has only characters that a host name has."""
    if ":" in host:
        try:
            return bool(ipaddress.IPv6Address(host))
        except ValueError:
            return False
    return bool(host) and host.isascii() and all(char.isalnum() or char in "-._" for char in host)


def _has_more(url: str, parts: SplitResult) -> bool:
    return "@" in parts.netloc or bool(parts.query or parts.fragment) or url.endswith(("?", "#"))


def _not_public(url: str, problem: str) -> InvalidInput:
    return InvalidInput(f"The public URL is {url[:100]!r}; it {problem}.")


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
