"""The folders of models that were used as `onnx:FOLDER`.

A workspace stores only a model's name, which has a hash and no path, because other machines have the model elsewhere.
`folders.json` in the user's data folder says where each model is on this machine. It also keeps the hash of each file
with its size and time, because hashing a large model takes a second.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from . import components

_FILE = "folders.json"
#: Where the graph may be, in the order of preference.
GRAPHS = ("model.onnx", os.path.join("onnx", "model.onnx"))
TOKENIZER = "tokenizer.json"


def has_model(folder: str) -> bool:
    return graph_in(folder) is not None and os.path.isfile(os.path.join(folder, TOKENIZER))


def graph_in(folder: str) -> str | None:
    """The path of the folder's graph."""
    return next(filter(os.path.isfile, (os.path.join(folder, name) for name in GRAPHS)), None)


def folder_of(model: str) -> str | None:
    """Where a model is on this machine, as far as is known. It may have been removed since."""
    folder = _read().get("folders", {}).get(model)
    return folder if isinstance(folder, str) else None


def known() -> list[str]:
    """The folders of models that are still there."""
    found = {each for each in _read().get("folders", {}).values() if isinstance(each, str)}
    return sorted(filter(has_model, found))


def known_name(digest: str) -> str | None:
    """The name under which a model with this hash was used before. So a folder can be moved and renamed."""
    names = (name for name in _read().get("folders", {}) if isinstance(name, str))
    return next((name for name in names if name.endswith(f"@{digest}")), None)


def remember(model: str, folder: str) -> None:
    """Note where a model is, if the note can be written at once. Without it, `auto` does not find the model."""
    if folder_of(model) != folder:
        with suppress(OSError):
            _change("folders", model, folder, wait=False)


def require_note(model: str, folder: str) -> None:
    """Note where a model is. EmbedderFailed if the note cannot be written."""
    try:
        if folder_of(model) != folder:
            _change("folders", model, folder, wait=True)
    except OSError as error:
        raise components.unwritable(error) from error


def file_hash(path: str) -> str:
    """The SHA-256 of a file, computed again when its size or time has changed."""
    found = os.stat(path)
    stamp = [found.st_size, found.st_mtime_ns]
    kept = _read().get("hashes", {}).get(path)
    if isinstance(kept, list) and kept[:2] == stamp and len(kept) == 3:
        return str(kept[2])
    import hashlib

    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # A recall must not wait for another process's installation, which may take minutes.
    with suppress(OSError):
        _change("hashes", path, [*stamp, digest], wait=False)
    return digest


def _read() -> dict[str, Any]:
    import json

    try:
        with open(os.path.join(components.root(), _FILE), encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return {}
    valid = isinstance(content, dict) and all(isinstance(part, dict) for part in content.values())
    return content if valid else {}


def _change(part: str, key: str, value: object, *, wait: bool) -> None:
    import json

    from ..private_files import FILE_MODE

    with components.locked(wait=wait) as root:
        content = _read()
        content.setdefault(part, {})[key] = value
        draft = os.path.join(root, f".{_FILE}")
        descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        os.replace(draft, os.path.join(root, _FILE))
