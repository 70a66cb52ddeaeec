"""Which file systems SQLite cannot lock safely."""

from __future__ import annotations

import os

#: File systems whose locks do not reliably reach other machines. SQLite databases get corrupted on them.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("9p", "afs", "afpfs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("ocfs2", "orangefs", "smb2", "smb3", "smbfs"),
        *("fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)


def network_file_system(folder: str, mounts: str = "/proc/self/mountinfo") -> str | None:
    """The type of the folder's network file system; None if the file system is local or unknown."""
    try:
        device = os.stat(folder).st_dev
        # A local disk has a major number. Only file systems without one are checked.
        if os.major(device) != 0:
            return None
        with open(mounts, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                before, _, after = line.partition(" - ")
                if before.split()[2] == f"0:{os.minor(device)}":
                    kind = after.split()[0]
                    return kind if kind in NETWORK_FILE_SYSTEMS else None
    except (OSError, IndexError):
        return None
    return None
