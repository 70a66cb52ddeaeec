"""What the checks of both engines share: the schema, the clock, and backups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import later
from ..errors import EngramError
from ..health_records import NOTE, OK, WRONG, Finding, fine
from . import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: The kinds and names of what the schema lacks of what these migrations make.
    Lost = Callable[[Sequence[migrate.Migration]], set[tuple[str, str]]]

#: How a store gets back what it has lost.
RESTORE = "engram restore FILE --force; `engram restore --list` shows the backups"
#: Seconds by which a stored time may be ahead of the clock.
AHEAD = 120.0
#: Days after which a backup counts as old.
OLD_BACKUP = 7
#: The kinds of what a schema has. What goes with a table is named after it.
_KINDS = ("table", "trigger", "function", "index")
#: How many things a finding names.
NAMED = 3


def schema_finding(
    applied: Sequence[migrate.Applied], engine: str, store: str, lost: Lost, restore: str = RESTORE
) -> Finding:
    """Whether this version knows the store's migrations, all are applied, and what they made is there."""
    name = "store.schema"
    if not applied:
        return Finding(name, WRONG, "The store has no schema.", "It cannot be used.", "engram restore FILE", number=1)
    shipped = migrate.shipped(engine)
    try:
        todo = migrate.pending(applied, shipped, store)
    except EngramError as error:
        return Finding(name, WRONG, str(error), "This version cannot use the store.", "Install another one.", number=1)
    done = {each.number for each in applied}
    # A migration of a later release may have removed something.
    is_known = done <= {each.number for each in shipped}
    missing = lost([each for each in shipped if each.number in done]) if is_known else set()
    if missing:
        named = [f"{kind} {name}" for kind, name in sorted(missing, key=lambda each: (_KINDS.index(each[0]), each[1]))]
        return Finding(
            name,
            WRONG,
            f"The schema lacks what Engram has made: {some(named)}.",
            "Commands fail, or duplicates and forgotten texts stay in the store.",
            restore,
            number=len(missing),
        )
    if not todo:
        return fine(name, f"The schema is {applied[-1].number}, the newest that this version knows.")
    return Finding(
        name,
        NOTE,
        f"The schema is {applied[-1].number}; this version has {todo[-1].number}.",
        "Hooks may not record until the store is upgraded.",
        "engram upgrade",
        number=len(todo),
    )


def some(named: Sequence[str], number: int = 0) -> str:
    """The first few of them; `number` is how many there are, if not all are named."""
    rest = max(len(named), number) - NAMED
    return f"{', '.join(named[:NAMED])}{f' and {rest:,} more' if rest > 0 else ''}"


def clock_finding(newest: str | None, now: str) -> Finding:
    """Whether the newest time in the store is in the past."""
    if newest is None or newest <= later(now, AHEAD):
        return fine("store.clock", f"Something was written last at {newest}." if newest else "Nothing was written yet.")
    return Finding(
        "store.clock",
        WRONG,
        f"The newest time in the store is {newest}, and it is {now} now.",
        "This machine's clock was ahead earlier, or is behind now. Leases and sessions end at wrong times.",
        "Correct the clock. Wrong times pass when it reaches them.",
        number=1,
    )


def backup_finding(newest: str | None, now: str, *, is_empty: bool) -> Finding:
    """Whether there is a backup, and how old it is. A note, because the user may have other ones."""
    if is_empty or (newest is not None and newest >= later(now, -OLD_BACKUP * 86_400.0)):
        return Finding("store.backups", OK, f"The newest backup is of {newest}." if newest else "Nothing to back up.")
    found = f"The newest backup is of {newest}." if newest else "Engram knows no backup of this store."
    means = "If the disk fails, what was remembered since is lost."
    return Finding("store.backups", NOTE, found, means, "engram backup", number=1)
