"""What a value looks like: made by a machine, chosen by a person, or neither."""

from __future__ import annotations

from itertools import pairwise

from .patterns import compiled

_STAND_INS = (
    *("example", "placeholder", "changeme", "change_me", "change-me", "redacted", "dummy", "sample", "your_", "your-"),
    *("yourpass", "xxxx", "****", "...", "abcdefgh", "insert_", "insert-", "_here", "-here"),
)
_STAND_IN_NUMBER = "12345678"
_WORDS = frozenset(
    (
        *("pass", "passwd", "password", "password1", "pwd", "secret", "token", "user", "username", "string", "none"),
        *("null", "nil", "true", "false", "undefined", "empty", "required", "optional", "prompt", "stdin", "hidden"),
        *("masked", "default"),
    )
)
#: A variable, a call or a field of a template, from its beginning on.
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
#: No more of a value than this is looked at; what is longer is no more or less a secret for it.
_SEEN = 400


def is_placeholder(value: str) -> bool:
    """Whether it stands where a secret would."""
    lower = value[:_SEEN].lower()
    if lower in _WORDS or len(set(lower)) < 3 or any([each in lower for each in _STAND_INS]):
        return True
    return _STAND_IN_NUMBER in lower and len(value) > len(_STAND_IN_NUMBER) + 8


def is_variable(value: str) -> bool:
    """Whether it names where a secret comes from."""
    return compiled(_VARIABLE).match(value[:_SEEN]) is not None


def is_attribute(value: str) -> bool:
    """Whether it is a name of code: `self.token`, `settings.api_key`."""
    return compiled(_ATTRIBUTE).match(value[:_SEEN]) is not None and not is_random(value)


def is_mixed(text: str) -> bool:
    """Whether digits or capitals are strewn among its letters, as where a machine chose them."""
    text = text[:_SEEN]
    if len(set(text)) < 8:
        return False
    letters = any(map(str.isalpha, text))
    return letters and (any(map(str.isdigit, text)) or (not text.islower() and not text.isupper()))


def is_random(value: str, least: int = 16) -> bool:
    """Whether a machine chose it: long, with a run of letters and digits, or of small and capital letters, mixed."""
    value = value[:_SEEN]
    if len(value) < least:
        return False
    return any(map(_is_drawn, compiled(_RUN).findall(value))) or any(map(_is_strewn, compiled(_BASE64).findall(value)))


def _is_drawn(run: str) -> bool:
    """Whether letters and digits are mixed in it, and not only a number added to a word."""
    digits = sum(map(str.isdigit, run))
    return 2 <= digits < len(run) and len(set(run)) >= 6 and _changes(run) >= 0.12 * len(run)


def _is_strewn(run: str) -> bool:
    """Whether its characters change their sort as often as if they were drawn; words and paths rarely do."""
    return len(set(run)) >= 8 and _changes(run) >= 0.42 * len(run)


def _changes(run: str) -> int:
    sorts = [each.isdigit() + 2 * each.islower() + 3 * each.isupper() for each in run]
    return sum(a != b for a, b in pairwise(sorts))


def is_chosen(value: str, *, quoted: bool) -> bool:
    """Whether a value is a password somebody chose, not a word of a sentence, a type or a variable."""
    if len(value) < 6 or len(set(value)) < 4:
        return False
    symbols = not _SYMBOLS.isdisjoint(value) and any(map(str.isalnum, value))
    digits = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    if " " in value or "\t" in value:
        # A sentence about the password is more likely than a password with a blank in it.
        return digits and is_strong(value) and value.count(" ") < 3
    return symbols or digits if quoted or len(value) >= 8 else symbols and digits


def is_strong(value: str) -> bool:
    """Whether it has all that rules for passwords ask for: letters, digits and a symbol, or both cases and digits."""
    if len(value) < 8 or len(set(value)) < 6:
        return False
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    cases = not value.islower() and not value.isupper()
    return digits and letters and (cases or not _SYMBOLS.isdisjoint(value))


def is_identifier(value: str) -> bool:
    """Whether it reads as the name of something: small letters and blanks of names, at most one number at its end."""
    return compiled(_IDENTIFIER).fullmatch(value[:_SEEN]) is not None
