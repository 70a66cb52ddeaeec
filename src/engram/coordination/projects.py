"""Projects: the folder tree that a path belongs to, and its name.

A project is the nearest parent folder with a `.git` or an `.engram.toml`. Its name is the git remote's slug, so that
all clones of a repository share it. Git's configuration is parsed here, because starting `git` takes too long for a
hook.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..checks import MAX_NAME
from ..errors import InvalidInput
from ..redact import redact

if TYPE_CHECKING:
    from ..config import Config
    from ..store_view import StoreView


class Project(NamedTuple):
    """The root of a folder tree. Paths inside it are stored relative to it."""

    #: The git remote's slug, so that all clones share their leases. Without a remote, the root folder's name.
    name: str
    #: Absolute, with symlinks resolved.
    root: str


def project_name(folder: str | None = None) -> str:
    """The project of a session that starts in `folder` (by default the current one); empty only for a bare `/`."""
    real = real_path(absolute(folder))
    project = project_above(real)
    return project.name if project else _label(os.path.basename(real))


def default_project(view: StoreView) -> str | None:
    """The project for sessions and memories of this caller: the configured one, else that of the current folder.

    A caller elsewhere has worked it out there.
    """
    if view.elsewhere is not None:
        return view.elsewhere.project
    return project_here(view.config)


def project_here(config: Config) -> str | None:
    """The configured project, else that of the current folder of this process.

    The user did not choose the folder's name for Engram. So a secret in it is redacted and a long name is cut, not
    refused. A folder that was deleted meanwhile has no project.
    """
    if config.project:
        return config.project
    try:
        return redact(project_name())[:MAX_NAME] or None
    except InvalidInput:
        return None


def project_of(folder: str) -> str | None:
    """The project that a session gets which starts in this folder; None for a folder without one.

    `ENGRAM_PROJECT` does not count, because it is about the session that runs now.
    """
    from ..config import load

    environ = {name: value for name, value in os.environ.items() if name != "ENGRAM_PROJECT"}
    try:
        return load(folder=folder, environ=environ).project or redact(project_name(folder))[:MAX_NAME] or None
    except InvalidInput:
        return None


def absolute(folder: str | None) -> str:
    """`folder`, by default the current one, as a valid absolute path."""
    try:
        if not folder:
            return os.getcwd()
        if "\0" in folder:
            raise ValueError("NUL")
        os.fsencode(folder)
        return folder if folder.startswith("/") else os.path.join(os.getcwd(), folder)
    except ValueError:
        raise InvalidInput(f"folder {str(folder)[:60]!r} is not a path") from None
    except FileNotFoundError:
        raise InvalidInput("the current folder no longer exists") from None


def real_path(path: str) -> str:
    """The path without symlinks."""
    # POSIX does not define a leading `//`, and realpath keeps it. Here it means `/`.
    return "/" + os.path.realpath(path).lstrip("/")


def project_above(real: str) -> Project | None:
    """The project that contains a path. Not cached: a cached "no project" would be wrong after a `git init`."""
    root = real.rstrip("/")
    while True:
        if os.access(f"{root}/.git", os.F_OK):
            return Project(_remote_slug(f"{root}/.git") or _root_label(root), root or "/")
        if os.access(f"{root}/.engram.toml", os.F_OK):
            return Project(_root_label(root), root or "/")
        if not root:
            return None
        root = root[: root.rindex("/")]


def _root_label(root: str) -> str:
    # Even a project at `/` needs a name, because its resources are stored as `<project>:<path>`.
    return _label(os.path.basename(root)) or "root"


def _label(name: str) -> str:
    """Make a name usable before a colon: without colons, blanks or a leading `~`, which would begin a path."""
    plain = "".join("-" if char == ":" or char.isspace() or not char.isprintable() else char for char in name)
    return "-" + plain[1:] if plain.startswith("~") else plain


def _remote_slug(git: str) -> str:
    """The slug of a repository's remote, or "" if it has none or its configuration cannot be read."""
    try:
        try:
            config = f"{git}/config"
            status = os.stat(config)
        except NotADirectoryError:
            config = _linked_config(git, os.stat(git).st_mtime_ns)
            status = os.stat(config)
        return _configured_slug(config, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=128)
def _linked_config(git: str, mtime_ns: int) -> str:
    """The configuration that a `.git` file points to: a submodule's own, or the one that all worktrees share."""
    marker, _, target = _read(git).strip().partition(" ")
    if marker != "gitdir:" or not target:
        raise ValueError("not a .git file")
    gitdir = os.path.join(os.path.dirname(git), target)
    common = f"{gitdir}/commondir"
    if os.access(common, os.F_OK):
        gitdir = os.path.join(gitdir, _read(common).strip())
    return f"{gitdir}/config"


@lru_cache(maxsize=128)
def _configured_slug(config: str, mtime_ns: int, size: int) -> str:
    """Cached per version of the file. Its size distinguishes versions with the same modification time."""
    return _slug(_remote_url(_read(config)))


def _read(path: str) -> str:
    # Opening a pipe of that name must not block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1 << 20).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _remote_url(config: str) -> str:
    """The URL of `origin`, else of the first remote. configparser would reject files that git accepts."""
    first, remote = "", ""
    for line in config.split("\n"):
        line = line.strip()
        if line.startswith("["):
            header, _, line = line[1:].partition("]")
            section, _, name = header.partition(" ")
            remote = name.strip().strip('"') if section.lower() == "remote" else ""
        key, _, value = line.partition("=")
        if remote and key.strip().lower() == "url":
            url = _unquoted(value.strip())
            if url and remote == "origin":
                return url
            first = first or url
    return first


def _unquoted(value: str) -> str:
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return value.partition("#")[0].partition(";")[0].strip()


def _slug(url: str) -> str:
    """`owner/repo` of a network address, the last name of a local path. Nothing up to the end of the host is used.

    Text before an `@` and after a `?` may contain credentials, even in malformed addresses.
    """
    scheme, is_url, rest = url.partition("://")
    host, is_scp, _ = url.partition(":")
    wanted = 2
    if is_url:
        path = rest.partition("?")[0].partition("#")[0].rpartition("@")[2].partition("/")[2]
        wanted = 1 if scheme == "file" else 2
    elif is_scp and "/" not in host:
        path = url.rpartition("@")[2].partition(":")[2]
    else:
        path, wanted = url, 1
    path = path.rstrip("/").removesuffix("/.git").removesuffix(".git")
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    slug = _label("/".join(parts[-wanted:]))
    return slug if len(slug) <= 255 else ""
