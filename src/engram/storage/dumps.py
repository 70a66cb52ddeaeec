"""Backups of a PostgreSQL store: `pg_dump` makes them, if it is on this machine and fits the server.

`pg_dump` refuses a server that is newer than itself. Then, and without the program, the error says which command to run
where a fitting one is. A password is given in the environment, because other users of a machine can see the arguments
of a program. The dump is read again with `pg_restore --list` before it gets its name.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from contextlib import suppress
from zlib import crc32

from ..clock import Clock
from ..errors import InvalidInput, MissingExtra, StoreError, StoreNotFound
from ..private_files import make_file, make_folder, sync
from ..setup_records import BackupMade
from ..store_url import masked, split, split_schema
from . import backup, backup_places
from .backup import STAMP
from .backup_places import FOLDER, LIST

_END = ".dump"
#: Secrets in a URL for which libpq has no environment variable. A password has one.
_HIDDEN = frozenset(("sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"))
_AFTER_RESTORE = "deployment/after-restore.sql"


def make(url: str, data_dir: str, target: str | None, keep: int, clock: Clock) -> BackupMade:
    """Dump the store's schema into a folder or a new file; None: the folder `backups` in the data folder."""
    address, schema = split_schema(url)
    _refuse_hidden(address)
    server, schema_number, change = _look(address, schema, url)
    program = _fitting(server, address, schema)
    now = clock.now()
    name = f"{_prefix(address, schema)}{backup.compact(now)}{_END}"
    file, rotates = backup_places.target(target, _folder(data_dir), name)
    draft = f"{file}.{os.getpid()}{backup.PARTIAL}"
    try:
        make_folder(os.path.dirname(file))
        # Before anything is written, so that a receipt names the file whatever happens.
        place = os.path.dirname(file) if rotates else file
        # The folder in the data folder needs no entry.
        listed = backup_places.remember(_list(address, schema, data_dir), place, now) or place == _folder(data_dir)
        make_file(draft)
        _dump(program, address, schema, draft)
        os.rename(draft, file)
        sync(os.path.dirname(file))
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    rotated = _rotate(address, schema, file, keep) if rotates else backup_places.Rotated()
    size = backup.size(file)
    return BackupMade(masked(url), file, size, schema_number, change, now, rotated.removed, listed, rotated.stuck)


def older(address: str, schema: str, data_dir: str, before: str) -> tuple[str, ...]:
    """The dumps that this machine made before a time, oldest first."""
    return tuple(file for when, file in known(address, schema, data_dir) if when < before)


def known(address: str, schema: str, data_dir: str) -> list[tuple[str, str]]:
    """The dumps that this machine made and that are still there, oldest first: when, and the path."""
    return backup_places.known(_list(address, schema, data_dir), _folder(data_dir), _pattern(address, schema))


def remove_drafts(address: str, schema: str, data_dir: str) -> None:
    """Remove what killed backups left: it may have text that was forgotten since."""
    for file in backup_places.drafts(_list(address, schema, data_dir), _folder(data_dir), _pattern(address, schema)):
        with suppress(OSError):
            os.unlink(file)


def how_to_restore(url: str) -> str:
    """Which commands bring back a dump."""
    address, schema = split_schema(url)
    shown = shlex.quote(masked(address))
    return (
        "engram restore works on SQLite stores. On PostgreSQL, stop the programs that use the store. Then run two "
        "commands as an administrator of the server, with the administrator's name in place of the store's role: "
        f"pg_restore --clean --if-exists --exit-on-error --dbname {shown} FILE, and: psql -v ON_ERROR_STOP=1 -v "
        f"team={schema} -f {_AFTER_RESTORE} {shown}. docs/team.md explains both; "
        "docs/storage.md says how to return to a copy that a migration made."
    )


def _refuse_hidden(address: str) -> None:
    """Refuse what `pg_dump` takes only as an argument, where other users of this machine can see it."""
    from psycopg.conninfo import conninfo_to_dict

    given = sorted(_HIDDEN & set(conninfo_to_dict(address)))
    if given:
        raise InvalidInput(
            f"The store's URL has {given[0]}, which pg_dump can get only where other users of this machine can see it, "
            "so no backup was made. Put it into ~/.pg_service.conf (mode 600), and name that service in the URL: "
            "?service=NAME."
        )


def _look(address: str, schema: str, url: str) -> tuple[int, int, int]:
    """The major version of the server, the store's newest migration, and its newest change."""
    import psycopg
    from psycopg import sql

    from .postgres_errors import translate

    try:
        with psycopg.connect(address, autocommit=True) as connection:
            version = connection.info.server_version // 10_000
            there = connection.execute("SELECT to_regclass(format('%%I.migrations', %s::text))", (schema,)).fetchone()
            if there is None or there[0] is None:
                raise StoreNotFound(f"There is no store at {masked(url)}.")
            numbers = sql.SQL("SELECT (SELECT MAX(number) FROM {}), (SELECT COALESCE(MAX(number), 0) FROM {})").format(
                sql.Identifier(schema, "migrations"), sql.Identifier(schema, "changes")
            )
            ((migration, change),) = connection.execute(numbers).fetchall()
            return version, migration, change
    except psycopg.Error as error:
        raise translate(error, masked(url)) from error


def _fitting(server: int, address: str, schema: str) -> str:
    """The path of a `pg_dump` that can dump a server of this version."""
    program = shutil.which("pg_dump")
    problem = "pg_dump is not on this machine"
    if program is not None and shutil.which("pg_restore", path=os.path.dirname(program)) is None:
        problem = "pg_restore is not beside pg_dump"
    elif program is not None:
        version = _version(program)
        if version >= server:
            return program
        problem = f"pg_dump here is version {version}, which cannot dump a server of version {server}"
    command = shlex.join(["pg_dump", *_arguments(address, schema, f"{schema}{_END}"), masked(address)])
    raise MissingExtra(
        f"{problem}, so no backup was made. Run this where PostgreSQL's client programs of version {server} or newer "
        f"are, or put their folder first in PATH: {command}"
    )


def _version(program: str) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)(?:\.\d+|devel|beta\d|rc\d)", said)
    return int(found[1]) if found else 0


def _arguments(address: str, schema: str, file: str) -> list[str]:
    # The quotation marks keep pg_dump from reading the name as a pattern.
    return ["--format=custom", f'--schema="{schema}"', f"--file={file}"]


def _dump(program: str, address: str, schema: str, draft: str) -> None:
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    parts = conninfo_to_dict(address)
    password = parts.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password is not None else {})}
    connecting = f"--dbname={make_conninfo('', **parts)}"
    arguments = [program, *_arguments(address, schema, draft), "--no-password", connecting]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise StoreError(f"pg_dump failed, so no backup was made: {_last_line(done.stderr)}")
    reader = os.path.join(os.path.dirname(program), "pg_restore")
    listed = subprocess.run([reader, "--list", draft], capture_output=True, text=True, check=False)
    if listed.returncode or f"TABLE DATA {schema} migrations" not in listed.stdout:
        raise StoreError(f"The dump cannot be read again, so it was removed: {_last_line(listed.stderr)}")
    sync(draft)


def _last_line(text: str) -> str:
    from ..redact import redact
    from ..safe_text import one_line

    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(redact(lines[-1]), 300) if lines else "it said nothing"


def _rotate(address: str, schema: str, made: str, keep: int) -> backup_places.Rotated:
    own = backup_places.named(os.path.dirname(made), _pattern(address, schema))
    return backup_places.remove([file for file in backup.surplus(own, keep, made) if _is_dump(file)])


def _is_dump(file: str) -> bool:
    with suppress(OSError), open(file, "rb") as opened:
        return opened.read(5) == b"PGDMP"
    return False


def _prefix(address: str, schema: str) -> str:
    return f"engram-{schema}-{crc32(split(address).target.encode()):08x}-"


def _pattern(address: str, schema: str) -> re.Pattern[str]:
    return re.compile(re.escape(_prefix(address, schema)) + STAMP + re.escape(_END))


def _list(address: str, schema: str, data_dir: str) -> str:
    return os.path.join(_absolute(data_dir), f"{_prefix(address, schema).rstrip('-')}{LIST}")


def _folder(data_dir: str) -> str:
    return os.path.join(_absolute(data_dir), FOLDER)


def _absolute(folder: str) -> str:
    return os.path.abspath(os.path.expanduser(folder))
