"""Private keys: a marker and the body after it, in any notation of its lines.

The marker `-----BEGIN PRIVATE KEY-----` alone is not a secret. What follows must look like the body of a key.
"""

from __future__ import annotations

from .patterns import Span, compiled
from .token_formats import find_matches

#: The text between two lines of a body: line breaks, escaped line breaks, and marks of quotes, comments and code.
_BETWEEN = r"(?:\s|\\{1,4}[nrt]|%0[AaDd]|[\"'`,>#|*]|\+(?=[\s\"'\\])|\\(?=\s)){0,80}+"
_BODY = "[A-Za-z0-9+/=]"
_HEADERS = (
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|Subject|x-\w{1,20}):[^\n\\]{0,200}(?:\n|\\{1,4}n)"
    + r"(?:\s|\\{1,4}[nr]){0,20}+){0,8}"
)
_ENDING = r"(?:(?:" + _BETWEEN + _BODY + r"{1,64}+){0,2}" + _BETWEEN + r"-{4,5} ?END[A-Z0-9 ]{0,60}-{4,5})"
#: The last line of a key that was cut off.
_CUT = r"(?:(?:\n|\\{1,4}n)[ \t]{0,40}+" + _BODY + r"{1,15}+(?=\s{0,9}(?:[\"'`\x7f]|\.\.\.|\Z)))"
_PEM = (
    r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    + _BETWEEN
    + _HEADERS
    + _BETWEEN
    # A key that was cut off may have only its first letters, which are always the same.
    + "(?:(?=MII|MC4C|MHcC|b3BlbnNzaC)" + _BODY + "{4,}+|" + _BODY + "{16,}+)"
    + "(?:" + _BETWEEN + _BODY + "{16,}+)*+"
    + "(?:" + _ENDING + "|" + _CUT + ")?"
)  # fmt: skip
_PUTTY = (
    r"rivate-Lines: [0-9]{1,4}((?:" + _BETWEEN + _BODY + "{16,}+)++" + "(?:" + _BETWEEN + _BODY + r"{1,15}+(?=\s))?)"
)
_JWK = r"\\{0,3}\"(?:d|p|q|dp|dq|qi|k)\\{0,3}\"\s{0,9}:\s{0,9}\\{0,3}\"([A-Za-z0-9_-]{20,}+)"


def find_private_keys(text: str) -> list[Span]:
    found = [(*match.span(), "private key") for match in compiled(_PEM).finditer(text)] if "BEGIN" in text else []
    if "rivate-Lines" in text:
        found += find_matches(text, "private key", _PUTTY)
    if '"kty"' in text or 'kty\\"' in text:
        found += find_matches(text, "private key", _JWK)
    return found
