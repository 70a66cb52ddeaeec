"""One request to a server, for a program that makes one and ends: a hook.

`http.client` takes longer to import than a whole hook may take. So this module writes the request and reads the answer
itself, with the part of `socket` that is written in C. It uses HTTP/1.0, in which an answer has a length or ends with
the connection. Everything else in an answer is refused: other versions, redirects, encodings, more bytes than announced
or allowed. The deadline covers the whole exchange, the lookup of the host's name included.

`ssl` is imported only for `https`. Its default settings verify the certificate and the host's name; `SSL_CERT_FILE` and
`SSL_CERT_DIR` name other authorities.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket

    from ..server_url import Server

#: Bytes of the headers and of the body of an answer.
MAX_HEADERS, MAX_BODY = 16 * 1024, 4 * 1024 * 1024
#: The most addresses of a host that are tried.
MOST_ADDRESSES = 4
#: OpenSSL's codes for a certificate that nobody signed whom this machine trusts.
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)


class Answer(NamedTuple):
    status: int
    body: bytes


class Unanswered(Exception):
    """The server gave no usable answer. The message has nothing of the request or of the answer in it."""


class Disconnected(Unanswered):
    """The connection failed before anything of an answer came. The request may have been handled or not."""


def post(
    server: Server, path: str, headers: Mapping[str, str], body: bytes, *, deadline: float, reach_by: float
) -> Answer:
    """Send a request and receive the answer. Both times are those of the clock `monotonic`.

    The connection has to be made until `reach_by`, so that there is time for another server.
    """
    connection = _connected(server, min(reach_by, deadline))
    try:
        try:
            _set_timeout(connection, deadline)
            connection.sendall(_request(server, path, headers, body))
        except TimeoutError:
            _too_slow()
        except OSError:
            # The server may have answered and closed the connection before it has read everything.
            pass
        return _answer(connection, deadline)
    finally:
        connection.close()


def _request(server: Server, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    fields = {
        "Host": server.authority,
        "Connection": "close",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }
    lines = [f"POST {path} HTTP/1.0", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header has more than one line")
    return "\r\n".join(lines).encode("latin-1") + body


def _connected(server: Server, deadline: float) -> socket:
    """A connection to the first address of the server that accepts one."""
    from _socket import SOCK_STREAM

    addresses = _addresses(server, deadline)[:MOST_ADDRESSES]
    if server.tls:
        from socket import socket
    else:
        from _socket import socket  # type: ignore[assignment]
    reason: OSError = TimeoutError()
    for left, (family, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        remaining = deadline - monotonic()
        if remaining <= 0:
            break
        connection = socket(family, SOCK_STREAM)
        try:
            # An address that does not answer must leave time for the next one.
            connection.settimeout(remaining / left)
            connection.connect(address)
            return _encrypted(connection, server.host, deadline) if server.tls else connection
        except OSError as error:
            connection.close()
            reason = error
        except BaseException:
            connection.close()
            raise
    _refuse_certificate(reason)
    raise Disconnected(f"The server cannot be reached: {_described(reason)}.")


def _encrypted(connection: socket, host: str, deadline: float) -> socket:
    from ssl import create_default_context

    context = create_default_context()
    _set_timeout(connection, deadline)
    return context.wrap_socket(connection, server_hostname=host)


def _refuse_certificate(error: OSError) -> None:
    """A certificate that is not valid stays so, and the person has to know."""
    if type(error).__name__ == "SSLCertVerificationError":
        raise Unanswered(f"The server's certificate is not valid: {certificate_problem(error)}.") from None


def certificate_problem(error: Exception) -> str:
    """Why a certificate is refused, and what helps if this machine does not know who signed it."""
    why = str(getattr(error, "verify_message", "")).rstrip(".")
    if getattr(error, "verify_code", 0) not in _UNKNOWN_AUTHORITY:
        return why
    return f"{why}. If a private authority signed it, set SSL_CERT_FILE to the file with that authority's certificate"


def _addresses(server: Server, deadline: float) -> list[tuple[int, tuple[str, int]]]:
    """The addresses of a server. A lookup that takes too long goes on in a thread of its own."""
    from _socket import AF_INET, AF_INET6, inet_pton

    for family in (AF_INET6, AF_INET):
        try:
            inet_pton(family, server.host)
        except OSError:
            continue
        return [(family, (server.host, server.port))]
    from threading import Thread

    found: list[list[tuple[int, tuple[str, int]]]] = []
    looking = Thread(target=lambda: found.append(_looked_up(server)), daemon=True)
    looking.start()
    looking.join(max(0.0, deadline - monotonic()))
    if not found:
        raise Disconnected("The lookup of the server's name takes too long.")
    if not found[0]:
        raise Disconnected("The server's name is not known.")
    return found[0]


def _looked_up(server: Server) -> list[tuple[int, tuple[str, int]]]:
    from _socket import AF_INET, AF_INET6, SOCK_STREAM, getaddrinfo

    try:
        entries = getaddrinfo(server.host, server.port, 0, SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    known = [(family, address) for family, _, _, _, address in entries if family in (AF_INET, AF_INET6)]
    return [(family, (str(address[0]), server.port)) for family, address in known]


def _answer(connection: socket, deadline: float) -> Answer:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = _receive(connection, deadline, is_first=not received)
        received += piece
        if len(received) > MAX_HEADERS and b"\r\n\r\n" not in received[:MAX_HEADERS]:
            raise Unanswered("The answer's headers are too long.")
        if not piece:
            raise Unanswered("The answer ends in its headers.")
    head, _, body = received.partition(b"\r\n\r\n")
    status, length = _parsed(head)
    return Answer(status, _body(connection, body, length, deadline))


def _parsed(head: bytes) -> tuple[int, int | None]:
    """The status and the length of an answer. Unanswered for what no server of HTTP/1.0 sends."""
    first, *lines = head.split(b"\r\n")
    version, _, rest = first.partition(b" ")
    status = rest[:3]
    if version not in (b"HTTP/1.0", b"HTTP/1.1") or not status.isdigit() or rest[3:4] not in (b"", b" "):
        raise Unanswered("What answers is no HTTP server.")
    length: int | None = None
    for line in lines:
        name, colon, value = line.partition(b":")
        name, value = name.lower(), value.strip()
        if not colon or not name or name != name.strip():
            raise Unanswered("A header of the answer is malformed.")
        if name == b"content-length":
            if not value.isdigit() or len(value) > 12 or length not in (None, int(value)):
                raise Unanswered("The length of the answer is malformed.")
            length = int(value)
        elif name == b"transfer-encoding" or (name == b"content-encoding" and value.lower() != b"identity"):
            raise Unanswered("The answer has an encoding that was not asked for.")
    return int(status), length


def _body(connection: socket, body: bytes, length: int | None, deadline: float) -> bytes:
    most = MAX_BODY if length is None else length
    if most > MAX_BODY:
        raise Unanswered("The answer is too long.")
    pieces, size = [body], len(body)
    while size <= most and (size < most or length is None):
        piece = _receive(connection, deadline)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    if size > most:
        raise Unanswered("The answer is too long.")
    if length is not None and size < length:
        raise Unanswered("The answer is not complete.")
    return b"".join(pieces)


def _receive(connection: socket, deadline: float, *, is_first: bool = False) -> bytes:
    """The next bytes; none at the end. Disconnected if the connection ends before the first ones."""
    _set_timeout(connection, deadline)
    try:
        piece = connection.recv(1 << 16)
    except TimeoutError:
        _too_slow()
    except OSError as error:
        if is_first:
            raise Disconnected(f"The connection broke: {_described(error)}.") from None
        raise Unanswered(f"The connection broke: {_described(error)}.") from None
    if is_first and not piece:
        raise Disconnected("The server closed the connection without an answer.")
    return piece


def _set_timeout(connection: socket, deadline: float) -> None:
    connection.settimeout(_left(deadline))


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        # 0 would mean not to wait, and None to wait for ever.
        _too_slow()
    return left


def _too_slow() -> NoReturn:
    raise Unanswered("The server did not answer in time.") from None


def _described(error: OSError) -> str:
    return "it takes too long" if isinstance(error, TimeoutError) else error.strerror or type(error).__name__
