"""Stored Markdown as HTML that can do nothing but be read.

HTML in the text is shown as text. A link keeps only harmless kinds of addresses and says nothing about this server. An
image becomes a link, because loading it would tell another server that the page was read.

Nothing of the text vanishes: a person who reads a page reads what agents read. Markdown leaves out some things, such as
the definition of a link, or what is nested too deeply. Such a text is shown as it is stored. So is a text that would
become much larger than it is, or would take long.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from ...safe_text import HARMFUL, lines
from ..http.html import Html, escaped, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: A longer text is shown as it is. Markdown's worst cases take time that grows with the square of the length.
LONGEST = 40_000
#: Lists and quotations inside each other, at most.
_DEEPEST = 12
#: Opening brackets of a paragraph: each is tried as a link until the end.
_MOST_BRACKETS = 200
#: Cells of all tables: at most; and those that a text may have in addition to one for every few of its characters. A
#: row is filled up to the number of columns, so a short text could make a huge table.
_MOST_CELLS, _FREE_CELLS, _CELL = 2_000, 100, 2
#: The HTML of a text is at most this much larger than the text.
_GROWTH, _FREE = 20, 10_000
_SAFE_SCHEMES = ("http", "https", "mailto")
#: Sources that a line names at its end: `[m12, e7]`. See `memory.citations`.
_SOURCES = re.compile(r"\[([a-z]\d{1,15}(?:, ?[a-z]\d{1,15})*)\]")
#: The line below the heads of a table, perhaps in a quotation.
_DELIMITERS = re.compile(r"[ \t>|:-]++")
#: A word, or a sign that is not Markdown.
_WORD = re.compile(r"[^\W_]+|[^\x00-\x7f\s]")
#: A tag of HTML.
_TAG = re.compile(r"<[^<>]*+>")
#: Markdown decodes entities, so these may come back. Line ends are part of the HTML.
_CONTROLS = {code: sign for code, sign in HARMFUL.items() if code != ord("\n")}
#: Headings of a stored text are below those of the page.
_HEADING = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}


#: The address of a source, such as `m12`; None if it has no page.
Address = Callable[[str], str | None]


def markdown(text: str, sources: Address | None = None) -> Html:
    """The text, rendered. With `sources`, the sources that it names become links."""
    # Lines stay, but nothing that could change the direction of the text around it.
    shown = lines(text)
    if len(shown) > LONGEST or _is_costly(shown):
        return source(text)
    env: dict[str, Any] = {"sources": sources}
    renderer = _renderer()
    tokens = renderer.parse(shown, env)
    if env.get("references"):
        # The definitions of links are not shown, and an address may stand far from its link.
        return source(text)
    made = str(renderer.renderer.render(tokens, renderer.options, env)).translate(_CONTROLS)
    if len(made) > _GROWTH * len(shown) + _FREE or not _says(made, tokens, shown):
        return source(text)
    return tag("div", Html(made), class_="prose")


def without_sources(text: str) -> str:
    """A text without the sources that its lines name, for a place where they cannot be links."""
    return _SOURCES.sub("", text)


def source(text: str) -> Html:
    """The text as it is stored, line by line."""
    shown = lines(text)
    # A browser drops a line end directly after the tag.
    return tag("pre", "\n" if shown.startswith("\n") else None, shown, class_="source")


def _is_costly(text: str) -> bool:
    """Whether rendering the text would take long, or make much of little."""
    if any(each.count("[") > _MOST_BRACKETS for each in text.split("\n\n")):
        return True
    most = min(_MOST_CELLS, _FREE_CELLS + len(text) // _CELL)
    return sum(_cells(text.split("\n"))) > most


def _cells(text: Sequence[str]) -> Iterator[int]:
    """The number of cells of each table. A table ends at the latest with an empty line."""
    columns = 0
    for line in text:
        if not line.strip():
            columns = 0
        elif "|" in line and "-" in line and _DELIMITERS.fullmatch(line):
            columns = max(columns, line.strip(" \t>|").count("|") + 1)
        yield columns


def _says(html: str, tokens: Sequence[Token], text: str) -> bool:
    """Whether every word of the text is in the HTML, as often as in the text."""
    words = _words(unescape(_TAG.sub(" ", html.replace("<wbr>", ""))))
    # The browser writes the numbers of a list, as `_tame` says them.
    for token in tokens:
        if token.type == "list_item_open":
            words.update(_words(token.info))
    return _words(text) <= words or _words(unescape(text)) <= words


def _words(text: str) -> Counter[str]:
    # Markdown encodes addresses.
    return Counter(_WORD.findall(unquote(text)))


def named_sources(text: str) -> set[str]:
    """The sources that a text names: `m12`, `e7`."""
    return {each.strip() for found in _SOURCES.finditer(text) for each in found[1].split(",")}


@lru_cache(maxsize=1)
def _renderer() -> MarkdownIt:
    # Imported here: the command line and the hooks never need it.
    from markdown_it import MarkdownIt

    made = MarkdownIt("js-default", {"html": False, "linkify": False, "breaks": True, "maxNesting": _DEEPEST})
    made.validateLink = _is_harmless  # type: ignore[method-assign,assignment]
    # An image is parsed as a link with its description as text.
    made.disable("image")
    made.core.ruler.push("engram", _tame)
    made.add_render_rule("text", _plain)
    made.add_render_rule("code_inline", _code)
    made.add_render_rule("code_block", _fence)
    made.add_render_rule("fence", _fence)
    return made


def _is_harmless(address: str) -> bool:
    scheme, colon, _ = address.strip().partition(":")
    return bool(colon) and scheme.lower() in _SAFE_SCHEMES


def _tame(state: object) -> None:
    tokens: Sequence[Token] = state.tokens  # type: ignore[attr-defined]
    sources: Address | None = state.env.get("sources")  # type: ignore[attr-defined]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _HEADING.get(token.tag, token.tag)
        elif token.type == "list_item_open" and token.info:
            # Otherwise the browser would count by itself, whatever the text says.
            token.attrs = {"value": token.info}
        elif token.type in ("th_open", "td_open"):
            # The content policy allows no inline style.
            token.attrs = {"class": "right"} if "right" in str(token.attrs.get("style", "")) else {}
        if token.children:
            token.children = list(_with_addresses(token.children))
        if sources and token.children:
            token.children = [made for child in token.children for made in _with_sources(child, sources)]


def _plain(renderer: object, tokens: Sequence[Token], at: int, options: object, env: object) -> str:
    return escaped(tokens[at].content)


def _code(renderer: object, tokens: Sequence[Token], at: int, options: object, env: object) -> str:
    return tag("code", tokens[at].content)


def _fence(renderer: object, tokens: Sequence[Token], at: int, options: object, env: object) -> str:
    """A piece of code, below what is said about it: usually its language."""
    token = tokens[at]
    about = tag("p", token.info.strip(), class_="fence-info") if token.info.strip() else ""
    return f"{about}{tag('pre', tag('code', token.content))}\n"


def _with_addresses(children: Sequence[Token]) -> Iterator[Token]:
    """The pieces of a text, with what only a link's attributes would have: its address and its title."""
    hidden: list[str] = []
    for child in children:
        yield child
        if child.type == "link_open":
            address, title = str(child.attrs.get("href", "")), str(child.attrs.get("title", ""))
            # The text of an automatic link is its address.
            told = [address if child.markup != "autolink" else "", title]
            hidden.append(", ".join(filter(None, told)))
            child.attrs = {"href": address, "rel": "noopener noreferrer nofollow", "target": "_blank"}
        elif child.type == "link_close" and hidden and (about := hidden.pop()):
            yield _text(child, f" ({about})")


def _with_sources(child: Token, address: Address) -> list[Token]:
    """A piece of text, with links in the place of the sources that it names."""
    if child.type != "text" or not _SOURCES.search(child.content):
        return [child]
    made: list[Token] = []
    at = 0
    for found in _SOURCES.finditer(child.content):
        handles = [each.strip() for each in found[1].split(",")]
        links = [(each, address(each)) for each in handles]
        if not all(where for _, where in links):
            continue
        made.append(_text(child, child.content[at : found.start()].rstrip()))
        for handle, where in links:
            opening = _piece(child, "link_open", "a", 1)
            opening.attrs = {"href": str(where), "class": "source"}
            made += [_text(child, " "), opening, _text(child, handle), _piece(child, "link_close", "a", -1)]
        at = found.end()
    return [*made, _text(child, child.content[at:])]


def _piece(like: Token, type: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
    # The class is that of the parser's own tokens, so nothing has to be imported before it is needed.
    return like.__class__(type, tag, nesting)


def _text(like: Token, content: str) -> Token:
    made = _piece(like, "text", "", 0)
    made.content = content
    return made
