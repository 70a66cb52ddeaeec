"""What a word, a command or a URL before it gives away."""

from __future__ import annotations

from .patterns import Span, compiled
from .values import is_chosen, is_placeholder, is_random, is_strong, is_variable

#: `Authorization: Bearer …`, and a scheme by itself.
_SCHEME = (
    r"(?i)\b(?:bearer|basic)(?:[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?|(?:\s|\\[tn]|%20|\+){1,9})"
    r"([A-Za-z0-9._~+/-]{8,}+={0,2})"
)
_HEADER = (
    r"(?i)\bauthorization\\{0,3}[\"']?[ \t]{0,9}[:=,][ \t]{0,9}\\{0,3}[\"']?"
    r"(?:(?:token|digest|[a-z-]{0,12}key|[a-z-]{0,12}auth|negotiate|ntlm)(?:\s|\\t){1,9}+)?([A-Za-z0-9._~+/-]{12,}+={0,2})"
)
# A port with a query after it is no password: `http://localhost:3000?mail=ada@example.com`.
_IN_URL = r"://[^\s:/@\"'<>`]{0,200}+:(?![0-9]{1,5}[?#])([^\s/\"'<>`]+)@"
_USER = r"://([A-Za-z0-9_-]{20,}+)(?::x-oauth-basic)?@"
_SAID = r"(?i)(?:password|passphrase|passcode)(?: for [\w.@-]{1,40})? (?:is|was)[ :]{1,3}([\"'`]?)([^\s\"'`,]{6,200}+)"
_BY = r"(?i)\bidentified\s{1,9}(?:with\s{1,9}[\w'\"]{1,40}\s{1,9})?by\s{1,9}(?:password\s{1,9})?'([^'\n]{4,200})'"

#: Whether there is any of the flags at all.
_FLAG = r" -(?:[upPawU]|-user|[a-z]{0,4}b)"
#: Flags whose meaning depends on the command: pattern, and the commands one of which stands before it in the line.
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
#: How far before a flag its command may stand.
_LINE = 400


def by_scheme(text: str) -> list[Span]:
    """`Bearer …`"""
    return [
        (*match.span(1), "credentials")
        for match in compiled(_SCHEME).finditer(text)
        if _is_credentials(match[1]) and not is_placeholder(match[1])
    ]


def in_headers(text: str) -> list[Span]:
    """`Authorization: …`"""
    return [
        (*match.span(1), "credentials")
        for match in compiled(_HEADER).finditer(text)
        if is_random(match[1]) and not is_placeholder(match[1])
    ]


def in_urls(text: str) -> list[Span]:
    found: list[Span] = [
        (*match.span(1), "password")
        for match in compiled(_IN_URL).finditer(text)
        if not is_placeholder(match[1]) and not is_variable(match[1])
    ]
    return found + [(*match.span(1), "token") for match in compiled(_USER).finditer(text) if is_random(match[1])]


def said(text: str) -> list[Span]:
    """`The password is …`"""
    return [
        (*match.span(2), "password")
        for match in compiled(_SAID).finditer(text)
        if _is_said(match[2].rstrip(".!?;:)"), quoted=bool(match[1]))
    ]


def for_commands(text: str, lower: str) -> list[Span]:
    """Passwords that are given to a command or a database."""
    found: list[Span] = []
    if "identified" in lower:
        found += [(*match.span(1), "password") for match in compiled(_BY).finditer(text) if _is_given(match[1])]
    if compiled(_FLAG).search(text):
        found += [
            (*match.span(1), "password")
            for pattern, commands in _FLAGS
            for match in compiled(pattern).finditer(text)
            if _is_given(match[1]) and _is_command(text, match.start(), commands)
        ]
    return found


def _is_credentials(value: str) -> bool:
    """Whether it is more than a word: base64 and tokens have digits or capitals in their middle."""
    inner = value[1:400]
    strewn = any(map(str.isdigit, inner)) or (not inner.islower() and not inner.isupper())
    return strewn and len(set(value[:400])) >= 6 and (len(value) >= 16 or is_strong(value) or value.endswith("="))


def _is_said(value: str, *, quoted: bool) -> bool:
    if is_placeholder(value) or is_variable(value):
        return False
    return is_chosen(value, quoted=True) if quoted else is_strong(value)


def _is_given(value: str) -> bool:
    return not is_placeholder(value) and not is_variable(value) and is_chosen(value, quoted=True)


def _is_command(text: str, position: int, commands: tuple[str, ...]) -> bool:
    line = text[max(0, position - _LINE) : position + 1]
    line = line[line.rfind("\n", 0, -1) + 1 :]
    return any(command in line for command in commands)
