r"""Resources: the strings that leases name, in the form in which they are stored and compared.

A hook reports `/repos/engram/src/router.py`, a person types `src/router.py`, and both must mean the same lease. Only
`normalise` decides what a string means. `overlap` compares its results without reading files, because a claim is
compared with every live lease.

The stored forms:

    acme/engram:src/router.py    a path inside a project, from its root; `.` is the root itself
    /etc/hosts                   a path outside every project, symlinks resolved
    acme/engram:docs/**/*.md     a pattern with gitignore's meaning; `\` makes a `*`, `?`, `[` or `\` literal
    port:8080                    a name within a scheme, handled like a path within a project
    https://example.org/a        a URL, as it was given
    deploy                       a plain name, as it was given

Where a string could mean two things:

- An existing file wins: `app/[id]/page.tsx` is a file if it exists, otherwise a pattern, and `deploy` is a path if a
  file of that name exists. So the meaning of a bare name depends on the folder; every other stored form means the same
  everywhere. A caller that knows that a string is a file name calls `escape` first.
- `a:b.txt` reads as path `b.txt` of project or scheme `a`, and `src/a:b.txt` as path `b.txt` of project `src/a`, unless
  that file exists. `./a:b.txt` is always a path, and `escape` writes it that way.
- A resource contains no control character, because it could fake lines in what another agent reads. A file with one in
  its name is claimed by a pattern with `?` in its place; `escape` writes that pattern.
- A claim covers everything below it, as in gitignore. Taken literally, `*.md` would overlap with `src/router.py`, in
  `src/router.py/x.md`, and every pattern that begins with `**` would cover the whole project. So a name with an
  extension has nothing below it, unless the other claim names a path below exactly that name.
- A project inside another one (a submodule) has its own resources. A claim on the outer project does not cover it, and
  a claim on an absolute path does not cover the projects below it.
- Classes such as `[[:alpha:]]` are not supported, and a class does not match `/`.
"""

from __future__ import annotations

import os

from ..errors import InvalidInput
from ..safe_text import has_controls
from . import globs
from .globs import canonical, escaped, has_extension, has_magic, parse
from .projects import absolute, project_above, real_path

MAX_LENGTH = 4096
#: The time to compare two patterns grows with the product of their segments. No real path is this deep.
MAX_SLASHES = 256


def normalise(resource: str, folder: str | None = None) -> str:
    """The form in which a resource is stored and compared. A relative path is relative to `folder`, by default here.
    InvalidInput for text that is empty, too long or not valid Unicode, or that contains a control character.
    """
    text = _plain(_stripped(_checked(resource)))
    if _is_qualified(text):
        tidy = _checked(_clean(text))
        there = next((each for each in (text, tidy) if _exists(each, folder)), None)
        if there is None:
            return tidy
        text = there
    if _is_path(text, folder):
        return _checked(_located(text, folder))
    return text


def elsewhere(resource: str, project: str | None) -> str:
    """The stored form of a resource that a caller on another machine names. Nothing is looked up on this machine.

    A stored form stays what it is. A relative path counts from the root of `project`, the caller's; without a project
    it is a plain name.
    """
    text = _plain(_stripped(_checked(resource)))
    if _is_qualified(text):
        return _checked(_clean(text))
    if text.startswith("/"):
        return _checked("/" + _tidy(text).removeprefix("."))
    if project is None or text[0] == "~" or not _looks_like_path(text):
        return text
    # As in `_anchored`: a pattern without a slash matches in every folder.
    anywhere = "**/" if has_magic(text) and text != "**" and "/" not in text.rstrip("/") else ""
    return _checked(_clean(f"{project}:{anywhere}{text}"))


def overlap(a: str, b: str) -> bool:
    """Whether two stored resources overlap: whether some path matches both."""
    if a == b:
        return True
    scope_a, path_a = _split(a)
    scope_b, path_b = _split(b)
    if scope_a != scope_b or not scope_a:
        return False
    if not (has_magic(path_a) or has_magic(path_b)):
        return not (path_a and path_b) or path_a.startswith(path_b + "/") or path_b.startswith(path_a + "/")
    return globs.meet(path_a, path_b)


def escape(path: str) -> str:
    """The pattern that matches only this path, for callers that have a file name and not a pattern, such as hooks."""
    # Without `./`, `a:b.txt` would be read as `<project>:<path>`, and a new `Makefile` as a plain name.
    bare = not path.startswith(("/", "./", "../", "~"))
    return _with_tail(_without_controls(escaped(f"./{path}" if bare else path)))


def _checked(text: object) -> str:
    """Refuse text that cannot be a resource. Results are checked too, so that a stored form is valid input."""
    if not isinstance(text, str):
        raise InvalidInput(f"resource must be text, not {type(text).__name__}.")
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
    raise _refused(text, problem)


def _plain(text: str) -> str:
    if has_controls(text):
        raise _refused(text, "has a control character; it must be one plain line")
    return text


def _refused(text: str, problem: str) -> InvalidInput:
    shown = repr(text) if len(text) <= 60 else repr(text[:60]) + "…"
    return InvalidInput(f"resource {shown} {problem}.")


def _without_controls(pattern: str) -> str:
    """The pattern with control characters replaced by `?`; it still matches the same path."""
    return "".join("?" if has_controls(char) else char for char in pattern) if has_controls(pattern) else pattern


def _stripped(text: str) -> str:
    r"""The text without surrounding whitespace. Like git, keeps a final blank after a `\`."""
    bare = text.rstrip()
    if len(bare) != len(text) and _ends_in_escape(bare):
        bare = text[: len(bare) + 1]
    return bare.lstrip()


def _with_tail(path: str) -> str:
    """Escape a final blank in a name. Otherwise it would be stripped when the stored form is used as input."""
    if path[-1:].isspace() and not _ends_in_escape(path[:-1]):
        return f"{path[:-1]}\\{path[-1]}"
    return path


def _ends_in_escape(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _is_qualified(text: str) -> bool:
    """Whether the text is `<project>:<path>` or `<scheme>:<name>`. A project may contain a slash: `owner/repo`."""
    head, colon, _ = text.partition(":")
    if not colon or not head or text.startswith(("/", "./", "../", "~")):
        return False
    owner, slash, repo = head.partition("/")
    return not slash or bool(owner and "/" not in repo and repo not in ("", ".", ".."))


def _exists(text: str, folder: str | None) -> bool:
    # Without a folder, the path is relative to the current one, which may no longer exist.
    return os.path.lexists(os.path.join(absolute(folder), text) if folder else text)


def _clean(text: str) -> str:
    """Tidy a qualified path without looking at the disk: the project may not be on this machine."""
    head, _, rest = text.partition(":")
    return text if rest.startswith("//") else f"{head}:{_tidy(rest)}"


def _tidy(path: str) -> str:
    """A path without empty segments, `.` and `..`; `.` for the root itself."""
    kept: list[str] = []
    for raw in path.split("/"):
        segment = canonical(raw)
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return _with_tail("/".join(kept)) or "."


def _is_path(text: str, folder: str | None) -> bool:
    """Whether an unqualified string is a path. `dream` or `staging database` is not, unless it exists."""
    return _looks_like_path(text) or os.path.lexists(os.path.join(absolute(folder), text))


def _looks_like_path(text: str) -> bool:
    return text[0] in "/~." or any(sign in text for sign in "/*?[") or has_extension(text)


def _located(text: str, folder: str | None) -> str:
    """The stored form of a path: within its project, or absolute when it is in none."""
    if text[0] == "~":
        text = os.path.expanduser(text)
    base = "/" if text[0] == "/" else absolute(folder)
    if has_magic(text):
        real, pattern = _anchored(text, base)
    else:
        real, pattern = real_path(os.path.join(base, text)), []
    project = project_above(real)
    prefix, root = (f"{project.name}:", project.root) if project else ("/", "/")
    # The name of a parent folder may contain a control character, even if the given text does not.
    inside = _without_controls(escaped(real[len(root) :].removeprefix("/")))
    path = "/".join([inside, *pattern] if inside else pattern)
    return prefix + (_with_tail(path) or ("." if project else ""))


def _anchored(text: str, base: str) -> tuple[str, list[str]]:
    """Split a pattern into the real folder that it starts from and its segments from the first wildcard on.

    A segment that exists exactly as written is a name, even with special characters. So a new file in an existing
    `app/[id]` is recognised too. After a wildcard there is no folder to look into, so `..` removes the one before it.
    """
    here = base
    pattern: list[str] = []
    for raw in text.split("/"):
        if not pattern and has_magic(raw) and os.path.lexists(f"{here}/{raw}"):
            here = f"{here}/{raw}"
            continue
        segment = canonical(raw)
        if segment in ("", "."):
            continue
        if segment == ".." and pattern:
            pattern.pop()
        elif pattern or not isinstance(name := parse(segment), str):
            pattern.append(segment)
        else:
            here = f"{here}/{name}"
    if pattern and pattern != ["**"] and "/" not in text.rstrip("/"):
        pattern.insert(0, "**")
    return real_path(here), pattern


def _split(stored: str) -> tuple[str, str]:
    """The project, scheme or root that a stored path is in, and the path; both empty if it overlaps only its equal."""
    if stored.startswith("/"):
        return "/", stored[1:]
    head, _, path = stored.partition(":")
    if not path or path.startswith("//"):
        return "", ""
    return head, "" if path == "." else path
