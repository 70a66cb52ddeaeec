"""OAuth 2.1: how a client that knows only the server's address gets a token, with a person's consent.

The client learns from a 401 where to begin (RFC 9728), reads what the server offers (RFC 8414), registers itself
(RFC 7591), and sends the person to `/authorize`. The person logs in, sees who asks, and chooses what the client may do.
The client then exchanges a code for tokens, with PKCE. All secrets and what belongs to them are in the store, so any
worker can serve each step.

The official SDK checks the requests and makes the answers. This module stores, shows the consent page, and decides
where the SDK leaves it open:

- Nothing that a client sends makes the server fetch an address. Logos, keys and metadata documents are ignored.
- Anybody can register a client with any address. So the browser is sent to a client's address only by a person's
  decision, never by an error.
- The answer to a decision is a page that leads on, not a redirect: browsers apply `form-action` to redirects after a
  form, also to those that the client's own site makes later.
- A client's scopes are only what it wishes for. The person chooses, and never more than the person has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import AuthenticationError
from mcp.server.auth.provider import construct_redirect_uri
from mcp.server.auth.routes import build_metadata
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, request_response

from ...access_records import OAUTH_MARK, SCOPES
from ...errors import EngramError, Forbidden, TooManyRequests
from . import browser, calls, mcp, pages
from .consent import OFFERED, Asked, consent_page, leads_on, problem_page, wrong_request
from .oauth_store import Authenticator, Provider, text_of
from .origins import client_address

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...access_records import Grant
    from .answers import Receive, Scope, Send
    from .service import Service

#: Registrations that one address has, and the seconds until it has them again.
MOST_REGISTRATIONS, REGISTRATIONS_WITHIN = 20, 3_600.0
#: The largest request, in bytes.
MAX_BODY = 32 * 1024
_METHODS = ("none", "client_secret_post", "client_secret_basic")
_NO_STORE = {"cache-control": "no-store"}


def add(app: FastAPI, service: Service) -> None:
    flow = Flow(service)
    for path, handle, methods in (
        ("/.well-known/oauth-protected-resource", flow.describe_resource, ["GET"]),
        (f"/.well-known/oauth-protected-resource{mcp.PATH}", flow.describe_resource, ["GET"]),
        ("/.well-known/oauth-authorization-server", flow.describe_server, ["GET"]),
        ("/authorize", flow.authorize, ["GET", "POST"]),
        ("/token", flow.give_token, ["POST"]),
        ("/register", flow.register, ["POST"]),
        ("/revoke", flow.revoke, ["POST"]),
    ):
        app.router.routes.append(Route(path, _limited(path, handle), methods=methods))


class Flow:
    """The endpoints."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def describe_resource(self, request: Request) -> Response:
        base = self._service.places.base(request.scope)
        described = ProtectedResourceMetadata(
            resource=AnyHttpUrl(f"{base}{mcp.PATH}"),
            authorization_servers=[AnyHttpUrl(base)],
            scopes_supported=list(OFFERED),
            resource_name="Engram",
        )
        return _described(described.model_dump(mode="json", exclude_none=True), base)

    async def describe_server(self, request: Request) -> Response:
        base = self._service.places.base(request.scope)
        options = ClientRegistrationOptions(enabled=True, valid_scopes=list(OFFERED))
        described = build_metadata(AnyHttpUrl(base), None, options, RevocationOptions(enabled=True))
        described.token_endpoint_auth_methods_supported = list(_METHODS)
        described.revocation_endpoint_auth_methods_supported = list(_METHODS)
        described.authorization_response_iss_parameter_supported = True
        return _described(described.model_dump(mode="json", exclude_none=True), base)

    async def register(self, request: Request) -> Response:
        address = client_address(request.scope, behind_proxy=self._service.options.behind_proxy)
        allow = partial(
            self._service.eng.access.attempts.allow, f"register {address}", MOST_REGISTRATIONS, REGISTRATIONS_WITHIN
        )
        try:
            await self._service.writers.run(allow)
            options = ClientRegistrationOptions(enabled=True, default_scopes=list(SCOPES))
            response = await RegistrationHandler(Provider(self._service), options).handle(request)
        except TooManyRequests as error:
            after = {**_NO_STORE, "retry-after": str(error.retry_after)}
            return _failed("temporarily_unavailable", error.message, 429, after)
        response.headers.update(_NO_STORE)
        return response

    async def give_token(self, request: Request) -> Response:
        provider = Provider(self._service)
        wanted = text_of((await request.form()).get("resource"))
        if wanted and not self._service.places.owns(wanted):
            return _failed("invalid_target", "This server has no such resource.")
        response: Response = await TokenHandler(provider, Authenticator(self._service, provider)).handle(request)
        return response

    async def revoke(self, request: Request) -> Response:
        """RFC 7009. The SDK's handler wants a secret from clients that have none."""
        provider = Provider(self._service)
        try:
            client = await Authenticator(self._service, provider).authenticate_request(request)
        except AuthenticationError as error:
            return _failed("invalid_client", error.message, 401)
        secret = text_of((await request.form()).get("token"))
        token = await provider.load_access_token(secret) or await provider.load_refresh_token(client, secret)
        # A token of another client is treated as unknown, and an unknown one is no error.
        if token is not None and token.client_id == client.client_id:
            await provider.revoke_token(token)
        return Response(status_code=200, headers=_NO_STORE)

    async def authorize(self, request: Request) -> Response:
        if request.method == "POST" and not self._service.places.is_same_origin(request.scope):
            return pages.problem_page("Not allowed", "This form was not sent by a page of this server.", 403)
        asked = await self._asked(request)
        if isinstance(asked, Response):
            return asked
        going_to = browser.address_of(request)
        grant = await browser.grant_of(self._service, request.scope)
        if request.method == "POST" and grant is None:
            return pages.problem_page("Not logged in", "Your login has ended. Begin again in your client.", 401)
        if grant is None:
            if browser.comes_from_elsewhere(request):
                return pages.continue_page(going_to)
            return pages.login_page(going_to, about=f"{asked.name} wants to use Engram.")
        if grant.name.endswith(OAUTH_MARK):
            return pages.problem_page("Not allowed", "A client cannot let in another client.", 403)
        if request.method == "POST":
            return await self._decide(request, asked, grant)
        names = [grant.workspace] if grant.workspace else await self._service.readers.run(self._workspaces)
        return consent_page(asked, grant, names, self._service.eng.workspace_name)

    async def _asked(self, request: Request) -> Asked | Response:
        """The request as the SDK has checked it, or a page that says what is wrong with it."""
        provider = Provider(self._service)
        response = await AuthorizationHandler(provider).handle(request)
        if provider.asked is None:
            return wrong_request(response)
        client, params = provider.asked
        base = self._service.places.base(request.scope)
        if params.resource is not None and not self._service.places.owns(params.resource):
            problem = "The client asks for a resource of another server."
            answer = construct_redirect_uri(
                str(params.redirect_uri),
                error="invalid_target",
                error_description=problem,
                state=params.state,
                iss=base,
            )
            return problem_page(problem, answer)
        return Asked(client, params)

    async def _decide(self, request: Request, asked: Asked, grant: Grant) -> Response:
        form = await request.form()
        base = self._service.places.base(request.scope)
        if form.get("decision") != "allow":
            denied = "The person did not let the client in."
            return leads_on(
                "Not let in",
                f"{asked.name} was not let in.",
                asked,
                base,
                error="access_denied",
                error_description=denied,
            )
        try:
            scope, workspace = text_of(form.get("may")), text_of(form.get("workspace")) or None
            code = await self._service.writers.run(partial(self._approve, asked, grant, scope, workspace, base))
        except EngramError as error:
            return pages.problem_page("Not let in", error.message, error.status)
        return leads_on("Let in", f"{asked.name} may use Engram now.", asked, base, code=code)

    def _approve(self, asked: Asked, grant: Grant, scope: str, workspace: str | None, base: str) -> str:
        consents = self._service.eng.access.consents
        request = {
            "redirect_uri": asked.address,
            "explicitly": asked.params.redirect_uri_provided_explicitly,
            "code_challenge": asked.params.code_challenge,
            "resource": f"{base}{mcp.PATH}",
        }
        # First of all, so that nobody learns which other workspaces there are.
        if workspace is not None:
            self._service.eng.access.require(grant, "read", workspace)
        if workspace is not None and workspace not in self._workspaces() and grant.workspace != workspace:
            raise Forbidden(f"There is no workspace {workspace!r}.")
        code, _ = consents.approve(consents.ask(asked.client.client_id, request), grant, scope, workspace=workspace)
        return code

    def _workspaces(self) -> list[str]:
        return browser.workspace_names(self._service)


def _limited(path: str, handle: Callable[[Request], Awaitable[Response]]) -> Any:
    """The endpoint of a path, for requests that are not too large."""
    inner = RequestBodyLimitMiddleware(request_response(handle), MAX_BODY)

    class Endpoint:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            scope[calls.ROUTE] = path
            await inner(scope, receive, send)

    return Endpoint()


def _described(shape: dict[str, Any], base: str) -> Response:
    # pydantic adds a slash to an address without a path. Clients compare the address letter by letter.
    shown = {
        name: base
        if value == f"{base}/"
        else [base if each == f"{base}/" else each for each in value]
        if isinstance(value, list)
        else value
        for name, value in shape.items()
    }
    return JSONResponse(shown, headers={"cache-control": "public, max-age=300"})


def _failed(code: str, message: str, status: int = 400, headers: dict[str, str] = _NO_STORE) -> Response:
    return JSONResponse({"error": code, "error_description": message}, status, headers=headers)
