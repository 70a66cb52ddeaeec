"""Folders that look like git clones, for tests of paths."""

from __future__ import annotations

from pathlib import Path

import pytest

ORIGIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = git@github.com:acme/engram.git\n'


def make_repository(root: Path, config: str = ORIGIN) -> Path:
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text(config)
    return root


def remote(url: str) -> str:
    return f'[remote "origin"]\n\turl = {url}\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A clone of acme/engram, with a few files."""
    root = make_repository(tmp_path / "clone")
    for name in ("src/router.py", "docs/index.md", "Makefile"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    return root
