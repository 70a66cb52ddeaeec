"""Secrets that Engram hands out: access tokens, login links, cookies, authorization codes, refresh tokens.

Each has the form `engram_<id>_<random>`, with a letter for its kind behind `engram`, so that none can be taken for
another. The id finds the row; it is not secret. Of the whole secret only a SHA-256 hash is stored. That is enough,
because the random part has 256 bits: it cannot be guessed, so a slow hash would protect nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

from ..errors import Unauthorized

#: The kinds, by what a secret begins with.
TOKEN, LINK, COOKIE, REQUEST, CODE, REFRESH = "engram_", "engraml_", "engrams_", "engramq_", "engramc_", "engramr_"

_REST = re.compile(r"([0-9a-f]{12})_[A-Za-z0-9_-]{43}", re.ASCII)
_ANY = re.compile(r"engram[a-z]?_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", re.ASCII)
#: Compared when there is no row, so that an unknown id takes as long as a wrong secret.
_NOBODY = hashlib.sha256(b"").hexdigest()


class Secret(NamedTuple):
    """A new secret, with what is stored of it."""

    text: str
    id: str
    hash: str

    def __repr__(self) -> str:
        return f"Secret(id={self.id!r})"


class Shown(NamedTuple):
    """A secret that a caller shows, without its text."""

    id: str
    hash: str


def make(kind: str) -> Secret:
    id = secrets.token_hex(6)
    text = f"{kind}{id}_{secrets.token_urlsafe(32)}"
    return Secret(text, id, digest(text))


def read(kind: str, text: object, what: str) -> Shown:
    """The id and the hash of a shown secret. Unauthorized if it does not have the form; the store is not needed."""
    if isinstance(text, str) and text.startswith(kind):
        match = _REST.fullmatch(text, len(kind))
        if match is not None:
            return Shown(match[1], digest(text))
    raise Unauthorized(f"This is not {what}.")


def same(shown: Shown, stored: str | None) -> bool:
    """Whether the shown secret is the stored one. Takes as long for a wrong one as for the right one."""
    return hmac.compare_digest(shown.hash, stored or _NOBODY) and stored is not None


def contains_secret(text: str) -> bool:
    """Whether a text contains a secret that Engram has made."""
    return _ANY.search(text) is not None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
