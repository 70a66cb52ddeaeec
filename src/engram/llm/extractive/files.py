"""The files that an agent says it touched.

Only a line that says so counts: "Updated `registry.go`", "`list.go` — moved the command". What a report merely mentions
was not touched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

MOST: Final = 8
_READ: Final = 40_000
_KNOWN: Final = """
bash bat c cc cfg conf cpp cs css csv dart env ex exs go gradle graphql h hpp html ini ipynb java js json jsonl jsx kt
less lock lua md mjs mod php pl proto ps1 py pyi r rb rs rst sass scala scss sh sql sum svelte swift tf toml ts tsv tsx
txt vue xml yaml yml zig zsh
"""
_ENDINGS: Final = frozenset(_KNOWN.split())
_NAME: Final = re.compile(r"(?<![\w/.@~-])[\w@~.-]*(?:/[\w@.-]+)*\.[A-Za-z0-9]{1,8}\b")
_TOUCHES: Final = re.compile(
    r"\b(?:added|updated|renamed|removed|deleted|created|moved|rewrote|rewritten|refactored|changed|replaced|wrote|fixed"
    r"|extracted|edited|modified|bumped|reverted|split|new file)\b",
    re.IGNORECASE,
)
#: A report on somebody else's changes.
_REPORT: Final = re.compile(r"^#{1,4} [^\n]{0,80}\breview\b", re.IGNORECASE | re.MULTILINE)
#: A line with a file and a colon, and no more words, is the heading of a list.
_HEADING_WORDS: Final = 3
#: A line longer than this is not read.
_LINE: Final = 600


def paths(text: str) -> list[str]:
    """The names of files in a text, each with its folders as far as the text has them."""
    found = []
    for line in text.splitlines():
        for match in _NAME.finditer(line[:_LINE]):
            stem, _, ending = match[0].rpartition("/")[2].rpartition(".")
            if not stem.strip("._-").isdigit() and stem.strip(".") and ending.lower() in _ENDINGS:
                found.append(match[0])
    return found


def named(text: str) -> list[str]:
    """The names of files in a text, without their folders."""
    return [path.rpartition("/")[2] for path in paths(text)]


def touched(messages: Iterable[str]) -> list[str]:
    """The files that messages say were changed, in the order in which they came up; the most named ones if many."""
    counts: Counter[str] = Counter()
    for message in messages:
        message = message[:_READ]
        if _REPORT.search(message):
            continue
        # The file that a list is about: "**`registry.go`:**".
        above: list[str] = []
        for line in message.splitlines():
            names = named(line)
            bare = line.strip(" *#`:\t")
            if names and line.rstrip(" *").endswith(":") and len(bare.split()) <= _HEADING_WORDS:
                above = names
            elif line.strip() and line.lstrip()[:1] not in "-*+•":
                above = []
            if _TOUCHES.search(line[:_LINE]):
                counts.update(above or names)
    most = {name for name, _ in counts.most_common(MOST)}
    return [name for name in counts if name in most]
