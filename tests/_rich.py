"""A store with rows in every table that an export carries."""

from __future__ import annotations

from engram import Engram
from engram.config import load
from engram.dreaming import plans
from engram.import_records import Seen
from tests._tables import run
from tests._talks import talk

#: Rows that ordinary calls make only in rare moments.
_RARE = (
    "INSERT INTO usage VALUES ('default', '2026-03-02', 'sessions', 2, 1200, 340)",
    "INSERT INTO dream_retries VALUES ('default', 'eras', 3, 1, 'no answer', '2026-03-03T00:00:00.000000Z')",
    "INSERT INTO folds (workspace, target, gist, after) SELECT workspace, 'profile', memory_id, 3 FROM gists "
    "WHERE workspace = 'default' AND NOT EXISTS (SELECT 1 FROM folds)",
    "INSERT INTO lease_notices (token, session_id, what, at) SELECT token, session_id, 'told', claimed_at FROM leases "
    "WHERE workspace = 'default'",
)


def fill(eng: Engram, url: str) -> None:
    """Fill a store with two workspaces."""
    one = talk(eng, "the router")
    two = talk(eng, "the cache", at="2026-04-02T10:00:00Z")
    eng.sessions.log(one, "read the router")
    child = eng.sessions.register("codex", "a part of it", {"branch": "main"}, parent_id=one, external_id="x-1")
    eng.exchanges.add(child, "user", "Grüße: a part 🧩 of the work, with a very long text. " + "word " * 600)
    eng.leases.claim(one, "shop:src", "rewriting", exclusive=True, ttl=3_600)
    eng.leases.release(one, "shop:src")
    eng.leases.claim(two, "deploy", "shipping")
    eng.leases.claim(two, "shop:app.py")
    eng.leases.break_lease("shop:app.py", one, "the release waits")
    eng.messages.send(two, one, "May I have the router?")
    eng.messages.inbox(one)
    eng.messages.send(None, two, "A person asks")
    eng.world.set("Ship on Friday.", one, reason="as agreed")
    eng.world.set("Ship on Monday.", one, reason="later")
    eng.blocks.create("notes", "first", actor=one, data={"k": [1, 2.5, None]})
    eng.blocks.update("notes", "second", "better", actor=two)
    first = eng.remember("The lift is broken.", kind="fact", tags=["house", "lift"], data={"a": 1}, session_id=one)
    eng.memories.update(first.id, "The lift is broken since May.", reason="wording", actor=one, pinned=True)
    second = eng.remember("The lift was mended.", kind="fact", sources=[("memory", first.id)])
    eng.memories.link(first.id, second.id, "contradicts")
    eng.memories.supersede(first.id, second.id)
    eng.memories.archive(eng.remember("The old door is green.", key="door").id)
    eng.memories.approve(eng.remember("Deploys never happen on Fridays.", kind="preference", pinned=True).id)
    same = [eng.remember(text, tags=[tag], data={tag: 1}) for text, tag in (("Tea is hot.", "t"), ("Tea is hot!", "u"))]
    eng.injections.record(one, [("memory", second.id)])
    eng.imports.note("test", "memory", "elsewhere", Seen(str(second.id), 1))
    derived = eng.exchanges.add(two, "user", "Remember that the boiler has 3 bars.")
    other = eng.exchanges.add(two, "user", "And that the boiler is red.")
    eng.remember("The boiler has 3 bars. The boiler is red.", sources=[("exchange", derived), ("exchange", other)])
    eng.dream(force=True)
    eng.forget(exchange=derived)
    plan = plans.merge([eng.memories.get(each.id) for each in same], 0.9, 1.0)
    with eng._view.engine.write() as tx:
        eng.proposals.add(tx, plan, 1)
    eng.workspace("team").remember("Another workspace.", key="only")
    talk(eng.workspace("team"), "the plan")
    for statement in _RARE:
        run(url, statement)


def add_work(url: str) -> None:
    """Leave a prompt for agents, which forgetting would remove."""
    with Engram(settings=load(url=url, llm="agent", embedder="none")) as eng:
        talk(eng, "one more thing", at="2026-05-02T10:00:00Z")
        eng.dream(force=True)
