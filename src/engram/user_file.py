"""Changes values in the user's `config.toml`. Everything else in the file stays as it is, comments included."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress

from . import config
from .errors import SettingsUnusable
from .private_files import FILE_MODE, make_folder


def store(values: Mapping[str, str]) -> str:
    """Set these values; the path of the file. It is replaced in one step."""
    path = os.path.join(config.config_dir(), config.USER_FILE)
    # Some people keep their settings in a repository and link to them. The link stays.
    real = os.path.realpath(path)
    try:
        before, mode = _read(real)
        after = _changed(before, values)
        make_folder(os.path.dirname(real))
        _replace(real, after, mode)
    except OSError as error:
        raise SettingsUnusable(f"{path} cannot be written: {error.strerror}.") from None
    except ValueError as error:
        raise SettingsUnusable(f"{path} cannot be read as TOML: {error}.") from None
    return path


def _read(path: str) -> tuple[str, int]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read(), os.fstat(file.fileno()).st_mode & 0o777
    except FileNotFoundError:
        return "", FILE_MODE


def _changed(text: str, values: Mapping[str, str]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        new = [name for name in values if name not in document]
        for name in values.keys() - set(new):
            document[name] = values[name]
        kept = tomlkit.dumps(document)
    except TOMLKitError as error:
        raise ValueError(str(error)) from None
    if not new:
        return kept
    # At the top: after a table's heading, a value belongs to the table.
    lines = "".join(f"{name} = {tomlkit.item(values[name]).as_string()}\n" for name in new)
    return f"{lines}{kept}"


def _replace(path: str, text: str, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=".config-", dir=os.path.dirname(path))
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
