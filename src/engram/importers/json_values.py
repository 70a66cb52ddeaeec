"""Values of foreign JSON, where anything may be of any type."""

from __future__ import annotations

from hashlib import blake2b


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
    return id if len(id) <= longest else f"{id[: longest - 25]}~{digest(id)}"
