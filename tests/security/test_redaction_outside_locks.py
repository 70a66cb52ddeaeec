"""No text is searched for secrets while a transaction is open, because other writers would wait for the search."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram import Engram, checks, redact
from engram.checks import MAX_NAME

LONG = "Deploys never happen on Fridays. " * 20

Call = Callable[[Engram, str], object]
WRITES: dict[str, Call] = {
    "exchanges.add": lambda eng, sid: eng.exchanges.add(sid, "user", LONG),
    "exchanges.add_many": lambda eng, sid: eng.exchanges.add_many(
        [{"session_id": sid, "role": "tool", "content": LONG}]
    ),
    "sessions.register": lambda eng, sid: eng.sessions.register("test", LONG, {"said": LONG}),
    "sessions.register, known": lambda eng, sid: [
        eng.sessions.register("test", None, {name: LONG}, external_id="h-1") for name in "ab"
    ],
    "sessions.heartbeat": lambda eng, sid: eng.sessions.heartbeat(sid, LONG),
    "sessions.log": lambda eng, sid: eng.sessions.log(sid, LONG),
    "sessions.complete": lambda eng, sid: eng.sessions.complete(sid, LONG),
    "remember": lambda eng, sid: eng.remember(LONG, data={"said": LONG}),
    "memories.update": lambda eng, sid: eng.memories.update(
        eng.remember("a note", data={"said": LONG}).id, LONG, reason=LONG, data=[LONG]
    ),
    "memories.store_gist": lambda eng, sid: eng.memories.store_gist(
        sid, LONG, 1, sources=[eng.exchanges.add(sid, "user", "x")]
    ),
    "eras.store": lambda eng, sid: eng.eras.store("2026-03", LONG, 1),
    "messages.send": lambda eng, sid: eng.messages.send(None, sid, LONG),
    "leases.claim": lambda eng, sid: eng.leases.claim(sid, "src/router.py", LONG),
    "leases.break_lease": lambda eng, sid: (
        eng.leases.claim(sid, "deploy"),
        eng.leases.break_lease("deploy", eng.sessions.register("test", ""), LONG),
    ),
    "blocks.create": lambda eng, sid: eng.blocks.create("new", LONG),
    "blocks.update": lambda eng, sid: eng.blocks.update("page", LONG, LONG),
    "blocks.append": lambda eng, sid: eng.blocks.append("page", LONG, LONG),
    "blocks.replace": lambda eng, sid: eng.blocks.replace("page", "it", LONG),
    "blocks.derive": lambda eng, sid: eng.blocks.derive("made", LONG, LONG, "dream", 500, []),
    "world.set": lambda eng, sid: eng.world.set(LONG, reason=LONG),
    "work.submit": lambda eng, sid: _submit(eng),
}


def _submit(eng: Engram) -> None:
    eng.work.leave("gists", "s", "1", LONG, {"type": "object"})
    item = eng.work.next()
    assert item is not None
    eng.work.submit(item.id, '{"said": "' + LONG + '"}')


@pytest.mark.requirement("REDACT-6")
@pytest.mark.parametrize("write", WRITES)
def test_a_long_text_is_searched_before_the_transaction(
    write: str, open_store: Callable[..., Engram], monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store(embedder="none")
    sid = eng.sessions.register("test", "writing")
    eng.blocks.create("page", "it")
    searched: list[bool] = []
    find = redact.find

    def watched(text: str) -> list[tuple[int, int, str]]:
        if len(text) > MAX_NAME:
            searched.append(eng._view.engine.joined)
        return find(text)

    monkeypatch.setattr(redact, "find", watched)
    WRITES[write](eng, sid)
    assert searched
    assert not any(searched)


@pytest.mark.requirement("REDACT-6")
def test_an_edit_that_another_edit_overtakes_starts_again(eng: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    eng.blocks.create("page", "one")
    content = checks.content
    others = ["two", "three"]

    def overtaken(value: object, what: str, *, longest: int = checks.MAX_TEXT, empty: bool = False) -> str:
        if str(value).endswith(" mine") and value != " mine" and others:
            eng.blocks.update("page", others.pop(0))
        return content(value, what, longest=longest, empty=empty)

    monkeypatch.setattr(checks, "content", overtaken)
    assert eng.blocks.append("page", " mine").content == "three mine"
    assert [edit.new for edit in eng.blocks.history("page")] == ["three mine", "three", "two"]
