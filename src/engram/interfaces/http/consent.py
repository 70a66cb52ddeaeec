"""What a person sees when a client asks to be let in: the question, and what came of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from mcp.server.auth.provider import construct_redirect_uri
from starlette.responses import Response

from ...access.clients import plain_name
from ...access_records import SCOPES
from . import browser
from .html import Html, tag, together
from .oauth_store import highest

if TYPE_CHECKING:
    from mcp.server.auth.provider import AuthorizationParams
    from mcp.shared.auth import OAuthClientInformationFull

    from ...access_records import Grant

#: What clients are told that they can ask for. A person can give more, but no client asks for that by default.
OFFERED = ("read", "write")
_CHOICES = {
    "read": ("Read", "Search and read everything in the workspace."),
    "write": ("Read and write", "Also remember, claim files, send messages and write shared texts."),
    "admin": ("Everything", "Also forget, delete and dream. Give this only to a program that you trust fully."),
}


class Asked(NamedTuple):
    """What a client asks a person for."""

    client: OAuthClientInformationFull
    params: AuthorizationParams

    @property
    def name(self) -> str:
        return plain_name(self.client.client_name)

    @property
    def address(self) -> str:
        return str(self.params.redirect_uri)

    def fields(self) -> dict[str, str]:
        """The request again, as the consent form sends it back to be checked once more."""
        given = {
            "client_id": self.client.client_id,
            "redirect_uri": self.address if self.params.redirect_uri_provided_explicitly else None,
            "response_type": "code",
            "code_challenge": self.params.code_challenge,
            "code_challenge_method": "S256",
            "state": self.params.state,
            "scope": " ".join(self.params.scopes) if self.params.scopes else None,
            "resource": self.params.resource,
        }
        return {name: value for name, value in given.items() if value is not None}


def wrong_request(response: Response) -> Response:
    """The page for a request that the SDK refuses. It sends the browser nowhere: anybody can make such a request."""
    there = response.headers.get("location")
    if there is None:
        try:
            problem = json.loads(bytes(response.body)).get("error_description")
        except (ValueError, AttributeError):
            problem = None
        return problem_page(str(problem or "The request cannot be read."), None)
    return problem_page("The client's request is not valid.", there)


def problem_page(message: str, answer: str | None) -> Response:
    link = tag("p", tag("a", "Tell the client", href=answer, rel="noreferrer"), class_="quiet") if answer else None
    section = tag("section", tag("h1", "This does not work"), together(tag("p", message), link))
    return browser.shown("This does not work", section, status=400)


def leads_on(title: str, message: str, asked: Asked, base: str, **answer: str) -> Response:
    """The page after the decision. It leads back to the client."""
    there = construct_redirect_uri(asked.address, **answer, state=asked.params.state, iss=base)
    section = tag(
        "section",
        tag("h1", title),
        tag("p", message),
        tag("p", tag("a", "Continue", href=there, class_="button", rel="noreferrer")),
        tag("p", "If nothing happens, press Continue. Then you can close this page.", class_="quiet"),
    )
    return browser.shown(title, section, refresh=there)


def consent_page(asked: Asked, grant: Grant, workspaces: list[str], usual: str) -> Response:
    own = SCOPES[: SCOPES.index(grant.scope) + 1]
    wished = highest([scope for scope in asked.params.scopes or OFFERED if scope in OFFERED]) or OFFERED[0]
    chosen = wished if wished in own else own[-1]
    may = tag("fieldset", tag("legend", "What may it do?"), *(_choice(scope, scope == chosen) for scope in own))
    options = [tag("option", name, value=name, selected=name == usual) for name in workspaces]
    if grant.workspace is None:
        options.append(tag("option", "All workspaces", value=""))
    where = tag(
        "p",
        tag("label", "In which workspace?", for_="workspace"),
        tag("select", *options, id="workspace", name="workspace"),
        class_="field",
    )
    buttons = tag(
        "p",
        tag("button", "Allow", type="submit", name="decision", value="allow"),
        tag("button", "Deny", type="submit", name="decision", value="deny", class_="second"),
        class_="buttons",
    )
    hidden = (tag("input", type="hidden", name=name, value=value) for name, value in asked.fields().items())
    form = tag("form", *hidden, may, where, buttons, method="post", action="/authorize")
    facts = tag(
        "dl",
        *(tag("dt", "Program"), tag("dd", asked.name)),
        *(tag("dt", "Answers go to"), tag("dd", _place(asked.address))),
        *(tag("dt", "It asks to"), tag("dd", " and ".join(asked.params.scopes or ["use Engram"]))),
        *(tag("dt", "You"), tag("dd", grant.name or "the user of this machine")),
    )
    warning = tag("p", "The name is what the program calls itself. Allow it only if you have just started it.")
    section = tag("section", tag("h1", f"Let {asked.name} use Engram?"), facts, warning, form)
    return browser.shown("Let a program in", section)


def _choice(scope: str, chosen: bool) -> Html:
    title, about = _CHOICES[scope]
    field = tag("input", type="radio", name="may", value=scope, checked=chosen, required=True)
    return tag("label", field, tag("span", tag("strong", title), tag("span", about, class_="quiet")), class_="choice")


def _place(address: str) -> str:
    """Where an address leads, as a person should read it."""
    parts = urlsplit(address)
    if parts.scheme == "https":
        return parts.netloc
    if parts.scheme == "http":
        return f"a program on your own machine ({parts.netloc})"
    return f"the app on your machine that opens {parts.scheme}: links"
