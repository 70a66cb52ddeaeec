"""`engram-hook HARNESS`: one event of a harness as JSON on standard input, its answer on standard output.

A harness waits for its hooks, so this is the path on which everything Engram does must be cheap: no command-line
library, no logging, no dataclasses, no model, and each module imported where it is needed. It fails open: whatever
happens, it ends within its limit, and the agent goes on.

Three mechanisms keep the limit, each for what the one before cannot end:

1. A timer of the operating system. Its handler notes the failure and ends the process with 0. Python calls the handler
   between two steps of its own, during a regular expression, and when a read or write was interrupted.
2. A thread that does the same. It runs while the main thread waits in C without the interpreter's lock: in SQLite.
3. `faulthandler`'s thread, which is written in C and needs no lock. It runs while a call into C holds the lock. It ends
   the process with 1, which the harnesses that were tried take for a failure that blocks nothing, and prints to
   standard error where the process was.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import NoReturn

    from ...client import Engram
    from ...config import Config
    from .events import Answer, Event

#: What `engram-hook` is given, and the module that knows the harness.
HARNESSES = {"claude-code": "claude_code", "codex": "codex", "gemini": "gemini", "cursor": "cursor"}
#: What may follow the harness, and the setting that it is.
OPTIONS = {"--workspace": "workspace", "--store": "url"}
#: Seconds after which each of the three ends the process; a harness's own limit is longer everywhere.
LIMIT, THREAD_LIMIT, HARD_LIMIT = 1.5, 1.7, 2.0
#: Seconds after which it begins no more work that can wait.
ENOUGH = 1.0
#: Seconds between two looks at a store that is being upgraded.
_LOOK_EVERY = 0.05
#: Seconds that a write waits for others: as long as the limit allows, because an event that gives up is lost.
BUSY_TIMEOUT = 1.0
#: More is no event but a file in one; nothing of it is read.
MAX_INPUT = 16 * 1024 * 1024

_USAGE = f"""\
usage: engram-hook {"|".join(HARNESSES)} [--workspace NAME] [--store URL]
Reads one event of that harness as JSON from standard input and answers it. `engram install` sets it up."""


def main() -> None:
    """The program. Never fails, and takes no longer than its limit."""
    if "-h" in sys.argv or "--help" in sys.argv:
        print(_USAGE)
        return
    _guard()
    # A harness may show what is written there; what is worth knowing is in the log.
    sys.stderr = None
    try:
        respond(sys.argv[1] if len(sys.argv) > 1 else "", _input(), _write, _options(sys.argv[2:]))
    except BaseException as error:
        _note(_told(error))
    finally:
        # Not by the usual way out: tearing the interpreter down takes longer than most of what was done.
        os._exit(0)


def respond(
    harness: str,
    payload: bytes,
    write: Callable[[str], None] | None = None,
    options: dict[str, str] | None = None,
) -> str:
    """The answer to one event; empty when there is nothing to say. Whatever goes wrong is noted, not raised.

    `write` gets the answer as soon as there is one, before the work that can wait. `options` are settings that
    outrank all others.
    """
    adapter: ModuleType | None = None
    event: Event | None = None
    shown: list[str] = []

    def show(given: Answer) -> None:
        assert adapter is not None
        shown.append(_dump(adapter.answer(event, given)))
        if write is not None:
            write(shown[0])

    try:
        adapter = _adapter(harness)
        event = _event(adapter, harness, payload)
        if event is not None:
            _answer(event, harness, show, options or {})
    except Exception as error:
        _note(f"{harness[:20]} {event.name if event else ''}: {_told(error)}")
        if event is not None and not shown:
            show(_apology(event, error))
    return shown[0] if shown else ""


def _adapter(harness: str) -> ModuleType:
    from importlib import import_module

    if harness not in HARNESSES:
        raise ValueError(f"unknown harness {harness[:60]!r}; known are {', '.join(HARNESSES)}")
    return import_module(f".{HARNESSES[harness]}", __name__)


def _event(adapter: ModuleType, harness: str, payload: bytes) -> Event | None:
    import json

    if len(payload) > MAX_INPUT:
        raise ValueError(f"the payload is larger than {MAX_INPUT:,} bytes")
    given = json.loads(payload)
    if not isinstance(given, dict):
        raise ValueError(f"the payload is a {type(given).__name__}, not an object")
    event: Event | None = adapter.read(given)
    if event is None:
        _note(f"{harness}: unknown event {given.get('hook_event_name')!r:.60}")
    return event


def _options(words: list[str]) -> dict[str, str]:
    """The store and the workspace that `engram install` was told to use. Other words are ignored."""
    from itertools import pairwise

    return {OPTIONS[name]: value for name, value in pairwise(words) if name in OPTIONS}


def _answer(event: Event, harness: str, show: Callable[[Answer], None], options: dict[str, str]) -> None:
    from time import monotonic

    from .events import BEFORE_TOOL, START, Answer

    if event.kind == BEFORE_TOOL and not event.paths:
        return show(Answer())  # most tools write no file; the store need not be opened for them
    begun = monotonic()
    from ...config import load
    from .failures import forget
    from .handlers import handle

    _enter(event.folder)
    settings = load(busy_timeout=BUSY_TIMEOUT, url=options.get("url"), workspace=options.get("workspace"))
    if event.kind == START:
        for notice in settings.notices:
            _note(notice)

    def enough() -> bool:
        return monotonic() - begun > ENOUGH

    with _opened(settings, enough) as eng:
        handle(eng, event, harness, show, enough)
    forget(settings.data_dir)


def _opened(settings: Config, enough: Callable[[], bool]) -> Engram:
    """The store, as it is. A hook has no time to copy and migrate a large one, so another process does that.

    A small store is upgraded within a second. Waiting for that keeps the event from being lost.
    """
    from ...client import Engram
    from ...errors import UpgradeNeeded

    ended = False
    while True:
        try:
            return Engram(settings=settings, migrate=False)
        except UpgradeNeeded:
            if ended:
                raise
            # One that has just ended may have done it: the store is tried once more.
            ended = not _is_being_upgraded(settings)
            if enough():
                raise
            if not ended:
                from time import sleep

                sleep(_LOOK_EVERY)


def _enter(folder: str | None) -> None:
    """Go where the agent works: the project, its settings and relative paths are told from there."""
    from contextlib import suppress

    # Gone, or no folder: then where the harness has started this process.
    with suppress(OSError, ValueError):
        os.chdir(folder or ".")


def _apology(event: Event, error: Exception) -> Answer:
    """What the model is told about a failure: nothing, unless it is no accident any more."""
    from ...errors import SchemaTooNew, UpgradeNeeded
    from .events import START, Answer
    from .failures import LOG, count
    from .framing import frame

    newer, older = isinstance(error, SchemaTooNew), isinstance(error, UpgradeNeeded)
    tell = count(_folder(), new_session=event.kind == START, hopeless=newer or older, can_tell=event.takes_context)
    if not tell:
        return Answer()
    if newer:
        from ..._version import UPGRADE

        what = f"its store was written by a newer version than this hook's; upgrade it ({UPGRADE})"
    elif older:
        what = (
            "its store is being upgraded for a new version, and recording goes on when that is done. If this message "
            "comes again, run `engram upgrade`"
        )
    else:
        what = f"its hook keeps failing ({type(error).__name__}); the reasons are in {os.path.join(_folder(), LOG)}"
    return Answer(frame("notice", f"Engram does not see or record this session at the moment: {what}."))


def _is_being_upgraded(settings: Config) -> bool:
    """Whether another process is upgrading the store now; starts one, unless one ended just before."""
    from ..detached import is_running, start

    try:
        return start("upgrade", ["upgrade"], settings) or is_running("upgrade", settings)
    except Exception as error:
        _note(f"engram upgrade cannot be started: {type(error).__name__}: {error}")
        return False


def _folder() -> str:
    """Where the log is; also when the settings cannot be read, which may be what is to be logged.

    A project's file is not read: it may be the reason why something has to be logged.
    """
    from ...config import default_data_dir, user_data_dir

    try:
        return user_data_dir()
    except Exception:
        return default_data_dir()


def _told(error: BaseException) -> str:
    """What went wrong, without what anybody said: forgetting does not reach the log."""
    from ...safe_text import without_quotes

    return f"{type(error).__name__}: {without_quotes(str(error))}"


def _note(line: str) -> None:
    from .failures import note

    note(_folder(), line)


def _dump(answer: dict[str, object] | None) -> str:
    import json

    return "" if answer is None else json.dumps(answer)


def _write(answer: str) -> None:
    """To standard output. If that was closed from the start, its number may stand for any other file by now."""
    data = answer.encode()
    while data:
        data = data[os.write(1 if sys.stdout is not None else -1, data) :]


def _input() -> bytes:
    """Standard input, up to what is still an event; the rest is taken too, so that the harness is not cut off."""
    kept: list[bytes] = []
    size = 0
    while piece := os.read(0, 1 << 20):
        size += len(piece)
        if size <= MAX_INPUT + len(piece):
            kept.append(piece)
    return b"".join(kept)


def _guard() -> None:
    """End the process when its time is up, whatever it is doing."""
    import faulthandler
    import threading

    # Not from `signal`, which makes enumerations of these names: every hook would wait half a millisecond for that.
    from _signal import ITIMER_REAL, SIGALRM, setitimer, signal  # type: ignore[import-not-found]

    signal(SIGALRM, lambda *_: _give_up())
    setitimer(ITIMER_REAL, LIMIT)
    threading.Thread(target=_end_in_time, daemon=True).start()
    errors = 2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(HARD_LIMIT, exit=True, file=errors)


def _end_in_time() -> None:
    import time

    time.sleep(THREAD_LIMIT)
    _give_up()


def _give_up() -> NoReturn:
    import threading

    # In a thread of its own, and not for long: what keeps the hook waiting may keep the log waiting too.
    noting = threading.Thread(target=_note_the_time, daemon=True)
    noting.start()
    noting.join((THREAD_LIMIT - LIMIT) / 2)
    os._exit(0)


def _note_the_time() -> None:
    from .failures import count

    _note(f"took longer than {LIMIT} seconds and was given up")
    count(_folder(), new_session=False, hopeless=False, can_tell=False)
