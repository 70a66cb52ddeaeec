"""Three hundred secrets in the texts in which people and programs write them.

Like `_secrets`, everything is built at run time from parts and random text with a fixed seed.
"""

from __future__ import annotations

import base64
import json
import random
import string

from tests.security._secrets import LOWER_HEX, TOKEN, UPPER, WORD, secrets

LOWER = string.ascii_lowercase + string.digits
DASHES = "-" * 5

#: Texts around a token; `{}` is the token.
AROUND = (
    'export TOKEN="{}"',
    '{{"log": "line one\\n{}\\nline three"}}',
    '{{"log": "first\\t{}"}}',
    "https://host/cb?state=1&code%3D{}",
    "caf\\u00e9{} is in the log",
    "- name: X\n  value: {}",
    "({})",
    "see <{}>",
    "`{}`",
    "MY_{}",
    "[{}](https://host)",
    "a,b,{},c",
    "token:{}",
    "x\n{}\ny",
)
#: Texts around a random value; only the text before it shows that it is a secret.
ANNOUNCED = (
    "API_KEY={}",
    "api_key        =        '{}'",
    'apiKey: "{}"',
    '"apiKey" : "{}"',
    '\\"api_key\\": \\"{}\\"',
    "x-api-key: {}",
    "X-Auth-Token: {}",
    "curl -H 'X-API-Key: {}' https://host/",
    "Authorization: token {}",
    "Authorization: Token {}",
    "authorization: ApiKey {}",
    "Authorization:Bearer {}",
    "Authorization: Bearer\t{}",
    '"Authorization": "Bearer {}"',
    'headers = {{"Authorization": "token {}"}}',
    "Proxy-Authorization: Basic {}",
    "https://host/path?access_token={}&x=1",
    "https://host/path?api_key={}",
    "client_secret={}&grant_type=client_credentials",
    'const char* api_key = "{}";',
    'private static final String SECRET_KEY = "{}";',
    'let token: String = "{}";',
    'token := "{}"',
    "api_token => '{}'",
    "define('AUTH_KEY', '{}');",
    "os.environ['SECRET_TOKEN'] = '{}'",
    "process.env.API_SECRET = '{}'",
    "--api-key {}",
    "--token={}",
    "--client-secret '{}'",
    "aws configure set aws_secret_access_key {}",
    "AWS_SECRET_ACCESS_KEY={}",
    "aws_session_token = {}",
    "//registry.npmjs.org/:_authToken={}",
    "npm config set //registry.npmjs.org/:_authToken {}",
    "_auth={}",
    '{{"auths": {{"registry.host": {{"auth": "{}"}}}}}}',
    "    client-key-data: {}",
    "    token: {}",
    "users:\n- name: admin\n  user:\n    token: {}",
    "<apiKey>{}</apiKey>",
    '<add key="ApiSecret" value="{}" />',
    "SECRET_KEY_BASE: {}",
    'encryption_key = "{}"',
    "signing_key: '{}'",
    "DATADOG_API_KEY={}",
    "ADAFRUIT_IO_KEY = {}",
    'CLOUDFLARE_API_TOKEN: "{}"',
    "sentry_auth_token = {}",
    "CODECOV_TOKEN='{}'",
    "AccountKey={};EndpointSuffix=core",
    "SharedAccessKey={}",
    "https://a.blob.core/x?sv=2024&sig={}",
    "heroku_api_key: {}",
    "credentials = '{}'",
    'consumer_secret : "{}"',
    'refresh_token": "{}"',
    "id_token={}",
    '{{"name": "STRIPE_SECRET", "value": "{}"}}',
    "- name: API_TOKEN\n  value: {}",
    "secret is in the file; the api key: {}",
    "$env:API_KEY = '{}'",
    "set API_KEY={}",
    "ENV GITHUB_TOKEN {}".replace(" {}", "={}"),
    "password_hash_key='{}'",
    'master_key="{}"',
    "git clone https://{}@git.host/acme/shop.git",
    "git clone https://oauth2:{}@git.host/acme/shop.git",
)
#: Texts around a password that a person chose.
CHOSEN = (
    "password = '{}'",
    'password="{}"',
    "password: {}",
    "PASSWORD={}",
    "DB_PASS={}",
    "db_pass: '{}'",
    "MYSQL_PWD={} mysqldump shop",
    "passwd={}",
    'password: str = "{}"',
    "if password == '{}':",
    'setPassword("{}")',
    "login(user, password='{}')",
    "<password>{}</password>",
    "mysql -u root -p{} shop",
    "mysql --user=root --password={} shop",
    "mysql --password {} shop",
    "sshpass -p {} ssh host",
    "sshpass -p '{}' ssh host",
    "curl -u admin:{} https://host/",
    'curl --user "admin:{}" https://host/',
    "docker login -u me -p {} registry",
    "redis-cli -h host -a {}",
    "requirepass {}",
    "redis://:{}@cache:6379/0",
    "postgresql://app:{}@db/shop",
    "smb://me:{}@nas/share",
    "Server=db;Database=shop;User Id=app;Password={};",
    "Server=db;Uid=app;Pwd={};",
    "jdbc:mysql://db/shop?user=app&password={}",
    "machine host login me password {}",
    "CREATE USER app IDENTIFIED BY '{}';",
    "ALTER USER app WITH PASSWORD '{}';",
    "the password is {}",
    "The password for staging is `{}`",
    "spring.datasource.password={}",
    '"password" : "{}"',
    "'password' => '{}'",
    "define('DB_PASSWORD', '{}');",
    "unzip -P {} a.zip",
    "ldapsearch -D cn=admin -w {} -b dc=host",
    "smbclient //nas/share -U me%{}",
    '["mysql", "--password", "{}"]',
    "ansible_password: {}",
    "htpasswd -bc .htpasswd me {}",
    'PGPASSWORD="{}" psql',
    "wifi_password = '{}'",
    "password          =          {}",
    "smtp_pass: {}",
    "$password = '{}';",
    "--http-password={}",
)
PASSWORDS = (
    "tr0ub4dor" + "&3",
    "Pa$$w0rd" + "!9",
    "100%" + "Sure9",
    "xK9#" + "mQ2v",
    "Summer" + "2026!",
    "q7!" + "Wz$pL",
)


def shapes() -> list[tuple[str, str]]:
    """The text, and the part of it that must not be stored."""
    noise = random.Random(20261117)

    def some(alphabet: str, length: int) -> str:
        return "".join(noise.choice(alphabet) for _ in range(length))

    found: list[tuple[str, str]] = []
    tokens = [secret for text, secret in secrets() if text == f"I used {secret} for it"]
    for number, token in enumerate(tokens):
        found.append((AROUND[number % len(AROUND)].format(token), token))
    # The characters before and after matter too, so a few are tried everywhere.
    for token in tokens[::27]:
        found += [(text.format(token), token) for text in AROUND]
    alphabets = ((LOWER_HEX, 32), (WORD, 40), (LOWER, 32), (LOWER_HEX, 64), (WORD + "+/", 40))
    for number, text in enumerate(ANNOUNCED):
        value = some(*alphabets[number % len(alphabets)]).strip("+/")
        if "Basic" in text or "auth" in text.lower():
            value = base64.b64encode(some(WORD, 24).encode()).decode()
        if "git clone" in text or "?" in text or "&" in text:
            value = some(WORD, 40)
        found.append((text.format(value), value))
    for number, text in enumerate(CHOSEN):
        password = PASSWORDS[number % len(PASSWORDS)]
        if "://" in text or ("%" in text and "%{}" in text):
            password = password.replace("%", "x").replace("#", "x")
        found.append((text.format(password), password))
    found += _others(some)
    return list(dict.fromkeys(found))


def _others(some) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    """More formats by their own letters, and what is written in pieces or in lines."""
    made = [
        *(f"xox{letter}-{some(string.digits, 12)}-{some(string.digits, 12)}-{some(LOWER_HEX, 32)}" for letter in "cdo"),
        *(f"sk-ant-{kind}-" + some(TOKEN, 92) + "A" for kind in ("oat01", "admin01")),
        "tgp_" + "v1_" + some(TOKEN, 43),
        "re_" + some(WORD, 8) + "_" + some(WORD, 24),
        "fo1_" + some(WORD, 43),
        "fm2_" + some(WORD, 120),
        "ATBB" + some(WORD, 32),
        "ATTA" + some(LOWER_HEX, 72),
        "rnd_" + some(WORD, 32),
        "napi_" + some(LOWER, 64),
        "phx_" + some(WORD, 43),
        "duffel_" + "live_" + some(WORD, 43),
        "EZAK" + some(WORD, 54),
        "shippo_" + "live_" + some(LOWER_HEX, 40),
        "sgp_" + some(LOWER_HEX, 40),
        "squ_" + some(LOWER_HEX, 40),
        "tfp_" + some(WORD, 44),
        "rdme_" + some(LOWER, 70),
        "pnu_" + some(WORD, 36),
        "ico-" + some(WORD, 32),
        "API-" + some(UPPER, 26),
        "sha256~" + some(WORD, 43),
        "glffct-" + some(WORD, 20),
        "glagent-" + some(WORD, 50),
        "gloas-" + some(LOWER_HEX, 64),
        "GR1348941" + some(WORD, 20),
        "sk_prod_" + some(WORD, 24),
        "amzn.mws." + "-".join(some(LOWER_HEX, length) for length in (8, 4, 4, 4, 12)),
        "p8e-" + some(LOWER, 32),
        "AKCp" + some(WORD, 69),
        "dnkey-" + some(WORD, 26) + "-" + some(WORD, 52),
        some(WORD, 14) + ".atlasv1." + some(WORD, 64),
        some(WORD, 6) + "_" + some(WORD, 29) + "_mmk",
        "ey" + "J" + some(WORD, 30) + ".ey" + "J" + some(WORD, 60) + "." + some(WORD, 43),
        "MT" + some(WORD, 22) + "." + some(WORD, 6) + "." + some(WORD, 38),
        "EAA" + "C" + some(WORD, 120),
        "LS0tLS1CRUdJTi" + "BSU0EgUFJJVkFURSBLRVkt" + some(WORD, 80),
        "A3-" + "-".join(some(UPPER, length) for length in (6, 6, 5, 5, 5, 5)),
    ]
    found = [(f"I used {token} for it", token) for token in made]
    for text in (
        'key = "sk-" + "ant-api03-{}"',
        "key = 'sk-ant-api03-' '{}'",
        'key = ("sk-ant-api03-"\n       "{}")',
        '{{"code": "k = \\"sk-ant-api03-\\" + \\"{}\\""}}',
    ):
        rest = some(WORD, 80)
        found.append((text.format(rest), rest))
    letters = some(string.ascii_uppercase + "234567", 16)
    found += [(f"k = 'AK' + 'IA{letters}'", letters), (f"k = 'AKIA' \"\" '{letters}'".replace(' ""', ""), letters)]
    secret = some(WORD + "/+", 38) + "a7"
    found.append((f"AKIA{letters},{secret}", secret))
    body = [some(WORD + "+/", 64) for _ in range(5)]
    for kind, joint in (("RSA ", "\\n"), ("", "\n    "), ("EC ", '" +\n"'), ("ENCRYPTED ", " "), ("OPENSSH ", "\n> ")):
        pem = joint.join([f"{DASHES}BEGIN {kind}PRIVATE KEY{DASHES}", *body, f"{DASHES}END {kind}PRIVATE KEY{DASHES}"])
        found.append((f"here:\n{pem}\nthat was it", body[2]))
    found.append((f"{DASHES}BEGIN PRIVATE KEY{DASHES}\nMIIE" + body[0], body[0]))
    found.append(("Private-Lines: 5\n" + "\n".join(body) + "\nPrivate-MAC: 0", body[1]))
    found.append((json.dumps({"kty": "EC", "crv": "P-256", "d": some(TOKEN, 43).strip("-_") + "x"}), "crv_never"))
    key = some(WORD, 43)
    found[-1] = (json.dumps({"kty": "EC", "crv": "P-256", "x": "public", "d": key}), key)
    hook = f"{some(LOWER, 32)}/{'-'.join(some(LOWER, length) for length in (8, 4, 4, 4, 12))}"
    found.append((f"https://acme.webhook.office.com/webhookb2/a@b/IncomingWebhook/{hook}", hook))
    account = json.dumps({"type": "service_account", "private_key": f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n{body[3]}\n"})
    found.append((account, body[3]))
    for text in ("basic {}", "Authorization: Basic {}"):
        value = base64.b64encode(f"me:{some(WORD, 12)}".encode()).decode()
        found.append((text.format(value), value))
    return found
