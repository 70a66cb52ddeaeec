"""Dates in a question: "in May 2023", "last week", "yesterday", "2023-05-07".

Most questions have none, and must not pay for those that have: one look at their words tells. What may be a date is
then found by its shape, which leaves out what only looks like one (`may`, `march` and `second` as plain words). What it
means is dateparser's business; it is imported only when there is something to read, because that takes half a second
in a new process. English only, like the stop words. Only the beginning of a text is looked at: a pasted log is full of
dates that nobody asks for.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta
from typing import Final, NamedTuple

_LONGEST: Final = 1_000
_MOST: Final = 3

_MONTH: Final = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY: Final = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_YEAR: Final = r"(?:19|20)\d\d"
_COUNT: Final = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,3})"
#: A month or a year by itself is a date only after one of these: `May` is also a verb, and `April` a name.
_WHEN: Final = r"\b(?:in|during|of|for|from|last|this)\s+(?:early\s+|late\s+|mid[\s-]?)?"
_DATE: Final = rf"""
    \b(?P<iso>{_YEAR}-\d\d(?:-\d\d)?)\b
    | \b(?P<day_first>\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?)\b
    | \b(?P<month_first>{_MONTH}\s+\d{{1,2}}(?:(?:st|nd|rd|th)(?:,?\s+{_YEAR})?|,?\s+{_YEAR}))\b
    | \b(?P<month_of_year>{_MONTH},?\s+{_YEAR})\b
    | {_WHEN}(?P<alone>{_MONTH}(?:,?\s+{_YEAR})?(?!,?\s+\d)|{_YEAR}(?!-))\b
    | \b(?P<relative>(?:the\s+day\s+before\s+)?yesterday|today|tonight|last\s+night)\b
    | \b(?P<part_of_day>this\s+(?:morning|afternoon|evening))\b
    | \b(?P<period>(?:last|this|past|previous)\s+(?:week|month|year|{_WEEKDAY}))\b
    | \bon\s+(?P<weekday>{_WEEKDAY})\b
    | \b(?P<ago>{_COUNT}\s+(?:hour|day|week|month|year)s?\s+ago)\b
"""
#: Without one of these words, or the number of a year, nothing is a date.
_HINTS: Final = frozenset(
    [
        "jan",
        "january",
        "feb",
        "february",
        "mar",
        "march",
        "apr",
        "april",
        "may",
        "jun",
        "june",
        "jul",
        "july",
        "aug",
        "august",
        "sep",
        "sept",
        "september",
        "oct",
        "october",
        "nov",
        "november",
        "dec",
        "december",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "yesterday",
        "today",
        "tonight",
        "night",
        "morning",
        "afternoon",
        "evening",
        "week",
        "month",
        "year",
        "ago",
    ]
)


class Span(NamedTuple):
    """A time that a question names, from its first day to its last."""

    phrase: str
    first: datetime
    last: datetime

    def days_from(self, day: datetime) -> int:
        """How many days lie between a day and this time; none if it is within."""
        return max((self.first - day).days, (day - self.last).days, 0)


def spans(question: str, now: str) -> tuple[Span, ...]:
    """The times that a question names, seen from `now`."""
    beginning = question[:_LONGEST]
    if _HINTS.isdisjoint(re.findall("[a-z]+", beginning.lower())) and not re.search("(?:19|20)[0-9]{2}", beginning):
        return ()
    # Compiled when it is first needed, and kept by `re`.
    found = re.finditer(_DATE, beginning, re.IGNORECASE | re.VERBOSE)
    phrases = [match[match.lastgroup or 0] for match in found][:_MOST]
    read = (_read(phrase, datetime.fromisoformat(now[:-1])) for phrase in phrases)
    return tuple(span for span in read if span is not None)


def day(stamp: str) -> datetime:
    """The day of a stamp."""
    return datetime(int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10]))


def _read(phrase: str, now: datetime) -> Span | None:
    from dateparser.date import DateDataParser

    plain = re.sub(r"(?i)^(past|previous)\b", "last", phrase)
    settings = {"RELATIVE_BASE": now, "PREFER_DATES_FROM": "past", "DATE_ORDER": "YMD", "TIMEZONE": "UTC"}
    data = DateDataParser(languages=["en"], settings=settings).get_date_data(plain)
    if data is None or data.date_obj is None:
        return None
    first = data.date_obj.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    try:
        return Span(phrase, *_days(first, data.period))
    except OverflowError:  # at the ends of the calendar, where nothing real is
        return None


def _days(day: datetime, period: str) -> tuple[datetime, datetime]:
    """The first and the last day of the week, month or year that a day is in; otherwise the day itself."""
    if period == "week":
        first = day - timedelta(day.weekday())
        return first, first + timedelta(6)
    if period == "month":
        return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])
    if period == "year":
        return day.replace(month=1, day=1), day.replace(month=12, day=31)
    return day, day
