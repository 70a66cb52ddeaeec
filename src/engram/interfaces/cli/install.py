"""`engram install` and `engram uninstall`: Engram in the settings of the harnesses agents run in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .common import command, result
from .screen import coloured_diff, table

if TYPE_CHECKING:
    from ..install.files import Change
    from ..install.harness import Harness
    from ..install.plan import Location

_NAMES = click.Choice(["claude-code", "codex", "gemini", "cursor", "all"])
_project = click.option("--project", is_flag=True, help="In this project's settings instead of the user's.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only show what would change.")

_DONE = {"create": "created", "change": "changed", "remove": "removed"}


@command()
@click.argument("harness", nargs=-1, type=_NAMES)
@_project
@_dry_run
@click.option("--list", "show", is_flag=True, help="Show what is found and what is set up, and change nothing.")
@click.pass_context
def install(ctx: click.Context, harness: tuple[str, ...], project: bool, dry_run: bool, show: bool) -> None:
    """Set up a harness, so that its sessions are seen and remembered.

    Adds Engram's hooks and its MCP server to the harness's own settings files and keeps everything else in them; each
    file is backed up beside itself first. `all` means every harness that is found.
    """
    from ..install import plan
    from ..install.commands import this_installation

    if show:
        _show(ctx)
        return
    commands, location = this_installation(), _location(project)
    chosen = plan.chosen(harness, found_only=True)
    _carry_out(ctx, [(each, plan.install(each, location, commands)) for each in chosen], dry_run, "set up")


@command()
@click.argument("harness", nargs=-1, type=_NAMES)
@_project
@_dry_run
@click.pass_context
def uninstall(ctx: click.Context, harness: tuple[str, ...], project: bool, dry_run: bool) -> None:
    """Take Engram out of a harness's settings again, and nothing else.

    What was remembered stays in the store. Entries of an older installation are taken out, too.
    """
    from ..install import plan

    location = _location(project)
    chosen = plan.chosen(harness, found_only=False)
    _carry_out(ctx, [(each, plan.uninstall(each, location)) for each in chosen], dry_run, None)


def _location(project: bool) -> Location:
    from ..install.plan import Location, project_root

    return Location(project_root(os.getcwd()) if project else None)


def _carry_out(
    ctx: click.Context, planned: list[tuple[Harness, list[Change]]], dry_run: bool, set_up: str | None
) -> None:
    """Make the changes, or show them. Everything was planned before, so what cannot be understood stops all of it."""
    from ..install.files import apply

    outcomes: list[dict[str, Any]] = []
    for harness, changes in planned:
        files = []
        for change in changes:
            backup = None if dry_run else apply(change)
            files.append(
                {
                    "file": str(change.path),
                    "action": change.action,
                    "backup": backup and str(backup),
                    "diff": change.diff() if dry_run else None,
                }
            )
        notes = list(harness.notes) if set_up and changes else []
        outcomes.append({"harness": harness.name, "title": harness.title, "files": files, "notes": notes})
    result(ctx, {"dry_run": dry_run, "harnesses": outcomes}, lambda: _told(outcomes, dry_run, set_up))


def _told(outcomes: list[dict[str, Any]], dry_run: bool, set_up: str | None) -> str:
    if dry_run:
        diffs = "".join(file["diff"] for each in outcomes for file in each["files"])
        return coloured_diff(diffs.rstrip("\n")) if diffs else "Nothing would change."
    lines = []
    for each in outcomes:
        if not each["files"]:
            lines.append(f"{each['title']}: nothing to do, it is {'set up' if set_up else 'free of Engram'} already.")
            continue
        lines.append(f"{each['title']} is {set_up or 'free of Engram'}.")
        for file in each["files"]:
            kept = f"; the old one is {os.path.basename(file['backup'])}" if file["backup"] else ""
            lines.append(f"  {_DONE[file['action']]} {file['file']}{kept}")
        lines += [f"  {note}" for note in each["notes"]]
    return "\n".join(lines)


def _show(ctx: click.Context) -> None:
    from ..install import plan
    from ..install.commands import this_installation

    commands = this_installation()
    rows = []
    for harness in plan.HARNESSES.values():
        row: dict[str, Any] = {"harness": harness.name, "title": harness.title, "found": plan.is_found(harness)}
        for name, location in (("user", _location(False)), ("project", _location(True))):
            files = sorted({str(path) for path in location.files(harness)})
            row[name] = {"state": plan.state(harness, location, commands), "files": files}
        rows.append(row)
    cells = [
        (row["harness"], "yes" if row["found"] else "no", row["user"]["state"], row["project"]["state"]) for row in rows
    ]
    result(ctx, rows, lambda: table(("harness", "found", "for the user", "in this project"), cells))
