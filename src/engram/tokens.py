"""How many tokens a text costs, by estimate.

No tokenizer fits every model, and loading one costs more than a whole report. Latin text runs at about four characters
a token; Greek, Cyrillic, Arabic and their like at two; a Chinese, Japanese or Korean character is about a token by
itself, and an emoji two. How many characters of each kind a text has follows from its length in several encodings, so
that even a megabyte is counted at the speed of C.
"""

from __future__ import annotations

#: For scripts whose words most tokenizers know well.
CHARACTERS_PER_TOKEN = 4


def estimate(text: str) -> int:
    """Tokens, rounded up; never 0 for a text that is not empty."""
    return -(-weight(text) // CHARACTERS_PER_TOKEN)


def weight(text: str) -> int:
    """The cost in quarters of a token, which add up exactly when texts are joined."""
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
