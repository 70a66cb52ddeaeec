r"""Resources: the strings that leases are about, in the one form in which they are stored and compared.

A hook reports `/home/ann/engram/src/router.py`, a person types `src/router.py`, and both must mean one lease.
`normalise` is the only place that decides what a string means; `overlap` compares its results without reading
files, since a claim is compared with every live lease.

What is stored:

    acme/engram:src/router.py    a path inside a project, from its root; `.` is the root itself
    /etc/hosts                   a path outside every project, symlinks resolved
    acme/engram:docs/**/*.md     a pattern with gitignore's meaning; `\` makes a `*`, `?`, `[` or `\` literal
    port:8080                    a name within a scheme, handled like a path within a project
    https://example.org/a        a URL, as it was given
    deploy                       a plain name, as it was given

Where a string could mean two things:

- What exists wins: `app/[id]/page.tsx` is a file if there is one, a pattern otherwise, and `deploy` is a path
  where a file of that name lies. So what a bare name means depends on the folder; every other stored form means
  the same wherever it is given again. Whoever knows that a string is a file's name calls `escape` first.
- `src/a:b.txt` reads as path `b.txt` of project `src/a`, unless that file exists; `a:b.txt` always reads as
  qualified. `./a:b.txt` is a path for certain.
- A claim covers everything below it, as in gitignore. By the letter of that, `*.md` would meet `src/router.py`
  in `src/router.py/x.md`, and every pattern that begins with `**` would lock the whole project. So what ends
  like a file, in an extension, has nothing below it unless the other claim goes on below that very name.
- A project inside another one (a submodule) has its own resources: a claim on the outer project does not cover
  it, as a claim on an absolute path does not cover the projects below it.
- Classes such as `[[:alpha:]]` are not known, and a class does not reach across a `/`.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from engram.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_LENGTH = 4096
#: Comparing two patterns takes up to the product of their segments, each a search: far above any real path's depth.
MAX_SLASHES = 256

#: The characters one place of a name may hold: that character, or the ranges of a class.
Chars: TypeAlias = "str | tuple[tuple[int, int], ...]"
#: One segment of a path: literally, or as a pattern whose `None` is a `*`.
Name: TypeAlias = "str | tuple[Chars | None, ...]"

_Item = TypeVar("_Item")


class Project(NamedTuple):
    """What the paths of a folder tree are counted from."""

    #: The git remote's slug, so that all clones share their leases; without one, the root folder's name.
    name: str
    #: Absolute, with symlinks resolved.
    root: str


def find_project(folder: str) -> Project | None:
    """The nearest folder, from `folder` upwards, that has a `.git` or an `.engram.toml`."""
    return _project_above(_real(_absolute(folder)))


def project_name(folder: str | None = None) -> str:
    """What a session started in `folder` (by default, here) belongs to; empty only for a bare `/`."""
    real = _real(_absolute(folder))
    project = _project_above(real)
    return project.name if project else _label(os.path.basename(real))


def normalise(resource: str, folder: str | None = None) -> str:
    """The form in which a resource is stored and compared; a relative path counts from `folder`, or from here.

    Raises InvalidInput for what can be no resource: empty, with a NUL, not valid Unicode, or too long.
    """
    text = _stripped(_checked(resource))
    if _is_qualified(text, folder):
        return _checked(_clean(text))
    if _is_path(text, folder):
        return _checked(_located(text, _absolute(folder)))
    return text


def overlap(a: str, b: str) -> bool:
    """Whether two resources, as stored, can concern the same thing: whether some path matches both."""
    if a == b:
        return True
    scope_a, path_a = _scope(a)
    scope_b, path_b = _scope(b)
    if scope_a != scope_b or not scope_a:
        return False
    if not (_has_magic(path_a) or _has_magic(path_b)):
        return not (path_a and path_b) or path_a.startswith(path_b + "/") or path_b.startswith(path_a + "/")
    first, second = _compiled(path_a), _compiled(path_b)
    return first is not None and second is not None and _paths_meet(first, second)


def escape(path: str) -> str:
    """The pattern that matches just this path, for callers that know they have a file's name, such as a hook."""
    return _with_tail(_escaped(path))


def _checked(text: str) -> str:
    """Refuse what nobody can mean or store; results pass here as well, so that they can be given again."""
    if not text or text.isspace():
        problem = "is empty"
    elif len(text) > MAX_LENGTH:
        problem = f"is longer than {MAX_LENGTH} characters"
    elif text.count("/") > MAX_SLASHES:
        problem = f"has more than {MAX_SLASHES} slashes"
    elif "\0" in text:
        problem = "contains a NUL character"
    elif not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        problem = "is not valid Unicode"
    else:
        return text
    shown = repr(text) if len(text) <= 60 else repr(text[:60]) + "…"
    raise InvalidInput(f"resource {shown} {problem}")


def _stripped(text: str) -> str:
    r"""Without surrounding whitespace; like git, keep a last blank that a `\` protects."""
    bare = text.rstrip()
    if len(bare) != len(text) and _ends_in_escape(bare):
        bare = text[: len(bare) + 1]
    return bare.lstrip()


def _with_tail(path: str) -> str:
    """Protect a name's own last blank, which would be stripped when the stored form is given again."""
    if path[-1:].isspace() and not _ends_in_escape(path[:-1]):
        return f"{path[:-1]}\\{path[-1]}"
    return path


def _ends_in_escape(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _is_qualified(text: str, folder: str | None) -> bool:
    """Whether text reads `<project>:<path>` or `<scheme>:<name>`; a project may be `owner/repo`, with a slash."""
    head, colon, _ = text.partition(":")
    if not colon or not head or text.startswith(("/", "./", "../", "~")):
        return False
    owner, slash, repo = head.partition("/")
    if not slash:
        return True
    if not owner or "/" in repo or repo in ("", ".", ".."):
        return False
    return not os.path.lexists(os.path.join(_absolute(folder), text))


def _clean(text: str) -> str:
    """Tidy a qualified path by its letters alone: the project need not be on this machine."""
    head, _, rest = text.partition(":")
    if rest.startswith("//"):
        return text
    kept: list[str] = []
    for raw in rest.split("/"):
        segment = _canonical(raw)
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return f"{head}:{_with_tail('/'.join(kept)) or '.'}"


def _is_path(text: str, folder: str | None) -> bool:
    """Whether an unqualified string is about files; `dream` or `staging database` is not, unless it exists."""
    return (
        text[0] in "/~."
        or "/" in text
        or "*" in text
        or "?" in text
        or "[" in text
        or _has_extension(text)
        or os.path.lexists(os.path.join(_absolute(folder), text))
    )


def _has_extension(name: str) -> bool:
    """`README.md` and `*.[ch]`, but not `v1.2`, `.github` or `e.g. this`."""
    stem, _, extension = name.rpartition(".")
    begins = extension[:1].isalpha() or extension[:1] in ("*", "?", "[")
    return bool(stem) and begins and not any(map(str.isspace, extension))


def _located(text: str, base: str) -> str:
    """Store a path under the project that holds it, or as absolute when none does."""
    if text[0] == "~":
        text = os.path.expanduser(text)
    if _has_magic(text):
        real, pattern = _anchored(text, base)
    else:
        real, pattern = _real(os.path.join(base, text)), []
    project = _project_above(real)
    prefix, root = (f"{project.name}:", project.root) if project else ("/", "/")
    # Slicing the slash off behind the root works for `/` too, which is the one root that ends in it.
    inside = _escaped(real[len(root) :].removeprefix("/"))
    path = "/".join([inside, *pattern] if inside else pattern)
    return prefix + (_with_tail(path) or ("." if project else ""))


def _anchored(text: str, base: str) -> tuple[str, list[str]]:
    """Split a pattern into the real folder it counts from and its segments from the first wildcard on.

    A segment that exists as it is spelled is a name, whatever characters it has, so that a new file in an
    existing `app/[id]` is understood too. Behind a wildcard there is no folder to ask, so there `..` takes back
    the segment before it.
    """
    here = "/" if text.startswith("/") else base
    pattern: list[str] = []
    for raw in text.split("/"):
        if not pattern and _has_magic(raw) and os.path.lexists(f"{here}/{raw}"):
            here = f"{here}/{raw}"
            continue
        segment = _canonical(raw)
        if segment in ("", "."):
            continue
        if segment == ".." and pattern:
            pattern.pop()
        elif pattern or not isinstance(name := _name(segment), str):
            pattern.append(segment)
        else:
            here = f"{here}/{name}"
    if pattern and pattern != ["**"] and "/" not in text.rstrip("/"):
        pattern.insert(0, "**")
    return _real(here), pattern


def _absolute(folder: str | None) -> str:
    """`folder`, by default the current one, as an absolute path that the system's calls accept."""
    folder = folder or ""
    try:
        if "\0" in folder:
            raise ValueError("NUL")
        os.fsencode(folder)
        return folder if folder.startswith("/") else os.path.join(os.getcwd(), folder)
    except ValueError:
        raise InvalidInput(f"folder {folder[:60]!r} is not a path") from None
    except FileNotFoundError:
        raise InvalidInput("the current folder no longer exists") from None


def _real(path: str) -> str:
    """os.path.realpath, in half its time for the usual path: one that is tidy and has no symlink in it."""
    if "//" in path or "/./" in path or "/../" in path or path.endswith(("/", "/.", "/..")):
        # POSIX leaves the meaning of a leading `//` open and realpath keeps it; here it means `/`.
        return "/" + os.path.realpath(path).lstrip("/")
    end = _resolved_length(path)
    try:
        while end != len(path):
            end = path.find("/", end + 1)
            if end < 0:
                end = len(path)
            if os.lstat(path[:end]).st_mode & _TYPE_BITS == _SYMLINK:
                return "/" + os.path.realpath(path).lstrip("/")
    except OSError:
        # From the first segment that cannot be read on, there is nothing to resolve.
        pass
    return path


def _resolved_length(path: str) -> int:
    """How much of a path is known to be real without asking: the system gives the current folder as such."""
    try:
        here = os.getcwd()
    except OSError:
        return 0
    return len(here) if path == here or path.startswith(here + "/") else 0


# As in the module `stat`, which is not worth importing for these.
_TYPE_BITS = 0o170000
_SYMLINK = 0o120000


def _project_above(real: str) -> Project | None:
    """Ask the disk each time: a remembered "no project" would outlive somebody's `git init`."""
    root = real.rstrip("/")
    while True:
        if os.access(f"{root}/.git", os.F_OK):
            return Project(_remote_slug(f"{root}/.git") or _root_label(root), root or "/")
        if os.access(f"{root}/.engram.toml", os.F_OK):
            return Project(_root_label(root), root or "/")
        if not root:
            return None
        root = root[: root.rindex("/")]


def _root_label(root: str) -> str:
    # A project needs a name even at `/`, or what it stores would not read as qualified.
    return _label(os.path.basename(root)) or "root"


def _label(name: str) -> str:
    """Make a name fit to stand before a colon: without colons, blanks, or the `~` that begins a path."""
    plain = "".join("-" if char == ":" or char.isspace() or not char.isprintable() else char for char in name)
    return "-" + plain[1:] if plain.startswith("~") else plain


def _remote_slug(git: str) -> str:
    """The slug of a repository's remote, or "" if it has none or its configuration cannot be read."""
    try:
        try:
            config = f"{git}/config"
            status = os.stat(config)
        except NotADirectoryError:
            config = _linked_config(git, os.stat(git).st_mtime_ns)
            status = os.stat(config)
        return _configured_slug(config, status.st_mtime_ns)
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=128)
def _linked_config(git: str, mtime_ns: int) -> str:
    """The configuration that a `.git` file stands for: a submodule's own, or the one all worktrees share."""
    marker, _, target = _read(git).strip().partition(" ")
    if marker != "gitdir:" or not target:
        raise ValueError("not a .git file")
    gitdir = os.path.join(os.path.dirname(git), target)
    common = f"{gitdir}/commondir"
    if os.access(common, os.F_OK):
        gitdir = os.path.join(gitdir, _read(common).strip())
    return f"{gitdir}/config"


@lru_cache(maxsize=128)
def _configured_slug(config: str, mtime_ns: int) -> str:
    return _slug(_remote_url(_read(config)))


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(1 << 20)


def _remote_url(config: str) -> str:
    """The url of `origin`, else of the first remote; by hand, since configparser refuses files that git reads."""
    first, remote = "", ""
    for line in config.split("\n"):
        line = line.strip()
        if line.startswith("["):
            header, _, line = line[1:].partition("]")
            section, _, name = header.partition(" ")
            remote = name.strip().strip('"') if section.lower() == "remote" else ""
        key, _, value = line.partition("=")
        if remote and key.strip().lower() == "url":
            url = _unquoted(value.strip())
            if url and remote == "origin":
                return url
            first = first or url
    return first


def _unquoted(value: str) -> str:
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return value.partition("#")[0].partition(";")[0].strip()


def _slug(url: str) -> str:
    """`owner/repo` of a network address, the last name of a local one; nothing from before the host's end.

    What precedes an `@` and what follows a `?` can hold credentials, wherever an odd address has them.
    """
    scheme, is_url, rest = url.partition("://")
    host, is_scp, _ = url.partition(":")
    wanted = 2
    if is_url:
        path = rest.partition("?")[0].partition("#")[0].rpartition("@")[2].partition("/")[2]
        wanted = 1 if scheme == "file" else 2
    elif is_scp and "/" not in host:
        path = url.rpartition("@")[2].partition(":")[2]
    else:
        path, wanted = url, 1
    path = path.rstrip("/").removesuffix("/.git").removesuffix(".git")
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    slug = _label("/".join(parts[-wanted:]))
    return slug if len(slug) <= 255 else ""


def _has_magic(text: str) -> bool:
    return "*" in text or "?" in text or "[" in text or "\\" in text


def _scope(stored: str) -> tuple[str, str]:
    """Within what a stored path is compared, and the path there; no scope for what meets only its equal."""
    if stored.startswith("/"):
        return "/", stored[1:]
    head, _, path = stored.partition(":")
    if not path or path.startswith("//"):
        return "", ""
    return head, "" if path == "." else path


def _escaped(text: str) -> str:
    if _has_magic(text):
        for char in "\\*?[":
            text = text.replace(char, "\\" + char)
    return text


def _canonical(segment: str) -> str:
    """One spelling for a segment that is literal: with its magic characters escaped, and no others."""
    if not _has_magic(segment):
        return segment
    name = _name(segment)
    return _escaped(name) if isinstance(name, str) else segment


def _name(segment: str) -> Name:
    """Parse a segment; it stays a string when all of it is literal."""
    if not _has_magic(segment):
        return segment
    places: list[Chars | None] = []
    classes = True
    at = 0
    while at < len(segment):
        char = segment[at]
        at += 1
        if char == "*":
            if places[-1:] != [None]:
                places.append(None)
        elif char == "?":
            places.append(_ANY_CHAR)
        elif char == "[" and classes and (found := _char_class(segment, at)):
            ranges, at = found
            places.append(ranges)
        else:
            # Where one `[` is not closed no later one is, and looking again would make parsing quadratic.
            classes = classes and char != "["
            char, at = _member(segment, at - 1)
            places.append(char)
    literal = [place for place in places if isinstance(place, str)]
    return "".join(literal) if len(literal) == len(places) else tuple(places)


def _char_class(text: str, at: int) -> tuple[tuple[tuple[int, int], ...], int] | None:
    """The ranges of the class whose `[` stands before `at`, and where it ends; None when it is not closed."""
    negated = text[at : at + 1] in ("!", "^")
    start = at = at + negated
    ranges: list[tuple[int, int]] = []
    while at < len(text):
        if text[at] == "]" and at > start:
            return tuple(_complement(ranges) if negated else _merged(ranges)), at + 1
        low, at = _member(text, at)
        high = low
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(text, at + 1)
        # As in git, a range that runs backwards holds its first character.
        ranges.append((ord(low), max(ord(low), ord(high))))
    return None


def _member(text: str, at: int) -> tuple[str, int]:
    """The character at a position, where it may be escaped, and the position behind it."""
    if text[at] == "\\" and at + 1 < len(text):
        at += 1
    return text[at], at + 1


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _complement(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """All other characters that a name can have, which excludes NUL and `/`."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in _merged([*ranges, (0, 0), (ord("/"), ord("/"))]):
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= 0x10FFFF:
        gaps.append((start, 0x10FFFF))
    return gaps


_ANY_CHAR = tuple(_complement([]))


class _Pattern(NamedTuple):
    """A path as `overlap` walks it."""

    #: Segment by segment; `None` is a `**`, never the last one.
    names: tuple[Name | None, ...]
    #: Whether anything may lie below what it matches, without the other pattern saying so.
    is_open: bool


@lru_cache(maxsize=512)
def _compiled(path: str) -> _Pattern | None:
    """Parse the path of a stored form; None if it can match nothing, having a class without characters."""
    names: list[Name | None] = []
    for segment in path.split("/") if path else ():
        if segment != "**":
            name = _name(segment)
            if isinstance(name, tuple) and () in name:
                return None
            names.append(name)
        elif names[-1:] != [None]:
            names.append(None)
    if names[-1:] == [None]:
        # A last `**` is all that is inside, so at least one segment; what is below that is covered anyway.
        names[-1] = (None,)
    return _Pattern(tuple(names), not _has_extension(path.rpartition("/")[2]))


def _paths_meet(a: _Pattern, b: _Pattern) -> bool:
    """Compare name by name, and search only from the first `**` on.

    A pattern that ends where the other goes on covers the rest: the other one says that this is a folder.
    """
    for start, (x, y) in enumerate(zip(a.names, b.names, strict=False)):
        if x is None or y is None:
            return _trees_meet(a._replace(names=a.names[start:]), b._replace(names=b.names[start:]))
        if not _names_meet(x, y):
            return False
    return True


def _trees_meet(a: _Pattern, b: _Pattern) -> bool:
    """_paths_meet from a `**` on, under which a pattern may end without the other one naming that place."""
    end = 1 << len(b.names)
    state = named = 0
    for state, named in _states(a.names, b.names, _names_meet):
        if state & end and (b.is_open or named & end):
            return True
        if not state:
            return False
    return named != 0 or (a.is_open and state != 0)


def _names_meet(a: Name, b: Name) -> bool:
    """Whether some name matches both segments."""
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    if not (_heads_meet(a, b) and _heads_meet(a[::-1], b[::-1])):
        return False
    if not isinstance(a, str) and not isinstance(b, str) and None in a and None in b:
        # What stands between the stars of one can go into a star of the other, so only the ends decide.
        return True
    state = 0
    for state, _ in _states(a, b, _chars_meet):
        if not state:
            return False
    return state >> len(b) & 1 == 1


def _heads_meet(a: Name, b: Name) -> bool:
    """Whether two segments agree up to the first star or end of either."""
    for x, y in zip(a, b, strict=False):
        if x is None or y is None:
            return True
        if x != y and not _chars_meet(x, y):
            return False
    return True


def _chars_meet(a: Chars, b: Chars) -> bool:
    """Whether two sets of characters, as ascending ranges, have one in common."""
    if isinstance(a, str):
        return a == b if isinstance(b, str) else _holds(b, ord(a))
    if isinstance(b, str):
        return _holds(a, ord(b))
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] < b[j][0]:
            i += 1
        elif b[j][1] < a[i][0]:
            j += 1
        else:
            return True
    return False


def _holds(ranges: tuple[tuple[int, int], ...], code: int) -> bool:
    for low, high in ranges:
        if code <= high:
            return low <= code
    return False


def _states(
    a: Sequence[str | _Item | None],
    b: Sequence[str | _Item | None],
    meets: Callable[[str | _Item, str | _Item], bool],
) -> Iterator[tuple[int, int]]:
    """Walk two patterns side by side; after each item of `a`, yield how far `b` can have come by then.

    `None` stands for any number of items, so this serves the characters of a name (`*`) and the names of a
    path (`**`). A set of positions in `b` is one integer with a bit each: a step costs a few operations on it,
    however many ways lead there, and nothing recurses. The second integer has just the positions to which an
    item of `b` led, rather than a `None`. Every item must be able to match something.
    """
    stars, literals, others = _positions(b)
    masks: dict[str | _Item, int] = {}
    everything = (2 << len(b)) - 1
    state = 1 | (stars & 1) << 1
    for item in a:
        named = 0
        if item is None:
            # It can take in any items of `b`: all positions from the first one on.
            state = everything & -(state & -state)
        else:
            if item not in masks:
                masks[item] = _mask(item, literals, others, meets)
            named = (state & masks[item]) << 1
            state = named | state & stars
            state |= (state & stars) << 1
        yield state, named


def _positions(items: Sequence[str | _Item | None]) -> tuple[int, dict[str, int], dict[_Item, int]]:
    """Where a pattern has its `None`s, each literal and each other item, as one bit a position."""
    stars = 0
    literals: dict[str, int] = {}
    others: dict[_Item, int] = {}
    for at, item in enumerate(items):
        if item is None:
            stars |= 1 << at
        elif isinstance(item, str):
            literals[item] = literals.get(item, 0) | 1 << at
        else:
            others[item] = others.get(item, 0) | 1 << at
    return stars, literals, others


def _mask(
    item: str | _Item,
    literals: dict[str, int],
    others: dict[_Item, int],
    meets: Callable[[str | _Item, str | _Item], bool],
) -> int:
    """The positions whose item has something in common with this one."""
    mask = 0
    if isinstance(item, str):
        mask = literals.get(item, 0)
    else:
        for literal, bits in literals.items():
            if meets(item, literal):
                mask |= bits
    for other, bits in others.items():
        if meets(item, other):
            mask |= bits
    return mask
