"""Logins of browsers. There are no passwords: a person pastes a token, or follows a link that works once.

A login is a secret in a cookie. It gives what its token gives, and ends with the token. A link or login that was made
without a token belongs to the user of this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..access_records import LINK_LIFE, LOGIN_LIFE, Grant
from ..clock import later
from ..errors import Unauthorized
from .secret_texts import COOKIE, LINK, make, read, same
from .tokens import Tokens

if TYPE_CHECKING:
    from ..storage.engine import Engine, Transaction

_ADD_LINK = """
INSERT INTO access_links (id, hash, token_id, name, scope, workspace, expires_at)
VALUES (:id, :hash, :token_id, :name, :scope, :workspace, :expires_at)
"""
_LINK = "SELECT hash, name, scope, workspace, token_id, expires_at FROM access_links WHERE id = :id"
_TAKE_LINK = "DELETE FROM access_links WHERE id = :id"
_OLD_LINKS = "DELETE FROM access_links WHERE expires_at <= :now"
_ADD_LOGIN = """
INSERT INTO access_logins (id, hash, token_id, name, scope, workspace, created_at, expires_at)
VALUES (:id, :hash, :token_id, :name, :scope, :workspace, :now, :expires_at)
"""
_LOGIN = """
SELECT l.hash, l.name, l.scope, l.workspace, l.token_id, l.expires_at,
  t.id, t.scope, t.workspace, t.expires_at, t.revoked_at
FROM access_logins l LEFT JOIN access_tokens t ON t.id = l.token_id WHERE l.id = :id
"""
_END = "DELETE FROM access_logins WHERE id = :id AND hash = :hash"
_OLD_LOGINS = "DELETE FROM access_logins WHERE expires_at <= :now"
_TOKEN = """
SELECT 1 FROM access_tokens
WHERE id = :id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
"""


class Logins:
    #: There is no password to guess or to leak.
    password_free = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def make_link(self, grant: Grant, *, expires: float = LINK_LIFE) -> str:
        """The code of a link that logs a browser in, once, with this grant."""
        checks.seconds(expires, "expires", least=1.0)
        secret = make(LINK)
        with self._engine.write() as tx:
            now = tx.now()
            _require_live(tx, grant, now)
            tx.run(_OLD_LINKS, now=now)
            tx.run(_ADD_LINK, id=secret.id, hash=secret.hash, expires_at=later(now, expires), **_columns(grant))
        return secret.text

    def use_link(self, code: str) -> str:
        """Log in with a link: the secret for the cookie. Unauthorized if the link does not work any more."""
        shown = read(LINK, code, "a login link")
        with self._engine.write() as tx:
            now = tx.now()
            row = tx.one(_LINK, id=shown.id)
            # Of two browsers that use the link at once, one deletes the row.
            if not same(shown, row[0] if row else None) or row is None or not tx.run(_TAKE_LINK, id=shown.id):
                raise Unauthorized("This login link was used already, or is not known. Make a new one.")
            _, name, scope, workspace, token_id, expires_at = row
            # An expired link stays until the next one is made, because this error takes the deletion back.
            if expires_at <= now:
                raise Unauthorized("This login link has expired. Make a new one.")
            return self._start(tx, Grant(name, scope, workspace, token_id, None), now, LOGIN_LIFE)

    def log_in(self, secret: str) -> str:
        """Log in with an access token: the secret for the cookie."""
        return self.start(Tokens(self._engine).verify(secret))

    def start(self, grant: Grant, *, expires: float = LOGIN_LIFE) -> str:
        """Log in with a grant: the secret for the cookie."""
        checks.seconds(expires, "expires", least=1.0)
        with self._engine.write() as tx:
            return self._start(tx, grant, tx.now(), expires)

    def grant_of(self, cookie: str) -> Grant:
        """What the browser with this cookie may do. Unauthorized if its login has ended."""
        shown = read(COOKIE, cookie, "a login")
        with self._engine.read() as tx:
            row = tx.one(_LOGIN, id=shown.id)
            if not same(shown, row[0] if row else None) or row is None:
                raise Unauthorized("This login has ended. Log in again.")
            _, name, scope, workspace, token_id, expires_at, found, *of_token = row
            if token_id is not None:
                # The token decides, not what it was when the browser logged in.
                scope, workspace, token_end, revoked_at = of_token
                if found is None or revoked_at is not None:
                    raise Unauthorized("The token of this login was revoked. Log in again.")
                expires_at = min(expires_at, token_end or expires_at)
            if expires_at <= tx.now():
                raise Unauthorized("This login has expired. Log in again.")
        return Grant(name, scope, workspace, token_id, expires_at)

    def end(self, cookie: str) -> None:
        """Log out. A login that has ended already is no error."""
        try:
            shown = read(COOKIE, cookie, "a login")
        except Unauthorized:
            return
        with self._engine.write() as tx:
            tx.run(_END, id=shown.id, hash=shown.hash)

    def _start(self, tx: Transaction, grant: Grant, now: str, expires: float) -> str:
        _require_live(tx, grant, now)
        secret = make(COOKIE)
        tx.run(_OLD_LOGINS, now=now)
        end = later(now, expires)
        tx.run(_ADD_LOGIN, id=secret.id, hash=secret.hash, now=now, expires_at=end, **_columns(grant))
        return secret.text


def _require_live(tx: Transaction, grant: Grant, now: str) -> None:
    if grant.token_id is not None and tx.one(_TOKEN, id=grant.token_id, now=now) is None:
        raise Unauthorized(f"The token {grant.name!r} has expired or was revoked.")


def _columns(grant: Grant) -> dict[str, object]:
    return {"token_id": grant.token_id, "name": grant.name, "scope": grant.scope, "workspace": grant.workspace}
