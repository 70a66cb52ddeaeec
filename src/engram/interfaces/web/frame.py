"""The frame around every page: the navigation, the question of the page, and where a person logs out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..._version import VERSION
from ...errors import InvalidInput
from ..http.html import Html, document, tag, together
from .icons import icon
from .names import writer
from .request import link

if TYPE_CHECKING:
    from .request import PageRequest


class Page(NamedTuple):
    """What a page shows inside the frame."""

    #: The entry of the navigation that it belongs to: a name in `NAVIGATION`.
    place: str
    #: What the page answers, in a few words. It is the heading.
    question: str
    body: Html
    #: The title of the window; the name of the place if it is empty.
    title: str = ""
    #: What stands beside the heading, such as a switch.
    beside: Html | None = None
    status: int = 200
    #: The kinds of changes after which the heading and what stands beside it are loaded again.
    live: str | None = None


class Place(NamedTuple):
    label: str
    path: str
    #: The key that goes there after `g`.
    key: str


#: In the order in which they are shown.
NAVIGATION: dict[str, Place] = {
    "now": Place("Now", "", "n"),
    "search": Place("Search", "search", "s"),
    "memory": Place("Memory", "memory", "m"),
    "blocks": Place("Blocks", "blocks", "b"),
    "time": Place("Time", "time", "t"),
    "dreams": Place("Dreams", "dreams", "d"),
    "graph": Place("Graph", "graph", "r"),
    "system": Place("System", "system", "y"),
}


class Counts(NamedTuple):
    """What waits for the person; shown beside the entries of the navigation."""

    #: Unread messages to the person.
    now: int = 0
    #: Memories to approve.
    memory: int = 0
    #: Proposals to decide.
    dreams: int = 0


def framed(request: PageRequest, page: Page, counts: Counts) -> bytes:
    """The whole document."""
    title = page.title or NAVIGATION[page.place].label
    skip = tag("a", "Skip to the content", href="#content", class_="skip")
    heading = tag(
        "header", tag("h1", page.question), page.beside, class_="page-head", id="page-head", data_live=page.live
    )
    main = tag("main", heading, page.body, id="content", tabindex="-1")
    body = tag(
        "body",
        skip,
        _sidebar(request, page.place, counts),
        main,
        tag("div", id="notices", role="status", aria_live="polite"),
        class_="framed",
        data_workspace=request.workspace,
        data_place=page.place,
        data_now=request.now,
        data_change=str(request.change),
    )
    head = together(
        # It is loaded before anything is shown: otherwise a dark page would begin with a white flash.
        tag("script", src="/static/theme.js"),
        *(tag("link", rel="stylesheet", href=f"/static/{name}.css") for name in ("frame", page.place)),
        tag("script", src="/static/app.js", type="module"),
    )
    return document(f"{title} · {request.workspace}", body, head=head)


def navigation_page(request: PageRequest) -> Page:
    """What `navigation_alone` needs to know of an open page: its place."""
    place = request.text("place")
    if place not in NAVIGATION:
        raise InvalidInput("There is no such place in the navigation.")
    return Page(place, "", Html(""))


def navigation_alone(request: PageRequest, page: Page, counts: Counts) -> bytes:
    """The navigation without a page. Open pages load it when only their counts have changed."""
    return document("Navigation", tag("body", _navigation(request, page.place, counts)))


def writer_page(request: PageRequest) -> Page:
    """Who wrote a version of a text. A page asks when two edits meet, because the API knows only ids and tokens."""
    return Page("now", "", tag("p", writer(request, request.text("author") or None, request.text("actor") or None)))


def writer_alone(request: PageRequest, page: Page, counts: Counts) -> bytes:
    return document("Writer", tag("body", page.body))


def _sidebar(request: PageRequest, place: str, counts: Counts) -> Html:
    brand = tag(
        "a",
        tag("span", class_="mark", aria_hidden="true"),
        tag("span", "Engram", class_="word"),
        href=request.link(),
        class_="home",
        aria_label="Engram, to the page Now",
    )
    navigation = _navigation(request, place, counts)
    shown = (brand, _workspaces(request), navigation, _foot(request))
    return tag("aside", *shown, aria_label="Engram", class_="sidebar")


def _navigation(request: PageRequest, place: str, counts: Counts) -> Html:
    entries = [_entry(request, name, each, place, counts) for name, each in NAVIGATION.items()]
    return tag("nav", tag("ul", *entries), aria_label="Pages", id="navigation", data_live="message memory proposal")


def _entry(request: PageRequest, name: str, each: Place, place: str, counts: Counts) -> Html:
    waiting: int = getattr(counts, name, 0)
    # More digits do not fit into an entry of the bar on a phone.
    shown = str(waiting) if waiting < 100 else "99+"
    badge = tag("span", shown, class_="count", title=f"{waiting:,} waiting for you") if waiting else None
    return tag(
        "li",
        tag(
            "a",
            icon(name),
            tag("span", each.label),
            badge,
            href=request.link(*filter(None, [each.path])),
            aria_current="page" if name == place else None,
            data_key=each.key,
            title=f"{each.label} (g {each.key})",
        ),
    )


def _workspaces(request: PageRequest) -> Html:
    """The chooser of the workspace. With only one there is nothing to choose."""
    if len(request.workspaces) < 2:
        return tag("p", request.workspace, class_="workspace", title="Workspace")
    options = [tag("option", name, value=link(name), selected=name == request.workspace) for name in request.workspaces]
    label = tag("label", "Workspace", for_="workspace", class_="unseen")
    return tag(
        "div",
        label,
        tag("select", *options, id="workspace", data_go=True, title="With the keyboard, Enter goes there"),
        class_="workspace",
    )


def _foot(request: PageRequest) -> Html:
    who = request.grant.name or "this machine's user"
    buttons = together(
        tag("button", icon("sun"), type="button", class_="plain", data_theme_switch=True, aria_label="Light or dark"),
        tag("button", "?", type="button", class_="plain", data_help=True, aria_label="Keyboard shortcuts"),
        tag(
            "form",
            tag("button", icon("out"), type="submit", class_="plain", aria_label="Log out", title="Log out"),
            method="post",
            action="/logout",
        ),
    )
    return tag(
        "div",
        tag("p", f"{who} · {VERSION}", class_="quiet", id="who"),
        tag("div", buttons, class_="row"),
        class_="foot",
    )
