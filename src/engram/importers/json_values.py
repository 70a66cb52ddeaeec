"""Values of foreign JSON, where anything may be of any type."""

from __future__ import annotations

from hashlib import blake2b

from ..redact import redact


def text(value: object) -> str:
    """The text; empty if the value is none."""
    return value if isinstance(value, str) else ""


def fields(value: object) -> dict[str, object]:
    """The object; empty if the value is none."""
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[object]:
    """The array; empty if the value is none."""
    return value if isinstance(value, list) else []


def digest(*parts: str) -> str:
    """A short hash of texts, for ids. It is the same each time."""
    # A lone surrogate can stand in JSON, and cannot be encoded otherwise.
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def short_id(id: str, longest: int = 120) -> str:
    """The id itself, or for a long one its beginning and its hash."""
    # Half of a secret is not recognised any more, so it is removed before the id is cut.
    return id if len(id) <= longest else f"{redact(id)[: longest - 25]}~{digest(id)}"


class Ids:
    """Ids of the memories of one file. A file may give one id to two of them."""

    def __init__(self) -> None:
        #: What the first memory with an id says. A file may have very many, so only hashes are held.
        self._first: dict[int, int] = {}

    def own(self, id: str, said: str) -> str:
        """The id; for another memory that has it and says something else, one that depends on what it says."""
        if self._first.setdefault(hash(id), hash(said)) == hash(said):
            return id
        return f"{short_id(id)}~{digest(said)}"
