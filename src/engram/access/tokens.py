"""Access tokens: what a program sends with each request.

A token has a name, a scope, perhaps one workspace, and perhaps an expiry. Its name is the author of what it writes. The
tokens of OAuth clients are rows of the same table, and are verified by the same code.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import checks
from ..access_records import OAUTH_MARK, SCOPES, AccessToken, Bearer, Grant, NewToken
from ..clock import later
from ..errors import InvalidInput, StoreBusy, StoreError, TokenExists, TokenNotFound, Unauthorized
from . import revoking
from .secret_texts import TOKEN, make, read, same

if TYPE_CHECKING:
    from ..storage.engine import Engine, Transaction
    from .secret_texts import Secret

MAX_NAME = 100
#: Seconds between two notes of a token's use.
NOTE_EVERY = 60.0

_COLUMNS = "id, name, scope, workspace, created_at, expires_at, last_used_at, client_id, revoked_at"
_INSERT = """
INSERT INTO access_tokens (id, hash, name, scope, workspace, created_at, expires_at)
VALUES (:id, :hash, :name, :scope, :workspace, :now, :expires_at)
"""
_VERIFY = """
SELECT hash, name, scope, workspace, expires_at, revoked_at, last_used_at, client_id, audience
FROM access_tokens WHERE id = :id
"""
_USED = """
UPDATE access_tokens SET last_used_at = :now
WHERE id = :id AND (last_used_at IS NULL OR last_used_at <= :before)
"""
_LIST = (
    "SELECT "
    + _COLUMNS
    + """ FROM access_tokens
WHERE :ended = 1 OR (revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)) ORDER BY created_at, id
"""
)
_BY_ID = "SELECT " + _COLUMNS + " FROM access_tokens WHERE id = :id"
_BY_NAME = (
    "SELECT "
    + _COLUMNS
    + """ FROM access_tokens
WHERE name = :name AND client_id IS NULL AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY created_at, id
"""
)


class Tokens:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, name: str, scope: str, *, workspace: str | None = None, expires: float | None = None) -> NewToken:
        """Make a token. Only the returned record has its secret. `expires` is in seconds; None: it does not expire.

        TokenExists if a live token has the same name.
        """
        name = new_name(name)
        if scope not in SCOPES:
            raise InvalidInput(f"scope is {scope!r}; it must be one of {', '.join(SCOPES)}.")
        if workspace is not None:
            checks.workspace(workspace)
        if expires is not None:
            expires = checks.seconds(expires, "expires", least=1.0)
        secret = make(TOKEN)
        with self._engine.write() as tx:
            lock(tx)
            now = tx.now()
            if not is_free(tx, name, now):
                raise TokenExists(
                    f"There is a token {name!r} already, and a secret is shown only once. Choose another name, or "
                    "revoke that token first.",
                    typed=f"`engram token revoke {shlex.quote(name)}` revokes it.",
                )
            return add(tx, secret, name, scope, workspace, now, None if expires is None else later(now, expires))

    def list(self, *, ended: bool = False) -> list[AccessToken]:
        """The tokens that work now, the oldest first; with `ended` also those that have expired or were revoked."""
        checks.flag(ended, "ended")
        with self._engine.read() as tx:
            rows = tx.all(_LIST, ended=int(ended), now=tx.now())
        return [AccessToken(*row) for row in rows]

    def revoke(self, name_or_id: str) -> AccessToken:
        """End a live token at once, with all logins and OAuth clients that were let in with it.

        The token of an OAuth client is named by its id, and ends together with the consent that it comes from.
        """
        asked = checks.name(name_or_id, "token")
        with self._engine.write() as tx:
            revoking.lock(tx)
            now = tx.now()
            token = self._find(tx, asked, now)
            revoking.revoke_token(tx, token.id, now)
        return token._replace(revoked_at=now)

    def verify(self, secret: str) -> Grant:
        """What the bearer of this secret may do. Unauthorized if it is not the secret of a live token."""
        return self.bearer(secret).grant

    def bearer(self, secret: str) -> Bearer:
        """The same, with the OAuth client that holds the token, if there is one."""
        shown = read(TOKEN, secret, "an access token")
        with self._engine.read() as tx:
            row = tx.one(_VERIFY, id=shown.id)
            if not same(shown, row[0] if row else None) or row is None:
                raise Unauthorized("This access token is not known.")
            _, name, scope, workspace, expires_at, revoked_at, used_at, client_id, audience = row
            if revoked_at is not None:
                raise Unauthorized(f"The token {name!r} was revoked.")
            if expires_at is not None and expires_at <= tx.now():
                raise Unauthorized(f"The token {name!r} expired at {expires_at}.")
        self._note_use(shown.id, used_at)
        return Bearer(Grant(name, scope, workspace, shown.id, expires_at), client_id, audience)

    def _note_use(self, id: str, used_at: str | None) -> None:
        # By this machine's clock, which costs no round trip. The statement decides by the store's.
        if self._engine.joined or (used_at is not None and used_at > later(self._engine.clock.now(), -NOTE_EVERY)):
            return
        # Serving the request matters more than the note. The next request tries again.
        with suppress(StoreBusy, StoreError), self._engine.write(patient=False) as tx:
            now = tx.now()
            tx.run(_USED, id=id, now=now, before=later(now, -NOTE_EVERY))

    def _find(self, tx: Transaction, asked: str, now: str) -> AccessToken:
        row = tx.one(_BY_ID, id=asked)
        if row is not None:
            token = AccessToken(*row)
            if token.revoked_at is not None:
                at = token.revoked_at[:16].replace("T", " ")
                raise TokenNotFound(f"The token {token.name!r} was revoked already, at {at} UTC.")
            return token
        named = tx.all(_BY_NAME, name=asked, now=now)
        if not named:
            raise TokenNotFound(f"There is no live token {asked!r}.", typed="`engram token list` lists them.")
        return AccessToken(*named[0])


def lock(tx: Transaction) -> None:
    """Take the lock for making tokens. No index can keep the names of live ones apart, because tokens expire."""
    tx.lock("access/tokens")


def is_free(tx: Transaction, name: str, now: str) -> bool:
    """Whether no live token of a person has this name."""
    return tx.one(_BY_NAME, name=name, now=now) is None


def add(
    tx: Transaction,
    secret: Secret,
    name: str,
    scope: str,
    workspace: str | None,
    now: str,
    expires_at: str | None,
) -> NewToken:
    """Insert a checked token."""
    values = {"id": secret.id, "hash": secret.hash, "name": name, "scope": scope, "workspace": workspace}
    tx.run(_INSERT, now=now, expires_at=expires_at, **values)
    return NewToken(secret.text, AccessToken(secret.id, name, scope, workspace, now, expires_at, None, None, None))


def new_name(name: object) -> str:
    """The name of a new token: one line, without secrets."""
    checked = checks.new_name(name, "token name")
    if checked != checked.strip() or len(checked) > MAX_NAME:
        raise InvalidInput(f"A token name has 1 to {MAX_NAME} characters and no space at its ends.")
    if checked.lower().endswith(OAUTH_MARK):
        raise InvalidInput(f"A token name that ends in{OAUTH_MARK} is kept for OAuth clients; choose another one.")
    return checked
