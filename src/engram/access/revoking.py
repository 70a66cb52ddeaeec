"""Ends tokens, and what was let in with them: logins, links, and consents to OAuth clients with their tokens.

Without that, whoever holds a token that became known could keep a login or an OAuth client beyond its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.engine import Transaction

_REVOKE = "UPDATE access_tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL"
_DROP_LINKS = "DELETE FROM access_links WHERE token_id = :id"
_DROP_LOGINS = "DELETE FROM access_logins WHERE token_id = :id"
_GIVEN = "SELECT id FROM access_consents WHERE given_by = :id AND ended_at IS NULL ORDER BY id"
_END_CONSENT = "UPDATE access_consents SET ended_at = :now WHERE id = :family AND ended_at IS NULL"
_REVOKE_FAMILY = "UPDATE access_tokens SET revoked_at = :now WHERE family = :family AND revoked_at IS NULL"
_FAMILY_TOKENS = "SELECT id FROM access_tokens WHERE family = :family ORDER BY id"
_FAMILY_OF = "SELECT family FROM access_tokens WHERE id = :id"


def revoke_token(tx: Transaction, id: str, now: str) -> None:
    """End a token and everything that it let in. The token of an OAuth client ends with its consent."""
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
