"""Dates in a question: "in May 2023", "last week", "yesterday", "2023-05-07".

Most questions name no date and must not pay for those that do, so a set of words is tested first. The pattern then
finds phrases by their shape. It skips words that only look like dates, such as `may`, `march` and `second`.

A question is about the past: a month or a day without a year is the latest one that has begun. A phrase is read as days
in UTC. Only English is read, like the stop words. Only the beginning of a text is read, because a pasted log is full
of dates that the question is not about.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple

_LONGEST: Final = 1_000
_MOST: Final = 3

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: How many years are searched for a date. Two dates of 29 February are at most 8 years apart.
_LEAP_GAP: Final = 9
_COUNTS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_MONTH: Final = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY: Final = f"(?:{'|'.join(_WEEKDAYS)})"
_YEAR: Final = r"(?:19|20)\d\d"
_COUNT: Final = rf"(?:an?|{'|'.join(_COUNTS)}|\d{{1,3}})"
#: A month or a year by itself is a date only after one of these: `May` is also a verb, and `April` a name.
_WHEN: Final = r"\b(?:in|during|of|for|from|last|this)\s+(?:early\s+|late\s+|mid[\s-]?)?"
_DATE: Final = rf"""
    \b(?P<iso>{_YEAR}-\d\d(?:-\d\d)?)\b
    | \b(?P<day_first>\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?)\b
    | \b(?P<month_first>{_MONTH}\s+\d{{1,2}}(?:(?:st|nd|rd|th)(?:,?\s+{_YEAR})?|,?\s+{_YEAR}))\b
    | \b(?P<month_of_year>{_MONTH},?\s+{_YEAR})\b
    | {_WHEN}(?P<alone>{_MONTH}(?:,?\s+{_YEAR})?(?!,?\s+\d)|{_YEAR}(?!-))\b
    | \b(?P<day>(?:the\s+day\s+before\s+)?yesterday|today|tonight|last\s+night|this\s+(?:morning|afternoon|evening))\b
    | \b(?P<period>(?:last|this|past|previous)\s+(?:week|month|year|{_WEEKDAY}))\b
    | \bon\s+(?P<weekday>{_WEEKDAY})\b
    | \b(?P<ago>{_COUNT}\s+(?:hour|day|week|month|year)s?\s+ago)\b
"""
#: A text without any of these words and without a year contains no date.
_HINTS: Final = frozenset(
    [
        *_MONTHS,
        *("january", "february", "march", "april", "june", "july", "august", "sept", "september", "october"),
        *("november", "december", *_WEEKDAYS, "week", "month", "year", "ago"),
        *("yesterday", "today", "tonight", "night", "morning", "afternoon", "evening"),
    ]
)


class Span(NamedTuple):
    """A time that a question names, from its first day to its last."""

    phrase: str
    #: Where the phrase begins in the question.
    start: int
    first: datetime
    last: datetime

    def days_from(self, day: datetime) -> int:
        """The number of days between a day and this time; 0 for a day within it."""
        return max((self.first - day).days, (day - self.last).days, 0)


def spans(question: str, now: str) -> tuple[Span, ...]:
    """The times that a question names, seen from `now`."""
    beginning = question[:_LONGEST]
    if _HINTS.isdisjoint(re.findall("[a-z]+", beginning.lower())) and not re.search("(?:19|20)[0-9]{2}", beginning):
        return ()
    # Compiled when it is first needed, and kept by `re`.
    matches = list(re.finditer(_DATE, beginning, re.IGNORECASE | re.VERBOSE | re.ASCII))[:_MOST]
    read = (_read(match, datetime.fromisoformat(now[:-1])) for match in matches)
    return tuple(span for span in read if span is not None)


def without(question: str, spans: tuple[Span, ...]) -> str:
    """The question without the words that name a time; the whole question if it has no other search words.

    A day in figures stays: it may be part of a name, such as that of a backup.
    """
    from . import analyser

    rest = question
    for span in sorted(spans, key=lambda span: -span.start):
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", span.phrase):
            rest = rest[: span.start] + rest[span.start + len(span.phrase) :]
    return rest if spans and analyser.terms(rest) else question


def day(stamp: str) -> datetime:
    """The day of a stamp."""
    return datetime(int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10]))


def _read(match: re.Match[str], now: datetime) -> Span | None:
    """The days that a phrase names; None for a day that does not exist."""
    form = match.lastgroup or ""
    phrase = match[form]
    words = re.findall("[a-z]+|[0-9]+", phrase.lower())
    try:
        if form == "day":
            first, last = _period("day", now, 2 if "before" in words else words[-1] in ("yesterday", "night"))
        elif form == "period":
            first, last = _named_period(words[1], is_current=words[0] == "this", now=now)
        elif form == "weekday":
            first, last = _named_period(words[0], is_current=False, now=now)
        elif form == "ago":
            first, last = _period(words[1].removesuffix("s"), now, _count(words[0]))
        else:
            first, last = _calendar(words, now)
    except (ValueError, OverflowError):  # 30 February, or before the year 1
        return None
    return Span(phrase, match.start(form), first, last)


def _named_period(name: str, *, is_current: bool, now: datetime) -> tuple[datetime, datetime]:
    """This or the last week, month, year or weekday."""
    if name not in _WEEKDAYS:
        return _period(name, now, 0 if is_current else 1)
    back = now.weekday() - _WEEKDAYS.index(name)
    # "This Monday" is in the current week. Any other Monday is the latest one before today.
    return _period("day", now, back if is_current else back % 7 or 7)


def _period(unit: str, now: datetime, back: int) -> tuple[datetime, datetime]:
    """The first and last day of the day, week, month or year that was `back` units ago."""
    if unit == "year":
        return datetime(now.year - back, 1, 1), datetime(now.year - back, 12, 31)
    if unit == "month":
        year, month = divmod(now.year * 12 + now.month - 1 - back, 12)
        return _month(year, month + 1)
    if unit == "week":
        first = _midnight(now) - timedelta(now.weekday(), weeks=back)
        return first, first + timedelta(6)
    one = _midnight(now - (timedelta(hours=back) if unit == "hour" else timedelta(back)))
    return one, one


def _calendar(words: list[str], now: datetime) -> tuple[datetime, datetime]:
    """A year, a month or a day of the calendar. Without a year it is the latest one that has begun."""
    numbers = [int(word) for word in words if word.isdecimal()]
    year = next((number for number in numbers if number >= 1_900), None)
    days = [number for number in numbers if number != year]
    month = next((_MONTHS.index(word[:3]) + 1 for word in words if word[:3] in _MONTHS), None)
    if month is None and days:  # 2023-05 and 2023-05-07
        month = days.pop(0)
    if month is None:
        return _period("year", datetime(year or now.year, 1, 1), 0)
    if not days:
        return _month(year or now.year - (month > now.month), month)
    one = datetime(year, month, days[0]) if year else _latest(month, days[0], now)
    return one, one


def _latest(month: int, day: int, now: datetime) -> datetime:
    """The latest such day that has begun."""
    for year in range(now.year, now.year - _LEAP_GAP, -1):
        with suppress(ValueError):
            if (one := datetime(year, month, day)) <= now:
                return one
    raise ValueError(f"there is no day {day} in month {month}")


def _month(year: int, month: int) -> tuple[datetime, datetime]:
    # Not from `calendar`, which imports `locale`. December is the only month without a next one in its year.
    last = 31 if month == 12 else (datetime(year, month + 1, 1) - timedelta(days=1)).day
    return datetime(year, month, 1), datetime(year, month, last)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _count(word: str) -> int:
    return int(word) if word.isdecimal() else _COUNTS.index(word) + 1 if word in _COUNTS else 1
