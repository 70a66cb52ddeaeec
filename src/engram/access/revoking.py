"""Ends tokens, and what was let in with them: logins, links, and consents to OAuth clients with their tokens.

Without that, a thief of a token could keep a login or an OAuth client when the token is revoked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import later

if TYPE_CHECKING:
    from ..storage.engine import Transaction

_REVOKE = "UPDATE access_tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL"
_DROP_LINKS = "DELETE FROM access_links WHERE token_id = :id"
_DROP_LOGINS = "DELETE FROM access_logins WHERE token_id = :id"
_GIVEN = "SELECT id FROM access_consents WHERE given_by = :id AND ended_at IS NULL ORDER BY id"
_END_CONSENT = "UPDATE access_consents SET ended_at = :now WHERE id = :family AND ended_at IS NULL"
_REVOKE_FAMILY = "UPDATE access_tokens SET revoked_at = :now WHERE family = :family AND revoked_at IS NULL"
_FAMILY_TOKENS = "SELECT id FROM access_tokens WHERE family = :family ORDER BY id"
_OLD_CODES = "DELETE FROM access_codes WHERE expires_at <= :now"
_OLD_CONSENTS = """
DELETE FROM access_consents
WHERE created_at <= :before AND NOT EXISTS (SELECT 1 FROM access_codes c WHERE c.family = access_consents.id)
"""
_OLD_TOKENS = "DELETE FROM access_tokens WHERE client_id IS NOT NULL AND expires_at <= :before"
_FAMILY_OF = "SELECT family FROM access_tokens WHERE id = :id"


#: Seconds after which a consent without a code or refresh token is removed, and an OAuth token that has expired. The
#: latter tells until then when its client was last here.
_CONSENT_KEPT, _TOKEN_KEPT = 3_600.0, 7 * 86_400.0


def lock(tx: Transaction) -> None:
    """Take the lock between issuing OAuth tokens and ending consents, so that no new token outlives its consent."""
    tx.lock("access/consents")


def tidy(tx: Transaction, now: str) -> None:
    """Remove what has expired. There are few rows: about one new token an hour for each client."""
    tx.run(_OLD_CODES, now=now)
    tx.run(_OLD_CONSENTS, before=later(now, -_CONSENT_KEPT))
    tx.run(_OLD_TOKENS, before=later(now, -_TOKEN_KEPT))


def revoke_token(tx: Transaction, id: str, now: str) -> None:
    """End a token and everything that it let in, under `lock`. The token of an OAuth client ends with its consent."""
    family = tx.value(_FAMILY_OF, id=id)
    if family is not None:
        end_consent(tx, family, now)
    _end(tx, id, now)


def end_consent(tx: Transaction, family: str, now: str) -> None:
    """End a consent: its tokens are revoked, and its codes and refresh tokens work no more."""
    tx.run(_END_CONSENT, family=family, now=now)
    tokens = tx.column(_FAMILY_TOKENS, family=family)
    tx.run(_REVOKE_FAMILY, family=family, now=now)
    for id in tokens:
        _end(tx, id, now)


def _end(tx: Transaction, id: str, now: str) -> None:
    tx.run(_REVOKE, id=id, now=now)
    tx.run(_DROP_LINKS, id=id)
    tx.run(_DROP_LOGINS, id=id)
    for family in tx.column(_GIVEN, id=id):
        end_consent(tx, family, now)
