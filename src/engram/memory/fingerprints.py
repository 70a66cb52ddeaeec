"""Tells whether two contents are the same text."""

from __future__ import annotations


def fingerprint(content: str) -> str:
    """A hash that ignores case, spaces and different encodings of a character."""
    import hashlib
    import unicodedata

    plain = " ".join(unicodedata.normalize("NFKC", content).casefold().split())
    return hashlib.sha256(plain.encode()).hexdigest()
