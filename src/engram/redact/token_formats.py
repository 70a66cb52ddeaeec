"""The token formats that providers document.

The list of formats (prefixes, and what may follow them) comes from gitleaks (commit b58d3f10, 222 rules) and
detect-secrets 1.5.0. `bench/redaction.py` compares this list with a rule file of gitleaks.

Every pattern takes linear time. It begins with fixed letters, so the regex engine skips most of a text quickly. A
repetition without an upper limit is possessive: it takes everything it can and never backtracks.
"""

from __future__ import annotations

from .patterns import Span, compiled
from .value_checks import is_placeholder

_HEX, _WORD, _TOKEN, _BASE64 = "[0-9a-fA-F]", "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[A-Za-z0-9+/=_-]"
_DOTTED = "[A-Za-z0-9_.-]"
_UUID = _HEX + "{8}(?:-" + _HEX + "{4}){3}-" + _HEX + "{12}"

#: Each row: the kind, the prefixes, and a pattern for the rest of the token.
PREFIXED = (
    # Of `access/secret_texts.py`: tokens, login links, cookies, OAuth requests, codes and refresh tokens.
    (
        "engram token",
        ("engram_", "engraml_", "engrams_", "engramq_", "engramc_", "engramr_"),
        "[0-9a-f]{12}_" + _TOKEN + "{43}",
    ),
    ("aws key", ("AKIA", "ASIA", "ABIA", "ACCA", "A3T"), "[A-Z0-9]{16,17}"),
    ("aws key", ("ABSK", "bedrock-api-key-"), "[A-Za-z0-9+/]{60,}+={0,2}"),
    ("aws key", ("amzn.mws.",), _UUID),
    ("github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _WORD + "{30,}+"),
    ("github token", ("github_pat_",), "[A-Za-z0-9_]{50,}+"),
    (
        "gitlab token",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glffct-", "glimt-", "glagent-", "gloas-"),
        _DOTTED + "{20,}+",
    ),
    ("gitlab token", ("GR1348941",), _TOKEN + "{20,}+"),
    (
        "slack token",
        ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.", "xoxo-", "xoxc-", "xoxd-", "xapp-"),
        "[A-Za-z0-9.%/+=-]{20,}+",
    ),
    ("stripe key", ("sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"), _WORD + "{10,}+"),
    ("webhook secret", ("whsec_",), "[A-Za-z0-9+/=]{24,}+"),
    ("model key", ("sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-", "sk-lf-"), _TOKEN + "{20,}+"),
    ("model key", ("sk-",), _WORD + "{32,}+"),
    ("model key", ("gsk_", "xai-", "pplx-", "fw_", "r8_", "hf_", "api_org_", "jina_"), _WORD + "{24,}+"),
    ("model key", ("nvapi-", "tvly-", "tgp_v1_", "rpa_"), _TOKEN + "{24,}+"),
    ("google key", ("AIza",), _TOKEN + "{35}"),
    ("google key", ("AQVN",), _TOKEN + "{35,38}"),
    ("google secret", ("GOCSPX-",), _TOKEN + "{24,}+"),
    ("google token", ("ya29.",), _DOTTED + "{30,}+"),
    ("npm token", ("npm_",), _WORD + "{36}"),
    ("pypi token", ("pypi-AgE",), _TOKEN + "{50,}+"),
    ("rubygems key", ("rubygems_",), _HEX + "{48}"),
    ("clojars token", ("CLOJARS_", "clojars_"), _WORD + "{60}"),
    ("docker token", ("dckr_pat_", "dckr_oat_"), _TOKEN + "{24,}+"),
    ("sendgrid key", ("SG.",), "[A-Za-z0-9_=.-]{60,}+"),
    ("mailgun key", ("key-", "pubkey-"), _HEX + "{32}"),
    ("resend key", ("re_",), _WORD + "{8}_" + _WORD + "{24}"),
    ("twilio key", ("SK",), _HEX + "{32}"),
    ("digitalocean token", ("dop_v1_", "doo_v1_", "dor_v1_"), _HEX + "{64}"),
    ("shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), _HEX + "{32}"),
    ("square token", ("sq0atp-", "sq0csp-", "sq0idp-", "EAAA"), _TOKEN + "{22,}+"),
    ("linear key", ("lin_api_", "lin_oauth_"), _WORD + "{32,}+"),
    ("notion token", ("ntn_", "secret_"), _WORD + "{40,}+"),
    ("figma token", ("figd_", "figo_", "figr_"), _TOKEN + "{30,}+"),
    ("atlassian token", ("ATATT3", "ATCTT3", "ATSTT3"), "[A-Za-z0-9_=-]{40,}+"),
    ("atlassian token", ("ATBB",), _WORD + "{28,}+"),
    ("trello token", ("ATTA",), _HEX + "{64,}+"),
    ("databricks token", ("dapi",), _HEX + "{32}(?:-[0-9])?"),
    ("doppler token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."), "[A-Za-z0-9._-]{40,}+"),
    ("grafana token", ("glsa_", "glc_"), "[A-Za-z0-9_+/=]{30,}+"),
    ("grafana token", ("eyJrIjoi",), "[A-Za-z0-9+/=]{60,}+"),
    ("heroku key", ("HRKU-",), _TOKEN + "{36,}+"),
    ("vault token", ("hvs.", "hvb.", "hvr."), _TOKEN + "{24,}+"),
    ("new relic key", ("NRAK-", "NRJS-", "NRII-", "NRRA-"), _TOKEN + "{19,}+"),
    ("planetscale secret", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), "[A-Za-z0-9_.=-]{32,}+"),
    ("postman key", ("PMAK-",), _HEX + "{24}-" + _HEX + "{34}"),
    ("pulumi token", ("pul-",), _HEX + "{40}"),
    ("sentry token", ("sntrys_", "sntryu_"), "[A-Za-z0-9+/=_-]{40,}+"),
    ("supabase token", ("sbp_", "sb_secret_"), _TOKEN + "{24,}+"),
    ("tailscale key", ("tskey-",), _TOKEN + "{24,}+"),
    ("netlify token", ("nfp_", "nfc_"), _WORD + "{36,}+"),
    ("vercel token", ("vcp_", "vck_", "vercel_blob_rw_"), "[A-Za-z0-9_]{24,}+"),
    ("circleci token", ("CCIPAT_", "CCIPRJ_"), _TOKEN + "{30,}+"),
    ("buildkite token", ("bkua_",), _HEX + "{40}"),
    ("launchdarkly key", ("sdk-", "mob-", "api-"), _UUID),
    ("age key", ("AGE-SECRET-KEY-1",), "[A-Z0-9]{58}"),
    ("1password token", ("ops_eyJ",), _BASE64 + "{80,}+"),
    ("1password key", ("A3-",), "[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){3,4}[A-Z0-9]{5}"),
    ("alibaba key", ("LTAI",), _WORD + "{12,24}"),
    ("brevo key", ("xkeysib-", "xsmtpsib-"), _HEX + "{64}-" + _WORD + "{16}"),
    ("vector store key", ("pcsk_",), _TOKEN + "{40,}+"),
    ("langsmith key", ("lsv2_pt_", "lsv2_sk_"), _HEX + "{32}_" + _HEX + "{10}"),
    ("contentful token", ("CFPAT-",), _TOKEN + "{40,}+"),
    ("dynatrace token", ("dt0c01.", "dt0s01."), _WORD + "{24}[.]" + _WORD + "{64}"),
    ("adobe secret", ("p8e-",), _WORD + "{32}"),
    ("artifactory key", ("AKCp", "cmVmd"), _WORD + "{57,}+"),
    ("clickhouse key", ("4b1d",), _WORD + "{38}"),
    ("duffel token", ("duffel_test_", "duffel_live_"), "[A-Za-z0-9_=-]{43}"),
    ("easypost key", ("EZAK", "EZTK"), _WORD + "{54}"),
    ("facebook token", ("EAA",), _WORD + "{80,}+"),
    ("flutterwave key", ("FLWSECK_TEST-", "FLWSECK-"), _WORD + "{12,}+(?:-X)?"),
    ("fly token", ("fo1_", "fm1a_", "fm1r_", "fm2_"), _BASE64 + "{40,}+"),
    ("frameio token", ("fio-u-",), "[A-Za-z0-9_=-]{60,}+"),
    ("harness key", ("pat.", "sat."), _TOKEN + "{22}[.]" + _WORD + "{24}[.]" + _WORD + "{20}"),
    ("infracost key", ("ico-",), _WORD + "{32}"),
    ("intra42 secret", ("s-s4t2ud-", "s-s4t2af-"), _HEX + "{64}"),
    ("octopus key", ("API-",), "[A-Z0-9]{26}"),
    ("openshift token", ("sha256~",), _TOKEN + "{43}"),
    ("prefect token", ("pnu_", "pnb_"), _WORD + "{36}"),
    ("posthog key", ("phx_",), _WORD + "{40,}+"),
    ("neon key", ("napi_",), _WORD + "{40,}+"),
    ("render key", ("rnd_",), _WORD + "{24,}+"),
    ("readme key", ("rdme_",), _WORD + "{60,}+"),
    ("scalingo token", ("tk-us-",), _TOKEN + "{40,}+"),
    ("settlemint token", ("sm_aat_", "sm_pat_", "sm_sat_"), _WORD + "{16}"),
    ("shippo token", ("shippo_live_", "shippo_test_"), _HEX + "{40}"),
    ("sourcegraph token", ("sgp_",), "[A-Za-z0-9_]{40,}+"),
    ("sonar token", ("squ_", "sqp_", "sqa_"), _HEX + "{40}"),
    ("typeform token", ("tfp_",), "[A-Za-z0-9_.=-]{40,}+"),
    ("dropbox token", ("sl.",), "[A-Za-z0-9_=-]{100,}+"),
    ("defined token", ("dnkey-",), "[A-Za-z0-9=_-]{26,}+"),
    ("cloudflare key", ("v1.0-",), _HEX + "{24}-" + _HEX + "{100,}+"),
    ("yandex token", ("t1.",), "[A-Za-z0-9_-]{20,}+={0,2}[.][A-Za-z0-9_-]{86}={0,2}"),
    (
        "authress key",
        ("sc_", "ext_", "scauth_", "authress_"),
        "[a-z0-9]{5,30}[.][a-z0-9]{4,6}[.]acc[_-][A-Za-z0-9+/=_.-]{40,}+",
    ),
    # The bot's id in base64, a time, and a signature.
    (
        "discord token",
        ("MT", "Mj", "Mz", "MD", "ND", "NT", "Nj", "Nz", "OD", "OT"),
        "[A-Za-z0-9]{21,26}[.]" + _TOKEN + "{6}[.]" + _TOKEN + "{27,}+",
    ),
    # "-----BEGIN … PRIVATE KEY" in base64. The lookahead excludes certificates and public keys.
    ("private key", ("LS0tLS1CRUdJTi",), "(?!BDRVJU|BQVUJMSUM)[A-Za-z0-9+/=]{40,}+"),
)

#: The prefixes by the first two letters of their first word: one lookup per word of a text tests all prefixes.
BY_START: dict[str, list[tuple[str, str, str]]] = {}
for _kind, _prefixes, _tail in PREFIXED:
    for _prefix in _prefixes:
        _run = next(run for run in _prefix.replace("_", "-").replace(".", "-").split("-") if len(run) > 1)
        BY_START.setdefault(_run[:2], []).append((_kind, _prefix, _tail))

# What may come before a JWT: none of its own characters, or the last letter of an escape.
_JWT_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-F][0-9A-F])|(?<=\\u[0-9a-f]{4}))"
#: Tokens with fixed letters in the middle. Each row: the kind, those letters, the pattern. If the pattern has a group,
#: only the group is the secret.
SHAPED = (
    (
        "jwt",
        "eyJ",
        _JWT_START
        + r"(?:[A-Za-z0-9-]{1,40}_)?(eyJ[A-Za-z0-9_-]{8,}+\.(?:eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]{10,}+)?"
        r"|[A-Za-z0-9_-]{0,2000}+(?:\.[A-Za-z0-9_-]{10,2000}+){3}))",
    ),
    ("jwt", "ZXlK", r"(?<![A-Za-z0-9+/_-])ZXlK[A-Za-z0-9+/_-]{50,}+={0,2}"),
    ("mapbox token", "k.eyJ", r"(?<![A-Za-z0-9_-])[st]k\.eyJ[A-Za-z0-9_-]{20,}+\.[A-Za-z0-9_-]{20,}+"),
    ("slack webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{20,}+)"),
    ("discord webhook", "/api/webhooks/", r"/api/webhooks/([0-9]{15,22}/[A-Za-z0-9_-]{30,}+)"),
    ("teams webhook", "/IncomingWebhook/", r"/IncomingWebhook/([a-z0-9]{32}/[a-z0-9-]{36})"),
    ("telegram token", ":AA", r"(?<![0-9A-Za-z])[0-9]{8,16}:AA[A-Za-z0-9_-]{32,36}(?![A-Za-z0-9_-])"),
    ("azure key", "Key=", r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}+={0,2})"),
    ("azure secret", "Q~", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("signature", "sig=", r"[?&;]sig=([A-Za-z0-9%+/=_-]{30,}+)"),
    ("signature", "-Signature=", r"[?&;]X-(?:Amz|Goog)-Signature=([A-Za-z0-9%+/=_-]{30,}+)"),
    ("airtable token", "pat", r"(?<![A-Za-z0-9])pat[A-Za-z0-9]{14}\.[0-9a-f]{64}(?![A-Za-z0-9])"),
    ("mailchimp key", "-us", r"(?<![0-9a-zA-Z])[0-9a-f]{32}-us[0-9]{1,2}(?![0-9a-zA-Z])"),
    ("terraform token", ".atlasv1.", r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9=_-]{60,}+"),
    ("maxmind key", "_mmk", r"(?<![A-Za-z0-9])[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?![A-Za-z0-9])"),
    ("session", "_session=", r"_session=([0-9a-z]{32,}+)"),
    ("facebook token", "|", r"(?<![0-9A-Za-z])[0-9]{15,16}\|[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])"),
    ("twitter token", "AAAAAAAAAA", r"(?<!A)A{18,26}[A-Za-z0-9%]{60,}+"),
    ("dropbox token", "AAAAAAAAAA", r"(?<![A-Za-z0-9_-])[A-Za-z0-9]{11}A{10}[A-Za-z0-9_=-]{43}(?![A-Za-z0-9_=-])"),
)

#: The secret half of an AWS key has no fixed letters. It is searched for only if the first half was found.
AWS_SECRET = (
    r"(?<![A-Za-z0-9/+=])(?=[A-Za-z0-9/+]{0,38}[0-9])(?=[A-Za-z0-9/+]{0,38}[A-Z])(?=[0-9A-Z/+]{0,38}[a-z])"
    r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
)


def find_matches(text: str, kind: str, pattern: str) -> list[Span]:
    """Find the matches of a pattern; if it has a group, the matches of the group."""
    return [
        (*match.span(match.lastindex or 0), kind)
        for match in compiled(pattern).finditer(text)
        if not is_placeholder(match[match.lastindex or 0])
    ]
