"""Consents to OAuth clients: a person lets a client in, and the client gets tokens.

A client's request waits until a person approves it. The client then exchanges a code for an access token, which works
for an hour, and a refresh token, which it exchanges for new ones. Everything that comes from one approval belongs to
one consent and ends with it. Codes and refresh tokens work once. A second use means that somebody else knows the
secret, so it ends the consent.

An approval gives at most what the approving person may do. It ends when the token of that person is revoked, and what
comes from it does not outlive that token.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from .. import checks, json_columns
from ..access_records import OAUTH_MARK, SCOPES, AuthorizationCode, AuthorizationRequest, IssuedTokens
from ..clock import between, later
from ..errors import InvalidInput, Unauthorized
from . import permission, revoking
from .clients import Clients, plain_name
from .secret_texts import CODE, REFRESH, REQUEST, TOKEN, make, read, same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..access_records import Grant
    from ..storage.engine import Engine, Row, Transaction
    from .secret_texts import Secret

#: Seconds that each of them works.
REQUEST_LIFE, CODE_LIFE, ACCESS_LIFE, REFRESH_LIFE = 600.0, 300.0, 3_600.0, 30 * 86_400.0
#: Characters of a request's parameters as JSON. A client's `state` may be long.
MAX_ASKED = 16_000
#: Requests of one client that wait at once. The oldest goes first.
MOST_REQUESTS = 20

_CLIENT = "SELECT 1 FROM access_clients WHERE id = :id"
_USED_CLIENT = "UPDATE access_clients SET used_at = :now WHERE id = :id"
_ADD_REQUEST = """
INSERT INTO access_requests (id, hash, client_id, asked, expires_at)
VALUES (:id, :hash, :client_id, :asked, :expires_at)
"""
_REQUEST = "SELECT hash, client_id, asked, expires_at FROM access_requests WHERE id = :id"
_TAKE_REQUEST = "DELETE FROM access_requests WHERE id = :id"
_TOO_MANY_REQUESTS = """
SELECT id FROM access_requests WHERE client_id = :client_id ORDER BY expires_at DESC, id LIMIT :most OFFSET :kept
"""
_OLD_REQUESTS = "DELETE FROM access_requests WHERE expires_at <= :now"
_GIVER = "SELECT expires_at, revoked_at FROM access_tokens WHERE id = :id"
_ADD_CONSENT = """
INSERT INTO access_consents (id, client_id, name, scope, workspace, given_by, audience, created_at, expires_at)
VALUES (:id, :client_id, :name, :scope, :workspace, :given_by, :audience, :now, :expires_at)
"""
_CONSENT = """
SELECT name, scope, workspace, audience, expires_at FROM access_consents WHERE id = :family AND ended_at IS NULL
"""
_ADD_CODE = """
INSERT INTO access_codes (id, hash, kind, family, client_id, scope, asked, expires_at)
VALUES (:id, :hash, :kind, :family, :client_id, :scope, :asked, :expires_at)
"""
_FIND_CODE = """
SELECT c.hash, c.family, c.client_id, c.scope, c.asked, c.expires_at, c.used_at, s.audience, s.ended_at
FROM access_codes c JOIN access_consents s ON s.id = c.family WHERE c.id = :id AND c.kind = :kind
"""
_USE_CODE = "UPDATE access_codes SET used_at = :now WHERE id = :id AND used_at IS NULL"
_ADD_TOKEN = """
INSERT INTO access_tokens (id, hash, name, scope, workspace, client_id, family, audience, created_at, expires_at)
VALUES (:id, :hash, :name, :scope, :workspace, :client_id, :family, :audience, :now, :expires_at)
"""
_FAMILY_OF_TOKEN = "SELECT hash, family FROM access_tokens WHERE id = :id AND family IS NOT NULL"
_FAMILY_OF_REFRESH = "SELECT hash, family FROM access_codes WHERE id = :id AND kind = 'refresh'"


class _Code(NamedTuple):
    """The row of a code or refresh token whose secret was shown."""

    id: str
    family: str
    record: AuthorizationCode
    used: bool


class Consents:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ask(self, client_id: str, asked: Mapping[str, object], *, expires: float = REQUEST_LIFE) -> str:
        """Store a client's request until a person decides. Returns its secret, for the address of the consent page."""
        checks.seconds(expires, "expires", least=1.0)
        # Not through `json_columns.dump`: the client's `state` must come back exactly, whatever it looks like.
        text = checks.text(json.dumps(dict(asked)), "authorization request", longest=MAX_ASKED)
        secret = make(REQUEST)
        with self._engine.write() as tx:
            now = tx.now()
            if tx.one(_CLIENT, id=client_id) is None:
                raise Unauthorized("This OAuth client is not registered.")
            tx.run(_OLD_REQUESTS, now=now)
            end = later(now, expires)
            tx.run(_ADD_REQUEST, id=secret.id, hash=secret.hash, client_id=client_id, asked=text, expires_at=end)
            for id in tx.column(_TOO_MANY_REQUESTS, client_id=client_id, most=MOST_REQUESTS, kept=MOST_REQUESTS):
                tx.run(_TAKE_REQUEST, id=id)
        return secret.text

    def request(self, secret: str) -> AuthorizationRequest:
        """A request that waits for a decision. Unauthorized if it was decided, has expired or is unknown."""
        with self._engine.read() as tx:
            _, found = self._find_request(tx, secret)
        return found

    def refuse(self, secret: str) -> AuthorizationRequest:
        """End a request without consent."""
        with self._engine.write() as tx:
            id, found = self._find_request(tx, secret)
            tx.run(_TAKE_REQUEST, id=id)
        return found

    def approve(
        self,
        secret: str,
        grant: Grant,
        scope: str,
        *,
        workspace: str | None = None,
        name: str | None = None,
        expires: float = CODE_LIFE,
    ) -> tuple[str, AuthorizationRequest]:
        """Let the client in, with this scope. Returns an authorization code for it, and the request.

        `workspace` None: every workspace that the grant is for. Forbidden if the grant itself does not allow this much.
        `name` is what the client is called, by default as it calls itself. A request is approved once.
        """
        if scope not in SCOPES:
            raise InvalidInput(f"scope is {scope!r}; it must be one of {', '.join(SCOPES)}.")
        if workspace is not None:
            checks.workspace(workspace)
        checks.seconds(expires, "expires", least=1.0)
        workspace = workspace or grant.workspace
        permission.require(grant, scope, workspace)
        code, consent = make(CODE), make(CODE).id
        with self._engine.write() as tx:
            revoking.lock(tx)
            now = tx.now()
            id, found = self._find_request(tx, secret)
            # Of two approvals at once, one deletes the row.
            if not tx.run(_TAKE_REQUEST, id=id):
                raise Unauthorized("This request was decided already.")
            tx.run(
                _ADD_CONSENT,
                id=consent,
                client_id=found.client.id,
                name=plain_name(name or found.client.name) + OAUTH_MARK,
                scope=scope,
                workspace=workspace,
                given_by=grant.token_id,
                audience=_text(found.asked.get("resource")),
                now=now,
                expires_at=self._end_of_giver(tx, grant, now),
            )
            self._add_code(tx, code, "code", consent, found.client.id, scope, found.asked, later(now, expires))
        return code.text, found

    def code(self, client_id: str, code: str) -> AuthorizationCode | None:
        """An authorization code that the client can exchange; None if there is none. A used one ends its consent."""
        return self._load(CODE, client_id, code)

    def refresh_token(self, client_id: str, refresh: str) -> AuthorizationCode | None:
        """A refresh token that the client can exchange; None if there is none. A used one ends its consent."""
        return self._load(REFRESH, client_id, refresh)

    def exchange_code(self, client_id: str, code: str) -> IssuedTokens:
        """Exchange an authorization code for tokens, once. Unauthorized if that is not possible."""
        return self._exchange(CODE, client_id, code, None)

    def exchange_refresh(self, client_id: str, refresh: str, scope: str | None = None) -> IssuedTokens:
        """Exchange a refresh token for new tokens, once. The access token may have a smaller scope."""
        return self._exchange(REFRESH, client_id, refresh, scope)

    def revoke(self, secret: str) -> None:
        """End the consent that an access or refresh token comes from. Does nothing if there is none."""
        with self._engine.write() as tx:
            revoking.lock(tx)
            for kind in (TOKEN, REFRESH):
                try:
                    shown = read(kind, secret, "a token")
                except Unauthorized:
                    continue
                sought = {"id": shown.id}
                row = tx.one(_FAMILY_OF_TOKEN, **sought) if kind == TOKEN else tx.one(_FAMILY_OF_REFRESH, **sought)
                if row is not None and same(shown, row[0]):
                    revoking.end_consent(tx, row[1], tx.now())

    def _load(self, kind: str, client_id: str, secret: str) -> AuthorizationCode | None:
        with self._engine.read() as tx:
            found = self._find_code(tx, kind, client_id, secret, tx.now())
        if found is None or not found.used:
            return None if found is None else found.record
        self._end(found.family)
        return None

    def _exchange(self, kind: str, client_id: str, secret: str, scope: str | None) -> IssuedTokens:
        with self._engine.write() as tx:
            revoking.lock(tx)
            now = tx.now()
            found = self._find_code(tx, kind, client_id, secret, now)
            if found is None:
                raise Unauthorized("This code or refresh token is not known, has expired, or was revoked.")
            if not found.used:
                tx.run(_USE_CODE, id=found.id, now=now)
                return self._issue(tx, found, scope, now)
        # Outside the transaction, which the error would take back.
        self._end(found.family)
        raise Unauthorized(
            "This code or refresh token was used before. Somebody else may know it, so all tokens that came from it "
            "are revoked."
        )

    def _issue(self, tx: Transaction, code: _Code, scope: str | None, now: str) -> IssuedTokens:
        """A new access token and a new refresh token. The former access token works until it expires."""
        row = tx.one(_CONSENT, family=code.family)
        if row is None:
            raise Unauthorized("The consent to this client was revoked.")
        name, most, workspace, audience, end = row
        scope = scope or code.record.scope
        if scope not in SCOPES or SCOPES.index(scope) > SCOPES.index(most):
            raise InvalidInput(f"scope is {scope!r}; the person consented to {most}.")
        client_id = code.record.client_id
        access, refresh = make(TOKEN), make(REFRESH)
        expires_at, refresh_end = _earlier(later(now, ACCESS_LIFE), end), _earlier(later(now, REFRESH_LIFE), end)
        tx.run(
            _ADD_TOKEN,
            id=access.id,
            hash=access.hash,
            name=name,
            scope=scope,
            workspace=workspace,
            client_id=client_id,
            family=code.family,
            audience=audience,
            now=now,
            expires_at=expires_at,
        )
        # It keeps the whole scope, so that a later exchange may ask for it again.
        self._add_code(tx, refresh, "refresh", code.family, client_id, most, None, refresh_end)
        tx.run(_USED_CLIENT, id=client_id, now=now)
        revoking.tidy(tx, now)
        return IssuedTokens(access.text, refresh.text, scope, max(0, int(between(now, expires_at))))

    def _find_request(self, tx: Transaction, secret: str) -> tuple[str, AuthorizationRequest]:
        shown = read(REQUEST, secret, "an authorization request")
        row = tx.one(_REQUEST, id=shown.id)
        if not same(shown, row[0] if row else None) or row is None or row[3] <= tx.now():
            raise Unauthorized("This authorization request was decided already or has expired. Begin again.")
        _, client_id, asked, expires_at = row
        client = Clients(self._engine).get(client_id)
        if client is None:
            raise Unauthorized("This OAuth client is not registered any more.")
        return shown.id, AuthorizationRequest(client, _loaded(asked), expires_at)

    def _find_code(self, tx: Transaction, kind: str, client_id: str, secret: str, now: str) -> _Code | None:
        try:
            shown = read(kind, secret, "a code")
        except Unauthorized:
            return None
        row = tx.one(_FIND_CODE, id=shown.id, kind="code" if kind == CODE else "refresh")
        if not same(shown, row[0] if row else None) or row is None:
            return None
        _, family, owner, scope, asked, expires_at, used_at, audience, ended_at = row
        # The secret of another client is treated as unknown. It must not end that client's consent.
        if owner != client_id or expires_at <= now or ended_at is not None:
            return None
        record = AuthorizationCode(owner, scope, _loaded(asked), audience, expires_at)
        return _Code(shown.id, family, record, used_at is not None)

    def _add_code(
        self,
        tx: Transaction,
        secret: Secret,
        kind: str,
        family: str,
        client_id: str,
        scope: str,
        asked: Mapping[str, object] | None,
        expires_at: str,
    ) -> None:
        tx.run(
            _ADD_CODE,
            id=secret.id,
            hash=secret.hash,
            kind=kind,
            family=family,
            client_id=client_id,
            scope=scope,
            asked=None if asked is None else json.dumps(dict(asked)),
            expires_at=expires_at,
        )

    def _end_of_giver(self, tx: Transaction, grant: Grant, now: str) -> str | None:
        """When the token of the approving person expires; None if it does not."""
        if grant.token_id is None:
            return None
        row: Row | None = tx.one(_GIVER, id=grant.token_id)
        if row is None or row[1] is not None or (row[0] is not None and row[0] <= now):
            raise Unauthorized(f"The token {grant.name!r} has expired or was revoked.")
        end: str | None = row[0]
        return end

    def _end(self, family: str) -> None:
        with self._engine.write() as tx:
            revoking.lock(tx)
            revoking.end_consent(tx, family, tx.now())


def _loaded(asked: str | None) -> dict[str, object]:
    return {} if asked is None else json_columns.load_object(asked, "access_requests.asked")


def _earlier(time: str, end: str | None) -> str:
    return time if end is None else min(time, end)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
