"""The keys of encrypted stores: in a file that only its owner can read, or in the system's key ring.

Both hold the same text: a key on each line, the newest first. New stores are encrypted with the first. The others open
what was encrypted before the key was changed: backups, and a store whose change of key was interrupted. So a new key
can be written before the store changes, and every state in between has its key.

If the key file exists, the key ring is not asked: loading it takes longer than a hook.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from ..errors import MissingExtra, StoreEncrypted
from ..private_files import make_file, make_folder, open_regular, sync

if TYPE_CHECKING:
    from types import ModuleType

#: What the key ring calls the entry.
SERVICE, ENTRY = "engram", "store keys"
#: In bytes.
LENGTH = 32

_HEAD = (
    "# The keys of Engram's encrypted stores and backups, the newest first. Without them nobody can read these again.\n"
    "# Keep a copy in a safe place, apart from the backups.\n"
)


class Keys(NamedTuple):
    """Where the keys are."""

    file: str
    #: Whether they are in the system's key ring, unless the file exists.
    ring: bool = False
    #: Whether a new store is encrypted.
    new: bool = False

    @property
    def place(self) -> str:
        """The place for people."""
        return "the system's key ring" if self.ring and not os.path.exists(self.file) else self.file

    def read(self) -> tuple[bytes, ...]:
        """All keys, the newest first; none if there are none yet."""
        text = self._text()
        keys = []
        for line in text.splitlines():
            entry = line.strip()
            if entry and not entry.startswith("#"):
                keys.append(_parsed(entry, self.place))
        return tuple(keys)

    def newest(self) -> bytes:
        """The key for what is encrypted from now on. The first call makes it."""
        known = self.read()
        if known:
            return known[0]
        with self._locked():
            known = self.read()
            return known[0] if known else self._add(known)

    def add(self) -> bytes:
        """Make a new key. The earlier ones stay."""
        with self._locked():
            return self._add(self.read())

    def _add(self, known: tuple[bytes, ...]) -> bytes:
        made = os.urandom(LENGTH)
        text = _HEAD + "".join(f"{key.hex()}\n" for key in (made, *known))
        if self.ring and not os.path.exists(self.file):
            with _key_ring() as ring:
                ring.set_password(SERVICE, ENTRY, text)
            if self.read()[:1] != (made,):
                raise StoreEncrypted("The system's key ring did not keep the new key; nothing was changed.")
        else:
            self._write(text, known)
        return made

    def _write(self, text: str, known: tuple[bytes, ...]) -> None:
        # A symbolic link stays; its target is replaced.
        file = os.path.realpath(self.file)
        left = draft(file)
        if os.path.lexists(left):
            _require_known(left, known, file)
            os.unlink(left)
        _replace(file, text)

    def _text(self) -> str:
        try:
            # Without O_NONBLOCK, opening a pipe would wait for a writer.
            descriptor = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return self._ring_text() if self.ring else ""
        except OSError as error:
            raise StoreEncrypted(f"The key file {self.file} cannot be read: {error.strerror}.") from None
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise StoreEncrypted(
                    f"{self.file} is no file, so it cannot be the key file (setting key_file). Move it away, and put "
                    "your copy of the key file there."
                )
            # Refused and not mended: others may have read the key, and only its owner can judge that.
            if mode & 0o077:
                raise StoreEncrypted(
                    f"The key file {self.file} can be read by other users (mode {mode & 0o777:04o}), so it is not "
                    f"used. Run `chmod 600 {self.file}`; if others may have read it, then `engram rekey`."
                )
            return os.read(descriptor, 1_000_000).decode("ascii", "replace")
        except OSError as error:
            raise StoreEncrypted(f"The key file {self.file} cannot be read: {error.strerror}.") from None
        finally:
            os.close(descriptor)

    def _ring_text(self) -> str:
        with _key_ring() as ring:
            return ring.get_password(SERVICE, ENTRY) or ""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Only one process adds a key at a time. Otherwise the key of a store could be lost."""
        if os.path.islink(self.file) and not os.path.exists(self.file):
            # Perhaps its disk is not mounted. A key that is written below the mount point would be lost with the mount.
            raise StoreEncrypted(
                f"The key file {self.file} is a link to {os.path.realpath(self.file)}, which is not there. Mount its "
                "disk, or make an empty file there with mode 600."
            )
        folder = os.path.dirname(os.path.realpath(self.file))
        try:
            make_folder(folder)
            with locked_folder(folder):
                yield
        except OSError as error:
            raise StoreEncrypted(f"The key file {self.file} cannot be written: {error.strerror}.") from None


#: No key is known, and new stores are not encrypted.
NO_KEYS = Keys("")


@contextmanager
def locked_folder(folder: str) -> Iterator[None]:
    """Exclude other processes. A folder is locked, because closing a descriptor of a store would drop its locks."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def draft(file: str) -> str:
    """Where a key file is written before it gets its name. Only one process writes it at a time. It has all keys."""
    return f"{os.path.realpath(file)}.partial"


def _replace(file: str, text: str) -> None:
    """Write the file in one step, and wait until it is on the disk."""
    new = draft(file)
    make_file(new)
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(new, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise
    sync(os.path.dirname(file))


def _require_known(left: str, known: tuple[bytes, ...], file: str) -> None:
    """Check that the draft that a killed process left has no key of a store that the key file lacks.

    Its first key is new and no store has it. The others are missing in the key file if that was lost.
    """
    with suppress(OSError), open_regular(left) as opened:
        lines = opened.read().decode("ascii", "replace").splitlines()
        # The last line may be cut off.
        entries = [line.strip().lower() for line in lines if len(line.strip()) == 2 * LENGTH]
        if set(entries[1:]) - {key.hex() for key in known}:
            raise StoreEncrypted(
                f"A killed process left {left}, with keys that {file} lacks; nothing was changed. Give it the name of "
                "the key file if that was lost; otherwise move it away."
            )


def _parsed(entry: str, place: str) -> bytes:
    try:
        key = bytes.fromhex(entry)
    except ValueError:
        key = b""
    if len(key) != LENGTH:
        # The line is not quoted: it may be most of a key.
        raise StoreEncrypted(f"{place} has a line that is not a key: a key has {2 * LENGTH} hexadecimal digits.")
    return key


@contextmanager
def _key_ring() -> Iterator[ModuleType]:
    """The package for the system's key ring. Its errors become one that says what to do."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise MissingExtra(
            "The setting key_ring is on, but the package keyring is not installed. Run: "
            "pip install 'engram-agents[keyring]'"
        ) from None
    try:
        yield keyring
    except KeyringError as error:
        why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise StoreEncrypted(
            f"The system's key ring cannot be used: {why}. Unlock it, or use a key file (setting key_file)."
        ) from None
