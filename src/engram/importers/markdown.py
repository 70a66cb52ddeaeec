"""Reads notes in Markdown: a folder of them, or single files; also the files with instructions for agents.

Each section below a heading is one memory. It begins with the headings that lead to it, so that it can be understood
alone. Its id is made of the path of the file and of the headings, so a section that was edited replaces its earlier
version, and one that moved within its file stays the same.

Instructions (`CLAUDE.md`, `AGENTS.md`, rules of editors) are preferences: they say how agents shall work. They have the
trust of an import, because a repository brings them along.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EngramError, NothingToImport, NotOfFormat
from ..redact import redact
from . import exports, files, front_matter
from .files import Source
from .formats import Format
from .items import MemoryItem, Skipped
from .json_values import digest, short_id
from .sections import Section, pieces, sections
from .texts import short_line
from .times import moment, zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .items import Item, Options

#: A longer file is no note.
LONGEST_NOTE = 8 * 1024 * 1024
_ENDINGS = (".md", ".markdown", ".mdc")
#: Files with instructions for agents, in lower case.
_INSTRUCTIONS = frozenset(
    {
        *("claude.md", "claude.local.md", "agents.md", "agent.md", "gemini.md", "copilot-instructions.md"),
        *(".cursorrules", ".windsurfrules", ".clinerules"),
    }
)
#: Folders with what programs keep or download.
_PASSED_OVER = frozenset({"node_modules", "bower_components", "site-packages", "__pycache__", "venv"})
#: What is read in hidden folders, as the beginnings of paths. The rest there are prompts, plugins and state.
_HIDDEN = {
    ".cursor": ("rules/",),
    ".claude": ("CLAUDE.md", "rules/", "projects/"),
    ".github": ("copilot-instructions.md", "instructions/"),
    ".windsurf": ("rules/",),
    ".clinerules": ("",),
}
#: Claude Code keeps its own notes about a project in this folder; beside it are transcripts.
_NOTES_OF_CLAUDE = "memory"
#: Kinds that a note may have. A pass writes the other kinds.
_KINDS = frozenset({"fact", "preference", "decision", "lesson", "note", "todo"})
_RESERVED = frozenset({"gist", "era", "digest"})
_MOST_TAGS = 40
#: A tag in a text: `#project/engram`, not `#12`. One in code is none.
_TAG = re.compile(r"(?<![^\s(,;])#([\w/-]{1,60})(?![\w/#-])")
_CODE = re.compile(r"`[^`\n]{1,500}`")
_DAY = re.compile(r"([12][0-9]{3})[-/.]?([01][0-9])[-/.]?([0-3][0-9])(?![0-9])(.{0,40})")
#: The latest date says best when the note held.
_DATES = ("updated", "modified", "last_modified", "lastmod", "date", "created", "created_at")


class _NoteSource(Source):
    """A note, with its place below the repository, the vault or the given folder, and the id of its file."""

    def __init__(self, path: Path, base: Path | None = None) -> None:
        super().__init__(path)
        root = _root(path) or base or path.parent
        self.place = Path(root.name, path.relative_to(root)).as_posix()
        # Folders of one name exist many times on a machine, and so do repositories. So the whole path counts: a file
        # with a copy of another repository's name or address must not replace that one's memories.
        self.id = f"{path.parent.name}/{path.name}@{digest(str(path.parent.resolve()))}"

    @property
    def name(self) -> str:
        return self.place


def find(path: Path) -> list[Source]:
    path = Path(os.path.abspath(path))
    if path.is_dir():
        found: list[Source] = [_NoteSource(file, path) for file in _notes(path)]
        if not found:
            raise NothingToImport(f"There are no notes in Markdown (*.md) in {path}.")
        return [source for source in found if not _is_history(source)]
    source = _NoteSource(path)
    if _is_history(source) or not _is_note(path.name) or _is_binary(source):
        what = exports.hint(source)
        raise NotOfFormat(f"{path} {what}." if what else f"{path} is not a note in Markdown (*.md).")
    return [source]


def _notes(folder: Path) -> Iterator[Path]:
    """The notes in a folder and its subfolders. Links are not followed: they may lead out of it."""
    first = (folder.name,) if folder.name in _HIDDEN else ()
    for at, folders, names in os.walk(folder):
        inside = first + Path(at).relative_to(folder).parts
        folders[:] = sorted(name for name in folders if _is_entered((*inside, name)))
        for name in sorted(names):
            file = Path(at, name)
            if _is_note(name) and _is_read((*inside, name)) and not file.is_symlink() and file.is_file():
                yield file


def _is_note(name: str) -> bool:
    return name.endswith(_ENDINGS) or name.lower() in _INSTRUCTIONS


def _is_entered(parts: tuple[str, ...]) -> bool:
    name = parts[-1]
    return name not in _PASSED_OVER and (not name.startswith(".") or name in _HIDDEN)


def _is_read(parts: tuple[str, ...]) -> bool:
    """Whether a file with this path is read: outside of hidden folders, or one of those that are wanted there."""
    hidden = [place for place, name in enumerate(parts[:-1]) if name.startswith(".")]
    if not hidden:
        return True
    below = parts[hidden[-1] + 1 :]
    if parts[hidden[-1]] == ".claude" and below[0] == "projects":
        return _NOTES_OF_CLAUDE in below[:-1]
    return "/".join(below).startswith(_HIDDEN.get(parts[hidden[-1]], ()))


def _root(path: Path) -> Path | None:
    """The repository or the vault that a file is in. Its memories are known by their place there."""
    for folder in path.parents:
        if folder.name and ((folder / ".git").exists() or (folder / ".obsidian").is_dir()):
            return folder
    return None


def _is_binary(source: Source) -> bool:
    try:
        return b"\0" in source.head()
    except EngramError:
        return False


def _is_history(source: Source) -> bool:
    try:
        return b"Generated by SpecStory" in source.head(4096)
    except EngramError:
        return False


def read(source: Source, options: Options) -> Iterator[Item]:
    return exports.guarded(source, _read(source, options))


def _read(source: Source, options: Options) -> Iterator[Item]:
    if source.size > LONGEST_NOTE:
        yield Skipped(source.name, f"longer than {LONGEST_NOTE // 1024 // 1024} MiB")
        return
    data = files.whole(source) or b""
    if b"\0" in data:
        yield Skipped(source.name, "not a text")
        return
    try:
        document = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        yield Skipped(source.name, "not valid UTF-8")
        return
    # A reader is given the sources that `find` made; a plain one is a single file.
    note = source if isinstance(source, _NoteSource) else _NoteSource(Path(os.path.abspath(source.path)))
    # Half of a secret is not recognised any more, so secrets are removed before the note is cut into sections.
    yield from _memories(redact(document.replace("\r\n", "\n")), note, options)


def _memories(document: str, source: _NoteSource, options: Options) -> Iterator[Item]:
    path = source.path
    note = front_matter.parsed(document)
    rules = _is_instructions(path)
    title = note.text("title") or (path.name if rules else path.stem)
    kind, tags = _kind(note, rules)
    at = _written(note, path, options)
    project = short_line(note.text("project"), 160) or options.project
    data = {"path": short_line(source.place, 500)}
    counts: dict[str, int] = {}
    for section in sections(note.body):
        own = [*tags, *([] if rules else _tags_in(section.text))]
        # The title is not part of the id, so that a new title does not make new memories.
        key = " > ".join(section.path)
        for part in pieces(section.text):
            counts[key] = counts.get(key, 0) + 1
            yield MemoryItem(
                short_id(f"{source.id}#{key}#{counts[key]}", 180),
                f"{_trail(section, short_line(title, 160))}\n\n{part}",
                kind,
                list(dict.fromkeys(own))[:_MOST_TAGS],
                at=at,
                project=project,
                data=data,
            )


def _is_instructions(path: Path) -> bool:
    name = path.name.lower()
    return (
        name in _INSTRUCTIONS
        or name.endswith((".mdc", ".instructions.md"))
        or path.parent.name == ".clinerules"
        or any(pair in ((".cursor", "rules"), (".claude", "rules"), (".windsurf", "rules")) for pair in _pairs(path))
    )


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    return zip(path.parts, path.parts[1:], strict=False)


def _trail(section: Section, title: str) -> str:
    """The headings that lead to a section. A note without a main heading has its title there."""
    path = [short_line(heading, 160) for heading in section.path]
    if not section.headings or section.headings[0][0] > 1:
        path = [title, *path] if path[:1] != [title] else path
    return " > ".join(path)


def _kind(note: front_matter.Note, rules: bool) -> tuple[str, list[str]]:
    """The kind that a note says it has, and its tags. What it calls its type is often no kind, and a tag then."""
    given = (word for each in note.texts("tags", "tag") for word in each.split())
    tags = [tag for word in given if (tag := _tag(word))]
    kind, type = note.text("kind").strip().lower(), note.text("type").strip().lower()
    if not kind and type in _KINDS:
        kind = type
    elif type and type != kind and (tag := _tag(type)):
        tags.append(tag)
    kind = short_line(kind, 60)
    return kind if kind and kind not in _RESERVED else "preference" if rules else "note", tags


def _tag(tag: str) -> str:
    tag = tag.strip().lstrip("#").strip("/")
    return tag if tag and len(tag) <= 60 and all(sign.isalnum() or sign in "_-/.:+" for sign in tag) else ""


def _tags_in(said: str) -> list[str]:
    """The tags in the text of a note. Numbers of issues and what is in code are none."""
    found = []
    is_code = False
    for line in said.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        elif not is_code and "#" in line:
            found += [tag for tag in _TAG.findall(_CODE.sub("", line)) if any(sign.isalpha() for sign in tag)]
    return [tag for each in found if (tag := _tag(each))]


def _written(note: front_matter.Note, path: Path, options: Options) -> str | None:
    """When the note was written: by its front matter, else its name, else its file."""
    for given in (*(note.text(name) for name in _DATES), path.stem):
        if (found := _DAY.match(given.strip())) and (at := _moment(found, options)):
            return at
    try:
        return moment(path.stat().st_mtime)
    except OSError:
        return None


def _moment(found: re.Match[str], options: Options) -> str | None:
    day = f"{found[1]}-{found[2]}-{found[3]}"
    naive = zone(options.timezone)
    return moment(f"{day}{found[4].rstrip()}", naive) or moment(day, naive)


FORMAT = Format("markdown", "notes in Markdown, and instructions for agents", find, read)
