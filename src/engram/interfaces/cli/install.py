"""`engram install` and `engram uninstall`: Engram in the settings of the harnesses agents run in."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from .common import command, load_settings, result
from .screen import coloured_diff, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ...config import Config
    from ..install.commands import Commands
    from ..install.files import Backups, Change
    from ..install.harness import Harness
    from ..install.plan import Location

_NAMES = click.Choice(["claude-code", "codex", "gemini", "cursor", "all"])
_project = click.option("--project", is_flag=True, help="Use this project's settings instead of the user's.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")

_EDITED = "Kept your edits to: {}. To get this release's entries, remove these from the settings and run {} again."
_WRAPPED = "Left your own commands that run engram-hook: {}. Remove them from the settings by hand."
_KEPT = "Kept {}. To go back to what the settings say, run `engram uninstall {harness}` and `engram install {harness}`."
_NO_TOKEN = (
    "The server needs a token. `engram token create NAME --scope write` makes one there; set it as `token` in {}, "
    "which only you should be able to read."
)
_SHELL = "{} is set in this shell. A program that was started elsewhere does not have it; `{}` in {} works everywhere."
#: Settings that the installed programs need, and their variables.
_VARIABLES = {"url": "ENGRAM_URL", "workspace": "ENGRAM_WORKSPACE"}
_CERTIFICATES = (
    "SSL_CERT_FILE is set in this shell. A program that was started elsewhere does not have it, and may not trust the "
    "server's certificate. Set it for your whole login."
)
_DONE = {"create": "created", "change": "changed", "remove": "removed"}


@command()
@click.argument("harness", nargs=-1, type=_NAMES, metavar="HARNESS...")
@_project
@_dry_run
@click.option("--list", "show", is_flag=True, help="List the harnesses and whether Engram is set up in them.")
@click.pass_context
def install(ctx: click.Context, harness: tuple[str, ...], project: bool, dry_run: bool, show: bool) -> None:
    """Set up a harness, so that Engram sees and remembers its sessions.

    Adds Engram's hooks and MCP server to the settings files of the harness. Everything else in them stays. Before a
    file is changed, it is backed up.

    HARNESS is claude-code, codex, gemini, cursor, or all: every harness that is found on this machine.

    With --workspace or --store, the hooks and the server always use that workspace or store. Without them, an existing
    installation keeps its own. To go back to what the settings say, uninstall first. The token for a server's store is
    never written into a command: it stays in config.toml or ENGRAM_TOKEN.
    """
    from ..install import plan

    settings = load_settings(ctx)
    commands = commands_of(settings)
    if show:
        _show(ctx, commands)
        return
    location = _location(project)
    chosen = plan.chosen(harness, found_only=True)
    kept = {} if commands.options else {each.name: plan.options(each, location) for each in chosen}
    planned = [(each, plan.install(each, location, commands)) for each in chosen]
    _carry_out(ctx, planned, location, dry_run, kept=kept, notes=notes_of(settings))


@command()
@click.argument("harness", nargs=-1, type=_NAMES, metavar="HARNESS...")
@_project
@_dry_run
@click.pass_context
def uninstall(ctx: click.Context, harness: tuple[str, ...], project: bool, dry_run: bool) -> None:
    """Remove Engram from the settings of a harness, and nothing else.

    HARNESS is claude-code, codex, gemini, cursor, or all. What Engram has remembered stays in the store. Entries of
    older installations are removed too.
    """
    from ..install import plan

    location = _location(project)
    chosen = plan.chosen(harness, found_only=False)
    planned = [(each, plan.uninstall(each, location)) for each in chosen]
    _carry_out(ctx, planned, location, dry_run, uninstalling=True)


def notes_of(settings: Config) -> list[str]:
    """What is left to do so that the installed programs use this store and workspace, and have the server's token."""
    from ...config import USER_FILE, config_dir

    file = os.path.join(config_dir(), USER_FILE)
    notes = [
        _SHELL.format(variable, name, file)
        for name, variable in _VARIABLES.items()
        if settings.origins[name] == "environment"
    ]
    if settings.is_remote and settings.origins["token"] in ("default", "environment"):
        notes.append(_SHELL.format("ENGRAM_TOKEN", "token", file) if settings.token else _NO_TOKEN.format(file))
    if settings.is_remote and "SSL_CERT_FILE" in os.environ:
        notes.append(_CERTIFICATES)
    return notes


def commands_of(settings: Config) -> Commands:
    """This installation's programs, with the workspace and the store that were named as options."""
    from ..install.commands import carried, this_installation

    workspace, store = (
        getattr(settings, name) if settings.origins[name] == "argument" else None for name in ("workspace", "url")
    )
    return this_installation()._replace(options=carried(workspace, store))


def _location(project: bool) -> Location:
    from ..install.plan import Location, project_root

    return Location(project_root(os.getcwd()) if project else None)


def _backups(location: Location) -> Backups | None:
    """Where backups of a project's settings go; None: beside the settings."""
    from pathlib import Path

    from ...config import user_data_dir
    from ..install.files import Backups

    if location.project is None:
        return None
    return Backups(Path(user_data_dir()) / "settings-backups", location.project)


def _carry_out(
    ctx: click.Context,
    planned: list[tuple[Harness, list[Change]]],
    location: Location,
    dry_run: bool,
    *,
    uninstalling: bool = False,
    kept: Mapping[str, Sequence[str]] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Make the changes, or show them. Everything was planned before, so what cannot be understood stops all of it.

    `kept` has the options of each harness that stay, although the command does not name them. `notes` are about every
    harness.
    """
    from ..install import plan
    from ..install.files import apply, earlier_backups, move_backups

    backups = _backups(location)
    outcomes: list[dict[str, Any]] = []
    for harness, changes in planned:
        files = []
        for change in changes:
            backup = None if dry_run else apply(change, backups)
            files.append(
                {
                    "file": str(change.path),
                    "action": change.action,
                    "backup": backup and str(backup),
                    "diff": change.diff() if dry_run else None,
                }
            )
        advice = [] if uninstalling or not changes else list(harness.notes)
        outcome = {"harness": harness.name, "title": harness.title, "files": files, "notes": [*advice, *notes]}
        if not uninstalling:
            outcome["edited"] = plan.edited(harness, location)
            outcome["options_kept"] = list((kept or {}).get(harness.name, ()))
        if uninstalling:
            outcome["wrapped"] = plan.wrapped(harness, location)
            settings = dict.fromkeys(location.files(harness))
            old = [each for path in settings for each in earlier_backups(path)]
            if backups is not None and not dry_run:
                old = [each for path in settings for each in move_backups(path, backups)]
            outcome["backups"] = [str(path) for path in old]
        outcomes.append(outcome)
    result(ctx, {"dry_run": dry_run, "harnesses": outcomes}, lambda: _shown(outcomes, dry_run, uninstalling))


def _shown(outcomes: list[dict[str, Any]], dry_run: bool, uninstalling: bool) -> str:
    if dry_run:
        diffs = "".join(file["diff"] for each in outcomes for file in each["files"])
        return coloured_diff(diffs.rstrip("\n")) if diffs else "Nothing would change."
    lines = []
    for each in outcomes:
        if not each["files"] and each.get("edited"):
            lines.append(f"{each['title']}: Engram is set up.")
        elif not each["files"]:
            problem = "Engram is not set up" if uninstalling else "Engram is already set up"
            lines.append(f"{each['title']}: {problem}. Nothing was changed.")
        else:
            lines.append(f"{'Removed Engram from' if uninstalling else 'Set up Engram in'} {each['title']}.")
        backups = each.get("backups", [])
        for file in each["files"]:
            kept = f"; backup: {file['backup']}" if file["backup"] else ""
            lines.append(f"  {_DONE[file['action']]} {file['file']}{kept}")
            backups = [path for path in backups if path != file["backup"]]
        if backups:
            lines.append("  Earlier backups, which you can delete when you no longer need them:")
            lines += [f"    {path}" for path in backups]
        lines += [f"  {note}" for note in each["notes"]]
        if each.get("edited"):
            lines.append(f"  {_EDITED.format(', '.join(each['edited']), '`engram install`')}")
        if each.get("wrapped"):
            lines.append(f"  {_WRAPPED.format(', '.join(each['wrapped']))}")
        if each.get("options_kept"):
            import shlex

            lines.append(f"  {_KEPT.format(shlex.join(each['options_kept']), harness=each['harness'])}")
    return "\n".join(lines)


def _show(ctx: click.Context, commands: Commands) -> None:
    from ..install import plan

    rows = []
    for harness in plan.HARNESSES.values():
        row: dict[str, Any] = {"harness": harness.name, "title": harness.title, "found": plan.is_found(harness)}
        for name, location in (("user", _location(False)), ("project", _location(True))):
            if location.project is not None and _is_home(location.project):
                # The files there are the user's own.
                row[name] = {"state": "", "options": [], "files": [], "edited": []}
                continue
            files = sorted({str(path) for path in location.files(harness)})
            options = list(plan.options(harness, location))
            state = plan.state(harness, location, commands)
            changed = plan.edited(harness, location)
            row[name] = {"state": state, "options": options, "files": files, "edited": changed}
        rows.append(row)
    cells = [
        (row["harness"], "yes" if row["found"] else "no", *(_state(row[name]) for name in ("user", "project")))
        for row in rows
    ]
    result(ctx, rows, lambda: table(("harness", "found", "for the user", "in this project"), cells))


def _is_home(folder: Path) -> bool:
    from pathlib import Path

    with suppress(OSError):
        return folder.samefile(Path.home())
    return False


def _state(place: dict[str, Any]) -> str:
    changed = [f"(edited: {', '.join(place['edited'])})"] if place["edited"] else []
    return " ".join([place["state"], *place["options"], *changed])
