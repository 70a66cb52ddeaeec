"""The cookie of a login: its name, and the secret in it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from .answers import Scope
    from .origins import Places


def name_at(origin: str) -> str:
    """The name of the cookie. Browsers accept one with the prefix only over HTTPS and only from this very host.

    Cookies do not know ports, so without HTTPS the names of two servers on one machine must differ.
    """
    return "__Host-engram" if origin.startswith("https:") else f"engram-{urlsplit(origin).port or 80}"


def find(places: Places, scope: Scope) -> str | None:
    """The secret of the login that a request carries; None if there is none."""
    wanted = name_at(places.origin(scope)).encode()
    for header, value in scope["headers"]:
        if header == b"cookie":
            for each in value.split(b";"):
                name, _, secret = each.strip().partition(b"=")
                if name == wanted:
                    return secret.decode("latin-1") or None
    return None


def header(origin: str, secret: str, seconds: int) -> str:
    """The value of Set-Cookie. No script can read the cookie, and no other site makes the browser send it."""
    secure = "; Secure" if origin.startswith("https:") else ""
    return f"{name_at(origin)}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
