"""The command `lyra-dream`: a pass of dreaming over Lyra's store, once or again and again."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..dream_records import summary
from ..errors import EngramError
from ..store_url import masked
from . import lyra_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FAILED, _CONFLICT = 1, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Exit code 0: a pass ran; 1: it failed; 2: wrong use; 4: another pass is running.

    A loop ends with 0 at SIGINT or SIGTERM. A pass that fails does not end it.
    """
    asked = _parser().parse_args(arguments)
    with _until_stopped() as stop:
        try:
            while True:
                code = _dream(asked.force, stop)
                if asked.loop is None:
                    return code
                if stop.wait(asked.loop):
                    return 0
        finally:
            lyra_store.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lyra-dream",
        description=f"Run one pass of dreaming over the store that {lyra_store.VARIABLE} names, else over your own.",
    )
    parser.add_argument("--force", action="store_true", help="run every stage, even if little is pending")
    parser.add_argument(
        "--loop", type=_seconds, metavar="SECONDS", help="run a pass again and again, with this pause, until stopped"
    )
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= threading.TIMEOUT_MAX:  # also refuses NaN
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds of at least 1")
    return seconds


def _dream(force: bool, stop: threading.Event) -> int:
    """Run one pass and print a line about it; the exit code."""
    try:
        with lyra_store.opened() as eng:
            (report,) = eng.dream(force=force, stop=stop)
            waiting, store = len(eng.proposals.list()), masked(eng.settings.url)
    except EngramError as error:
        print(f"lyra-dream: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    print(summary(report), flush=True)
    if waiting:
        what = "1 proposal waits" if waiting == 1 else f"{waiting} proposals wait"
        print(f"{what} for your decision: engram dream review --store {shlex.quote(store)}", flush=True)
    if report.id is not None:
        return 0
    return _CONFLICT if report.session_id else _FAILED


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """SIGINT and SIGTERM end the work after its current step; a second one ends it at once."""
    stop = threading.Event()

    def end(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
