"""What goes into an operation, as plain data, and the check of what was given against it.

An agent corrects itself if it is told which argument was wrong, what it gave and what is allowed; so every refusal here
says all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ..errors import InvalidInput

Kind: TypeAlias = Literal["text", "texts", "whole", "number", "flag", "object"]
Scope: TypeAlias = Literal["read", "write", "admin"]

#: The input that names the session an operation acts as; an edge that knows whom it serves fills it in. An operation
#: about a session has another name for it: nobody may be forgotten because an edge was helpful.
SESSION = "session"


class Input(NamedTuple):
    """One argument of an operation."""

    name: str
    kind: Kind
    help: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    #: Seldom wanted, or not an agent's to say: not offered where every word of a definition costs tokens.
    rare: bool = False
    #: Its earlier name, which is still understood.
    formerly: str = ""


class Operation(NamedTuple):
    """One thing that can be done with a workspace."""

    name: str
    scope: Scope
    help: str
    #: Called with the facade and the arguments that were given, by name.
    handler: Callable[..., object]
    inputs: tuple[Input, ...] = ()

    def input(self, name: str) -> Input | None:
        return next((each for each in self.inputs if each.name == name), None)


def text(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "text", help, **more)


def texts(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "texts", help, **more)


def whole(name: str, help: str = "", *, least: int = 1, **more: Any) -> Input:
    return Input(name, "whole", help, least=least, **more)


def number(name: str, help: str = "", *, least: float = 0, **more: Any) -> Input:
    return Input(name, "number", help, least=least, **more)


def flag(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "flag", help, **more)


ME = text(SESSION, "who acts; default: you", required=True)
ME_IF_KNOWN = ME._replace(required=False)
PROJECT = text("project", "repository or folder")
LIMIT = whole("limit", "at most so many; 0: all", least=0)
REASON = text("reason", "why, for the history")
SINCE = text("since", "ISO 8601")
UNTIL = text("until", "ISO 8601")
BUDGET = whole("budget", "tokens")
ID = whole("id", required=True)
SESSION_ID = text("id", "session id; default: you", required=True)
TRUST = text("trust", "whose word it is", choices=("user", "agent", "tool", "import"), rare=True)


def checked(operation: Operation, given: Mapping[str, object]) -> dict[str, object]:
    """The arguments, each of the kind the operation wants; null counts as not given."""
    known = {each.name: each for each in operation.inputs}
    renamed = {each.formerly: each.name for each in operation.inputs if each.formerly and each.name not in given}
    given = {renamed.get(name, name): value for name, value in given.items()}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InvalidInput(f"{operation.name} has no argument {_short(unknown[0])}. {_signature(operation)}")
    values = {name: _value(known[name], value) for name, value in given.items() if value is not None}
    missing = [each for each in operation.inputs if each.required and each.name not in values]
    if missing:
        what = f" ({missing[0].help})" if missing[0].help else ""
        raise InvalidInput(f"{operation.name} needs {missing[0].name!r}{what}. {_signature(operation)}")
    return values


def _signature(operation: Operation) -> str:
    names = [f"{each.name} (required)" if each.required else each.name for each in operation.inputs]
    return f"It takes {', '.join(names)}." if names else "It takes no arguments."


def _value(wanted: Input, value: object) -> object:
    match wanted.kind, value:
        case "text", str():
            if wanted.choices and value not in wanted.choices:
                raise InvalidInput(f"{wanted.name} is {_short(value)}; it must be one of {', '.join(wanted.choices)}.")
            return value
        case "texts", list() | tuple() if all(isinstance(each, str) for each in value):
            return list(value)
        case ("flag", bool()) | ("object", dict()):
            return value
        case "whole", int() if not isinstance(value, bool):
            return _within(wanted, value)
        case "whole", float() if value.is_integer():  # JSON has one kind of number
            return _within(wanted, int(value))
        case "number", int() | float() if not isinstance(value, bool):
            return _within(wanted, value)
    raise _not(wanted, value)


def _within(wanted: Input, value: float) -> float:
    # Asked this way round, NaN is refused too.
    if (wanted.least is None or value >= wanted.least) and (wanted.most is None or value <= wanted.most):
        return value
    raise _not(wanted, value)


_KINDS: dict[Kind, str] = {
    "text": "text",
    "texts": 'a list of texts, such as ["a", "b"]',
    "whole": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "object": "a JSON object",
}


def _not(wanted: Input, value: object) -> InvalidInput:
    allowed = _KINDS[wanted.kind]
    if wanted.least is not None:
        allowed += (
            f", at least {wanted.least:g}" if wanted.most is None else f" from {wanted.least:g} to {wanted.most:g}"
        )
    return InvalidInput(f"{wanted.name} is {_short(value)}; it must be {allowed}.")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "…"
