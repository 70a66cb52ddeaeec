"""HTTP connections with limits that uvicorn does not have: the size of a request's head, and the time it may take."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes of a request line with its headers.
MOST_HEAD = 64 * 1024
#: Seconds in which the head of a connection's first request must arrive.
HEAD_WITHIN = 30.0

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s"
)
_PROBLEM = (
    b'{"error":{"code":"headers_too_large","message":"The request line and headers are larger than %d bytes.",'
    b'"hint":"","details":{}}}' % MOST_HEAD
)


class Connection(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Bytes received since the last request ended, while the head of the next one is not complete.
        self._head = 0
        self._in_head = True
        #: Whether a request ended in the data that was received last.
        self._ended = False
        self._alarm: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._alarm = self.loop.call_later(HEAD_WITHIN, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_alarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._ended = False
        super().data_received(data)
        # After parsing: the data may be a whole request with a long body.
        if self._in_head:
            self._head = 0 if self._ended else self._head + len(data)
            if self._head > MOST_HEAD and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE % (len(_PROBLEM), _PROBLEM))
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._cancel_alarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head = self._ended = True
        super().on_message_complete()

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
