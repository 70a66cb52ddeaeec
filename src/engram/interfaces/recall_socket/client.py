"""Asks the recall socket. Every failure is the same: there is no answer, and the caller goes on without one.

The deadline covers the whole exchange. Connecting cannot block: if the server's queue of connections is full, the
kernel says so at once. Imports only what a hook can afford: `_socket` is the part of `socket` that is written in C.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from . import peer, place, protocol

if TYPE_CHECKING:
    from _socket import socket

    from ...client import Engram
    from ...config import Config
    from ...records import Hit

#: Seconds that a hook waits for an answer, and that the command line does.
PROMPT_DEADLINE, COMMAND_DEADLINE = 0.15, 2.0


def recall(
    eng: Engram, query: str, k: int = 5, *, within: float, note: bool = True, **options: Any
) -> list[Hit] | None:
    """As `eng.recall`, but by the model of a running `engram mcp`; None if none answers within so many seconds.

    The server only reads. The memories count as recalled here, when the answer has arrived, so that an answer that
    came too late does not count.
    """
    if options.get("mode") == "words":
        return None
    hits = ask(eng.settings, eng.workspace_name, query, k, within, **options)
    if hits is not None and note:
        eng.memories.used([hit.memory_id for hit in hits if hit.memory_id is not None])
    return hits


def ask(settings: Config, workspace: str, query: str, k: int, within: float, **options: object) -> list[Hit] | None:
    """The hits that the server of the settings' store finds; None if there is none or it does not answer in time."""
    if settings.recall_socket == "off" or settings.embedder == "none" or not peer.SUPPORTED:
        return None
    deadline = monotonic() + within
    try:
        path = place.find(settings)
        if path is None:
            return None
        request = {
            "workspace": workspace,
            "embedder": settings.embedder,
            "query": query,
            "k": k,
            "options": options,
        }
        body = protocol.encoded(request)
        if len(body) > protocol.MAX_REQUEST:
            return None
        answer = _exchange(path, protocol.framed(body), deadline)
        return None if answer is None else _hits(answer)
    except (OSError, ValueError, TypeError):
        # OSError: the server is gone or too slow. The others: it sends something else than a server of this release.
        return None


def _hits(answer: bytes) -> list[Hit] | None:
    message = protocol.decoded(answer)
    return None if "refused" in message else protocol.hits_from(message.get("hits"))


def _exchange(path: str, request: bytes, deadline: float) -> bytes | None:
    """Send a request and receive the answer; None if the server is not one to talk to."""
    from _socket import AF_UNIX, SOCK_STREAM, socket

    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(_left(deadline))
        connection.connect(path)
        if not peer.is_same_user(connection):
            return None
        connection.settimeout(_left(deadline))
        connection.sendall(request)
        header = _receive(connection, protocol.HEADER, deadline)
        size = int.from_bytes(header[1:], "big")
        if header[0] != protocol.VERSION or size > protocol.MAX_ANSWER:
            return None
        return _receive(connection, size, deadline)
    finally:
        connection.close()


def _receive(connection: socket, size: int, deadline: float) -> bytes:
    """Exactly so many bytes. OSError if the server closes before that, or the time is up."""
    pieces: list[bytes] = []
    while size:
        connection.settimeout(_left(deadline))
        piece = connection.recv(min(size, 1 << 16))
        if not piece:
            raise ConnectionResetError("the server closed the connection")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        # 0 would mean not to wait, and None to wait for ever.
        raise TimeoutError
    return left
