"""Estimates how many tokens a text has.

No tokenizer fits every model, and loading one takes longer than making a whole report. Latin text has about four
characters per token; Greek, Cyrillic, Arabic and similar scripts have two. A Chinese, Japanese or Korean character is
about one token, and an emoji two. The lengths of a text in several encodings give the number of characters of each
kind. The encoders are written in C, so even a megabyte is fast.
"""

from __future__ import annotations

#: For Latin text.
CHARACTERS_PER_TOKEN = 4


def estimate(text: str) -> int:
    """The number of tokens, rounded up. Only an empty text has 0."""
    return -(-weight(text) // CHARACTERS_PER_TOKEN)


def weight(text: str) -> int:
    """The number of quarter tokens. The weight of joined texts is exactly the sum of their weights."""
    characters = len(text)
    if text.isascii():
        return characters
    one_byte = len(text.encode("ascii", "ignore"))
    latin = len(text.encode("latin-1", "ignore"))
    four_bytes = len(text.encode("utf-16-le", "surrogatepass")) // 2 - characters
    two_or_three = characters - one_byte - four_bytes
    three_bytes = len(text.encode("utf-8", "surrogatepass")) - one_byte - 4 * four_bytes - 2 * two_or_three
    other_alphabets = two_or_three - three_bytes - (latin - one_byte)
    return latin + 2 * other_alphabets + 4 * three_bytes + 8 * four_bytes
