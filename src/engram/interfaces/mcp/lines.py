"""Connects the SDK's server to lines of text.

The SDK's own transport reads standard input by itself, so it cannot take over a conversation that `early.py` has begun.
It also passes every line through a worker thread, once to read it and twice to write it. Here another thread reads the
lines, and the server writes its answers directly: a call that only reads is a fifth shorter (see docs/benchmarks.md).
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server import Server


_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Lines(Protocol):
    def hand_over(self, take: Callable[[str], object]) -> None:
        """Pass every line to `take` from now on, first those that wait. An empty line is the end."""

    def write(self, line: str) -> None:
        """Send a line, given without its line end."""


async def converse(server: Server[Any], lines: Lines) -> None:
    """Serve one client until its input ends."""
    loop = asyncio.get_running_loop()
    arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)

    def arrive(line: str) -> None:
        if line:
            arrived.send_nowait(_parsed(line))
        else:
            arrived.close()

    lines.hand_over(lambda line: loop.call_soon_threadsafe(arrive, line))
    await server.run(incoming, _Outgoing(lines), server.create_initialization_options())


def _parsed(line: str) -> SessionMessage | Exception:
    try:
        return _message(line)
    except ValueError as error:
        try:
            return _message(without_surrogates(line))
        except (ValueError, RecursionError):
            return error  # the server reports it to the client


def _message(line: str) -> SessionMessage:
    return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))


def without_surrogates(line: str) -> str:
    r"""The line with every lone surrogate replaced.

    A client that cuts a text in the middle of an emoji sends `\ud83d`. The SDK cannot read that, and a request that it
    cannot read gets no answer.
    """
    return _SURROGATE.sub(_REPLACEMENT, json.dumps(json.loads(line), ensure_ascii=False))


class _Outgoing:
    """The stream that the server sends its messages to."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def send(self, item: SessionMessage, /) -> None:
        self._lines.write(item.message.model_dump_json(by_alias=True, exclude_unset=True))

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> _Outgoing:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass
