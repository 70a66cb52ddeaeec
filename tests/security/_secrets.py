"""Made-up secrets in the formats of common providers, and texts that only look like secrets.

They are built at run time from parts and random text with a fixed seed. So no file of this repository contains text
that a scanner would report, and no secret is real.
"""

from __future__ import annotations

import base64
import hashlib
import random
import string
import uuid

LOWER_HEX = "0123456789abcdef"
WORD = string.ascii_letters + string.digits
TOKEN = WORD + "-_"
UPPER = string.ascii_uppercase + string.digits


def secrets() -> list[tuple[str, str]]:
    """A hundred texts as a user would paste them, each with the part that must not be stored."""
    noise = random.Random(20261115)

    def some(alphabet: str, length: int) -> str:
        return "".join(noise.choice(alphabet) for _ in range(length))

    def made(before: str, alphabet: str, length: int, after: str = "") -> str:
        return before + some(alphabet, length) + after

    base32 = string.ascii_uppercase + "234567"
    tokens = [
        *(made("AK" + "IA", base32, 16), made("AS" + "IA", base32, 16)),
        *(made(f"gh{letter}_", WORD, 36) for letter in "pousr"),
        made("github_" + "pat_", WORD, 22, "_" + some(WORD, 59)),
        *(made(f"gl{name}-", TOKEN, 20) for name in ("pat", "dt", "rt", "soat")),
        *(f"xox{letter}-{some(string.digits, 12)}-{some(string.digits, 12)}-{some(WORD, 24)}" for letter in "bpars"),
        f"xapp-1-{some(UPPER, 11)}-{some(string.digits, 13)}-{some(LOWER_HEX, 64)}",
        *(made(f"{kind}_{mode}_", WORD, 24) for kind in ("sk", "rk") for mode in ("live", "test")),
        made("whsec" + "_", WORD, 32),
        *(made(f"sk-{name}-", TOKEN, 80) for name in ("proj", "svcacct", "admin")),
        made("sk-" + "ant-api03-", TOKEN, 93, "AA"),
        made("sk-" + "or-v1-", LOWER_HEX, 64),
        made("sk" + "-", WORD, 48),
        made("gsk" + "_", WORD, 52),
        made("xai" + "-", WORD, 80),
        made("pplx" + "-", WORD, 48),
        made("r8" + "_", WORD, 37),
        made("hf" + "_", string.ascii_letters, 34),
        made("nvapi" + "-", TOKEN, 64),
        made("AIza" + "Sy", TOKEN, 33),
        made("GOCSPX" + "-", TOKEN, 28),
        made("ya29" + ".", TOKEN, 120),
        made("npm" + "_", WORD, 36),
        made("pypi-" + "AgEIcHlwaS5vcmc", TOKEN, 140),
        made("rubygems" + "_", LOWER_HEX, 48),
        made("dckr_" + "pat_", TOKEN, 27),
        f"SG.{some(TOKEN, 22)}.{some(TOKEN, 43)}",
        made("key" + "-", LOWER_HEX, 32),
        made("S" + "K", LOWER_HEX, 32),
        *(made(f"{name}_v1_", LOWER_HEX, 64) for name in ("dop", "doo", "dor")),
        *(made(f"shp{name}_", LOWER_HEX, 32) for name in ("at", "ca", "pa", "ss")),
        made("sq0" + "atp-", TOKEN, 22),
        made("lin_" + "api_", WORD, 40),
        made("ntn" + "_", WORD, 46),
        made("figd" + "_", TOKEN, 40),
        made("ATATT" + "3xFfGF0", TOKEN, 180),
        made("dapi", LOWER_HEX, 32),
        made("dp." + "pt.", WORD, 43),
        made("glsa" + "_", WORD, 32, "_" + some(LOWER_HEX, 8)),
        made("HRKU" + "-", TOKEN, 58),
        made("hvs" + ".", TOKEN, 90),
        made("NRAK" + "-", UPPER, 27),
        made("pscale_" + "tkn_", TOKEN, 43),
        f"PMAK-{some(LOWER_HEX, 24)}-{some(LOWER_HEX, 34)}",
        made("pul" + "-", LOWER_HEX, 40),
        made("sntrys" + "_", WORD, 100),
        made("sbp" + "_", LOWER_HEX, 40),
        made("tskey" + "-auth-", WORD, 40),
        made("nfp" + "_", WORD, 40),
        made("CCIPAT" + "_", WORD, 22, "_" + some(LOWER_HEX, 40)),
        made("AGE-SECRET-" + "KEY-1", UPPER, 58),
        made("LT" + "AI", WORD, 20),
        f"xkeysib-{some(LOWER_HEX, 64)}-{some(WORD, 16)}",
        made("pcsk" + "_", WORD, 70),
        f"lsv2_pt_{some(LOWER_HEX, 32)}_{some(LOWER_HEX, 10)}",
        f"dt0c01.{some(UPPER, 24)}.{some(UPPER, 64)}",
        f"{some(string.digits, 10)}:AA{some(TOKEN, 33)}",
        f"{some(TOKEN, 3)}8Q~{some(TOKEN, 34)}",
        f"pat{some(WORD, 14)}.{some(LOWER_HEX, 64)}",
        f"{some(LOWER_HEX, 32)}-us7",
        ".".join(
            [
                base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("="),
                base64.urlsafe_b64encode(b'{"sub":"' + some(WORD, 12).encode() + b'"}').decode().rstrip("="),
                some(TOKEN, 43),
            ]
        ),
    ]
    # A whole token ends with a letter or digit here: as in a sentence, what follows it may be a dash.
    whole = [token.rstrip("-_") for token in tokens]
    found = [(f"I used {token} for it", token) for token in whole]
    dashes = "-" * 5
    for kind in ("RSA ", "EC ", "OPENSSH ", ""):
        body = "\n".join(some(WORD + "+/", 64) for _ in range(6))
        found.append((f"{dashes}BEGIN {kind}PRIVATE KEY{dashes}\n{body}\n{dashes}END {kind}PRIVATE KEY{dashes}", body))
    for scheme in ("postgresql", "https", "redis", "amqps", "mongodb+srv"):
        password = some(WORD, 14)
        found.append((f"connect to {scheme}://app:{password}@db.internal:5432/shop", password))
    hook = f"T{some(UPPER, 8)}/B{some(UPPER, 8)}/{some(WORD, 24)}"
    found.append((f"https://hooks.slack.com/services/{hook}", hook))
    hook = f"{some(string.digits, 18)}/{some(TOKEN, 68)}"
    found.append((f"https://discord.com/api/webhooks/{hook}", hook))
    for text in (
        "aws_secret_access_key = {}",
        'export API_KEY="{}"',
        "client_secret: {}",
        '{{"access_token": "{}", "expires_in": 3600}}',
        "Authorization: Bearer {}",
        "curl -H 'authorization: Basic {}' https://internal/",
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={}==",
        "https://shop.blob.core.windows.net/a?sv=2024&sig={}",
        "DISCORD_BOT_TOKEN={}",
        "the secret: {}",
    ):
        secret = some(WORD, 40)
        found.append((text.format(secret), secret))
    for text in ('password = "{}"', "DB_PASSWORD={}", "passphrase: '{}'", "PGPASSWORD={} psql"):
        secret = some(WORD, 9) + "!7q"
        found.append((text.format(secret), secret))
    return found


def look_alikes() -> list[str]:
    """A hundred harmless texts."""
    noise = random.Random(20261116)

    def some(alphabet: str, length: int) -> str:
        return "".join(noise.choice(alphabet) for _ in range(length))

    def prose(number: int) -> bytes:
        return f"Deploys never happen on Fridays, as we said in meeting {number} about the router.".encode()

    return [
        *(f"commit {hashlib.sha1(prose(n)).hexdigest()} fixes it" for n in range(15)),
        *(f"see {uuid.UUID(int=noise.getrandbits(128), version=4)} in the trace" for _ in range(15)),
        *(base64.b64encode(prose(n) * 3).decode() for n in range(10)),
        *(f"sha256:{hashlib.sha256(prose(n)).hexdigest()}  dist/engram-{n}.whl" for n in range(10)),
        *(f"md5 {hashlib.md5(prose(n), usedforsecurity=False).hexdigest()} of the table" for n in range(5)),
        *(f"sha512-{base64.b64encode(hashlib.sha512(prose(n)).digest()).decode()}" for n in range(5)),
        *(f"build artefact router_{some(string.ascii_lowercase, 8)}_v{n}_final_release_candidate" for n in range(10)),
        "test_an_exclusive_claim_waits_its_turn_and_then_gets_the_lease_2_times",
        "com.acme.shop.checkout.internal.PaymentRouterFactoryBeanConfiguration2",
        "AbstractSingletonProxyFactoryBeanWithALongName42",
        "sk-fading-circle-animation-with-a-long-name",
        "sk-your-api-key-goes-here-and-nowhere-else",
        "the task-force-2026-planning-meeting-notes are in docs/",
        "OPENAI_API_KEY=your-api-key-here",
        'api_key = "YOUR_API_KEY"',
        "token = os.environ['GITHUB_TOKEN']",
        "token: str | None = None",
        "password: str",
        "password = getpass.getpass()",
        "PASSWORD=changeme",
        'password: "<your password>"',
        "export TOKEN=$GITHUB_TOKEN",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ghp_" + "x" * 36,
        "postgresql://user:password@localhost/shop",
        "https://example.org:8080/a?b=c@d",
        "git@github.com:acme/shop.git",
        "max_tokens=4096, token_count: 123456789",
        "Basic internationalization-and-localization of the form",
        "the bearer understands-everything-that-is-written here",
        "secret = load_secret_from_vault_v2(name)",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBf7 someone@laptop",
        "v1.2.3-beta.4+build.20261115183608",
        "/usr/lib/python3.11/site-packages/engram-0.1.0.dist-info/RECORD",
        "arn:aws:iam::123456789012:role/service-role/router-execution-role-2026",
        "2026-11-15T18:36:08.123456Z 20261115-183601-9c2f11ab",
    ]
