"""Carries out a call of the library on the server, for a client elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, Signature, signature
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import EngramError, InvalidInput, NotFound
from . import wire
from .calls import (
    ALL_WORKSPACES,
    BY_PERSON,
    KEPT_BY_SERVER,
    NOT_SENT,
    PROPERTIES,
    REPEATABLE,
    SLOW,
    SPECIAL,
    STORE_WIDE_CALLS,
    STORE_WIDE_GROUPS,
    Scope,
)
from .calls import scope_of as scope_of

if TYPE_CHECKING:
    from ..client import Engram
    from ..coordination.lease_queue import Waiter


class Call(NamedTuple):
    """A call whose form was checked."""

    name: str
    scope: Scope
    options: dict[str, Any]
    #: The caller's project.
    project: str | None

    @property
    def is_store_wide(self) -> bool:
        """Whether it is about more than one workspace."""
        is_whole = self.name in STORE_WIDE_CALLS or self.name.rpartition(".")[0] in STORE_WIDE_GROUPS
        return is_whole or bool(self.options.get(ALL_WORKSPACES))

    @property
    def waits(self) -> bool:
        """Whether it is a claim that may have to wait for others."""
        return self.name == "leases.claim" and bool(self.options.get("exclusive")) and bool(self.options.get("wait"))

    @property
    def needs_no_key(self) -> bool:
        """Whether the call may be carried out twice."""
        return self.scope == "read" or self.name in REPEATABLE

    @property
    def in_one_step(self) -> bool:
        """Whether the whole call is one transaction."""
        return self.name not in SLOW


def read(name: str, request: object) -> Call:
    """A call from what a client sent. NotFound if there is no such call, InvalidInput if its form is wrong."""
    scope = scope_of(name)
    if scope is None:
        raise NotFound(f"There is no call {name[:100]!r} over the network.")
    if not isinstance(request, dict) or request.keys() - {"options", "project"}:
        raise InvalidInput("The request must be a JSON object with the keys options and project.")
    given, project = request.get("options", {}), request.get("project")
    if not isinstance(given, dict) or not (project is None or isinstance(project, str)):
        raise InvalidInput("options must be a JSON object, and project a text.")
    try:
        options = {key: wire.unpack(value) for key, value in given.items()}
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The arguments of {name} cannot be read: {error}.") from None
    if options.keys() & NOT_SENT:
        raise InvalidInput(f"{name} takes no {', '.join(sorted(options.keys() & NOT_SENT))} over the network.")
    kept = options.keys() & KEPT_BY_SERVER.get(name, frozenset())
    if any(options[each] is not None for each in kept):
        raise InvalidInput(f"{name} takes no {', '.join(sorted(kept))} over the network: the server's settings decide.")
    if options.get(BY_PERSON):
        scope = "admin"
    return Call(name, scope, options, project)


def line_up(eng: Engram, call: Call) -> Waiter:
    """The claim of a call that waits, in the queue."""
    chosen = {name: value for name, value in call.options.items() if name != "exclusive"}
    try:
        return eng.leases.line_up(**chosen)
    except TypeError as error:
        raise InvalidInput(f"{call.name}: {error}.") from None


def perform(eng: Engram, call: Call, only: str | None = None) -> Any:
    """The result of a call, as it is sent. `only` is the one workspace that the caller may know of."""
    if only is not None and call.name == "workspaces":
        return wire.pack([each for each in eng.workspaces() if each.name == only])
    if only is not None and call.name == "workspace_names":
        return [name for name in eng.workspace_names() if name == only]
    if only is not None and call.name == "require_workspace":
        # The caller may use it, so it is one that exists or may be made. The error would name all others.
        return None
    group, _, method = call.name.rpartition(".")
    owner: Any = attrgetter(group)(eng) if group else eng
    if (group, method) in PROPERTIES:
        return wire.pack(getattr(owner, method))
    function: Callable[..., Any] = getattr(owner, SPECIAL.get((group, method), method))
    try:
        _signature(owner.__class__, function.__name__).bind(None, **call.options)
    except TypeError as error:
        raise InvalidInput(f"{call.name}: {error}.") from None
    try:
        # A generator reads while it is packed.
        return wire.pack(function(**call.options))
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError, RecursionError) as error:
        # The tiers check what a value means. Some trust that it has the type that Python's type checkers demand, and
        # what was sent need not. Nothing is written: a failed call rolls back.
        raise InvalidInput(f"{call.name}: an argument has a wrong type ({type(error).__name__}).") from error


@cache
def _signature(owner: type, name: str) -> Signature:
    found = signature(getattr(owner, name))
    if not any(each.name == "self" for each in found.parameters.values()):
        me = Parameter("self", Parameter.POSITIONAL_ONLY)
        found = found.replace(parameters=[me, *found.parameters.values()])
    return found


def failure(error: EngramError) -> dict[str, object]:
    """An error as it is sent: enough to raise the same one on the other side."""
    return {"code": error.code, "text": str(error), "is": wire.pack(_state(error))}


def _state(error: EngramError) -> Mapping[str, object]:
    return {name: value for name, value in vars(error).items() if not name.startswith("_")}
