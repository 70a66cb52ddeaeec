"""Pages for a person with a browser: log in and log out. The others are in `interfaces/web`.

A person logs in by pasting a token, or with a link that works once. The link opens a page with a button: programs that
look at links before a person does (previews, scanners) would use the link up otherwise.

The login is a cookie that the browser sends only for pages of this server (`SameSite=Strict`). So it is also missing
when a person comes from another site, such as a client that asks for consent. Then a page that sends the browser on to
the same address is enough: that request comes from a page of this server.

A request that changes something and carries the cookie must come from a page of this server.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...access_records import LOGIN_LIFE
from ...errors import EngramError, Forbidden, InvalidInput, TooManyRequests, Unauthorized
from . import calls, cookies, guard
from .origins import client_address
from .pages import continue_page, link_page, login_page, problem_page

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...access_records import Grant
    from .answers import Scope
    from .service import Service

#: Attempts to log in that one address has, and the seconds until it has them again.
MOST_ATTEMPTS, ATTEMPTS_WITHIN = 10, 300.0
#: The consent to a client, and the pages of the dashboard.
_NEXT = re.compile(r"(?:/authorize\?|/w/)[!-\[\]-~]{0,4000}")
#: The largest form, in bytes.
MAX_FORM = 16 * 1024


def add(app: FastAPI, service: Service) -> None:
    pages = Pages(service)
    app.add_route("/login", pages.log_in, methods=["GET", "POST"])
    app.add_route("/logout", pages.log_out, methods=["POST"])


async def grant_of(service: Service, scope: Scope) -> Grant | None:
    """What the person with the cookie may do; None if nobody is logged in."""
    secret = cookies.find(service.places, scope)
    if secret is None:
        return None
    try:
        return await service.readers.run(partial(service.eng.access.logins.grant_of, secret))
    except Unauthorized:
        return None


def comes_from_elsewhere(request: Request) -> bool:
    """Whether another site sent the browser here, so that a cookie may be missing though there is one."""
    return request.headers.get("sec-fetch-site") in ("cross-site", "same-site")


def address_of(request: Request) -> str:
    """The path and query of a request."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def allowed_next(given: str | None) -> str:
    """Where to go after the login: only to a page that needs it, never to another site."""
    return given if given is not None and _NEXT.fullmatch(given) else "/"


async def form_of(request: Request, service: Service) -> dict[str, str]:
    """The fields of a form that a page of this server sent. A field that is given twice is refused."""
    if not service.places.is_same_origin(request.scope):
        raise Forbidden("This form was not sent by a page of this server.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM:
            raise InvalidInput("The form is too large.")
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError:
        raise InvalidInput("The form cannot be read.") from None
    if any(len(values) > 1 for values in fields.values()):
        raise InvalidInput("The form has a field twice.")
    return {name: value for name, (value,) in fields.items()}


class Pages:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def log_in(self, request: Request) -> Response:
        request.scope[calls.ROUTE] = "/login"
        if request.method == "POST":
            return await self._log_in(request)
        going_to = allowed_next(request.query_params.get("next"))
        code = request.query_params.get("code")
        if code:
            return link_page(code, going_to)
        if comes_from_elsewhere(request):
            return continue_page(address_of(request))
        if await grant_of(self._service, request.scope) is not None:
            return RedirectResponse(going_to, 303)
        about = "This page needs a login, and there is none or it has ended." if going_to.startswith("/w/") else None
        return login_page(going_to, about=about)

    async def _log_in(self, request: Request) -> Response:
        service, access = self._service, self._service.eng.access
        going_to = "/"
        bucket = f"login {client_address(request.scope, behind_proxy=service.options.behind_proxy)}"
        try:
            form = await form_of(request, service)
            going_to = allowed_next(form.get("next"))
            use: Callable[[], str]
            if form.get("code"):
                use = partial(access.logins.use_link, form["code"])
            else:
                use = partial(access.logins.log_in, form.get("token", "").strip())

            def attempt() -> str:
                access.attempts.allow(bucket, MOST_ATTEMPTS, ATTEMPTS_WITHIN)
                cookie = use()
                access.attempts.reset(bucket)
                return cookie

            cookie = await service.writers.run(attempt)
        except TooManyRequests as error:
            after = {"retry-after": str(error.retry_after)}
            return problem_page("Too many attempts", error.message, 429, after)
        except Unauthorized as error:
            return login_page(going_to, problem=error.message, status=401)
        except EngramError as error:
            return problem_page("Not logged in", error.message, error.status)
        response = RedirectResponse(going_to, 303)
        self._set_cookie(response, request, cookie, int(LOGIN_LIFE))
        return response

    async def log_out(self, request: Request) -> Response:
        request.scope[calls.ROUTE] = "/logout"
        # Before the login ends: the guard lets out no answer to a caller that it cannot verify.
        await guard.caller_of(request.scope).verify()
        secret = cookies.find(self._service.places, request.scope)
        if secret is not None:
            await self._service.writers.run(partial(self._service.eng.access.logins.end, secret))
        response = RedirectResponse("/login", 303)
        self._set_cookie(response, request, "", 0)
        return response

    def _set_cookie(self, response: Response, request: Request, secret: str, seconds: int) -> None:
        origin = self._service.places.origin(request.scope)
        response.headers.append("set-cookie", cookies.header(origin, secret, seconds))


def workspace_names(service: Service) -> list[str]:
    """Every workspace of the store, and the server's own."""
    return sorted({service.eng.workspace_name, *(each.name for each in service.eng.workspaces())})
