"""The clock, and functions on stored times.

Every time in the store is UTC text of fixed width (`2026-11-15T18:36:08.123456Z`), so that both engines can compare
times as strings. Code gets a `Clock` as a parameter; tests shift it forward instead of sleeping. An engine that reads
its server's time adds the same shift, so the engine's clock always decides when a lease expires.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading


class Clock:
    """The system's clock, plus `shift` seconds."""

    shift: float = 0.0

    def now(self) -> str:
        if self.shift:
            return stamp(time.time() + self.shift)
        return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"

    def monotonic(self) -> float:
        """Seconds for measuring a duration. The value never decreases."""
        return time.monotonic() + self.shift

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the time has passed. Returns True if the event was set."""
        return event.wait(seconds)


def stamp(seconds: float) -> str:
    """Seconds since 1970 in the store's format."""
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"


def later(text: str, seconds: float) -> str:
    """The time `seconds` after (or, when negative, before) a stamp."""
    # The Z is cut off here and below: all stamps are UTC, and Python handles times without a zone much faster.
    # Years before 1000 and after 9999 would break the fixed width. No real time is that far away.
    try:
        moment = datetime.fromisoformat(text[:-1]) + timedelta(seconds=seconds)
    except OverflowError:
        return "9999-12-31T23:59:59.999999Z" if seconds > 0 else "1000-01-01T00:00:00.000000Z"
    return moment.isoformat(timespec="microseconds") + "Z"


def between(earlier: str, later_: str) -> float:
    """Seconds from one stamp to another."""
    return (datetime.fromisoformat(later_[:-1]) - datetime.fromisoformat(earlier[:-1])).total_seconds()


def duration(seconds: float) -> str:
    """A length of time in words: `less than a minute`, `5 minutes`, `1 hour`, `2 days`."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return "less than a minute"


def age(since: str, now: str) -> str:
    """The time since a stamp, for people: `just now`, `5m ago`, `3h ago`, `2d ago`."""
    if since[:16] == now[:16]:  # the same minute
        return "just now"
    try:
        seconds = between(since, now)
    except ValueError:  # another program may have written it
        return "at an unknown time"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    return "just now"


def local_time(text: str) -> str | None:
    """A stamp in the local time zone: `2026-11-15 18:36:08`. None if the system's time zones do not know the year."""
    try:
        moment = datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(" ", "seconds")[:19]


def age_in_words(since: str, now: str) -> str:
    """The time since a stamp in whole words: `just now`, `5 minutes ago`, `yesterday`, `3 weeks ago`."""
    seconds = between(since, now)
    if seconds < 60:
        return "just now"
    days = int(seconds // 86_400)
    if days == 1:
        return "yesterday"
    # A larger unit begins at two: nobody reads "1 month" as exactly as "40 days".
    for length, unit in ((365, "years"), (30, "months"), (7, "weeks")):
        if days >= 2 * length:
            return f"{days // length} {unit} ago"
    return f"{duration(seconds)} ago"


def said_at(data: object, stored_at: str) -> str:
    """When a memory was said, as a stamp: noon of the day in its data (`{"said": "2026-03-02"}`). A pass stores a
    statement later than that. When it was stored, if the day is not known or is the same."""
    day = data.get("said") if isinstance(data, dict) else None
    if not isinstance(day, str) or len(day) != 10 or day >= stored_at[:10]:
        return stored_at
    try:  # anybody may have written the data
        return datetime.fromisoformat(f"{day}T12:00:00").isoformat(timespec="microseconds") + "Z"
    except ValueError:
        return stored_at
