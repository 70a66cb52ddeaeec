"""Care for a whole store: backups, restoring, encryption, copies, vacuum, and the doctor for one that may not open.

Like `client`, it is a door for the interfaces. What is here works on settings, because the store may be damaged or
missing.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from . import checks
from .client import Engram, keys_of, open_engine
from .clock import Clock
from .errors import EngramError, Forbidden, InvalidInput, NotRemote, StoreNotFound, Unauthorized
from .health_records import NOTE, OK, WRONG, Finding, examine
from .setup_records import KEPT_BACKUPS, Vacuumed

if TYPE_CHECKING:
    from collections.abc import Callable

    from .config import Config
    from .setup_records import BackupFile, BackupMade, Copied, Encryption, Restored, UsableBackup
    from .storage.engine import Engine


def backup(
    settings: Config,
    target: str | None = None,
    *,
    keep: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    clock: Clock | None = None,
) -> BackupMade:
    """Copy a store that others may be writing to, and check the copy.

    `target` is a folder, or a new file; None means the folder `backups` beside the store. In a folder the newest `keep`
    backups of this store are kept, by default 7. On PostgreSQL, `pg_dump` makes the backup.
    """
    if settings.is_remote:
        raise NotRemote()
    kept = KEPT_BACKUPS if keep is None else checks.whole(keep, "keep", least=1)
    clock = clock or Clock()
    if settings.url.startswith("postgresql://"):
        from .storage import dumps

        return dumps.make(settings.url, settings.data_dir, target, kept, clock)
    from .storage import backup_files

    return backup_files.make(
        settings.url,
        target,
        kept,
        clock,
        keys_of(settings),
        busy_timeout=settings.busy_timeout,
        progress=progress,
    )


def backups(settings: Config, folder: str | None = None) -> list[BackupFile]:
    """The backups of a store that this machine knows, newest first; with a folder, the stores in it. SQLite only."""
    require_file(settings)
    from .storage import backup_files

    return backup_files.listed(settings.url, folder, keys_of(settings))


def has_backups(settings: Config) -> bool:
    """Whether this machine knows a copy of the store, also if the store itself is gone. SQLite only."""
    if settings.is_remote or settings.url.startswith("postgresql://"):
        return False
    from .storage import backup_names

    return backup_names.any_of(settings.url)


def newest_backup(settings: Config, folder: str | None = None) -> UsableBackup:
    """The newest backup that passes all checks, and which newer ones do not: in a folder, or of all. SQLite only."""
    require_file(settings)
    from .storage import restore as restoring

    return restoring.newest(settings.url, folder, keys_of(settings))


def refuse_newer(settings: Config, file: str) -> None:
    """Raise Conflict if the store is newer than a backup, or another one, as `restore` does. SQLite only."""
    require_file(settings)
    from .storage import restore as restoring

    restoring.refuse_newer(settings.url, file, keys_of(settings))


def restore(
    settings: Config, file: str, *, force: bool = False, progress: Callable[[int, int], None] | None = None
) -> Restored:
    """Replace the store with a copy of a backup. Other processes may be using the store.

    `file` may be a folder: then the newest backup in it that passes all checks. Conflict if the store is newer than the
    backup, unless `force` is on.
    """
    require_file(settings)
    from .storage import restore as restoring

    keys = keys_of(settings)
    chosen = restoring.newest(settings.url, file, keys).file if os.path.isdir(file) else file
    return restoring.sqlite(
        settings.url, chosen, Clock(), busy_timeout=settings.busy_timeout, progress=progress, keys=keys, force=force
    )


def require_file(settings: Config) -> None:
    """Raise an error that says what to do if the store is none that `restore` can replace."""
    if settings.is_remote:
        raise NotRemote()
    if settings.url.startswith("postgresql://"):
        from .storage.dumps import how_to_restore

        raise InvalidInput(how_to_restore(settings.url))


def encrypt(settings: Config, *, delete_damaged: bool = False) -> Encryption:
    """Encrypt the store and its backups. Other processes may be using the store.

    A plain backup that SQLite cannot read stays, unless `delete_damaged` is on.
    """
    from .storage import encryption

    path, keys = _encryptable(settings), keys_of(settings)
    return encryption.encrypt(path, keys, settings.busy_timeout, delete_damaged=delete_damaged)


def decrypt(settings: Config) -> Encryption:
    """Write the store and its backups without encryption. Other processes may be using the store."""
    from .storage import encryption

    return encryption.decrypt(_encryptable(settings), keys_of(settings), settings.busy_timeout)


def rekey(settings: Config) -> Encryption:
    """Encrypt the store and its backups with a new key. Other processes may be using the store."""
    from .storage import encryption

    return encryption.rekey(_encryptable(settings), keys_of(settings), settings.busy_timeout)


def _encryptable(settings: Config) -> str:
    """The path of the store, if Engram can encrypt it."""
    if settings.is_remote:
        raise NotRemote()
    if settings.url.startswith("postgresql://"):
        raise InvalidInput(
            "Engram encrypts SQLite stores. For PostgreSQL, encrypt its server's disk; docs/encryption.md says more."
        )
    return settings.url


def copy(source: Config, target: Config, *, progress: Callable[[int, int], None] | None = None) -> Copied:
    """Copy a whole store into an empty one, on any engine. Other processes may write to the source meanwhile.

    If it is interrupted, the same call continues. A new file is encrypted if the source is, or if the setting
    `encrypt_new` says so. `progress` is called with the number of copied rows and the total.
    """
    for settings in (source, target):
        if settings.is_remote:
            raise NotRemote(
                "A store behind a server cannot be copied from here. Copy it on the server's machine, from its own "
                "path or URL."
            )
    from .transfer.copying import copy_store

    def open_target(url: str, encrypted: bool) -> Engine:
        chosen = target._replace(url=url, encrypt_new="on" if encrypted else target.encrypt_new)
        return open_engine(chosen, Clock(), True)

    engine = open_engine(source, Clock(), True, create=False)
    try:
        return copy_store(engine, source.url, target.url, open_target, keys_of(target), progress)
    finally:
        engine.close()


def vacuum(settings: Config, *, clock: Clock | None = None) -> Vacuumed:
    """Give unused space back, and delete log entries that the setting `retention_logs` says are too old.

    Others may be using the store. On SQLite writers wait meanwhile.
    """
    from .forgetting.retention import expire_logs
    from .storage.changes import workspaces
    from .store_url import masked
    from .store_view import StoreView

    engine = open_engine(settings, clock or Clock(), True, create=False)
    try:
        logs = sum(expire_logs(StoreView(engine, name, settings)) for name in workspaces(engine))
        before = engine.size()
        engine.vacuum()
        return Vacuumed(masked(settings.url), before, engine.size(), logs)
    finally:
        engine.close()


def doctor(settings: Config, *, full: bool = False, fix: bool = False, clock: Clock | None = None) -> list[Finding]:
    """All checks of a store, or, of one that cannot be opened, what its files tell. Never creates or migrates one."""
    try:
        eng = Engram(settings=settings, clock=clock, migrate=False, create=False)
    except EngramError as error:
        opens = _unopened(error, settings)
        if settings.is_remote or settings.url.startswith("postgresql://"):
            return [opens]
        from .storage import sqlite_health

        if not os.path.exists(settings.url):
            return [opens]
        of_file = sqlite_health.checks(settings.url, clock or Clock(), keys_of(settings), full=full)
        found = examine(of_file, fix=fix, said=str(error))
        # A file that is no store is one finding, not two.
        is_said = any((each.name, each.state) == ("store.file", WRONG) for each in found)
        return found if is_said and opens.state == WRONG else [opens, *found]
    with eng:
        try:
            found = eng.doctor(full=full, fix=fix, all_workspaces=True)
        except Forbidden as error:
            fix_it = "Use a token with the scope admin for all workspaces."
            return [Finding("store.opens", NOTE, str(error), "The server's store is not checked.", fix_it, number=1)]
        except EngramError as error:
            return [_unopened(error, settings)]
        return [Finding("store.opens", OK, "The store can be opened."), *found]


def _unopened(error: EngramError, settings: Config) -> Finding:
    name = "store.opens"
    if isinstance(error, StoreNotFound):
        if has_backups(settings):
            newest = next((each.file for each in backups(settings) if not each.problem), "FILE")
            means = "The store was deleted or moved, or its disk is not mounted. There are backups of it."
            fix = f"engram restore {shlex.quote(newest)}; `engram restore --list` shows all backups"
            return Finding(name, WRONG, f"There is no store at {settings.url}.", means, fix, number=1)
        if settings.origins["url"] != "default":
            means = "The name may be mistyped. Otherwise nothing was remembered there yet."
            return Finding(name, WRONG, str(error), means, "Correct the name, or run engram init", number=1)
        return Finding(name, NOTE, str(error), "Nothing was remembered there yet.", "engram init", number=1)
    fix = "engram upgrade" if error.code == "upgrade_needed" else "The other findings say more."
    if isinstance(error, Unauthorized):
        fix = "engram token create NAME, where the store is; set the token as `token` in config.toml or ENGRAM_TOKEN"
    return Finding(name, WRONG, str(error), "Nothing is recorded, and nothing is found again.", fix, number=1)
