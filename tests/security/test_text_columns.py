"""Every text column has a way of forgetting, or is declared to never hold content.

An undeclared column fails here, on either engine. So does a column that does not declare whether Engram copies other
texts into it, because forgetting the original must find the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram import Engram, SessionNotFound
from engram.dreaming import plans
from engram.dreaming.plans import Plan
from engram.forgetting.forget import COPIES, TEXTS
from engram.memory.fingerprints import fingerprint
from engram.records import Memory
from tests._tables import Columns, columns, run, values
from tests.conftest import ShiftedClock

#: Why a column, of that name everywhere or only in that table, never holds content.
NEVER = {
    "workspace": "a name for what belongs together",
    "id": "what others call it by",
    "session_id": "a session's id",
    "from_session": "a session's id",
    "parent_id": "a session's id",
    "actor": "the id of a session or a user",
    "author": "the name of an access token",
    "updated_by": "the id of a session or a user",
    "project": "a folder's name",
    "type": "which program a session belongs to",
    "kind": "one of a few words, or a user's own word for a sort of memories",
    "derived_kind": "one of a few words",
    "source_kind": "one of a few words",
    "what": "one of a few words",
    "label": "a role or a memory's kind",
    "shelf": "one of a few words",
    "status": "one of a few words",
    "role": "one of a few words",
    "trust": "one of a few words",
    "ended_because": "one of a few words",
    "created_at": "a time",
    "updated_at": "a time",
    "heartbeat_at": "a time",
    "claimed_at": "a time",
    "expires_at": "a time",
    "fenced_at": "a time",
    "ended_at": "a time",
    "read_at": "a time",
    "shown_at": "a time",
    "person_read_at": "a time",
    "recalled_at": "a time",
    "applied_at": "a time",
    "alive_until": "a time",
    "taken_until": "a time",
    "matured": "a time",
    "at": "a time",
    "started_at": "a time",
    "deadline": "a time",
    "month": "a time",
    "day": "a time",
    "target": "one of a few words, but for a message's",
    "stage": "the name of a part of dreaming",
    "dreams.report": "numbers, ids and names of stages",
    "dreams.reason": "one of a few words",
    "dream_retries.problem": "what failed, without any quotation",
    "retry_at": "a time",
    "state": "one of a few words",
    "part": "one of a few words",
    "ref": "a number or a session's id",
    "decided_at": "a time",
    "exchanges.external_id": "the harness's own id of a message",
    "imports.ref": "a digest of an id",
    "imports.source": "the name of a format",
    "seen_at": "a time",
    "harness_processes.process": "numbers that name a process",
    "harness_processes.harness": "numbers that name a process",
    "journal.after": "numbers and digests",
    "work.subject": "a session's id, a month or a block's name",
    "work.covers": "numbers and ids",
    "work.form": "a form that is the same for all",
    "work.taken_by": "a session's id",
    "model": "a model's name",
    "next": "a model's name",
    "blocks.name": "what others call the block by; receipts and the feed name it too",
    "receipts.asked": "how it was asked for: by an id, a name or a time",
    "receipts.went": "numbers and ids",
    "scope": "one of a few words",
    "client_id": "an OAuth client's id",
    "grant_id": "a token's id",
    "token_id": "a token's id",
    "given_by": "a token's id",
    "family": "a consent's id",
    "last_used_at": "a time",
    "revoked_at": "a time",
    "ends_at": "a time",
    "used_at": "a time",
    "audience": "the address of a server",
    "access_tokens.hash": "a digest of a secret",
    "access_tokens.name": "what others call the token by; it is an author",
    "access_links.hash": "a digest of a secret",
    "access_links.name": "a token's name",
    "access_logins.hash": "a digest of a secret",
    "access_logins.name": "a token's name",
    "access_attempts.bucket": "a digest",
    "access_answers.key": "a client's own id of a request",
    "access_clients.hash": "a digest of a secret",
    "access_clients.name": "what an OAuth client calls itself",
    "access_clients.metadata": "what an OAuth client says about itself",
    "access_requests.hash": "a digest of a secret",
    "access_requests.asked": "the parameters of an OAuth request",
    "access_consents.name": "a token's name",
    "access_codes.hash": "a digest of a secret",
    "access_codes.asked": "the parameters of an OAuth request",
    "migrations.name": "the schema's own",
    "migrations.hash": "the schema's own",
}
#: Types of columns that hold no text. Vectors and other blobs made from text are deleted with their row.
WITHOUT_TEXT = {"integer", "bigint", "real", "double precision", "blob", "bytea", "halfvec"}

Needles = dict[tuple[str, str], str]


class Interrupting(ShiftedClock):
    """A clock that runs a function while a caller sleeps."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def sleep(self, seconds: float) -> None:
        self.meanwhile()
        super().sleep(seconds)


@pytest.fixture
def clock() -> Interrupting:
    return Interrupting()


@pytest.fixture
def eng(open_store: Callable[..., Engram]) -> Engram:
    return open_store(embedder="none")


def claims() -> dict[tuple[str, str], set[str]]:
    """The ways of forgetting that empty a column."""
    return {(table, column): set(ways.split(", ")) for table, named in TEXTS.items() for column, ways in named.items()}


def overlooked(schema: Columns) -> list[str]:
    return [
        f"{table}.{column} ({kind})"
        for table, kinds in schema.items()
        for column, kind in kinds.items()
        if (table, column) not in claims()
        and not {column, f"{table}.{column}"} & NEVER.keys()
        and kind not in WITHOUT_TEXT
    ]


@pytest.mark.requirement("FORGET-15")
def test_every_text_column_has_a_way_of_forgetting_or_never_holds_content(store_url: str, eng: Engram) -> None:
    assert overlooked(columns(store_url)) == []
    run(store_url, "ALTER TABLE sources ADD COLUMN said TEXT")
    assert overlooked(columns(store_url)) == ["sources.said (text)"]


@pytest.mark.requirement("FORGET-15")
def test_every_declared_column_is_in_the_schema(store_url: str, eng: Engram) -> None:
    schema = columns(store_url)
    there = {(table, column) for table, named in schema.items() for column in named}
    assert claims().keys() - there == set()
    known = {column for _, column in there} | {f"{table}.{column}" for table, column in there}
    assert NEVER.keys() - known == set()
    assert [name for name in NEVER if tuple(name.split(".")) in claims()] == []


def put_exchange(eng: Engram) -> tuple[dict[str, Any], Needles]:
    eng.sessions.ensure("s")
    said = eng.exchanges.add("s", "user", "qexchangeq")
    return {"exchange": said}, {("exchanges", "content"): "qexchangeq", ("terms", "term"): "qexchangeq"}


def put_memory(eng: Engram) -> tuple[dict[str, Any], Needles]:
    other = eng.remember("another")
    made = eng.remember("qoldq", key="qkeyq", data={"a": "qdataq"}, tags=["qtagq"])
    eng.memories.update(made.id, "qnewq", reason="qreasonq")
    eng.memories.link(other.id, made.id, "qrelationq")
    return {"memory": made.id}, {
        ("memories", "content"): "qnewq",
        ("memories", "key"): "qkeyq",
        ("memories", "data"): "qdataq",
        ("memories", "hash"): fingerprint("qnewq"),
        ("memory_versions", "content"): "qoldq",
        ("memory_versions", "reason"): "qreasonq",
        ("memory_tags", "tag"): "qtagq",
        ("memory_states", "tags"): "qtagq",
        ("memory_links", "relation"): "qrelationq",
        ("terms", "term"): "qnewq",
    }


def put_block(eng: Engram) -> tuple[dict[str, Any], Needles]:
    eng.blocks.create("plan", "qoldq", data={"mood": "qolddataq"})
    eng.blocks.update("plan", "qnewq", reason="qreasonq", data={"mood": "qnewdataq"})
    return {"block": "plan"}, {
        ("blocks", "content"): "qnewq",
        ("blocks", "data"): "qnewdataq",
        ("block_versions", "content"): "qoldq",
        ("block_versions", "reason"): "qreasonq",
        ("block_versions", "data"): "qolddataq",
    }


def put_session(eng: Engram) -> tuple[dict[str, Any], Needles]:
    sid = eng.sessions.register(
        "codex", "qsummaryq", name="qnameq", metadata={"a": "qmetadataq"}, external_id="qexternalq"
    )
    eng.sessions.complete(sid, "qoutcomeq")
    eng.sessions.heartbeat(sid)
    other = eng.sessions.register("codex", "another")
    eng.leases.claim(sid, "qleaseq", note="qnoteq")
    eng.leases.claim(other, "qtargetq")
    eng.messages.send(sid, "qtargetq", "qmessageq")
    return {"session": sid}, {
        ("sessions", "summary"): "qsummaryq",
        ("sessions", "outcome"): "qoutcomeq",
        ("sessions", "name"): "qnameq",
        ("sessions", "metadata"): "qmetadataq",
        ("sessions", "external_id"): "qexternalq",
        ("leases", "resource"): "qleaseq",
        ("leases", "note"): "qnoteq",
        ("messages", "content"): "qmessageq",
        ("messages", "target"): "qtargetq",
    }


def put_quoted(eng: Engram) -> tuple[dict[str, Any], Needles]:
    """A summary of the user's words and an outcome of the assistant's, which go with the turns before a time."""
    sid = eng.sessions.register("codex", None)
    for role, said in (("user", "Port the qrouterq."), ("assistant", "The qtestq passes.")):
        eng.exchanges.add(sid, role, said, created_at="2026-01-05T09:00:00Z")
        assert eng.sessions.quote(sid, role)
    return {"before": "2026-01-06T00:00:00Z"}, {
        ("sessions", "summary"): "qrouterq",
        ("sessions", "outcome"): "qtestq",
    }


def put_agent_work(eng: Engram) -> tuple[dict[str, Any], Needles]:
    eng.work.leave("gists", "s", "1", "qpromptq", None)
    item = eng.work.next()
    assert item is not None
    eng.work.submit(item.id, "qanswerq")
    return {"memory": eng.remember("whatever").id}, {("work", "prompt"): "qpromptq", ("work", "answer"): "qanswerq"}


def put_answers(eng: Engram) -> tuple[dict[str, Any], Needles]:
    eng.access.answers.once("token", "key", "qdigestq", "default", lambda: '{"result": "qanswerq"}')
    return {"memory": eng.remember("whatever").id}, {
        ("access_answers", "answer"): "qanswerq",
        ("access_answers", "digest"): "qdigestq",
    }


def put_snapshots(eng: Engram) -> tuple[dict[str, Any], Needles]:
    sid = eng.sessions.register("codex", "work")
    said = eng.exchanges.add(sid, "user", "I never deploy on qfridayq evenings.")
    eng.dream(force=True)
    eng.exchanges.add(sid, "user", "I prefer tea over coffee.")
    eng.dream(force=True)
    return {"exchange": said}, {("journal", "before"): "qfridayq"}


def put_proposals(eng: Engram) -> tuple[dict[str, Any], Needles]:
    sid = eng.sessions.register("codex", "work")
    said = eng.exchanges.add(sid, "tool", "whatever")
    plan = Plan("remember", "qwhyq", 0.5, "qcontentq", (), (("exchange", said),), {"kind": "qdataq"})
    with eng._view.engine.write() as tx:
        eng.proposals.add(tx, plan, 1)
    with eng._view.engine.read() as tx:
        ((hash,),) = tx.all("SELECT hash FROM proposals WHERE workspace = :workspace", workspace="default")
    return {"exchange": said}, {
        ("proposals", "why"): "qwhyq",
        ("proposals", "content"): "qcontentq",
        ("proposals", "data"): "qdataq",
        ("proposals", "hash"): hash,
    }


#: Each fills the columns of one way of forgetting, and returns how to forget them and which word is in which column.
FILLED: dict[str, Callable[[Engram], tuple[dict[str, Any], Needles]]] = {
    "exchange": put_exchange,
    "blank_answers": put_answers,
    "memory": put_memory,
    "block": put_block,
    "session": put_session,
    "quoted": put_quoted,
    "delete_agent_work": put_agent_work,
    "erase_snapshots": put_snapshots,
    "delete_proposals": put_proposals,
}
#: Filled only while a claim waits; the last test checks it.
WAITERS = ("lease_waiters", "resource")


@pytest.mark.requirement("FORGET-15")
@pytest.mark.parametrize("way", FILLED)
def test_the_declared_way_of_forgetting_empties_a_column(store_url: str, eng: Engram, way: str) -> None:
    chosen, needles = FILLED[way](eng)
    assert needles.keys() == {place for place, ways in claims().items() if way in ways and place != WAITERS}
    for (table, column), word in needles.items():
        assert any(word in value for value in values(store_url, table, column)), f"{word} is not in {table}.{column}"
    eng.forget(**chosen)
    for (table, column), word in needles.items():
        assert [value for value in values(store_url, table, column) if word in value] == []


def put_sources(eng: Engram) -> tuple[dict[str, Any], Needles]:
    sid, other = eng.sessions.register("codex", "work"), eng.sessions.register("codex", "other work")
    said = eng.exchanges.add(sid, "user", "I never deploy on qfridayq evenings.")
    eng.dream(force=True)
    eng.leases.claim(other, "router")
    # What one log entry is copied from is an exchange too; both are forgotten with the session.
    eng.leases.break_lease("router", sid, "urgent, because of qfridayq")
    assert said in eng.forget(session=sid, dry_run=True).ids["exchanges"]
    return {"session": sid}, {
        ("exchanges", "content"): "qfridayq",
        ("memories", "content"): "qfridayq",
        ("memory_versions", "content"): "qfridayq",
        ("blocks", "content"): "qfridayq",
        ("block_versions", "content"): "qfridayq",
    }


def put_merged(eng: Engram) -> tuple[dict[str, Any], Needles]:
    """Two that say the same are one now; the one that is forgotten had labels of its own."""
    gone = eng.remember("The lift is broken.", key="qkeyq", tags=["qtagq", "both"], data={"a": "qdataq"})
    kept = eng.remember("The lift is broken.", tags=["both", "kept"], data={"b": "kept"})
    one = merge(eng, gone.id, kept.id)
    assert (one.key, one.tags, one.data) == (
        "qkeyq",
        ("both", "kept", "qtagq"),
        {"merged": {str(gone.id): {"a": "qdataq"}, str(kept.id): {"b": "kept"}}},
    )
    eng.memories.update(one.id, pinned=True)
    return {"memory": gone.id}, {
        ("memories", "key"): "qkeyq",
        ("memories", "data"): "qdataq",
        ("memory_tags", "tag"): "qtagq",
        ("memory_states", "tags"): "qtagq",
    }


def merge(eng: Engram, *ids: int) -> Memory:
    """Make one of several memories, as dreaming does."""
    plan = plans.merge([eng.memories.get(id) for id in ids], 0.9, 1.0)
    with eng._view.engine.write() as tx:
        eng.proposals.add(tx, plan, 1)
    result = eng.proposals.apply(eng.proposals.list()[0].id).result
    assert result is not None
    return eng.memories.get(result)


#: Each puts copies into the columns that are declared to hold them, and returns how to forget the original.
COPIED = {**FILLED, "sources": put_sources, "merged": put_merged}
#: The declaration of columns that hold no copies.
WITHOUT_COPIES = {"none", "itself"}


def copied() -> dict[tuple[str, str], set[str]]:
    return {(table, column): set(ways.split(", ")) for table, named in COPIES.items() for column, ways in named.items()}


@pytest.mark.requirement("FORGET-19")
def test_every_text_column_says_whether_engram_copies_into_it() -> None:
    assert copied().keys() == claims().keys()
    assert set().union(*copied().values()) - WITHOUT_COPIES <= COPIED.keys()


@pytest.mark.requirement("FORGET-19")
@pytest.mark.parametrize("way", sorted(set().union(*copied().values()) - WITHOUT_COPIES))
def test_a_copy_is_forgotten_with_its_original(store_url: str, eng: Engram, way: str) -> None:
    chosen, needles = COPIED[way](eng)
    assert needles.keys() == {place for place, ways in copied().items() if way in ways}
    for (table, column), word in needles.items():
        assert any(word in value for value in values(store_url, table, column)), f"{word} is not in {table}.{column}"
    eng.forget(**chosen)
    for (table, column), word in needles.items():
        assert [value for value in values(store_url, table, column) if word in value] == []


@pytest.mark.requirement("FORGET-19")
def test_a_merged_memory_keeps_the_labels_of_its_remaining_sources(eng: Engram) -> None:
    put_merged(eng)
    gone, kept, one = sorted([*eng.memories.list(), *eng.memories.list(status="superseded")], key=lambda each: each.id)
    eng.memories.update(one.id, tags=[*one.tags, "added later"])
    eng.forget(memory=gone.id)
    left = eng.memories.get(one.id)
    assert (left.content, left.key, left.tags) == ("The lift is broken.", None, ("added later", "both", "kept"))
    assert left.data == {"merged": {str(kept.id): {"b": "kept"}}}


@pytest.mark.requirement("FORGET-19")
def test_given_labels_stay_when_a_source_with_the_same_labels_is_forgotten(eng: Engram) -> None:
    labels: dict[str, Any] = {"key": "lift", "tags": ["house"], "data": {"a": 1}}
    first = eng.remember("The lift is broken.", **labels)
    other = eng.exchanges.add(eng.sessions.register("codex", "work"), "user", "It was mended.")
    second = eng.remember("It was mended.", sources=[("memory", first.id), ("exchange", other)], **labels)
    eng.forget(memory=first.id)
    left = eng.memories.get(second.id)
    assert (left.content, left.key, left.tags, left.data) == ("It was mended.", "lift", ("house",), {"a": 1})


@pytest.mark.requirement("FORGET-15")
def test_a_waiting_claim_is_forgotten_with_its_session(store_url: str, eng: Engram, clock: Interrupting) -> None:
    holder, waiter = eng.sessions.register("codex", "first"), eng.sessions.register("codex", "second")
    eng.leases.claim(holder, "shop:**", exclusive=True)
    queues: list[list[str]] = []

    def forget_it() -> None:
        queues.append(values(store_url, *WAITERS))
        if len(queues) == 1:
            eng.forget(session=waiter)
            queues.append(values(store_url, *WAITERS))

    clock.meanwhile = forget_it
    with pytest.raises(SessionNotFound):
        eng.leases.claim(waiter, "shop:qwaitq", exclusive=True, wait=60)
    assert queues == [["shop:qwaitq"], []]


@pytest.mark.requirement("FORGET-15")
def test_every_declared_way_of_forgetting_has_a_test() -> None:
    assert set().union(*claims().values()) == FILLED.keys()
