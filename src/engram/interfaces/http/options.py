"""What `engram serve` was told, as far as requests depend on it."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8377


class Options(NamedTuple):
    #: The address that clients use; behind a proxy, the proxy's. None: where the server listens.
    public_url: str | None = None
    #: Whether a proxy stands in front, so that its `X-Forwarded-…` headers count.
    behind_proxy: bool = False
    #: The largest body of a request, in bytes.
    max_body: int = 4 * 1024 * 1024
    #: Whether passes of dreaming that are due start by themselves; None: as the setting `auto_dream` says.
    dream: bool | None = None
    #: Whether the process also loads the model, works through the embedding queue and starts passes.
    chores: bool = False
    #: Whether each request gets a line on standard error.
    log: bool = False
    #: Threads that read and threads that write; None: what suits the store.
    readers: int | None = None
    writers: int | None = None
    #: Where the server listens, and whether it ends TLS itself.
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    tls: bool = False
