"""Records of the access tier: who may do what. The representation of a record never shows a secret."""

from typing import NamedTuple

#: What a grant may do, the least first. Each includes those before it.
SCOPES = ("read", "write", "admin")
#: The end of the names of OAuth clients' tokens. A person's token must not look like one.
OAUTH_MARK = " (oauth)"
#: Seconds that a link works which logs a browser in.
LINK_LIFE = 600.0
#: Seconds that the login of a browser lasts.
LOGIN_LIFE = 7 * 86_400.0


class Grant(NamedTuple):
    """What the bearer of a token, a cookie or the local socket may do."""

    #: The token's name: the author of what the bearer writes. Empty for the user of this machine.
    name: str
    #: `read`, `write` or `admin`.
    scope: str
    #: The only workspace that it is for; None for all.
    workspace: str | None
    #: None for the user of this machine.
    token_id: str | None
    #: None: it does not expire.
    expires_at: str | None


#: The user of this machine, over the Unix socket or standard input.
OWNER = Grant("", "admin", None, None, None)


class AccessToken(NamedTuple):
    """An access token, without its secret."""

    #: 12 hexadecimal characters, which are also part of the secret.
    id: str
    name: str
    scope: str
    workspace: str | None
    created_at: str
    expires_at: str | None
    #: To the minute; None if it was never used.
    last_used_at: str | None
    #: The OAuth client that holds it; None for a token that a person made.
    client_id: str | None
    revoked_at: str | None


class NewToken(NamedTuple):
    """A token that was just made. Only here is its secret known."""

    secret: str
    token: AccessToken

    def __repr__(self) -> str:
        return f"NewToken(secret='…', token={self.token!r})"


class Bearer(NamedTuple):
    """A verified token: what its bearer may do, and if it is an OAuth client, which."""

    grant: Grant
    client_id: str | None
    #: The server that an OAuth token is for (RFC 8707).
    audience: str | None


class Consent(NamedTuple):
    """A person's consent that lets an OAuth client in."""

    id: str
    #: The name of the tokens that come from it: the author of what the client writes.
    name: str
    scope: str
    workspace: str | None
    created_at: str
    #: When it ends unless the client refreshes its tokens before.
    expires_at: str
    last_used_at: str | None


class Client(NamedTuple):
    """A registered OAuth client."""

    id: str
    #: What the client calls itself, on one line.
    name: str
    #: What it said about itself when it registered, without its secret.
    metadata: dict[str, object]
    #: The SHA-256 hash of its secret; None for a public client.
    hash: str | None
    created_at: str
    #: When it last got a token; None before the first.
    used_at: str | None
    #: The consents that are in force. Only a list of clients has them.
    consents: tuple[Consent, ...] = ()


class AuthorizationRequest(NamedTuple):
    """A client's request that waits for a person's consent."""

    client: Client
    #: The parameters of the request.
    asked: dict[str, object]
    expires_at: str


class AuthorizationCode(NamedTuple):
    """An authorization code or a refresh token, without its secret."""

    client_id: str
    scope: str
    #: The parameters of the request that a code answers; empty for a refresh token.
    asked: dict[str, object]
    audience: str | None
    expires_at: str


class IssuedTokens(NamedTuple):
    """The tokens that a client has just got. Only here are their secrets known."""

    access_token: str
    refresh_token: str
    scope: str
    #: Seconds that the access token works.
    expires_in: int

    def __repr__(self) -> str:
        return f"IssuedTokens(scope={self.scope!r}, expires_in={self.expires_in!r})"
