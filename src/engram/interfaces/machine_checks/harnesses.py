"""Checks of the harnesses on this machine: their settings, the hook's program, and its log."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ...clock import Clock, later
from ...errors import EngramError
from ...health_records import NOTE, WRONG, Check, Finding, counted, fine
from ...safe_text import one_line
from ..hooks import failures

if TYPE_CHECKING:
    from ...config import Config
    from ..install.harness import Harness

#: Seconds that the hook's program may take to say how it is used.
_RUNS_WITHIN = 10.0
#: Bytes at the end of the log that are read, and lines that are shown.
_TAIL = 32 * 1024
#: Seconds for which a failure is recent.
_RECENT = 86_400.0
#: Seconds by which the time of an entry may be ahead of the clock.
_AHEAD = 3_600.0
#: How an entry begins.
_ENTRY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", re.ASCII)


def checks(settings: Config) -> list[Check]:
    from ..install.plan import HARNESSES

    found = [Check(f"harness.{name}", partial(_harness, each)) for name, each in HARNESSES.items()]
    return [
        *found,
        Check("hook.program", _program),
        Check("hook.failing", partial(_failing, settings)),
        Check("hook.log", partial(_log, settings)),
    ]


def _harness(harness: Harness) -> Finding:
    from ..install import plan
    from ..install.commands import this_installation

    name = f"harness.{harness.name}"
    if not plan.is_found(harness):
        return fine(name, f"{harness.title} is not on this machine.")
    try:
        state = plan.state(harness, plan.Location(), this_installation())
    except EngramError as error:
        return Finding(name, WRONG, str(error), "Harnesses cannot start Engram.", "Install Engram again.", number=1)
    fix = f"engram install {harness.name}"
    if state == "ready":
        return fine(name, f"{harness.title} is set up.")
    if state == "absent":
        means = "Engram does not see its sessions."
        return Finding(name, NOTE, f"{harness.title} is not set up.", means, fix, number=1)
    if state == "outdated":
        means = "Some of its events are not recorded, or another installation of Engram answers them."
        return Finding(name, WRONG, f"The settings of {harness.title} are not current.", means, fix, number=1)
    return Finding(
        name,
        WRONG,
        f"The settings of {harness.title} cannot be used: {state.removeprefix('unusable: ')}.",
        "Engram cannot tell whether its hooks are set up.",
        f"Repair the file, then run `{fix}`.",
        number=1,
    )


def _program() -> Finding:
    from ..install.commands import this_installation

    name, means, again = "hook.program", "No harness can record anything.", "Install Engram again."
    try:
        program = this_installation().hook
    except EngramError as error:
        return Finding(name, WRONG, str(error), means, again, number=1)
    if not os.access(program, os.X_OK):
        return Finding(name, WRONG, f"{program} cannot be run.", means, again, number=1)
    try:
        done = subprocess.run([program, "--help"], capture_output=True, timeout=_RUNS_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, WRONG, f"{program} does not run: {error}.", means, again, number=1)
    if done.returncode or b"engram-hook" not in done.stdout:
        return Finding(name, WRONG, f"{program} ends with {done.returncode}.", means, again, number=1)
    return fine(name, f"{program} runs.")


def _folder(settings: Config) -> str:
    return os.path.abspath(os.path.expanduser(settings.data_dir))


def _failing(settings: Config) -> Finding:
    # Opening a pipe would wait for a writer.
    is_file = os.path.isfile(os.path.join(_folder(settings), failures.COUNT))
    number = failures.failures_in_a_row(_folder(settings)) if is_file else 0
    if number < failures.REPEATED:
        return fine("hook.failing", "Hooks work, as far as they have run.")
    return Finding(
        "hook.failing",
        WRONG,
        f"The last {number:,} hooks failed.",
        "Sessions are not recorded.",
        f"Read {os.path.join(_folder(settings), failures.LOG)}, which says why.",
        number=number,
    )


def _log(settings: Config) -> Finding:
    name, path = "hook.log", os.path.join(_folder(settings), failures.LOG)
    if os.path.exists(path) and not os.path.isfile(path):
        means = "Failures of hooks are not kept, so nobody can read why a session was not recorded."
        return Finding(name, NOTE, f"{path} is no file.", means, f"Move {path} away.", number=1)
    since, until = (later(Clock().now(), seconds)[:19] for seconds in (-_RECENT, _AHEAD))
    lines = [line for line in _tail(path) if line.strip()]
    entries = [line for line in lines if _ENTRY.match(line) and line[:19] <= until]
    recent = [line for line in entries if line[:19] >= since]
    odd = len(lines) - len(entries)
    if not recent and not odd:
        return fine(name, "No hook failed within a day.")
    unread = f"The log has {counted(odd, 'line that is', 'lines that are')} no entry of Engram." if odd else ""
    if not recent:
        means = "Another program has written to the log, or its disk is damaged."
        return Finding(name, NOTE, unread, means, f"Read {path}.", number=odd)
    return Finding(
        name,
        NOTE,
        f"{counted(len(recent), 'failure', 'failures')} of hooks within a day. The last: "
        f"{one_line(recent[-1], 200)} {unread}".rstrip(),
        "What these hooks should have recorded is missing.",
        f"Read {path}.",
        number=len(recent),
    )


def _tail(path: str) -> list[str]:
    """The last lines, without one whose beginning is not read."""
    with suppress(OSError), open(path, "rb", opener=_without_waiting) as file:
        start = max(0, os.fstat(file.fileno()).st_size - _TAIL)
        file.seek(start)
        return file.read().decode("utf-8", "replace").splitlines()[1 if start else 0 :]
    return []


def _without_waiting(path: str, flags: int) -> int:
    """Open a file. Opening a pipe would otherwise wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
