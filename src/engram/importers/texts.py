"""Texts, names and times of other systems, in a form that can be stored."""

from __future__ import annotations

from contextlib import suppress

from .. import checks
from ..clock import Clock, later
from ..errors import InvalidInput
from ..interfaces.external_ids import hashed
from ..redact import redact
from ..safe_text import one_line

#: Ends a text that was cut.
CUT = "\n… (cut)"
#: Seconds by which a time may be ahead of this machine's clock.
_AHEAD = 60


def storable(text: str) -> str:
    """The text without what cannot be stored, and cut if it is too long."""
    text = text.replace("\x00", "").strip()
    text = text if text.isascii() else text.encode("utf-8", "replace").decode()
    # A secret takes less space than the words that replace it, so some room is left.
    longest = checks.MAX_TEXT * 9 // 10
    return text if len(text) <= longest else text[:longest] + CUT


def cut(text: str, longest: int) -> str:
    """The text without its secrets, cut if it is too long.

    Secrets are removed first: half of one is not recognised any more, and would be stored.
    """
    text = redact(text)
    return text if len(text) <= longest else text[:longest].rstrip() + " …"


def short_line(text: str, longest: int) -> str:
    """The beginning of the text on one line, without its secrets. Readers shorten with this or with `cut` only."""
    return one_line(redact(text), longest)


def name(text: str | None, what: str = "name") -> str | None:
    """The text as a name of one line; None if it cannot be one."""
    if text is None:
        return None
    short = one_line(redact(storable(text)), checks.MAX_NAME)
    with suppress(InvalidInput):
        return checks.new_name(short, what)
    return None


def external_id(id: str) -> str:
    """The id that a thing has in its system, or its hash if it cannot be stored: it is too long, or looks like a
    secret. Hooks do the same (`external_ids`)."""
    with suppress(InvalidInput):
        return checks.new_name(id, "external id")
    return hashed(id)


class Times:
    """Checks times. One in the future is not believed."""

    def __init__(self) -> None:
        self.now = Clock().now()
        self._latest = later(self.now, _AHEAD)

    def known(self, at: str | None) -> str | None:
        """The time in the store's form; None if it is not known or not possible."""
        if at is None:
            return None
        with suppress(InvalidInput):
            moment = checks.moment(at, "time")
            return moment if moment <= self._latest else None
        return None
