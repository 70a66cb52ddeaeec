"""Secrets never reach the store, whichever way they come, and what only looks like one stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engram import Engram
from engram.redact import redact
from tests.security._secrets import look_alikes, secrets

SECRETS = secrets()
LOOK_ALIKES = look_alikes()

#: Every way in which what somebody said enters a store; each takes one text.
Entry = Callable[[Engram, str, str], object]
ENTRIES: dict[str, Entry] = {
    "exchanges.add": lambda eng, sid, text: eng.exchanges.add(sid, "user", text, embed=False),
    "exchanges.add_many": lambda eng, sid, text: eng.exchanges.add_many(
        [{"session_id": sid, "role": "tool", "content": text}], embed=False
    ),
    "sessions.log": lambda eng, sid, text: eng.sessions.log(sid, text),
    "sessions.register": lambda eng, sid, text: eng.sessions.register("test", text, {"said": text}),
    "sessions.heartbeat": lambda eng, sid, text: eng.sessions.heartbeat(sid, text),
    "sessions.complete": lambda eng, sid, text: eng.sessions.complete(eng.sessions.register("test", ""), text),
    "remember": lambda eng, sid, text: eng.remember(text, data={"said": [text]}, embed=False),
    "memories.update": lambda eng, sid, text: eng.memories.update(
        eng.remember("a note", key=str(hash(text)), embed=False).id, f"now: {text}", reason=text[:2_000]
    ),
    "messages.send": lambda eng, sid, text: eng.messages.send(None, sid, text),
    "blocks.create": lambda eng, sid, text: eng.blocks.create(f"block {abs(hash(text))}", text),
    "blocks.append": lambda eng, sid, text: eng.blocks.append("notes", text, text[:2_000], separator="\n"),
    "blocks.update": lambda eng, sid, text: eng.blocks.update("page", text),
    "blocks.replace": lambda eng, sid, text: eng.blocks.replace("page", eng.blocks.update("page", "it").content, text),
    "world.set": lambda eng, sid, text: eng.world.set(text, reason=text[:2_000]),
    "leases.claim": lambda eng, sid, text: eng.leases.claim(sid, "src/router.py", text[:2_000]),
}


def contents(url: str) -> str:
    """Everything that is stored, as the file or the server keeps it."""
    if url.startswith("postgresql://"):
        import psycopg

        server, _, schema = url.partition("schema=")
        with psycopg.connect(server.rstrip("?&")) as connection:
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,)
            ).fetchall()
            rows = [
                row[0]
                for (table,) in tables
                for row in connection.execute(f'SELECT t::text FROM "{schema}"."{table}" t'.encode()).fetchall()
            ]
        return "\n".join(rows)
    files = sorted(Path(url).parent.glob(Path(url).name + "*"))
    assert files
    return "\n".join(file.read_bytes().decode("utf-8", "replace") for file in files)


@pytest.mark.requirement("REDACT-1")
@pytest.mark.parametrize("text, secret", SECRETS, ids=[f"secret {number}" for number in range(len(SECRETS))])
def test_a_secret_is_replaced_by_its_kind_and_the_rest_stays(text: str, secret: str) -> None:
    stored = redact(text)
    assert secret not in stored
    assert secret[4:-4] not in stored
    assert "[redacted: " in stored
    assert redact(stored) == stored


@pytest.mark.requirement("REDACT-1")
def test_there_are_a_hundred_secrets_to_show_it_with() -> None:
    assert len({secret for _, secret in SECRETS}) >= 100


@pytest.mark.requirement("REDACT-1")
@pytest.mark.parametrize("entry", ENTRIES)
def test_no_entry_lets_a_secret_into_the_store(entry: str, open_store: Callable[..., Engram], store_url: str) -> None:
    eng = open_store(embedder="none")
    sid = eng.sessions.register("test", "storing secrets")
    eng.blocks.create("notes")
    eng.blocks.create("page")
    for text, _ in SECRETS:
        ENTRIES[entry](eng, sid, text)
    live = contents(store_url)
    eng.close()
    kept = live + contents(store_url)
    assert "[redacted: " in kept
    assert [secret for _, secret in SECRETS if secret in kept] == []


@pytest.mark.requirement("REDACT-2")
def test_of_a_hundred_harmless_look_alikes_at_most_two_are_taken_for_secrets() -> None:
    assert len(LOOK_ALIKES) == 100
    assert len([text for text in LOOK_ALIKES if redact(text) != text]) <= 2


@pytest.mark.requirement("REDACT-2")
@pytest.mark.parametrize(
    "text",
    [
        "Deploys never happen on Fridays.",
        "The password is set in the vault; ask there.",
        "token: str = field(default=None)",
        "secrets.token_urlsafe(32) makes a token",
        "api_key=os.getenv('KEY'), token=self.token",
        "https://ci.example.org/job/12/console?x=1@2",
    ],
)
def test_talking_about_secrets_is_no_secret(text: str) -> None:
    assert redact(text) == text


@pytest.mark.requirement("REDACT-1")
def test_what_stands_around_a_secret_says_what_it_was() -> None:
    password = "tr0ub4dor" + "&3x"
    assert redact(f"postgresql://app:{password}@db/shop") == "postgresql://app:[redacted: password]@db/shop"
    assert redact(f"DB_PASSWORD={password} make") == "DB_PASSWORD=[redacted: password] make"


@pytest.mark.requirement("REDACT-1")
def test_a_secret_put_together_by_two_appends_is_found_in_the_whole(eng: Engram) -> None:
    token = next(secret for text, secret in SECRETS if secret.startswith("ghp_"))
    eng.blocks.create("notes", f"key: {token[:10]}")
    assert token not in eng.blocks.append("notes", token[10:]).content


@pytest.mark.requirement("REDACT-1")
def test_redacted_data_is_still_json(eng: Engram) -> None:
    key = next(text for text, _ in SECRETS if text.startswith("-----BEGIN RSA"))
    stored = eng.remember("the key", data={"pem": key, "cut": key[:100], "after": "kept"}, embed=False).data
    assert isinstance(stored, dict)
    assert stored["after"] == "kept"
    assert stored["pem"] == stored["cut"] == "[redacted: private key]"


@pytest.mark.requirement("REDACT-3")
@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "password=" * 100_000,
        "-----BEGIN PRIVATE KEY-----" * 30_000,
        "https://a:" * 100_000,
        "eyJ" * 300_000,
        "ghp_" * 250_000,
        "bearer " * 140_000,
        "1a" * 500_000,
    ],
    ids=lambda text: text[:12],
)
def test_the_longest_text_takes_no_longer_than_its_length(text: str) -> None:
    begun = time.process_time()
    redact(text)
    assert time.process_time() - begun < 2
