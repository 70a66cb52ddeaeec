"""A team's store is saved and brought back with PostgreSQL's own tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engram import Engram
from tests._tables import dump
from tests.team.conftest import OWN, Database


@pytest.fixture
def elsewhere(direct_server: str) -> Iterator[Database]:
    """Another database that is to get the store."""
    database = Database(direct_server, f"{OWN}_elsewhere")
    yield database
    database.end()


@pytest.mark.requirement("TEAM-4")
def test_a_dump_of_one_schema_opens_in_another_database_with_everything_in_it(
    database: Database, elsewhere: Database, tmp_path: Path
) -> None:
    database.add_team(OWN)
    file = str(tmp_path / "store.dump")
    with Engram(database.url_of(f"{OWN}_owner", OWN)) as eng:
        sid = eng.sessions.register("codex", "Working")
        eng.exchanges.add(sid, "user", "I never deploy on Fridays")
        eng.remember("Deploys never happen on Fridays", kind="preference")
        last = eng.leases.claim(sid, "db/schema", exclusive=True).token
        database.run_program("pg_dump", "--format=custom", f"--schema={OWN}", f"--file={file}", database.url)
        before = dump(database.url_of(f"{OWN}_owner", OWN))
        # These are lost with the server. The sessions that hold them still run.
        later = [eng.leases.claim(sid, f"port:{number}", exclusive=True).token for number in range(3)]
        seen = eng.changes.latest
    elsewhere.run_file("roles.sql", OWN)
    elsewhere.run_program("pg_restore", "--clean", "--if-exists", "--exit-on-error", "--dbname", elsewhere.url, file)
    assert dump(elsewhere.url_of(f"{OWN}_owner", OWN)) == before
    elsewhere.run_file("after-restore.sql", OWN)
    with Engram(elsewhere.url_of(f"{OWN}_app", OWN)) as eng:
        assert [hit.text for hit in eng.recall("deploy on Fridays", 1, kinds=["preference"])]
        assert eng.recall("deploy on Fridays", mode="vectors")
        assert eng.leases.claim(sid, "db/schema", exclusive=True).token == last
        assert eng.leases.claim(sid, "port:9", exclusive=True).token > max(later)
        assert eng.changes(limit=1, after=seen)
        assert eng._view.engine.outcome.applied == ()
