"""The commands that only read. They never create a store, so that a mistyped `--store` leaves no file behind.

This is one table, and not a mark at each command: a test fails until every new command is listed here or there.
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
        *("activity", "graph", "harnesses"),
        *("brief", "context", "history", "receipts", "recall", "sitrep", "stats", "timeline", "usage"),
        "embedder list",
        *("dream list", "dream review", "dream show", "dream status"),
        *("lock check", "lock list"),
        *("memory history", "memory list", "memory show", "message list"),
        *("session list", "session logs", "session show", "token list", "workspace list"),
    }
)
#: Commands that only read when this option is given.
READING_WITH = {"dream run": "dry_run", "forget": "dry_run", "import": "dry_run", "message inbox": "peek"}
#: Commands that only read when this argument is not given.
READING_WITHOUT = {"dream thinker": "name"}
#: Commands about the whole store, which do not need an existing workspace. A list of the workspaces helps most when the
#: name is wrong.
STORE_WIDE = ("token list", "workspace list")


def only_reads(ctx: click.Context) -> bool:
    """Whether the command that is running only reads."""
    name = path(ctx)
    if name in READING_WITHOUT:
        return ctx.params.get(READING_WITHOUT[name]) is None
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
    """The store, which must exist if it was named. If there is no default store yet, an empty one takes its place.

    The empty one is in a temporary folder, which is removed at the end. So each command gives its usual answer for an
    empty store, and nothing is written to the machine.
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
