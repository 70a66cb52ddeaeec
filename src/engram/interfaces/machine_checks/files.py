"""Checks of Engram's own files outside the store: settings, tokens, logs and sockets."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ...config import USER_FILE, config_dir
from ...health_records import NOTE, WRONG, Check, Finding, counted, fine
from ...lock_file import Lock
from ...private_files import mode, take_rights
from ..recall_socket import place

if TYPE_CHECKING:
    from ...config import Config

#: Files in the data folder that only their owner should be able to read.
_PRIVATE = (".token", ".log", ".old", ".failures", ".lock")


def checks(settings: Config) -> list[Check]:
    return [
        Check("settings.file", _settings_file),
        Check("settings.project", partial(_project, settings)),
        Check("settings.permissions", partial(_permissions, settings), partial(_set_permissions, settings)),
        Check("settings.folder", partial(_folder, settings), partial(_close_folder, settings)),
        Check("socket.stale", partial(_stale, settings), partial(_remove_stale, settings)),
        Check("socket.permissions", partial(_socket_modes, settings), partial(_close_sockets, settings)),
    ]


def _settings_file() -> Finding:
    path = os.path.join(config_dir(), USER_FILE)
    if os.path.isfile(path):
        return fine("settings.file", f"Your settings are in {path}.")
    if not os.path.lexists(path):
        return fine("settings.file", "You have no file with settings.")
    return Finding(
        "settings.file",
        WRONG,
        f"{path} is not a file, so it is ignored.",
        "Your settings do not apply. Engram uses the defaults.",
        f"Move {path} away, and put a file with your settings there.",
        number=1,
    )


def _project(settings: Config) -> Finding:
    if not settings.notices:
        return fine("settings.project", "Nothing in a project's file is ignored.")
    means = "A project's file may name its workspace and project, and make rules stricter. The rest does not apply."
    fix = "engram config show"
    return Finding("settings.project", NOTE, settings.notices[0], means, fix, number=len(settings.notices))


def _data_dir(settings: Config) -> str:
    return os.path.abspath(os.path.expanduser(settings.data_dir))


def _open_files(settings: Config) -> list[str]:
    folder = _data_dir(settings)
    files = []
    with suppress(OSError):
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(_PRIVATE)]
    user = os.path.join(config_dir(), USER_FILE)
    # A file without secrets may be anybody's to read.
    if settings.origins["token"] == user or _has_password(settings, user):
        files.append(user)
    # Nothing is logged into a folder or a pipe: `hook.log` and `settings.file` name those.
    return [file for file in files if os.path.isfile(file) and mode(file) & 0o077]


def _has_password(settings: Config, user: str) -> bool:
    from ...store_url import masked

    return any(
        settings.origins[name] == user and masked(getattr(settings, name)) != getattr(settings, name)
        for name in ("url", "llm_base_url")
    )


def _permissions(settings: Config) -> Finding:
    found = _open_files(settings)
    if not found:
        return fine("settings.permissions", "Only you can read the files with tokens, passwords and logs.")
    return Finding(
        "settings.permissions",
        WRONG,
        f"Others can read {', '.join(found[:3])}{' and more' if len(found) > 3 else ''}.",
        "Other users of this machine can see tokens or what was logged.",
        f"chmod 600 {found[0]}",
        mends=True,
        number=len(found),
    )


def _set_permissions(settings: Config) -> int:
    return take_rights(_open_files(settings), 0o077)


def _open_folders(settings: Config) -> list[str]:
    """The folders of Engram's own that others can write."""
    # A folder may be a link. The mode of what it leads to counts.
    folders = (os.path.realpath(folder) for folder in (_data_dir(settings), config_dir()))
    return [folder for folder in dict.fromkeys(folders) if mode(folder) & 0o022]


def _folder(settings: Config) -> Finding:
    found = _open_folders(settings)
    if not found:
        return fine("settings.folder", "Only you can put files into the folders with the data and the settings.")
    return Finding(
        "settings.folder",
        WRONG,
        f"Others can put files into {' and '.join(found)}.",
        "Other users of this machine can replace what Engram keeps there, such as settings and keys.",
        f"chmod go-w {' '.join(map(shlex.quote, found))}",
        mends=True,
        number=len(found),
    )


def _close_folder(settings: Config) -> int:
    return take_rights(_open_folders(settings), 0o022)


def _sockets(settings: Config) -> list[str]:
    """The recall sockets in the folder of this store's socket. Other stores of this user have theirs there, too."""
    path = place.path(settings)
    if path is None:
        return []
    folder = os.path.dirname(path)
    with suppress(OSError):
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".sock")]
        return [each for each in paths if stat.S_ISSOCK(os.lstat(each).st_mode)]
    return []


def _is_stale(path: str) -> bool:
    """Whether no process listens at a socket."""
    import socket

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(0.2)
        connection.connect(path)
    except OSError as error:
        return error.errno in (errno.ECONNREFUSED, errno.ENOENT)
    finally:
        connection.close()
    return False


def _stale(settings: Config) -> Finding:
    sockets = _sockets(settings)
    found = [path for path in sockets if _is_stale(path)]
    if not found:
        served = counted(len(sockets), "is served", "are served") if sockets else "there is none"
        return fine("socket.stale", f"No recall socket is left behind; {served}.")
    return Finding(
        "socket.stale",
        NOTE,
        f"No process answers at {found[0]}{' and others' if len(found) > 1 else ''}.",
        "A server was killed. The next one replaces the file.",
        f"rm {found[0]}",
        mends=True,
        number=len(found),
    )


def _remove_stale(settings: Config) -> int:
    removed = 0
    for path in _sockets(settings):
        # With the lock no other process can begin to serve meanwhile.
        lock = Lock.take(f"{path}.lock") if _is_stale(path) else None
        if lock is None:
            continue
        try:
            if _is_stale(path):
                os.unlink(path)
                removed += 1
        except OSError:
            pass
        finally:
            lock.release()
    return removed


def _open_sockets(settings: Config) -> list[str]:
    path = place.path(settings)
    found = [each for each in _sockets(settings) if mode(each) & 0o077]
    if path is not None and mode(os.path.dirname(path)) & 0o077:
        found.append(os.path.dirname(path))
    return found


def _socket_modes(settings: Config) -> Finding:
    found = _open_sockets(settings)
    if not found:
        return fine("socket.permissions", "Only you can use the recall sockets.")
    return Finding(
        "socket.permissions",
        WRONG,
        f"Others can reach {found[0]}.",
        "Hooks do not use a socket in a folder that others can enter.",
        f"chmod go-rwx {found[0]}",
        mends=True,
        number=len(found),
    )


def _close_sockets(settings: Config) -> int:
    return take_rights(_open_sockets(settings), 0o077)
