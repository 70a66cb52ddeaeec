"""What `engram doctor` finds. A check is a small function; some can also mend what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from .errors import EngramError

#: The states of a finding. A note is worth knowing; only `wrong` makes `engram doctor` fail.
OK, NOTE, WRONG = "ok", "note", "wrong"


_AFTER_OTHERS = "Do what other findings say; if this one stays, engram restore FILE"


class Finding(NamedTuple):
    """The result of one check."""

    #: What was checked: `leases.ended`.
    name: str
    #: `ok`, `note` or `wrong`.
    state: str
    #: What was found, in a sentence.
    found: str
    #: What it means for the user; empty if all is well.
    means: str = ""
    #: What to do: a command, or a step by hand.
    fix: str = ""
    #: Whether `engram doctor --fix` does it.
    mends: bool = False
    #: How many things it is about.
    number: int = 0
    #: The workspace it is about; None: the store or the machine.
    workspace: str | None = None
    #: How many things were mended just now; None if nothing was tried.
    mended: int | None = None


class Check(NamedTuple):
    name: str
    look: Callable[[], Finding]
    #: Mends what was found, and says how many things that were.
    mend: Callable[[], int] | None = None
    #: Whether nothing after it is mended if it finds something wrong: a damaged file is not written to.
    guards: bool = False


def counted(number: int, one: str, many: str) -> str:
    """`1 turn is`, `2 turns are`."""
    return f"{number:,} {one if number == 1 else many}"


def fine(name: str, found: str, workspace: str | None = None) -> Finding:
    return Finding(name, OK, found, workspace=workspace)


def mendable(name: str, found: str, means: str, number: int, workspace: str | None) -> Finding:
    """Something wrong that `engram doctor --fix` mends."""
    return Finding(name, WRONG, found, means, "engram doctor --fix", mends=True, number=number, workspace=workspace)


def examine(checks: Iterable[Check], *, fix: bool = False, said: str = "") -> list[Finding]:
    """What the checks find, in their order. With `fix` each mends what it can, and looks again.

    A check that cannot be made, for the reason that another finding has `said`, is left out.
    """
    checks, found = list(checks), []
    is_damaged = False
    for check in checks:
        each = _examined(check, fix and not is_damaged)
        found.append(_not_mended(each) if is_damaged else each)
        is_damaged = is_damaged or (check.guards and each.state == WRONG)
    if any(each.mended for each in found) and not is_damaged:
        # A later check may have mended what an earlier one found.
        found = [
            each if each.state == OK else _examined(check, False)._replace(mended=each.mended)
            for check, each in zip(checks, found, strict=True)
        ]
    return [each for each in found if not said or each.found != _not_checked(said)]


def _not_mended(found: Finding) -> Finding:
    """A finding about a damaged file."""
    if found.state == OK or not found.mends:
        return found
    why = f"{found.found} It is not mended while the file is damaged."
    return found._replace(found=why, mends=False, fix="Restore a backup first.")


def _not_checked(why: str) -> str:
    return f"It could not be checked: {why}"


def _examined(check: Check, fix: bool) -> Finding:
    try:
        found = check.look()
        if fix and check.mend is not None and found.mends and found.state != OK:
            mended = check.mend()
            found = check.look()._replace(mended=mended)
        return found
    except Exception as error:
        # A row with a value that Engram never writes may break a check anywhere. The others must go on.
        means = "Other checks go on; what this one is about is unknown."
        return Finding(check.name, WRONG, _not_checked(_why(error)), means, "" if _is_told(error) else _AFTER_OTHERS)


def _is_told(error: Exception) -> bool:
    """Whether an error says by itself what is wrong."""
    return isinstance(error, EngramError | OSError)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or 'the system refuses it'}{f': {error.filename}' if error.filename else ''}."
    return str(error) if isinstance(error, EngramError) else "a value in the store has another form than Engram writes."
