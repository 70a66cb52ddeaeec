"""The files that stored texts name, as the resources that leases have.

A line of a session's log about a tool names the files that the tool wrote, as the harness gives them: mostly as
absolute paths of that machine. A memory may name a path, too. Nothing is looked up on the disk here: a store is read on
other machines. A path that leads through a folder with the project's name counts as a path of the project.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..errors import InvalidInput
from ..llm.extractive.files import paths
from . import resources

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The tools of all harnesses that write files and nothing else. A shell command names other things as well.
EDITING_TOOLS: Final = frozenset(
    {
        *("Write", "Edit", "MultiEdit", "NotebookEdit", "StrReplace", "Delete", "EditNotebook"),
        *("write_file", "replace", "edit", "apply_patch"),
    }
)
_LINE: Final = re.compile(r"(\S{1,60}) (.{1,400}): (?:done|failed)")
_MORE: Final = re.compile(r" and \d{1,4} more$")
#: The end of a text that was cut. A path before it may be cut, too.
_CUT: Final = "…"


def edited(line: str, project: str | None) -> list[str]:
    """The resources of the files that a line of a session's log says were written."""
    match = _LINE.fullmatch(line)
    if match is None or match[1] not in EDITING_TOOLS:
        return []
    return _resources((path for path in _MORE.sub("", match[2]).split(", ") if not path.endswith(_CUT)), project)


def mentioned(text: str, project: str | None) -> list[str]:
    """The resources of the paths in a text. A file's name without a folder may be any file, and is left out."""
    return _resources((path for path in paths(text) if "/" in path), project)


def _resources(names: Iterable[str], project: str | None) -> list[str]:
    return list(dict.fromkeys(found for name in names if (found := _resource(name, project)) is not None))


def _resource(path: str, project: str | None) -> str | None:
    folder = f"/{project.rpartition('/')[2]}/" if project else None
    if folder is not None and path.startswith("/") and folder in path:
        path = path.partition(folder)[2]
    if not path.startswith("/") and project is None:
        return None
    try:
        return resources.elsewhere(resources.escape(path), project)
    except InvalidInput:
        return None
