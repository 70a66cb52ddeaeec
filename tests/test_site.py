"""The site is built without a warning and loads nothing from another host. `make docs` installs what this needs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.requirement("DOCS-8")
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="`make docs` installs mkdocs")
def test_the_site_is_complete_and_loads_nothing_from_another_host(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert len(pages) > 35
    foreign = r"<(?:script|img|source|iframe|link)\b[^>]*(?:src|srcset|href)=\"?(?:https?:)?//[^\s>]*"
    assert {path.name: found for path, text in pages.items() if (found := re.findall(foreign, text))} == {}
    styles = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.css")]
    assert [
        found for text in styles if (found := re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)\s]*", text))
    ] == []
    # The index of the search, as a script: a page that is opened as a file may not fetch it.
    assert "fencing" in (tmp_path / "search" / "search_index.js").read_text(encoding="utf-8")


@pytest.mark.requirement("DOCS-8")
def test_the_site_is_told_to_load_no_fonts_and_to_treat_warnings_as_errors() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for line in ("strict: true", "  font: false", "  - offline", "    - site/iframe-worker.js"):
        assert f"\n{line}\n" in settings
    assert "anchors: warn" in settings
    assert "http" not in re.sub(r"(?m)^#.*$", "", settings)
    assert "http" not in (ROOT / "docs" / "site" / "extra.css").read_text(encoding="utf-8")
