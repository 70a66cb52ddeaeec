"""Serves the recall socket of a store, as long as no other process does.

One thread accepts connections and reads requests, without blocking: a client that sends half a request keeps nobody
waiting. One other thread recalls. So a burst of hooks takes one thread from the process's own work, and what waits too
long is gone: its client has closed the connection. Connections, bytes and times are limited.

`take` is called from time to time. It begins to serve when the process that served before has ended, and begins anew
when the files were removed or the store was replaced.
"""

from __future__ import annotations

import os
import queue
import selectors
import socket
import threading
import weakref
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from ...lock_file import Lock
from . import peer, place, protocol
from .answering import Answering, refusal

if TYPE_CHECKING:
    from logging import Logger

    from ...client import Engram

#: Connections that the kernel keeps until they are accepted, and accepted ones that are not answered yet.
BACKLOG, MOST_CONNECTIONS = 16, 16
#: Seconds in which a client must have sent its request, and in which it must take its answer.
REQUEST_WITHIN, ANSWER_WITHIN = 1.0, 0.3
#: Seconds until the next attempt to accept after a failure, such as too many open files.
_PAUSE = 0.1
#: Seconds that a recall in progress gets at the end.
_PARTING = 1.0


class RecallServer:
    """The part of a process in the recall socket of its store: it serves, or another process does."""

    def __init__(self, eng: Engram) -> None:
        self._eng = eng
        self._answering = Answering(eng)
        self._serving: _Serving | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._failing = False

    def take(self) -> bool:
        """Serve, unless another process does; whether this process serves now."""
        settings = self._eng.settings
        has_model = settings.embedder != "none" and not settings.embedder.startswith("openai")
        if settings.recall_socket == "off" or not has_model or not peer.SUPPORTED:
            return False
        with self._lock:
            if self._closed:
                return False
            try:
                if self._serving is not None and not self._serving.is_in_place(place.find(settings)):
                    self._stop()
                if self._serving is None:
                    self._start(place.make(settings))
                self._failing = False
            except OSError as error:
                # Logged once, although every attempt fails.
                if not self._failing:
                    _log().warning("the recall socket cannot be served: %s", error)
                self._failing = True
            return self._serving is not None

    def close(self) -> None:
        """Stop serving and delete the files.

        If `take` is still at work, the files stay: the process must be able to end, and the next server replaces them.
        """
        self._closed = True
        if self._lock.acquire(timeout=_PARTING):
            try:
                self._stop()
            finally:
                self._lock.release()

    def _start(self, path: str | None) -> None:
        lock = Lock.take(f"{path}.lock") if path is not None else None
        if path is None or lock is None:
            return
        try:
            self._answering.prepare()
            self._serving = _Serving(path, lock, self._answering)
        finally:
            if self._serving is None:
                lock.release()

    def _stop(self) -> None:
        if self._serving is not None:
            self._serving.close()
            self._serving = None


class _Incoming(NamedTuple):
    """A connection whose request is not complete."""

    received: bytearray
    deadline: float


class _Serving:
    """A listening socket, and the threads that serve it."""

    def __init__(self, path: str, lock: Lock, answering: Answering) -> None:
        self._path = path
        self._lock = lock
        self._answering = answering
        self._listener = _listener(path)
        self._wake, self._woken = socket.socketpair()
        self._incoming: dict[socket.socket, _Incoming] = {}
        self._selector = selectors.DefaultSelector()
        #: Complete requests. None ends the thread.
        self._requests: queue.SimpleQueue[tuple[socket.socket, bytes] | None] = queue.SimpleQueue()
        #: Connections that are accepted and not closed yet.
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in ((self._listen, "engram-recall-listen"), (self._work, "engram-recall"))
        ]
        _all.add(self)
        for thread in self._threads:
            thread.start()

    def is_in_place(self, path: str | None) -> bool:
        """Whether clients of the store still find this socket, which they look for at that path."""
        there = path == self._path and os.path.exists(self._path) and self._lock.is_in_place()
        return there and all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        if self._lock.is_in_place():
            # Before the lock: afterwards another process may have a socket there.
            with suppress(FileNotFoundError):
                os.unlink(self._path)
        self._wake.close()
        self._requests.put(None)
        for thread in self._threads:
            thread.join(_PARTING)
        self._lock.release()
        _all.discard(self)

    def abandon(self) -> None:
        """Close everything in a forked child, which has no threads to serve with."""
        self._lock.abandon()
        for each in (self._listener, self._wake, self._woken, *self._incoming):
            each.close()

    def _listen(self) -> None:
        try:
            self._read_requests()
        except Exception as error:
            _log_failure(error)
        finally:
            self._end_listening()

    def _read_requests(self) -> None:
        """Accept connections and read requests until the process stops serving."""
        selector = self._selector
        selector.register(self._listener, selectors.EVENT_READ)
        selector.register(self._woken, selectors.EVENT_READ)
        while True:
            deadlines = [each.deadline for each in self._incoming.values()]
            ready = selector.select(max(0.0, min(deadlines) - monotonic()) if deadlines else None)
            for key, _ in ready:
                if key.fileobj is self._woken:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._receive(key.fileobj)  # type: ignore[arg-type]
            now = monotonic()
            for connection in [each for each, found in self._incoming.items() if found.deadline <= now]:
                self._drop(connection)

    def _end_listening(self) -> None:
        for connection in list(self._incoming):
            self._drop(connection)
        self._selector.close()
        self._listener.close()
        self._woken.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            threading.Event().wait(_PAUSE)
            return
        connection.setblocking(False)
        if not peer.is_same_user(connection):
            connection.close()
        elif not self._slots.acquire(blocking=False):
            _send(connection, protocol.framed(refusal(protocol.BUSY).body))
            connection.close()
        else:
            self._incoming[connection] = _Incoming(bytearray(), monotonic() + REQUEST_WITHIN)
            self._selector.register(connection, selectors.EVENT_READ)

    def _receive(self, connection: socket.socket) -> None:
        received = self._incoming[connection].received
        try:
            piece = connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        received += piece
        if not piece:
            self._drop(connection)
        elif received[0] != protocol.VERSION:
            self._drop(connection, protocol.framed(b""))
        elif len(received) >= protocol.HEADER:
            size = int.from_bytes(received[1 : protocol.HEADER], "big")
            if size > protocol.MAX_REQUEST:
                self._drop(connection, protocol.framed(refusal(protocol.TOO_LARGE).body))
            elif len(received) - protocol.HEADER >= size:
                self._selector.unregister(connection)
                del self._incoming[connection]
                body = bytes(received[protocol.HEADER : protocol.HEADER + size])
                self._requests.put((connection, body))

    def _drop(self, connection: socket.socket, last: bytes = b"") -> None:
        """Close a connection whose request is not used. `last` is sent if the client takes it at once."""
        self._selector.unregister(connection)
        del self._incoming[connection]
        if last:
            _send(connection, last)
        connection.close()
        self._slots.release()

    def _work(self) -> None:
        """Answer requests, one after the other."""
        while (request := self._requests.get()) is not None:
            connection, body = request
            then = None
            try:
                if not _is_gone(connection):
                    reply = self._answering.answer(body)
                    then = reply.then
                    connection.settimeout(ANSWER_WITHIN)
                    _send(connection, protocol.framed(reply.body))
            except Exception as error:
                _log_failure(error)
            finally:
                connection.close()
                self._slots.release()
            try:
                if then is not None:
                    then()
            except Exception as error:
                _log_failure(error)


def _listener(path: str) -> socket.socket:
    """A listening socket at the path. A socket file that a dead process left there is replaced."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        # The folder keeps others out until the mode is set.
        os.chmod(path, 0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _send(connection: socket.socket, data: bytes) -> None:
    """Send the data, unless the client is gone or does not take it."""
    with suppress(OSError):
        connection.sendall(data)


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client has closed its end, because its time was up."""
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _log_failure(error: Exception) -> None:
    """Log a failure by its type only: its message may quote a question."""
    _log().error("the recall socket could not answer: %s", type(error).__name__)


def _log() -> Logger:
    import logging

    return logging.getLogger("engram.recall")


#: For forked children.
_all: weakref.WeakSet[_Serving] = weakref.WeakSet()


def _abandon_all() -> None:
    for serving in list(_all):
        serving.abandon()


os.register_at_fork(after_in_child=_abandon_all)
