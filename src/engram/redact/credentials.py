"""Passwords and tokens that the text around them reveals: headers, URLs, commands and sentences."""

from __future__ import annotations

from .patterns import Span, compiled
from .value_checks import is_password, is_placeholder, is_random, is_strong, is_variable

#: `Authorization: Bearer …`, or the scheme without the header's name.
_SCHEME = (
    r"(?i)\b(?:bearer|basic)(?:[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?|(?:\s|\\[tn]|%20|\+){1,9})"
    r"([A-Za-z0-9._~+/-]{8,}+={0,2})"
)
_HEADER = (
    r"(?i)\bauthorization\\{0,3}[\"']?[ \t]{0,9}[:=,][ \t]{0,9}\\{0,3}[\"']?"
    r"(?:(?:token|digest|[a-z-]{0,12}key|[a-z-]{0,12}auth|negotiate|ntlm)(?:\s|\\t){1,9}+)?([A-Za-z0-9._~+/-]{12,}+={0,2})"
)
# A port followed by a query is not a password: `http://localhost:3000?mail=ada@example.com`.
_URL_PASSWORD = r"://[^\s:/@\"'<>`]{0,200}+:(?![0-9]{1,5}[?#])([^\s/\"'<>`]+)@"
_URL_USER = r"://([A-Za-z0-9_-]{20,}+)(?::x-oauth-basic)?@"
_SENTENCE = (
    r"(?i)(?:password|passphrase|passcode)(?: for [\w.@-]{1,40})? (?:is|was)[ :]{1,3}([\"'`]?)([^\s\"'`,]{6,200}+)"
)
#: How a password is stored or sent.
_METHOD = r"(?i)(?:sha|md|base|argon|pbkdf|bcrypt|scrypt|blake|utf|aes|rsa|oauth|totp|http|s3|v)[-_]?[0-9]"
_SQL = r"(?i)\bidentified\s{1,9}(?:with\s{1,9}[\w'\"]{1,40}\s{1,9})?by\s{1,9}(?:password\s{1,9})?'([^'\n]{4,200})'"

#: Matches any of the flags below: a quick first test.
_ANY_FLAG = r" -(?:[upPawU]|-user|[a-z]{0,4}b)"
#: Flags whose meaning depends on the command: the pattern, and commands; one of them must come before it in the line.
_FLAGS = (
    (r" -u(?: ?|=)[\"']?[^\s:\"']{1,100}+:([^\s\"']{3,})", ("curl", "http ", "https ", "xh ", "wget")),
    (r" --user[= ][\"']?[^\s:\"']{1,100}+:([^\s\"']{3,})", ("curl", "wget")),
    (r" -p[\"']?([^\s\"'-][^\s\"']{4,})", ("mysql", "mariadb", "sshpass", "7z")),
    (r" -p[= ]{1,2}[\"']?([^\s\"'-][^\s\"']{4,})", ("sshpass", " login", "mongo", "influx")),
    (r" -P ?[\"']?([^\s\"'-][^\s\"']{4,})", ("zip ", "sqlcmd")),
    (r" -a ?[\"']?([^\s\"'-][^\s\"']{4,})", ("redis-cli",)),
    (r" -w ?[\"']?([^\s\"'-][^\s\"']{4,})", ("ldap",)),
    (r" -U ?[\"']?[^\s%\"']{1,100}+%([^\s\"']{3,})", ("smbclient", "rpcclient")),
    (r" -\w{0,4}b\w{0,4}\s{1,9}\S{1,200}\s{1,9}\S{1,100}\s{1,9}[\"']?([^\s\"'-][^\s\"']{4,})", ("htpasswd",)),
)
#: The largest distance between a command and its flag.
_MAX_DISTANCE = 400


def find_after_scheme(text: str) -> list[Span]:
    """Find `Bearer …` and `Basic …`."""
    return [
        (*match.span(1), "credentials")
        for match in compiled(_SCHEME).finditer(text)
        if _is_credentials(match[1]) and not is_placeholder(match[1])
    ]


def find_in_headers(text: str) -> list[Span]:
    """Find `Authorization: …`."""
    return [
        (*match.span(1), "credentials")
        for match in compiled(_HEADER).finditer(text)
        if is_random(match[1]) and not is_placeholder(match[1])
    ]


def find_in_urls(text: str) -> list[Span]:
    """Find `://user:password@` and `://token@`."""
    found: list[Span] = [
        (*match.span(1), "password")
        for match in compiled(_URL_PASSWORD).finditer(text)
        if not is_placeholder(match[1]) and not is_variable(match[1])
    ]
    return found + [(*match.span(1), "token") for match in compiled(_URL_USER).finditer(text) if is_random(match[1])]


def find_in_sentences(text: str) -> list[Span]:
    """Find `The password is …`."""
    return [
        (*match.span(2), "password")
        for match in compiled(_SENTENCE).finditer(text)
        if _is_password_in_sentence(match[2].rstrip(".!?;:)"), quoted=bool(match[1]))
    ]


def find_in_commands(text: str, lower: str) -> list[Span]:
    """Find passwords in command lines and in SQL."""
    found: list[Span] = []
    if "identified" in lower:
        found += [(*match.span(1), "password") for match in compiled(_SQL).finditer(text) if _is_argument(match[1])]
    if compiled(_ANY_FLAG).search(text):
        found += [
            (*match.span(1), "password")
            for pattern, commands in _FLAGS
            for match in compiled(pattern).finditer(text)
            if _is_argument(match[1]) and _belongs_to(text, match.start(), commands)
        ]
    return found


def _is_credentials(value: str) -> bool:
    """Whether it is more than a word. Base64 and tokens have digits or capitals after the first character."""
    inner = value[1:400]
    mixed = any(map(str.isdigit, inner)) or (not inner.islower() and not inner.isupper())
    return mixed and len(set(value[:400])) >= 6 and (len(value) >= 16 or is_strong(value) or value.endswith("="))


def _is_password_in_sentence(value: str, *, quoted: bool) -> bool:
    if is_placeholder(value) or is_variable(value):
        return False
    if quoted or is_strong(value):
        return is_password(value, quoted=True)
    # `sunset42`, but not a word, and not how it is stored: "the password is base64".
    has_digits = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return has_digits and is_password(value, quoted=True) and compiled(_METHOD).match(value) is None


def _is_argument(value: str) -> bool:
    return not is_placeholder(value) and not is_variable(value) and is_password(value, quoted=True)


def _belongs_to(text: str, position: int, commands: tuple[str, ...]) -> bool:
    line = text[max(0, position - _MAX_DISTANCE) : position + 1]
    line = line[line.rfind("\n", 0, -1) + 1 :]
    return any(command in line for command in commands)
