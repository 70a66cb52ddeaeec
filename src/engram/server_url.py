"""The address of a server, `https://host:port`, checked and in one form.

Several servers of one store are separated by commas: `https://a:8377,b:8377`. A client uses the next one when one does
not answer. Plain `http` is refused for other machines, because it would show the token to everybody on the way.
"""

from __future__ import annotations

from typing import NamedTuple

from .errors import InvalidURL

DEFAULT_PORT = 8377
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_FORM = "A server is https://host, https://host:8377, or http://127.0.0.1:8377 on this machine."


class Server(NamedTuple):
    """One server."""

    host: str
    port: int
    #: Whether the connection is encrypted.
    tls: bool

    @property
    def authority(self) -> str:
        """The host with its port, as in a URL and in the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def normal(url: str) -> str:
    """The URL with every port, without a final slash. InvalidURL for what is no server."""
    found = servers(url)
    return f"{'https' if found[0].tls else 'http'}://{','.join(server.authority for server in found)}"


def servers(url: str) -> list[Server]:
    """The servers that a URL names."""
    scheme, _, rest = url.partition("://")
    hosts = rest.rstrip("/")
    if "@" in hosts:
        # Not quoted, because what is before the @ may be a password.
        raise InvalidURL(f"The server's URL has a user. The token goes into the setting `token`. {_FORM}")
    if scheme not in ("http", "https") or not hosts or any(sign in hosts for sign in "/?# \\"):
        raise InvalidURL(f"{url[:200]!r} is not the address of a server. {_FORM}")
    return [_server(each, url, scheme == "https") for each in hosts.split(",")]


def _server(text: str, url: str, tls: bool) -> Server:
    host, port = text, ""
    if text.startswith("["):
        host, closed, after = text[1:].partition("]")
        port = after.removeprefix(":")
        if not closed or (after and not after.startswith(":")):
            host = ""
    elif ":" in text:
        host, _, port = text.rpartition(":")
    # 443 is what https means without a port, and a proxy usually listens there.
    number = int(port) if port.isdecimal() and port.isascii() else (0 if port else 443 if tls else DEFAULT_PORT)
    if not host or (":" in host) != text.startswith("[") or not host.isascii() or not 0 < number < 65_536:
        raise InvalidURL(f"{url[:200]!r}: {text[:100]!r} is not a host with a port. {_FORM}")
    if not tls and host not in _LOOPBACK:
        raise InvalidURL(
            f"{url[:200]!r} is not encrypted, so others could read the token. Use https, or a tunnel to this machine."
        )
    return Server(host.lower(), number, tls)
