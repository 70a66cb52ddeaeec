r"""Resources: the strings that leases are about, in the one form in which they are stored and compared.

A hook reports `/repos/engram/src/router.py`, a person types `src/router.py`, and both must mean one lease.
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
- `a:b.txt` reads as path `b.txt` of project or scheme `a`, and `src/a:b.txt` as path `b.txt` of project `src/a`, unless
  that file exists. `./a:b.txt` is a path for certain, and `escape` writes it so.
- A control character is no part of a resource: it could fake lines of what another agent reads. A file that has one
  in its name is meant by a pattern, with `?` in its place; `escape` writes it so.
- A claim covers everything below it, as in gitignore. By the letter of that, `*.md` would meet `src/router.py`
  in `src/router.py/x.md`, and every pattern that begins with `**` would lock the whole project. So what ends
  like a file, in an extension, has nothing below it unless the other claim goes on below that very name.
- A project inside another one (a submodule) has its own resources: a claim on the outer project does not cover
  it, as a claim on an absolute path does not cover the projects below it.
- Classes such as `[[:alpha:]]` are not known, and a class does not reach across a `/`.
"""

from __future__ import annotations

import os

from ..errors import InvalidInput
from ..safe_text import has_controls
from . import globs
from .globs import canonical, escaped, has_extension, has_magic, parse
from .projects import absolute, project_above, real_path

MAX_LENGTH = 4096
#: Comparing two patterns takes up to the product of their segments, each a search: far above any real path's depth.
MAX_SLASHES = 256


def normalise(resource: str, folder: str | None = None) -> str:
    """The form in which a resource is stored and compared; a relative path counts from `folder`, or from here.

    Raises InvalidInput for what can be no resource: empty, with a control character, not valid Unicode, or too long.
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


def overlap(a: str, b: str) -> bool:
    """Whether two resources, as stored, can concern the same thing: whether some path matches both."""
    if a == b:
        return True
    scope_a, path_a = _view(a)
    scope_b, path_b = _view(b)
    if scope_a != scope_b or not scope_a:
        return False
    if not (has_magic(path_a) or has_magic(path_b)):
        return not (path_a and path_b) or path_a.startswith(path_b + "/") or path_b.startswith(path_a + "/")
    return globs.meet(path_a, path_b)


def escape(path: str) -> str:
    """The pattern that matches just this path, for callers that know they have a file's name, such as a hook."""
    # Otherwise `a:b.txt` would read as qualified, and a new `Makefile` as a plain name.
    bare = not path.startswith(("/", "./", "../", "~"))
    return _with_tail(_without_controls(escaped(f"./{path}" if bare else path)))


def _checked(text: object) -> str:
    """Refuse what nobody can mean or store; results pass here as well, so that they can be given again."""
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
    """A pattern that matches the same path and is one plain line."""
    return "".join("?" if has_controls(char) else char for char in pattern) if has_controls(pattern) else pattern


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


def _is_qualified(text: str) -> bool:
    """Whether text reads `<project>:<path>` or `<scheme>:<name>`; a project may be `owner/repo`, with a slash."""
    head, colon, _ = text.partition(":")
    if not colon or not head or text.startswith(("/", "./", "../", "~")):
        return False
    owner, slash, repo = head.partition("/")
    return not slash or bool(owner and "/" not in repo and repo not in ("", ".", ".."))


def _exists(text: str, folder: str | None) -> bool:
    # Without a folder the system counts from the current one, which may be gone.
    return os.path.lexists(os.path.join(absolute(folder), text) if folder else text)


def _clean(text: str) -> str:
    """Tidy a qualified path by its letters alone: the project need not be on this machine."""
    head, _, rest = text.partition(":")
    if rest.startswith("//"):
        return text
    kept: list[str] = []
    for raw in rest.split("/"):
        segment = canonical(raw)
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
        or has_extension(text)
        or os.path.lexists(os.path.join(absolute(folder), text))
    )


def _located(text: str, folder: str | None) -> str:
    """Store a path under the project that holds it, or as absolute when none does."""
    if text[0] == "~":
        text = os.path.expanduser(text)
    base = "/" if text[0] == "/" else absolute(folder)
    if has_magic(text):
        real, pattern = _anchored(text, base)
    else:
        real, pattern = real_path(os.path.join(base, text)), []
    project = project_above(real)
    prefix, root = (f"{project.name}:", project.root) if project else ("/", "/")
    # A folder above may have a control character in its name, whatever was given.
    inside = _without_controls(escaped(real[len(root) :].removeprefix("/")))
    path = "/".join([inside, *pattern] if inside else pattern)
    return prefix + (_with_tail(path) or ("." if project else ""))


def _anchored(text: str, base: str) -> tuple[str, list[str]]:
    """Split a pattern into the real folder it counts from and its segments from the first wildcard on.

    A segment that exists as it is spelled is a name, whatever characters it has, so that a new file in an
    existing `app/[id]` is understood too. Behind a wildcard there is no folder to ask, so there `..` takes back
    the segment before it.
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


def _view(stored: str) -> tuple[str, str]:
    """Within what a stored path is compared, and the path there; no view for what meets only its equal."""
    if stored.startswith("/"):
        return "/", stored[1:]
    head, _, path = stored.partition(":")
    if not path or path.startswith("//"):
        return "", ""
    return head, "" if path == "." else path
