"""All checks of an open store: its files or server, then the tables of each workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidInput
from ..health_records import WRONG, Check, Finding, examine
from ..storage.changes import workspaces
from ..storage.health import NOT_READ, if_readable
from . import coordination, dreaming, embedding, index, memories

if TYPE_CHECKING:
    from ..store_view import StoreView


def doctor(view: StoreView, *, full: bool = False, fix: bool = False, all_workspaces: bool = False) -> list[Finding]:
    """What the checks find, and with `fix` what they mended."""
    if view.engine.joined:
        raise InvalidInput("doctor works in transactions of its own; call it outside of write().")
    names = workspaces(view.engine) if all_workspaces else [view.workspace]
    views = [view._replace(workspace=name) for name in names]
    checks = view.engine.health(full=full)
    for each in views:
        checks += index.early_checks(each)
    for each in views:
        checks += _of_workspace(each, full)
    found = examine(map(if_readable, checks), fix=fix)
    # One finding says that the file is damaged, and what to do.
    is_damaged = any((each.name, each.state) == ("store.integrity", WRONG) for each in found)
    return [each for each in found if not (is_damaged and each.found == NOT_READ)]


def _of_workspace(view: StoreView, full: bool) -> list[Check]:
    return [
        *index.checks(view, full=full),
        *embedding.checks(view, full=full),
        *memories.checks(view),
        *coordination.checks(view, full=full),
        *dreaming.checks(view),
    ]
