"""Forgetting: what goes, what goes with it, what stays, and what says so; on both engines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engram import (
    BlockNotFound,
    Engram,
    EngramError,
    ExchangeNotFound,
    InvalidInput,
    MemoryNotFound,
    NoRecipient,
    Receipt,
    SessionNotFound,
    VersionNotFound,
)
from engram.storage.engine import Transaction
from tests._tables import dump, holds
from tests.conftest import ShiftedClock

OpenStore = Callable[..., Engram]
#: A word that nothing else has; the stemmer leaves it alone.
WORD = "quixadrol"
SECRET = f"The vault code is {WORD} seven."
OTHER = "The bridge is closed on Monday."
#: How long a test waits for what should happen at once; only a failure takes this long.
PATIENCE = 60


@pytest.fixture
def eng(open_store: OpenStore) -> Engram:
    return open_store(embedder="none")


def say(eng: Engram, text: str, session: str = "s", role: str = "user") -> int:
    eng.sessions.ensure(session)
    return eng.exchanges.add(session, role, text)


def derive(eng: Engram, block: str, sources: list[tuple[str, int]], version: int = 1) -> None:
    """Say that a block was made of these, as dreaming will."""
    with eng._view.engine.write() as tx:
        id = tx.all("SELECT id FROM blocks WHERE workspace = :w AND name = :n", w=eng.workspace_name, n=block)[0][0]
        for kind, source in sources:
            _add_source(tx, eng.workspace_name, id, version, kind, source)


def _add_source(tx: Transaction, workspace: str, id: int, version: int, kind: str, source: int) -> None:
    tx.run(
        "INSERT INTO sources (workspace, derived_kind, derived_id, derived_version, source_kind, source_id) "
        "VALUES (:workspace, 'block', :id, :version, :kind, :source)",
        workspace=workspace,
        id=id,
        version=version,
        kind=kind,
        source=source,
    )


def rebuilds(url: str) -> list[tuple[str, int]]:
    return [(row[1], row[2]) for row in dump(url)["rebuilds"]]


def found(eng: Engram, query: str, **options: Any) -> list[str]:
    return [hit.text for hit in eng.recall(query, 50, mode="words", **options)]


@pytest.mark.requirement("FORGET-1")
def test_an_exchange_is_gone_from_rows_words_vectors_and_backlog(store_url: str, open_store: OpenStore) -> None:
    eng = open_store(embedder="static")
    say(eng, OTHER)
    ids = [say(eng, SECRET), say(eng, SECRET, role="log")]
    for id in ids:
        assert holds(store_url, WORD)
        receipt = eng.forget(exchange=id)
        assert receipt.ids == {"exchanges": [id]}
        with pytest.raises(ExchangeNotFound):
            eng.exchanges.get(id)
    assert holds(store_url, WORD) == {}
    left = dump(store_url)
    assert [row[4:6] for row in left["items"]] and len(left["items"]) == len(left["vectors"]) == 1
    assert left["backlog"] == []
    assert {row[1] for row in left["postings"]} == {left["items"][0][0]}
    assert {row[0] for row in left["terms"]} == {row[0] for row in left["postings"]}
    assert found(eng, "vault code bridge") == [OTHER]


@pytest.mark.requirement("FORGET-1")
def test_a_memory_goes_with_its_versions_tags_links_and_words(store_url: str, eng: Engram) -> None:
    other = eng.remember(OTHER)
    gone = eng.remember(f"{WORD} one", tags=[WORD], key=WORD, data={"x": WORD}, kind="fact")
    eng.memories.update(gone.id, f"{WORD} two", reason=f"because {WORD}")
    eng.memories.link(other.id, gone.id, WORD)
    eng.memories.link(gone.id, other.id, WORD)
    newer = eng.remember("superseded", key=WORD, kind="fact")
    parts = {"memory_versions", "memory_states", "memory_tags", "memory_links"}
    assert holds(store_url, WORD).keys() == {"memories", "terms", *parts}
    assert eng.forget(memory=newer.id).counts == {"memories": 1}
    assert eng.memories.get(gone.id).superseded_by is None
    assert eng.forget(memory=gone.id).ids == {"memories": [gone.id]}
    assert holds(store_url, WORD) == {}
    assert eng.memories.links(other.id) == []
    with pytest.raises(MemoryNotFound):
        eng.memories.history(gone.id)


@pytest.mark.requirement("FORGET-1")
def test_a_block_goes_with_its_history(store_url: str, eng: Engram) -> None:
    eng.blocks.create("plan", SECRET)
    eng.blocks.update("plan", OTHER, reason=WORD)
    receipt = eng.forget(block="plan")
    assert (receipt.asked, receipt.counts) == ("block plan", {"blocks": 1})
    assert eng.blocks.get("plan") is None
    assert holds(store_url, WORD) == {}
    assert eng.blocks.create("plan").version == 1


@pytest.mark.requirement("FORGET-2")
def test_a_session_goes_with_everything_in_it_and_nothing_of_others(store_url: str, eng: Engram) -> None:
    sid = eng.sessions.register("codex", f"{WORD} summary", name=f"{WORD} name", metadata={"a": WORD})
    peer = eng.sessions.register("codex", "another task", parent_id=sid)
    said = say(eng, SECRET, sid)
    eng.sessions.log(sid, f"{WORD} done")
    eng.leases.claim(sid, f"{WORD}.py", note=WORD)
    eng.messages.send(sid, peer, f"from it {WORD}")
    eng.messages.send(peer, sid, f"to it {WORD}")
    kept_message = eng.messages.send(None, "*", "to all")
    mine = eng.remember(f"learnt there {WORD}", session_id=sid)
    outside = say(eng, OTHER, peer)
    theirs = eng.remember(OTHER, session_id=sid, sources=[("exchange", outside)])
    receipt = eng.sessions.delete(sid)
    assert receipt.counts == {"exchanges": 2, "memories": 1, "sessions": 1, "messages": 2}
    assert receipt.ids["memories"] == [mine.id] and said in receipt.ids["exchanges"]
    assert holds(store_url, WORD) == {}
    assert [(each.id, each.parent_id) for each in eng.sessions.list()] == [(peer, None)]
    assert eng.memories.get(theirs.id).session_id is None
    assert found(eng, "bridge", what=["memories"]) == [OTHER]
    with pytest.raises(SessionNotFound):
        eng.recall("bridge", session_id=sid)
    assert [message.id for message in eng.messages.inbox(peer)] == [kept_message.id]
    assert eng.leases.list() == []
    with pytest.raises(SessionNotFound):
        eng.exchanges.add(sid, "user", "late")


@pytest.mark.requirement("FORGET-2")
def test_a_source_is_every_session_of_that_type_and_no_other(eng: Engram) -> None:
    ids = {kind: eng.sessions.register(kind, "work") for kind in ("import", "import2", "Import", "importé", "codex")}
    also = eng.sessions.register("import", "work")
    for sid in ids.values():
        say(eng, SECRET, sid)
    receipt = eng.forget(source="import")
    assert receipt.ids["sessions"] == sorted([ids.pop("import"), also])
    assert {each.id for each in eng.sessions.list()} == set(ids.values())
    assert len(found(eng, WORD)) == len(ids)


@pytest.mark.requirement("FORGET-2")
def test_everything_older_than_a_time_goes(store_url: str, eng: Engram, clock: ShiftedClock) -> None:
    over = eng.sessions.register("codex", f"{WORD} over")
    alive = eng.sessions.register("codex", "at work")
    say(eng, SECRET, over)
    say(eng, SECRET, alive)
    eng.sessions.log(alive, WORD)
    eng.sessions.complete(over)
    eng.remember(f"old {WORD}")
    eng.messages.send(None, alive, f"old {WORD}")
    eng.leases.claim(alive, f"{WORD}.py", note=WORD)
    eng.leases.release(alive, f"{WORD}.py")
    eng.blocks.create("plan", SECRET)
    eng.blocks.update("plan", "", reason=WORD)
    eng.blocks.update("plan", "now")
    clock.advance(3_600)
    time = eng.sessions.heartbeat(alive).heartbeat_at
    new = say(eng, OTHER, alive)
    eng.remember("new one")
    eng.blocks.append("plan", " and then")
    receipt = eng.forget(before=time)
    assert receipt.counts == {"exchanges": 3, "memories": 1, "sessions": 1, "messages": 1, "block versions": 3}
    assert holds(store_url, WORD) == {}
    assert [each.id for each in eng.exchanges.history(alive)] == [new]
    assert [(each.id, each.turns) for each in eng.sessions.list()] == [(alive, 1)]
    assert [each.content for each in eng.memories.list()] == ["new one"]
    block = eng.blocks.get("plan")
    assert block is not None and block.content == "now and then"
    assert eng.blocks.verify("plan") == 4
    assert eng.forget(before=time).counts == {}


@pytest.mark.requirement("FORGET-3")
@pytest.mark.parametrize(
    ("selectors", "error"),
    [
        ({}, InvalidInput),
        ({"exchange": 1, "memory": 1}, InvalidInput),
        ({"session": "s", "before": "2026-01-01"}, InvalidInput),
        ({"exchange": 99}, ExchangeNotFound),
        ({"memory": 99}, MemoryNotFound),
        ({"session": "nobody"}, SessionNotFound),
        ({"source": "nobody"}, SessionNotFound),
        ({"block": "nothing"}, BlockNotFound),
        ({"exchange": 0}, InvalidInput),
        ({"exchange": True}, InvalidInput),
        ({"memory": "1"}, InvalidInput),
        ({"memory": 2**63}, InvalidInput),
        ({"session": ""}, InvalidInput),
        ({"block": "a\nb"}, InvalidInput),
        ({"before": "soon"}, InvalidInput),
        ({"memory": 1, "dry_run": "yes"}, InvalidInput),
    ],
)
def test_what_cannot_be_meant_is_a_typed_error_and_changes_nothing(
    store_url: str, eng: Engram, selectors: dict[str, Any], error: type[EngramError]
) -> None:
    say(eng, SECRET)
    eng.remember(SECRET)
    before = dump(store_url)
    with pytest.raises(error):
        eng.forget(**selectors)
    assert dump(store_url) == before


def family(eng: Engram) -> tuple[int, int]:
    """Two exchanges with memories of the first, of both and of those, and a block of both; the exchanges."""
    secret, other = say(eng, SECRET), say(eng, OTHER)
    alone = eng.remember(f"alone {WORD}", sources=[("exchange", secret)])
    eng.remember(f"of that {WORD}", sources=[("memory", alone.id)])
    both = eng.remember(f"{SECRET} {OTHER}", sources=[("exchange", secret), ("exchange", other)])
    eng.memories.update(both.id, f"{OTHER} {SECRET}", reason=SECRET)
    eng.remember(f"Both, {WORD}", kind="gist", tags=[WORD], sources=[("exchange", secret), ("exchange", other)])
    eng.blocks.create("digest", f"# Digest\n{SECRET} [e{secret}]\n{OTHER} [e{other}]")
    derive(eng, "digest", [("exchange", secret), ("exchange", other)])
    return secret, other


@pytest.mark.requirement("FORGET-4")
@pytest.mark.parametrize("by", ["exchange", "memory", "session", "block", "before", "source"])
def test_a_dry_run_gives_the_same_receipt_and_changes_nothing(store_url: str, eng: Engram, by: str) -> None:
    secret, _ = family(eng)
    chosen: dict[str, Any] = {
        "exchange": secret,
        "memory": 1,
        "session": "s",
        "block": "digest",
        "before": "2999-01-01",
        "source": "chat",
    }
    before = dump(store_url)
    shown = eng.forget(**{by: chosen[by]}, dry_run=True)
    assert dump(store_url) == before
    assert eng.receipts() == []
    done = eng.forget(**{by: chosen[by]})
    assert shown.id is None
    assert shown._replace(id=done.id, created_at=done.created_at, preview=None) == done
    assert shown.preview is not None and shown.preview.keys() == done.ids.keys()
    assert all(len(lines) == done.counts[name] for name, lines in shown.preview.items())
    assert eng.receipts() == [done]


@pytest.mark.requirement("FORGET-5")
def test_what_was_derived_from_it_alone_goes_and_the_rest_loses_what_came_from_it(store_url: str, eng: Engram) -> None:
    secret, other = family(eng)
    alone, of_it, both, gist = sorted(each.id for each in eng.memories.list())
    receipt = eng.forget(exchange=secret)
    assert receipt.ids == {
        "exchanges": [secret],
        "memories": [alone, of_it],
        "memories to rebuild": [both, gist],
        "blocks to rebuild": receipt.ids["blocks to rebuild"],
    }
    assert holds(store_url, WORD) == {}
    assert rebuilds(store_url) == [("block", 1), ("memory", both), ("memory", gist)]
    assert eng.memories.get(both).content == OTHER
    assert eng.memories.sources(both) == [("exchange", other)]
    assert [(each.content, each.reason, each.receipt) for each in eng.memories.history(both)] == [
        (OTHER, "", receipt.id),
        (OTHER, "", receipt.id),
    ]
    blank = eng.memories.get(gist)
    assert (blank.content, blank.tags) == ("", ())
    assert found(eng, "bridge", what=["memories"]) == [OTHER]
    block = eng.blocks.get("digest")
    assert block is not None and block.content == f"# Digest\n{OTHER} [e{other}]"
    eng.forget(exchange=other)
    assert holds(store_url, "bridge") == {} and rebuilds(store_url) == [("block", 1)]


@pytest.mark.requirement("FORGET-5")
def test_what_came_through_a_memory_that_stays_is_lost_further_down_too(store_url: str, eng: Engram) -> None:
    secret, other = say(eng, SECRET), say(eng, OTHER)
    first = eng.remember(f"{SECRET} {OTHER}", sources=[("exchange", secret), ("exchange", other)])
    note = eng.remember("A note of its own.")
    second = eng.remember(
        f"As we know: {SECRET} {OTHER} Take the ferry.", sources=[("memory", first.id), ("memory", note.id)]
    )
    eng.forget(exchange=secret)
    assert holds(store_url, WORD) == {}
    assert eng.memories.get(second.id).content == f"{OTHER}\nTake the ferry."


@pytest.mark.requirement("FORGET-5")
def test_what_is_left_without_text_goes_with_what_was_made_of_it_alone(store_url: str, eng: Engram) -> None:
    secret, other = say(eng, SECRET), say(eng, OTHER)
    emptied = eng.remember(SECRET, sources=[("exchange", secret), ("exchange", other)])
    child = eng.remember("Put otherwise, it is seven.", sources=[("memory", emptied.id)])
    receipt = eng.forget(exchange=secret)
    assert receipt.ids == {"exchanges": [secret], "memories": [emptied.id, child.id]}
    assert eng.memories.list() == []


@pytest.mark.requirement("FORGET-5")
def test_two_memories_that_are_each_others_source_do_not_keep_each_other(eng: Engram) -> None:
    secret = say(eng, SECRET)
    first = eng.remember("One way to put it", sources=[("exchange", secret)])
    second = eng.remember("Another way to put it", sources=[("memory", first.id)])
    eng.remember("One way to put it", sources=[("memory", second.id)])
    assert eng.forget(exchange=secret).ids["memories"] == [first.id, second.id]


@pytest.mark.requirement("FORGET-6")
def test_a_derived_block_loses_exactly_its_lines_in_every_version_since(eng: Engram) -> None:
    secret, other = say(eng, SECRET), say(eng, OTHER)
    eng.blocks.create("digest", "Written by hand before.")
    eng.blocks.update("digest", f"# Rules\n- Ask first [e{other}]\n- Use seven [e{secret}]", reason="dream")
    derive(eng, "digest", [("exchange", secret), ("exchange", other)], version=2)
    eng.blocks.append("digest", f"\n- Both agree on this [e{secret}, e{other}]\n- Nobody's line")
    eng.blocks.update("digest", f"# Rules\n- Ask first [e{other}]")
    receipt = eng.forget(exchange=secret)
    assert [eng.blocks.version("digest", number) for number in (1, 2, 3, 4)] == [
        "Written by hand before.",
        f"# Rules\n- Ask first [e{other}]",
        f"# Rules\n- Ask first [e{other}]\n- Both agree on this [e{other}]\n- Nobody's line",
        f"# Rules\n- Ask first [e{other}]",
    ]
    assert [(edit.version, edit.receipt) for edit in eng.blocks.history("digest")] == [
        (4, None),
        (3, receipt.id),
        (2, receipt.id),
    ]
    assert eng.blocks.verify("digest") == 4
    with pytest.raises(VersionNotFound, match=f"receipt {receipt.id}"):
        eng.blocks.restore("digest", 2)
    assert eng.blocks.restore("digest", 1).content == "Written by hand before."


@pytest.mark.requirement("FORGET-6")
def test_what_a_person_wrote_in_a_derived_block_stays_when_a_turn_is_forgotten(store_url: str, eng: Engram) -> None:
    secret, other = say(eng, SECRET), say(eng, OTHER)
    told = f"The guard said the word {WORD} at the vault."
    eng.blocks.create("narrative", told, actor="dream")
    derive(eng, "narrative", [("exchange", secret), ("exchange", other)])
    eng.blocks.append("narrative", "\nMy own story of the sea.", actor="lyra")
    eng.blocks.replace("narrative", "at the vault", "by the big vault", actor="lyra")
    eng.blocks.append("narrative", f"\nShe wrote: {SECRET}", actor="lyra")
    eng.blocks.update("narrative", "My own story of the sea.", data={"mood": "glad"})
    receipt = eng.forget(exchange=secret)
    assert holds(store_url, WORD) == {}
    kept = "My own story of the sea."
    assert [eng.blocks.version("narrative", number) for number in (1, 2, 3, 4, 5)] == ["", kept, kept, kept, kept]
    block = eng.blocks.get("narrative")
    assert block is not None and block.data == {"mood": "glad"}
    assert [edit.receipt for edit in eng.blocks.history("narrative")] == [None, *[receipt.id] * 3]


@pytest.mark.requirement("FORGET-6")
def test_own_lines_stay_although_a_later_derived_version_repeats_them(eng: Engram) -> None:
    secret, other = say(eng, SECRET), say(eng, OTHER)
    eng.blocks.create("self", "I was told about the vault.", actor="dream")
    derive(eng, "self", [("exchange", secret), ("exchange", other)])
    eng.blocks.update("self", "I am Lyra and I like the sea.", actor="lyra")
    eng.blocks.update("self", "I am Lyra and I like the sea.\nThe vault was talked about.", actor="dream")
    derive(eng, "self", [("exchange", secret)], version=3)
    eng.blocks.update("self", "I am Lyra and I like the sea.\nThe vault was talked about.\nI sail.", actor="lyra")
    eng.forget(exchange=secret)
    assert [eng.blocks.version("self", number) for number in (1, 2, 3, 4)] == [
        "",
        "I am Lyra and I like the sea.",
        "",
        "I am Lyra and I like the sea.\nI sail.",
    ]


@pytest.mark.requirement("FORGET-6")
def test_a_derived_block_that_was_deleted_is_no_obstacle(store_url: str, eng: Engram) -> None:
    secret, _ = family(eng)
    eng.blocks.delete("digest")
    assert "blocks to rebuild" not in eng.forget(exchange=secret).ids
    assert holds(store_url, WORD) == {}


@pytest.mark.requirement("FORGET-7")
def test_receipts_are_kept_and_have_no_content(store_url: str, eng: Engram, open_store: OpenStore) -> None:
    secret, _ = family(eng)
    receipts: list[Receipt] = [eng.forget(exchange=secret), eng.forget(session="s")]
    assert [each.asked for each in receipts] == [f"exchange {secret}", "session s"]
    assert open_store(embedder="none").receipts() == receipts[::-1]
    assert eng.receipts(1) == receipts[1:]
    assert "bridge" not in repr(dump(store_url)["receipts"])
    with pytest.raises(InvalidInput):
        eng.receipts(-1)


ASK = """
import sys
from engram import Engram
with Engram(sys.argv[1]) as eng:
    for line in sys.stdin:
        print([hit.text for mode in ("words", "hybrid", "vectors") for hit in eng.recall(line.strip(), 20, mode=mode)])
        sys.stdout.flush()
"""


@pytest.mark.requirement("FORGET-8")
def test_no_other_process_returns_it_from_what_it_keeps(store_url: str, open_store: OpenStore) -> None:
    eng, other = open_store(embedder="static"), open_store(embedder="static")
    ids = [say(eng, f"{SECRET} Number {number}.") for number in range(5)]
    memory = eng.remember(SECRET)
    others = {say(eng, text): text for text in (OTHER, "The ferry leaves at noon.", "Ask the harbour office.")}
    process = subprocess.Popen(
        [sys.executable, "-c", ASK, store_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None

    def asked() -> str:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("vault code bridge\n")
        process.stdin.flush()
        return process.stdout.readline()

    with process:
        assert WORD in asked()
        assert any(WORD in hit.text for hit in other.recall("vault code", 20))
        for id in ids:
            eng.forget(exchange=id)
        eng.forget(memory=memory.id)
        answer = asked()
        process.stdin.close()
    assert OTHER in answer and WORD not in answer
    for mode in ("hybrid", "vectors", "words"):
        hits = {hit.exchange_id: hit.text for hit in other.recall("bridge vault code", 20, mode=mode)}
        assert hits and hits.items() <= others.items()


@pytest.mark.requirement("FORGET-9")
def test_archiving_is_something_else_and_undoable(store_url: str, eng: Engram) -> None:
    made = eng.remember(SECRET)
    eng.memories.archive(made.id)
    assert found(eng, WORD) == [] and found(eng, WORD, include_archived=True) == [SECRET]
    assert eng.receipts() == [] and eng.memories.get(made.id).content == SECRET
    eng.memories.unarchive(made.id)
    assert found(eng, WORD) == [SECRET]
    eng.memories.archive(made.id)
    eng.forget(memory=made.id)
    assert holds(store_url, WORD) == {}


@pytest.mark.requirement("FORGET-10")
def test_forgetting_that_is_rolled_back_changes_nothing(store_url: str, eng: Engram) -> None:
    secret, _ = family(eng)
    before = dump(store_url)
    with pytest.raises(ZeroDivisionError), eng.write():
        eng.forget(exchange=secret)
        say(eng, "after it, in the same transaction", "t")
        eng.forget(session="s")
        raise ZeroDivisionError
    assert dump(store_url) == before
    assert SECRET in found(eng, WORD)
    with eng.write():
        eng.forget(session="s", dry_run=True)
        said = say(eng, f"new {WORD}", "t")
        eng.forget(session="s")
    assert found(eng, WORD) == [f"new {WORD}"]
    eng.forget(exchange=said)
    assert holds(store_url, WORD) == {}


#: What begins to refer to a session.
REFERRING: dict[str, Callable[[Engram, str, str], object]] = {
    "a message from it": lambda eng, sid, peer: eng.messages.send(sid, peer, "late"),
    "a message to it": lambda eng, sid, peer: eng.messages.send(peer, sid, "late"),
    "a child": lambda eng, sid, peer: eng.sessions.register("codex", "late", parent_id=sid),
    "a claim": lambda eng, sid, peer: eng.leases.claim(sid, "notes"),
    "a memory": lambda eng, sid, peer: eng.remember("late", session_id=sid),
    "a turn": lambda eng, sid, peer: eng.exchanges.add(sid, "user", "late"),
    "a log": lambda eng, sid, peer: eng.sessions.log(sid, "late"),
}


@pytest.mark.requirement("FORGET-18")
@pytest.mark.parametrize("late", REFERRING)
def test_nothing_begins_to_refer_to_a_session_while_it_is_forgotten(
    store_url: str, open_store: OpenStore, late: str
) -> None:
    eng, other = open_store(embedder="none"), open_store(embedder="none")
    sid, peer = eng.sessions.register("codex", WORD), eng.sessions.register("codex", "another task")
    with ThreadPoolExecutor(1) as pool:
        with eng.write():
            eng.forget(session=sid)
            referring = pool.submit(REFERRING[late], other, sid, peer)
            with pytest.raises(TimeoutError):
                referring.result(0.3)
        if late == "a message to it":
            # By then it is not a session's name any more, and nobody holds a resource of that name.
            with pytest.raises(NoRecipient):
                referring.result(PATIENCE)
        else:
            with pytest.raises(SessionNotFound):
                referring.result(PATIENCE)
    assert holds(store_url, "late") == {}
    assert [each.id for each in eng.sessions.list()] == [peer]


@pytest.mark.requirement("FORGET-10")
def test_a_session_counts_its_turns_after_some_are_gone(eng: Engram) -> None:
    ids = [say(eng, f"turn {number}") for number in range(5)]
    for id in ids[1:3]:
        eng.forget(exchange=id)
    eng.forget(exchange=say(eng, "a log", role="log"))
    ids.append(say(eng, "turn 5"))
    assert eng.sessions.get("s").turns == 4
    assert [each.id for each in eng.exchanges.history("s")] == [ids[0], *ids[3:]]
    assert [each.id for each in eng.exchanges.around(ids[3], 1)] == [ids[3], ids[4]]


@pytest.mark.requirement("FORGET-11")
def test_workspaces_never_touch_each_other(store_url: str, open_store: OpenStore) -> None:
    views = [open_store(embedder="none", workspace=name) for name in ("foo", "foobar", "foo_", "f-o")]
    for view in views:
        family(view)
    mine, *others = views
    for selectors in ({"source": "chat"}, {"before": "2999-01-01"}, {"block": "digest"}):
        mine.forget(**selectors)  # type: ignore[arg-type]
    with pytest.raises(ExchangeNotFound):
        mine.forget(exchange=others[0].exchanges.history("s")[0].id)
    with pytest.raises(MemoryNotFound):
        mine.forget(memory=others[0].memories.list()[0].id)
    for view in others:
        assert len(view.memories.list()) == 4 and len(view.exchanges.history("s")) == 2
        assert SECRET in found(view, WORD) and view.receipts() == []
        assert view.blocks.get("digest") is not None
    assert found(mine, WORD) == [] and mine.memories.list() == []


#: Each of them must only ever mean itself.
SIBLINGS = ["foo", "foobar", "fo", "FOO", "Foo", "f_o", "f%", "%", "_", "foo%", "fóo", "fo\u0301o", "foo ", "*", "f*"]


@pytest.mark.requirement("FORGET-11")
def test_sibling_names_never_leak_between_sessions_tags_projects_and_kinds(eng: Engram) -> None:
    for number, name in enumerate(SIBLINGS):
        eng.sessions.ensure(name)
        eng.exchanges.add(name, "user", f"{WORD} turn {number}")
        eng.remember(f"{WORD} memory {number}", tags=[name], project=name, kind=name, session_id=name)
    for number, name in enumerate(SIBLINGS):
        turn, memory = f"{WORD} turn {number}", f"{WORD} memory {number}"
        assert found(eng, WORD, tags=[name]) == [memory]
        assert found(eng, WORD, project=name) == [memory]
        assert found(eng, WORD, kinds=[name], what=["memories"]) == [memory]
        assert sorted(found(eng, WORD, session_id=name)) == [memory, turn]
        assert len(found(eng, WORD, exclude_session=name)) == 2 * len(SIBLINGS) - 2
        by_name: list[dict[str, Any]] = [{"tag": name}, {"project": name}, {"kind": name}]
        for filters in by_name:
            assert [each.content for each in eng.memories.list(**filters)] == [memory]
        assert [each.content for each in eng.exchanges.history(name)] == [turn]
    left = set(SIBLINGS)
    for name in SIBLINGS:
        assert eng.forget(session=name).counts == {"exchanges": 1, "memories": 1, "sessions": 1}
        left.remove(name)
        assert {each.id for each in eng.sessions.list()} == left
        assert len(found(eng, WORD)) == 2 * len(left)


@pytest.mark.requirement("FORGET-11")
def test_sibling_names_of_blocks_and_types_are_forgotten_one_by_one(eng: Engram) -> None:
    types = {name: eng.sessions.register(name, "work") for name in SIBLINGS}
    for name in SIBLINGS:
        eng.blocks.create(name, name)
    for name in SIBLINGS:
        assert eng.forget(source=name).ids == {"sessions": [types.pop(name)]}
        eng.forget(block=name)
        assert {each.id for each in eng.sessions.list()} == set(types.values())
        assert {each.name for each in eng.blocks.list()} == types.keys()
