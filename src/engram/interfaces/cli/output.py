"""Handle output that cannot be written: a closed pipe, a full disk, a stream that was closed from the start.

Python flushes its buffers again when it ends, and would report the error again. So after a failure the stream is
redirected to the null device.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import NoReturn, TextIO

#: What a shell reports for a program that was ended by SIGPIPE; programs that are not ended use the same number.
BROKEN_PIPE = 141
FAILED = 1


class Closed(io.TextIOBase):
    """Stands in for a standard output that was closed before the program started, where Python has None."""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> NoReturn:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def prepare() -> None:
    """Replace standard streams that were closed before the program started, where Python has None.

    A closed output fails, as other outputs do; otherwise the result would be lost silently. A closed input is empty.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


class Guard:
    code = FAILED


@contextlib.contextmanager
def guarded() -> Iterator[Guard]:
    """An error in writing the output ends the block; the guard has the exit code."""
    guard = Guard()
    out, err = sys.stdout, sys.stderr
    try:
        yield guard
    except SystemExit:
        # When a pipe is closed, click replaces the streams and ends the program by itself.
        if sys.stdout is out:
            raise
        sys.stdout, sys.stderr = out, err
        guard.code = _failed(BrokenPipeError())
    except OSError as error:
        if not _is_about_output(error):
            raise
        guard.code = _failed(error)


def _failed(error: OSError) -> int:
    """Print what is wrong in one line, except for a closed pipe; the exit code."""
    _drop(sys.stdout)
    if isinstance(error, BrokenPipeError):
        _drop(sys.stderr)
        return BROKEN_PIPE
    why = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    try:
        print(f"Error: Standard output cannot be written: {why}.", file=sys.stderr, flush=True)
    except (OSError, AttributeError):
        _drop(sys.stderr)
    return FAILED


def _is_about_output(error: OSError) -> bool:
    """Whether it came from standard output or standard error, and not from a file that the command works on."""
    if isinstance(error, BrokenPipeError):
        return True
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EDQUOT, errno.EFBIG)


def _drop(stream: TextIO | None) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        assert stream is not None
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
