"""Reads a statement into words: numbers, dates, versions, names, negations and the rest.

Different spellings of the same thing become one ("three" and 3, "May 7th 2023" and 2023-05-07, 1,000 and 1000, "30s"
and half a minute), so that two statements can be compared word by word. English only; in other languages numbers, dates
in digits and names are still understood.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ...language import STOP_WORDS
from . import wordlists as lists

if TYPE_CHECKING:
    from collections.abc import Iterator

_MONTH: Final = "(?:" + "|".join(sorted(lists.MONTHS, key=len, reverse=True)) + r")\b\.?"
_WEEKDAY: Final = "(?:" + "|".join(sorted(lists.WEEKDAYS, key=len, reverse=True)) + ")"
_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_UNIT: Final = "(?:" + "|".join(re.escape(unit) for unit in sorted(lists.UNITS, key=len, reverse=True)) + r")(?![\w])"
#: A month by itself is a date only after one of these: `may` is also a verb.
_WHEN: Final = r"(?:in|since|until|till|by|from|last|next|this|every|during|before|after|for|of|early|late|mid)\s+"

#: Repetitions at the beginning of a part are bounded, so that the time for a line of dots or dashes stays linear.
_PARTS: Final = re.compile(
    rf"""
    (?P<link>https?://[^\s<>"')]+|[\w.+-]{{1,64}}@[\w-]+\.[\w.-]*\w)
    | (?P<iso>\b{_YEAR}[-/]\d\d?[-/]\d\d?(?!\d))
    | (?P<digits>\b\d\d?[./]\d\d?[./]{_YEAR}\b)
    | (?P<month_first>\b{_MONTH}\s+(?:the\s+)?{_DAY}(?:,?\s+{_YEAR})?(?![\w:]))
    | (?P<day_first>\b{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?(?!\w))
    | (?P<month_of_year>\b{_MONTH},?\s+{_YEAR}\b)
    | (?P<month>(?<=\ ){_MONTH}(?!\w))
    | (?P<relative>\b(?:today|yesterday|tomorrow|tonight
        |(?:last|next|this|previous)\s+(?:week|month|year|quarter|sprint))\b)
    | (?P<weekday>\b{_WEEKDAY}\b)
    | (?P<time>\b\d{{1,2}}(?::\d\d)?\s*[ap]\.?m\b\.?|\b\d{{1,2}}:\d\d(?::\d\d)?\b|\b(?:noon|midnight)\b)
    | (?P<version>\b(?:version|release|v)\.?\s*\d+(?:\.\d+)*(?:-?(?:rc|alpha|beta|a|b)\.?\d*)?\b
        |\b\d+(?:\.\d+){{2,}}[\w.+-]*\b)
    | (?P<number>(?:(?<!\w)-)?[$€£]?\b\d+(?:,\d{{3}})*(?:\.\d+)?(?:e[+-]?\d+)?(?:st|nd|rd|th)?(?:k\b|\s?-?{_UNIT})?
        (?![\w]|[-./]\w))
    | (?P<name>[\w~.\#@-]{{0,64}}[\w~](?:[./\\:@\#]+[\w~*-]+)+/?
        |(?:--?)?\b\w*(?:_\w|\d[^\W\d]|[^\W\d]\d|(?-i:[a-z][A-Z]))[\w-]*|\b\w+-\d[\w-]*|[\#@]\w+)
    | (?P<word>[^\W\d_]+(?:'[^\W\d_]+)?)
    | (?P<stop>[.!?;:,()\n])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CONTRACTED: Final = re.compile(r"(?i)\b(?:(ca)n't|(wo)n't|(sha)n't|(\w+)n't)\b")
_ENDINGS: Final = re.compile(r"(?i)(?<=\w)'(?:s|re|ve|ll|d|m)?\b|(?<=s)'(?=\s|$)")
#: Not in "is used to…", which is about the present.
_FORMERLY: Final = re.compile(r"(?i)(?<!is )(?<!are )(?<!be )(?<!was )(?<!were )(?<!been )(?<!get )\bused to (?=[a-z])")
#: "A week" is one week, but "a second" is more often an ordinal.
_ONE: Final = re.compile(r"(?i)\b(?:an?|(?<=every)|(?<=each))\s+(minute|hour|week|month|year)\b")
_RATE: Final = re.compile(r"(?i)(?<=[a-z])\s?/\s?(?=(?:s|sec|second|min|minute|hour|day|week|month|year)\b)")
_NUMBER_WORD: Final = "(?:" + "|".join([*lists.NUMBERS, *lists.SCALES]) + ")"
#: A number word inside a path, an address or a dotted name (`src/one.py`) is a part of that name, not a number.
_NAME_BEFORE, _NAME_AFTER = r"(?<![./\\:@\#])", r"(?![./\\:@\#]\w)"
#: The times of day as people say them: "half past two", "quarter to nine", "eleven in the morning".
_PAST: Final = re.compile(r"(?i)\b(half|(?:a\s{1,9})?quarter)\s{1,9}(past|to)\s{1,9}(\d{1,2})\b(?![.:]\d)")
_PART_OF_DAY: Final = re.compile(
    r"(?i)(?<![.:\d])\b(\d{1,2}(?::\d\d)?)(?:\s{1,9}o'clock)?\s{1,9}(?:in the (morning|afternoon|evening)|at (night))\b"
)
_SPELT: Final = re.compile(rf"(?i){_NAME_BEFORE}\b{_NUMBER_WORD}(?:(?:\s+and\s+|[\s-]+){_NUMBER_WORD})*\b{_NAME_AFTER}")
_SPELT_ORDINAL: Final = re.compile(
    rf"(?i){_NAME_BEFORE}\b(?:{'|'.join(lists.ORDINALS)})\b{_NAME_AFTER}(?=\s+[a-z0-9])(?!\s+(?:of\s+all|time))"
)
#: The largest distance between a word and its article.
_ARTICLE: Final = 12
#: "one" is a pronoun more often than a number.
_PRONOUN: Final = re.compile(
    r"(?i)\b(no|any|some|every|each|this|that|which|the|another)[ -]one\b|\bone (of|another|by|day|in|on|at|is)\b"
    r"|(?<![./\\:@\#])\bone(?=-[a-z]|[.,;!?](?:\s|$)|$)"
)


#: A word with a sign in it or before it that no ordinary word has: `/srv`, `.env`, `C++`, `o'brien@example.com`.
#: Signs of punctuation around it are left out.
_LITERAL = re.compile(
    r"(?<![^\s\"'(\[{<,;:])[^\s\"(\[{<,;:]{0,200}?[/\\@#+$*~=][^\s\")\]}>,;:]{0,200}|(?<!\S)\.\w[\w.-]{0,200}"
)


class Word(NamedTuple):
    #: The form that is compared. Words that mean the same have the same form.
    head: str
    #: As it is written, in lower case.
    plain: str
    #: number, date, version, name or word; stop for punctuation and for words that only join others.
    kind: str
    capital: bool
    #: Whether it begins a sentence. There a capital does not indicate a name.
    first: bool


_END: Final = Word("", "", "stop", False, False)


class Statement(NamedTuple):
    words: tuple[Word, ...]
    #: Whether most words have a capital, as in headlines. Then a capital does not indicate a name.
    loud: bool
    #: Words with signs that only paths, addresses and names of programs have, as they were written.
    literals: frozenset[str] = frozenset()

    def values(self, kind: str) -> list[str]:
        return [word.head for word in self.words if word.kind == kind]

    @property
    def followed(self) -> Iterator[tuple[Word, Word]]:
        """Each word with the one after it."""
        return pairwise((*self.words, _END))

    @property
    def plain(self) -> frozenset[str]:
        """Every word in lower case, and in the form that is compared."""
        return frozenset(part for word in self.words for part in (word.plain, word.head))

    @property
    def said(self) -> list[str]:
        """The words in order, without case and punctuation."""
        return [word.plain for word in self.words if word.kind != "stop" or word.plain.isalpha()]

    @property
    def content(self) -> list[Word]:
        """The words that carry meaning, in order."""
        return [word for word in self.words if word.kind != "stop"]

    @property
    def negations(self) -> int:
        return sum(word.head in lists.NEGATIONS for word in self.words)

    @property
    def qualifiers(self) -> frozenset[str]:
        found = set()
        for word, after in self.followed:
            if word.kind == "stop" and (after.kind == "number" or word.plain not in lists.OF_NUMBERS):
                found.add(lists.QUALIFIERS.get(word.plain, ""))
        return frozenset(found - {""})

    @property
    def bounds(self) -> list[str]:
        """The words that set a limit in time or place, sorted; `by` only before a date."""
        found = [lists.BOUNDS[word.plain] for word in self.words if word.plain in lists.BOUNDS]
        deadlines = sum(word.plain == "by" and after.kind == "date" for word, after in self.followed)
        return sorted(found + ["by"] * deadlines)

    @property
    def limits(self) -> list[str]:
        return sorted(word.plain for word in self.words if word.plain in lists.LIMITS)

    @property
    def persons(self) -> frozenset[str]:
        return frozenset(lists.PERSONS[word.plain] for word in self.words if word.plain in lists.PERSONS)


@lru_cache(maxsize=4_096)
def read(text: str) -> Statement:
    """Read a text into words."""
    literals = frozenset(found[0].casefold() for found in _LITERAL.finditer(text))
    text = _prepare(text)
    made: list[Word] = []
    first = True
    for match in _PARTS.finditer(text):
        kind, raw = match.lastgroup or "word", match[0]
        if kind == "stop":
            made.append(Word(raw, raw, "stop", False, False))
            first = first or raw not in ",("
            continue
        made += _make_words(kind, raw, first, made)
        first = False
    letters = [word for word in made if word.kind == "word"]
    loud = len(letters) > 2 and sum(word.capital for word in letters) > 0.7 * len(letters)
    return Statement(tuple(made), loud, literals)


def _prepare(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).replace("\u2019", "'").replace("\u2018", "'")
    text = _CONTRACTED.sub(
        lambda match: next(part for part in match.groups() if part) + ("n" if match[1] else "") + " not", text
    )
    text = re.sub(r"(?i)\bcannot\b", "can not", text.replace("'ll ", " will "))
    text = _FORMERLY.sub("formerly ", text)
    text = _RATE.sub(" per ", text)
    text = _ENDINGS.sub(lambda match: " s" if match[0].lower() == "'s" else "", text)
    text = _phrases().sub(_replace_phrase, text)
    text = _PRONOUN.sub(lambda match: match[0].replace("one", "").replace("One", ""), text)
    text = re.sub(r"(?i)\btwice\b", "2 times", text)
    text = _ONE.sub(r" 1 \1", text)
    text = _SPELT_ORDINAL.sub(_replace_ordinal, text)
    text = _SPELT.sub(lambda match: str(_read_number(match[0])), text)
    return _PART_OF_DAY.sub(_replace_part_of_day, _PAST.sub(_replace_past, text))


@cache
def _phrases() -> re.Pattern[str]:
    longest = sorted(lists.PHRASES, key=len, reverse=True)
    return re.compile(r"(?i)\b(?:" + "|".join(phrase.replace(" ", r"[\s-]+") for phrase in longest) + r")\b")


def _replace_phrase(match: re.Match[str]) -> str:
    return lists.PHRASES[re.sub(r"[\s-]+", " ", match[0].lower())]


def _replace_past(match: re.Match[str]) -> str:
    hour = int(match[3])
    if match[1].lower() == "half":
        return f"{hour}:30" if match[2].lower() == "past" else match[0]
    return f"{hour}:15" if match[2].lower() == "past" else f"{hour - 1 or 12}:45"


def _replace_part_of_day(match: re.Match[str]) -> str:
    return f"{match[1]} {'am' if (match[2] or '').lower() == 'morning' else 'pm'}"


def _replace_ordinal(match: re.Match[str]) -> str:
    """Replace an ordinal by its number. `second` is also a unit of time, so it needs an article."""
    word = match[0].lower()
    before = match.string[max(0, match.start() - _ARTICLE) : match.start()]
    if word == "second" and not re.search(r"(?i)\b(?:the|our|my|his|her)\s{1,9}$", before):
        return match[0]
    return f"{lists.ORDINALS[word]}th"


def _read_number(words: str) -> int:
    total, part = 0, 0
    for word in re.split(r"[\s-]+", words.lower()):
        if word == "and":
            continue
        if word == "hundred":
            part = (part or 1) * 100
        elif word in lists.SCALES:
            total, part = total + (part or 1) * lists.SCALES[word], 0
        else:
            part += lists.NUMBERS[word]
    return total + part


def _make_words(kind: str, raw: str, first: bool, before: list[Word]) -> list[Word]:
    plain = raw.lower()
    if kind == "number":
        return _number_word(plain, first, before)
    if kind == "version":
        return [Word(re.sub(r"^(?:version|release|v)\.?\s*", "", plain), plain, "version", False, first)]
    if kind == "month" and not (raw[0].isupper() and not first and plain not in ("may", "march")):
        when = before and re.fullmatch(_WHEN, before[-1].plain + " ")
        kind = "month" if when else "word"
    if kind == "weekday" and plain in ("sun", "sat", "wed", "mon", "fri") and not raw[0].isupper():
        kind = "word"
    if kind in ("link", "name"):
        return _identifier(raw, first)
    if kind == "word":
        return _plain_word(raw, plain, first)
    return [Word(_date_value(kind, plain), plain, "date", False, first)]


def _number_word(plain: str, first: bool, before: list[Word]) -> list[Word]:
    match = re.fullmatch(r"(-?)([$€£]?)([\d,]+(?:\.\d+)?(?:e[+-]?\d+)?)(st|nd|rd|th)?\s?-?(.*)", plain)
    assert match is not None
    sign, currency, digits, _, unit = match.groups()
    digits = digits.replace(",", "")
    if not unit and not currency and "." in digits and before and _names_a_product(before[-1]):
        return [Word(digits, plain, "version", False, first)]
    if unit == "k":
        return [Word(f"{float(digits) * 1_000:g}", plain, "number", False, first)]
    bare = not (unit or currency or sign) and digits.isdigit()
    if bare and before and before[-1].plain == "at" and int(digits) < 24:  # "at 10" is a time
        return [Word(f"{int(digits):02}:00", plain, "date", False, first)]
    base, factor = lists.UNITS.get(currency or unit, ("", 1))
    amount = float(digits) * factor
    # A long number, such as an account number, is kept as text so that it is not rounded.
    value = digits if len(digits) > 15 or (not unit and "." in digits) else f"{amount:.12g}"
    return [Word(f"{sign}{value} {base}".strip(), plain, "number", False, first)]


def _names_a_product(word: Word) -> bool:
    return word.kind == "name" or word.capital


def _identifier(raw: str, first: bool) -> list[Word]:
    plain = raw.lower().rstrip("/").rstrip(".:-")
    return [Word(lists.canonical(plain) if plain.isalnum() else plain, plain, "name", True, first)]


def _plain_word(raw: str, plain: str, first: bool) -> list[Word]:
    capital = raw[0].isupper() and plain != "i"
    if plain in lists.NEGATED:
        deeper = lists.NEGATED[plain]
        negation = Word("not", "not", "stop", False, first)
        return [negation, *(_plain_word(deeper, deeper, False) if deeper else [])]
    if plain in lists.NEGATIONS:
        return [Word(plain, plain, "stop", False, first)]
    if plain in STOP_WORDS or plain in lists.QUALIFIERS or plain in lists.LIMITS:
        return [Word(lists.canonical(plain), plain, "stop", False, first)]
    return [Word(lists.canonical(plain), plain, "word", capital, first)]


def _date_value(kind: str, plain: str) -> str:
    """The date in the form that is compared. Parts that the text does not give are left out."""
    if kind == "weekday":
        return lists.WEEKDAYS[plain]
    if kind == "relative":
        return " ".join(plain.split())
    if kind == "time":
        return _time_value(plain)
    numbers = [int(number) for number in re.findall(r"\d+", plain)]
    if kind == "iso":
        return "{:04}-{:02}-{:02}".format(*numbers)
    if kind == "digits":
        return _date_in_digits(plain, *numbers)
    month = lists.MONTHS[next(name for name in re.findall("[a-z]+", plain) if name in lists.MONTHS)]
    year = next((f"{number:04}" for number in numbers if number > 31), "")
    day = next((f"-{number:02}" for number in numbers if number <= 31), "")
    return f"{year}-{month:02}{day}"


def _date_in_digits(plain: str, first: int, second: int, year: int) -> str:
    """The date, if it is clear which number is the month: with dots, or when only one can be. Otherwise the text."""
    if "." in plain or first > 12:
        return f"{year:04}-{second:02}-{first:02}"
    if second > 12 or first == second:
        return f"{year:04}-{first:02}-{second:02}"
    return plain


def _time_value(plain: str) -> str:
    if plain in ("noon", "midnight"):
        return "12:00" if plain == "noon" else "00:00"
    numbers = re.findall(r"\d+", plain)
    hour = int(numbers[0])
    if "p" in plain and hour < 12:
        hour += 12
    elif "a" in plain and hour == 12:
        hour = 0
    return ":".join([f"{hour:02}", *(numbers[1:] or ["00"])])
