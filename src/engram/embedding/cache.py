"""A cache of computed files, in a folder that may be emptied at any time.

A file's name ends in the hash of its content, so a damaged or half-written file is never used. If the folder cannot be
read or written, the content is computed again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress

from ..private_files import make_folder

FOLDER_VARIABLE = "ENGRAM_CACHE_DIR"


def folder() -> str:
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return chosen
    import platformdirs

    return platformdirs.user_cache_dir("engram", appauthor=False)


def kept(name: str, make: Callable[[], bytes]) -> bytes:
    """The cached content of this name; if there is none, the result of `make`, which is then cached."""
    content = read(name, folder())
    if content is None:
        content = make()
        with suppress(OSError):
            write(name, content, folder())
    return content


def has(name: str, where: str) -> bool:
    """Whether the folder has a file of this name. Its content is not checked."""
    return bool(_files(name, where))


def read(name: str, where: str) -> bytes | None:
    """The content of this name in a folder. A damaged file is removed."""
    for file in _files(name, where):
        path = os.path.join(where, file)
        with suppress(OSError):
            with open(path, "rb") as opened:
                content = opened.read()
            if file == _file_name(name, content):
                return content
            os.unlink(path)
    return None


def write(name: str, content: bytes, where: str) -> None:
    """Keep the content in a folder, which is made if need be."""
    make_folder(where)
    # Imported here: it is slow to import, and a hook only reads.
    import tempfile

    handle, draft = tempfile.mkstemp(prefix=f".{name}-", dir=where)
    try:
        os.chmod(draft, 0o600)
        with open(handle, "wb") as opened:
            opened.write(content)
        os.replace(draft, os.path.join(where, _file_name(name, content)))
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _file_name(name: str, content: bytes) -> str:
    return f"{name}-{hashlib.sha256(content).hexdigest()}"


def _files(name: str, where: str) -> list[str]:
    try:
        return [file for file in sorted(os.listdir(where)) if file.startswith(f"{name}-")]
    except OSError:
        return []
