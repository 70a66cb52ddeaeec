"""What the value of a setting may be: each function checks a value from outside and gives it its type."""

import os

from . import checks
from .errors import InvalidInput, InvalidURL

LEAST_BRIEF_BUDGET = 100


def text(value: object, what: str) -> str:
    return checks.text(value, what, longest=4096)


def whole(value: object, what: str) -> int:
    try:
        return checks.whole(int(str(value)), what, least=0)
    except ValueError:
        raise InvalidInput(f"{what} is {value!r}; it must be a whole number.") from None


def brief_budget(value: object, what: str) -> int:
    # With less, a brief only counts what there is.
    return checks.whole(whole(value, what), what, least=LEAST_BRIEF_BUDGET)


def share(value: object, what: str) -> float:
    try:
        return checks.share(float(str(value)), what)
    except ValueError:
        raise InvalidInput(f"{what} is {value!r}; it must be a number from 0 to 1.") from None


def flag(value: object, what: str) -> bool:
    known = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
    found = known.get(str(value).lower())
    if found is None:
        raise InvalidInput(f"{what} is {value!r}; it must be true or false.")
    return found


def project(value: object, what: str) -> str:
    # Secrets first: the other checks quote the value.
    checks.without_secrets(checks.text(value, what, longest=checks.MAX_NAME), what)
    return checks.name(value, what)


def store(value: object, what: str) -> str:
    try:
        return text(value, what)
    except InvalidInput as error:
        raise InvalidURL(f"{error} A store is a path, sqlite:///…, postgresql://… or https://…") from None


def web_address(value: object, what: str) -> str:
    if not str(value).startswith(("http://", "https://")) or "?" in str(value):
        # The value is not quoted, because it may hold a key.
        raise InvalidInput(f"{what} must be an http or https address without a query, like http://localhost:11434/v1.")
    return text(value, what)


def token(value: object, what: str) -> str:
    # The value is never quoted.
    if not str(value).strip():
        raise InvalidInput(f"{what} is blank. Unset it, or set it to a token; `engram token create` makes one.")
    if not str(value).isascii() or not str(value).isprintable() or " " in str(value) or len(str(value)) > 500:
        raise InvalidInput(f"{what} is not a token. `engram token create` makes one.")
    return str(value)


def program(value: object, what: str) -> str:
    # Never relative: it would be another program in every folder.
    if not os.path.isabs(text(value, what)):
        raise InvalidInput(f"{what} is {shown(value)}; it must be an absolute path.")
    return str(value)


def shown(value: object) -> str:
    """A value for a message. A list or table is not quoted, because quoting one that is nested very deeply fails."""
    return repr(value) if is_scalar(value) else f"a {type(value).__name__}"


def is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float)
