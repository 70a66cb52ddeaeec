"""What the checks of both engines share: the schema, the clock, backups, and what is said of a damaged file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..clock import later, local_time
from ..errors import EngramError, StoreDamaged
from ..health_records import NOTE, WRONG, Check, Finding, fine
from ..safe_text import one_line
from . import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: The kinds and names of what these migrations make.
    Made = Callable[[Sequence[migrate.Migration]], set[tuple[str, str]]]
    #: What differs in the schema from what these migrations make.
    Changed = Callable[[Sequence[migrate.Migration]], list["Difference"]]

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
#: Numbers in a file to import, and of a store, are smaller than this. From here to 2^53, where JSON's numbers end in
#: many programs, there is room for all that a store gives after an import.
NUMBERS_END = 2**52
#: Of a check that cannot read what it is about. Another finding says more.
NOT_READ = "It is not checked, because the file is damaged."


class Difference(NamedTuple):
    """A part of the schema that is not what a migration has made."""

    #: In words: `trigger x is of no migration`.
    what: str
    #: How the user takes it away; empty if that does not help.
    drop: str = ""


def is_about_a_text(error: StoreDamaged) -> bool:
    """Whether only a text is not UTF-8. SQLite keeps it as it is, and the file is sound."""
    return isinstance(error.__cause__, UnicodeDecodeError)


def if_readable(check: Check) -> Check:
    """The check, with few words if the file is damaged."""

    def look() -> Finding:
        try:
            return check.look()
        except StoreDamaged as error:
            if is_about_a_text(error):
                raise
            return Finding(check.name, WRONG, NOT_READ, fix=RESTORE, number=1)

    return check._replace(look=look)


def schema_finding(
    applied: Sequence[migrate.Applied],
    engine: str,
    store: str,
    there: set[tuple[str, str]],
    made: Made,
    restore: str = RESTORE,
    changed: Changed | None = None,
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
    if unrecorded := skipped(applied, todo):
        return Finding(
            name,
            WRONG,
            f"The store lacks part of its record: {unrecorded_text(unrecorded, applied)}.",
            "Commands that upgrade the store make its changes a second time, and fail.",
            restore,
            number=len(unrecorded),
        )
    done = {each.number for each in applied}
    # A migration of a later release may have removed something.
    is_known = done <= {each.number for each in shipped}
    known = made([each for each in shipped if each.number in done]) if is_known else set()
    missing = known - there
    if missing:
        return Finding(
            name,
            WRONG,
            f"The schema lacks what Engram has made: {some(_named(missing))}.",
            "Commands fail, or duplicates and forgotten texts stay in the store.",
            restore,
            number=len(missing),
        )
    differing = changed([each for each in shipped if each.number in done]) if is_known and changed else []
    if differing:
        drops = [each.drop for each in differing if each.drop]
        return Finding(
            name,
            WRONG,
            f"Another program changed the schema: {some([each.what for each in differing])}.",
            "What is written may be changed or deleted, and duplicates and forgotten texts may stay in the store.",
            f"{'; '.join(drops[:NAMED])} in SQLite's shell, or {restore}" if drops else restore,
            number=len(differing),
        )
    if is_known and todo and (early := (made(shipped) - known) & there):
        return Finding(
            name,
            WRONG,
            f"The store lacks part of its record: migration {applied[-1].number} is the last one in it, although the "
            f"schema has what a later one makes: {some(_named(early))}.",
            "An upgrade makes these changes a second time, and fails.",
            restore,
            number=len(early),
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


def _named(objects: set[tuple[str, str]]) -> list[str]:
    return [f"{kind} {name}" for kind, name in sorted(objects, key=lambda each: (_KINDS.index(each[0]), each[1]))]


def skipped(applied: Sequence[migrate.Applied], todo: Sequence[migrate.Migration]) -> list[migrate.Migration]:
    """The migrations that are not recorded, although a later one is. They are always applied in order."""
    newest = max((each.number for each in applied), default=0)
    return [each for each in todo if each.number < newest]


def unrecorded_text(unrecorded: Sequence[migrate.Migration], applied: Sequence[migrate.Applied]) -> str:
    numbers = ", ".join(str(each.number) for each in unrecorded)
    newest = max(each.number for each in applied)
    if len(unrecorded) == 1:
        return f"the record of migration {numbers} is missing, although migration {newest} is recorded"
    return f"the records of migrations {numbers} are missing, although migration {newest} is recorded"


def some(named: Sequence[str], number: int = 0) -> str:
    """The first few of them; `number` is how many there are, if not all are named."""
    rest = max(len(named), number) - NAMED
    return f"{', '.join(named[:NAMED])}{f' and {rest:,} more' if rest > 0 else ''}"


def far_numbers_finding(tables: Sequence[str]) -> Finding:
    """Tables with numbers that Engram has never given."""
    return Finding(
        "store.numbers",
        WRONG,
        f"Another program, or a file that was imported, brought numbers that are too large: {some(tables)}.",
        "An export of the store cannot be imported, and after the last number nothing more can be written.",
        RESTORE,
        number=len(tables),
    )


def clock_finding(newest: str | None, now: str) -> Finding:
    """Whether the newest time in the store is in the past."""
    if newest is None:
        return fine("store.clock", "Nothing was written yet.")
    if local_time(newest) is None:
        return Finding(
            "store.clock",
            WRONG,
            f"The newest time in the store is {one_line(newest, 40)!r}, which is no time.",
            "Another program changed it. Commands that show it fail, or show it in a wrong place.",
            "Do what sessions.times, memories.times and index.places say; if none does, engram restore FILE",
            number=1,
        )
    if newest <= later(now, AHEAD):
        return fine("store.clock", f"Something was written last at {_shown(newest)}.")
    return Finding(
        "store.clock",
        WRONG,
        f"The newest time in the store is {_shown(newest)}, and it is {_shown(now)} now.",
        "This machine's clock was ahead earlier, or is behind now. Leases and sessions end at wrong times.",
        "Correct the clock. Wrong times pass when it reaches them.",
        number=1,
    )


def backup_finding(newest: str | None, now: str, *, is_empty: bool) -> Finding:
    """Whether there is a backup, and how old it is. A note, because the user may have other ones."""
    found = f"The newest backup is of {_shown(newest)}." if newest else "Engram knows no backup of this store."
    if is_empty or (newest is not None and newest >= later(now, -OLD_BACKUP * 86_400.0)):
        return fine("store.backups", found if newest else "Nothing to back up.")
    means = "If the disk fails, what was remembered since is lost."
    return Finding("store.backups", NOTE, found, means, "engram backup", number=1)


def _shown(at: str) -> str:
    """A time for a person; as it is stored if it is no time."""
    return local_time(at) or at
