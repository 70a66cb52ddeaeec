"""Vacuum, and log entries that are deleted when they are too old."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram, StoreFull
from engram.config import load
from engram.forgetting import retention
from engram.forgetting.forget import Forgetting
from engram.maintenance import vacuum
from engram.storage.engine import Engine
from tests._logical import logical
from tests.conftest import ShiftedClock

DAY = 86_400


@pytest.mark.requirement("VACUUM-1")
def test_vacuum_gives_space_back_while_others_use_the_store(open_store: Callable[..., Engram], store_url: str) -> None:
    eng, other = open_store(), open_store()
    for number in range(60):
        eng.blocks.create(f"block-{number}", "x" * 20_000)
    for number in range(60):
        eng.forget(block=f"block-{number}")
    eng.remember("The router is in src/router.py")
    before = logical(eng)
    with other._view.engine.read() as tx:
        seen = tx.one("SELECT content FROM memories WHERE workspace = :workspace", workspace="default")
        # It waits for the reader, who does not go.
        done = vacuum(load(url=store_url, busy_timeout=1))
        assert tx.one("SELECT content FROM memories WHERE workspace = :workspace", workspace="default") == seen
    again = vacuum(load(url=store_url))
    assert again.before == done.after
    # PostgreSQL keeps the space for new rows, and in an encrypted store forgetting gives it back at once.
    if not store_url.startswith("postgresql:") and not eng._view.engine.is_encrypted:
        assert again.after < done.before / 2
    assert logical(eng) == before
    assert other.remember("Tea at five").id > 1
    assert [hit.text for hit in eng.recall("tea", mode="words")] == ["Tea at five"]


@pytest.mark.requirement("RETAIN-1")
def test_old_log_entries_go_with_a_pass_or_a_vacuum_and_everything_else_stays(
    open_store: Callable[..., Engram], store_url: str, clock: ShiftedClock
) -> None:
    eng = open_store()
    sid = eng.sessions.register("codex", "Porting the router")
    eng.exchanges.add(sid, "user", "The router is in src/router.py")
    plain = eng.sessions.log(sid, "router done")
    source = eng.sessions.log(sid, "limits are in limits.py")
    kept = eng.remember("Limits are in limits.py", sources=[("exchange", source.id)])
    quoted = eng.sessions.log(sid, "The router was ported")
    eng.sessions.complete(sid, "The router was ported")
    eng.embedding_queue.work()
    clock.advance(40 * DAY)
    later = eng.sessions.register("codex", "Later")
    young = eng.sessions.log(later, "young entry")

    def entries() -> set[str]:
        return {each.content for id in (sid, later) for each in eng.sessions.logs(id, 100)}

    everything = entries()
    eng.dream(force=True)
    assert everything <= entries(), "off by default"
    strict = open_store(retention_logs="30d")
    strict.dream(dry_run=True)
    assert plain.content in entries()
    strict.dream()
    assert plain.content not in entries()
    assert {source.content, quoted.content, young.content} <= entries()
    assert eng.sessions.get(sid).outcome == "The router was ported"
    assert eng.memories.get(kept.id).content == kept.content
    assert [each.content for each in eng.exchanges.history(sid)] == ["The router is in src/router.py"]
    assert eng.receipts()[0].asked == "1 old log entry"
    assert not eng.recall("router done", roles=["log"], mode="words", k=1, min_score=0.5)
    assert not [each for each in eng.doctor(full=True) if each.state == "wrong"]
    clock.advance(60 * DAY)
    done = vacuum(load(url=store_url, retention_logs="30d"), clock=clock)
    assert done.logs >= 1
    assert young.content not in entries()
    assert vacuum(load(url=store_url, retention_logs="30d"), clock=clock).logs == 0


@pytest.mark.requirement("RETAIN-1")
def test_the_file_is_cleaned_once_however_many_entries_go(
    open_store: Callable[..., Engram], clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an encrypted store each time rewrites the whole file."""
    eng = open_store(retention_logs="30d")
    engine: Engine = eng._view.engine
    sid = eng.sessions.register("codex", "Porting the router")
    for number in range(9):
        eng.sessions.log(sid, f"step {number}")
    clock.advance(40 * DAY)
    scrub = engine.scrub
    entries: list[list[str]] = []

    def watched() -> None:
        entries.append([each.content for each in eng.sessions.logs(sid, 100) if each.content.startswith("step")])
        scrub()

    monkeypatch.setattr(retention, "_AT_ONCE", 2)
    monkeypatch.setattr(engine, "scrub", watched)
    assert retention.expire_logs(eng._view) == 9
    assert entries == [[]]
    assert retention.expire_logs(eng._view) == 0
    assert entries == [[]]


@pytest.mark.requirement("RETAIN-1")
def test_the_file_is_cleaned_after_an_error_too(
    open_store: Callable[..., Engram], clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store(retention_logs="30d")
    engine: Engine = eng._view.engine
    sid = eng.sessions.register("codex", "Porting the router")
    for number in range(9):
        eng.sessions.log(sid, f"step {number}")
    clock.advance(40 * DAY)
    forget = Forgetting.forget
    cleaned: list[int] = []

    def fail_later(self: Forgetting, *arguments: Any, **options: Any) -> Any:
        if len(eng.receipts()) == 2:
            raise StoreFull
        return forget(self, *arguments, **options)

    monkeypatch.setattr(retention, "_AT_ONCE", 2)
    monkeypatch.setattr(Forgetting, "forget", fail_later)
    monkeypatch.setattr(engine, "scrub", lambda: cleaned.append(len(eng.receipts())))
    with pytest.raises(StoreFull):
        retention.expire_logs(eng._view)
    assert cleaned == [2]
