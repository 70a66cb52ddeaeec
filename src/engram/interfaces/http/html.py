"""HTML that cannot be broken by what it shows: every text is escaped unless it is HTML already.

The pages are few and small, so a function for an element is enough, and no template language is needed.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape

#: Elements that have no content.
_VOID = frozenset({"meta", "link", "input", "br", "hr"})
#: Elements that hold only text.
_ONLY_TEXT = frozenset({"textarea", "option", "title", "script"})
#: A word with more characters can be broken after each piece. Without such places a browser takes minutes to lay out
#: a word of 20,000 letters.
_LONG_WORD, _PIECE = 200, 100
_SPACES = re.compile(r"(\s+)")
#: The style of every page. The pages of the dashboard have more: see `web.frame`.
STYLES = ("/static/base.css", "/static/parts.css")


class Html(str):
    """Text that is HTML."""

    __slots__ = ()


def tag(element: str, /, *content: str | None, **attributes: str | bool | None) -> Html:
    """An element. Text in it is escaped. An attribute that is None or False is left out. `class_` means `class`."""
    # A page has thousands of elements, so this is written for speed.
    made = ["<", element]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        made.append(_attribute(key) if value is True else f'{_attribute(key)}="{escape(value, quote=True)}"')
    made.append(">")
    if element not in _VOID:
        write = escape if element in _ONLY_TEXT else escaped
        made += [each if isinstance(each, Html) else write(each) for each in content if each is not None]
        made += ("</", element, ">")
    return Html("".join(made))


def together(*content: str | None) -> Html:
    """Several pieces, one after the other."""
    return Html("".join([each if isinstance(each, Html) else escaped(each) for each in content if each is not None]))


def escaped(text: str) -> str:
    """A text as HTML. Very long words get places where they may be broken."""
    if len(text) <= _LONG_WORD or all(len(word) <= _LONG_WORD for word in text.split()):
        return escape(text)
    return "".join([_with_breaks(each) for each in _SPACES.split(text)])


def _with_breaks(word: str) -> str:
    if len(word) <= _LONG_WORD:
        return escape(word)
    return "<wbr>".join([escape(word[at : at + _PIECE]) for at in range(0, len(word), _PIECE)])


@cache
def _attribute(key: str) -> str:
    """How the name of an attribute is written. The names are those in the code, so there are few."""
    return f" {key.rstrip('_').replace('_', '-')}"


def document(title: str, body: Html, *, refresh: str | None = None, head: Html | None = None) -> bytes:
    """A whole HTML document. With `refresh` the browser goes on to that address by itself."""
    common = together(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="refresh", content=f"0; url={refresh}") if refresh else None,
        tag("title", f"{title} · Engram"),
        *(tag("link", rel="stylesheet", href=each) for each in STYLES),
        tag("link", rel="icon", href="/static/engram.svg", type="image/svg+xml"),
    )
    whole = tag("html", tag("head", common, head), body, lang="en")
    return f"<!doctype html>\n{whole}\n".encode("utf-8", "replace")


def page(title: str, *sections: Html, refresh: str | None = None) -> bytes:
    """A small page, such as the one to log in: one column of sections."""
    brand = tag("p", "Engram", class_="brand")
    body = tag("body", tag("main", brand, *sections, class_="column"))
    return document(title, body, refresh=refresh)
