"""Commands for the store as a whole: backup, restore, vacuum, upgrade, and its encryption."""

from __future__ import annotations

import os
import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from ...errors import NotFound
from ...setup_records import KEPT_BACKUPS
from .common import as_json, command, load_settings, progress, result, utc_option
from .counting import counted
from .screen import PATH_LENGTH, byte_size, one_line, say, style, table, when
from .setup import shown_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...config import Config
    from ...setup_records import BackupFile, BackupMade, Encryption, Restored, Upgraded, Vacuumed


@command()
@click.argument("path", type=click.Path(), required=False)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=KEPT_BACKUPS,
    show_default=True,
    help="In a folder: number of backups of this store to keep. Older ones are removed.",
)
@click.pass_context
def backup(ctx: click.Context, path: str | None, keep: int) -> None:
    """Copy the store while others use it, and check the copy.

    PATH is a folder, or a new file. A new name without an ending such as `.db` is a folder. Without PATH the backup
    goes into the folder `backups` beside the store. The copy has everything that was written before it began. It is
    opened again and checked completely before it gets its name. The backup of an encrypted store is encrypted with the
    same key.

    In a folder, the newest backups of this store stay (--keep), and older ones that `engram backup` made are removed.
    Other files are never touched. On PostgreSQL, pg_dump makes the backup if a fitting one is on this machine.
    """
    from ...maintenance import backup as make

    with progress("Copying") as show:
        done = make(load_settings(ctx), path, keep=keep, progress=show)
    result(ctx, done, lambda: _backed_up(done))


@command()
@click.argument("file", type=click.Path(), required=False)
@click.option("--list", "show", is_flag=True, help="List the backups, newest first; with a folder, those in it.")
@click.option("--force", is_flag=True, help="Replace the store even if it is newer than the backup.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@utc_option
@click.pass_context
def restore(ctx: click.Context, file: str | None, show: bool, force: bool, yes: bool) -> None:
    """Replace the store with a backup.

    FILE is a copy of an Engram store: one of `engram backup`, your own, or one that a migration or an earlier restore
    left beside the store. If FILE is a folder, the newest backup in it that passes all checks is taken. Without FILE it
    is the newest one of `engram backup` that passes them, in all folders.

    FILE is checked and copied, and stays as it is. Without --force, a store that was written to after the backup is not
    replaced. The present store is kept beside the new one. Running processes continue with the restored store. This
    also works when the present store is damaged or missing. FILE may be encrypted, if its key is in the key file; the
    store stays encrypted if it was. SQLite only.
    """
    from ...maintenance import backups, refuse_newer, require_file
    from ...maintenance import restore as replace

    settings = load_settings(ctx)
    if show:
        found = backups(settings, file)
        result(ctx, found, lambda: _listed(found))
        return
    if not yes and as_json(ctx):
        raise click.UsageError("With --json there is no prompt: add --yes.")
    require_file(settings)
    chosen = file if file is not None and not os.path.isdir(file) else _newest(settings, file)
    if not os.path.exists(chosen):
        raise NotFound(f"There is no file {chosen}. `engram restore --list` shows the backups.")
    if not yes:
        if not force:
            refuse_newer(settings, chosen)
        store, copy = one_line(shown_url(settings), PATH_LENGTH), one_line(chosen, PATH_LENGTH)
        click.confirm(f"Replace everything in {store} with {copy}?", abort=True, err=True)
    with progress("Copying") as shown:
        done = replace(settings, chosen, force=force, progress=shown)
    result(ctx, done, lambda: _restored(done))


def _newest(settings: Config, folder: str | None) -> str:
    from ...maintenance import newest_backup

    found = newest_backup(settings, folder)
    for each in found.passed_over:
        warning = style("Warning:", fg="yellow")
        say(f"{warning} A newer backup cannot be used: {one_line(each, PATH_LENGTH)}", err=True)
    return found.file


@command()
@click.pass_context
def vacuum(ctx: click.Context) -> None:
    """Give the store's unused space back to the disk.

    Other programs may go on. On SQLite the file is written anew in one transaction: writers wait for it, readers do
    not. The file shrinks when no reader needs the old pages any more. On PostgreSQL the server's VACUUM runs on each
    table, which makes the space free for new rows. Log entries that are older than the setting retention_logs are
    deleted first.
    """
    from ...maintenance import vacuum as compact

    done = compact(load_settings(ctx))
    result(ctx, done, lambda: _vacuumed(done))


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


def _backed_up(done: BackupMade) -> str:
    store, file = one_line(done.store, PATH_LENGTH), one_line(done.file, PATH_LENGTH)
    lines = [f"Saved {store} in {file} ({byte_size(done.size)}, schema {done.schema}). The copy was checked."]
    if not done.listed:
        lines.append(
            "The list of backups beside the store cannot be written, so receipts of forgetting do not name this backup."
        )
    if done.removed:
        lines.append(f"Removed {counted(len(done.removed), 'older backup')}.")
    lines += [f"This older backup could not be removed: {one_line(file, PATH_LENGTH)}" for file in done.stuck]
    return "\n".join(lines)


def _vacuumed(done: Vacuumed) -> str:
    lines = [f"Vacuumed {done.store}: {byte_size(done.before)} before, {byte_size(done.after)} after."]
    if done.logs:
        lines.append(f"Deleted {counted(done.logs, 'old log entry')}.")
    return "\n".join(lines)


def _listed(found: list[BackupFile]) -> str:
    if not found:
        return "There are no backups. `engram backup` makes one."
    head = ("made", "size", "schema", "last change", "written last", "file")
    rows = [(when(each.made_at), byte_size(each.size), *_contents(each), each.file) for each in found]
    return table(head, rows, whole=("file",))


def _contents(each: BackupFile) -> tuple[str, str, str]:
    if each.problem:
        return ("", "", f"cannot be read: {one_line(each.problem, 60)}")
    return (str(each.schema), str(each.change), when(each.changed_at))


def _restored(done: Restored) -> str:
    kept = f"\nThe store as it was before: {done.kept}" if done.kept else ""
    again = counted(done.forgettings_lost, "forgetting")
    lost = (
        f"\nThe backup is from before {again}, so what was deleted is back. Forget it again: "
        f"`engram --store {shlex.quote(str(done.kept))} receipts` shows what it was."
        if done.forgettings_lost
        else ""
    )
    return f"Restored {done.store} from {done.file}.{kept}{lost}"


def _upgraded(done: Upgraded) -> str:
    if not done.applied:
        return f"{done.store} is up to date (schema {done.schema})."
    copy = f"\nThe store as it was before: {done.backup}" if done.backup else ""
    return f"Upgraded {done.store} to schema {done.schema}: {', '.join(done.applied)}.{copy}"


@command()
@click.option("--delete-damaged", is_flag=True, help="Delete plain backups that SQLite cannot read.")
@click.pass_context
def encrypt(ctx: click.Context, delete_damaged: bool) -> None:
    """Encrypt the store on the disk.

    The store, the backups beside it and those that `engram backup` made are encrypted with a random key. The first
    time, the key is made and written to the key file. Keep a copy of that file: without it the store is lost. Running
    processes continue. If the store is encrypted already, only its backups are looked at. SQLite only.

    A backup that SQLite cannot read cannot be encrypted either. It stays as it is and is named, because something may
    be saved from it. --delete-damaged deletes it.
    """
    from ...maintenance import encrypt as change

    _change(ctx, partial(change, delete_damaged=delete_damaged), "Encrypted {store}.", "{store} is encrypted.")


@command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def decrypt(ctx: click.Context, yes: bool) -> None:
    """Remove the encryption of the store.

    The store, the backups beside it and those that `engram backup` made are written without encryption. The command
    names them and asks first. The key file stays, because backups elsewhere may need it. Running processes continue.
    SQLite only.
    """
    from ...maintenance import decrypt as change

    settings = load_settings(ctx)
    if not yes and as_json(ctx):
        raise click.UsageError("With --json there is no prompt: add --yes.")
    # What cannot be decrypted is refused without a question.
    if not yes and not settings.is_remote and os.path.isfile(settings.url):
        _ask_to_decrypt(settings)
    _change(ctx, change, "Decrypted {store}.", "{store} is not encrypted.")


@command()
@click.pass_context
def rekey(ctx: click.Context) -> None:
    """Encrypt the store with a new key.

    The store, the backups beside it and those that `engram backup` made get a new random key. Earlier keys stay in the
    key file, because backups elsewhere may need them. Running processes continue. SQLite only.
    """
    from ...maintenance import rekey as change

    _change(ctx, change, "Encrypted {store} with a new key.", "")


def _ask_to_decrypt(settings: Config) -> None:
    from ...maintenance import backups

    files = [settings.url, *(each.file for each in backups(settings))]
    say("These files would be written without encryption. Who can read them can then read what is in them:", err=True)
    for file in files:
        say(f"  {one_line(file, PATH_LENGTH)}", err=True)
    more = f" and {counted(len(files) - 1, 'backup')}" if len(files) > 1 else ""
    click.confirm(f"Decrypt the store{more}?", abort=True, err=True)


def _change(ctx: click.Context, change: Callable[[Config], Encryption], changed: str, unchanged: str) -> None:
    done = change(load_settings(ctx))
    result(ctx, done, lambda: _encryption(done, (changed if done.changed else unchanged).format(store=done.store)))


def _encryption(done: Encryption, first: str) -> str:
    lines = [first]
    if done.encrypted:
        lines.append(f"The key is in {done.keys}. Keep a copy of it: without it nobody can read the store.")
    what = "Encrypted too" if done.encrypted else "Decrypted too"
    lines += [f"{what}: {copy}" for copy in done.copies]
    lines += [f"Deleted, because it is incomplete or damaged: {file}" for file in done.removed]
    lines += [f"Damaged, so it stays, and its text can be read: {file}" for file in done.damaged]
    if done.damaged and done.encrypted:
        lines.append("Save from it what you need, then run `engram encrypt --delete-damaged`.")
    lines += [f"Not changed, because it is in use, or cannot be read or written: {file}" for file in done.left]
    lines += [f"Could not be looked at: {one_line(file, PATH_LENGTH)}" for file in done.unseen]
    if done.unseen:
        lines.append(
            "Backups there stay as they are. Mount the disk, or make them readable, and run the command again. If they "
            "were deleted, remove the line of their folder from the list of backups beside the store."
        )
    return "\n".join(lines)
