"""The resources of Symbiont's locks: exact strings, which Engram must not read as paths or patterns.

A string is stored as a URL with a scheme of its own. Engram keeps URLs as they are, and one overlaps only its equal.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from ..errors import InvalidInput

_SCHEME = "symbiont://"
#: What a stored resource cannot hold, or would lose at its ends, and the sign that begins an escape.
_UNSAFE = re.compile(r"[%\s\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e01ef\\]")


def stored(resource: str) -> str:
    """The form in which a lease holds the string."""
    if not isinstance(resource, str):
        raise InvalidInput(f"resource is a {type(resource).__name__}; it must be text.")
    return _SCHEME + _UNSAFE.sub(lambda found: quote(found[0], safe=""), resource)


def given(resource: str) -> str:
    """The string that a lease holds. A resource that another program claimed is given as Engram stores it."""
    return unquote(resource.removeprefix(_SCHEME)) if resource.startswith(_SCHEME) else resource


def is_exact(resource: str) -> bool:
    """Whether a lease on this resource was made for an exact string."""
    return resource.startswith(_SCHEME)
