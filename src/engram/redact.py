r"""Secrets, taken out of a text before it is stored: `[redacted: kind]` stands in their place.

Everything an agent reads may pass through Engram, and what is stored is recalled, injected into other sessions and
backed up. So keys, tokens and passwords are replaced at the one place where content is checked (`checks.content`).

Most texts hold none, and every text pays for the search, so it goes in two steps. A text is first asked for the fixed
letters that each format begins with, which is a search at the speed of C; only where some are found is that format's
pattern compiled and tried. Formats are those the providers document; a maintained scanner from PyPI was tried and left:
it reports lines instead of places, and its import alone takes longer than a hook may.

What a name says (`password = …`, `api_key: …`) is believed only when the value looks chosen at random or is a quoted
password; placeholders, variables, calls, hashes and identifiers stay. All patterns are linear in the text's length.
"""

from __future__ import annotations

import re
from functools import cache

_HEX, _WORD, _TOKEN = "[0-9a-f]", "[A-Za-z0-9]", "[A-Za-z0-9_-]"

#: By kind: what its tokens begin with, and what follows. A token ends where its characters end.
_PREFIXED = (
    ("aws key", ("AKIA", "ASIA", "ABIA", "ACCA"), "[A-Z2-7]{16}"),
    ("github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _WORD + "{36,255}"),
    ("github token", ("github_pat_",), "[A-Za-z0-9_]{60,255}"),
    ("gitlab token", ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-"), "[A-Za-z0-9_.-]{20,255}"),
    ("slack token", ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.", "xapp-"), "[A-Za-z0-9.-]{20,255}"),
    ("stripe key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), _WORD + "{16,255}"),
    ("webhook secret", ("whsec_",), "[A-Za-z0-9+/=]{24,255}"),
    ("model key", ("sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-", "sk-lf-"), _TOKEN + "{20,255}"),
    ("model key", ("sk-",), _WORD + "{32,255}"),
    ("model key", ("gsk_", "xai-", "pplx-", "fw_", "r8_", "hf_", "jina_"), _WORD + "{24,255}"),
    ("model key", ("nvapi-", "tvly-"), _TOKEN + "{24,255}"),
    ("google key", ("AIza",), _TOKEN + "{35}"),
    ("google secret", ("GOCSPX-",), _TOKEN + "{28}"),
    ("google token", ("ya29.",), "[A-Za-z0-9_.-]{30,255}"),
    ("npm token", ("npm_",), _WORD + "{36}"),
    ("pypi token", ("pypi-AgE",), _TOKEN + "{50,500}"),
    ("rubygems key", ("rubygems_",), _HEX + "{48}"),
    ("docker token", ("dckr_pat_", "dckr_oat_"), _TOKEN + "{24,64}"),
    ("sendgrid key", ("SG.",), r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    ("mailgun key", ("key-",), _HEX + "{32}"),
    ("twilio key", ("SK",), _HEX + "{32}"),
    ("digitalocean token", ("dop_v1_", "doo_v1_", "dor_v1_"), _HEX + "{64}"),
    ("shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), "[0-9a-fA-F]{32}"),
    ("square token", ("sq0atp-", "sq0csp-"), _TOKEN + "{22,60}"),
    ("linear key", ("lin_api_", "lin_oauth_"), _WORD + "{32,64}"),
    ("notion token", ("ntn_",), _WORD + "{40,64}"),
    ("figma token", ("figd_",), _TOKEN + "{30,64}"),
    ("atlassian token", ("ATATT3", "ATCTT3"), "[A-Za-z0-9_=-]{40,300}"),
    ("databricks token", ("dapi",), _HEX + "{32}(?:-[0-9])?"),
    ("doppler token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), "[A-Za-z0-9.]{40,64}"),
    ("grafana token", ("glsa_", "glc_"), "[A-Za-z0-9_+/=]{30,400}"),
    ("heroku key", ("HRKU-",), _TOKEN + "{36,80}"),
    ("vault token", ("hvs.", "hvb.", "hvr."), _TOKEN + "{24,300}"),
    ("new relic key", ("NRAK-", "NRJS-", "NRII-"), _TOKEN + "{19,64}"),
    ("planetscale secret", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), "[A-Za-z0-9_.-]{32,64}"),
    ("postman key", ("PMAK-",), _HEX + "{24}-" + _HEX + "{34}"),
    ("pulumi token", ("pul-",), _HEX + "{40}"),
    ("sentry token", ("sntrys_", "sntryu_"), "[A-Za-z0-9+/=_-]{40,300}"),
    ("supabase token", ("sbp_", "sb_secret_"), _TOKEN + "{24,64}"),
    ("tailscale key", ("tskey-",), _TOKEN + "{24,100}"),
    ("netlify token", ("nfp_", "nfc_"), _WORD + "{36,48}"),
    ("vercel token", ("vcp_", "vck_"), _WORD + "{24,80}"),
    ("circleci token", ("CCIPAT_", "CCIPRJ_"), _TOKEN + "{30,80}"),
    ("buildkite token", ("bkua_",), _HEX + "{40}"),
    ("launchdarkly key", ("sdk-",), _HEX + "{8}(?:-" + _HEX + "{4}){3}-" + _HEX + "{12}"),
    ("age key", ("AGE-SECRET-KEY-1",), "[A-Z0-9]{58}"),
    ("1password token", ("ops_eyJ",), "[A-Za-z0-9+/=_-]{80,2000}"),
    ("alibaba key", ("LTAI",), _WORD + "{16,24}"),
    ("brevo key", ("xkeysib-", "xsmtpsib-"), _HEX + "{64}-" + _WORD + "{16}"),
    ("vector store key", ("pcsk_",), _TOKEN + "{40,100}"),
    ("langsmith key", ("lsv2_pt_", "lsv2_sk_"), _HEX + "{32}_" + _HEX + "{10}"),
    ("contentful token", ("CFPAT-",), _TOKEN + "{40,64}"),
    ("dynatrace token", ("dt0c01.", "dt0s01."), "[A-Z0-9]{24}[.][A-Z0-9]{64}"),
)

_BY_START: dict[str, list[tuple[str, str, str]]] = {}
for _kind_of, _prefixes, _tail in _PREFIXED:
    for _prefix in _prefixes:
        _BY_START.setdefault(_prefix[:2], []).append((_kind_of, _prefix, _tail))
_WORDS = r"[A-Za-z0-9_]{2,}"

#: Formats told by letters in their middle: kind, those letters, pattern. Where it has a group, only that is the secret.
_SHAPED = (
    ("jwt", "eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{10,}"),
    ("slack webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_+-]{20,200})"),
    ("discord webhook", "/api/webhooks/", r"/api/webhooks/([0-9]{15,22}/[A-Za-z0-9_-]{30,100})"),
    ("telegram token", ":AA", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,36}(?![A-Za-z0-9_-])"),
    ("azure key", "Key=", r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,100}={0,2})"),
    ("azure secret", "8Q~", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}"),
    ("signature", "sig=", r"[?&]sig=([A-Za-z0-9%+/=_-]{30,1000})"),
    ("signature", "-Signature=", r"[?&]X-(?:Amz|Goog)-Signature=([A-Za-z0-9%+/=_-]{30,1000})"),
    ("airtable token", "pat", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),
    ("mailchimp key", "-us", r"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
)
#: The same, told by a word that stands before them.
_CREDENTIALS = r"\b(?i:bearer|basic)\s{1,4}(?=[A-Za-z0-9._~+/=-]{0,100}[0-9A-Z])([A-Za-z0-9._~+/=-]{16,2000})"
_DISCORD = r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}"
_ANNOUNCED = (
    ("credentials", "earer ", _CREDENTIALS),
    ("credentials", "EARER ", _CREDENTIALS),
    ("credentials", "asic ", _CREDENTIALS),
    ("discord token", "iscord", _DISCORD),
    ("discord token", "ISCORD", _DISCORD),
)
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----[^\"]*?(?:-----END [A-Z0-9 ]{0,40}-----|(?=\")|\Z)"
)
_IN_URL = r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'<>]{0,100}:([^\s/\"'<>]{1,200})@"

#: Names that announce a secret. The first are of passwords, which people choose; the others are made by machines.
_PASSWORDS = ("password", "passwd", "passphrase", "pwd")
_NAMES = (*_PASSWORDS, "secret", "token", "api_key", "apikey", "api-key", "access_key", "accesskey", "credential")
# In JSON within JSON the quotes have backslashes before them.
_ASSIGNED = (
    r"(?i)(?P<name>password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|credential)"
    r"(?:_key|_value|_id)?\\{0,3}[\"'`]?[ \t]{0,3}(?::=|=>|[:=])[ \t]{0,3}"
    r"(?P<quote>\\{0,3}[\"'`]?)(?P<value>[^\s\"'`,;<>(){}\[\]\\]{6,500})(?=(?P<after>.?))"
)
_PLACEHOLDER = (
    r"(?i)example|placeholder|change.?me|redacted|dummy|sample|your[_-]|xxxx|\*\*\*|\.\.\.|12345678|abcdefgh|[$%]\w*"
    r"|^(?:pass(?:word|wd)?|pwd|secret|token|user(?:name)?|string|none|null|true|false|x+)$"
)
_RUN = r"[A-Za-z0-9]{10,}"
#: Nothing shorter is a token: prose has no such words, so it is not searched for tokens at all.
_LONG = 16
#: Every token has some of these; most long words of prose and code do not.
_STREWN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def redact(text: str) -> str:
    """The text without its secrets; the same text when it has none."""
    long = " ".join([word for word in text.split() if len(word) >= _LONG and not _STREWN.isdisjoint(word)])
    if long:
        text = _without_tokens(text, long)
    if "PRIVATE KEY" in text:
        text = _without(text, "private key", _compiled(_PRIVATE_KEY))
    if "://" in text and "@" in text:
        text = _without(text, "password", _compiled(_IN_URL))
    if ":" in text or "=" in text:
        text = _without_values(text, _NAMES if long else _PASSWORDS)
    return text


def _without_tokens(text: str, long: str) -> str:
    """The text without the tokens that can be told by their own letters; `long` are the words they can be in."""
    for start in {word[:2] for word in _compiled(_WORDS).findall(long)} & _BY_START.keys():
        for kind, prefix, tail in _BY_START[start]:
            if prefix in long:
                text = _without(text, kind, _prefixed(prefix, tail))
    for kind, letters, pattern in _SHAPED:
        if letters in long:
            text = _without(text, kind, _compiled(pattern))
    for kind, letters, pattern in _ANNOUNCED:
        if letters in text:
            text = _without(text, kind, _compiled(pattern))
    return text


def _without_values(text: str, names: tuple[str, ...]) -> str:
    """The text without the secrets that follow a name."""
    lower = text.lower()
    # A few letters change their length with their case, and then the places would not be the same.
    if len(lower) != len(text):
        lower = text
    places = sorted({place for name in names if name in lower for place in _places(lower, name)})
    if not places:
        return text
    kept, done = [], 0
    for place in places:
        found = _compiled(_ASSIGNED).match(text, place) if place >= done else None
        if found and _is_secret(found):
            kept += [text[done : found.start("value")], f"[redacted: {_kind(found['name'])}]"]
            done = found.end("value")
    return "".join([*kept, text[done:]])


def _places(text: str, part: str) -> list[int]:
    places, at = [], text.find(part)
    while at >= 0:
        places.append(at)
        at = text.find(part, at + len(part))
    return places


# Compiled on first use: compiling them all takes longer than a whole hook may.
@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _prefixed(prefix: str, tail: str) -> re.Pattern[str]:
    return re.compile(f"(?<![A-Za-z0-9_]){re.escape(prefix)}(?P<tail>{tail})(?![A-Za-z0-9])")


def _without(text: str, kind: str, pattern: re.Pattern[str]) -> str:
    """The text with each match, or the part of it that is the secret, replaced."""
    is_token = "tail" in pattern.groupindex

    def stand_in(found: re.Match[str]) -> str:
        group = found.lastindex or 0
        if group and (_compiled(_PLACEHOLDER).search(found[group]) or (is_token and not _is_mixed(found[group]))):
            return found[0]
        if is_token or not group:
            return f"[redacted: {kind}]"
        start, end = found.start(group) - found.start(), found.end(group) - found.start()
        return f"{found[0][:start]}[redacted: {kind}]{found[0][end:]}"

    return pattern.sub(stand_in, text)


def _is_secret(found: re.Match[str]) -> bool:
    """Whether what stands after a name that announces a secret looks like one."""
    value = found["value"]
    if found["after"] in ("(", "[") or _compiled(_PLACEHOLDER).search(value):
        return False
    if found["name"].lower() in _PASSWORDS:
        return _is_chosen(value, quoted=bool(found["quote"]))
    runs = _compiled(_RUN).findall(value) if len(value) >= _LONG and any(map(str.isdigit, value)) else []
    return any(map(_is_mixed, runs))


def _kind(name: str) -> str:
    name = name.lower()
    return "password" if name in _PASSWORDS else name.replace("_", " ").replace("-", " ")


def _is_mixed(text: str) -> bool:
    """Whether digits or capitals are strewn among its letters, as where a machine chose them."""
    if len(set(text)) < 8:
        return False
    letters = any(map(str.isalpha, text))
    return letters and (any(map(str.isdigit, text)) or (not text.islower() and not text.isupper()))


def _is_chosen(value: str, *, quoted: bool) -> bool:
    """Whether a value is a password somebody chose, not a word of a sentence, a type or a variable."""
    symbols = not value.replace("_", "").replace(".", "").isalnum()
    digits = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return symbols or digits if quoted or len(value) >= 8 else symbols and digits
