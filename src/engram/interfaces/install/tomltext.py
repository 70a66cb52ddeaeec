"""Edit a TOML file; its comments and its order stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .jsontext import Path


class TomlText:
    """A TOML document that is edited in place, with those methods of `JsonText` that settings in TOML need."""

    def __init__(self, text: str) -> None:
        self._set(text)

    def text(self) -> str:
        return self._text

    def value(self) -> dict[str, Any]:
        return self._document.unwrap()

    def put(self, path: Path, value: object) -> None:
        """Set a value. A new table goes to the end of the file, where it separates no table from its comments."""
        import tomlkit

        outer: Any = self._document
        for key in path[:-1]:
            outer = outer.get(key) if outer is not None else None
        is_new = outer is None or (path[-1] not in outer and not isinstance(outer, tomlkit.items.InlineTable))
        if is_new and isinstance(value, Mapping):
            name = tomlkit.key([str(key) for key in path]).as_string()
            gap = "" if not self._text else "\n" if self._text.endswith("\n") else "\n\n"
            self._set(f"{self._text}{gap}[{name}]\n{tomlkit.dumps(value)}")
        else:
            outer[path[-1]] = value
            self._set(tomlkit.dumps(self._document))

    def remove(self, path: Path) -> None:
        import tomlkit

        outer: Any = self._document
        for key in path[:-1]:
            outer = outer[key]
        del outer[path[-1]]
        rest = tomlkit.dumps(self._document)
        # At the end of the file, the empty line above the table came with it.
        at_the_end = self._text.startswith(rest) and rest.endswith("\n\n")
        self._set(rest[:-1] if at_the_end else rest)

    def _set(self, text: str) -> None:
        import tomlkit

        self._document = tomlkit.parse(text)
        self._text = text
