"""Values of names that mean a secret: `password = …`, `"api_key": …`, `--token …`, `<secret>…</secret>`.

The name alone does not decide: the value must look random, or like a password with digits or symbols. Placeholders,
variables, calls, hashes and identifiers stay. The search finds the stems of names first, then reads the text around
each. Every step has a limit, so the total time is linear in the text's length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .patterns import STEMS, Span, compiled
from .value_checks import is_attribute, is_identifier, is_password, is_placeholder, is_random, is_strong, is_variable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from re import Match

#: Endings after which a name still means the secret itself; `password_length`, for example, does not.
_SUFFIXES = (
    "(?:[_-]?(?:key|token|secret|value|val|text|string|data|json|b64|base64|enc|prod|production|staging|dev|live|test|old"
    "|new|main|primary|secondary|default|base|hash|id|[0-9]{1,2})){0,3}"
)
_NAME = (
    r"(?i)(?P<stem>pass(?:word|wd|phrase|code)?|pwd|secret|token|auth|cred(?:ential)?|key)(?P<more>s?" + _SUFFIXES + ")"
    r"(?P<close>(?:\\{0,3}[\"'`])?\]?)(?P<gap>[ \t]{0,100}+)"
    # A type annotation: `password: str = …`.
    r"(?::[ \t]{0,9}[A-Za-z_&*][\w.\[\]<>|?*& ]{0,40}?(?==))?"
    # `"name": "DB_PASSWORD", "value": …`
    r"(?:,?(?:\s|\\{1,4}n){0,40}+\\{0,3}[\"']?value\\{0,3}[\"']?[ \t]{0,9})?"
    r"(?P<op>:=|=>|->|\?=|!={1,2}|={1,3}|::?|%3D|\\u003d|>|,|\(|)"
    r"(?P<space>[ \t]{0,100}+(?:[|>]?[+-]?\r?\n[ \t]{0,100}+)?)(?P<open>[rbuf]?\\{0,3}[\"'`]|)"
)
#: A value without quotes: in code, in a shell or a settings file (which allow more characters), and in XML.
_CODE_VALUE = r"[^\s\"'`,;<>(){}\[\]\\&]++"
_SHELL_VALUE = r"(?:[^\s\"'`&;\\<>]|&(?!amp;|\w{1,40}=)|;(?=\S)(?!\w{1,40}=)|\\(?![nrtu\"']))++"
_XML_VALUE = r"[^<>\n]++"
#: The characters that can stand between a name and its operator, and those an operator begins with.
_CLOSING = " \t\r\n\"'`]\\,"
_OPERATORS = tuple(":=>(!?%-|")
#: The longest quoted value.
_MAX_QUOTED = 4_000
#: The part of an unquoted value that decides whether it is a secret.
_MAX_JUDGED = 1_000
_NETRC = r"(?:login|user|username)\s{1,20}(?!(?i:and|or|for|the|a|an|is|has|must|with)\s)\S{1,100}\s{1,20}$"

#: Words before `key` that mean something other than a secret: `primary_key`, `cache_key`.
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

#: Words before `key` whose value may be shorter: some providers issue short keys.
_SHORT_KEYS = frozenset(("api", "access", "secret", "private", "auth", "client", "app", "account"))
#: Words before `token` that mean something other than a secret: `next_page_token`.
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


def find_values(text: str, lower: str, stems: list[str]) -> list[Span]:
    """Find the secret values of names that contain one of these stems."""
    found: list[Span] = []
    done = 0
    for position in _find_stems(lower, stems):
        if position < done or not _may_be_assignment(text, lower, position):
            continue
        match = compiled(_NAME).match(text, position)
        # Without an operator there must be a blank; otherwise it is a word of prose or code.
        if match is None or not (match["op"] or match["gap"]):
            continue
        begin = match.end()
        end = _value_end(text, match, begin, begin + _MAX_JUDGED)
        if end - begin < 4:
            continue
        head = _name_start(text, position)
        kind = _classify_match(head, match["stem"].lower(), match, text, begin, end)
        if kind:
            # Only a secret is read to its end. The search continues after it.
            end = max(end, _value_end(text, match, begin, len(text)))
            found.append((begin, end, kind))
            done = end
    return found


def _may_be_assignment(text: str, lower: str, position: int) -> bool:
    """Whether an assignment can follow. This rejects most words of prose and code without a pattern."""
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
        or _is_set_by_command(text, position)
    )


def classify(name: str, value: str) -> str | None:
    """Return the kind of secret that this value of this name is; None if it is no secret."""
    lower = name.lower()
    for position in reversed(_find_stems(lower, STEMS)):
        match = compiled(_NAME).match(name, position)
        if match is not None and match.end() == len(name) and not match["op"]:
            return _classify_value(
                _name_start(name, position), match["stem"].lower(), match["stem"] + match["more"], value, quoted=True
            )
    return None


def _find_stems(lower: str, stems: Sequence[str]) -> list[int]:
    positions: list[int] = []
    for stem in stems:
        at = lower.find(stem)
        while at >= 0:
            positions.append(at)
            at = lower.find(stem, at + len(stem))
    return sorted(positions)


def _name_start(text: str, position: int) -> str:
    """The part of the name before its stem."""
    first = position
    while first > max(0, position - 40) and (text[first - 1].isalnum() or text[first - 1] in "_-.$"):
        first -= 1
    return text[first:position]


def _value_end(text: str, match: Match[str], begin: int, limit: int) -> int:
    """The position where the value ends. An unquoted value is read up to the limit."""
    quote = match["open"].lstrip("rbufRBUF")
    if quote:
        end = _closing_quote(text, quote, begin)
        line = text.find("\n", begin, begin + _MAX_QUOTED if end < 0 else end)
        if end >= 0 and line < 0:
            return end
    elif "\n" in match["space"] and not ("|" in match["space"] or ">" in match["space"]):
        return begin
    plain = _SHELL_VALUE if _is_setting(match) else _CODE_VALUE
    pattern = _XML_VALUE if match["op"] == ">" else plain
    found = compiled(pattern).match(text, begin, limit)
    end = found.end() if found else begin
    return begin + len(text[begin:end].rstrip(".,;:)"))


def _closing_quote(text: str, quote: str, begin: int) -> int:
    """The position of the quote that ends a value, skipping escaped quotes; -1 if there is none within the limit."""
    last = begin + _MAX_QUOTED
    end = text.find(quote, begin, last)
    # A quote inside the value is escaped with one more backslash than the opening quote has.
    while end > begin and text[end - 1] == "\\" and _count_backslashes(text, begin, end) % 2:
        end = text.find(quote, end + len(quote), last)
    return end


def _count_backslashes(text: str, begin: int, end: int) -> int:
    """Count the backslashes right before the end."""
    first = end
    while first > begin and text[first - 1] == "\\":
        first -= 1
    return end - first


def _is_setting(match: Match[str]) -> bool:
    """Whether it looks like a line of a shell or a settings file: `DB_PASSWORD=…`, `--password …`."""
    written = match["stem"] + match["more"]
    return match["op"] == "" or (match["op"] == "=" and not match["gap"] and written.isupper())


def _classify_match(head: str, stem: str, match: Match[str], text: str, begin: int, end: int) -> str | None:
    value, op, quoted = text[begin:end], match["op"], bool(match["open"])
    after = text[end : end + 1]
    if not quoted and (after in ("(", "[") or value.endswith("()") or is_attribute(value)):
        return None
    opened = text[match.start() - len(head) - 1 : match.start() - len(head)]
    if opened == ":" and op[:1] == ":":
        return None  # `arn:aws:…:secret:name`, `AWS::AppSync::ApiKey: …`
    if op == "":
        return _classify_unassigned(head, stem, match, text, value, quoted)
    if op == ">":
        if opened not in ("<", ":") or after != "<":
            return None
        quoted = True
    elif op in (",", "("):
        # Accepts `define("DB_PASSWORD", "…")` and `setPassword("…")`; rejects lists of names and prompts.
        needs = match["close"] if op == "," else stem != "pass"
        if not (quoted and needs) or is_identifier(value) or not (is_strong(value) or is_random(value)):
            return None
    return _classify_value(head, stem, match["stem"] + match["more"], value, quoted=quoted)


def _classify_unassigned(head: str, stem: str, match: Match[str], text: str, value: str, quoted: bool) -> str | None:
    """Accept a command's flag, a line of `.netrc` and a password in SQL; any other name before a blank is prose."""
    if not match["gap"] or "\n" in match["space"]:
        return None
    if head.startswith("-") or head in ("require", "master") or _is_set_by_command(text, match.start()):
        if value.startswith("-") or is_placeholder(value) or is_variable(value):
            return None
        return _classify_value(head, stem, match["stem"] + match["more"], value, quoted=True)
    if stem not in ("password", "passwd"):
        return None
    if match["open"] == "'" and not head:
        return _classify_value(head, stem, match["stem"] + match["more"], value, quoted=True)
    position = match.start()
    if compiled(_NETRC).search(text, max(0, position - 150), position):
        return None if is_placeholder(value) or is_variable(value) or value.isalpha() else "password"
    return None


def _is_set_by_command(text: str, position: int) -> bool:
    """Whether a command sets the name: `aws configure set … X`, `npm config set …:_authToken X`."""
    line = text[max(0, position - 120) : position]
    return "config" in line and " set " in line


def _classify_value(head: str, stem: str, name: str, value: str, *, quoted: bool) -> str | None:
    """Return the kind of secret if the value looks like what the name means."""
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
        return "password" if is_password(value, quoted=quoted) else None
    if stem == "key":
        if word in _HARMLESS_KEYS or before.endswith(("public", "pub", "cache", "mon", "hot", "don", "tur")):
            return None
        return "key" if is_random(value, 14 if word in _SHORT_KEYS else 20) and not is_identifier(value) else None
    if stem == "token" and before.endswith(_HARMLESS_TOKENS):
        return None
    if stem == "auth" and not (quoted or head.startswith("_") or is_random(value, 20)):
        return None
    if is_random(value, 12 if stem == "auth" else 16):
        return _KINDS.get(stem, stem)
    # A secret that a person chose is not random, so the test is stricter.
    return "secret" if stem == "secret" and is_strong(value) and (quoted or name.isupper()) else None


_KINDS = {"auth": "credentials", "cred": "credentials", "credential": "credentials"}
