"""Tests of a value: random (made by a machine), a password (chosen by a person), a placeholder, a variable."""

from __future__ import annotations

from itertools import pairwise

from .patterns import compiled

_PLACEHOLDER_PARTS = (
    *("example", "placeholder", "changeme", "change_me", "change-me", "redacted", "dummy", "sample", "your_", "your-"),
    *("yourpass", "xxxx", "****", "...", "abcdefgh", "insert_", "insert-", "_here", "-here"),
)
_PLACEHOLDER_NUMBER = "12345678"
_PLACEHOLDER_WORDS = frozenset(
    (
        *("pass", "passwd", "password", "password1", "pwd", "secret", "token", "user", "username", "string", "none"),
        *("null", "nil", "true", "false", "undefined", "empty", "required", "optional", "prompt", "stdin", "hidden"),
        *("masked", "default"),
    )
)
#: The beginning of a variable, a call or a template field.
_VARIABLE = (
    r"\$\{?[A-Za-z_][\w.:\[\]-]*+\}?$|\$[({]|\$\$?\{\{|%[A-Za-z_]\w*+%?$|%\(\w++\)|\{\{|\{[\w.!:]*+\}|#\{|<|@\w++@$"
    r"|\[redacted|(?:self|this|cls|os|env|process|config|settings|args|options|opts|params|secrets|vault|var|local|data"
    r"|props|state|request|req|ctx|app)\.[A-Za-z_]"
)
_ATTRIBUTE = r"(?<![\w.:>-])[A-Za-z_]\w*+(?:(?:\.|::|->)[A-Za-z_]\w*+)++$"
_IDENTIFIER = r"[A-Za-z]++(?:[_.-][A-Za-z]++)*+[_.-]?[0-9]{0,2}+"
_RUN = r"[A-Za-z0-9]{10,}+"
_BASE64 = r"[A-Za-z0-9+/]{16,}+"
_SYMBOLS = frozenset("!@#$%^&*+=?~|()[]{}<>;,")
#: Only this many characters of a value are tested. More would not change the result.
_MAX_READ = 400


def is_placeholder(value: str) -> bool:
    """Whether it is a placeholder, such as `changeme` or `your_token_here`."""
    lower = value[:_MAX_READ].lower()
    if lower in _PLACEHOLDER_WORDS or len(set(lower)) < 3 or any([each in lower for each in _PLACEHOLDER_PARTS]):
        return True
    return _PLACEHOLDER_NUMBER in lower and len(value) > len(_PLACEHOLDER_NUMBER) + 8


def is_variable(value: str) -> bool:
    """Whether it is a variable or a template field that a secret is read from."""
    return compiled(_VARIABLE).match(value[:_MAX_READ]) is not None


def is_attribute(value: str) -> bool:
    """Whether it is an attribute in code: `self.token`, `settings.api_key`."""
    return compiled(_ATTRIBUTE).match(value[:_MAX_READ]) is not None and not is_random(value)


def is_mixed(text: str) -> bool:
    """Whether it mixes letters with digits or with capitals, as random text does."""
    text = text[:_MAX_READ]
    if len(set(text)) < 8:
        return False
    letters = any(map(str.isalpha, text))
    return letters and (any(map(str.isdigit, text)) or (not text.islower() and not text.isupper()))


def is_random(value: str, least: int = 16) -> bool:
    """Whether it looks random: long, with mixed letters and digits or mixed lower and upper case."""
    value = value[:_MAX_READ]
    if len(value) < least:
        return False
    return any(map(_is_mixed_run, compiled(_RUN).findall(value))) or any(
        map(_is_base64, compiled(_BASE64).findall(value))
    )


def _is_mixed_run(run: str) -> bool:
    """Whether letters and digits are mixed, more than in a word followed by a number."""
    digits = sum(map(str.isdigit, run))
    return 2 <= digits < len(run) and len(set(run)) >= 6 and _count_changes(run) >= 0.12 * len(run)


def _is_base64(run: str) -> bool:
    """Whether digits, lower and upper case alternate as often as in random base64. In words and paths they do not."""
    return len(set(run)) >= 8 and _count_changes(run) >= 0.42 * len(run)


def _count_changes(run: str) -> int:
    """Count the neighbours of different classes: digit, lower case, upper case, other."""
    classes = [each.isdigit() + 2 * each.islower() + 3 * each.isupper() for each in run]
    return sum(a != b for a, b in pairwise(classes))


def is_password(value: str, *, quoted: bool) -> bool:
    """Whether it looks like a password that a person chose, not like a word, a type or a variable."""
    if len(value) < 6 or len(set(value)) < 4:
        return False
    symbols = not _SYMBOLS.isdisjoint(value) and any(map(str.isalnum, value))
    digits = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    if " " in value or "\t" in value:
        # Text with a blank is more likely a sentence about the password than the password.
        return digits and is_strong(value) and value.count(" ") < 3
    return symbols or digits if quoted or len(value) >= 8 else symbols and digits


def is_strong(value: str) -> bool:
    """Whether it meets common password rules: letters and digits, with a symbol or with both cases."""
    if len(value) < 8 or len(set(value)) < 6:
        return False
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    cases = not value.islower() and not value.isupper()
    return digits and letters and (cases or not _SYMBOLS.isdisjoint(value))


def is_identifier(value: str) -> bool:
    """Whether it looks like a name in code: words joined by `_`, `.` or `-`, at most one short number at the end."""
    return compiled(_IDENTIFIER).fullmatch(value[:_MAX_READ]) is not None
