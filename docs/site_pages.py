"""What mkdocs needs to make a site of documents that are written for GitHub too.

README, CHANGELOG and CONTRIBUTING are outside docs/ and become pages. A link that leaves the documents, such as one to
a source file, becomes text, because the site does not contain its target. Headings get the anchors that GitHub gives
them, so a link works in both places. mkdocs finds the functions by their names (mkdocs.yml, `hooks`).
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

ROOT = Path(__file__).parent.parent
#: Documents at the root of the repository, and the page that each becomes.
AT_ROOT = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")


def slug(title: str, separator: str = "-") -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def for_site(text: str, page: str) -> str:
    """The text of a page of the site, with links that work there."""
    at_root = page in AT_ROOT.values()
    folder = "" if at_root else dirname(f"docs/{page}")

    def linked(link: re.Match[str]) -> str:
        words, target = link.groups()
        place, hash, anchor = target.partition("#")
        if not place or re.match(r"\w+:", place):
            return link[0]
        found = normpath(f"{folder}/{place}" if folder else place)
        inside = AT_ROOT.get(found) or (found.removeprefix("docs/") if found.startswith("docs/") else None)
        if inside is None:
            return words if (ROOT / found).exists() else link[0]
        return f"[{words}]({relpath(inside, dirname(page) or '.')}{hash}{anchor})"

    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(linked, part) for part in parts[::2]]
    text = "".join(parts)
    return re.sub(r'(src|srcset)="docs/', r'\1="', text) if at_root else text


def on_config(config: Any) -> Any:
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, page in AT_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    return for_site(markdown, page.file.src_uri)
