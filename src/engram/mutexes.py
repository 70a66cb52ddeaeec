"""Names of the locks between writers, in the order in which every writer takes them.

The order is: leases, rows of sessions by id, memories, the embedding queue, blocks by name, items, the words of each
shelf by its name, answers. Code that needs the same lock must use the same name, so the names are defined only here.
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


def terms(workspace: str, shelf: str) -> str:
    """For the words of a shelf. Writers that add to the shelf share it, so they do not wait for each other.

    Whoever removes words has it alone, so that no word vanishes while another writer uses it. So has a transaction that
    adds several times: two of them could otherwise wait for each other's new words.
    """
    return f"terms/{workspace}/{shelf}"


def answers(workspace: str) -> str:
    """For storing the answer to a request, and for blanking answers when something is forgotten.

    Taken last, so it is held only for the commit.
    """
    return f"answers/{workspace}"
