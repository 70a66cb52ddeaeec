r"""Secrets, taken out of a text before it is stored: `[redacted: kind]` stands in their place.

Everything an agent reads may pass through Engram, and what is stored is recalled, injected into other sessions and
backed up. So `checks` replaces keys, tokens and passwords in every text that enters, and refuses names that hold one.

Most texts hold no secret, and every text pays for the search, so it goes in two steps. A text is first searched for the
fixed letters that a shape needs, at the speed of C. Only where some are found is the pattern of that shape compiled and
tried. Patterns find places in the text as it came; the places are replaced together at the end.

    formats     tokens that their own letters give away
    names       values that a name gives away: `password = …`, `--token …`, `<apiKey>…`
    announced   what a word or a command before it gives away: `Bearer …`, `curl -u …`, the password in a URL
    keys        private keys

All patterns are linear in the text's length; a test finds every pattern and tries hostile texts on it.
"""

from __future__ import annotations

import codecs
import re

from .patterns import CHOSEN_STEMS, STEMS, Span, compiled

#: Nothing shorter is a token: prose has no such words, so it is not searched for tokens at all.
_LONG = 16
#: Every token has some of these; most long words of prose and code do not.
_STREWN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_RUNS = "[A-Za-z0-9]{2,}"
#: An escape's last letter is no letter of what follows it: `\nghp_…` in JSON, `%3Dghp_…` in a URL.
_ESCAPE = r"\\[abfnrtv0]|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}"
#: The longest piece of a joined literal, and how much around it is looked at.
_PIECE = 200
#: What can stand between the pieces of a literal, beside the quotes.
_JOINING = " \t\r\n+.&\\"
_JOINED = _JOINING + "n"
#: Between two pieces of one literal: `"sk-" + "ant…"`, `'AKIA' 'IOSF…'`, over lines too.
_JOIN = (
    r"([\"'])(?<=[^\s\"'(\[,:][\"'])(?:\s|\\{1,4}n|\\(?=\s)){0,60}+[+.&]?(?:\s|\\{1,4}n|\\(?=\s)){0,60}+[rbf]?\\{0,4}+\1"
    r"(?=[^\s\"',.)\]])"
)

_PLAIN = "engram.plain"


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    run = error.object[error.start : error.end]
    return (" " if run.isspace() else "\x7f") * len(run), error.end


codecs.register_error(_PLAIN, _plain)


def redact(text: str) -> str:
    """The text without its secrets; the same text when it has none."""
    places = find(text)
    if not places:
        return text
    kept, done = [], 0
    for start, end, kind in places:
        kept += [text[done:start], f"[redacted: {kind}]"]
        done = end
    return "".join([*kept, text[done:]])


def find(text: str) -> list[Span]:
    """The places of a text's secrets, in order and without overlaps."""
    if not text.isascii():
        # No shape has other letters, and searching is several times faster without them. The places stay the same.
        text = text.encode("ascii", _PLAIN).decode("ascii")
    found = _search(text)
    if ('"' in text and _has_joins(text, '"')) or ("'" in text and _has_joins(text, "'")):
        found += _across_joins(text)
    return _merged(found) if found else found


def clean(value: object, name: str = "") -> object:
    """A JSON value without its secrets: in texts, in keys, and where a key announces one."""
    if isinstance(value, str):
        return _clean_text(value, name)
    if isinstance(value, list | tuple):
        return [clean(item, _flag(value[position - 1]) if position else name) for position, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    # `{"name": "DB_PASSWORD", "value": …}`
    told = value.get("name", value.get("key"))
    cleaned: dict[object, object] = {}
    for key, item in value.items():
        said = told if key == "value" and isinstance(told, str) else key
        kept = redact(key) if isinstance(key, str) else key
        number = 1
        while kept in cleaned:  # two secrets of one kind
            number += 1
            kept = f"{redact(key)} {number}"
        cleaned[kept] = clean(item, said if isinstance(said, str) else "")
    return cleaned


def _clean_text(text: str, name: str) -> str:
    cleaned = redact(text)
    if cleaned == text and name:
        from .names import under

        kind = under(name, text)
        return f"[redacted: {kind}]" if kind else text
    return cleaned


def _flag(item: object) -> str:
    return item if isinstance(item, str) and item.startswith("-") else ""


def _search(text: str) -> list[Span]:
    long = " ".join([word for word in text.split() if len(word) >= _LONG and not _STREWN.isdisjoint(word)])
    found = _tokens(text, long) if long else []
    if "PRIVATE KEY" in text or "rivate-Lines" in text or (long and "kty" in text):
        from .keys import private_keys

        found += private_keys(text)
    lower = text.lower()
    stems = [stem for stem in (STEMS if long else CHOSEN_STEMS) if stem in lower]
    if stems:
        from .names import values

        found += values(text, lower, stems)
    return found + _announced(text, lower, stems)


def _announced(text: str, lower: str, stems: list[str]) -> list[Span]:
    found: list[Span] = []
    if "bearer" in lower or "basic" in lower:
        from .announced import by_scheme

        found += by_scheme(text)
    if "auth" in stems and "authorization" in lower:
        from .announced import in_headers

        found += in_headers(text)
    if "@" in text and "://" in text:
        from .announced import in_urls

        found += in_urls(text)
    if "pass" in stems and (" is" in lower or " was" in lower):
        from .announced import said

        found += said(text)
    if " -" in text or "identified" in lower:
        from .announced import for_commands

        found += for_commands(text, lower)
    return found


def _tokens(text: str, long: str) -> list[Span]:
    """Tokens that can be told by their own letters; `long` are the words they can be in."""
    from .formats import AWS_SECRET, BY_START, SHAPED, shaped

    found: list[Span] = []
    if "\\" in long or "%" in long:
        long = f"{long} {compiled(_ESCAPE).sub(' ', long)}"
    for start in {word[:2] for word in compiled(_RUNS).findall(long)} & BY_START.keys():
        for kind, prefix, tail in BY_START[start]:
            if prefix in long:
                found += _prefixed(text, kind, prefix, tail)
    for kind, letters, pattern in SHAPED:
        if letters in long:
            found += shaped(text, kind, pattern)
    if any(kind == "aws key" for _, _, kind in found):
        found += shaped(text, "aws secret", AWS_SECRET)
    return found


def _prefixed(text: str, kind: str, prefix: str, tail: str) -> list[Span]:
    from .values import is_mixed, is_placeholder

    pattern = compiled(f"{re.escape(prefix)}(?P<tail>{tail})(?![A-Za-z0-9])")
    return [
        (match.start(), match.end(), kind)
        for match in pattern.finditer(text)
        if begins(text, match.start()) and is_mixed(match["tail"]) and not is_placeholder(match["tail"])
    ]


def begins(text: str, position: int) -> bool:
    """Whether something may begin there: not within a word, unless what stands before is an escape."""
    before = text[position - 1 : position] if position else ""
    if not before or not (before.isascii() and before.isalnum()):
        return True
    return compiled(f"(?:{_ESCAPE})$").search(text, max(0, position - 6), position) is not None


def _has_joins(text: str, quote: str) -> bool:
    return any([part and part[0] in _JOINING and not part.strip(_JOINED) for part in text.split(quote)])


def _across_joins(text: str) -> list[Span]:
    """Secrets of which a source text has the pieces: found without what joins them, and taken out with it."""
    found: list[Span] = []
    chain: list[tuple[int, int]] = []
    for join in compiled(_JOIN).finditer(text):
        start = join.start()
        while start > join.start() - 4 and text[start - 1 : start] == "\\":
            start -= 1
        if chain and start - chain[-1][1] > _PIECE:
            found += _across(text, chain)
            chain = []
        chain.append((start, join.end()))
    return found + _across(text, chain) if chain else found


def _across(text: str, joins: list[tuple[int, int]]) -> list[Span]:
    """The same for one literal, with a little of what stands around it."""
    first, last = max(0, joins[0][0] - _PIECE), joins[-1][1] + _PIECE
    begins_at = [first, *[end for _, end in joins]]
    pieces = [text[begin:end] for begin, end in zip(begins_at, [*[start for start, _ in joins], last], strict=True)]
    found = _search("".join(pieces))
    if not found:
        return []
    from bisect import bisect_left, bisect_right
    from itertools import accumulate

    ends = list(accumulate(map(len, pieces)))
    starts = [0, *ends]

    def position(at: int, piece: int) -> int:
        return begins_at[piece] + at - starts[piece]

    return [
        (position(start, bisect_right(ends, start)), position(end, bisect_left(ends, end)), kind)
        for start, end, kind in found
        # What lies within one piece was found without this, and with all that stands around it.
        if bisect_right(ends, start) != bisect_left(ends, end)
    ]


def _merged(found: list[Span]) -> list[Span]:
    """In order; of those that overlap, one place with the kind of the one that begins first."""
    merged: list[Span] = []
    # One that was found by its own letters says more than its name, so it comes first of two that begin together.
    for start, end, kind in sorted(found, key=lambda position: position[0]):
        if merged and start < merged[-1][1]:
            first, last, known = merged[-1]
            merged[-1] = (first, max(last, end), known)
        else:
            merged.append((start, end, kind))
    return merged
