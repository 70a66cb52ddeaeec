"""A client's program: where it is, and whether it can be trusted to be the user's own.

It is looked for once, when the user chooses the client. Later the same file is run, whatever PATH says by then, because
the PATH of a shell in a repository may begin with a folder of that repository.
"""

from __future__ import annotations

import os
import stat

from ...errors import LLMUnavailable

#: Where programs usually are. A client that is a script finds its interpreter beside itself or here.
_USUAL = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/usr/sbin", "/sbin")


def find(name: str) -> str | None:
    """The program of that name on PATH that nobody else can replace; None if there is none.

    Programs in the current repository are left out: they came with it.
    """
    repository = _repository()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        # A relative folder means another one in every working folder.
        if not os.path.isabs(folder):
            continue
        found = os.path.join(os.path.normpath(folder), name)
        if repository and os.path.realpath(found).startswith(f"{repository}{os.sep}"):
            continue
        if os.path.isfile(found) and os.access(found, os.X_OK) and problem(found) is None:
            return found
    return None


def _repository() -> str | None:
    """The repository that this process is in. The user's home may be one, too, and does not count."""
    try:
        folder = os.path.realpath(os.getcwd())
    except OSError:
        return None
    home = os.path.realpath(os.path.expanduser("~"))
    while folder not in (home, os.path.dirname(folder)):
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        folder = os.path.dirname(folder)
    return None


def problem(path: str) -> str | None:
    """Why this program must not be run; None if it may be."""
    if os.name != "posix":
        return "clients think only on Linux and macOS"
    if not os.path.isabs(path):
        return f"{path} is not an absolute path"
    real = os.path.realpath(path)
    if not os.path.isfile(real):
        return f"{path} is missing"
    if not os.access(real, os.X_OK):
        return f"{path} is not a program"
    for place in (real, *_folders_above(real), *_folders_above(path)):
        if said := _replaceable(place):
            return said
    return None


def require(path: str, name: str) -> str:
    """The fixed program of a client. LLMUnavailable when there is none, or it must not be run."""
    advice = f"Choose it again: engram dream thinker {name}"
    if not path:
        raise LLMUnavailable(f"The program of {name} is not fixed yet. {advice}")
    if found := problem(path):
        raise LLMUnavailable(f"The program of {name} cannot be used: {found}. {advice}")
    return path


def search_path(program: str) -> str:
    """PATH for a client: the folders of its program, and the usual ones. Never the one of the current shell."""
    own = dict.fromkeys((os.path.dirname(program), os.path.dirname(os.path.realpath(program))))
    return os.pathsep.join([*own, *(folder for folder in _USUAL if folder not in own)])


def _folders_above(path: str) -> list[str]:
    found = []
    while (parent := os.path.dirname(path)) != path:
        found.append(parent)
        path = parent
    return found


def _replaceable(place: str) -> str | None:
    """Whether another user could change this file, or put another one in this folder's place."""
    try:
        info = os.stat(place)
    except OSError as error:
        return f"{place} cannot be read: {error.strerror}"
    if info.st_uid not in (0, os.geteuid()):
        return f"{place} belongs to another user"
    if stat.S_ISDIR(info.st_mode):
        # In a folder like /tmp others can add entries, but not replace those of the user.
        open_to_others = bool(info.st_mode & stat.S_IWOTH) and not info.st_mode & stat.S_ISVTX
    else:
        # Some systems give each user a group of their own, and let it write.
        own_group = info.st_gid == os.getegid()
        open_to_others = bool(info.st_mode & (stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP))
    return f"{place} is writable by others" if open_to_others else None
