"""The pages that a person sees, apart from the consent to a client: see `consent`.

The pages with forms allow the browser to say which page sends a form: under the policy `no-referrer` it would send
`Origin: null`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.responses import Response

from .answers import Answer
from .html import Html, page, tag, together

if TYPE_CHECKING:
    from ...errors import EngramError

_FORMS = {"referrer-policy": "same-origin"}
_PAGE = (b"content-type", b"text/html; charset=utf-8")


def shown(
    title: str, *sections: Html, status: int = 200, refresh: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    """A page of this server."""
    content = page(title, *sections, refresh=refresh)
    return Response(content, status, headers={**_FORMS, **(headers or {})}, media_type="text/html")


def problem_page(title: str, message: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return shown(title, tag("section", tag("h1", title), tag("p", message)), status=status, headers=headers)


def continue_page(address: str) -> Response:
    """Sends the browser on to an address of this server."""
    link = tag("p", tag("a", "Continue", href=address))
    return shown("One moment", tag("section", tag("h1", "One moment"), link), refresh=address)


def login_page(going_to: str, *, about: str | None = None, problem: str | None = None, status: int = 200) -> Response:
    """The form to log in, and then go on to a page of this server."""
    form = tag(
        "form",
        tag("input", type="hidden", name="next", value=going_to),
        tag(
            "p",
            tag("label", "Access token", for_="token"),
            tag(
                "input",
                id="token",
                name="token",
                type="password",
                required=True,
                autofocus=True,
                autocomplete="off",
                aria_describedby="how",
            ),
            class_="field",
        ),
        tag("button", "Log in", type="submit"),
        method="post",
        action="/login",
    )
    here = tag("p", "On the server's machine, this opens a page that is logged in:", class_="quiet")
    how = tag("p", "For another machine, this makes a token there:", id="how", class_="quiet")
    commands = (
        together(here, tag("pre", tag("code", "engram open"))),
        together(how, tag("pre", tag("code", "engram token create NAME --scope write"))),
    )
    why = tag("p", about) if about else None
    wrong = tag("p", problem, class_="bad", role="alert") if problem else None
    section = tag("section", tag("h1", "Log in"), together(why, wrong, form, *commands))
    return shown("Log in", section, status=status)


def problem_answer(error: EngramError | None) -> Answer:
    """The page that says why another one is not shown; None stands for a mistake in Engram."""
    status = 500 if error is None else error.status
    message = (
        "This failed because of a mistake in Engram. The server's log has the details."
        if error is None
        else error.message
    )
    back = tag("p", tag("a", "To the dashboard", href="/"))
    return Answer(
        status, page("Problem", tag("section", tag("h1", "This did not work"), tag("p", message), back)), (_PAGE,)
    )


def nothing_here() -> Answer:
    """The page for an address that leads nowhere."""
    back = tag("p", tag("a", "To the dashboard", href="/"))
    section = tag("section", tag("h1", "There is nothing here"), tag("p", "No page has this address."), back)
    return Answer(404, page("Nothing here", section), (_PAGE,))


def refused_page(error: EngramError, address: str) -> Answer:
    """The page that a browser shows to a person who is not logged in. After the login it goes on to the address."""
    if error.status != 401:
        section = tag("section", tag("h1", "Not allowed"), tag("p", error.message))
        return Answer(error.status, page("Not allowed", section), (_PAGE,))
    login = f"/login?{urlencode({'next': address})}"
    link = tag("p", tag("a", "Log in", href=login, class_="button"))
    section = tag("section", tag("h1", "You are not logged in"), link)
    return Answer(401, page("Log in", section, refresh=login), (_PAGE,))


def link_page(code: str, going_to: str) -> Response:
    form = tag(
        "form",
        tag("input", type="hidden", name="code", value=code),
        tag("input", type="hidden", name="next", value=going_to),
        tag("button", "Log in", type="submit", autofocus=True),
        method="post",
        action="/login",
    )
    about = tag("p", "This link works once. It logs this browser in to Engram.")
    return shown("Log in", tag("section", tag("h1", "Log in"), about, form))
