"""What a grant allows. This is the only place that decides it, for HTTP, MCP and the socket alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..access_records import SCOPES
from ..errors import Forbidden

if TYPE_CHECKING:
    from ..access_records import Grant

_RANKS = {scope: rank for rank, scope in enumerate(SCOPES)}


def require(grant: Grant, scope: str, workspace: str | None) -> None:
    """Raise Forbidden if the grant does not include this scope in this workspace. None stands for the whole store."""
    if not allows(grant, scope):
        raise Forbidden(
            f"This needs a token with scope {scope}; {_named(grant)} has scope {grant.scope}. "
            f"On the server's machine `engram token create NAME --scope {scope}` makes one."
        )
    if grant.workspace is None or grant.workspace == workspace:
        return
    asked = "This is about the whole store" if workspace is None else f"This is about workspace {workspace!r}"
    raise Forbidden(f"{asked}; {_named(grant)} is for workspace {grant.workspace!r} only. Name that one, or none.")


def allows(grant: Grant, scope: str) -> bool:
    """Whether the grant includes this scope, in the workspace that it is for."""
    # A scope that nobody knows gives nothing.
    return _RANKS.get(grant.scope, -1) >= _RANKS[scope]


def author_of(grant: Grant) -> str | None:
    """The author of what the bearer of the grant writes; None for the user of this machine."""
    return grant.name or None


def _named(grant: Grant) -> str:
    return f"token {grant.name!r}" if grant.name else "this user"
