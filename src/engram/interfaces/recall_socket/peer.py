"""Which user is at the other end of a Unix socket, according to the kernel.

A process cannot forge this. Root is not special: only the same user id is accepted. On a platform where Python cannot
ask the kernel, there is no recall socket.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _socket import socket

#: `struct ucred` on Linux: pid, uid and gid, of 4 bytes each.
_LINUX_LEVEL, _LINUX_OPTION, _LINUX_SIZE = 1, 17, 12
#: `struct xucred` on macOS: its version and the uid, of 4 bytes each, then groups.
_MAC_LEVEL, _MAC_OPTION, _MAC_SIZE = 0, 1, 76

SUPPORTED = sys.platform in ("linux", "darwin")


def is_same_user(connection: socket) -> bool:
    """Whether the process at the other end has this process's user id."""
    return _uid(connection) == os.geteuid()


def _uid(connection: socket) -> int | None:
    """The other end's user id; None if the kernel does not say."""
    try:
        if sys.platform == "linux":
            found = connection.getsockopt(_LINUX_LEVEL, _LINUX_OPTION, _LINUX_SIZE)
        elif sys.platform == "darwin":
            found = connection.getsockopt(_MAC_LEVEL, _MAC_OPTION, _MAC_SIZE)
        else:
            return None
    except OSError:
        return None
    # In both structures the user id is the second number. A process without an owner in this container has -1.
    uid = int.from_bytes(found[4:8], sys.byteorder) if len(found) >= 8 else None
    return None if uid == 0xFFFFFFFF else uid
