"""A file that one process holds: the one that serves a recall socket, or copies into a store.

The kernel frees the lock when the holder dies, however it dies. A holder that ends normally deletes the file. Another
process may have opened the file just before, and locks it now. It notices that the path does not name this file any
more, and tries again.
"""

from __future__ import annotations

import os

_ATTEMPTS = 3


class Lock:
    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: str) -> Lock | None:
        """The lock, if no other process holds it."""
        import fcntl

        for _ in range(_ATTEMPTS):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return None
            lock = cls(path, descriptor)
            if lock.is_in_place():
                return lock
            os.close(descriptor)
        return None

    def is_in_place(self) -> bool:
        """Whether the file is still there. Another process may serve the socket if it was deleted."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self._path))
        except OSError:
            return False

    def release(self) -> None:
        """Delete the file, then let go of it."""
        if self.is_in_place():
            os.unlink(self._path)
        self.abandon()

    def abandon(self) -> None:
        """Close the file. A forked child shares the lock with its parent, so its parent keeps it."""
        os.close(self._descriptor)
