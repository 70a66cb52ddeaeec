"""HTML that cannot be broken by what it shows: every text is escaped unless it is HTML already.

The pages are few and small, so a function for an element is enough, and no template language is needed.
"""

from __future__ import annotations

from html import escape

#: Elements that have no content.
_VOID = frozenset({"meta", "link", "input", "br"})
STYLE = "/static/engram.css"


class Html(str):
    """Text that is HTML."""

    __slots__ = ()


def tag(element: str, /, *content: str | None, **attributes: str | bool | None) -> Html:
    """An element. Text in it is escaped. An attribute that is None or False is left out. `class_` means `class`."""
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value, quote=True)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if element in _VOID:
        return Html(f"<{element}{given}>")
    return Html(f"<{element}{given}>{together(*content)}</{element}>")


def together(*content: str | None) -> Html:
    """Several pieces, one after the other."""
    shown = (each if isinstance(each, Html) else escape(each, quote=True) for each in content if each is not None)
    return Html("".join(shown))


def page(title: str, *sections: Html, refresh: str | None = None) -> bytes:
    """A whole page. With `refresh` the browser goes on to that address by itself."""
    head = together(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="refresh", content=f"0; url={refresh}") if refresh else None,
        tag("title", f"{title} · Engram"),
        tag("link", rel="stylesheet", href=STYLE),
    )
    brand = tag("p", "Engram", class_="brand")
    body = tag("body", tag("main", brand, *sections))
    return f"<!doctype html>\n{tag('html', tag('head', head), body, lang='en')}\n".encode()
