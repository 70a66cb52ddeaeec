"""Checks of an SQLite store's files, also of a store that cannot be opened. `engram doctor` runs them.

Nothing here opens a database file with Python: closing that descriptor would drop this process's locks on it.
"""

from __future__ import annotations

import os
import shlex
import stat
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import apsw

from ..errors import EngramError, StoreEncrypted
from ..health_records import NOTE, WRONG, Check, Finding, counted, fine
from ..private_files import mode, take_rights
from ..safe_text import one_line
from . import backup, backup_files, backup_names, backup_places, database, foreign, migrate
from .backup_places import LIST
from .file_systems import network_file_system
from .health import NAMED, RESTORE, backup_finding, clock_finding, schema_finding, some
from .keys import draft
from .sqlite_errors import damaged, translate
from .swap import NEXT, REPLACED, finish, held, require_same

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..clock import Clock
    from .keys import Keys

#: Earlier ones can lose committed data when several processes write one file in WAL mode.
OLDEST_SQLITE = 3_051_003
#: Bytes of a write-ahead log from which on it is worth a note.
LARGE_LOG = 64 * 1024 * 1024
#: Bytes that a disk should have free.
LEAST_SPACE = 64 * 1024 * 1024
#: A share of unused pages, and bytes in them, from which on they are worth a note.
UNUSED_SHARE, UNUSED_BYTES = 0.25, 16 * 1024 * 1024
#: Seconds that a draft is untouched before it counts as left behind.
DRAFT_AGE = 3_600.0
#: How many problems the integrity check lists at most.
_PROBLEMS = 5
#: How often a connection is tried if the file does not fit its key.
_ATTEMPTS = 5
_HELPERS = ("-wal", "-shm")
_OBJECTS = "SELECT type, name FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'"
#: Tables with texts of memories, and the column with the memory's number.
_MEMORY_KEYS = {"memories": "id", "memory_versions": "memory_id"}
_COLUMNS = """
SELECT t.name, c.name, c.type = 'TEXT', c.pk > 0 FROM sqlite_schema t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND t.name NOT GLOB 'sqlite_*' ORDER BY t.name, c.cid
"""


class _Files(NamedTuple):
    """A store's path, and where its key is."""

    path: str
    keys: Keys

    def connect(self) -> apsw.Connection:
        """A connection. The key is looked up again if another process has encrypted or decrypted the store since."""
        for attempt in range(1, _ATTEMPTS + 1):
            connection = database.connect(self.path, database.key_of(self.path, self.keys))
            try:
                connection.set_busy_timeout(1_000)
                connection.pragma("schema_version")
                return connection
            except apsw.NotADBError:
                connection.close()
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                connection.close()
                raise
        raise AssertionError("the last attempt returns or raises")


def checks(path: str, clock: Clock, keys: Keys, *, full: bool = False) -> list[Check]:
    """The checks of a store's files. Without the key of an encrypted store, what is in the file cannot be checked."""
    path = os.path.realpath(path)
    files = _Files(path, keys)
    outside = [
        Check("store.sqlite", _version),
        Check("store.file", partial(_file, files)),
        Check("store.key", partial(_key, files)),
        Check("store.plain", partial(_plain, path)),
        Check("store.permissions", partial(_permissions, path), partial(_set_permissions, path)),
        Check("store.folder", partial(_folder, path), partial(_close_folder, path)),
        Check("store.file_system", partial(_file_system, path)),
        Check("store.space", partial(_space, path)),
        Check("store.leftovers", partial(_leftovers, path), partial(_remove_leftovers, path)),
    ]
    if not _is_store(files):
        return outside
    return [
        *outside,
        Check("store.schema", partial(_schema, files)),
        Check("store.integrity", partial(_integrity, files, full), guards=True),
        *([Check("store.texts", partial(_texts, files))] if full else []),
        Check("store.references", partial(_references, files)),
        Check("store.log", partial(_log, path), partial(_checkpoint, files)),
        Check("store.unused", partial(_unused, files)),
        Check("store.clock", partial(_clock, files, clock)),
        Check("store.backups", partial(_backups, files, clock)),
    ]


def _is_store(files: _Files) -> bool:
    """Whether what is in the file can be checked: it is a store, and its key is here."""
    try:
        return os.path.exists(files.path) and not _problem(files)
    except EngramError:
        return False


def _problem(files: _Files) -> str:
    """Why the file is no store; empty if it is one. Raises StoreEncrypted without its key."""
    if not backup.size(files.path):
        return "it is empty"
    try:
        foreign.refuse(files.path, files.keys)
        with closing(files.connect()) as connection:
            if connection.pragma("application_id") != foreign.APPLICATION_ID:
                return "its application_id is not that of Engram"
    except StoreEncrypted:
        raise
    except apsw.NotADBError:
        return "it is not a database"
    except (EngramError, apsw.Error, UnicodeDecodeError) as error:
        return str(error).rstrip(".")
    return ""


def _version() -> Finding:
    version = apsw.sqlite_lib_version()
    if apsw.SQLITE_VERSION_NUMBER >= OLDEST_SQLITE:
        return fine("store.sqlite", f"SQLite {version}.")
    return Finding(
        "store.sqlite",
        WRONG,
        f"SQLite {version} is older than 3.51.3.",
        "It can lose committed data when several processes write at once.",
        "Install a current apsw.",
    )


def _file(files: _Files) -> Finding:
    name, path = "store.file", files.path
    if not os.path.exists(path):
        return Finding(
            name, NOTE, f"There is no store at {path}.", "Nothing was remembered there yet.", "engram init", number=1
        )
    try:
        problem = _problem(files)
    except StoreEncrypted:
        return fine(name, f"{path} is an encrypted Engram store; without its key, what is in it is not checked.")
    if not problem:
        kind = "encrypted " if database.is_encrypted(path) else ""
        return fine(name, f"{path} is an {kind}Engram store.")
    saved = [each.file for each in backup_files.listed(path, None, files.keys) if not each.problem]
    return Finding(
        name,
        WRONG,
        f"{path} cannot be used: {problem}. {_told(saved)}",
        "Nothing is recorded, and nothing is found again.",
        f"engram --store {shlex.quote(path)} restore {shlex.quote(saved[0]) if saved else 'FILE'}",
        number=1,
    )


def _told(saved: list[str]) -> str:
    """The backups, the newest first. A line has room for a few."""
    if not saved:
        return "Engram knows no backup of it."
    return f"It has {counted(len(saved), 'backup', 'backups')}: {', '.join(saved[:3])}{_and_more(saved[2:])}."


def _key(files: _Files) -> Finding:
    """Whether the store's key is there, and only its owner can read it. Its mode is not mended: see `keys`."""
    name, keys = "store.key", files.keys
    # The file may be a link. The mode of what it leads to counts.
    place = os.path.realpath(keys.file)
    rights = mode(place) if keys.file and os.path.isfile(place) else 0
    if keys.file and os.path.exists(place) and not os.path.isfile(place):
        return Finding(
            name,
            WRONG,
            f"{keys.file} is no file, so it cannot be the key file (setting key_file).",
            "Engram cannot keep keys there, and an encrypted store cannot be opened.",
            f"Move {place} away, and put your copy of the key there if the store is encrypted.",
            number=1,
        )
    if rights & 0o077:
        return Finding(
            name,
            WRONG,
            f"Others can read or write the key file {keys.file} (mode {rights:04o}).",
            "Engram does not use such a key, because others may know it. An encrypted store cannot be opened.",
            f"chmod 600 {keys.file}; if others may have read it, then engram rekey",
            number=1,
        )
    try:
        database.key_of(files.path, keys)
    except EngramError as error:
        means = "Nothing is recorded, and nothing is found again. Without the key nobody can read the store."
        fix = "Put your copy of the key back, or name its place with the setting key_file."
        return Finding(name, WRONG, str(error), means, fix, number=1)
    left = draft(keys.file) if keys.file else ""
    if left and _is_old(left):
        return Finding(
            name,
            NOTE,
            f"A killed process left {left}, with the keys in it.",
            "Everybody who gets this file can read the store.",
            f"rm {shlex.quote(left)}, if the key file {keys.file} is there and opens the store",
            number=1,
        )
    if not database.is_encrypted(files.path):
        return fine(name, "The store is not encrypted.")
    return fine(name, f"The store is encrypted, and its key is in {keys.place}.")


def _plain(path: str) -> Finding:
    """Whether an encrypted store has copies that are not."""
    name = "store.plain"
    if not database.is_encrypted(path):
        return fine(name, "The store is not encrypted, so its copies need not be.")
    own = [file for file in _copies(path) if backup.size(file) and not database.is_encrypted(file)]
    if own:
        return Finding(
            name,
            WRONG,
            f"The store is encrypted, but not its copy {own[0]}{_and_more(own)}.",
            "Everybody who gets this file can read what was remembered.",
            "engram encrypt; if the file stays plain, delete it",
            number=len(own),
        )
    beside = [file for file in backup_places.files(os.path.dirname(path)) if backup_files.is_plain_store(file)]
    if not beside:
        return fine(name, "Every copy of the encrypted store that Engram knows is encrypted.")
    return Finding(
        name,
        NOTE,
        f"Beside the encrypted store is one that is not: {beside[0]}{_and_more(beside)}.",
        "If it is a copy of this store, everybody who gets this file can read what was remembered.",
        f"engram --store {shlex.quote(beside[0])} encrypt, or delete it",
        number=len(beside),
    )


def _copies(path: str) -> list[str]:
    """The copies of the store that Engram knows, and what killed processes left of some."""
    beside = [os.path.join(os.path.dirname(path), each) for each in _names(path)]
    left = [f"{path}{end}" for end in (NEXT, REPLACED, backup.COPYING)]
    known = [file for _, file in backup_names.known(path) if backup_files.is_store(file)]
    return list(dict.fromkeys([*beside, *left, *known, *backup_names.drafts(path)]))


def _and_more(files: list[str]) -> str:
    return f" and {len(files) - 1:,} more" if len(files) > 1 else ""


def _modes(path: str) -> list[str]:
    """The files of the store that others can use."""
    files = [f"{path}{end}" for end in ("", *_HELPERS, LIST)]
    files += [os.path.join(os.path.dirname(path), each) for each in _names(path)]
    # The user may have put another file in the place of a backup.
    files += [file for _, file in backup_names.known(path) if backup_files.is_store(file)]
    return [file for file in files if mode(file) & 0o077]


def _names(path: str) -> list[str]:
    with suppress(OSError):
        return backup.names(path)
    return []


def _permissions(path: str) -> Finding:
    found = _modes(path)
    if not found:
        return fine("store.permissions", "Only you can read the store and its copies.")
    return Finding(
        "store.permissions",
        WRONG,
        f"Others can read or write {', '.join(found[:3])}{' and more' if len(found) > 3 else ''}.",
        "Other users of this machine can see what was remembered.",
        f"chmod 600 {found[0]}",
        mends=True,
        number=len(found),
    )


def _set_permissions(path: str) -> int:
    return take_rights(_modes(path), 0o077)


def _folder(path: str) -> Finding:
    folder = os.path.dirname(path)
    rights = mode(folder)
    # In a folder with the sticky bit nobody can replace the files of others.
    if not rights & 0o022 or rights & stat.S_ISVTX:
        return fine("store.folder", f"Only you can put files into {folder}.")
    return Finding(
        "store.folder",
        WRONG,
        f"Others can put files into {folder}.",
        "Other users of this machine can replace the store.",
        f"chmod go-w {folder}",
        mends=True,
        number=1,
    )


def _close_folder(path: str) -> int:
    return take_rights([os.path.dirname(path)], 0o022)


def _file_system(path: str) -> Finding:
    kind = network_file_system(os.path.dirname(path))
    if kind is None:
        return fine("store.file_system", "The store is on a local disk.")
    return Finding(
        "store.file_system",
        WRONG,
        f"The store is on a network file system ({kind}).",
        "SQLite cannot lock safely there; the store can be damaged.",
        "Move the store to a local disk, or use PostgreSQL.",
        number=1,
    )


def _space(path: str) -> Finding:
    try:
        disk = os.statvfs(os.path.dirname(path))
    except OSError:
        return fine("store.space", "The free space is not known.")
    free, needed = disk.f_bavail * disk.f_frsize, backup.size(path)
    shown = f"{free / 1_000_000:,.0f} MB are free on the disk."
    if free < LEAST_SPACE:
        return Finding("store.space", WRONG, shown, "Writes will soon fail.", "Free some space.", number=1)
    if free < needed + LEAST_SPACE:
        return Finding(
            "store.space", NOTE, shown, "A backup or an upgrade would not fit.", "Free some space.", number=1
        )
    return fine("store.space", shown)


def _drafts(path: str) -> list[str]:
    """Files that a killed process left: drafts of copies, of restores, of new stores and of backups."""
    try:
        found = [file for file in backup.drafts(path) if _is_old(file)] + backup.abandoned(path)
    except OSError:
        return []
    return sorted(found) + backup_names.drafts(path)


def _is_old(file: str) -> bool:
    with suppress(OSError):
        return time.time() - os.stat(file).st_mtime > DRAFT_AGE
    return False


def _copying(path: str) -> list[str]:
    """What a killed `engram copy` to this store left: an unfinished copy, or a second name of the finished one."""
    file = f"{path}{backup.COPYING}"
    with suppress(OSError):
        if os.path.samefile(path, file) or _is_old(file):
            return [file]
    return []


def _leftovers(path: str) -> Finding:
    found = [*_drafts(path), *_copying(path)]
    if not found:
        return fine("store.leftovers", "No process left a draft behind.")
    return Finding(
        "store.leftovers",
        NOTE,
        f"A killed process left {os.path.basename(found[0])}{' and more' if len(found) > 1 else ''}.",
        "It takes space, and it may contain what was forgotten since.",
        f"rm {found[0]}",
        mends=True,
        number=len(found),
    )


def _remove_leftovers(path: str) -> int:
    found = [*_drafts(path), *_copying(path)]
    for file in found:
        backup.remove(file)
    return len(found)


def _schema(files: _Files) -> Finding:
    with _reading(files) as connection:
        applied = migrate.sqlite_applied(connection)
        there = set(connection.execute(_OBJECTS))
    return schema_finding(applied, "sqlite", files.path, partial(_lost, there))


def _lost(there: set[tuple[str, str]], migrations: Sequence[migrate.Migration]) -> set[tuple[str, str]]:
    with _empty_store(migrations) as empty:
        return set(empty.execute(_OBJECTS)) - there


@contextmanager
def _empty_store(migrations: Sequence[migrate.Migration]) -> Iterator[apsw.Connection]:
    """A store in memory, to compare with. Making one takes a few milliseconds."""
    with closing(database.connect(":memory:", None)) as connection:
        for migration in migrations:
            connection.execute(migration.sql)
        yield connection


@contextmanager
def _reading(files: _Files) -> Iterator[apsw.Connection]:
    """A connection within a block. Errors of the driver become those of Engram."""
    try:
        with closing(files.connect()) as connection:
            yield connection
    except apsw.Error as error:
        raise translate(error, files.path) from error
    except UnicodeDecodeError as error:
        raise damaged(files.path, f"a text in it is not UTF-8: {error.reason}") from error


def _integrity(files: _Files, full: bool) -> Finding:
    name = "store.integrity"
    what = "integrity_check" if full else "quick_check"
    try:
        with closing(files.connect()) as connection:
            rows = connection.execute(f"PRAGMA {what}({_PROBLEMS})").fetchall()
        problems = [" ".join(str(found).split()) for (found,) in rows if found != "ok"]
    except (apsw.Error, UnicodeDecodeError) as error:
        problems = [str(error)]
    if not problems:
        return fine(name, f"SQLite's {what} found nothing{'' if full else '; --full checks more'}.")
    return Finding(
        name,
        WRONG,
        f"The file is damaged: {problems[0][:200]}.",
        "Some of what was remembered cannot be read.",
        RESTORE,
        number=len(problems),
    )


def _texts(files: _Files) -> Finding:
    """Whether every text can be read. SQLite does not look at the bytes of a text, not even in `integrity_check`."""
    number, named = 0, []
    with _reading(files) as connection:
        for number, place in enumerate(_unreadable_texts(connection), 1):
            if number <= NAMED:
                named.append(place)
    if not number:
        return fine("store.texts", "Every text in the store can be read.")
    # A memory with such a text can be forgotten; most other commands have to read it.
    id = next((row[_MEMORY_KEYS[table]] for table, _, row in named if table in _MEMORY_KEYS), None)
    shown = [f"{table}.{column} ({', '.join(map(' '.join, row.items()))})" for table, column, row in named]
    return Finding(
        "store.texts",
        WRONG,
        f"{counted(number, 'row has a text that is', 'rows have a text that is')} not UTF-8: {some(shown, number)}.",
        "Commands that read it fail, and so do exports and copies of the store.",
        RESTORE if id is None else f"{RESTORE}; engram forget --memory {id} deletes that memory",
        number=number,
    )


def _unreadable_texts(connection: apsw.Connection) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The first unreadable text of each row: its table, its column, and the row's key."""
    connection.create_scalar_function("unreadable", _unreadable, deterministic=True)
    there = set(connection.execute(_COLUMNS))
    with _empty_store(migrate.shipped("sqlite")) as empty:
        # A table of the user's own is not looked at.
        columns = [column for column in empty.execute(_COLUMNS) if column in there]
    for table, group in groupby(columns, itemgetter(0)):
        own = list(group)
        texts = [column for _, column, is_text, _ in own if is_text]
        key = [column for _, column, _, is_key in own if is_key]
        if not texts:
            continue
        sql = f"SELECT {_bytes(key)}, unreadable({_bytes(texts)}) AS place FROM {table} WHERE place IS NOT NULL"
        for *values, place in connection.execute(sql):
            row = [one_line((value or b"").decode("utf-8", "replace"), 80) for value in values]
            yield table, texts[place], dict(zip(key, row, strict=True))


def _bytes(columns: list[str]) -> str:
    return ", ".join(f"CAST({column} AS BLOB)" for column in columns)


def _unreadable(*texts: object) -> int | None:
    """The place of the first one that is not UTF-8."""
    for place, text in enumerate(texts):
        try:
            if isinstance(text, bytes):
                text.decode()
        except UnicodeDecodeError:
            return place
    return None


def _references(files: _Files) -> Finding:
    with _reading(files) as connection:
        rows = connection.execute("PRAGMA foreign_key_check").fetchall()
    if not rows:
        return fine("store.references", "No row refers to one that is missing.")
    tables = sorted({str(row[0]) for row in rows})
    return Finding(
        "store.references",
        WRONG,
        f"Rows of {', '.join(tables)} refer to rows that are missing.",
        "Another program changed the store, or the file was damaged.",
        "engram doctor --fix for tags, links and vectors; otherwise engram restore FILE",
        number=len(rows),
    )


def _log(path: str) -> Finding:
    size = backup.size(f"{path}-wal")
    shown = f"The write-ahead log has {size / 1_000_000:,.1f} MB."
    if size < LARGE_LOG:
        return fine("store.log", shown)
    return Finding(
        "store.log",
        NOTE,
        shown,
        "Reads get slower. A process that never ends a read may keep it from shrinking.",
        "End processes that use the store, then `engram doctor --fix`.",
        mends=True,
        number=1,
    )


def _checkpoint(files: _Files) -> int:
    finish(files.path)
    with held(files.path) as opened, _reading(files) as connection:
        # Reading opens the log. Emptying the log of a file that took the store's place would lose what is in it.
        connection.pragma("schema_version")
        require_same(files.path, opened)
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return 0 if busy else 1


def _unused(files: _Files) -> Finding:
    with _reading(files) as connection:
        free, pages = connection.pragma("freelist_count"), connection.pragma("page_count")
        unused = free * connection.pragma("page_size")
    shown = f"{unused / 1_000_000:,.1f} MB of the file are unused."
    if unused < UNUSED_BYTES or free < UNUSED_SHARE * pages:
        return fine("store.unused", shown)
    return Finding("store.unused", NOTE, shown, "They are used again for new rows.", "engram vacuum", number=free)


def _clock(files: _Files, clock: Clock) -> Finding:
    with _reading(files) as connection:
        newest = backup_files.state_of(connection).changed_at
    return clock_finding(newest, clock.now())


def _backups(files: _Files, clock: Clock) -> Finding:
    known = backup_names.known(files.path)
    if known:
        problem = backup_files.problem_of(known[-1][1], files.keys)
        if problem:
            return Finding(
                "store.backups",
                WRONG,
                f"The newest backup, {known[-1][1]}, cannot be read: {problem}.",
                "If the store is damaged, only an older backup can be restored.",
                "engram backup",
                number=1,
            )
    with _reading(files) as connection:
        is_empty = not backup_files.state_of(connection).change
        mine = backup_files.origin_of(connection)
    if known and (newest := backup_files.origin(known[-1][1], files.keys)) is not None and newest != mine:
        return Finding(
            "store.backups",
            WRONG,
            f"The newest backup, {known[-1][1]}, is of an earlier store that was at the same place.",
            "That store was lost or replaced, and what it held is not in this one.",
            f"engram restore {shlex.quote(known[-1][1])} --force brings it back; engram backup if it is not needed",
            number=1,
        )
    return backup_finding(known[-1][0] if known else None, clock.now(), is_empty=is_empty)
