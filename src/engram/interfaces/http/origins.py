"""Which addresses the server answers to, and the headers of every answer.

A browser can be made to send requests to a server that only its user can reach: by a page of another site, or by a
name that its owner points to 127.0.0.1 (DNS rebinding). So each request must name this server in `Host`, and a request
that a page sends must come from a page of this server. Both are compared as a whole with a short list that is fixed
at the start. Nothing is parsed out of what a client sends, so there is no second reading of it to exploit.

This runs before everything else, also for websockets. A proxy must pass on `Host` as it received it.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from ...errors import InvalidInput

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
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
_HTTPS_ONLY = (b"strict-transport-security", b"max-age=31536000")


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
        self._by_host = {name: origin for origin in origins for name in _host_values(origin)}
        self._origins = frozenset(self._by_host.values())
        self._public = public

    def base(self, scope: Scope) -> str:
        """The address of this server for links and OAuth: the public one, else the one that the client used."""
        return self._public or self._by_host[_values(scope, b"host")[0].lower()]

    def bases(self) -> frozenset[str]:
        """Every address that `base` can return."""
        return frozenset({self._public}) if self._public else self._origins

    def is_https(self, scope: Scope) -> bool:
        """Whether the client reached the server over HTTPS, also if a proxy ended it."""
        hosts = _values(scope, b"host")
        return len(hosts) == 1 and self._by_host.get(hosts[0].lower(), "").startswith("https:")

    def is_same_origin(self, scope: Scope) -> bool:
        """Whether a page of this server sent the request, and not a page of another site or of another of its names."""
        origins = _values(scope, b"origin")
        if not origins:
            return _values(scope, b"sec-fetch-site") == ["same-origin"]
        (host,) = _values(scope, b"host")
        return origins == [self._by_host[host.lower()]]

    def refusal(self, scope: Scope) -> Refusal | None:
        """Why the request is not answered; None if it is."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1:
            return Refusal(400, "invalid_host", "A request needs exactly one Host header.")
        if hosts[0].lower() not in self._by_host:
            return Refusal(
                421, "wrong_host", "This server does not answer to that host name. Start it with --public-url."
            )
        origins = _values(scope, b"origin")
        if origins and (len(origins) > 1 or origins[0] not in self._origins):
            return Refusal(403, "wrong_origin", "Pages of other sites may not use this server.")
        return None


class CheckOrigins:
    """Refuses requests that are not for this server, and adds the security headers to every answer."""

    def __init__(self, app: App, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = _secured(send, https=self._places.is_https(scope))
        refusal = self._places.refusal(scope)
        if refusal is None:
            await self._app(scope, receive, answer)
        elif scope["type"] == "http":
            await _refuse(answer, refusal)
        else:
            # Closing before accepting answers the handshake with 403.
            await receive()
            await send({"type": "websocket.close", "code": 1008})


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
        address = forwarded[-1].rpartition(",")[2].strip() if forwarded else address
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
    return InvalidInput(f"The public URL {url[:100]!r} {problem}.")


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _secured(send: Send, *, https: bool) -> Send:
    added = (*_HEADERS, _HTTPS_ONLY) if https else _HEADERS

    async def answer(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            given = [(name, value) for name, value in message.get("headers", ())]
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(each for each in added if each[0] not in names)]}
        await send(message)

    return answer


async def _refuse(send: Send, refusal: Refusal) -> None:
    shape: Mapping[str, object] = {"code": refusal.code, "message": refusal.message, "hint": "", "details": {}}
    body = json.dumps({"error": shape}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
