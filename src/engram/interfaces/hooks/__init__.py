"""`engram-hook HARNESS` reads one event of a harness as JSON from standard input and answers on standard output.

A harness waits for its hooks, so a hook must be fast: no command-line library, no logging, no dataclasses, no model,
and each module is imported where it is needed. A hook fails open: after any failure it ends within its time limit and
the agent continues.

Three mechanisms enforce the limit. Each one covers cases in which the one before cannot act:

1. A timer of the operating system. Its handler logs the failure and exits with 0. Python calls the handler between two
   bytecode instructions, during a regular expression, and after an interrupted read or write.
2. A thread that does the same. It works while the main thread is in C code that has released the GIL, such as SQLite.
3. The thread of `faulthandler`, which is written in C and does not need the GIL. It works while C code holds the GIL.
   It prints a traceback to standard error and exits with 1. The tested harnesses treat this as a failure that does not
   block.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, NoReturn

    from ...client import Engram
    from ...config import Config
    from .events import Answer, Event

#: The argument of `engram-hook`, and the module of that harness.
HARNESSES = {"claude-code": "claude_code", "codex": "codex", "gemini": "gemini", "cursor": "cursor"}
#: The options that may follow the harness, and the settings that they set.
OPTIONS = {"--workspace": "workspace", "--store": "url"}
#: Seconds after which each mechanism ends the process. Every harness has a longer limit of its own.
LIMIT, THREAD_LIMIT, HARD_LIMIT = 1.5, 1.7, 2.0
#: Seconds after which a hook starts no further work that a later process can do.
SOFT_LIMIT = 1.0
#: Seconds that a hook has for its exchange with a server. The rest of its time is for an answer after a failure.
SERVER_LIMIT = 1.2
#: Seconds between two attempts to open a store that is being upgraded.
_RETRY_INTERVAL = 0.05
#: Seconds that a write waits for other writers. Long, because the event is lost if the write fails.
BUSY_TIMEOUT = 1.0
#: The largest payload in bytes. A larger one is refused.
MAX_INPUT = 16 * 1024 * 1024
#: The harness and, if it is known, the name of the event that is being handled. For the log.
_at_work: list[str] = []

_USAGE = f"""\
usage: engram-hook {"|".join(HARNESSES)} [--workspace NAME] [--store URL]
Reads one event of that harness as JSON from standard input and answers it. `engram install` sets it up."""


def main() -> None:
    """Run the program. It always exits with 0 within its limit, except when `faulthandler` has to end it."""
    if "ENGRAM_THINKER" in os.environ:
        # A client that thinks for Engram is no session of its own, and what it is asked must not be recorded.
        os._exit(0)
    if "-h" in sys.argv or "--help" in sys.argv:
        print(_USAGE)
        return
    _start_timers()
    # A harness may show standard error to the user. Failures go to the log instead.
    sys.stderr = None
    try:
        respond(sys.argv[1] if len(sys.argv) > 1 else "", _read_input(), _write_answer, _options(sys.argv[2:]))
    except BaseException as error:
        _log(_describe(error))
    finally:
        # A normal exit tears the interpreter down, which takes longer than most events.
        os._exit(0)


def respond(
    harness: str,
    payload: bytes,
    write: Callable[[str], None] | None = None,
    options: dict[str, str] | None = None,
) -> str:
    """Return the answer to one event; empty if there is none. Errors are logged, not raised.

    `write` receives the answer as soon as it exists, before the work that can wait. `options` are settings that
    override all others.
    """
    adapter: ModuleType | None = None
    event: Event | None = None
    shown: list[str] = []

    def show(given: Answer) -> None:
        assert adapter is not None
        shown.append(_to_json(adapter.answer(event, given)))
        if write is not None:
            write(shown[0])

    try:
        _at_work[:] = [harness]
        adapter = _load_adapter(harness)
        event = _read_event(adapter, harness, payload)
        if event is not None:
            _at_work.append(event.name)
            _handle_event(event, harness, show, options or {})
    except Exception as error:
        _log(f"{harness[:20]} {event.name if event else ''}: {_describe(error)}")
        if event is not None and not shown:
            show(_failure_answer(event, error))
    return shown[0] if shown else ""


def _load_adapter(harness: str) -> ModuleType:
    from importlib import import_module

    if harness not in HARNESSES:
        raise ValueError(f"unknown harness {harness[:60]!r}; known are {', '.join(HARNESSES)}")
    return import_module(f".{HARNESSES[harness]}", __name__)


def _read_event(adapter: ModuleType, harness: str, payload: bytes) -> Event | None:
    import json

    if len(payload) > MAX_INPUT:
        raise ValueError(f"the payload is larger than {MAX_INPUT:,} bytes")
    given = json.loads(payload)
    if not isinstance(given, dict):
        raise ValueError(f"the payload is a {type(given).__name__}, not an object")
    event: Event | None = adapter.read(given)
    if event is None:
        _log(f"{harness}: unknown event {given.get('hook_event_name')!r:.60}")
    return event


def _options(words: list[str]) -> dict[str, str]:
    """The store and the workspace that `engram install` was told to use. Other words are ignored."""
    from itertools import pairwise

    return {OPTIONS[name]: value for name, value in pairwise(words) if name in OPTIONS}


def _handle_event(event: Event, harness: str, show: Callable[[Answer], None], options: dict[str, str]) -> None:
    from time import monotonic

    from .events import BEFORE_TOOL, START, Answer

    if event.kind == BEFORE_TOOL and not event.paths:
        return show(Answer())  # most tools write no file, so the store is not opened
    begun = monotonic()
    from .failures import clear_count

    _change_folder(event.folder)
    settings = _load_settings(options)
    if event.kind == START:
        for notice in settings.notices:
            _log(notice)

    def out_of_time() -> bool:
        return monotonic() - begun > SOFT_LIMIT

    if settings.is_remote:
        from .sending import send

        show(send(settings, event, harness, begun + SERVER_LIMIT))
    else:
        from .handlers import handle

        with _open_store(settings, out_of_time) as eng:
            handle(eng, event, harness, _also_telling(_lost(eng), event, show), out_of_time)
    clear_count(settings.data_dir)


def _load_settings(options: dict[str, str]) -> Config:
    """The settings. With a wrong lock policy the strictest one applies: a failing hook would let every edit through."""
    from ...config import load
    from ...errors import InvalidInput

    given: dict[str, Any] = {"busy_timeout": BUSY_TIMEOUT, **options}
    try:
        return load(**given)
    except InvalidInput as error:
        # Fails again if another setting is wrong.
        settings = load(**given, lock_policy="deny")
        return settings._replace(notices=(*settings.notices, f"{_describe(error)} The default, deny, applies."))


def _open_store(settings: Config, out_of_time: Callable[[], bool]) -> Engram:
    """Open the store without migrating it. Backing up and migrating a large store takes too long for a hook.

    Another process does that. It upgrades a small store within a second; the hook waits for it, so the event is not
    lost.
    """
    from ...client import Engram
    from ...errors import UpgradeNeeded

    last_try = False
    while True:
        try:
            return Engram(settings=settings, migrate=False)
        except UpgradeNeeded:
            if last_try:
                raise
            # If no upgrade is running, one may have just finished: try once more.
            last_try = not _start_upgrade(settings)
            if out_of_time():
                raise
            if not last_try:
                from time import sleep

                sleep(_RETRY_INTERVAL)


def _lost(eng: Engram) -> str:
    from ...client import lost_store

    return lost_store(eng)


def _also_telling(what: str, event: Event, show: Callable[[Answer], None]) -> Callable[[Answer], None]:
    """`show` with a notice before the answer, if there is something to tell and the harness takes it."""
    if not what:
        return show
    _log(what)

    def show_both(given: Answer) -> None:
        from ...framing import frame

        notice = frame("notice", f"{what} Tell the person.") if event.takes_context else ""
        show(given._replace(context="\n".join(filter(None, (notice, given.context)))))

    return show_both


def _change_folder(folder: str | None) -> None:
    """Change to the agent's folder: it determines the project, its settings and relative paths."""
    from contextlib import suppress

    # If the folder does not exist, stay in the folder where the harness started this process.
    with suppress(OSError, ValueError):
        os.chdir(folder or ".")


def _failure_answer(event: Event, error: Exception) -> Answer:
    """The answer after a failure: empty, unless failures are permanent or repeated."""
    from ...framing import frame
    from .events import START, Answer
    from .failures import LOG, count_failure

    permanent = _permanent_problem(error)
    tell = count_failure(
        _log_folder(), new_session=event.kind == START, permanent=bool(permanent), can_tell=event.takes_context
    )
    if not tell:
        return Answer()
    what = permanent or f"its hook keeps failing ({type(error).__name__}); see {os.path.join(_log_folder(), LOG)}"
    return Answer(frame("notice", f"Engram does not see or record this session at present: {what}."))


def _permanent_problem(error: Exception) -> str:
    """What to say about a failure that does not go away by itself; empty for others."""
    from ...errors import SchemaTooNew, StoreEncrypted, UpgradeNeeded

    if isinstance(error, StoreEncrypted):
        return "its store is encrypted, and the key cannot be used; `engram sitrep` says what to do"
    if isinstance(error, SchemaTooNew):
        from ..._version import UPGRADE

        return f"a newer version of Engram wrote its store; upgrade this one ({UPGRADE})"
    if isinstance(error, UpgradeNeeded):
        return (
            "its store is being upgraded to a new version, and recording resumes afterwards. If this message appears "
            "again, run `engram upgrade`"
        )
    # Not imported: only a store behind a server raises it, and then it is loaded.
    status = getattr(error, "answered", None)
    if status == 0:
        return "no token for its server is set; set ENGRAM_TOKEN, or `token` in Engram's config.toml"
    if status in (401, 403):
        return (
            f"its server refuses the token ({status}); `engram token create NAME --scope write` makes one on the "
            "server, and ENGRAM_TOKEN or `token` in Engram's config.toml holds it"
        )
    if status in (404, 405):
        return "its server does not know hooks; upgrade Engram there"
    return ""


def _start_upgrade(settings: Config) -> bool:
    """Start `engram upgrade`, unless it runs or has just ended; whether it is running now."""
    from ..detached import is_running, start

    try:
        return start("upgrade", ["upgrade"], settings) or is_running("upgrade", settings)
    except Exception as error:
        _log(f"engram upgrade could not be started: {type(error).__name__}: {error}")
        return False


def _log_folder() -> str:
    """The folder of the log. It works even if the settings cannot be read, because that error must be logged.

    The project's settings file is not read: it may be the cause of the error.
    """
    from ...config import default_data_dir, user_data_dir

    try:
        return user_data_dir()
    except Exception:
        return default_data_dir()


def _describe(error: BaseException) -> str:
    """Describe an error without quoted text: forgetting does not reach the log, so no content may enter it."""
    from ...safe_text import without_quotes

    return f"{type(error).__name__}: {without_quotes(str(error))}"


def _log(line: str) -> None:
    from .failures import note

    note(_log_folder(), line)


def _to_json(answer: dict[str, object] | None) -> str:
    import json

    return "" if answer is None else json.dumps(answer)


def _write_answer(answer: str) -> None:
    """Write to standard output. If it was closed at the start, descriptor 1 may be another file by now."""
    data = answer.encode()
    while data:
        data = data[os.write(1 if sys.stdout is not None else -1, data) :]


def _read_input() -> bytes:
    """Read standard input to its end, so that the harness can finish writing; keep only a little over the limit."""
    kept: list[bytes] = []
    size = 0
    while piece := os.read(0, 1 << 20):
        size += len(piece)
        if size <= MAX_INPUT + len(piece):
            kept.append(piece)
    return b"".join(kept)


def _start_timers() -> None:
    """Start the three mechanisms that end the process when its time is up."""
    import faulthandler
    import threading

    # Not from `signal`: it builds enums of these names, which takes half a millisecond in every hook.
    from _signal import ITIMER_REAL, SIGALRM, setitimer, signal  # type: ignore[import-not-found]

    signal(SIGALRM, lambda *_: _give_up())
    setitimer(ITIMER_REAL, LIMIT)
    threading.Thread(target=_give_up_later, daemon=True).start()
    errors = 2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(HARD_LIMIT, exit=True, file=errors)


def _give_up_later() -> None:
    import time

    time.sleep(THREAD_LIMIT)
    _give_up()


def _give_up() -> NoReturn:
    import threading

    # In a separate thread with a short timeout: whatever blocks the hook may block the log too.
    writing = threading.Thread(target=_log_timeout, daemon=True)
    writing.start()
    writing.join((THREAD_LIMIT - LIMIT) / 2)
    os._exit(0)


def _log_timeout() -> None:
    from .failures import count_failure

    # Before an event is read, only the arguments are known.
    known = " ".join(_at_work or sys.argv[1:2])[:200]
    _log(f"{known}: took longer than {LIMIT} seconds and was stopped")
    count_failure(_log_folder(), new_session=False, permanent=False, can_tell=False)
