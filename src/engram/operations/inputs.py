"""The arguments of an operation, as plain data, and the check of their shape.

Each concern is checked in one place. Here it is the shape: which arguments there are, which must be given, the JSON
type of each, and the choices of those that have choices. The tiers check what a value means, such as its range or
whether a time is a time, because a caller of the library needs that too. An input has bounds here only where an
operation allows less than its tier.

An agent can correct itself if it learns which argument was wrong, what it gave and what is allowed. So every error says
all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ..errors import InvalidInput

Kind: TypeAlias = Literal["text", "texts", "whole", "number", "duration", "flag", "object", "json"]
Scope: TypeAlias = Literal["read", "write", "admin"]

#: The input that names the session that acts. An interface that knows its caller's session fills it in. The session
#: that an operation is about has another name: no interface may fill in which session to forget.
SESSION = "session"


class Input(NamedTuple):
    """One argument of an operation."""

    name: str
    kind: Kind
    help: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    #: Bounds that are narrower than those of the tier, both or none.
    bounds: tuple[float, float] | None = None
    #: Seldom needed, or not for an agent to decide. Not offered over MCP, where every word costs tokens.
    rare: bool = False
    #: Its earlier name, which is still accepted.
    formerly: str = ""


class Pages(NamedTuple):
    """How the rows of a list are cut into pages."""

    #: The fields of a row that say where the next page begins, and their types. The rows are sorted by them.
    key: tuple[str, ...]
    kinds: tuple[type, ...]
    #: Rows on a page when no limit is given; 0: all.
    limit: int


class Operation(NamedTuple):
    """One thing that can be done with a workspace."""

    name: str
    scope: Scope
    help: str
    #: Called with the facade and the arguments that were given, by name.
    handler: Callable[..., object]
    inputs: tuple[Input, ...] = ()
    #: For a list with pages. Its handler also takes `start`: the key of the last row of the page before, () for the
    #: first page, None when the caller does not want pages.
    page: Pages | None = None
    #: Whether it is about all workspaces. Then a token for one workspace does not allow it.
    store_wide: bool = False

    def input(self, name: str) -> Input | None:
        return next((each for each in self.inputs if each.name == name), None)


def text(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "text", help, **more)


def texts(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "texts", help, **more)


def whole(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "whole", help, **more)


def number(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "number", help, **more)


def duration(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "duration", help, **more)


def flag(name: str, help: str = "", **more: Any) -> Input:
    return Input(name, "flag", help, **more)


ME = text(SESSION, "default: your session", required=True)
ME_IF_KNOWN = ME._replace(required=False)
PROJECT = text("project", "repository or folder")
LIMIT = whole("limit", "maximum number; 0: all")
#: Not offered over MCP: an agent gives a larger limit instead.
CURSOR = text("cursor", "`next` of the answer before", rare=True)
REASON = text("reason", "kept in the history")
SINCE = text("since", "ISO 8601")
UNTIL = text("until", "ISO 8601")
#: Not offered over MCP: an agent works in the present.
AT = text("at", "as it was at this time; ISO 8601", rare=True)
BUDGET = whole("budget", "tokens")
ID = whole("id", required=True)
SESSION_ID = text("id", "default: your session", required=True)
AUTHOR = text("author", "only what this author wrote: the name of an access token", rare=True)
TRUST = text("trust", "source of the text", choices=("user", "agent", "tool", "import"), rare=True)


def check_arguments(operation: Operation, given: Mapping[str, object]) -> dict[str, object]:
    """The arguments, each checked for its type; null counts as not given."""
    known = {each.name: each for each in operation.inputs}
    renamed = {each.formerly: each.name for each in operation.inputs if each.formerly and each.name not in given}
    given = {renamed.get(name, name): value for name, value in given.items()}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InvalidInput(f"{operation.name} has no argument {_short(unknown[0])}. {_signature(operation)}")
    return {name: _check_value(known[name], value) for name, value in given.items() if value is not None}


def require_arguments(operation: Operation, values: Mapping[str, object]) -> None:
    """InvalidInput if a required argument is missing."""
    for each in operation.inputs:
        if each.required and each.name not in values:
            what = f" ({each.help})" if each.help else ""
            raise InvalidInput(f"{operation.name} needs {each.name!r}{what}. {_signature(operation)}")


def _signature(operation: Operation) -> str:
    names = [f"{each.name} (required)" if each.required else each.name for each in operation.inputs]
    return f"It takes {', '.join(names)}." if names else "It takes no arguments."


def _check_value(wanted: Input, value: object) -> object:
    match wanted.kind, value:
        case "text", str():
            if wanted.choices and value not in wanted.choices:
                raise InvalidInput(f"{wanted.name} is {_short(value)}; it must be one of {', '.join(wanted.choices)}.")
            return value
        case "texts", list() | tuple() if all(isinstance(each, str) for each in value):
            return list(value)
        case ("flag", bool()) | ("object", dict()) | ("json", _):
            return value
        case "whole", int() if not isinstance(value, bool):
            return _check_bounds(wanted, value)
        case "whole", float() if value.is_integer():  # JSON has one kind of number
            return _check_bounds(wanted, int(value))
        case "number", int() | float() if not isinstance(value, bool):
            return _check_bounds(wanted, value)
        case "duration", int() | float() | str() if not isinstance(value, bool):
            # Imported here: an MCP server lists the operations before it does anything else.
            from ..durations import duration as seconds

            try:
                return _check_bounds(wanted, seconds(value, wanted.name))
            except InvalidInput:
                raise _refusal(wanted, value) from None
    raise _refusal(wanted, value)


def _check_bounds(wanted: Input, value: float) -> float:
    # Written this way round, the comparison also refuses NaN.
    if wanted.bounds is None or wanted.bounds[0] <= value <= wanted.bounds[1]:
        return value
    raise _refusal(wanted, value)


_KINDS: dict[Kind, str] = {
    "text": "text",
    "texts": 'a list of texts, such as ["a", "b"]',
    "whole": "a whole number",
    "number": "a number",
    "duration": "a time such as 90, 30s, 15m or 1h30m",
    "flag": "true or false",
    "object": "a JSON object",
    "json": "any JSON value",
}


def _refusal(wanted: Input, value: object) -> InvalidInput:
    allowed = _KINDS[wanted.kind]
    if wanted.bounds is not None:
        between = "from {:g} to {:g}".format(*wanted.bounds)
        allowed += f", {between} seconds" if wanted.kind == "duration" else f" {between}"
    elif wanted.kind == "duration":
        allowed += ", at most ten years"
    return InvalidInput(f"{wanted.name} is {_short(value)}; it must be {allowed}.")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "…"
