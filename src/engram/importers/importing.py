"""Runs an import: finds the sources, reads them one after the other, and writes what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import checks
from ..errors import NothingToImport, NotRemote
from ..import_records import TranscriptFiles
from . import formats, times
from .asked import Asked
from .items import BlockItem, EndItem, GistItem, LockItem, MemoryItem, Options, SessionItem, Skipped, Turn
from .memory_writing import ELSEWHERE, MemoryWriter
from .session_writing import SessionWriter
from .tally import Tally

if TYPE_CHECKING:
    from ..client import Engram
    from ..import_records import ImportReport
    from .files import Source
    from .items import Item
    from .known_files import KnownFiles

#: Items between two calls that report progress.
_STEP = 50


def run(
    format: str,
    paths: Sequence[Path | str],
    eng: Engram,
    *,
    project: str | None = None,
    since: str | None = None,
    timezone: str | None = None,
    dry_run: bool = False,
    again: bool = False,
    vectors_of: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    unread: bool = False,
    stop: Callable[[], bool] | None = None,
) -> ImportReport:
    """Import files of a format, or folders of them, into the workspace. Without paths, from where the system has them.

    Everything is looked at before anything is written: a file of another format raises NotOfFormat. What cannot be read
    is left out, and the report says how much and why. `since` leaves out sessions whose last turn is earlier. With
    `dry_run` nothing is written. With `again` also what was forgotten here is imported. `vectors_of` names the model of
    the vectors in the source; they are used if it is the workspace's. `progress` is called with the bytes that were
    read and all bytes.

    With `unread` the newest files come first, and files that such an import has read before and that have not changed
    since are passed over. `stop` is asked before each file; if it is true, the report counts the files that are left.
    """
    from .known_files import KnownFiles

    checks.optional_new_name(project, "project")
    earliest = None if since is None else checks.moment(since, "since")
    times.zone(timezone)
    found = formats.get(format)
    sources = _sources(found, paths)
    if vectors_of is not None:
        eng.imports.check_model(vectors_of)
    tally = Tally(format)
    asked = Asked(format, project, earliest, again, dry_run, vectors_of)
    sessions, memories = SessionWriter(eng, asked, tally), MemoryWriter(eng, asked, tally)
    known = KnownFiles(eng, format, tally)
    if unread:
        sources = _newest_first(_unknown(sources, known, tally))
    total, done = sum(source.size for source in sources), 0
    for place, source in enumerate(sources):
        if stop is not None and stop():
            tally.add("files_left", len(sources) - place)
            break
        tally.where = source.name
        before, left = known.state(source), known.left_for_now()
        items = found.read(source, Options(project, timezone))
        for number in write_items(items, sessions, memories, tally):
            if progress is not None and number % _STEP == 0:
                progress(done + min(source.position, source.size), total)
        if unread and not dry_run and earliest is None and known.left_for_now() == left:
            known.note(source, before)
        done += source.size
        if progress is not None:
            progress(done, total)
    report = tally.report()
    if tally.left_out(ELSEWHERE) and not (report.sessions or report.unchanged or report.continued):
        raise NotRemote(f"What these files hold {ELSEWHERE}.")
    return report


def look(format: str, paths: Sequence[Path | str], eng: Engram) -> TranscriptFiles:
    """What an import of these paths with `unread` would read. Opens the files, but reads none of them to its end."""
    from .conversations import modified
    from .known_files import KnownFiles

    try:
        sources = _sources(formats.get(format), paths)
    except NothingToImport:
        return TranscriptFiles()
    known = KnownFiles(eng, format, Tally(format))
    new = [source for source in sources if not known.has(source)]
    latest = max((modified(source) or "" for source in sources), default="")
    # In the form of the store's times.
    latest_at = latest.replace("+00:00", ".000000Z") or None
    return TranscriptFiles(len(sources), len(new), sum(source.size for source in new), latest_at)


def write_items(items: Iterable[Item], sessions: SessionWriter, memories: MemoryWriter, tally: Tally) -> Iterator[int]:
    """Write the items of one source; how many were written, after each."""
    tally.add("files")
    for number, item in enumerate(_guarded(items, tally), 1):
        _write(item, sessions, memories, tally)
        yield number
    sessions.end_all()
    memories.finish()


def _sources(found: formats.Format, paths: Sequence[Path | str]) -> list[Source]:
    """The sources at the paths, each once; NothingToImport if there are none."""
    given = [Path(path).expanduser() for path in paths]
    if not given:
        given = [path for place in found.places for path in _expanded(place)]
        if not given:
            where = f"There is nothing in {' or '.join(found.places)}. " if found.places else ""
            raise NothingToImport(f"{where}Name a file or a folder with {found.title}.")
    sources: dict[tuple[Path, str | None], Source] = {}
    for path in given:
        if not path.exists():
            raise NothingToImport(f"There is no file or folder {path}.")
        for source in found.find(path):
            sources.setdefault((source.path.resolve(), source.member), source)
    if not sources:
        raise NothingToImport(f"There is nothing to import in {', '.join(map(str, given))}: no {_bare(found.title)}.")
    return list(sources.values())


def _unknown(sources: list[Source], known: KnownFiles, tally: Tally) -> list[Source]:
    """The sources that were not read before as they are now."""
    found = [source for source in sources if not known.has(source)]
    tally.add("files_known", len(sources) - len(found))
    return found


def _newest_first(sources: list[Source]) -> list[Source]:
    """The sources by the time of their last change, the latest first.

    A subagent's file is in a folder that is called like its session's file. It comes after that file.
    """
    from .conversations import modified

    times = {source.path.with_suffix(""): modified(source) or "" for source in sources}

    def newest(source: Source) -> tuple[str, bool]:
        above = next((folder for folder in source.path.parents if folder in times), None)
        at = modified(source) or ""
        return (at, True) if above is None else (times[above], False)

    return sorted(sources, key=newest, reverse=True)


def _bare(title: str) -> str:
    return title.removeprefix("the ")


def _expanded(place: str) -> list[Path]:
    """The paths that a place such as `~/.x/*/y` names, if they exist."""
    path = Path(place).expanduser()
    if "*" not in place:
        return [path] if path.exists() else []
    root = Path(path.anchor)
    return sorted(root.glob(str(path.relative_to(root))))


def _guarded(items: Iterable[Item], tally: Tally) -> Iterator[Item]:
    """The items of a source, up to a failure to read it. The other sources are imported all the same."""
    try:
        yield from items
    except OSError as error:
        tally.leave_out(f"cannot be read: {error.strerror or error}", "the rest of the file")


def _write(item: Item, sessions: SessionWriter, memories: MemoryWriter, tally: Tally) -> None:
    match item:
        case Turn():
            sessions.add(item)
        case SessionItem():
            sessions.begin(item)
        case EndItem():
            sessions.end(item.session)
        case GistItem():
            sessions.gist(item)
        case LockItem():
            sessions.lock(item)
        case MemoryItem():
            memories.add(item)
        case BlockItem():
            memories.add_block(item)
        case Skipped():
            tally.leave_out(item.why, item.where)
