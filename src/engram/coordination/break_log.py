"""Log entries and messages about a broken lease.

Whoever breaks a lease gives a reason. The log of every session that lost a lease repeats that reason, and the session
gets the entry as a message, because an agent does not read its own log. If a session broke it, these entries name the
breaker's entry as their source, and that one repeats what the others had claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..memory import exchanges, provenance
from . import mailboxes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..storage.engine import Transaction

#: The beginning of each entry.
LOST, BROKE = "Lost the claim on ", "Broke the claim on "
A_PERSON = "a person"


def log_break(
    tx: Transaction,
    workspace: str,
    lost: Mapping[str, list[str]],
    by: str | None,
    reason: str,
    now: str,
    author: str | None = None,
) -> None:
    """Log a broken claim for the session that broke it, if it was no person, and for every session that lost one.

    The sessions that lost one get a message. The caller holds the lock of leases.
    """
    entries = {session: f"{LOST}{', '.join(each)}{broken_by(by or A_PERSON)}{reason}" for session, each in lost.items()}
    taken = "; ".join(f"{', '.join(each)}{taken_from(session)}" for session, each in lost.items())
    if by is not None:
        entries[by] = f"{BROKE}{taken}: {reason}"
    logged: dict[str, int] = {}
    # In order of id: all code locks session rows in that order.
    for session, entry in sorted(entries.items()):
        logged[session], _ = exchanges.append(
            tx, workspace, session, "log", entry, now, alive=session == by, author=author
        )
    for session in sorted(lost):
        mailboxes.write(tx, workspace, by, session, [session], entries[session], now, author)
    if by is None:
        return
    for session in lost:
        provenance.add(tx, workspace, "exchange", logged[session], 1, [("exchange", logged[by])])


def broken_by(session: str) -> str:
    """The text between the resources and the reason in the entry of a session that lost them."""
    return f": broken by {session}: "


def taken_from(session: str) -> str:
    """The text after the resources in the entry of the session that took them."""
    return f" from {session}"
