"""The log of the server: one line for each request, and what goes wrong.

On a terminal the lines are for people, elsewhere each is a JSON object. A line never holds a stored text, a query, a
body, a token or a password. The fields of a request are chosen for that. A message of any other part loses what it
quotes, and an exception is named by its type and the places in the code.

A thread writes the lines. A reader of the log that has stopped reading must not stop the server: beyond a number of
waiting lines, further ones are counted and dropped.
"""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, TextIO

from ...redact import redact
from ...safe_text import one_line, without_quotes
from .answers import described

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Lines that wait to be written.
MOST_WAITING = 10_000
#: Characters of a message.
_LONGEST = 2_000
#: Seconds that the last lines get at the end.
_PARTING = 2.0

#: Loggers whose messages are written, from which level on. The tiers also tell what they do, which is no news here.
_LEVELS = {
    "engram": logging.WARNING,
    "engram.http": logging.INFO,
    "mcp": logging.WARNING,
    "uvicorn.error": logging.INFO,
    "asyncio": logging.WARNING,
}
#: What uvicorn says about an event stream that this server has ended because its reader is too slow.
_EXPECTED = frozenset({"ASGI callable returned without completing response."})


class RequestLine(NamedTuple):
    """What is logged about a request."""

    method: str
    #: The template of the path, never the path itself.
    route: str
    status: int
    seconds: float
    #: The name of the token; empty if the caller was not let in.
    token: str
    #: Empty if the request was not about one.
    workspace: str
    id: str


class Log:
    """Writes lines in a thread of its own."""

    def __init__(self, stream: TextIO | None = None, *, for_people: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._for_people = self._stream.isatty() if for_people is None else for_people
        self._lines: queue.SimpleQueue[tuple[float, RequestLine | logging.LogRecord] | None] = queue.SimpleQueue()
        self._dropped = 0
        #: The last second, and how it is written.
        self._second = (0, "")
        self._thread = threading.Thread(target=self._write, name="engram-log", daemon=True)
        self._handler = _Handler(self)
        self._earlier: list[tuple[logging.Logger, list[logging.Handler], int, bool]] = []

    def start(self) -> None:
        """Begin to write, and take the messages of all parts of the server."""
        self._thread.start()
        for name, level in _LEVELS.items():
            logger = logging.getLogger(name)
            self._earlier.append((logger, logger.handlers[:], logger.level, logger.propagate))
            logger.handlers[:] = [self._handler]
            logger.setLevel(level)
            logger.propagate = False

    def close(self) -> None:
        """Write what waits, and leave the loggers as they were."""
        for logger, handlers, level, propagate in self._earlier:
            logger.handlers[:] = handlers
            logger.setLevel(level)
            logger.propagate = propagate
        self._earlier.clear()
        self._lines.put(None)
        self._thread.join(_PARTING)

    def request(self, line: RequestLine) -> None:
        self._put(line)

    def _put(self, line: RequestLine | logging.LogRecord) -> None:
        if self._lines.qsize() >= MOST_WAITING:
            self._dropped += 1
        else:
            self._lines.put((time.time(), line))

    def _write(self) -> None:
        ended = False
        while not ended:
            lines = []
            item = self._lines.get()
            while item is not None:
                lines.append(self._shown(*item))
                if self._lines.empty() or len(lines) >= 1_000:
                    break
                item = self._lines.get()
            ended = item is None
            if self._dropped:
                lines.append(self._line(time.time(), "WARNING", message=f"{self._dropped} lines were dropped"))
                self._dropped = 0
            try:
                self._stream.write("".join(lines))
                self._stream.flush()
            except (OSError, ValueError):
                continue  # nobody can read the log any more; the server goes on

    def _shown(self, at: float, line: RequestLine | logging.LogRecord) -> str:
        if isinstance(line, RequestLine):
            level = "INFO" if line.status < 500 else "ERROR"
            if self._for_people:
                who = " ".join(filter(None, (line.token, line.workspace)))
                text = f"{line.method} {line.route} {line.status} {line.seconds * 1000:.1f} ms  {who}  {line.id}"
                return self._line(at, level, message=text)
            # Put together by hand, which takes a fifth of the time. Only the names need quoting.
            who = f',"token":{json.dumps(line.token)}' if line.token else ""
            where = f',"workspace":"{line.workspace}"' if line.workspace else ""
            return (
                f'{{"time":"{self._stamp(at)}","level":"{level.lower()}","method":"{line.method}","route":"{line.route}"'
                f',"status":{line.status},"ms":{line.seconds * 1000:.2f}{who}{where},"id":"{line.id}"}}\n'
            )
        return self._line(at, line.levelname, logger=line.name, message=message_of(line))

    def _stamp(self, at: float) -> str:
        second = int(at)
        if second != self._second[0]:
            self._second = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second[1]}.{int(at % 1 * 1000):03d}Z"

    def _line(self, at: float, level: str, **fields: object) -> str:
        stamp = self._stamp(at)
        if self._for_people:
            return f"{stamp} {level:<7} {fields['message']}\n"
        values: Mapping[str, object] = {"time": stamp, "level": level.lower(), **fields}
        return json.dumps(values, ensure_ascii=True, separators=(",", ":")) + "\n"


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def handle(self, record: logging.LogRecord) -> bool:
        if record.msg not in _EXPECTED:
            self._log._put(record)
        return True


def message_of(record: logging.LogRecord) -> str:
    """The message of a part of the server, without what it quotes."""
    try:
        text = record.getMessage()
    except Exception:
        text = str(record.msg)
    if record.exc_info and record.exc_info[1] is not None:
        text = f"{text.partition(chr(10))[0]}: {described(record.exc_info[1])}"
    return one_line(redact(without_quotes(text)), _LONGEST)
