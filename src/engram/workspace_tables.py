"""The tables of the user's config.toml that are about one workspace: `[workspaces.lyra] companion = true`.

Only the user's file has them: whose workspace it is, no project's file decides.
"""

from __future__ import annotations

from typing import Final

from . import checks
from .errors import InvalidInput
from .safe_text import one_line

WORKSPACES: Final = "workspaces"
COMPANION: Final = "companion"


def companions(values: dict[str, object], path: str) -> frozenset[str]:
    """Take the tables of workspaces out of a file's values: those with `companion = true`.

    InvalidInput when a table is not of a workspace, or has anything else in it.
    """
    if COMPANION in values:
        raise InvalidInput(
            f"{path}: {COMPANION} belongs to one workspace. Write it below a line [{WORKSPACES}.NAME], such as "
            f"[{WORKSPACES}.default]."
        )
    tables = values.pop(WORKSPACES, {})
    if not isinstance(tables, dict):
        raise InvalidInput(
            f"{path}: {WORKSPACES} must have a table for each workspace, such as [{WORKSPACES}.default]."
        )
    return frozenset(name for name, table in tables.items() if _is_companion(name, table, path))


def _is_companion(name: str, table: object, path: str) -> bool:
    where = f"{path}: [{WORKSPACES}.{one_line(name, 80)}]"
    try:
        checks.workspace(name, "the workspace")
    except InvalidInput as error:
        raise InvalidInput(f"{where} cannot be used: {error}") from None
    if not isinstance(table, dict):
        raise InvalidInput(f"{where} must be a table, not a {type(table).__name__}.")
    unknown = sorted(table.keys() - {COMPANION})
    if unknown:
        raise InvalidInput(f"{where} has unknown settings: {', '.join(unknown)}. Known is: {COMPANION}.")
    chosen = table.get(COMPANION, False)
    if not isinstance(chosen, bool):
        shown = repr(chosen) if isinstance(chosen, str | int | float) else f"a {type(chosen).__name__}"
        raise InvalidInput(f"{where}: {COMPANION} is {shown}; it must be true or false.")
    return chosen
