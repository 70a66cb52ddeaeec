"""Read settings files, back them up and replace them atomically."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...errors import SettingsConflict, SettingsUnusable
from ...private_files import make_folder

#: Suffix of the names of backups.
BACKUP = ".engram-backup"
#: Bytes of the largest file that is read. Settings are far smaller.
LARGEST = 16 * 1024 * 1024


class Change(NamedTuple):
    """The change to one file."""

    path: Path
    #: Its present text; None if there is no such file.
    before: str | None
    #: Its new text; None to remove the file.
    after: str | None

    @property
    def action(self) -> str:
        return "create" if self.before is None else "remove" if self.after is None else "change"

    def diff(self) -> str:
        import difflib

        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        here, nowhere = str(self.path), os.devnull
        lines = difflib.unified_diff(
            old, new, here if self.before is not None else nowhere, here if self.after is not None else nowhere
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def read(path: Path) -> str | None:
    """The text of a file with its line breaks as they are; None if there is no such file."""
    with _as_unusable(path, "read"):
        try:
            # Without O_NONBLOCK, opening a pipe would wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SettingsUnusable(f"{path} cannot be read: it is no regular file. It was left as it is.")
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise SettingsUnusable(
                f"{path} cannot be read: it is larger than {LARGEST // 1024**2} MB. It was left as it is."
            )
        return data.decode()


class Backups(NamedTuple):
    """Where backups of a project's settings go: to a folder of the user, so that none are in the repository."""

    folder: Path
    project: Path

    def name(self, path: Path) -> Path:
        """The beginning of a backup's name: the project's folder and the file's path in it."""
        inner = path.relative_to(self.project) if path.is_relative_to(self.project) else Path(path.name)
        return self.folder / "-".join((self.project.name, *inner.parts))


def apply(change: Change, backups: Backups | None = None) -> Path | None:
    """Make the change. Returns the backup, which is beside the file unless `backups` names another folder."""
    with _as_unusable(change.path, "written"):
        if read(change.path) != change.before:
            raise SettingsConflict(f"{change.path} was changed by another program in the meantime. Try again.")
        # Some people keep their settings in a repository and link to them. The link stays.
        real = Path(os.path.realpath(change.path))
        # A file that is removed holds only what Engram wrote.
        is_theirs = change.before is not None and change.after is not None
        backup = _back_up(change.path, change.before or "", backups) if is_theirs else None
        try:
            if change.after is None:
                real.unlink()
            else:
                make_folder(str(real.parent))
                _replace(real, change.after)
        except BaseException:
            # The settings did not change, so the backup is not needed.
            if backup is not None:
                backup.unlink(missing_ok=True)
            raise
        return backup


def move_backups(path: Path, backups: Backups) -> list[Path]:
    """Move the backups that earlier versions put beside a file; their new paths."""
    moved = []
    for old in earlier_backups(path):
        with _as_unusable(old, "moved"):
            moved.append(_back_up(path, read(old) or "", backups, old.name[len(path.name) + 1 :].partition(".")[0]))
            old.unlink()
    return moved


def earlier_backups(path: Path) -> list[Path]:
    """The backups beside a file, oldest first."""
    begin, end = f"{path.name}.", BACKUP
    with contextlib.suppress(OSError):
        return sorted(each for each in path.parent.iterdir() if each.name.startswith(begin) and each.suffix == end)
    return []


def _back_up(path: Path, text: str, backups: Backups | None, stamp: str = "") -> Path:
    """Save a copy that only the file's owner can read: settings hold keys and tokens."""
    if backups is not None:
        make_folder(str(backups.folder))
        path = backups.name(path)
    with _draft(path, text) as draft:
        stamp = stamp or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        for number in range(1000):
            backup = path.with_name(f"{path.name}.{stamp}{f'-{number}' if number else ''}{BACKUP}")
            with contextlib.suppress(FileExistsError):
                _name(draft, backup)
                return backup
    raise SettingsUnusable(f"{path} has too many backups of this second.")


def _name(draft: str, backup: Path) -> None:
    """Give a draft its name; FileExistsError if a file has that name."""
    try:
        os.link(draft, backup)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(backup):
            raise FileExistsError(str(backup)) from None
        os.rename(draft, backup)


def _replace(path: Path, text: str) -> None:
    with _draft(path, text) as draft:
        with contextlib.suppress(FileNotFoundError):
            old = path.stat()
            os.chmod(draft, old.st_mode & 0o7777)
            with contextlib.suppress(PermissionError):  # when root installs for another user, that user keeps the file
                os.chown(draft, old.st_uid, old.st_gid)
        os.replace(draft, path)


@contextlib.contextmanager
def _draft(path: Path, text: str) -> Iterator[str]:
    """A complete temporary file beside `path`, written to the disk; removed afterwards unless it was renamed."""
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


@contextlib.contextmanager
def _as_unusable(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except UnicodeError as error:
        raise SettingsUnusable(f"{path} cannot be {verb}: it is not UTF-8. It was left as it is.") from error
    except OSError as error:
        raise SettingsUnusable(f"{path} cannot be {verb}: {error.strerror or error}.") from error


def is_tracked(path: Path) -> bool:
    """Whether git tracks the file. Such a file is the project's own, even if nothing but Engram's entries is in it."""
    import subprocess

    command = ["git", "-C", str(path.parent), "ls-files", "--error-unmatch", path.name]
    try:
        return subprocess.run(command, capture_output=True, timeout=5, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
