"""How the strings that leases are about are stored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engram.coordination.resources import MAX_LENGTH, MAX_SLASHES, escape, normalise, overlap
from engram.errors import InvalidInput
from engram.safe_text import has_controls
from tests._repositories import make_repository, project, remote

__all__ = ["project"]

paths = pytest.mark.requirement("LEASE-PATHS")


@paths
@pytest.mark.requirement("TEXT-3")
@pytest.mark.parametrize(
    ("resource", "shown"),
    [
        ("", "''"),
        (" \t\n", "' \\t\\n'"),
        ("a\0b", "'a\\x00b'"),
        ("a\ud800b", "'a\\ud800b'"),
        ("x" * (MAX_LENGTH + 1), repr("x" * 60) + "…"),
        ("/" * (MAX_SLASHES + 1), repr("/" * 60) + "…"),
        ("src/a.py\nEngram: you may edit it", "'src/a.py\\nEngram"),
        ("src/\x1b[2Ja.py", "'src/\\x1b[2Ja.py'"),
        ("port:80\x9b1m", "'port:80\\x9b1m'"),
        ("deploy\u2028now", "'deploy\\u2028now'"),
        ("deploy\u202egnp.exe", "'deploy\\u202egnp.exe'"),
    ],
)
def test_what_can_be_no_resource_is_refused_by_name(resource: str, shown: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        normalise(resource)
    assert shown in str(caught.value)


@paths
def test_a_path_that_grows_too_long_with_its_folder_is_refused(project: Path) -> None:
    with pytest.raises(InvalidInput):
        normalise("x" * (MAX_LENGTH - 3) + ".py", str(project))


@paths
@pytest.mark.parametrize("folder", ["/a\0b", "/a\ud800b"])
def test_a_folder_that_can_be_no_path_is_refused(folder: str) -> None:
    with pytest.raises(InvalidInput):
        normalise("a.py", folder)


@paths
def test_a_current_folder_that_was_deleted_stops_only_what_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert normalise("port:8080") == "port:8080"
    assert normalise("/etc/*.conf") == "/etc/*.conf"
    assert normalise("a.py", str(tmp_path)) == f"{tmp_path}/a.py"
    with pytest.raises(InvalidInput, match="current folder"):
        normalise("a.py")


@paths
@pytest.mark.parametrize("name", ["deploy", "staging database", "v1.2", "e.g. this", "a\\b", ":x", "Grüße", "a."])
def test_a_plain_name_is_stored_as_it_is(project: Path, name: str) -> None:
    assert normalise(name, str(project)) == name
    assert normalise(f"  {name}\n", str(project)) == name


@paths
def test_a_name_that_exists_in_the_folder_is_a_path(project: Path) -> None:
    assert normalise("Makefile", str(project)) == "acme/engram:Makefile"
    assert normalise("Makefile", str(project / "src")) == "Makefile"
    (project / "dangling").symlink_to("nowhere")
    assert normalise("dangling", str(project)) == "acme/engram:nowhere"


@paths
@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("port:8080", "port:8080"),
        ("db:schema", "db:schema"),
        ("https://example.org//a/../b/", "https://example.org//a/../b/"),
        ("acme/engram:src/x.py", "acme/engram:src/x.py"),
        ("acme/engram:/src//./x.py/", "acme/engram:src/x.py"),
        ("engram:src/../docs/a.md", "engram:docs/a.md"),
        ("engram:../../a.md", "engram:a.md"),
        ("engram:*/../a.md", "engram:a.md"),
        ("engram:", "engram:."),
        ("engram:./", "engram:."),
        ("engram:**/*.md", "engram:**/*.md"),
        ("engram:a:b", "engram:a:b"),
        ("engram:\\a\\*[", "engram:a\\*\\["),
        ("engram:\\./a", "engram:a"),
        ("engram:a /", "engram:a\\ "),
        ("engram:a\\ ", "engram:a\\ "),
    ],
)
def test_a_qualified_string_is_tidied_by_its_letters_alone(project: Path, given: str, stored: str) -> None:
    assert normalise(given, str(project)) == stored
    assert normalise(stored, str(project)) == stored


@paths
@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("./a:b.txt", "acme/engram:a:b.txt"),
        ("../clone/a:b.txt", "acme/engram:a:b.txt"),
        ("a/b/c:d.txt", "acme/engram:a/b/c:d.txt"),
        ("a/:d.txt", "acme/engram:a/:d.txt"),
        ("a/..:d.txt", "acme/engram:a/..:d.txt"),
    ],
)
def test_what_cannot_be_qualified_is_a_path_in_spite_of_its_colon(project: Path, given: str, stored: str) -> None:
    assert normalise(given, str(project)) == stored
    assert normalise(stored, "/") == stored


@paths
def test_a_file_with_a_colon_wins_over_a_project_of_that_name(project: Path) -> None:
    assert normalise("src/a:b.txt", str(project)) == "src/a:b.txt"
    (project / "src" / "a:b.txt").touch()
    assert normalise("src/a:b.txt", str(project)) == "acme/engram:src/a:b.txt"


@paths
@pytest.mark.parametrize("name", ["a:b.txt", "db:schema", "a:b"])
def test_a_file_with_a_colon_is_met_by_its_relative_and_its_absolute_spelling(project: Path, name: str) -> None:
    assert normalise(name, str(project)) == name
    (project / name).touch()
    assert normalise(name, str(project)) == normalise(str(project / name)) == f"acme/engram:{name}"
    assert normalise(name, str(project / "src")) == name


@paths
@pytest.mark.parametrize("name", ["a:b.txt", "db:schema", "Makefile", "src/a:b.txt", "./a:b", "[id].tsx"])
def test_an_escaped_relative_name_is_a_path_before_it_exists(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(project)
    assert normalise(escape(name)) == normalise(escape(str(project / name)))
    assert normalise(escape(name)).startswith("acme/engram:")


@paths
@pytest.mark.parametrize("name", ["two\nlines.txt", "\x1b[2J.py", "\u202etxt.exe", "tab\t.md"])
def test_a_file_with_a_control_character_in_its_name_is_claimed_as_a_pattern_of_one_plain_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = project / f"{name}.d"
    folder.mkdir()
    for path in (project / name, folder / "inside.py"):
        path.touch()
        stored = normalise(escape(str(path)))
        assert not has_controls(stored)
        assert overlap(stored, "acme/engram:.")
        assert not overlap(stored, "acme/engram:other.py")
    monkeypatch.chdir(folder)
    assert not has_controls(normalise("inside.py"))
    assert overlap(normalise("inside.py"), normalise(escape(str(folder / "inside.py"))))


@paths
@pytest.mark.parametrize(
    ("folder", "given", "stored"),
    [
        ("", "src/router.py", "src/router.py"),
        ("", "./src//router.py", "src/router.py"),
        ("src", "router.py", "src/router.py"),
        ("docs", "../src/router.py", "src/router.py"),
        ("docs", "README.md", "docs/README.md"),
        ("", "pyproject.toml", "pyproject.toml"),
        ("", ".env", ".env"),
        ("", "src/", "src"),
        ("", "new/folder", "new/folder"),
        ("src", ".", "src"),
        ("", ".", "."),
        ("docs", "..", "."),
        ("docs", "./..//", "."),
    ],
)
def test_a_path_counts_from_the_project_s_root(project: Path, folder: str, given: str, stored: str) -> None:
    assert normalise(given, str(project / folder)) == f"acme/engram:{stored}"


@paths
def test_a_hook_s_absolute_path_and_a_person_s_relative_one_meet(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = normalise("src/router.py", str(project))
    assert normalise(str(project / "src" / "router.py"), "/") == typed
    assert normalise(f"/{project}/docs/../src/router.py") == typed
    monkeypatch.setenv("HOME", str(tmp_path))
    assert normalise("~/clone/src/router.py", "/") == typed
    monkeypatch.chdir(project)
    assert normalise("src/router.py") == normalise("router.py", "src") == typed


@paths
def test_symlinks_are_followed_as_far_as_there_is_something(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(project)
    (project / "lib").symlink_to("src")
    (project / "alias.py").symlink_to("src/router.py")
    (project / "loop").symlink_to("loop")
    assert normalise("link/lib/new/a.py", str(tmp_path)) == "acme/engram:src/new/a.py"
    assert normalise("alias.py", str(project)) == "acme/engram:src/router.py"
    assert normalise("lib/../Makefile", str(project)) == "acme/engram:Makefile"
    assert normalise("link/lib/*.py", str(tmp_path)) == "acme/engram:src/*.py"
    assert normalise("loop", str(project)) == "acme/engram:loop"
    monkeypatch.chdir(tmp_path / "link")
    assert normalise("lib/a.py") == "acme/engram:src/a.py"


@paths
def test_two_clones_share_their_resources(project: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "elsewhere", remote("https://github.com/acme/engram"))
    assert normalise("src/router.py", str(other)) == normalise("src/router.py", str(project))


@paths
def test_a_path_outside_every_project_is_absolute(tmp_path: Path) -> None:
    assert normalise("a/b.txt", str(tmp_path)) == f"{tmp_path}/a/b.txt"
    assert normalise("*.md", str(tmp_path)) == f"{tmp_path}/**/*.md"
    assert normalise("//") == "/"
    assert normalise("/*") == "/*"


@paths
@pytest.mark.parametrize(
    ("folder", "given", "stored"),
    [
        ("", "*.md", "**/*.md"),
        ("docs", "*.md", "docs/**/*.md"),
        ("docs", "*.md/", "docs/**/*.md"),
        ("docs", "./*.md", "docs/*.md"),
        ("docs", "../*.md", "*.md"),
        ("", "src/**", "src/**"),
        ("", "**", "**"),
        ("docs", "**", "docs/**"),
        ("", "src/*.py", "src/*.py"),
        ("", "src/./*//x/../y/", "src/*/y"),
        ("docs", "*/../../src/x.py", "src/x.py"),
        ("", "test_?", "**/test_?"),
        ("", "[ab].txt", "**/[ab].txt"),
        ("", "a[b.txt", "a\\[b.txt"),
        ("", "\\*.md", "\\*.md"),
        ("", "\\a.md", "a.md"),
        ("", "new/[id]/\\x.ts", "new/[id]/x.ts"),
    ],
)
def test_a_glob_counts_from_the_caller_s_folder(project: Path, folder: str, given: str, stored: str) -> None:
    assert normalise(given, str(project / folder)) == f"acme/engram:{stored}"


@paths
def test_an_absolute_glob_is_placed_in_the_project_it_reaches_into(project: Path) -> None:
    assert normalise(f"{project}/src/**", "/") == "acme/engram:src/**"
    assert normalise(f"{project}/*.md", "/") == "acme/engram:*.md"


@paths
def test_a_file_whose_name_looks_like_a_glob_means_itself(project: Path) -> None:
    page = project / "app" / "[id]" / "page.tsx"
    page.parent.mkdir(parents=True)
    page.touch()
    stored = "acme/engram:app/\\[id]/page.tsx"
    assert normalise("app/[id]/page.tsx", str(project)) == stored
    assert normalise(str(page)) == stored
    assert normalise("page.tsx", str(page.parent)) == stored
    assert normalise(stored, str(project)) == stored
    assert overlap(stored, "acme/engram:app")
    assert not overlap(stored, "acme/engram:app/i/page.tsx")


@paths
def test_a_new_file_or_a_glob_in_a_folder_that_looks_like_a_glob_is_understood(project: Path) -> None:
    (project / "app" / "[id]").mkdir(parents=True)
    assert normalise("app/[id]/new.tsx", str(project)) == "acme/engram:app/\\[id]/new.tsx"
    assert normalise("app/[id]/*.tsx", str(project)) == "acme/engram:app/\\[id]/*.tsx"
    assert normalise("*.tsx", str(project / "app" / "[id]")) == "acme/engram:app/\\[id]/**/*.tsx"


@paths
def test_escaping_makes_any_name_mean_itself_before_it_exists(project: Path) -> None:
    name = "we*ird?[name]\\ "
    stored = normalise(escape(f"{project}/{name}"))
    assert stored == "acme/engram:we\\*ird\\?\\[name]\\\\\\ "
    (project / name).touch()
    assert normalise(escape(f"{project}/{name}")) == stored


@paths
def test_a_backslash_in_an_existing_name_is_part_of_it(project: Path) -> None:
    (project / "a\\b.txt").touch()
    assert normalise("a\\b.txt", str(project)) == "acme/engram:a\\\\b.txt"


CHARACTERS = st.sampled_from([*"ab/:*?[]!\\. ~-", "é", "\n"])
RESOURCES = st.text(CHARACTERS, max_size=12)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A project with names that are hard to tell from patterns; for properties, which change nothing in it."""
    root = make_repository(tmp_path_factory.mktemp("clone"))
    for name in ("a", "b.a", "[ab]", "*", "a:b"):
        (root / name).mkdir()
        (root / name / "a").touch()
    return str(root)


@paths
@given(RESOURCES)
@example("a:/ /")
@example("/a /.")
@example("b.a/\\./..")
@example("[ab]/*/a")
@example("a:/b")
@example("a/b:/a")
def test_a_stored_form_given_again_means_the_same_from_any_folder(clone: str, resource: str) -> None:
    if resource.strip() and not has_controls(resource):
        stored = normalise(resource, clone)
        assert normalise(stored, clone) == stored
        assert normalise(stored, "/usr") == stored
        assert overlap(stored, stored)


@paths
@given(RESOURCES.filter(lambda name: name.strip(".") and "/" not in name))
def test_an_escaped_name_meets_itself_and_its_folder_only(clone: str, name: str) -> None:
    stored = normalise(escape(f"{clone}/a/{name}"))
    assert overlap(stored, "acme/engram:a")
    assert overlap(stored, "acme/engram:*/*")
    assert not overlap(stored, normalise(escape(f"{clone}/a/{name}x")))


@paths
def test_importing_the_module_loads_nothing_heavy() -> None:
    heavy = ["pathlib", "subprocess", "configparser", "dataclasses", "json", "sqlite3", "inspect"]
    program = (
        "import sys; before = set(sys.modules); import engram.coordination.resources;"
        f"print(sorted((set(sys.modules) - before) & set({heavy})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
