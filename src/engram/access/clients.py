"""OAuth clients: programs that get their tokens from a person's consent, such as an MCP client that knows only a URL.

Anybody who reaches the server can register a client, so their number is limited, and a registration that is not used is
removed after a day. Of a client's secret only a hash is stored.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from .. import checks, json_columns
from ..access_records import OAUTH_MARK, Client, Consent
from ..clock import later
from ..errors import ClientNotFound, InvalidInput, TooManyRequests
from ..redact import redact
from ..safe_text import one_line
from . import revoking
from .secret_texts import digest
from .tokens import MAX_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..storage.engine import Engine, Transaction

MOST_CLIENTS = 200
#: Seconds after which a registration that nobody consented to is removed.
UNUSED_LIFE = 86_400.0
#: Characters of a client's metadata as JSON.
MAX_METADATA = 8_000
#: Seconds that a client waits before it registers again when there are too many.
_FULL_FOR = 3_600

_COLUMNS = "id, name, metadata, hash, created_at, used_at"
_INSERT = """
INSERT INTO access_clients (id, name, metadata, hash, created_at) VALUES (:id, :name, :metadata, :hash, :now)
ON CONFLICT (id) DO NOTHING
"""
_GET = "SELECT " + _COLUMNS + " FROM access_clients WHERE id = :id"
_LIST = "SELECT " + _COLUMNS + " FROM access_clients ORDER BY created_at, id LIMIT :most"
_COUNT = "SELECT COUNT(*) FROM access_clients WHERE id <> :id"
_UNUSED = "SELECT id FROM access_clients WHERE used_at IS NULL AND created_at <= :before ORDER BY id"
# Those that nobody ever let in go first, then those whose consents have ended.
_SPARE = """
SELECT id FROM access_clients c
WHERE NOT EXISTS (SELECT 1 FROM access_consents s WHERE s.client_id = c.id AND s.ended_at IS NULL)
ORDER BY CASE WHEN used_at IS NULL THEN 0 ELSE 1 END, created_at, id LIMIT :most
"""
_DELETE = "DELETE FROM access_clients WHERE id = :id"
_DELETE_REQUESTS = "DELETE FROM access_requests WHERE client_id = :id"
_DELETE_CODES = "DELETE FROM access_codes WHERE client_id = :id"
_DELETE_CONSENTS = "DELETE FROM access_consents WHERE client_id = :id"
_CONSENTS = "SELECT id FROM access_consents WHERE client_id = :id AND ended_at IS NULL ORDER BY id"
_IN_FORCE = """
SELECT s.client_id, s.id, s.name, s.scope, s.workspace, s.created_at, MAX(c.expires_at),
  (SELECT MAX(t.last_used_at) FROM access_tokens t WHERE t.family = s.id)
FROM access_consents s JOIN access_codes c ON c.family = s.id
WHERE s.ended_at IS NULL AND c.used_at IS NULL AND c.expires_at > :now
GROUP BY s.client_id, s.id, s.name, s.scope, s.workspace, s.created_at
ORDER BY s.created_at, s.id
"""


class Clients:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def register(self, id: str, metadata: Mapping[str, object], secret: str | None = None) -> Client:
        """Add a client. `metadata` is what it says about itself, such as `client_name`, without its secret.

        TooManyRequests if there are too many clients that are in use.
        """
        checks.name(id, "client id")
        text = json_columns.dump(dict(metadata), "client metadata", sort=True)
        if len(text) > MAX_METADATA:
            raise InvalidInput(f"The client's metadata has {len(text):,} characters; at most {MAX_METADATA:,} fit.")
        name = plain_name(metadata.get("client_name"))
        hash = None if secret is None else digest(secret)
        with self._engine.write() as tx:
            revoking.lock(tx)
            now = tx.now()
            self._make_room(tx, id, now)
            if not tx.run(_INSERT, id=id, name=name, metadata=text, hash=hash, now=now):
                raise InvalidInput("There is a client with this id already.")
        return _client((id, name, text, hash, now, None))

    def get(self, id: object) -> Client | None:
        """A client; None if there is none of that id."""
        if not isinstance(id, str) or len(id) > checks.MAX_NAME or not id.isprintable():
            return None
        with self._engine.read() as tx:
            row = tx.one(_GET, id=id)
        return None if row is None else _client(row)

    def has_secret(self, client: Client, secret: str) -> bool:
        """Whether this is the client's secret. Takes as long for a wrong one as for the right one."""
        return client.hash is not None and hmac.compare_digest(client.hash, digest(secret))

    def list(self) -> list[Client]:
        """All clients, the oldest first, with the consents that are in force."""
        with self._engine.read() as tx:
            rows = tx.all(_LIST, most=checks.MAX_WHOLE)
            consents: dict[str, tuple[Consent, ...]] = {}
            for client_id, *consent in tx.all(_IN_FORCE, now=tx.now()):
                consents[client_id] = (*consents.get(client_id, ()), Consent(*consent))
        return [_client(row)._replace(consents=consents.get(row[0], ())) for row in rows]

    def find(self, name_or_id: str) -> Client:
        """A client by its id, by what it calls itself, or by the name of a consent. InvalidInput if several match."""
        found = self.list()
        matching = [each for each in found if each.id == name_or_id] or [
            each for each in found if name_or_id in (each.name, *(consent.name for consent in each.consents))
        ]
        if len(matching) > 1:
            ids = ", ".join(each.id for each in matching)
            raise InvalidInput(f"Several OAuth clients are named {name_or_id!r}. Give the id of one of them: {ids}.")
        if not matching:
            raise ClientNotFound(f"There is no OAuth client {name_or_id!r}.", typed="`engram token list` lists them.")
        return matching[0]

    def remove(self, name_or_id: str) -> Client:
        """Remove a client and revoke its tokens."""
        client = self.find(name_or_id)
        with self._engine.write() as tx:
            revoking.lock(tx)
            _remove(tx, client.id, tx.now())
        return client

    def _make_room(self, tx: Transaction, id: str, now: str) -> None:
        revoking.tidy(tx, now)
        for unused in tx.column(_UNUSED, before=later(now, -UNUSED_LIFE)):
            _remove(tx, unused, now)
        excess = tx.value(_COUNT, id=id) + 1 - MOST_CLIENTS
        if excess <= 0:
            return
        spare = tx.column(_SPARE, most=excess)
        if len(spare) < excess:
            raise TooManyRequests(
                f"There are {MOST_CLIENTS} OAuth clients already. Remove one that is not needed any more.", _FULL_FOR
            )
        for client in spare:
            _remove(tx, client, now)


def plain_name(name: object) -> str:
    """What a client calls itself, as it can be shown: one line, without secrets, and without the mark of our own."""
    text = one_line(redact(name[:1_000]), MAX_NAME - len(OAUTH_MARK) - 1).strip() if isinstance(name, str) else ""
    while text.lower().endswith(OAUTH_MARK.strip()):
        text = text[: -len(OAUTH_MARK.strip())].strip()
    return text or "client"


def _remove(tx: Transaction, id: str, now: str) -> None:
    for consent in tx.column(_CONSENTS, id=id):
        revoking.end_consent(tx, consent, now)
    tx.run(_DELETE_REQUESTS, id=id)
    tx.run(_DELETE_CODES, id=id)
    tx.run(_DELETE_CONSENTS, id=id)
    tx.run(_DELETE, id=id)


def _client(row: tuple[object, ...]) -> Client:
    id, name, metadata, hash, created_at, used_at = row
    loaded = json_columns.load_object(str(metadata), "access_clients.metadata")
    return Client(str(id), str(name), loaded, hash, str(created_at), used_at)  # type: ignore[arg-type]
