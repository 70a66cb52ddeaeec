"""Values that a name gives away: `password = …`, `"api_key": …`, `--token …`, `<secret>…</secret>`.

A name is believed only when its value looks like one: chosen at random, or a password with digits or symbols in it.
Placeholders, variables, calls, hashes and identifiers stay. The names are found by their letters, and what stands
around each is read there; every step of that has a limit, so the whole is linear in the text's length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .patterns import STEMS, Span, compiled
from .values import is_attribute, is_chosen, is_identifier, is_placeholder, is_random, is_strong, is_variable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from re import Match

#: What a name may go on with and still announce the secret itself, and not, say, how long it may be.
_MORE = (
    "(?:[_-]?(?:key|token|secret|value|val|text|string|data|json|b64|base64|enc|prod|production|staging|dev|live|test|old"
    "|new|main|primary|secondary|default|base|hash|id|[0-9]{1,2})){0,3}"
)
_NAME = (
    r"(?i)(?P<stem>pass(?:word|wd|phrase|code)?|pwd|secret|token|auth|cred(?:ential)?|key)(?P<more>s?" + _MORE + ")"
    r"(?P<close>(?:\\{0,3}[\"'`])?\]?)(?P<gap>[ \t]{0,100}+)"
    # A type: `password: str = …`.
    r"(?::[ \t]{0,9}[A-Za-z_&*][\w.\[\]<>|?*& ]{0,40}?(?==))?"
    # `"name": "DB_PASSWORD", "value": …`
    r"(?:,?(?:\s|\\{1,4}n){0,40}+\\{0,3}[\"']?value\\{0,3}[\"']?[ \t]{0,9})?"
    r"(?P<op>:=|=>|->|\?=|!={1,2}|={1,3}|::?|%3D|\\u003d|>|,|\(|)"
    r"(?P<space>[ \t]{0,100}+(?:[|>]?[+-]?\r?\n[ \t]{0,100}+)?)(?P<open>[rbuf]?\\{0,3}[\"'`]|)"
)
#: The value of a line of code, and of a shell or a file of settings, where more can be in it.
_PLAIN = r"[^\s\"'`,;<>(){}\[\]\\&]++"
_WIDE = r"(?:[^\s\"'`&;\\<>]|&(?!amp;|\w{1,40}=)|;(?=\S)(?!\w{1,40}=)|\\(?![nrtu\"']))++"
_ELEMENT = r"[^<>\n]++"
#: What can stand between a name and its operator, and what an operator begins with.
_CLOSING = " \t\r\n\"'`]\\,"
_OPERATORS = tuple(":=>(!?%-|")
#: The longest quoted value.
_LONGEST = 4_000
#: So much of a value without quotes tells whether it is a secret.
_JUDGED = 1_000
_NETRC = r"(?:login|user|username)\s{1,20}(?!(?i:and|or|for|the|a|an|is|has|must|with)\s)\S{1,100}\s{1,20}$"

#: Keys of other things than locks.
_HARMLESS_KEYS = frozenset(
    (
        *("public", "pub", "publishable", "primary", "foreign", "partition", "sort", "cache", "idempotency", "group"),
        *("row", "object", "routing", "index", "unique", "lookup", "dict", "hash", "order", "bucket", "s3", "file"),
        *("path", "image", "product", "registry", "parent", "node", "sub", "i18n", "locale", "message", "map"),
        *("data", "translation", "composite", "natural", "surrogate", "candidate", "shard", "range", "column"),
        *("field", "dedup", "etag", "sha", "commit", "checksum", "digest", "integrity", "fingerprint", "trace"),
        *("span", "request", "correlation", "build", "nonce", "salt", "iv", "session-cache"),
    )
)

#: Keys that are short at some providers.
_KEYS = frozenset(("api", "access", "secret", "private", "auth", "client", "app", "account"))
#: Tokens that open nothing.
_HARMLESS_TOKENS = (
    "next",
    "page",
    "change",
    "lock",
    "continuation",
    "pagination",
    "cursor",
    "sync",
    "resume",
    "request",
)


def values(text: str, lower: str, stems: list[str]) -> list[Span]:
    """The values that follow a name with one of these stems."""
    found: list[Span] = []
    done = 0
    for position in _stems(lower, stems):
        if position < done or not _may_announce(text, lower, position):
            continue
        match = compiled(_NAME).match(text, position)
        # Without an operator it needs a blank, and mostly is a word of prose or of code.
        if match is None or not (match["op"] or match["gap"]):
            continue
        begin = match.end()
        end = _end(text, match, begin, begin + _JUDGED)
        if end - begin < 4:
            continue
        head = _head(text, position)
        kind = _kind(head, match["stem"].lower(), match, text, begin, end)
        if kind:
            # Only what is a secret is read to its end, and no place in it is looked at again.
            end = max(end, _end(text, match, begin, len(text)))
            found.append((begin, end, kind))
            done = end
    return found


def _may_announce(text: str, lower: str, position: int) -> bool:
    """Whether what follows can be an operator; most words of prose and code are told apart here, without a pattern."""
    end = position + 3
    last = min(len(text), position + 60)
    while end < last and (text[end].isalnum() or text[end] in "_-"):
        end += 1
    around = text[end : end + 120]
    after = around.lstrip(_CLOSING)
    if after.startswith(_OPERATORS) or "value" in after[:20]:
        return True
    if "," in around[: len(around) - len(after)]:
        return around[:1] in ("'", '"', "\\")  # `"--password", "…"`
    if text[end : end + 1] not in (" ", "\t"):
        return text[end : end + 2] == "\\u"  # an escaped `=`
    # Without an operator: `--token …`, `password '…'`, `login me password …`, `config set token …`.
    word = text[max(0, position - 40) : position]
    return (
        "-" in word
        or word.endswith(("require", "master"))
        or lower.startswith("passw", position)
        or _is_set(text, position)
    )


def under(name: str, value: str) -> str | None:
    """The kind of secret that a value under this name is; None when it is none."""
    lower = name.lower()
    for position in reversed(_stems(lower, STEMS)):
        match = compiled(_NAME).match(name, position)
        if match is not None and match.end() == len(name) and not match["op"]:
            return _judged(
                _head(name, position), match["stem"].lower(), match["stem"] + match["more"], value, quoted=True
            )
    return None


def _stems(lower: str, letters: Sequence[str]) -> list[int]:
    places: list[int] = []
    for stem in letters:
        at = lower.find(stem)
        while at >= 0:
            places.append(at)
            at = lower.find(stem, at + len(stem))
    return sorted(places)


def _head(text: str, position: int) -> str:
    """The beginning of the name that a stem is in."""
    first = position
    while first > max(0, position - 40) and (text[first - 1].isalnum() or text[first - 1] in "_-.$"):
        first -= 1
    return text[first:position]


def _end(text: str, match: Match[str], begin: int, limit: int) -> int:
    """Where the value ends; one without quotes is read up to the limit."""
    quote = match["open"].lstrip("rbufRBUF")
    if quote:
        end = _closing(text, quote, begin)
        line = text.find("\n", begin, begin + _LONGEST if end < 0 else end)
        if end >= 0 and line < 0:
            return end
    elif "\n" in match["space"] and not ("|" in match["space"] or ">" in match["space"]):
        return begin
    plain = _WIDE if _is_setting(match) else _PLAIN
    pattern = _ELEMENT if match["op"] == ">" else plain
    found = compiled(pattern).match(text, begin, limit)
    end = found.end() if found else begin
    return begin + len(text[begin:end].rstrip(".,;:)"))


def _closing(text: str, quote: str, begin: int) -> int:
    """Where the quote is that ends a value, not one that is escaped within it; -1 when there is none near."""
    last = begin + _LONGEST
    end = text.find(quote, begin, last)
    # A quote within is escaped by one more backslash than those that the opening one has.
    while end > begin and text[end - 1] == "\\" and _backslashes(text, begin, end) % 2:
        end = text.find(quote, end + len(quote), last)
    return end


def _backslashes(text: str, begin: int, end: int) -> int:
    """How many stand right before a place."""
    first = end
    while first > begin and text[first - 1] == "\\":
        first -= 1
    return end - first


def _is_setting(match: Match[str]) -> bool:
    """Whether it reads as a line of a shell or of a file of settings: `DB_PASSWORD=…`, `--password …`."""
    written = match["stem"] + match["more"]
    return match["op"] == "" or (match["op"] == "=" and not match["gap"] and written.isupper())


def _kind(head: str, stem: str, match: Match[str], text: str, begin: int, end: int) -> str | None:
    value, op, quoted = text[begin:end], match["op"], bool(match["open"])
    after = text[end : end + 1]
    if not quoted and (after in ("(", "[") or value.endswith("()") or is_attribute(value)):
        return None
    opened = text[match.start() - len(head) - 1 : match.start() - len(head)]
    if opened == ":" and op[:1] == ":":
        return None  # `arn:aws:…:secret:name`, `AWS::AppSync::ApiKey: …`
    if op == "":
        return _after_a_blank(head, stem, match, text, value, quoted)
    if op == ">":
        if opened not in ("<", ":") or after != "<":
            return None
        quoted = True
    elif op in (",", "("):
        # `define("DB_PASSWORD", "…")` and `setPassword("…")`, but no list of names and no prompt.
        needs = match["close"] if op == "," else stem != "pass"
        if not (quoted and needs) or is_identifier(value) or not (is_strong(value) or is_random(value)):
            return None
    return _judged(head, stem, match["stem"] + match["more"], value, quoted=quoted)


def _after_a_blank(head: str, stem: str, match: Match[str], text: str, value: str, quoted: bool) -> str | None:
    """A flag of a command, a line of `.netrc`, a password in SQL; any other name before a blank is a word of prose."""
    if not match["gap"] or "\n" in match["space"]:
        return None
    if head.startswith("-") or head in ("require", "master") or _is_set(text, match.start()):
        if value.startswith("-") or is_placeholder(value) or is_variable(value):
            return None
        return _judged(head, stem, match["stem"] + match["more"], value, quoted=True)
    if stem not in ("password", "passwd"):
        return None
    if match["open"] == "'" and not head:
        return _judged(head, stem, match["stem"] + match["more"], value, quoted=True)
    position = match.start()
    if compiled(_NETRC).search(text, max(0, position - 150), position):
        return None if is_placeholder(value) or is_variable(value) or value.isalpha() else "password"
    return None


def _is_set(text: str, position: int) -> bool:
    """Whether a command sets it: `aws configure set … X`, `npm config set …:_authToken X`."""
    line = text[max(0, position - 120) : position]
    return "config" in line and " set " in line


def _judged(head: str, stem: str, name: str, value: str, *, quoted: bool) -> str | None:
    """The kind, when the value looks like what the name says."""
    if is_variable(value) or is_placeholder(value):
        return None
    if not stem.startswith(("pass", "pwd")) and (" " in value or name.lower().rstrip("_-").endswith("id")):
        return None
    before = head.lower().rstrip("_-.")
    word = before.replace("-", "_").replace(".", "_").rpartition("_")[2]
    if stem.startswith(("pass", "pwd")):
        if (
            stem == "pass"
            and head[-1:].isalpha()
            and before != "require"
            and not (name[:1].isupper() and head[-1:].islower())
        ):
            return None  # `bypass`, `compass`
        if stem == "passphrase" and quoted and value.count(" ") + value.count("-") >= 3:
            return "password"
        return "password" if is_chosen(value, quoted=quoted) else None
    if stem == "key":
        if word in _HARMLESS_KEYS or before.endswith(("public", "pub", "cache", "mon", "hot", "don", "tur")):
            return None
        return "key" if is_random(value, 14 if word in _KEYS else 20) and not is_identifier(value) else None
    if stem == "token" and before.endswith(_HARMLESS_TOKENS):
        return None
    if stem == "auth" and not (quoted or head.startswith("_") or is_random(value, 20)):
        return None
    if is_random(value, 12 if stem == "auth" else 16):
        return _KINDS.get(stem, stem)
    # A secret of one's own choice: it must look the more like one.
    return "secret" if stem == "secret" and is_strong(value) and (quoted or name.isupper()) else None


_KINDS = {"auth": "credentials", "cred": "credentials", "credential": "credentials"}
