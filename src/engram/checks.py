"""Checks of values before anything is written.

Every text that enters the store goes through `text`. NUL ends strings in C, and a lone surrogate cannot be stored as
UTF-8. Both engines would fail on them in different ways, in the middle of an operation.

Secrets are never stored. There is one rule for texts and one for names:

- Secrets are removed from a text (`content`) and from the values and keys of JSON (`json_columns.dump`).
- A name with a secret is refused (`new_name`): a kind, a key, a tag, an id, a resource. Names identify things. Without
  the secret, two names could become equal, and a search for the original name would find nothing.

A lookup does not check for secrets (`name`), so that data stored by an earlier release under such a name can still be
found and forgotten. All checks run before a transaction begins, so that no search for secrets holds a lock.
"""

from __future__ import annotations

from typing import NoReturn

from .clock import later
from .errors import InvalidInput
from .redact import find, redact
from .safe_text import has_controls

#: Maximum length of any text: enough for a pasted log, but not enough for one row to slow down the store.
MAX_TEXT = 1_000_000
#: Maximum length of what is shown in one line: names, types, keys.
MAX_NAME = 200
MAX_WORKSPACE = 64
#: Maximum length of the name of an author, which is shown beside what the author wrote.
MAX_AUTHOR = 100

#: The largest number that both engines can store, minus one, so that code can add one to it. As a LIMIT it means "all",
#: because the engines have no common syntax for that.
MAX_WHOLE = 2**63 - 2

#: Seconds by which a given time may be ahead of the store's clock. The clocks of two machines differ a little.
AHEAD = 60.0

_WORKSPACE_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_WORKSPACE_REST = _WORKSPACE_FIRST | frozenset("_-")


def text(value: object, what: str, *, longest: int = MAX_TEXT, empty: bool = False) -> str:
    """The value, unchanged. Raises InvalidInput, which names `what`, if it is not a text that can be stored."""
    if not isinstance(value, str):
        _refuse(what, f"must be text, not {type(value).__name__}")
    if not empty and not value.strip():
        _refuse(what, "is empty")
    if len(value) > longest:
        _refuse(what, f"has {len(value):,} characters; at most {longest:,} fit")
    if "\x00" in value:
        _refuse(what, f"has a NUL character at position {value.index(chr(0))}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            # Python reads a byte of an argument or a file name that is not UTF-8 as one of these.
            if "\udc80" <= value[error.start] <= "\udcff":
                _refuse(what, f"is not UTF-8: it has the byte {ord(value[error.start]) - 0xDC00:#x}")
            _refuse(what, f"has a lone surrogate at position {error.start}; it is not valid Unicode")
    return value


def content(value: object, what: str, *, longest: int = MAX_TEXT, empty: bool = False) -> str:
    """The text as it is stored, without its secrets. Use it for the words of a person, an agent or a tool."""
    return redact(text(value, what, longest=longest, empty=empty))


def optional_content(value: object, what: str, *, longest: int = MAX_TEXT) -> str | None:
    return None if value is None else content(value, what, longest=longest, empty=True)


def name(value: object, what: str) -> str:
    """The value, unchanged. Raises InvalidInput if it is not a short text of one line."""
    checked = text(value, what, longest=MAX_NAME)
    if has_controls(checked):
        _refuse(what, f"{checked!r} has a control character; it must be one plain line")
    return checked


def optional_name(value: object, what: str) -> str | None:
    return None if value is None else name(value, what)


def new_name(value: object, what: str) -> str:
    """The name of something new. It must not contain a secret."""
    return without_secrets(name(value, what), what)


def optional_new_name(value: object, what: str) -> str | None:
    return None if value is None else new_name(value, what)


def optional_author(value: object) -> str | None:
    """The name under which something is written; None for local use."""
    if value is None:
        return None
    text(value, "author", longest=MAX_AUTHOR)
    return new_name(value, "author")


def without_secrets(value: str, what: str) -> str:
    """The value, unchanged. Raises InvalidInput, without repeating the value, if it contains a secret."""
    for _, _, kind in find(value):
        _refuse(what, f"seems to contain a secret ({kind}); choose one without it")
    return value


def workspace(value: object, what: str = "workspace") -> str:
    checked = text(value, what)
    if len(checked) > MAX_WORKSPACE or checked[0] not in _WORKSPACE_FIRST or not _WORKSPACE_REST.issuperset(checked):
        _refuse(
            what,
            f"{_short(checked)} is not a valid name: up to 64 of a-z, 0-9, _ and -, beginning with a letter or digit",
        )
    return checked


def whole(value: object, what: str, *, least: int, most: int = MAX_WHOLE) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(what, f"must be a whole number, not {value!r}")
    if not least <= value <= most:
        allowed = f"at least {least}" if most == MAX_WHOLE and value < least else f"between {least} and {most}"
        _refuse(what, f"is {value}; it must be {allowed}")
    return value


def share(value: object, what: str) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:  # also refuses NaN
        _refuse(what, f"is {value!r}; it must be a number from 0 to 1")
    return float(value)


def moment(value: object, what: str) -> str:
    """A time in the store's format, from ISO 8601 text. A time without a zone is UTC."""
    from datetime import UTC, datetime

    given = text(value, what, longest=64)
    try:
        parsed = datetime.fromisoformat(given)
        parsed = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        _refuse(what, f"is {given!r}; write a time such as 2026-11-15T18:36:08Z or a date such as 2026-11-15")
    if parsed.year < 1000:
        _refuse(what, f"is {given!r}; years before 1000 are not supported")
    return parsed.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def optional_moment(value: object, what: str) -> str | None:
    return None if value is None else moment(value, what)


def past(at: str | None, now: str, what: str = "at") -> str:
    """When something happened: the given time, as `moment` returns it, or now. InvalidInput if it is in the future."""
    if at is None:
        return now
    if at > later(now, AHEAD):
        _refuse(what, f"is {at}, which is in the future: now it is {now}")
    return min(at, now)


def flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        _refuse(what, f"must be True or False, not {value!r}")
    return value


def seconds(value: object, what: str, *, least: float = 0.0) -> float:
    """A length of time, at most ten years, so that adding it to a time does not overflow."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(what, f"must be a number of seconds, not {value!r}")
    if not least <= value <= 315_360_000:  # also false for NaN
        _refuse(what, f"is {value}; it must be between {least:g} seconds and ten years")
    return float(value)


def _refuse(what: str, problem: str) -> NoReturn:
    raise InvalidInput(f"{what} {problem}.")


def _short(value: str) -> str:
    return repr(value if len(value) <= 80 else value[:77] + "…")
