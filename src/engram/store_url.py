"""Parses PostgreSQL URLs as libpq does, takes out Engram's own option, and hides passwords. Needs no driver.

`urllib` does not fit: it ends the URL at a `#`, which may be part of a password, and it writes a space as `+`, which
libpq reads as a plus sign.
"""

from __future__ import annotations

from typing import NamedTuple

from .errors import InvalidURL

DEFAULT_SCHEMA = "engram"


class Address(NamedTuple):
    scheme: str
    #: `user@` or `user:password@`; empty if the URL has no user.
    user: str
    #: Hosts with ports, and the database.
    target: str
    #: `key=value`, as written.
    options: list[str]


def split(url: str) -> Address:
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    user = authority[: authority.rindex("@") + 1] if "@" in authority else ""
    target, _, query = rest[len(user) :].partition("?")
    return Address(scheme, user, target, query.split("&") if query else [])


def join(address: Address) -> str:
    query = f"?{'&'.join(address.options)}" if address.options else ""
    return f"{address.scheme}://{address.user}{address.target}{query}"


def split_schema(url: str) -> tuple[str, str]:
    """The URL for the driver, and the schema that the URL names."""
    address = split(url)
    for host in address.target.partition("/")[0].split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if host.count("[") != host.count("]") or (port and not port.isdecimal()):
            raise InvalidURL(
                f"{masked(url)}: {host!r} is not a host with a port; write postgresql://host:5432/database."
            )
    schema = DEFAULT_SCHEMA
    for option in address.options:
        if option.startswith("schema="):
            schema = option.removeprefix("schema=")
    if not schema.isidentifier() or not schema.isascii() or len(schema) > 40:
        raise InvalidURL(f"schema {schema!r} in the store's URL must be up to 40 letters, digits and underscores.")
    options = [_quoted(option) for option in address.options if not option.startswith("schema=")]
    return join(address._replace(options=options)), schema


def _quoted(option: str) -> str:
    """The option with its value percent-encoded where libpq needs it, such as a second `=`."""
    from urllib.parse import quote, unquote

    key, equals, value = option.partition("=")
    return f"{key}{equals}{quote(unquote(value), safe='/:,')}"


def masked(url: str) -> str:
    """The URL without its passwords, for messages. Works for any scheme."""
    if "://" not in url:
        return url
    address = split(url)
    name, colon, _ = address.user.removesuffix("@").partition(":")
    options = [
        f"{option.partition('=')[0]}=***" if "password" in option.partition("=")[0] else option
        for option in address.options
    ]
    return join(address._replace(user=f"{name}:***@" if colon else address.user, options=options))
