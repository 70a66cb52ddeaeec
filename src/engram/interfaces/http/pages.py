"""The pages that a person sees, apart from the consent to a client: see `consent`.

The pages with forms allow the browser to say which page sends a form: under the policy `no-referrer` it would send
`Origin: null`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from .answers import Answer
from .html import Html, page, tag, together

if TYPE_CHECKING:
    from ...access_records import Grant
    from ...errors import EngramError

_FORMS = {"referrer-policy": "same-origin"}
_PAGE = (b"content-type", b"text/html; charset=utf-8")
_WHAT = {
    "read": "read everything",
    "write": "read and write",
    "admin": "read, write, delete and administer",
}


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
    how = tag("p", "To make a token, type on the server's machine:", id="how", class_="quiet")
    command = tag("pre", tag("code", "engram token create NAME --scope write"))
    why = tag("p", about) if about else None
    wrong = tag("p", problem, class_="bad", role="alert") if problem else None
    section = tag("section", tag("h1", "Log in"), together(why, wrong, form, how, command))
    return shown("Log in", section, status=status)


def refused_page(error: EngramError) -> Answer:
    """The page that a browser shows to a person who is not logged in."""
    if error.status != 401:
        section = tag("section", tag("h1", "Not allowed"), tag("p", error.message))
        return Answer(error.status, page("Not allowed", section), (_PAGE,))
    link = tag("p", tag("a", "Log in", href="/login", class_="button"))
    section = tag("section", tag("h1", "You are not logged in"), link)
    return Answer(401, page("Log in", section, refresh="/login"), (_PAGE,))


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


def home_page(base: str, grant: Grant, workspaces: list[str]) -> Response:
    who = f"{grant.name} may {_WHAT[grant.scope]}" if grant.name else "the user of this machine"
    about = tag(
        "dl",
        *(tag("dt", "You"), tag("dd", who)),
        *(tag("dt", "Workspaces"), tag("dd", ", ".join(workspaces))),
        *(tag("dt", "Address"), tag("dd", base)),
    )
    log_out = tag("form", tag("button", "Log out", type="submit", class_="second"), method="post", action="/logout")
    status = tag("section", tag("h1", "The server runs"), about, log_out)
    connect = tag(
        "section",
        tag("h2", "Connect an agent"),
        tag("p", "Claude Code asks you for consent in the browser:"),
        tag("pre", tag("code", f"claude mcp add --transport http engram {base}/mcp")),
        tag("p", "Other clients that speak MCP over HTTP take the address ", tag("code", f"{base}/mcp"), "."),
    )
    return shown("The server runs", status, connect)
