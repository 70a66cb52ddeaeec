"""`engram workspace …`: the workspaces of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import Group, open_store, result, utc_option
from .screen import ago, table

if TYPE_CHECKING:
    from ...records import WorkspaceInfo


@click.group(cls=Group)
def workspace() -> None:
    """Workspaces: separate memories in one store.

    Choose one with --workspace or ENGRAM_WORKSPACE. The first write to a workspace creates it.
    """


@workspace.command("list")
@utc_option
@click.pass_context
def list_workspaces(ctx: click.Context) -> None:
    """List the workspaces of the store."""
    eng = open_store(ctx)
    found = eng.workspaces()
    current = eng.workspace_name
    records = [{**each._asdict(), "configured": each.name == current} for each in found]
    result(ctx, records, lambda: _shown(found, current))


def _shown(found: list[WorkspaceInfo], current: str) -> str:
    rows = [
        (
            each.name,
            "yes" if each.name == current else "",
            f"{each.sessions:,}",
            f"{each.turns:,}",
            f"{each.memories:,}",
            ago(each.active_at),
        )
        for each in found
    ]
    head = ("name", "configured", "sessions", "turns", "memories", "last activity")
    shown = [table(head, rows)] if rows else []
    if all(each.name != current for each in found):
        shown.append(f"Workspace {current} is configured. Nothing has been written to it yet.")
    return "\n".join(shown)
