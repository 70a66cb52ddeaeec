r"""Replaces secrets by `[redacted: kind]` before a text is stored.

Everything an agent reads may pass through Engram. Stored text is recalled, injected into other sessions and backed up.
So `checks` redacts keys, tokens and passwords in every text that enters, and refuses names that contain one.

Most texts contain no secret, but every text is searched. So the search has two steps. The first step looks for fixed
letters that a kind of secret needs, with fast string operations. The second step compiles and tries a pattern, only if
its letters were found. All patterns search the original text; their matches are merged and replaced at the end.

    token_formats   tokens with a format of their own: `ghp_…`, `AKIA…`
    assignments     values of a name that means a secret: `password = …`, `--token …`, `<apiKey>…`
    credentials     passwords and tokens in headers, URLs, commands and sentences: `Bearer …`, `curl -u …`
    private_keys    private keys
    value_checks    tests of a value: random, a password, a placeholder, a variable
    patterns        what these modules share

Every pattern takes time linear in the text's length. A test finds all patterns and tries hostile texts on each.
"""

from __future__ import annotations

import codecs
import re

from .patterns import PASSWORD_STEMS, STEMS, Span, compiled

#: The shortest token. Prose has few words of this length, so most prose is not searched for tokens.
_MIN_TOKEN = 16
#: Every token contains some of these. Most long words in prose and code do not.
_TELLTALES = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_RUNS = "[A-Za-z0-9]{2,}"
#: An escape ends in a letter or digit, but a token can start right after it: `\nghp_…` in JSON, `%3Dghp_…` in a URL.
_ESCAPE = r"\\[abfnrtv0]|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}"
#: The longest piece of a joined literal, and how much text around it is searched.
_MAX_PIECE = 200
#: The characters that can stand between the pieces of a literal, apart from the quotes.
_JOINING = " \t\r\n+.&\\"
_JOINED = _JOINING + "n"
#: The text between two pieces of one literal: `"sk-" + "ant…"`, `'AKIA' 'IOSF…'`. It may contain line breaks.
_JOIN = (
    r"([\"'])(?<=[^\s\"'(\[,:][\"'])(?:\s|\\{1,4}n|\\(?=\s)){0,60}+[+.&]?(?:\s|\\{1,4}n|\\(?=\s)){0,60}+[rbf]?\\{0,4}+\1"
    r"(?=[^\s\"',.)\]])"
)

_ASCII_ERRORS = "engram.plain"


def _replace_non_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    run = error.object[error.start : error.end]
    return (" " if run.isspace() else "\x7f") * len(run), error.end


codecs.register_error(_ASCII_ERRORS, _replace_non_ascii)


def redact(text: str) -> str:
    """Return the text with its secrets replaced; the same text if it has none."""
    secrets = find(text)
    if not secrets:
        return text
    kept, done = [], 0
    for start, end, kind in secrets:
        kept += [text[done:start], f"[redacted: {kind}]"]
        done = end
    return "".join([*kept, text[done:]])


def find(text: str) -> list[Span]:
    """Find the secrets in a text: their positions in order, without overlaps."""
    if not text.isascii():
        # No secret needs other letters, and searching ASCII is several times faster. Positions stay the same.
        text = text.encode("ascii", _ASCII_ERRORS).decode("ascii")
    found = _find_all(text)
    if ('"' in text and _has_joins(text, '"')) or ("'" in text and _has_joins(text, "'")):
        found += _find_across_joins(text)
    return _merge(found) if found else found


def clean(value: object, name: str = "") -> object:
    """Return a JSON value without secrets: in texts, in keys, and in values whose key means a secret."""
    if isinstance(value, str):
        return _clean_text(value, name)
    if isinstance(value, list | tuple):
        return [
            clean(item, _flag_name(value[position - 1]) if position else name) for position, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    # `{"name": "DB_PASSWORD", "value": …}`
    named = value.get("name", value.get("key"))
    cleaned: dict[object, object] = {}
    for key, item in value.items():
        label = named if key == "value" and isinstance(named, str) else key
        kept = redact(key) if isinstance(key, str) else key
        number = 1
        while kept in cleaned:  # two keys with secrets of the same kind
            number += 1
            kept = f"{redact(key)} {number}"
        cleaned[kept] = clean(item, label if isinstance(label, str) else "")
    return cleaned


def _clean_text(text: str, name: str) -> str:
    cleaned = redact(text)
    if cleaned == text and name:
        from .assignments import classify

        kind = classify(name, text)
        return f"[redacted: {kind}]" if kind else text
    return cleaned


def _flag_name(item: object) -> str:
    return item if isinstance(item, str) and item.startswith("-") else ""


def _find_all(text: str) -> list[Span]:
    long = " ".join([word for word in text.split() if len(word) >= _MIN_TOKEN and not _TELLTALES.isdisjoint(word)])
    found = _find_tokens(text, long) if long else []
    if "PRIVATE KEY" in text or "rivate-Lines" in text or (long and "kty" in text):
        from .private_keys import find_private_keys

        found += find_private_keys(text)
    lower = text.lower()
    stems = [stem for stem in (STEMS if long else PASSWORD_STEMS) if stem in lower]
    if stems:
        from .assignments import find_values

        found += find_values(text, lower, stems)
    return found + _find_credentials(text, lower, stems)


def _find_credentials(text: str, lower: str, stems: list[str]) -> list[Span]:
    found: list[Span] = []
    if "bearer" in lower or "basic" in lower:
        from .credentials import find_after_scheme

        found += find_after_scheme(text)
    if "auth" in stems and "authorization" in lower:
        from .credentials import find_in_headers

        found += find_in_headers(text)
    if "@" in text and "://" in text:
        from .credentials import find_in_urls

        found += find_in_urls(text)
    if "pass" in stems and (" is" in lower or " was" in lower):
        from .credentials import find_in_sentences

        found += find_in_sentences(text)
    if " -" in text or "identified" in lower:
        from .credentials import find_in_commands

        found += find_in_commands(text, lower)
    return found


def _find_tokens(text: str, long: str) -> list[Span]:
    """Find tokens by their format. `long` holds the words that are long enough to be one."""
    from .token_formats import AWS_SECRET, BY_START, SHAPED, find_matches

    found: list[Span] = []
    if "\\" in long or "%" in long:
        long = f"{long} {compiled(_ESCAPE).sub(' ', long)}"
    for start in {word[:2] for word in compiled(_RUNS).findall(long)} & BY_START.keys():
        for kind, prefix, tail in BY_START[start]:
            if prefix in long:
                found += _find_prefixed(text, kind, prefix, tail)
    for kind, letters, pattern in SHAPED:
        if letters in long:
            found += find_matches(text, kind, pattern)
    if any(kind == "aws key" for _, _, kind in found):
        found += find_matches(text, "aws secret", AWS_SECRET)
    return found


def _find_prefixed(text: str, kind: str, prefix: str, tail: str) -> list[Span]:
    from .value_checks import is_mixed, is_placeholder

    pattern = compiled(f"{re.escape(prefix)}(?P<tail>{tail})(?![A-Za-z0-9])")
    return [
        (match.start(), match.end(), kind)
        for match in pattern.finditer(text)
        if _can_begin(text, match.start()) and is_mixed(match["tail"]) and not is_placeholder(match["tail"])
    ]


def _can_begin(text: str, position: int) -> bool:
    """Whether a token can begin at this position: not inside a word, except right after an escape."""
    before = text[position - 1 : position] if position else ""
    if not before or not (before.isascii() and before.isalnum()):
        return True
    return compiled(f"(?:{_ESCAPE})$").search(text, max(0, position - 6), position) is not None


def _has_joins(text: str, quote: str) -> bool:
    return any([part and part[0] in _JOINING and not part.strip(_JOINED) for part in text.split(quote)])


def _find_across_joins(text: str) -> list[Span]:
    """Find secrets that source code splits into several literals; the span includes the joins."""
    found: list[Span] = []
    chain: list[tuple[int, int]] = []
    for join in compiled(_JOIN).finditer(text):
        start = join.start()
        while start > join.start() - 4 and text[start - 1 : start] == "\\":
            start -= 1
        if chain and start - chain[-1][1] > _MAX_PIECE:
            found += _find_across(text, chain)
            chain = []
        chain.append((start, join.end()))
    return found + _find_across(text, chain) if chain else found


def _find_across(text: str, joins: list[tuple[int, int]]) -> list[Span]:
    """Find the secrets that cross a join of one literal; a little text around the literal is searched too."""
    first, last = max(0, joins[0][0] - _MAX_PIECE), joins[-1][1] + _MAX_PIECE
    begins_at = [first, *[end for _, end in joins]]
    pieces = [text[begin:end] for begin, end in zip(begins_at, [*[start for start, _ in joins], last], strict=True)]
    found = _find_all("".join(pieces))
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
        # A secret inside one piece was already found, with all the text around it.
        if bisect_right(ends, start) != bisect_left(ends, end)
    ]


def _merge(found: list[Span]) -> list[Span]:
    """Sort the spans and merge those that overlap; the merged span has the kind of the first."""
    merged: list[Span] = []
    # The sort is stable. A token's format says more than its name, and formats are searched first, so they win a tie.
    for start, end, kind in sorted(found, key=lambda span: span[0]):
        if merged and start < merged[-1][1]:
            first, last, known = merged[-1]
            merged[-1] = (first, max(last, end), known)
        else:
            merged.append((start, end, kind))
    return merged
