"""Whether two patterns can match the same path.

The tables show the rules one by one. The properties then compare `overlap` with two readings of the same rules that
share no code with it: pathspec's gitignore over every small path, and a plain search over the words of a pattern.
"""

from __future__ import annotations

import itertools
import re
from functools import cache
from pathlib import Path

import pathspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engram.coordination.resources import normalise, overlap
from tests._repositories import project

__all__ = ["project"]

globs = pytest.mark.requirement("LEASE-GLOBS")


OVERLAPPING = [
    ("src", "src/router.py"),
    ("src", "src"),
    ("src", "src/*.py"),
    ("src/**", "src"),
    ("src/**", "src/a/b.py"),
    ("src/**", "**"),
    (".", "src/router.py"),
    (".", "**/*.md"),
    (".", "**"),
    ("**/*.md", "docs/a.md"),
    ("**/*.md", "a.md"),
    ("**/*.md", "docs/**"),
    ("**/*.md", "docs"),
    ("**/*.md", "docs/**/index.*"),
    ("**/tests", "src/**/*.py"),
    ("src/a*", "src/*b"),
    ("src/**/x/**/y", "src/x/y"),
    ("a/**/b", "a/b"),
    ("a/**/b", "**/c/b/d"),
    ("a**b", "axb"),
    ("[ab].txt", "[b-d].txt"),
    ("[!a]", "b"),
    ("[^a]", "[a-b]"),
    ("[]]", "\\]"),
    ("[!]]", "["),
    ("[a-]", "-"),
    ("[z-a]", "z"),
    ("[\\]a]", "]"),
    ("a[b", "a\\[b"),
    ("?", "é"),
    ("\\*", "*"),
    ("\\*/a", "\\*"),
    ("a\\", "a\\\\"),
    ("config.d/*.conf", "config.d"),
    ("config.d/**", "**/*.conf"),
    ("**/config.d", "etc/config.d/a.conf"),
    ("**/*.app", "x.app/**/y.z"),
]

APART = [
    ("src", "srcs"),
    ("src", "docs/src"),
    ("src/router.py", "src/router.pyc"),
    ("src/*.py", "src/*.md"),
    ("src/*.py", "src/a/b.py"),
    ("src/**", "docs/a"),
    ("**/*.md", "src/router.py"),
    ("**/*.md", "**/*.py"),
    ("**/*.md", "src/**/*.py"),
    ("docs/**/*.md", "src/**/*.md"),
    ("[ab].txt", "[c-d].txt"),
    ("[!a]", "a"),
    ("[!a-y]", "[b-y]"),
    ("?", "ab"),
    ("a?b", "a/b"),
    ("a[!x]b", "a/b"),
    ("\\*", "a"),
    ("a\\*", "ab"),
    ("a[b", "ab"),
    ("*a*b", "*b*a"),
    ("[!\x01-.0-\U0010ffff]", "*"),
    ("Src", "src"),
]


@globs
@pytest.mark.parametrize(("a", "b"), OVERLAPPING)
def test_claims_overlap_if_some_path_matches_both(a: str, b: str) -> None:
    assert overlap(f"p:{a}", f"p:{b}")
    assert overlap(f"p:{b}", f"p:{a}")


@globs
@pytest.mark.parametrize(("a", "b"), APART)
def test_claims_that_no_path_matches_both_of_do_not_overlap(a: str, b: str) -> None:
    assert not overlap(f"p:{a}", f"p:{b}")
    assert not overlap(f"p:{b}", f"p:{a}")


@globs
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("acme/engram:src", "acme/other:src", False),
        ("acme/engram:.", "other:.", False),
        ("acme/engram:src", "/src", False),
        ("engram:src", "src", False),
        ("/srv/data", "/srv/data/a.csv", True),
        ("/srv/data/*.csv", "/srv/data/a.csv", True),
        ("/", "/srv", True),
        ("/", "acme/engram:src", False),
        ("deploy", "deploy", True),
        ("deploy", "deploys", False),
        ("deploy", "deploy/it:.", False),
        ("deploy", "deploy:.", False),
        ("port:8080", "port:8080", True),
        ("port:8080", "port:80", False),
        ("https://example.org/a", "https://example.org/a", True),
        ("https://example.org/a", "https://example.org/a/b", False),
        ("https://example.org/*", "https://example.org/a", False),
        (":x", ":x", True),
        (":x", ":y", False),
    ],
)
def test_only_paths_of_one_project_are_compared(a: str, b: str, expected: bool) -> None:
    assert overlap(a, b) is expected
    assert overlap(b, a) is expected


@globs
def test_a_claim_on_the_root_covers_the_project(project: Path) -> None:
    root = normalise(".", str(project))
    assert overlap(root, normalise("src/router.py", str(project)))
    assert overlap(root, normalise("*.md", str(project)))


@globs
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("*a" * 2000 + "b", "a*" * 2000 + "c"),
        ("*a" * 2000 + "b", "a" * 4000),
        ("*a" * 2000 + "b*", "?" * 4000),
        ("**/a/" * 800 + "b.x", "a/**/" * 680 + "c.y"),
        ("a/" * 2000 + "b", "**/a/" * 800 + "c"),
        ("[" * 4000 + "*", "[\\]" * 1300),
        ("*[" + "".join(map(chr, range(0x4E00, 0x6D00, 2))) + "]x*", "y" * 4000),
    ],
)
def test_long_patterns_are_compared_without_blowing_up(a: str, b: str) -> None:
    assert overlap(f"p:{a}", f"p:{b}") is overlap(f"p:{b}", f"p:{a}")


CHARACTERS = st.sampled_from([*"ab/:*?[]!\\. ~-", "é", "\n"])
RESOURCES = st.text(CHARACTERS, max_size=12)


@globs
@given(RESOURCES, RESOURCES)
@example("/", "*")
def test_overlap_is_symmetric_and_reflexive_for_any_strings(a: str, b: str) -> None:
    assert overlap(f"p:{a}", f"p:{b}") is overlap(f"p:{b}", f"p:{a}")
    assert overlap(a, a)


def small_paths(names: tuple[str, ...], depth: int) -> list[tuple[str, ...]]:
    lengths = range(1, depth + 1)
    return [path for length in lengths for path in itertools.product(names, repeat=length)]


def patterns(segments: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(["**", *segments]), min_size=1, max_size=3).map("/".join)


# The searches are remembered by pattern, so the first few examples take long and the rest no time.
slow_at_first = settings(deadline=None)

FOLDERS = small_paths(("a", "b", "c", "ab"), depth=5)


@cache
def ignored_by_git(pattern: str) -> frozenset[tuple[str, ...]]:
    spec = pathspec.GitIgnoreSpec.from_lines(["/" + pattern])
    return frozenset(path for path in FOLDERS if spec.match_file("/".join(path)))


# Three segments a pattern, of which a `**` takes one: no two patterns need a path deeper than five to meet.
UNDOTTED = patterns(["a", "b", "ab", "*", "?", "a*", "*b", "[ab]", "[!a]", "[b-c]", "?b"])


@globs
@slow_at_first
@given(UNDOTTED, UNDOTTED)
@example("**", "**/a")
@example("a/**", "**/**/b")
def test_overlap_agrees_with_gitignore_on_every_small_path(a: str, b: str) -> None:
    common = ignored_by_git(a) & ignored_by_git(b)
    assert overlap(f"p:{a}", f"p:{b}") is bool(common)


FILES = small_paths(("a", "b", "a.x", "b.y"), depth=5)


def matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a pattern matches just this path, by the words of gitignore's manual."""
    if not pattern:
        return not path
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        shortest = 0 if rest else 1
        return any(matches(rest, path[taken:]) for taken in range(shortest, len(path) + 1))
    return bool(path) and name_matches(first, path[0]) and matches(rest, path[1:])


def name_matches(pattern: str, name: str) -> bool:
    translated = pattern.replace(".", r"\.").replace("*", ".*").replace("?", ".").replace("[!", "[^")
    return re.fullmatch(translated, name) is not None


@cache
def matched(pattern: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(path for path in FILES if matches(pattern, path))


def covers_part(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether something that `b` matches is what `a` matches, or lies below it where that may be a folder."""
    named = (b[:end] for end in range(1, len(b) + 1) if b[end - 1] != "**" or end == len(b))
    if any(matched(a) & matched(prefix) for prefix in named):
        return True
    is_file = "." in a[-1]
    return not is_file and any(path[:end] in matched(a) for path in matched(b) for end in range(1, len(path)))


DOTTED = patterns(["a", "b", "*", "a.x", "b.y", "*.x", "*.y", "[ab].*"])


@globs
@slow_at_first
@given(DOTTED, DOTTED)
@example("**/*.x", "a/b.y")
@example("**/*.x", "a.x/**/b.y")
def test_what_ends_like_a_file_has_nothing_below_it_unless_it_is_named_as_a_folder(a: str, b: str) -> None:
    first, second = tuple(a.split("/")), tuple(b.split("/"))
    expected = covers_part(first, second) or covers_part(second, first)
    assert overlap(f"p:{a}", f"p:{b}") is expected


NAMES = ["".join(name) for length in range(1, 7) for name in itertools.product("abc", repeat=length)]
PIECES = {"a": "a", "b": "b", "*": ".*", "?": ".", "[ab]": "[ab]", "[!a]": "[^a]", "[b-c]": "[b-c]", "\\c": "c"}


@cache
def named_by(pieces: tuple[str, ...]) -> frozenset[str]:
    expression = re.compile("".join(PIECES[piece] for piece in pieces))
    return frozenset(name for name in NAMES if expression.fullmatch(name))


SPELLINGS = (
    st.lists(st.sampled_from(sorted(PIECES)), min_size=1, max_size=4)
    .map(tuple)
    .filter(lambda pieces: "**" not in "".join(pieces))
)


@globs
@slow_at_first
@given(SPELLINGS, SPELLINGS)
@example(("*", "a", "*"), ("b", "?", "b"))
def test_two_names_meet_exactly_if_some_small_name_matches_both(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    assert overlap(f"p:{''.join(a)}", f"p:{''.join(b)}") is bool(named_by(a) & named_by(b))
