"""OAuth clients, codes and tokens in the store, as the SDK's handlers want them.

Where the SDK leaves a choice, it is made here: which addresses a client may have, when two addresses are the same, and
what becomes of scopes that this server does not know.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
)
from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl
from starlette.requests import Request

from ...access.clients import plain_name
from ...access_records import SCOPES
from ...errors import InvalidInput, Unauthorized
from .origins import is_loopback

if TYPE_CHECKING:
    from ...access_records import Client, IssuedTokens
    from .service import Service

_T = TypeVar("_T")

MOST_REDIRECTS, MAX_REDIRECT = 10, 2_000
#: Schemes that are not a client's own, or that a browser would run.
_NOT_A_CLIENT = frozenset(
    {
        *("javascript", "data", "vbscript", "blob", "file", "filesystem", "about", "view-source", "jar", "mhtml"),
        *("ftp", "ws", "wss", "mailto", "tel", "sms", "chrome", "edge", "resource", "intent", "content", "ms-its"),
    }
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


class RegisteredClient(OAuthClientInformationFull):
    """A client, with the rules of this server for what it may ask."""

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Exactly one of the registered addresses. Only the port of a program on the person's machine may differ."""
        known = {_comparable(str(each)): each for each in self.redirect_uris or ()}
        if redirect_uri is None and len(known) == 1:
            return next(iter(known.values()))
        if redirect_uri is None or _comparable(str(redirect_uri)) not in known:
            raise InvalidRedirectUriError("This address is not one that the client registered.")
        return redirect_uri

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """The known ones among the scopes that the client wishes for."""
        wished = (requested_scope or "").split(" ")
        return [scope for scope in SCOPES if scope in wished] or None


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Keeps clients, codes and tokens in the store, for the SDK's handlers."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._access = service.eng.access
        #: The client's request as the SDK has checked it.
        self.asked: tuple[OAuthClientInformationFull, AuthorizationParams] | None = None

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        found = await self._read(partial(self._access.clients.get, client_id))
        if found is None:
            return None
        return RegisteredClient.model_validate({**found.metadata, "client_id": found.id, "client_name": found.name})

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        _keep_what_counts(client_info)
        secret = client_info.client_secret
        stored = client_info.model_dump(mode="json", exclude_none=True, exclude={"client_secret", "client_id"})
        try:
            await self._write(partial(self._access.clients.register, client_info.client_id, stored, secret))
        except InvalidInput as error:
            raise RegistrationError("invalid_client_metadata", error.message) from None

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Take the checked request. A person decides about it before the browser goes anywhere."""
        if not _CHALLENGE.fullmatch(params.code_challenge):
            raise AuthorizeError("invalid_request", "code_challenge is not a SHA-256 hash in base64url.")
        self.asked = client, params
        return "/"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        found = await self._write(partial(self._access.consents.code, client.client_id, authorization_code))
        if found is None:
            return None
        # The store has checked that the code is still valid, by its own clock.
        return AuthorizationCode(
            code=authorization_code,
            scopes=included(found.scope),
            expires_at=math.inf,
            client_id=found.client_id,
            code_challenge=str(found.asked["code_challenge"]),
            redirect_uri=AnyUrl(str(found.asked["redirect_uri"])),
            redirect_uri_provided_explicitly=bool(found.asked["explicitly"]),
            resource=found.audience,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        consents = self._access.consents
        return await self._issued(partial(consents.exchange_code, client.client_id, authorization_code.code))

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        found = await self._write(partial(self._access.consents.refresh_token, client.client_id, refresh_token))
        if found is None:
            return None
        scopes = included(found.scope)
        return RefreshToken(token=refresh_token, client_id=found.client_id, scopes=scopes, resource=found.audience)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        exchange = self._access.consents.exchange_refresh
        return await self._issued(partial(exchange, client.client_id, refresh_token.token, highest(scopes)))

    async def load_access_token(self, token: str) -> AccessToken | None:
        """The access token of a client; None for everything else, also for a person's token."""
        try:
            bearer = await self._read(partial(self._access.tokens.bearer, token))
        except Unauthorized:
            return None
        if bearer.client_id is None:
            return None
        scopes = included(bearer.grant.scope)
        return AccessToken(token=token, client_id=bearer.client_id, scopes=scopes, resource=bearer.audience)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        await self._write(partial(self._access.consents.revoke, token.token))

    async def _issued(self, exchange: Callable[[], IssuedTokens]) -> OAuthToken:
        try:
            issued = await self._write(exchange)
        except InvalidInput as error:
            raise TokenError("invalid_scope", error.message) from None
        except Unauthorized as error:
            raise TokenError("invalid_grant", error.message) from None
        return OAuthToken(
            access_token=issued.access_token,
            refresh_token=issued.refresh_token,
            expires_in=issued.expires_in,
            scope=" ".join(included(issued.scope)),
        )

    def _read(self, job: Callable[[], _T]) -> Awaitable[_T]:
        return self._service.readers.run(job)

    def _write(self, job: Callable[[], _T]) -> Awaitable[_T]:
        return self._service.writers.run(job)


class Authenticator(ClientAuthenticator):
    """Tells which client sends a request. The SDK's own compares with the secret itself, and the store has its hash."""

    def __init__(self, service: Service, provider: Provider) -> None:
        super().__init__(provider)
        self._service = service

    async def authenticate_request(self, request: Request) -> OAuthClientInformationFull:
        form = await request.form()
        id, secret = text_of(form.get("client_id")), text_of(form.get("client_secret"))
        header = request.headers.get("authorization", "")
        if header[:6].lower() == "basic ":
            named, secret = _basic(header[6:])
            if id not in ("", named):
                raise AuthenticationError("The client is named twice, and differently.")
            id = named
        client = await self.provider.get_client(id) if id else None
        if client is None:
            raise AuthenticationError("There is no such client.")
        if not await self._service.readers.run(partial(self._is_it, client.client_id, secret)):
            raise AuthenticationError("The client's secret is wrong or missing.")
        return client

    def _is_it(self, id: str, secret: str) -> bool:
        clients = self._service.eng.access.clients
        found: Client | None = clients.get(id)
        return found is not None and (found.hash is None or clients.has_secret(found, secret))


def _keep_what_counts(client: OAuthClientInformationFull) -> None:
    """Refuse addresses that a person must not be sent to, and drop everything that this server does not use."""
    addresses = [str(each) for each in client.redirect_uris or ()]
    if not 1 <= len(addresses) <= MOST_REDIRECTS:
        raise RegistrationError("invalid_redirect_uri", f"A client has 1 to {MOST_REDIRECTS} redirect URIs.")
    for address in addresses:
        problem = _wrong_redirect(address)
        if problem:
            raise RegistrationError("invalid_redirect_uri", problem)
    client.client_name = plain_name(client.client_name)
    client.scope = " ".join(SCOPES)
    for name in ("client_uri", "logo_uri", "tos_uri", "policy_uri", "jwks_uri", "jwks", "contacts"):
        setattr(client, name, None)
    client.software_id = client.software_version = None


def _wrong_redirect(address: str) -> str | None:
    """What is wrong with an address that a client wants the browser to be sent to; None if nothing."""
    parts = urlsplit(address)
    if len(address) > MAX_REDIRECT or any(ord(char) <= 32 or ord(char) == 127 for char in address):
        return "A redirect URI is too long or has a space or control character."
    if "#" in address or "@" in parts.netloc or "\\" in address or "*" in parts.netloc:
        return "A redirect URI has no fragment, no user name and no wildcard."
    if parts.scheme in ("https", "http"):
        if not parts.hostname:
            return "A redirect URI names a host."
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            return "A redirect URI is https, except on the person's own machine."
        return None
    if not _SCHEME.fullmatch(parts.scheme) or parts.scheme in _NOT_A_CLIENT:
        return f"A redirect URI cannot have the scheme {parts.scheme[:30]!r}."
    return None


def _comparable(address: str) -> str:
    """The address as it is compared. A program on the person's machine listens on any free port (RFC 8252)."""
    address = str(AnyUrl(address))
    parts = urlsplit(address)
    if parts.scheme == "http" and parts.hostname and is_loopback(parts.hostname):
        return parts._replace(netloc=parts.hostname).geturl()
    return address


def included(scope: str) -> list[str]:
    """The scopes that a scope includes."""
    return list(SCOPES[: SCOPES.index(scope) + 1])


def highest(scopes: list[str]) -> str | None:
    """The scope that includes the others; None if none of them is known."""
    known = [SCOPES.index(scope) for scope in scopes if scope in SCOPES]
    return SCOPES[max(known)] if known else None


def text_of(value: object) -> str:
    """A field of a form; empty if it was not given."""
    return value if isinstance(value, str) else ""


def _basic(encoded: str) -> tuple[str, str]:
    try:
        id, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise AuthenticationError("The header Authorization cannot be read.") from None
    return unquote(id), unquote(secret)
