"""JSON in the store: it stays JSON whatever is taken out of it, and a damaged column hides nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram, json_columns
from tests._tables import run

MARKER = "-" * 5 + "BEGIN PRIVATE KEY" + "-" * 5
#: Within one JSON text the secret begins in one quote and ends in another.
ENV = f'KEY="{MARKER}\nMIIE" OTHER=1'
BROKEN = '{"a": "[redacted: private key]" OTHER=1"}'
#: Every column that holds JSON and is read again.
COLUMNS = ("sessions.metadata", "memories.data", "dreams.report", "receipts.went", "journal.before", "journal.after")


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_columns, "_warned", set())


@pytest.mark.requirement("REDACT-5")
def test_metadata_with_a_key_in_a_shell_line_stays_readable(eng: Engram) -> None:
    sid = eng.sessions.register("test", "a deploy", metadata={"env": ENV, "after": "kept"})
    assert [session.id for session in eng.sessions.list()] == [sid]
    assert eng.sessions.get(sid).metadata == {"env": 'KEY="[redacted: private key]" OTHER=1', "after": "kept"}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"branch": "main", "tries": 2}', {"branch": "main", "tries": 2}),
        ("on the laptop", {"text": "on the laptop"}),
        ('["a", "b"]', {"text": '["a", "b"]'}),
        ("7", {"text": "7"}),
        ('{"broken": ', {"text": '{"broken": '}),
        ('{"share": NaN}', {"text": '{"share": NaN}'}),
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"password": "tr0ub4dor&3"}', {"password": "[redacted: password]"}),
        ("password=tr0ub4dor#3", {"text": "password=[redacted: password]"}),
    ],
)
def test_metadata_may_be_text(eng: Engram, text: str, kept: dict[str, object]) -> None:
    sid = eng.sessions.register("test", "a deploy", text, external_id="x")
    assert eng.sessions.get(sid).metadata == kept
    eng.sessions.register("test", None, {"more": 1}, external_id="x")
    assert eng.sessions.get(sid).metadata == {**kept, "more": 1}


@pytest.mark.requirement("REDACT-5")
def test_values_and_keys_lose_their_secrets_and_keep_their_form(eng: Engram) -> None:
    token, other = ("ghp_" + noise * 2 for noise in ("a1B2c3D4e5F6g7H8i9", "z9Y8x7W6v5U4t3S2r1"))
    given: dict[str, Any] = {
        "password": "tr0ub4dor&3",
        token: {"deep": [token, ENV, 1, None, True]},
        other: 2,
        "env": [{"name": "DB_PASSWORD", "value": "tr0ub4dor&3"}],
        "argv": ["mysql", "--password", "tr0ub4dor&3", "shop"],
        "password_rules": ["at least 8 characters"],
    }
    stored = eng.remember("x", data=given, embed=False).data
    assert isinstance(stored, dict)
    assert stored["password"] == "[redacted: password]"
    assert stored["[redacted: github token]"]["deep"][1:] == ['KEY="[redacted: private key]" OTHER=1', 1, None, True]
    assert stored["[redacted: github token] 2"] == 2
    assert stored["env"] == [{"name": "DB_PASSWORD", "value": "[redacted: password]"}]
    assert stored["argv"] == ["mysql", "--password", "[redacted: password]", "shop"]
    assert stored["password_rules"] == ["at least 8 characters"]
    assert token not in str(stored)


@pytest.mark.requirement("REDACT-5")
def test_an_edit_without_data_leaves_the_data_as_it_is(eng: Engram) -> None:
    made = eng.remember("x", data={"a": 1}, embed=False)
    assert eng.memories.update(made.id, "y").data == {"a": 1}
    assert eng.memories.update(made.id, data={"b": 2}).data == {"b": 2}


@pytest.mark.requirement("REDACT-5")
def test_a_damaged_session_is_listed_with_the_others(
    eng: Engram, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = eng.sessions.register("test", "first", metadata={"a": 1})
    other = eng.sessions.register("test", "other", metadata={"b": 2})
    run(store_url, f"UPDATE sessions SET metadata = '{BROKEN}' WHERE id = '{first}'")
    with caplog.at_level(logging.WARNING, "engram.store"):
        assert {session.id: session.metadata for session in eng.sessions.list()} == {first: {}, other: {"b": 2}}
        assert len(eng.sessions.active()) == 2
        assert eng.sessions.complete(first).status == "completed"
    assert [record.getMessage() for record in caplog.records] == [
        "sessions.metadata contains text that is not the expected JSON; it is read as empty"
    ]


@pytest.mark.requirement("REDACT-5")
@pytest.mark.parametrize("broken", [BROKEN, "[1]", "[" * 100_000], ids=["broken", "a list", "too deep"])
def test_a_damaged_row_of_any_table_is_read_as_empty(
    open_store: Callable[..., Engram], store_url: str, broken: str
) -> None:
    eng = open_store(embedder="none")
    sid = eng.sessions.register("test", "work", metadata={"a": 1})
    memory = eng.remember("deploys never happen on Fridays", data={"a": 1}, session_id=sid)
    eng.exchanges.add(sid, "user", "I never deploy on Fridays.")
    eng.dream(force=True)
    undone = eng.dreams.undo()
    eng.dream(force=True)
    eng.forget(memory=eng.remember("a spare note").id)
    for table, _, name in (column.partition(".") for column in COLUMNS):
        run(store_url, f"UPDATE {table} SET {name} = '{broken}'")
    assert [found.metadata for found in eng.sessions.list() if found.id == sid] == [{}]
    assert eng.memories.get(memory.id).content == "deploys never happen on Fridays"
    assert len(eng.memories.list()) >= 1
    assert [found.gists for found in eng.dreams.list()] == [[], []]
    assert eng.dreams.show(undone.id).id == undone.id
    assert [(receipt.asked, receipt.counts) for receipt in eng.receipts()]
    eng.forget(memory=memory.id)
    assert eng.dream(force=True)
