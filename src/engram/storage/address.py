"""PostgreSQL addresses: taking Engram's own part out, and hiding secrets. Needs no driver."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ..errors import InvalidURL

DEFAULT_SCHEMA = "engram"


def split_schema(url: str) -> tuple[str, str]:
    """The URL as the driver takes it, and the schema named in it."""
    parts = urlsplit(url)
    schema = DEFAULT_SCHEMA
    query = []
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key == "schema":
            schema = value
        else:
            query.append((key, value))
    if not schema.isidentifier() or not schema.isascii() or len(schema) > 40:
        raise InvalidURL(f"schema {schema!r} in the store's URL must be up to 40 letters, digits and underscores.")
    return urlunsplit(parts._replace(query=urlencode(query))), schema


def masked(url: str) -> str:
    """The URL without its password, for messages."""
    parts = urlsplit(url)
    netloc = parts.netloc
    if parts.password is not None:
        user, _, host = netloc.rpartition("@")
        netloc = f"{user.partition(':')[0]}:***@{host}"
    query = [
        (key, "***" if "password" in key else value) for key, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(query, safe="/*")))
