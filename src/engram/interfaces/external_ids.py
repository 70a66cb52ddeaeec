"""A harness's own id of a session or a subagent, in a form that can be stored.

Names with secrets are refused everywhere in Engram. A harness chooses its ids itself, and a hook must not fail because
an id looks like a token. Such an id is replaced by its hash, which is the same each time.
"""

from __future__ import annotations

from ..redact import find


def storable(id: str) -> str:
    """The id, or its hash if it looks like a secret."""
    return hashed(id) if looks_secret(id) else id


def hashed(id: str) -> str:
    from hashlib import blake2b

    return f"id-{blake2b(id.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"


def of_session(session: str, agent: str | None = None) -> str:
    """The external id of a session, or of a subagent in it."""
    id = storable(session)
    return id if agent is None else storable(f"{id[:90]}/{agent[:90]}")


def looks_secret(text: str) -> bool:
    return any(True for _ in find(text))
