"""Which project a folder belongs to, and what it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from engram import Engram
from engram.coordination.projects import Project, absolute, project_above, project_name, real_path
from engram.coordination.resources import normalise
from tests._repositories import ORIGIN, make_repository, project, remote

__all__ = ["project"]

paths = pytest.mark.requirement("LEASE-PATHS")


def find_project(folder: str) -> Project | None:
    """The project that a folder belongs to."""
    return project_above(real_path(absolute(folder)))


def run_git(*arguments: str, cwd: Path) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    clean = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *identity, *arguments], cwd=cwd, env=clean, check=True, capture_output=True)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def test_the_project_of_a_folder_is_what_its_settings_say_and_not_what_this_shell_says(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_PROJECT", "another")
    (plain := tmp_path / "plain").mkdir()
    assert [Engram.project_of(str(folder)) for folder in (project, plain)] == ["acme/engram", "plain"]
    (plain / ".engram.toml").write_text('project = "chosen"\n')
    assert Engram.project_of(str(plain)) == "chosen"
    assert Engram.project_of("a\0b") is None


@paths
def test_a_project_is_found_from_any_folder_below_its_root(project: Path) -> None:
    expected = Project("acme/engram", str(project))
    assert find_project(str(project)) == expected
    assert find_project(str(project / "src")) == expected
    assert find_project(str(project / "src" / "not" / "there" / "yet")) == expected


@paths
def test_a_folder_outside_every_project_has_none_but_lends_its_name(tmp_path: Path) -> None:
    assert find_project(str(tmp_path)) is None
    (tmp_path / "notes").mkdir()
    assert project_name(str(tmp_path / "notes")) == "notes"
    assert project_name("/") == ""


@paths
def test_a_session_belongs_to_the_project_of_the_current_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "docs")
    assert project_name() == "acme/engram"
    assert normalise("../src/router.py") == "acme/engram:src/router.py"


@paths
def test_a_marker_file_makes_a_project_named_after_its_folder(tmp_path: Path) -> None:
    (tmp_path / "plain" / "deep").mkdir(parents=True)
    (tmp_path / "plain" / ".engram.toml").touch()
    assert find_project(str(tmp_path / "plain" / "deep")) == Project("plain", str(tmp_path / "plain"))


@paths
def test_the_nearest_project_wins(project: Path) -> None:
    (project / "packages" / "web").mkdir(parents=True)
    (project / "packages" / "web" / ".engram.toml").touch()
    assert normalise("packages/web/a.ts", str(project)) == "web:a.ts"


@paths
def test_a_project_is_known_by_its_real_path(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    assert find_project(str(tmp_path / "link" / "src")) == Project("acme/engram", str(project))
    assert find_project(f"/{project}") == Project("acme/engram", str(project))


@paths
def test_a_folder_that_becomes_a_repository_is_a_project_at_once(tmp_path: Path) -> None:
    assert normalise("a.py", str(tmp_path)) == f"{tmp_path}/a.py"
    make_repository(tmp_path)
    assert normalise("a.py", str(tmp_path)) == "acme/engram:a.py"


@paths
def test_a_changed_remote_is_noticed(project: Path) -> None:
    config = project / ".git" / "config"
    assert project_name(str(project)) == "acme/engram"
    before = config.stat().st_mtime_ns
    config.write_text(remote("git@github.com:other/engram.git"))
    os.utime(config, ns=(before + 1, before + 1))
    assert project_name(str(project)) == "other/engram"


@paths
@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/acme/engram.git", "acme/engram"),
        ("https://github.com/acme/engram", "acme/engram"),
        ("https://github.com/acme/engram/", "acme/engram"),
        ("https://gitlab.com/group/sub/engram.git", "sub/engram"),
        ("https://example.org/engram.git", "engram"),
        ("ssh://git@example.org:22/acme/engram", "acme/engram"),
        ("git@github.com:acme/engram.git", "acme/engram"),
        ("git@example.org:engram.git", "engram"),
        ("example.org:~ann/engram.git", "-ann/engram"),
        ("https://git.sr.ht/~ann/engram", "-ann/engram"),
        ("/srv/git/engram.git", "engram"),
        ("/srv/git/engram/.git", "engram"),
        ("../engram", "engram"),
        ("file:///srv/git/engram.git", "engram"),
        ("https://example.org/acme/a b:c.git", "acme/a-b-c"),
        ("https://example.org/acme/a\x07b", "acme/a-b"),
        ('"https://example.org/acme/engram.git" # a comment', "acme/engram"),
        ("https://example.org/acme/engram.git ; a comment", "acme/engram"),
        ("https://example.org", "clone"),
        ("https://example.org/../..git", "clone"),
        ("https://example.org/" + "x" * 5000, "clone"),
        ("", "clone"),
    ],
)
def test_the_name_is_the_slug_of_the_remote(tmp_path: Path, url: str, name: str) -> None:
    root = make_repository(tmp_path / "clone", remote(url))
    assert project_name(str(root)) == name
    stored = normalise("src/a.py", str(root))
    assert stored == f"{name}:src/a.py"
    assert normalise(stored, "/") == stored


@paths
@pytest.mark.parametrize(
    "url",
    [
        "https://ann:s3cret@example.org/acme/engram.git",
        "https://s3cret@example.org/engram.git",
        "https://ann:s3cret@example.org",
        "https://ann:a/s3cret@example.org/engram",
        "https://example.org/acme/engram.git?token=s3cret",
        "https://example.org/engram#s3cret",
        "ssh://ann:s3cret@example.org:22/engram",
        "ann:s3cret@example.org:acme/engram",
        "ann:a/s3cret@example.org:engram",
        "file://ann:s3cret@example.org/engram",
    ],
)
def test_credentials_in_a_remote_stay_out_of_the_name(tmp_path: Path, url: str) -> None:
    name = project_name(str(make_repository(tmp_path / "clone", remote(url))))
    assert "s3cret" not in name
    assert "ann" not in name


@paths
@pytest.mark.parametrize(
    ("config", "name"),
    [
        ('[remote "fork"]\nurl = x:me/fork\n[remote "origin"]\nurl = x:acme/engram\n', "acme/engram"),
        ('[remote "b"]\nurl = x:b/b\n[remote "a"]\nurl = x:a/a\n', "b/b"),
        ('[remote "origin"] url = x:acme/engram\n', "acme/engram"),
        ('[REMOTE "origin"]\r\n  URL=x:acme/engram\r\n', "acme/engram"),
        ('[remote "origin"]\npushurl = x:no/no\n[branch "url"]\nurl = x:no/no\n', "clone"),
        ('; url = x:no/no\n[remote "origin"]\n# url = x:no/no\nurl = x:acme/engram\n', "acme/engram"),
        ("[remote\nurl\n=\n[]]\n\x00\x01", "clone"),
        ("", "clone"),
    ],
)
def test_a_git_configuration_is_read_as_git_reads_it(tmp_path: Path, config: str, name: str) -> None:
    assert project_name(str(make_repository(tmp_path / "clone", config))) == name


@paths
def test_a_configuration_that_cannot_be_read_leaves_the_folder_s_name(tmp_path: Path) -> None:
    no_config = tmp_path / "no-config"
    (no_config / ".git").mkdir(parents=True)
    folder_as_config = tmp_path / "folder-as-config"
    (folder_as_config / ".git" / "config").mkdir(parents=True)
    binary = make_repository(tmp_path / "binary")
    (binary / ".git" / "config").write_bytes(b"\xff\xfe[remote\x00")
    for root in (no_config, folder_as_config, binary):
        assert project_name(str(root)) == root.name


@paths
@pytest.mark.parametrize("content", ["", "gitdir: /does/not/exist\n", "gitdir:", "nonsense", "gitdir: a\x00b"])
def test_a_git_file_that_leads_nowhere_leaves_the_folder_s_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / ".git").write_text(content)
    (tmp_path / "clone" / "config").write_text(ORIGIN)
    assert project_name(str(tmp_path / "clone")) == "clone"


@paths
def test_a_folder_s_name_is_made_fit_to_stand_before_a_colon(tmp_path: Path) -> None:
    root = tmp_path / "~my: pro\tject"
    root.mkdir()
    (root / ".engram.toml").touch()
    stored = normalise("a.py", str(root))
    assert stored == "-my--pro-ject:a.py"
    assert normalise(stored, "/") == stored


@paths
def test_a_submodule_is_a_project_of_its_own(project: Path) -> None:
    modules = project / ".git" / "modules" / "vendor"
    modules.mkdir(parents=True)
    (modules / "config").write_text(remote("https://example.org/lib/vendor.git"))
    (project / "vendor").mkdir()
    (project / "vendor" / ".git").write_text("gitdir: ../.git/modules/vendor\n")
    assert normalise("vendor/a.c", str(project)) == "lib/vendor:a.c"


@paths
@needs_git
def test_worktrees_share_the_resources_of_their_repository(tmp_path: Path) -> None:
    main, worktree = tmp_path / "main", tmp_path / "worktree"
    main.mkdir()
    run_git("init", cwd=main)
    assert project_name(str(main)) == "main"
    run_git("commit", "--allow-empty", "-m", "first", cwd=main)
    run_git("remote", "add", "origin", "https://ann:s3cret@example.org/acme/engram.git", cwd=main)
    run_git("worktree", "add", str(worktree), cwd=main)
    assert find_project(str(worktree)) == Project("acme/engram", str(worktree))
    assert normalise("a.py", str(worktree)) == normalise("a.py", str(main)) == "acme/engram:a.py"
