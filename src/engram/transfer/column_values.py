"""What a value of each column may be.

A file to import may come from any program, and its hashes say only that it is complete. The schema checks types, kinds
and references. The rest is here: a time that cannot be read, or a number that leaves no room for the next one, would
break a store long after the import. Columns with the same name have the same meaning in every table.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, TypeGuard

from .. import checks
from ..errors import InvalidInput
from ..storage.health import NUMBERS_END as NUMBERS_END

if TYPE_CHECKING:
    from ..storage.rows import Column

    #: What is wrong with a value of JSON; None if nothing is.
    Check = Callable[[object], str | None]

_TIMES = ("at", "deadline", "matured")
#: The time of a record in the source of an import, in the form of the source. It is only compared with others.
_OTHER_TIMES = ("seen_at",)
#: Texts that stand in the place of a time.
_NO_TIMES = {"shown_at": ("0000", "0001")}
_DATES = {"day": "2026-11-15", "month": "2026-11"}
_KINDS = {"derived_kind": ("block", "exchange", "memory"), "source_kind": ("block", "exchange", "memory")}


def is_number(value: object) -> TypeGuard[int]:
    """Whether a value can be a number of a store."""
    return _is_whole(value) and 0 <= value < NUMBERS_END


@cache
def check_of(column: Column) -> Check:
    """What tells whether a value can be in this column. Bytes are given in base64."""
    name = column.name
    if column.type is int:
        return _number
    if column.type is float:
        return _seconds if name == "ttl" else _share
    if name in _TIMES or (name.endswith("_at") and name not in _OTHER_TIMES):
        return _like("2026-11-15T18:36:08.123456Z", _NO_TIMES.get(name, ()))
    if name in _DATES:
        return _like(_DATES[name], ())
    if name in _KINDS:
        return _one_of(_KINDS[name])
    return _text


def _number(value: object) -> str | None:
    if not _is_whole(value):
        return "has a value of another type"
    return None if is_number(value) else f"is not a number from 0 to {NUMBERS_END - 1}"


def _share(value: object) -> str | None:
    try:
        checks.share(value, "")
    except InvalidInput:
        return "is not a number from 0 to 1"
    return None


def _seconds(value: object) -> str | None:
    try:
        checks.seconds(value, "")
    except InvalidInput:
        return "is not a number of seconds up to ten years"
    return None


def _text(value: object) -> str | None:
    """Both engines must be able to store it. JSON can write a NUL and half a character."""
    if not isinstance(value, str):
        return "has a value of another type"
    if "\0" in value or (not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value)):
        return "has a character that cannot be stored"
    return None


def _one_of(kinds: tuple[str, ...]) -> Check:
    return lambda value: None if value in kinds else f"is not {', '.join(kinds[:-1])} or {kinds[-1]}"


#: Makes every digit the same, so that texts of one form become equal.
_DIGITS = str.maketrans("123456789", "000000000")


def _like(example: str, others: tuple[str, ...]) -> Check:
    """A time in the form of an example, in ASCII digits, and in the calendar; or one of some other texts."""
    form = example.translate(_DIGITS)

    def check(value: object) -> str | None:
        if isinstance(value, str) and (value in others or (value.translate(_DIGITS) == form and _is_date(value))):
            return None
        return f"is not a time such as {example}"

    return check


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_date(text: str) -> bool:
    """Whether it is a month, a day or a time of the calendar. Years before 1000 would not compare as texts."""
    try:
        return datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-11") else text).year >= 1000
    except ValueError:
        return False
