"""The names under which writers keep each other out, in the order in which everybody takes them.

Leases, then the rows of sessions by id, memories, the backlog, blocks by name, items, shelves, and last the feed.
Two places that mean the same lock must spell it the same way, or neither keeps the other out.
"""

from __future__ import annotations


def leases(workspace: str) -> str:
    """What every claim, every end of one, and what else refers to a session is decided under.

    Who forgets a session holds it, so that nothing can begin to refer to a session while it goes.
    """
    return f"leases/{workspace}"


def memories(workspace: str) -> str:
    """One at a time: two who say the same thing at once must not both be the first."""
    return f"memories/{workspace}"


def backlog(workspace: str) -> str:
    """What entries are taken, given back, finished and withdrawn under.

    So nothing is forgotten half-way through a step, and nobody waits for another's entries crosswise.
    """
    return f"backlog/{workspace}"


def block(workspace: str, name: str) -> str:
    """An edit reads, decides and writes under it."""
    return f"block/{workspace}/{name}"


def items(workspace: str) -> str:
    """Whoever gives an item its vector must find it there."""
    return f"items/{workspace}"
