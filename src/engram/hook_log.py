"""The log of hooks' failures: its name, and what it says of the last day. `interfaces.hooks.failures` writes it."""

from __future__ import annotations

import os

#: In the data folder. A full log is renamed, and one older log is kept.
LOG = "hook.log"
OLD = f"{LOG}.old"
#: The end of a log that is read. It is more than a whole log.
_MOST = 512 * 1024
_STAMP = len("2026-11-15T18:36:08Z")


def failures(folder: str, since: str) -> tuple[int, str | None, str | None] | None:
    """The number of lines since a time, and the time and text of the last line ever; None if there is no log."""
    lines = [line for name in (OLD, LOG) for line in _lines(os.path.join(folder, name))]
    if not lines and not os.path.exists(os.path.join(folder, LOG)):
        return None
    # Its times have no fractions of a second.
    recent = sum(line[: _STAMP - 1] >= since[: _STAMP - 1] for line in lines)
    last = lines[-1] if lines else None
    return recent, _time(last), None if last is None else last[_STAMP + 1 :]


def _time(line: str | None) -> str | None:
    return None if line is None else f"{line[: _STAMP - 1]}.000000Z"


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _MOST))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.split("\n") if line[4:5] == "-" and line[_STAMP - 1 : _STAMP + 1] == "Z "]
