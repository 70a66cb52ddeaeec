"""Stored text in Markdown pages, so that it stays in its place and means nothing but itself.

A text of several lines stands in a fence that is longer than any row of backticks in it, so it cannot end the fence,
and nothing in it is a heading, a link, HTML or front matter. A text on one line has its punctuation escaped. Names of
files have only letters, digits and hyphens, and a part of a hash, so that two different names never meet.
"""

from __future__ import annotations

import hashlib
import re

from ..safe_text import lines, one_line

#: Every character that means something in the middle of a line of Markdown. A colon and an @ make addresses to links. A
#: colon that ends a word, or stands between digits as in a time, is part of none.
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#!|~@]|:(?!(?<=\S:)(?=\s|$)|(?<=[0-9]:)[0-9]))")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?Z?", re.ASCII)
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_TICKS = re.compile("`+")
_UNSAFE = re.compile(r"[^a-z0-9]+")
#: Characters of a title, and of a name that become part of a file's name.
LONGEST = 200
_SLUG = 40


def inline(text: str, longest: int = LONGEST) -> str:
    """A text on one line, as plain words."""
    escaped = _PUNCTUATION.sub(r"\\\1", one_line(text, longest))
    return "".join(_HTML.get(sign, sign) for sign in escaped)


def stamp(text: str) -> str:
    """A time of the store as a person reads it: `2026-11-16 09:00 UTC`; anything else as plain words."""
    found = _STAMP.fullmatch(text)
    return f"{found[1]} {found[2]} UTC" if found else inline(text)


def fenced(text: str) -> str:
    """A text of any number of lines, exactly as it is, apart from characters that control a terminal."""
    shown = lines(text)
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def file_name(name: str, *about: str) -> str:
    """A name for a page, without an ending: readable as far as possible, and different for different names."""
    digest = hashlib.sha256("\0".join((name, *about)).encode("utf-8", "surrogatepass")).hexdigest()[:10]
    slug = _UNSAFE.sub("-", name.casefold())[:_SLUG].strip("-")
    return f"{slug}-{digest}" if slug else digest


def link(text: str, page: str) -> str:
    """A link to another page of the export. The page is a name that `file_name` made."""
    return f"[{inline(text) or page}]({page})"
