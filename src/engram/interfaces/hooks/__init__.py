"""`engram-hook HARNESS`: one event of a harness as JSON on standard input, its answer on standard output.

A harness waits for its hooks, so this is the path on which everything Engram does must be cheap: no command-line
library, no logging, no dataclasses, no model, and each module imported where it is needed. It fails open: whatever
happens, it ends with 0 within its limit, and the agent goes on.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from .events import Answer, Event

#: What `engram-hook` is given, and the module that knows the harness.
HARNESSES = {"claude-code": "claude_code", "codex": "codex", "gemini": "gemini", "cursor": "cursor"}
#: Seconds; a harness's own limit is longer everywhere.
LIMIT = 1.8
BUSY_TIMEOUT = 0.5
#: More is no event but a file in one; nothing of it is read.
MAX_INPUT = 16 * 1024 * 1024

_USAGE = f"""\
usage: engram-hook {"|".join(HARNESSES)}
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
        answer = respond(sys.argv[1] if len(sys.argv) > 1 else "", _input()).encode()
        while answer:
            answer = answer[os.write(1, answer) :]
    except BaseException as error:
        _note(_told(error))
    finally:
        # Not by the usual way out: tearing the interpreter down takes longer than most of what was done.
        os._exit(0)


def respond(harness: str, payload: bytes) -> str:
    """The answer to one event; empty when there is nothing to say. Whatever goes wrong is noted, not raised."""
    adapter: ModuleType | None = None
    event: Event | None = None
    try:
        adapter = _adapter(harness)
        event = _event(adapter, harness, payload)
        return "" if event is None else _dump(adapter.answer(event, _answer(event, harness)))
    except Exception as error:
        _note(f"{harness[:20]} {event.name if event else ''}: {_told(error)}")
        return "" if adapter is None or event is None else _dump(adapter.answer(event, _apology(event, error)))


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


def _answer(event: Event, harness: str) -> Answer:
    from .events import BEFORE_TOOL, Answer

    if event.kind == BEFORE_TOOL and not event.paths:
        return Answer()  # most tools write no file; the store need not be opened for them
    from ...client import Engram
    from ...config import load
    from .failures import forget
    from .handlers import handle

    _enter(event.folder)
    settings = load(busy_timeout=BUSY_TIMEOUT)
    with Engram(settings=settings) as eng:
        given = handle(eng, event, harness)
    forget(settings.data_dir)
    return given


def _enter(folder: str | None) -> None:
    """Go where the agent works: the project, its settings and relative paths are told from there."""
    from contextlib import suppress

    # Gone, or no folder: then where the harness has started this process.
    with suppress(OSError, ValueError):
        os.chdir(folder or ".")


def _apology(event: Event, error: Exception) -> Answer:
    """What the model is told about a failure: nothing, unless it is no accident any more."""
    from ...errors import SchemaTooNew
    from .events import START, Answer
    from .failures import LOG, count
    from .framing import frame

    newer = isinstance(error, SchemaTooNew)
    tell = count(_folder(), new_session=event.kind == START, hopeless=newer, can_tell=event.takes_context)
    if not tell:
        return Answer()
    if newer:
        what = "its store was written by a newer version than this hook's; upgrade it (pip install --upgrade engram)"
    else:
        what = f"its hook keeps failing ({type(error).__name__}); the reasons are in {os.path.join(_folder(), LOG)}"
    return Answer(frame("notice", f"Engram does not see or record this session at the moment: {what}."))


def _folder() -> str:
    """Where the log is; also when the settings cannot be read, which may be what is to be logged."""
    from ...config import default_data_dir, load

    try:
        return load().data_dir
    except Exception:
        return os.environ.get("ENGRAM_DATA_DIR") or default_data_dir()


def _told(error: BaseException) -> str:
    """What went wrong, without what anybody said: forgetting does not reach the log."""
    from ...text import without_quotes

    return f"{type(error).__name__}: {without_quotes(str(error))}"


def _note(line: str) -> None:
    from .failures import note

    note(_folder(), line)


def _dump(answer: dict[str, object] | None) -> str:
    import json

    return "" if answer is None else json.dumps(answer)


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
    """End the process when its time is up, whatever it is waiting for."""
    import threading

    threading.Thread(target=_end_in_time, daemon=True).start()


def _end_in_time() -> None:
    import threading
    import time

    time.sleep(LIMIT)
    # In a thread of its own: what keeps the hook waiting may keep the log waiting too.
    noting = threading.Thread(target=_note_the_time, daemon=True)
    noting.start()
    noting.join(0.1)
    os._exit(0)


def _note_the_time() -> None:
    from .failures import count

    _note(f"took longer than {LIMIT} seconds and was given up")
    count(_folder(), new_session=False, hopeless=False, can_tell=False)
