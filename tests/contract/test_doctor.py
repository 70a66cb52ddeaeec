"""`eng.doctor`: each fault that is planted in a store is found, and mended if that is promised."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from engram import Engram, Finding, InvalidInput
from engram.errors import StoreError
from engram.health_records import Check, examine, fine
from engram.storage import migrate, sqlite_health
from engram.store_url import split_schema
from tests._logical import logical
from tests._tables import dump, run
from tests.conftest import ShiftedClock

#: No fix ever changes these.
PROTECTED = (
    *("exchanges", "sessions", "memories", "memory_versions", "memory_states", "blocks", "block_versions", "messages"),
    *("deliveries", "sources", "dreams", "journal", "gists", "folds", "receipts", "imports", "rebuilds", "usage"),
    *("proposals", "models", "migrations"),
)

_LAST_TURN = "(SELECT MAX(id) FROM exchanges WHERE role <> 'log')"
_OF_LAST_TURN = f"(SELECT id FROM items WHERE kind = 'exchange' AND ref = {_LAST_TURN})"
_OF_MEMORY = "(SELECT id FROM items WHERE kind = 'memory' AND ref = (SELECT MAX(id) FROM memories WHERE kind = 'fact'))"
_FACT = "(SELECT MAX(id) FROM memories WHERE kind = 'fact')"
_PREFERENCE = "(SELECT MAX(id) FROM memories WHERE kind = 'preference')"
_CODEX = "session_id IN (SELECT id FROM sessions WHERE type = 'codex')"
_PLAN = "(SELECT id FROM blocks WHERE name = 'plan')"
_LATE = "'2999-01-01T00:00:00.000000Z'"
_EARLY = "'2020-01-01T00:00:00.000000Z'"


class Fault(NamedTuple):
    """A fault, planted by statements, and the finding that it must cause."""

    name: str
    plant: tuple[str, ...]
    #: Whether `--fix` mends it. Otherwise these statements take it away again.
    mended: bool = True
    remove: tuple[str, ...] = ()
    state: str = "wrong"
    full: bool = False
    #: What the fix changes of `PROTECTED`: a counter, and nothing that was said.
    changes: tuple[str, ...] = ()


def without(items: str) -> tuple[str, ...]:
    return (
        f"DELETE FROM postings WHERE item IN {items}",
        f"DELETE FROM vectors WHERE item IN {items}",
        f"DELETE FROM items WHERE id IN {items}",
    )


FAULTS = (
    Fault("index.turns", without(_OF_LAST_TURN)),
    Fault("index.counts", without(_OF_LAST_TURN)),
    Fault("index.memories", without(_OF_MEMORY)),
    Fault(
        "index.items",
        (
            "INSERT INTO items (workspace, shelf, kind, ref, piece, label, at, length, terms) "
            f"VALUES ('default', 'turns', 'exchange', 999999, 0, 'user', {_EARLY}, 0, {{empty}})",
        ),
    ),
    Fault("index.words", (f"DELETE FROM postings WHERE item IN {_OF_LAST_TURN}",)),
    Fault("index.words", (f"DELETE FROM postings WHERE item IN {_OF_MEMORY}",), full=True),
    Fault("index.words", (f"UPDATE postings SET tf = tf + 1 WHERE item IN {_OF_LAST_TURN}",)),
    Fault("index.words", (f"UPDATE items SET length = length + 1 WHERE id IN {_OF_MEMORY}",), full=True),
    Fault("index.words", (f"UPDATE items SET terms = {{odd}} WHERE id IN {_OF_LAST_TURN}",)),
    Fault("index.words", (f"UPDATE items SET terms = {{odd}} WHERE id IN {_OF_MEMORY}",), full=True),
    Fault("index.places", (f"UPDATE items SET at = 'garbage' WHERE id IN {_OF_LAST_TURN}",)),
    Fault("index.places", (f"UPDATE items SET at = 'garbage' WHERE id IN {_OF_MEMORY}",)),
    *(
        Fault("index.places", (f"UPDATE items SET {wrong} WHERE id IN {of}",), full=True)
        for of in (_OF_LAST_TURN, _OF_MEMORY)
        for wrong in (f"at = {_EARLY}", "session_id = 'ghost'", "label = 'ghost'", "turn = 77", "author = 'ghost'")
    ),
    Fault("index.places", (f"UPDATE items SET project = 'ghost' WHERE id IN {_OF_MEMORY}",), full=True),
    Fault("index.workspaces", (f"UPDATE items SET workspace = 'ghost' WHERE id IN {_OF_LAST_TURN}",)),
    Fault("index.workspaces", (f"UPDATE items SET workspace = 'ghost' WHERE id IN {_OF_MEMORY}",)),
    Fault("index.words", ("UPDATE terms SET term = 'zz' || term WHERE shelf = 'turns' AND term = 'router'",)),
    Fault("index.words", ("INSERT INTO postings (term, item, tf, length) SELECT MIN(id), 999999, 1, 1 FROM terms",)),
    Fault(
        "index.counts",
        (
            "UPDATE shelves SET items = items + 5, length = length + 9 WHERE shelf = "
            "(SELECT MIN(shelf) FROM shelves WHERE workspace = 'default') AND workspace = 'default'",
        ),
    ),
    Fault(
        "vectors.items",
        ("INSERT INTO vectors (item, model, vector) SELECT 999999, model, vector FROM vectors LIMIT 1",),
    ),
    Fault("vectors.items", (f"UPDATE vectors SET vector = {{odd}} WHERE item IN {_OF_LAST_TURN}",)),
    Fault("vectors.missing", (f"DELETE FROM vectors WHERE item IN {_OF_LAST_TURN}",)),
    Fault(
        "vectors.model",
        ("INSERT INTO vectors (item, model, vector) SELECT item, 'other:model', vector FROM vectors LIMIT 1",),
        mended=False,
        remove=("DELETE FROM vectors WHERE model = 'other:model'",),
        state="note",
    ),
    Fault(
        "queue.taken",
        (
            "INSERT INTO backlog (workspace, kind, ref, taken_until, indexed, words_due) "
            f"SELECT 'default', 'exchange', {_LAST_TURN}, {_LATE}, 1, 0",
        ),
    ),
    Fault(
        "queue.things",
        (
            "INSERT INTO backlog (workspace, kind, ref, taken_until, indexed, words_due) "
            "VALUES ('default', 'exchange', 999999, '0000', 1, 0)",
        ),
        state="note",
    ),
    Fault(
        "model.usable",
        ("UPDATE models SET model = 'minilm:all-MiniLM-L6-v2' WHERE workspace = 'default'",),
        mended=False,
        remove=("UPDATE models SET model = (SELECT MIN(model) FROM vectors) WHERE workspace = 'default'",),
    ),
    Fault("memories.tags", ("INSERT INTO memory_tags (workspace, tag, memory_id) VALUES ('default', 'lost', 999999)",)),
    Fault("memories.tags", ("UPDATE memory_tags SET workspace = 'ghost' WHERE tag = 'deploy'",)),
    Fault(
        "memories.superseded",
        (
            f"UPDATE memories SET superseded_by = {_PREFERENCE} WHERE id = {_FACT}",
            f"UPDATE memories SET superseded_by = {_FACT} WHERE id = {_PREFERENCE}",
        ),
        mended=False,
        remove=(f"UPDATE memories SET superseded_by = NULL WHERE id IN ({_FACT}, {_PREFERENCE})",),
    ),
    Fault(
        "memories.times",
        ("UPDATE memories SET created_at = 'yesterday' WHERE kind = 'fact'",),
        mended=False,
        remove=(
            "UPDATE memories SET created_at = (SELECT v.created_at FROM memory_versions v "
            "WHERE v.memory_id = memories.id AND v.version = 1) WHERE kind = 'fact'",
        ),
    ),
    Fault(
        "memories.links",
        (
            "INSERT INTO memory_links (workspace, from_id, to_id, relation, created_at) "
            f"SELECT 'default', MIN(id), 999999, 'related', {_EARLY} FROM memories",
        ),
    ),
    Fault(
        "memories.versions",
        ("UPDATE memories SET version = version + 7 WHERE kind = 'fact'",),
        mended=False,
        remove=("UPDATE memories SET version = version - 7 WHERE kind = 'fact'",),
    ),
    Fault(
        "memories.versions",
        ("UPDATE memories SET content = content || '!' WHERE kind = 'fact'",),
        mended=False,
        remove=("UPDATE memories SET content = SUBSTR(content, 1, LENGTH(content) - 1) WHERE kind = 'fact'",),
    ),
    Fault(
        "memories.sources",
        ("INSERT INTO sources VALUES ('default', 'memory', 999999, 1, 'exchange', 999998)",),
        mended=False,
        remove=("DELETE FROM sources WHERE derived_id = 999999",),
        state="note",
    ),
    Fault(
        "blocks.versions",
        ("UPDATE blocks SET content = content || '!' WHERE name = 'plan'",),
        mended=False,
        remove=("UPDATE blocks SET content = 'two' WHERE name = 'plan'",),
    ),
    Fault(
        "blocks.versions",
        (f"UPDATE block_versions SET version = 77 WHERE block_id = {_PLAN} AND version = 1",),
        mended=False,
        remove=(f"UPDATE block_versions SET version = 1 WHERE block_id = {_PLAN} AND version = 77",),
    ),
    Fault(
        "blocks.versions",
        (f"UPDATE block_versions SET block_id = 999999 WHERE block_id = {_PLAN} AND version = 1",),
        mended=False,
        remove=(f"UPDATE block_versions SET block_id = {_PLAN} WHERE block_id = 999999",),
    ),
    Fault(
        "leases.ended",
        ("UPDATE sessions SET status = 'abandoned' WHERE type = 'codex'",),
        remove=(
            "UPDATE sessions SET status = 'active' WHERE type = 'codex'",
            f"UPDATE leases SET ended_at = NULL, ended_because = NULL WHERE {_CODEX}",
        ),
    ),
    Fault(
        "leases.expired",
        (f"UPDATE leases SET expires_at = {_EARLY} WHERE {_CODEX}",),
        remove=(f"UPDATE leases SET ended_at = NULL, ended_because = NULL, expires_at = {_LATE} WHERE {_CODEX}",),
        state="note",
    ),
    Fault(
        "leases.times",
        (f"UPDATE leases SET expires_at = 'zz' WHERE {_CODEX}",),
        mended=False,
        remove=(f"UPDATE leases SET expires_at = {_LATE} WHERE {_CODEX}",),
    ),
    Fault(
        "sessions.times",
        ("UPDATE sessions SET heartbeat_at = 'zz' WHERE type = 'codex'",),
        changes=("sessions",),
    ),
    Fault(
        "sessions.times",
        ("UPDATE sessions SET ended_at = 'zz' WHERE type = 'codex'",),
        mended=False,
        remove=("UPDATE sessions SET ended_at = NULL WHERE type = 'codex'",),
    ),
    Fault(
        "sessions.numbers",
        ("UPDATE sessions SET last_seq = 0 WHERE type = 'codex'",),
        changes=("sessions",),
    ),
    Fault(
        "sessions.silent",
        (f"UPDATE sessions SET heartbeat_at = {_EARLY} WHERE type = 'codex'",),
        mended=False,
        remove=("UPDATE sessions SET heartbeat_at = created_at WHERE type = 'codex'",),
        state="note",
    ),
    Fault(
        "sessions.turns",
        ("UPDATE sessions SET turns = turns + 3 WHERE type = 'codex'",),
        mended=False,
        remove=("UPDATE sessions SET turns = turns - 3 WHERE type = 'codex'",),
        state="note",
        full=True,
    ),
    Fault(
        "dreams.stuck",
        (f"INSERT INTO dream_retries VALUES ('default', 'eras', 3, 5, 'the model did not answer', {_LATE})",),
        mended=False,
        remove=("DELETE FROM dream_retries",),
    ),
    Fault(
        "dreams.unfinished",
        (f"INSERT INTO dreams (workspace, session_id, started_at, report) VALUES ('default', 'x', {_EARLY}, '{{}}')",),
        mended=False,
        remove=("DELETE FROM dreams WHERE session_id = 'x'",),
        state="note",
    ),
    Fault(
        "dreams.journal",
        ("UPDATE dreams SET undone_by = id WHERE id = (SELECT MAX(id) FROM dreams)",),
        mended=False,
        remove=("UPDATE dreams SET undone_by = NULL",),
    ),
    Fault(
        "store.schema",
        ("UPDATE migrations SET hash = 'x' || hash WHERE number = 3",),
        mended=False,
        remove=("UPDATE migrations SET hash = SUBSTR(hash, 2) WHERE number = 3",),
    ),
    Fault(
        "store.clock",
        (f"UPDATE sessions SET heartbeat_at = {_LATE} WHERE type = 'codex'",),
        mended=False,
        remove=("UPDATE sessions SET heartbeat_at = created_at WHERE type = 'codex'",),
    ),
)


def plant(url: str, statements: tuple[str, ...]) -> None:
    """As another program would: SQLite's shell checks no reference, nor does a superuser of PostgreSQL who says so."""
    on_server = url.startswith("postgresql:")
    for statement in statements:
        # Not `format`: a statement may hold JSON.
        text = statement.replace("{empty}", "''::bytea" if on_server else "X''")
        text = text.replace("{odd}", "'\\xfffe'::bytea" if on_server else "X'fffe'")
        refers_to_nothing = on_server and "999999" in text
        # Local: behind a connection pooler it would stay for other tests.
        run(url, f"SET LOCAL session_replication_role = replica; {text}" if refers_to_nothing else text)


def found(eng: Engram, name: str, **options: bool) -> Finding:
    (finding,) = [each for each in eng.doctor(**options) if each.name == name]
    return finding


@pytest.fixture
def full(eng: Engram) -> Engram:
    """A store with something of everything that the checks look at."""
    sid = eng.sessions.register("codex", "Porting the router")
    other = eng.sessions.register("claude-code", "Adding limits")
    for number in range(6):
        eng.exchanges.add(sid, ("user", "assistant")[number % 2], f"The router number {number} is in src/router.py")
    eng.sessions.log(sid, "router done")
    eng.leases.claim(sid, "port:8080", exclusive=True, ttl=100_000)
    eng.leases.claim(other, "src/limits.py")
    first = eng.remember("Deploys never happen on Fridays", kind="preference", tags=["deploy"])
    second = eng.remember("The router is in src/router.py", kind="fact")
    eng.memories.link(first.id, second.id, "related")
    eng.blocks.create("plan", "one")
    eng.blocks.update("plan", "two")
    eng.messages.send(None, sid, "hello")
    eng.dream(force=True)
    eng.embedding_queue.work()
    return eng


@pytest.mark.requirement("DOCTOR-3")
def test_a_sound_store_has_nothing_wrong_and_stays_as_it_is(full: Engram, store_url: str) -> None:
    before = dump(store_url)
    for options in ({}, {"full": True}, {"fix": True, "full": True}, {"all_workspaces": True}):
        findings = full.doctor(**options)
        # A server without pgvector is slower, and a note says so: `make test-icu` has one.
        assert {each.name for each in findings if each.state != "ok"} <= {"store.backups", "store.vectors"}, options
        assert {each.state for each in findings} <= {"ok", "note"}, options
        assert not [each for each in findings if each.mended]
    assert dump(store_url) == before


@pytest.mark.requirement("DOCTOR-1", "DOCTOR-2")
def test_each_planted_fault_is_found_and_mended_as_promised_and_nothing_else_changes(
    full: Engram, store_url: str
) -> None:
    for number, fault in enumerate(FAULTS):
        which = f"{number} {fault.name}"
        healthy = logical(full)
        plant(store_url, fault.plant)
        planted = dump(store_url)
        finding = found(full, fault.name, full=fault.full)
        assert (finding.state, finding.mends) == (fault.state, fault.mended), f"{which}: {finding}"
        assert finding.means and finding.fix and finding.number, which
        assert dump(store_url) == planted, f"{which}: looking changed something"
        fixed = found(full, fault.name, full=fault.full, fix=True)
        after = dump(store_url)
        kept = [name for name in PROTECTED if name not in fault.changes]
        assert {name: after[name] for name in kept} == {name: planted[name] for name in kept}, which
        if fault.mended:
            assert (fixed.state, bool(fixed.mended)) == ("ok", True), f"{which}: {fixed}"
        else:
            assert fixed.state == fault.state, which
            assert after["leases"] == planted["leases"], which
        plant(store_url, fault.remove)
        full.embedding_queue.work()
        assert logical(full) == healthy, which
        assert found(full, fault.name, full=True).state == "ok", which


@pytest.mark.requirement("DOCTOR-1")
def test_a_value_that_breaks_a_check_is_a_finding_and_the_other_checks_go_on(full: Engram, store_url: str) -> None:
    every = {each.name for each in full.doctor(full=True)}
    plant(
        store_url,
        (
            "UPDATE sessions SET heartbeat_at = 'x' WHERE type = 'codex'",
            "INSERT INTO dreams (workspace, session_id, started_at, report) VALUES ('default', 'x', 'x', '{}')",
        ),
    )
    findings = full.doctor(full=True)
    assert not [each for each in findings if "Error" in each.found]
    assert {each.name for each in findings} == every


@pytest.mark.requirement("DOCTOR-1")
def test_a_check_that_fails_says_so_in_words_and_the_others_go_on() -> None:
    def fails() -> Finding:
        raise ValueError("Invalid isoformat string: 'x'")

    broken, other = examine([Check("one", fails), Check("two", lambda: fine("two", "Well."))])
    assert (broken.state, other.state) == ("wrong", "ok")
    assert broken.found == "It could not be checked: a value in the store has another form than Engram writes."
    assert broken.means and "engram restore" in broken.fix


@pytest.mark.requirement("DOCTOR-1")
def test_a_time_that_is_no_time_is_told_as_that_and_not_as_a_wrong_clock(full: Engram, store_url: str) -> None:
    plant(store_url, ("UPDATE sessions SET heartbeat_at = 'zz' WHERE type = 'codex'",))
    finding = found(full, "store.clock")
    assert finding.state == "wrong" and "'zz', which is no time" in finding.found and "clock" not in finding.fix
    (session,) = [each for each in full.sessions.list() if each.type == "codex"]
    assert session.id in found(full, "sessions.times").found
    full.sitrep()
    assert {each.name for each in full.doctor(fix=True) if each.state == "wrong"} == set()
    full.sitrep()


@pytest.mark.requirement("DOCTOR-1")
def test_what_depends_on_time_and_settings_is_found(
    open_store: Callable[..., Engram], full: Engram, clock: ShiftedClock
) -> None:
    assert found(open_store(llm="codex", codex_program="/nowhere/codex"), "dreams.thinker").state == "wrong"
    assert found(full, "queue.waiting").state == "ok"
    with_words = open_store(embedder="none")
    sid = with_words.sessions.register("codex", "Working")
    with_words.exchanges.add(sid, "user", "This waits for a model")
    clock.advance(3 * 86_400)
    assert found(with_words, "queue.waiting").state == "ok"
    assert found(full, "queue.waiting").state == "note"
    assert found(open_store(auto_dream="on"), "dreams.last").state == "note"


@pytest.mark.requirement("DOCTOR-1", "DOCTOR-2")
def test_a_text_that_another_program_changed_is_indexed_anew(full: Engram, store_url: str) -> None:
    long = full.exchanges.add(full.sessions.register("codex", "Long"), "user", "The lighthouse stands alone. " * 200)
    memory = full.remember("Tea is served at five", kind="fact")
    plant(
        store_url,
        (
            f"UPDATE exchanges SET content = content || ' Its keeper was Zephyrine.' WHERE id = {long}",
            f"UPDATE memories SET content = 'Coffee is served at nine' WHERE id = {memory.id}",
        ),
    )
    assert found(full, "index.words", full=True).number == 2
    assert found(full, "memories.versions").number == 1
    assert found(full, "index.words", full=True, fix=True).mended == 2
    assert "Zephyrine" in full.recall("Zephyrine keeper")[0].text
    # A piece of a long text is missing, and the rest is right.
    piece = f"(SELECT id FROM items WHERE kind = 'exchange' AND ref = {long} AND piece = 2)"
    plant(store_url, without(piece))
    assert found(full, "index.words", full=True).number == 1
    assert found(full, "index.words", full=True, fix=True).state == "ok"


@pytest.mark.requirement("DOCTOR-2")
def test_a_fix_is_seen_by_the_checks_before_it(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        eng.remember("Tea is served at five")
        plant(sqlite_url, ("INSERT INTO vectors (item, model, vector) SELECT 999999, model, vector FROM vectors",))
        assert found(eng, "store.references").state == "wrong"
        assert not [each for each in eng.doctor(fix=True) if each.state == "wrong"]


@pytest.mark.requirement("DOCTOR-1")
@pytest.mark.parametrize(
    "what",
    ["TABLE memory_states", "TABLE terms", "TABLE access_tokens", "INDEX memories_by_key", "INDEX sessions_by_time"],
)
def test_a_part_of_the_schema_that_is_missing_is_named(full: Engram, store_url: str, what: str) -> None:
    plant(store_url, ("CREATE TABLE mine (id INTEGER PRIMARY KEY)", "CREATE INDEX mine_too ON sessions (type)"))
    assert found(full, "store.schema").state == "ok"
    plant(store_url, (f"DROP {what}",))
    finding = found(full, "store.schema")
    assert finding.state == "wrong" and what.lower() in finding.found.lower(), finding
    assert "engram restore" in finding.fix


@pytest.mark.requirement("DOCTOR-1")
@pytest.mark.parametrize(
    ("trigger", "table"), [("receipts_forget_answers", "receipts"), ("exchanges_take_copies", "exchanges")]
)
def test_a_trigger_of_the_schema_that_is_missing_is_named(
    full: Engram, store_url: str, trigger: str, table: str
) -> None:
    on_server = store_url.startswith("postgresql:")
    plant(store_url, (f"DROP TRIGGER {trigger} ON {table}" if on_server else f"DROP TRIGGER {trigger}",))
    assert f"trigger {trigger}" in found(full, "store.schema").found


@pytest.mark.requirement("DOCTOR-1")
def test_what_switches_off_a_rule_of_a_schema_on_postgresql_is_named(postgres_url: str) -> None:
    with Engram(postgres_url) as eng:
        assert found(eng, "store.schema").state == "ok"
        for statement in (
            "ALTER TABLE receipts DISABLE TRIGGER receipts_forget_answers",
            "DROP FUNCTION take_copies() CASCADE",
            "ALTER TABLE blocks DROP CONSTRAINT blocks_workspace_name_key",
        ):
            plant(postgres_url, (statement,))
        lost = found(eng, "store.schema")
        assert lost.number == 4 and "trigger exchanges_take_copies" in lost.found, lost


@pytest.mark.requirement("DOCTOR-1")
def test_every_part_of_the_schema_on_postgresql_is_read_from_the_migrations(postgres_url: str) -> None:
    from engram.storage import migrate, postgres_health

    made = postgres_health.made_by(each.sql for each in migrate.shipped("postgres"))
    with Engram(postgres_url) as eng, eng._view.engine.read() as tx:
        there = set(tx.all(postgres_health._OBJECTS, schema=split_schema(postgres_url)[1]))
    # The table `closeness` belongs to pgvector, which a server need not have.
    assert {each for each in there if "closeness" not in each[1] and each[1] != "halfvec_of"} == made


@pytest.mark.requirement("DOCTOR-1")
def test_a_text_that_is_not_utf_8_is_named(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        eng.sessions.register("codex", "One")
        memory = eng.remember("Deploys never happen on Fridays")
        assert found(eng, "store.texts", full=True).state == "ok"
        run(sqlite_url, "UPDATE memories SET content = CAST(x'fffe41' AS TEXT)")
        run(sqlite_url, "UPDATE sessions SET summary = CAST(x'41c3' AS TEXT)")
        run(sqlite_url, "CREATE TABLE mine (note TEXT)")
        run(sqlite_url, "INSERT INTO mine VALUES (CAST(x'ff' AS TEXT))")
        finding = found(eng, "store.texts", full=True)
        assert (finding.state, finding.number) == ("wrong", 2)
        assert f"memories.content (id {memory.id})" in finding.found, finding
        assert "sessions.summary (workspace default, id " in finding.found, finding
        assert f"engram forget --memory {memory.id} " in finding.fix
        eng.forget(memory=memory.id)
        assert found(eng, "store.texts", full=True).number == 1


@pytest.mark.requirement("DOCTOR-2")
def test_what_has_a_damaged_list_of_words_can_be_edited_and_forgotten(eng: Engram, store_url: str) -> None:
    kept, gone = eng.remember("Zebras graze at dawn"), eng.remember("Quokkas smile at dusk")
    plant(store_url, ("UPDATE items SET terms = {odd}",))
    eng.memories.update(kept.id, "Giraffes graze at noon")
    assert eng.recall("giraffes")[0].memory_id == kept.id
    eng.forget(memory=gone.id)
    terms = {row[-1] for row in dump(store_url)["terms"]}
    assert not {term for term in terms if "quokka" in str(term) or "zebra" in str(term)}, terms
    assert [each for each in eng.doctor(full=True) if each.state == "wrong"] == []


@pytest.mark.requirement("DOCTOR-1", "DOCTOR-2")
def test_a_text_that_is_not_utf_8_does_not_keep_the_words_of_others_from_being_mended(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        sid = eng.sessions.register("codex", "One")
        broken, other = (eng.exchanges.add(sid, "user", text) for text in ("Zebras graze", "Quokkas smile at dusk"))
        run(sqlite_url, f"UPDATE exchanges SET content = CAST(x'ff41fe' AS TEXT) WHERE id = {broken}")
        for full in (False, True):
            assert found(eng, "index.words", full=full).state == "ok"
        of_other = f"(SELECT id FROM items WHERE ref = {other})"
        run(sqlite_url, f"UPDATE postings SET tf = tf + 1 WHERE item = {of_other}")
        for full in (False, True):
            assert found(eng, "index.words", full=full).number == 1
        fixed = found(eng, "index.words", full=True, fix=True)
        assert (fixed.state, fixed.mended) == ("ok", 1)
        assert found(eng, "store.texts", full=True).number == 1


@pytest.mark.requirement("DOCTOR-1", "DOCTOR-2")
def test_a_text_in_the_word_index_of_another_workspace_comes_back(eng: Engram, store_url: str) -> None:
    elsewhere = eng.workspace("a")  # its checks come first
    elsewhere.remember("Tea at five")
    memory = eng.remember("Zebras graze at dawn")
    plant(store_url, (f"UPDATE items SET workspace = 'a' WHERE ref = {memory.id}",))
    assert [each.workspace for each in eng.doctor(all_workspaces=True) if each.name == "index.workspaces"] == [
        "a",
        "default",
    ]
    found_wrong = {(each.name, each.workspace) for each in eng.doctor(all_workspaces=True) if each.state == "wrong"}
    assert ("index.workspaces", "default") in found_wrong
    after = eng.doctor(all_workspaces=True, fix=True)
    assert [each for each in after if each.state == "wrong"] == []
    assert eng.recall("zebras")[0].memory_id == memory.id
    assert "Zebras" not in str(elsewhere.recall("zebras"))


@pytest.mark.requirement("DOCTOR-1", "DOCTOR-2")
@pytest.mark.parametrize("statement", ["UPDATE sqlite_sequence SET seq = 0", "DELETE FROM sqlite_sequence"])
def test_a_counter_of_numbers_that_is_behind_is_raised(sqlite_url: str, statement: str) -> None:
    with Engram(sqlite_url) as eng:
        eng.remember("Tea is served at five")
        last = eng.remember("Coffee is served at nine").id
        assert found(eng, "store.numbers").state == "ok"
        plant(sqlite_url, (statement,))
        finding = found(eng, "store.numbers")
        assert (finding.state, finding.mends) == ("wrong", True) and "memories" in finding.found
        fixed = found(eng, "store.numbers", fix=True)
        assert (fixed.state, fixed.mended) == ("ok", finding.number)
        eng.forget(memory=last)
        assert eng.remember("Cocoa is served at ten").id == last + 1


@pytest.mark.requirement("DOCTOR-1")
def test_numbers_that_leave_no_room_are_found(full: Engram, store_url: str) -> None:
    largest = 2**63 - 2
    if store_url.startswith("postgresql:"):
        planted = f"SELECT setval(pg_get_serial_sequence('changes', 'number'), {largest})"
    else:
        planted = f"UPDATE changes SET number = {largest} WHERE number = (SELECT MAX(number) FROM changes)"
    plant(store_url, (planted,))
    finding = found(full, "store.numbers")
    assert (finding.state, finding.mends) == ("wrong", False) and "changes" in finding.found, finding
    assert finding.means and "engram restore" in finding.fix
    assert found(full, "store.numbers", fix=True).state == "wrong"


@pytest.mark.requirement("DOCTOR-1")
def test_the_end_of_the_numbers_is_not_told_as_a_full_disk(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        eng.remember("Tea is served at five")
        plant(sqlite_url, (f"UPDATE sqlite_sequence SET seq = {2**63 - 1} WHERE name = 'changes'",))
        with pytest.raises(StoreError, match="its table changes has given the last number") as met:
            eng.remember("Coffee is served at nine")
        assert "disk" not in str(met.value)
        assert found(eng, "store.numbers").state == "wrong"


@pytest.mark.requirement("DOCTOR-1")
@pytest.mark.parametrize(
    ("statements", "said", "todo"),
    [
        (
            ("CREATE TRIGGER evil AFTER INSERT ON memories BEGIN DELETE FROM memories; END",),
            "trigger evil on memories is not Engram's",
            'DROP TRIGGER "evil"',
        ),
        (
            ("DROP INDEX memories_by_hash", "CREATE INDEX memories_by_hash ON memories (id)"),
            "index memories_by_hash is not what Engram has made",
            "engram restore FILE",
        ),
        (
            (
                "DROP TRIGGER exchanges_take_copies",
                "CREATE TRIGGER exchanges_take_copies AFTER INSERT ON exchanges BEGIN SELECT 1; END",
            ),
            "trigger exchanges_take_copies is not what Engram has made",
            "engram restore FILE",
        ),
    ],
)
def test_a_part_of_the_schema_that_another_program_changed_is_named(
    sqlite_url: str, statements: tuple[str, ...], said: str, todo: str
) -> None:
    with Engram(sqlite_url) as eng:
        mine = ("CREATE TABLE mine (id INTEGER)", "CREATE TRIGGER own AFTER INSERT ON mine BEGIN SELECT 1; END")
        plant(sqlite_url, mine)
        assert found(eng, "store.schema").state == "ok"
        plant(sqlite_url, statements)
        finding = found(eng, "store.schema")
        assert finding.state == "wrong" and said in finding.found and todo in finding.fix, finding


@pytest.mark.requirement("DOCTOR-1")
def test_the_record_of_an_earlier_migration_that_is_missing_is_told(full: Engram, store_url: str) -> None:
    plant(store_url, ("DELETE FROM migrations WHERE number = 18",))
    finding = found(full, "store.schema")
    assert finding.state == "wrong" and "engram restore" in finding.fix
    assert "record of migration 18 is missing, although migration " in finding.found


@pytest.mark.requirement("DOCTOR-1")
def test_the_record_of_the_last_migration_that_is_missing_is_told_and_not_as_an_upgrade(
    full: Engram, store_url: str
) -> None:
    last = max(each.number for each in migrate.shipped("sqlite"))
    plant(store_url, (f"DELETE FROM migrations WHERE number = {last}",))
    finding = found(full, "store.schema")
    assert finding.state == "wrong" and "engram restore" in finding.fix, finding
    assert "the schema has what a later one makes: index " in finding.found


@pytest.mark.requirement("DOCTOR-1")
def test_an_upgrade_that_fails_leaves_no_copy(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        eng.remember("Tea is served at five")
    plant(sqlite_url, ("DELETE FROM migrations WHERE number = 20",))
    beside = sorted(Path(sqlite_url).parent.iterdir())
    for _ in range(2):
        with pytest.raises(StoreError, match=r"already exists.*`engram doctor` says more"):
            Engram(sqlite_url)
    assert sorted(each for each in Path(sqlite_url).parent.iterdir() if "-" not in each.suffix) == [
        each for each in beside if "-" not in each.suffix
    ]


@pytest.mark.requirement("DOCTOR-3")
def test_what_is_fine_is_told_without_stamps_and_counters(full: Engram) -> None:
    told = found(full, "store.clock").found
    assert re.fullmatch(r"Something was written last at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.", told), told
    assert "shelf" not in found(full, "index.counts").found


@pytest.mark.requirement("DOCTOR-1")
def test_without_pgvector_the_doctor_names_the_script_of_the_team(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engram(postgres_url) as eng:
        # What the engine finds on a server without it.
        monkeypatch.setattr(eng._view.engine, "_vectors", None)
        assert "deployment/roles.sql" in found(eng, "store.vectors").fix


@pytest.mark.requirement("DOCTOR-2")
def test_nothing_in_a_damaged_file_is_mended(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        sid = eng.sessions.register("codex", "One")
        eng.leases.claim(sid, "port:8080", exclusive=True)
        plant(
            sqlite_url,
            (
                "INSERT INTO memory_tags (workspace, tag, memory_id) VALUES ('default', 'lost', 999999)",
                "PRAGMA ignore_check_constraints = on; UPDATE leases SET exclusive = 7",
            ),
        )
        Path(sqlite_url).chmod(0o644)
        before = dump(sqlite_url)
        findings = {each.name: each for each in eng.doctor(fix=True)}
        assert dump(sqlite_url) == before
        assert findings["store.integrity"].state == "wrong"
        tags = findings["memories.tags"]
        assert (tags.state, tags.mends, tags.mended) == ("wrong", False, None)
        assert "not mended while the file is damaged" in tags.found
        # Rights are not in the file.
        assert findings["store.permissions"].mended == 1


@pytest.mark.requirement("DOCTOR-2")
def test_a_fault_in_another_workspace_is_found_only_if_all_are_asked_for(full: Engram, store_url: str) -> None:
    elsewhere = full.workspace("other")
    elsewhere.remember("Tea at five")
    statement = "DELETE FROM vectors WHERE item IN (SELECT id FROM items WHERE workspace = 'other')"
    plant(store_url, (statement,))
    assert found(full, "vectors.missing").state == "ok"
    (wrong,) = [each for each in full.doctor(all_workspaces=True) if each.state == "wrong"]
    assert (wrong.name, wrong.workspace) == ("vectors.missing", "other")
    full.doctor(all_workspaces=True, fix=True)
    assert elsewhere.embedding_queue.work() == 1


@pytest.mark.requirement("DOCTOR-2")
def test_inside_a_transaction_nothing_is_examined(full: Engram) -> None:
    with full.write(), pytest.raises(InvalidInput, match="outside of write"):
        full.doctor()


@pytest.mark.requirement("DOCTOR-1")
def test_an_index_that_was_not_finished_is_found_on_postgresql(postgres_url: str) -> None:
    address, schema = split_schema(postgres_url)
    with Engram(postgres_url) as eng, psycopg.connect(address, autocommit=True) as server:
        server.execute(f"CREATE INDEX broken ON {schema}.sessions (type)".encode())
        server.execute(
            f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{schema}.broken'::regclass".encode()
        )
        assert found(eng, "store.integrity").state == "wrong"
        server.execute(f"DROP INDEX {schema}.broken".encode())
        assert found(eng, "store.integrity").state == "ok"


@pytest.mark.requirement("DOCTOR-1", "DOCTOR-2")
def test_limits_of_a_file_are_told_and_the_log_is_emptied(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engram(sqlite_url) as eng:
        for number in range(30):
            eng.blocks.create(f"block-{number}", "x" * 5_000)
        Path(sqlite_url).parent.chmod(0o777)
        assert found(eng, "store.folder").state == "wrong"
        assert found(eng, "store.folder", fix=True).mended == 1
        assert Path(sqlite_url).parent.stat().st_mode & 0o777 == 0o755
        monkeypatch.setattr(sqlite_health, "LARGE_LOG", 1)
        assert found(eng, "store.log").state == "note"
        fixed = found(eng, "store.log", fix=True)
        assert (fixed.state, fixed.mended, Path(f"{sqlite_url}-wal").stat().st_size) == ("ok", 1, 0)
        for statement in ("CREATE TABLE filler AS SELECT content FROM blocks", "DROP TABLE filler"):
            run(sqlite_url, statement)
        monkeypatch.setattr(sqlite_health, "UNUSED_BYTES", 1)
        monkeypatch.setattr(sqlite_health, "UNUSED_SHARE", 0.01)
        assert found(eng, "store.unused").state == "note"
        monkeypatch.setattr(sqlite_health, "LEAST_SPACE", 1 << 62)
        assert found(eng, "store.space").state == "wrong"
        monkeypatch.setattr(sqlite_health, "OLDEST_SQLITE", 9_000_000)
        assert found(eng, "store.sqlite").state == "wrong"
        monkeypatch.setattr(sqlite_health, "network_file_system", lambda folder: "nfs4")
        assert found(eng, "store.file_system").state == "wrong"
