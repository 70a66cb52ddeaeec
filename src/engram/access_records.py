"""Records of the access tier: who may do what. The representation of a record never shows a secret."""

from typing import NamedTuple

#: What a grant may do, the least first. Each includes those before it.
SCOPES = ("read", "write", "admin")


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
