"""The files of Anthropic's memory tool, kept as blocks. Needs no SDK; `anthropic_memory` is the tool itself.

The file `/memories/notes.txt` is the block `memories/notes.txt`. So every edit is a version that can be shown and
restored, and every other agent of the workspace can read the file as a block. Directories are only parts of names: they
exist as long as there is a file below them. There is no file system behind a path, and still every path that tries to
leave `/memories` is refused, because such a path is a mistake or an attack.

The results and errors are the texts that the documentation of the memory tool specifies, because models were trained on
them. Where it specifies none, an error begins with `Error:` and says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypeGuard
from unicodedata import normalize
from urllib.parse import unquote

from .. import checks
from ..errors import BlockExists, BlockNotFound, Conflict, InvalidInput, NotFound, VersionConflict
from ..redact import redact
from ..safe_text import has_controls
from ..tokens import CHARACTERS_PER_TOKEN
from .given_store import GivenStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..records import Block
    from .given_store import Store

ROOT = "memories"
#: Characters that one view shows. Models are told that longer files are cut, and then ask for a range of lines.
VIEW = 16_000
MAX_LINES = 999_999
#: Lines shown before and after a change.
_CONTEXT = 2
#: Directories whose contents are seldom worth a look.
_NOT_LISTED = "node_modules"
#: A file may be as long as a block can be, so no pass ever cuts one.
_MAX_TOKENS = checks.MAX_TEXT // CHARACTERS_PER_TOKEN
#: Lines that an error names.
_PLACES = 100
#: Characters that an error repeats of what the model sent.
_QUOTED = 200
#: How often an edit is tried again when another writer was faster.
_TRIES = 20


class Refused(Exception):
    """A command that the tool does not carry out. Its text is for the model."""


class MemoryFiles:
    """The commands of the memory tool.

    `store` is an open `Engram`, the path or URL of a store, or None for the user's own store. `actor` is recorded as
    the author of each version.
    """

    def __init__(self, store: Store = None, *, workspace: str | None = None, actor: str = "memory tool") -> None:
        self._actor = checks.new_name(actor, "actor")
        #: The store that holds the files.
        self.store = GivenStore(store, workspace).eng
        self._blocks = self.store.blocks
        self._commands: dict[object, Callable[[Mapping[str, object]], str]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }

    def handle(self, command: Mapping[str, object]) -> str:
        """Carry out a command as the model sent it. Returns the text for the model, which may be that of an error."""
        try:
            return self.run(command)
        except Refused as refused:
            return str(refused)

    def run(self, command: object) -> str:
        """Carry out a command; raises Refused, with the text for the model, if that is not possible."""
        if not isinstance(command, Mapping):
            raise Refused(f"Error: The input must be an object with a `command`, not {type(command).__name__}.")
        name = command.get("command")
        if not isinstance(name, str) or name not in self._commands:
            raise Refused(
                f"Error: Unknown command: {_quoted(name)}. The commands are {', '.join(map(str, self._commands))}."
            )
        try:
            return self._commands[name](command)
        except (InvalidInput, NotFound, Conflict) as error:
            raise Refused(f"Error: {error.message}") from error

    def clear(self) -> str:
        """Delete all files."""
        with self.store.write():
            self._delete_all(self._below(ROOT))
        return "All memory cleared"

    def _view(self, command: Mapping[str, object]) -> str:
        path, name = _path(command, "path")
        block = None if name == ROOT else self._blocks.get(name)
        if block is not None:
            return _show(path, block.content, command.get("view_range"))
        files = self._below(name)
        if not files and name != ROOT:
            raise Refused(f"The path {path} does not exist. Please provide a valid path.")
        return _list(path, name, files)

    def _create(self, command: Mapping[str, object]) -> str:
        path, name = _path(command, "path")
        text = _text(command, "file_text")
        with self.store.write():
            self._lock()
            if self._exists(name):
                raise Refused(f"Error: File {path} already exists")
            self._require_directory(name)
            try:
                self._blocks.create(name, text, _MAX_TOKENS, actor=self._actor)
            except BlockExists:
                raise Refused(f"Error: File {path} already exists") from None
        return f"File created successfully at: {path}"

    def _str_replace(self, command: Mapping[str, object]) -> str:
        path, name = _path(command, "path")
        old, new = _text(command, "old_str"), _text(command, "new_str", default="")
        if not old:
            raise Refused("Error: Parameter `old_str` is empty. Give the text to replace.")

        def replaced(content: str) -> tuple[str, int]:
            # The file has no secret, so a passage that the model remembers with one is found without it.
            sought = old if old in content else redact(old)
            lines = _lines_with(content, sought)
            if not lines:
                raise Refused(
                    f"No replacement was performed, old_str `{_quoted(old)}` did not appear verbatim in {path}."
                )
            if len(lines) > 1:
                raise Refused(
                    f"No replacement was performed. Multiple occurrences of old_str `{_quoted(old)}` in lines: "
                    f"{_places(lines)}. Please ensure it is unique"
                )
            return content.replace(sought, new), lines[0]

        edited = self._edit(name, replaced, "str_replace")
        if edited is None:
            raise Refused(f"Error: The path {path} does not exist. Please provide a valid path.")
        content, line = edited
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _numbered(content.split("\n"), line - _CONTEXT, line + new.count("\n") + _CONTEXT)
        )

    def _insert(self, command: Mapping[str, object]) -> str:
        path, name = _path(command, "path")
        text, line = _text(command, "insert_text"), command.get("insert_line")

        def inserted(content: str) -> tuple[str, int]:
            lines = content.removesuffix("\n").split("\n") if content else []
            if not _is_whole(line) or not 0 <= line <= len(lines):
                raise Refused(
                    f"Error: Invalid `insert_line` parameter: {_quoted(line)}. "
                    f"It should be within the range of lines of the file: [0, {len(lines)}]"
                )
            return "\n".join([*lines[:line], text.removesuffix("\n"), *lines[line:]]) + "\n", line

        if self._edit(name, inserted, "insert") is None:
            raise Refused(f"Error: The path {path} does not exist")
        return f"The file {path} has been edited."

    def _delete(self, command: Mapping[str, object]) -> str:
        path, name = _path(command, "path")
        if name == ROOT:
            raise Refused(f"Error: Cannot delete the /{ROOT} directory itself")
        if not self._delete_below(name):
            raise Refused(f"Error: The path {path} does not exist")
        return f"Successfully deleted {path}"

    def _rename(self, command: Mapping[str, object]) -> str:
        (old_path, old), (new_path, new) = _path(command, "old_path"), _path(command, "new_path")
        if old == ROOT:
            raise Refused(f"Error: Cannot rename the /{ROOT} directory itself")
        with self.store.write():
            self._lock()
            files = self._file_and_below(old)
            if not files:
                raise Refused(f"Error: The path {old_path} does not exist")
            if self._exists(new):
                raise Refused(f"Error: The destination {new_path} already exists")
            if new.startswith(f"{old}/"):
                raise Refused(f"Error: Cannot move {old_path} into itself")
            self._require_directory(new)
            try:
                self._blocks.rename({name: new + name[len(old) :] for name in files}, actor=self._actor)
            except BlockExists:
                raise Refused(f"Error: The destination {new_path} already exists") from None
        return f"Successfully renamed {old_path} to {new_path}"

    def _edit(self, name: str, change: Callable[[str], tuple[str, int]], reason: str) -> tuple[str, int] | None:
        """Write a new version of a file. Returns its content and the line that changed; None if there is no file."""
        for _ in range(_TRIES):
            block = self._blocks.get(name)
            if block is None:
                return None
            content, line = change(block.content)
            with suppress(VersionConflict, BlockNotFound):
                new = self._blocks.update(name, content, reason, actor=self._actor, expected_version=block.version)
                return new.content, line
        raise Refused(f"Error: Others keep changing /{name}. View it again, and then repeat the edit.")

    def _delete_below(self, name: str) -> int:
        """Delete a file, or all files below a directory; how many there were."""
        with self.store.write():
            files = self._file_and_below(name)
            self._delete_all(files)
        return len(files)

    def _delete_all(self, files: Mapping[str, Block]) -> None:
        # In order of name, like every writer of several blocks.
        for each in sorted(files):
            with suppress(BlockNotFound):
                self._blocks.delete(each)

    def _lock(self) -> None:
        """Keep other processes from making files until the transaction ends, so that no path is a file and a directory.

        The lock of all writers of memories will do: it exists, and it comes before those of blocks.
        """
        self.store.memories.by_key(ROOT, ROOT, lock=True)

    def _exists(self, name: str) -> bool:
        return name == ROOT or bool(self._file_and_below(name))

    def _require_directory(self, name: str) -> None:
        """Refuse a name below a file."""
        parts = name.split("/")
        for length in range(2, len(parts)):
            parent = "/".join(parts[:length])
            if self._blocks.get(parent) is not None:
                raise Refused(f"Error: /{parent} is a file, so there can be no /{name}")

    def _file_and_below(self, name: str) -> dict[str, Block]:
        return {block.name: block for block in self._blocks.list() if f"{block.name}/".startswith(f"{name}/")}

    def _below(self, name: str) -> dict[str, Block]:
        return {each: block for each, block in self._file_and_below(name).items() if each != name}


def _path(command: Mapping[str, object], parameter: str) -> tuple[str, str]:
    """A path without its final slash, and the name of its block; Refused unless it is `/memories` or below."""
    given = _text(command, parameter)
    path = given.removesuffix("/") if given != "/" else given
    parts = path.split("/")
    if parts[:2] != ["", ROOT]:
        _refuse_path(given, f"it must begin with /{ROOT}/")
    # The block's name is the path without its first slash.
    if len(path) > checks.MAX_NAME + 1:
        _refuse_path(given, f"it has {len(path):,} characters, and at most {checks.MAX_NAME + 1} fit")
    for form in _forms(path):
        read = form.replace("\\", "/").split("/")
        if len(read) != len(parts) or any(not part.strip(" .") for part in read[1:]) or has_controls(form):
            _refuse_path(given, "it must be a plain path, without `..`, `.`, empty or encoded parts")
    return path, checks.name("/".join(parts[1:]), parameter)


def _forms(path: str) -> set[str]:
    """The path as others might read it: with percent signs decoded, however often, and with look-alike characters."""
    forms = {path}
    while (decoded := unquote(path)) != path:
        path = decoded
        forms.add(path)
    return forms | {normalize("NFKC", form) for form in forms}


def _refuse_path(path: str, why: str) -> NoReturn:
    shown = path if len(path) <= checks.MAX_NAME else path[: checks.MAX_NAME] + "…"
    raise Refused(f"Error: The path {shown} is not valid: {why}.")


def _quoted(value: object) -> str:
    """What the model sent, as far as it needs to know it again."""
    shown = value if isinstance(value, str) else repr(value)
    return shown if len(shown) <= _QUOTED else f"{shown[:_QUOTED]}… ({len(shown):,} characters)"


def _text(command: Mapping[str, object], parameter: str, default: str | None = None) -> str:
    value = command.get(parameter)
    if value is None and default is not None:
        return default
    if value is None:
        raise Refused(f"Error: Parameter `{parameter}` is required for command: {command['command']}")
    if not isinstance(value, str):
        raise Refused(f"Error: Parameter `{parameter}` must be text, not {type(value).__name__}")
    return value


def _show(path: str, content: str, given: object) -> str:
    lines = content.split("\n")
    if len(lines) > MAX_LINES:
        raise Refused(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
    first, last = _range(given, len(lines))
    return f"Here's the content of {path} with line numbers:\n" + _numbered(lines, first, last)


def _range(given: object, count: int) -> tuple[int, int]:
    """The first and the last line to show."""
    if given is None:
        return 1, count
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(map(_is_whole, given)):
        raise Refused(
            f"Error: Invalid `view_range` parameter: {_quoted(given)}. It should be [first line, last line or -1]"
        )
    first, last = max(1, given[0]), count if given[1] == -1 else given[1]
    if not first <= min(last, count):
        raise Refused(
            f"Error: Invalid `view_range` parameter: {_quoted(list(given))}. "
            f"It should be within the range of lines of the file: [1, {count}]"
        )
    return first, last


def _numbered(lines: list[str], first: int, last: int) -> str:
    """Lines with their numbers, as far as they fit into a view."""
    first, last = max(1, first), min(last, len(lines))
    shown, size = [], 0
    for number in range(first, last + 1):
        line = f"{number:>6}\t{lines[number - 1]}"
        size += len(line) + 1
        if size > VIEW and number > first:
            shown.append(f"[Cut after {VIEW:,} characters. View the rest with view_range [{number}, {last}].]")
            break
        shown.append(line[:VIEW])
        if len(line) > VIEW:
            shown.append(f"[Line {number} has {len(lines[number - 1]):,} characters. Only its beginning is shown.]")
    return "\n".join(shown)


def _list(path: str, name: str, files: Mapping[str, Block]) -> str:
    """What is in a directory and in its directories, with sizes."""
    total = 0
    sizes: dict[tuple[str, ...], int] = {}
    for each, block in files.items():
        size = len(block.content.encode())
        total += size
        parts = each[len(name) + 1 :].split("/")
        for depth in (1, 2):
            if depth > len(parts) or parts[depth - 1].startswith(".") or parts[depth - 1] == _NOT_LISTED:
                break
            # A directory's last part is empty, so its path ends with a slash.
            entry = (*parts[:depth], "") if depth < len(parts) else tuple(parts)
            sizes[entry] = sizes.get(entry, 0) + size
    listed = [f"{_size(size)}\t{path}/{'/'.join(entry)}" for entry, size in sorted(sizes.items())]
    header = (
        f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and {_NOT_LISTED}:"
    )
    shown: list[str] = []
    left = VIEW
    for line in listed:
        left -= len(line) + 1
        if left < 0:
            shown.append(
                f"[{len(listed) - len(shown):,} more entries are not shown. View a directory to see what is in it.]"
            )
            break
        shown.append(line)
    return "\n".join([header, f"{_size(total)}\t{path}", *shown])


def _size(size: int) -> str:
    for unit, bytes in (("M", 1_048_576), ("K", 1_024)):
        if size >= bytes:
            return f"{size / bytes:.1f}{unit}"
    return f"{size}B"


def _lines_with(content: str, passage: str) -> list[int]:
    """The lines in which a passage begins, once for each place. Places that overlap count too."""
    lines: list[int] = []
    line, seen, at = 1, 0, content.find(passage)
    while at >= 0:
        line += content.count("\n", seen, at)
        lines.append(line)
        seen, at = at, content.find(passage, at + 1)
    return lines


def _places(lines: list[int]) -> str:
    different = list(dict.fromkeys(lines))
    return ", ".join(map(str, different[:_PLACES])) + (", …" if len(different) > _PLACES else "")


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
