"""The changes that set up a harness, or remove Engram from it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...errors import EngramError, InvalidInput, NotFound, SettingsConflict, SettingsUnusable
from ...safe_text import one_line
from . import claude_code, codex, cursor, gemini, merging
from .commands import Commands
from .files import Change, is_tracked, read
from .harness import Files, Harness
from .jsontext import JsonText
from .tomltext import TomlText

HARNESSES = {each.HARNESS.name: each.HARNESS for each in (claude_code, codex, gemini, cursor)}
ALL = "all"


class Location(NamedTuple):
    """Where the settings are: the user's, or one project's."""

    project: Path | None = None

    def files(self, harness: Harness) -> Files:
        return harness.user_files() if self.project is None else harness.project_files(self.project)


def project_root(folder: str) -> Path:
    """The folder whose settings a harness that is started here reads: the repository's, if it is in one."""
    here = Path(folder).absolute()
    return next((each for each in (here, *here.parents) if (each / ".git").exists()), here)


def chosen(names: Iterable[str], *, found_only: bool) -> list[Harness]:
    """The harnesses that were named; for `all`, those that are on this machine, or every one."""
    wanted = list(dict.fromkeys(names))
    if ALL not in wanted:
        if not wanted:
            raise InvalidInput(f"Name a harness: {', '.join(HARNESSES)}, or {ALL}.")
        return [HARNESSES[name] for name in wanted]
    every = [each for each in HARNESSES.values() if not found_only or is_found(each) or each.name in wanted]
    if not every:
        raise NotFound(f"No harness was found. Name one to set it up anyway: {', '.join(HARNESSES)}.")
    return every


def is_found(harness: Harness) -> bool:
    """Whether the harness is on this machine: its program or its settings."""
    return any(map(shutil.which, harness.programs)) or any(trace.exists() for trace in harness.traces())


def install(harness: Harness, location: Location, commands: Commands) -> list[Change]:
    """The changes that set up a harness; none if it is set up.

    Without options, the options stay that most entries have.
    """
    carried = options(harness, location)
    return _changes(harness, location, commands._replace(options=commands.options or carried), carried)


def uninstall(harness: Harness, location: Location) -> list[Change]:
    """The changes that remove Engram, including entries of older installations."""
    return _changes(harness, location, None)


def state(harness: Harness, location: Location, commands: Commands) -> str:
    """`ready`; `outdated` if something of Engram's is there, but not all of it or not of this one; `absent`; or
    `unusable: FILE`, if that file cannot be read or has something else where Engram's entries belong.

    Entries with a workspace or a store count too, if most of them have the same one.
    """
    files = location.files(harness)
    carried = options(harness, location)
    commands = commands._replace(options=commands.options or carried)
    is_ready, is_there = True, False
    for path in dict.fromkeys(files):
        try:
            if _change(path, files, harness, commands, carried) is None:
                # Nothing to add, so its part of Engram is in it.
                is_there = True
            else:
                is_ready = False
                is_there |= merging.has_entries(_opened(path, read(path) or "", harness), harness)
        except (SettingsUnusable, SettingsConflict):
            return f"unusable: {path}"
    return "ready" if is_ready else "outdated" if is_there else "absent"


def options(harness: Harness, location: Location) -> merging.Options:
    """The workspace and store options that most of Engram's entries have; empty if there are none."""
    found: list[merging.Options] = []
    for path in dict.fromkeys(location.files(harness)):
        with suppress(SettingsUnusable, RecursionError):
            found += merging.options(_opened(path, read(path) or "", harness), harness)
    # Of two that are as frequent, the shorter one: a person has added the other by hand.
    return max(sorted(set(found), key=len), key=found.count, default=())


def edited(harness: Harness, location: Location) -> list[str]:
    """The events whose entries a person has changed. They keep working as they are."""
    path, carried = location.files(harness).hooks, options(harness, location)
    with suppress(SettingsUnusable, RecursionError):
        return list(dict.fromkeys(merging.edited(_opened(path, read(path) or "", harness), harness, carried)))
    return []


def wrapped(harness: Harness, location: Location) -> list[str]:
    """The events with a command that a person put around the hook. Removing Engram leaves them."""
    path = location.files(harness).hooks
    with suppress(SettingsUnusable, RecursionError):
        return list(dict.fromkeys(merging.wrapped(_opened(path, read(path) or "", harness), harness)))
    return []


def _changes(
    harness: Harness, location: Location, commands: Commands | None, carried: merging.Options = ()
) -> list[Change]:
    """The changes to both files: with commands Engram is added, without them it is removed."""
    files = location.files(harness)
    changes = [_change(path, files, harness, commands, carried) for path in dict.fromkeys(files)]
    return [change for change in changes if change is not None]


def _change(
    path: Path, files: Files, harness: Harness, commands: Commands | None, carried: merging.Options
) -> Change | None:
    before = read(path)
    if before is None and commands is None:
        return None
    try:
        document = _opened(path, before or "", harness)
        unchanged = document.text()
        _edit(document, path, files, harness, commands, carried)
        after: str | None = document.text()
        if after == unchanged:
            return None
        if commands is None and _is_bare(document, harness, path) and not is_tracked(path):
            after = None
    except RecursionError as error:
        raise SettingsUnusable(f"{path} was left as it is: it is nested too deeply.") from error
    except EngramError as error:
        raise type(error)(f"{path} was left as it is: {error}") from error
    return Change(path, before, after)


def _edit(
    document: JsonText | TomlText,
    path: Path,
    files: Files,
    harness: Harness,
    commands: Commands | None,
    carried: merging.Options,
) -> None:
    if path == files.hooks:
        assert isinstance(document, JsonText)
        if commands:
            merging.add_hooks(document, harness, commands, carried)
        else:
            merging.remove_hooks(document, harness)
    if path == files.servers:
        if commands:
            merging.add_server(document, harness, commands)
        else:
            merging.remove_server(document, harness)


def _opened(path: Path, text: str, harness: Harness) -> JsonText | TomlText:
    try:
        return TomlText(text) if path.suffix == ".toml" else JsonText(text, comments=harness.comments)
    except RecursionError:
        raise
    except Exception as error:  # tomlkit raises more than ValueError
        raise SettingsUnusable(f"it cannot be parsed ({one_line(str(error), 200)}).") from error


def _is_bare(document: JsonText | TomlText, harness: Harness, path: Path) -> bool:
    """Whether only what Engram puts into a new file is left. A link is never removed."""
    left = document.value()
    bare = not left or left == dict(harness.skeleton)
    has_comments = "//" in document.text() or "/*" in document.text() or "#" in document.text()
    return bare and not has_comments and not os.path.islink(path)
