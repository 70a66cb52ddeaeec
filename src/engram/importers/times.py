"""Times of other systems, as ISO 8601 text with a zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from ..errors import InvalidInput


def zone(name: str | None) -> tzinfo | None:
    """The time zone of that name; None, this machine's, without one."""
    if name is None:
        return None
    if name.upper() in ("UTC", "Z"):
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(f"There is no time zone {name!r}; write one such as Europe/Berlin or UTC.") from None


def moment(value: object, naive: tzinfo | None = UTC) -> str | None:
    """A time in any usual form: ISO text, or seconds, milliseconds or microseconds since 1970. None if it is no time.

    `naive` is the zone of a text without one; None is this machine's.
    """
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, int | float):
            return _from_number(float(value))
        if isinstance(value, str):
            return _from_text(value.strip(), naive)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _from_number(value: float) -> str | None:
    # Seconds, milliseconds and microseconds of all years since 1973 differ in their number of digits.
    seconds = value / 1e6 if abs(value) >= 1e14 else value / 1e3 if abs(value) >= 1e11 else value
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds > 0 else None


def _from_text(text: str, naive: tzinfo | None) -> str | None:
    if not text:
        return None
    try:
        return _from_number(float(text))
    except ValueError:
        pass
    parsed = datetime.fromisoformat(text.replace(" UTC", "Z").replace(" ", "T", 1))
    if parsed.tzinfo is None:
        parsed = parsed.astimezone() if naive is None else parsed.replace(tzinfo=naive)
    if not 1000 <= parsed.astimezone(UTC).year <= 9998:
        return None
    return parsed.astimezone(UTC).isoformat()
