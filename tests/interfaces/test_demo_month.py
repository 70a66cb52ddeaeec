"""`engram demo --fill`: a made-up month of a small team."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from engram import Engram as Store
from engram.config import load
from engram.interfaces.demo.filling import Filled, fill

from .conftest import Engram, in_terminal

month = pytest.mark.requirement("CLI-37")
KINDS = {"fact", "preference", "decision", "lesson", "note", "todo", "gist", "era", "digest"}


@month
def test_the_month_has_everything_that_engram_keeps(engram: Engram, store_url: str) -> None:
    counts = engram("demo", "--fill", "--json").json
    assert counts["workspace"] == "demo"
    with Store(store_url, workspace="demo") as eng:
        _has_sessions(eng, counts)
        _has_memories(eng, counts)
        _has_shared_things(eng, counts)
        _has_dreams(eng, counts)
        _answers(eng)
    with Store(store_url) as eng:
        assert {each.name for each in eng.workspaces()} == {"demo"}

    again = engram("demo", "--fill")
    assert again.code == 4
    assert "'demo' has 62 sessions" in again.err


def _has_sessions(eng: Store, counts: dict[str, Any]) -> None:
    sessions = eng.sessions.list()
    assert len(sessions) == counts["sessions"] == 62
    assert {each.type for each in sessions} == {
        *("claude-code", "codex", "cursor", "gemini", "companion", "nightly-check"),
    }
    assert {each.project for each in sessions} == {"acme/shop", "acme/billing", "acme/docs", None}
    assert {each.author for each in sessions} == {"workstation", "laptop", "ci", None}
    assert Counter(each.status for each in sessions) == {"completed": 55, "active": 6, "abandoned": 1}
    assert [each.summary for each in sessions if each.stale] == ["Draft of the pricing page"]
    assert sum(each.parent_id is not None for each in sessions) == 6
    assert eng.sessions.subagents(active=True) == {
        each.id: 2 for each in sessions if each.summary == "Tax lines from billing in the payment step"
    }


def _has_memories(eng: Store, counts: dict[str, Any]) -> None:
    found = {status: eng.memories.list(status=status) for status in ("active", "superseded", "archived")}
    every = [memory for memories in found.values() for memory in memories]
    assert {memory.kind for memory in every} == KINDS
    assert {memory.trust for memory in every} == {"user", "agent", "tool", "import"}
    assert counts["gists"] == 55
    assert counts["memories"] == sum(memory.kind not in ("gist", "era", "digest") for memory in every)
    ports = [memory for memory in every if memory.key == "staging-address"]
    assert [(memory.status, memory.content[18:22]) for memory in sorted(ports, key=lambda each: each.id)] == [
        ("superseded", "8080"),
        ("superseded", "8443"),
        ("active", "9443"),
    ]
    assert all(found.values())
    assert any(memory.pinned and memory.approved for memory in every)
    assert any(memory.version > 1 and memory.kind != "gist" for memory in every)
    assert any(memory.expires_at for memory in every)
    assert eng.waiting().memories >= 3


def _has_shared_things(eng: Store, counts: dict[str, Any]) -> None:
    blocks = {block.name: block for block in eng.blocks.list()}
    assert {"world", "profile", "narrative", "self", "companion-notes", "release-checklist"} <= blocks.keys()
    assert len({edit.actor for edit in eng.blocks.versions("world")}) == 9
    assert len(blocks["release-checklist"].content) > 4 * blocks["release-checklist"].max_tokens
    leases = eng.leases.list()
    assert len(leases) == counts["leases"] == 5
    assert sum(lease.exclusive for lease in leases) == 1
    assert len(eng.messages.inbox("person", peek=True)) == 2
    assert len(eng.receipts()) == counts["receipts"] == 1


def _has_dreams(eng: Store, counts: dict[str, Any]) -> None:
    passes = eng.dreams.list(0)
    assert len(passes) == counts["dreams"] == 12
    assert sum(each.undone_by is not None for each in passes) == 1
    assert not any(each.errors or each.alarms for each in passes)
    assert {each.what for each in eng.proposals.list()} == {"archive", "merge", "overflow", "supersede"}
    assert len(eng.proposals.list("applied")) == len(eng.proposals.list("rejected")) == 1


def _answers(eng: Store) -> None:
    assert "port 9443" in eng.recall("which port does staging use", k=1)[0].text
    assert "three customers" in eng.recall("why were customers charged twice", k=1)[0].text.lower()
    brief = eng.brief(project="acme/shop")
    assert "Tax is calculated only in billing" in brief
    assert "Which price is right?" in brief


@month
def test_the_month_is_the_same_whenever_it_is_played(tmp_path: Path) -> None:
    # Five hours before the first time, it is yesterday.
    early, late = (
        _told(str(tmp_path / f"{hour}.db"), datetime(2026, 10, 20, hour, 20).timestamp()) for hour in (0, 23)
    )
    assert early == late


def _told(path: str, now: float) -> tuple[Filled, list[Any]]:
    filled = fill(load(url=path, workspace="elsewhere"), now)
    with Store(path, workspace="elsewhere") as eng:
        memories = [
            (memory.id, memory.kind, memory.content)
            for status in ("active", "superseded", "archived")
            for memory in eng.memories.list(status=status)
            if memory.kind not in ("era", "digest")  # they name days
        ]
        sessions = [(each.id[-8:], each.status, each.outcome) for each in eng.sessions.list()]
        return filled, [memories, sorted(sessions), [(each.what, each.diff) for each in eng.proposals.list()]]


@month
def test_only_the_option_chooses_another_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = str(tmp_path / "engram.db")
    with Store(store, workspace="mine") as eng:
        eng.remember("Deploys never happen on Fridays")
    monkeypatch.setenv("ENGRAM_WORKSPACE", "mine")
    code, shown = in_terminal("--store", store, "demo", "--fill")
    assert code == 0
    assert "workspace demo" in shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "Filling" in shown  # the progress bar
    code, shown = in_terminal("--store", store, "--workspace", "mine", "demo", "--fill")
    assert code == 4
    with Store(store, workspace="mine") as eng:
        assert len(eng.memories.list()) == 1
        assert eng.sessions.list() == []


@month
def test_a_server_is_not_filled(engram: Engram) -> None:
    refused = engram("--store", "http://127.0.0.1:9", "demo", "--fill")
    assert refused.code == 2
    assert "where the store is" in refused.err
    assert engram("demo", "--fill", "--pace", "0").code == 2
