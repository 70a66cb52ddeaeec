"""Markdown that the generated pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, with an empty line behind it."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(_cell(each) for each in line) + " |\n" for line in lines) + "\n"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
