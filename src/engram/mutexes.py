"""Names of the locks between writers, in the order in which every writer takes them.

The order is: leases, rows of sessions by id, memories, the embedding queue, blocks by name, items, shelves, answers,
the change feed. Code that needs the same lock must use the same name, so the names are defined only here.
"""

from __future__ import annotations


def leases(workspace: str) -> str:
    """For making and ending leases, and for all other writes that refer to a session.

    Forgetting a session takes this lock, so that no other writer can add a reference to the session meanwhile.
    """
    return f"leases/{workspace}"


def memories(workspace: str) -> str:
    """Serialises writers of memories, so that concurrent duplicates cannot both be inserted."""
    return f"memories/{workspace}"


def embedding_queue(workspace: str) -> str:
    """For taking, releasing, finishing and withdrawing entries of the embedding queue.

    The lock keeps forgetting out of a running step, and prevents deadlocks between two processes.
    """
    # Earlier releases use the same name on the same store.
    return f"backlog/{workspace}"


def block(workspace: str, name: str) -> str:
    """For an edit of a block. The editor reads the block, decides and writes under this lock."""
    return f"block/{workspace}/{name}"


def items(workspace: str) -> str:
    """For writing vectors of items and for deleting items."""
    return f"items/{workspace}"


def answers(workspace: str) -> str:
    """For storing the answer to a request, and for blanking answers when something is forgotten.

    Taken last, so it is held only for the commit, like the lock of the change feed.
    """
    return f"answers/{workspace}"
