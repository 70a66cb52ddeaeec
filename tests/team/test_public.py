"""Objects of the same name in other schemas of the search path are not used."""

from __future__ import annotations

import pytest

from engram import Engram
from engram.storage import migrate
from tests.team.conftest import OWN, Database


def names_of_tables(database: Database, schema: str) -> list[str]:
    rows = database.rows(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' ORDER BY 1")
    return [str(name) for (name,) in rows]


@pytest.mark.requirement("TEAM-2")
def test_tables_of_the_same_names_in_public_are_neither_read_nor_written(database: Database) -> None:
    database.run("CREATE SCHEMA model")
    with Engram(f"{database.url}&schema=model"):
        names = names_of_tables(database, "model")
    database.add_team(OWN)
    # Everybody may use these, and one row would lead astray whoever reads it.
    newest = migrate.shipped("postgres")[-1].number
    database.run(
        *(f"CREATE TABLE public.{name} (LIKE model.{name} INCLUDING ALL)" for name in names),
        *(f"GRANT ALL ON public.{name} TO PUBLIC" for name in names),
        "INSERT INTO public.migrations (number, name, hash, works_with, applied_at)"
        f" VALUES ({newest + 1}, 'hostile', '', {newest + 1}, '')",
    )
    before = {name: database.rows(f"SELECT * FROM public.{name}") for name in names}
    with Engram(database.url_of(f"{OWN}_owner", OWN)) as eng:
        assert eng._view.engine.outcome.newest == newest
    with Engram(database.url_of(f"{OWN}_app", OWN)) as eng:
        sid = eng.sessions.register("codex", "Working")
        eng.exchanges.add(sid, "user", "I never deploy on Fridays")
        memory = eng.remember("Deploys never happen on Fridays")
        assert eng.recall("deploy on Fridays")
        assert sid in eng.sitrep()
        assert len(eng.changes()) > 2
        eng.dream(force=True)
        eng.forget(memory=memory.id)
    assert names_of_tables(database, OWN) == names
    assert {name: database.rows(f"SELECT * FROM public.{name}") for name in names} == before


@pytest.mark.requirement("TEAM-2")
def test_a_function_in_public_is_not_called_if_pgvector_has_another_schema(database: Database) -> None:
    database.add_team(OWN)
    with Engram(database.url_of(f"{OWN}_owner", OWN)):
        pass
    # Their arguments fit better than those of PostgreSQL's own functions.
    for head in ("starts_with(name, text) RETURNS boolean", "hashtextextended(text, integer) RETURNS bigint"):
        database.run(f"CREATE FUNCTION public.{head} LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''called''; END'")
    with Engram(database.url_of(f"{OWN}_app", OWN)) as eng:
        eng.sessions.register("codex", "Working")
        eng.forget(memory=eng.remember("Deploys never happen on Fridays").id)
        assert eng._view.engine.backups(eng.now()) == ()
