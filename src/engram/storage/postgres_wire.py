"""Sends statements to a PostgreSQL server, many in one round trip, and reads their results.

This uses the driver's connection, its conversion of values and its `libpq`, but not its cursors: those cost several
times as much for each statement. Statements that are sent together form one pipeline. If one fails, the server skips
the rest.

A statement that is used again on a connection is prepared there. Behind a pooler that is not possible: the next
transaction may get another server connection.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.waiting import Ready, Wait

from .engine import Answer
from .postgres_errors import TookTooLong

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult

    from .engine import Row

    Connection = psycopg.Connection[Row]

#: A connection prepares no more statements than this. The store has fewer, but their types may vary.
_MOST_PREPARED = 500
_AUTO = [PyFormat.AUTO] * 100
_OK, _ROWS = pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK
_FAILED, _SKIPPED, _END = pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED, pq.ExecStatus.PIPELINE_SYNC


class Request(Answer):
    """A statement with its values, and its rows once it was sent."""

    __slots__ = ("count", "sql", "status", "values")

    def __init__(self, sql: bytes, values: Sequence[object] = ()) -> None:
        super().__init__()
        self.sql = sql
        self.values = values
        #: How many rows it changed or returned.
        self.count = 0
        #: What the server calls what it did, such as `COMMIT`.
        self.status = b""


class _Key(NamedTuple):
    """What a prepared statement is known by."""

    sql: bytes
    types: tuple[int, ...]


class _Dumped(NamedTuple):
    """Values in the server's form."""

    parameters: Any = None
    types: Sequence[int] = ()
    formats: Any = None


class Wire:
    """One connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._transformer = Transformer(connection)
        #: Whether statements may be prepared; None before the first transaction has checked it.
        self.prepares: bool | None = None
        #: See `Transaction.slot`.
        self.slot = 0
        self._prepared: dict[_Key, bytes] = {}
        self._seen: set[_Key] = set()
        self._names = itertools.count(1)

    def send(self, requests: Sequence[Request], early: int = 0, limit: float | None = None) -> None:
        """Send requests in one round trip and read their results. Raises the error of the first one that fails.

        The first answer must come within `limit` seconds. The answers to the first `early` requests are sent at once.
        """
        connection, pgconn = self.connection, self.connection.pgconn
        # A value that cannot be sent is found before anything is.
        dumped = [self._dump(request) for request in requests]
        pgconn.enter_pipeline_mode()
        try:
            expected: list[tuple[Request, _Key | None]] = []
            for place, (request, values) in enumerate(zip(requests, dumped, strict=True), 1):
                self._post(request, values, expected)
                if place == early and not self.prepares:
                    pgconn.send_flush_request()
            pgconn.pipeline_sync()
            results = connection.wait(_communicate(connection, limit))
        except BaseException:
            # Nobody knows what the server has done, so the connection cannot be used any more.
            connection.close()
            raise
        error: psycopg.Error | None = None
        for (request, preparing), result in zip(expected, results, strict=True):
            failed = self._take(request, preparing, result)
            error = error or failed
        if pgconn.status == pq.ConnStatus.BAD:
            connection.close()
        else:
            pgconn.exit_pipeline_mode()
        if error is not None:
            raise error

    def _dump(self, request: Request) -> _Dumped:
        if not request.values:
            return _Dumped()
        count = len(request.values)
        auto = _AUTO[:count] if count <= len(_AUTO) else [PyFormat.AUTO] * count
        parameters = self._transformer.dump_sequence(request.values, auto)
        return _Dumped(parameters, self._transformer.types or (), self._transformer.formats)

    def _post(self, request: Request, values: _Dumped, expected: list[tuple[Request, _Key | None]]) -> None:
        pgconn, sql = self.connection.pgconn, request.sql
        key = _Key(sql, tuple(values.types))
        name = self._prepared.get(key)
        if name is None and self.prepares and key in self._seen and len(self._prepared) < _MOST_PREPARED:
            name = b"engram_%d" % next(self._names)
            pgconn.send_prepare(name, sql, param_types=values.types)
            expected.append((Request(sql), key))
            # Another request of the same pipeline may use it. If the server refuses it, the pipeline fails anyway.
            self._prepared[key] = name
        if name is not None:
            pgconn.send_query_prepared(name, values.parameters, param_formats=values.formats)
        else:
            self._seen.add(key)
            pgconn.send_query_params(sql, values.parameters, param_types=values.types, param_formats=values.formats)
        expected.append((request, None))

    def _take(self, request: Request, preparing: _Key | None, result: PGresult) -> psycopg.Error | None:
        """Read one result; its error, if it has one."""
        status = result.status
        if status == _ROWS:
            self._transformer.set_pgresult(result)
            request.rows = self._transformer.load_rows(0, result.ntuples, tuple)
            request.count = result.ntuples
            return None
        if status == _OK:
            request.rows = []
            request.count = result.command_tuples or 0
            request.status = result.command_status or b""
            return None
        if preparing is not None:
            self._prepared.pop(preparing, None)
        if status == _SKIPPED:
            # The error of an earlier statement is the reason.
            return psycopg.errors.InternalError_("an earlier statement of the transaction failed")
        return psycopg.errors.error_from_result(result, encoding=self.connection.info.encoding)


def _communicate(connection: Connection, limit: float | None) -> PQGen[list[PGresult]]:
    """Send what is waiting, and read the results up to the end of the pipeline."""
    pgconn = connection.pgconn
    results: list[PGresult] = []
    deadline = None if limit is None else time.monotonic() + limit
    while pgconn.flush():
        # The server may have to send results before it reads on.
        ready = yield Wait.RW
        if ready & Ready.R:
            _receive(connection, results)
    while True:
        while pgconn.is_busy():
            ready = yield Wait.R
            if ready:
                _receive(connection, results)
            elif deadline is not None and not results and time.monotonic() > deadline:
                raise TookTooLong(f"no answer for {limit:g} seconds")
        result = pgconn.get_result()
        if result is None:
            if pgconn.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection was lost")
            continue
        if result.status == _END:
            return results
        results.append(result)
        if result.status == _FAILED and pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.errors.error_from_result(result, encoding=connection.info.encoding)


def _receive(connection: Connection, results: Sequence[PGresult]) -> None:
    """Read what the server has sent. If it has closed the connection, raises its reason if it gave one."""
    try:
        connection.pgconn.consume_input()
    except psycopg.OperationalError as lost:
        for result in results:
            if result.status == _FAILED:
                raise psycopg.errors.error_from_result(result, encoding=connection.info.encoding) from lost
        raise
