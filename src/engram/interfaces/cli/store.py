"""`engram restore` and `engram upgrade`: commands for the store as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import as_json, command, load_settings, progress, result
from .screen import one_line
from .setup import shown_url

if TYPE_CHECKING:
    from ...setup_records import Restored, Upgraded

#: Longer than a path that the system accepts.
_PATH_LENGTH = 5_000


@command()
@click.argument("file", type=click.Path())
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def restore(ctx: click.Context, file: str, yes: bool) -> None:
    """Replace the store with a backup.

    FILE is a copy of an Engram store: your own, or one that a migration or an earlier restore left beside the store.
    FILE is checked and copied, and stays as it is. The present store is kept beside the new one. Running processes
    continue with the restored store. This also works when the present store is damaged or missing. SQLite only.
    """
    from ...client import restore as replace

    settings = load_settings(ctx)
    if not yes:
        if as_json(ctx):
            raise click.UsageError("With --json there is no prompt: add --yes.")
        store, copy = one_line(shown_url(settings), _PATH_LENGTH), one_line(file, _PATH_LENGTH)
        click.confirm(f"Replace everything in {store} with {copy}?", abort=True, err=True)
    with progress("Copying") as show:
        done = replace(settings, file, progress=show)
    result(ctx, done, lambda: _restored(done))


@command()
@click.pass_context
def upgrade(ctx: click.Context) -> None:
    """Bring the store to this version's schema.

    The store is copied first. All other commands do the same when they open an older store; hooks do not. If there is
    nothing to do, the exit code is 0 too.
    """
    from ...client import upgrade as migrate

    with progress("Copying the store") as show:
        done = migrate(load_settings(ctx), progress=show)
    result(ctx, done, lambda: _upgraded(done))


def _restored(done: Restored) -> str:
    kept = f"\nThe store as it was before: {done.kept}" if done.kept else ""
    return f"Restored {done.store} from {done.file}.{kept}"


def _upgraded(done: Upgraded) -> str:
    if not done.applied:
        return f"{done.store} is up to date (schema {done.schema})."
    copy = f"\nThe store as it was before: {done.backup}" if done.backup else ""
    return f"Upgraded {done.store} to schema {done.schema}: {', '.join(done.applied)}.{copy}"
