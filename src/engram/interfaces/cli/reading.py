"""Which commands only read. They never make a store, so that a mistyped `--store` leaves no file behind.

One table instead of a mark at each command: a test goes through all commands and asks for a decision about a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ...client import Engram
    from ...config import Config

READING = frozenset(
    {
        *("block diff", "block history", "block list", "block show", "block verify"),
        *("world diff", "world history", "world show"),
        *("context", "history", "receipts", "recall", "sitrep", "stats", "timeline", "usage"),
        *("dream list", "dream review", "dream show", "dream status"),
        *("lock check", "lock list"),
        *("memory list", "memory show"),
        *("session list", "session logs", "session show", "workspace list"),
    }
)
#: Commands that only read when this option is given.
READING_WITH = {"dream run": "dry_run", "forget": "dry_run", "message inbox": "peek"}


def only_reads(ctx: click.Context) -> bool:
    """Whether the command that is running only reads."""
    name = path(ctx)
    return name in READING or bool(name in READING_WITH and ctx.params.get(READING_WITH[name]))


def path(ctx: click.Context) -> str:
    """The command as it is typed, without `engram` and options: `session list`."""
    names: list[str] = []
    while ctx.parent is not None:
        # The command's own name, whichever alias was typed.
        names.insert(0, ctx.command.name or "")
        ctx = ctx.parent
    return " ".join(names)


def open_to_read(ctx: click.Context, settings: Config) -> Engram:
    """The store, which must exist if it was named. As long as there is no default store, an empty one stands in for it.

    The empty one is in a temporary folder and is removed with it, so that each command gives its usual answer to an
    empty store and the machine stays as it was.
    """
    from ...client import Engram
    from ...errors import StoreNotFound

    try:
        return Engram(settings=settings, create=False)
    except StoreNotFound:
        if settings.origins["url"] != "default":
            raise
    import os
    from tempfile import TemporaryDirectory

    folder = TemporaryDirectory(prefix="engram-")
    ctx.call_on_close(folder.cleanup)
    return Engram(settings=settings._replace(url=os.path.join(folder.name, "empty.db")))
