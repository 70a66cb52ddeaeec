"""Readers shorten texts. A secret that is cut in two is not recognised any more, so it is removed before."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.importers import chats, formats
from engram.importers.items import Options
from engram.importers.json_values import short_id
from engram.importers.texts import cut, short_line
from tests.importers._databases import database
from tests.importers._exports import written

CHANCE = random.Random(20260101)
TOKEN = "ghp_" + "".join(CHANCE.choices(string.ascii_letters + string.digits, k=36))
#: Every piece of the token that is long enough to be worth something.
PIECES = [TOKEN[at : at + 8] for at in range(4, len(TOKEN) - 8)]
KEY = [base64.b64encode(CHANCE.randbytes(48)).decode() for _ in range(100)]
PEM = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *KEY, "-----END RSA PRIVATE KEY-----"])


def across(limit: int, before: int = 20) -> str:
    """A text with the token across a limit."""
    return ("word " * limit)[: limit - before - 1] + " " + TOKEN + " and more words" * 20


def chat(**message: object) -> dict[str, object]:
    given = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hello"]}, **message}
    return {"id": "c1", "mapping": {"m1": {"message": given, "parent": None}}}


def told(**attachment: object) -> dict[str, object]:
    return {"uuid": "c1", "chat_messages": [{"uuid": "m", "sender": "human", "text": "Hello", **attachment}]}


def tool(said: str) -> dict[str, object]:
    return chat(author={"role": "tool", "name": "web"}, content={"content_type": "text", "parts": [said]})


CHATGPT: dict[str, Callable[[int], dict[str, object]]] = {
    "title": lambda before: {**chat(), "title": across(160, before)},
    "gizmo": lambda before: {**chat(), "gizmo_id": across(100, before)},
    "attachment": lambda before: chat(metadata={"attachments": [{"name": across(100, before)}]}),
    "tool": lambda before: tool(across(200, before)),
    "arguments": lambda before: chat(
        author={"role": "assistant"},
        recipient="web",
        content={"content_type": "code", "text": json.dumps({"query": across(200, before)})},
    ),
    "blank": lambda before: tool(" " * (10 * chats.LONGEST_LINE - before) + TOKEN),
}
CLAUDE: dict[str, Callable[[int], dict[str, object]]] = {
    "file": lambda before: told(attachments=[{"file_name": across(100, before), "extracted_content": "x"}]),
    "files": lambda before: told(files=[{"file_name": across(100, before)}]),
    "text": lambda before: told(attachments=[{"file_name": "a", "extracted_content": across(8_000, before)}]),
    "name": lambda before: {**told(), "name": across(160, before)},
    "document": lambda before: {
        **{"uuid": "p", "name": across(160, before), "prompt_template": ""},
        "docs": [{"filename": across(100, before), "content": across(4_000, before)}],
    },
    "memory": lambda before: {
        "conversations_memory": f"**Work**\n\n{across(4_000, before)}",
        "project_memories": {across(100, before): "x", across(35, 10): "y"},
        "memory_files": [{"path": across(100, before), "content": "x"}],
    },
}
MEMORY: dict[str, Callable[[int], dict[str, object]]] = {
    "name": lambda before: {"type": "entity", "name": across(200, before), "entityType": "x", "observations": ["y"]},
    "type": lambda before: {"type": "entity", "name": "x", "entityType": across(100, before), "observations": ["y"]},
    "relation": lambda before: {
        **{"type": "relation", "from": across(200, before), "to": across(200, before)},
        "relationType": across(100, before),
    },
}
NOTES: dict[str, Callable[[int], str]] = {
    "title": lambda before: f"---\ntitle: {across(160, before)}\n---\nHello",
    "heading": lambda before: f"# {across(160, before)}\nHello\n## {across(100, before)}\nHello",
    "project": lambda before: f"---\nproject: {across(160, before)}\nkind: {across(60, before)}\n---\nHello",
    "section": lambda before: f"# H\n{across(4_000, before)}",
    "key": lambda before: f"# H\n{'word ' * before}\n{PEM}\n\nMore.",
}


def everything(format: str, path: Path) -> str:
    """All that a reader gives, as one text."""
    found = formats.get(format)
    return "\n".join(repr(item) for source in found.find(path) for item in found.read(source, Options()))


def leaked(said: str) -> list[str]:
    assert "[r" in said
    return [piece for piece in (*PIECES, *KEY) if piece in said]


@pytest.mark.requirement("IMPORT-8")
@pytest.mark.parametrize("before", [12, 20, 30])
@pytest.mark.parametrize(
    ("format", "make"),
    [
        *(pytest.param("chatgpt", make, id=f"chatgpt-{name}") for name, make in CHATGPT.items()),
        *(pytest.param("claude", make, id=f"claude-{name}") for name, make in CLAUDE.items()),
        *(pytest.param("server-memory", make, id=f"server-memory-{name}") for name, make in MEMORY.items()),
    ],
)
def test_no_part_of_a_token_across_a_limit_is_given(
    tmp_path: Path, format: str, make: Callable[[int], dict[str, object]], before: int
) -> None:
    path = tmp_path / "memory.jsonl"
    if format == "server-memory":
        path.write_text(json.dumps(make(before)) + "\n")
    else:
        path = written(tmp_path / "conversations.json", [make(before)])
    assert leaked(everything(format, path)) == []


@pytest.mark.requirement("IMPORT-8")
@pytest.mark.parametrize("before", [12, 20, 30])
@pytest.mark.parametrize("make", NOTES.values(), ids=NOTES)
def test_no_part_of_a_secret_in_a_note_is_given(tmp_path: Path, make: Callable[[int], str], before: int) -> None:
    path = tmp_path / "note.md"
    path.write_text(make(before))
    assert leaked(everything("markdown", path)) == []


def test_the_reason_of_an_edit_has_no_part_of_a_token(tmp_path: Path) -> None:
    schema = """
    CREATE TABLE memory_blocks (name TEXT, content TEXT, version INTEGER, max_tokens INTEGER, created_at, updated_at);
    CREATE TABLE block_edit_log (id INTEGER PRIMARY KEY, block_name, old_content, new_content, edit_reason, timestamp);
    """
    for before in (12, 20, 30):
        edit = {"block_name": "a", "old_content": "x", "new_content": "y", "edit_reason": across(500, before)}
        path = tmp_path / f"{before}.db"
        database(path, schema, {"memory_blocks": [{"name": "a", "content": "y"}], "block_edit_log": [edit]})
        found = formats.get("engram-core")
        (block,) = (item for source in found.find(path) for item in found.read(source, Options()))
        assert not any(piece in repr(block) for piece in PIECES)
        assert len(block.versions[-1].reason) <= 500  # type: ignore[union-attr]


def test_texts_are_cut_without_their_secrets() -> None:
    assert cut("short", 10) == "short" and cut("a longer text", 8) == "a longer …"
    for limit in range(5, 60, 5):
        for made in (cut(f"so {TOKEN} is", limit), short_line(f"so\n{TOKEN} is", limit), short_id(f"x {TOKEN}", 30)):
            assert not any(piece in made for piece in PIECES)
