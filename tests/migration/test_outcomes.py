"""What became of the summaries of completed sessions when sessions got an outcome, in stores of earlier releases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engram import Engram
from engram.config import load as settings
from engram.safe_text import one_line
from engram.storage import migrate
from tests._tables import holds
from tests.migration.old_stores import asking, load
from tests.migration.test_migrate import SHIPPED, Store

AT = "2026-11-16T12:00:00.000000Z"
LONG = "Port the router, then its tests, \t then everything that uses it, and tell me how it went. " * 30
ASKED = "Port\r\n\n  the   quixadrol router"
DONE = "All 41 tests pass."

#: Sessions of an earlier release: status, summary, which turn that repeats, and the turns.
OLD: dict[str, tuple[str, str, str | None, list[tuple[str, str]]]] = {
    "written": ("completed", "The build is green", None, []),
    "ended": ("completed", DONE, "assistant", [("system", "Be careful."), ("user", ASKED), ("assistant", DONE)]),
    "long": ("completed", DONE, "assistant", [("user", LONG), ("user", "Go on"), ("assistant", DONE)]),
    "asked": ("completed", "Port the quixadrol router", "user", [("user", ASKED), ("log", "Edit a.py: done")]),
    "child": ("completed", DONE, "assistant", [("assistant", DONE)]),
    "resumed": ("active", DONE, "assistant", [("user", "Port it"), ("assistant", DONE), ("user", "And now?")]),
    "silent": ("completed", "", None, [("user", ASKED), ("assistant", DONE)]),
    "working": ("active", "Going on", None, [("user", ASKED), ("assistant", DONE)]),
}
#: What they are now: summary and outcome.
NEW = {
    "written": ("The build is green", "The build is green"),
    "ended": ("Port the quixadrol router", DONE),
    "long": (one_line(LONG, 200), DONE),
    "asked": ("Port the quixadrol router", ""),
    "child": ("", DONE),
    "resumed": ("Port it", DONE),
    "silent": ("Port the quixadrol router", ""),
    "working": ("Going on", ""),
}
#: Without `summary_from`, it is unknown whose words the summary of these two repeats.
UNKNOWN = {"child": (DONE, DONE), "resumed": (DONE, "")}


def make_old_store(url: str, schema: int, folder: Path) -> None:
    """A store with every kind of row, and with those sessions, as a release with that schema left it."""
    load(url, 7)
    shutil.copytree(SHIPPED, folder)
    for engine in ("sqlite", "postgres"):
        for migration in migrate.shipped(engine):
            if migration.number > schema:
                (folder / engine / f"{migration.number:04d}_{migration.name}.sql").unlink()
    Store(url).migrate(folder)
    with asking(url) as ask:
        for id, (status, summary, quoted, turns) in OLD.items():
            ask(
                "INSERT INTO sessions (workspace, id, type, summary, status, metadata, last_seq, turns, created_at, "
                f"heartbeat_at) VALUES ('default', '{id}', 'codex', '{summary}', '{status}', '{{}}', {len(turns)}, "
                f"{len(turns)}, '{AT}', '{AT}')"
            )
            for seq, (role, content) in enumerate(turns, 1):
                ask(
                    "INSERT INTO exchanges (workspace, session_id, seq, role, content, created_at) "
                    f"VALUES ('default', '{id}', {seq}, '{role}', '{content}', '{AT}')"
                )
            if quoted and schema >= 9:
                ask(
                    "UPDATE sessions SET summary_from = (SELECT MAX(id) FROM exchanges "
                    f"WHERE session_id = '{id}' AND role = '{quoted}') WHERE id = '{id}'"
                )


@pytest.fixture(params=[7, 9])
def schema(request: pytest.FixtureRequest, store_url: str, tmp_path: Path) -> int:
    number: int = request.param
    make_old_store(store_url, number, tmp_path / "sql")
    return number


@pytest.mark.requirement("MIGRATE-9", "FORGET-22")
def test_an_old_summary_is_the_outcome_and_the_first_turn_the_summary_and_both_go_with_their_turns(
    schema: int, store_url: str
) -> None:
    with Engram(settings=settings(url=store_url, embedder="none")) as eng:
        found = {id: (eng.sessions.get(id).summary, eng.sessions.get(id).outcome) for id in OLD}
        assert found == (NEW if schema == 9 else {**NEW, **UNKNOWN})
        done = eng.sessions.list()
        assert {each.outcome for each in done if each.type == "dream"} <= {"dreamt", "undone"}
        assert "The build is green" in {each.outcome for each in done}
        assert {each.outcome for each in done if each.status in ("idle", "abandoned")} == {""}
        turns = [turn for id in OLD for turn in eng.exchanges.history(id)]
        assert holds(store_url, "quixadrol") and holds(store_url, "41 tests")
        for turn in turns:
            eng.forget(exchange=turn.id)
        assert (holds(store_url, "quixadrol"), holds(store_url, "41 tests")) == ({}, {})
        assert eng.sessions.get("written").outcome == "The build is green"
        assert eng.sessions.get("working").summary == "Going on"
    store = Store(store_url)
    for name in store.backups() if store.is_postgres else []:
        store.all(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.requirement("MIGRATE-9")
def test_a_turn_that_an_earlier_release_deletes_takes_the_text_that_reads_like_it(schema: int, store_url: str) -> None:
    with Engram(settings=settings(url=store_url, embedder="none")) as eng:
        sid = eng.sessions.register("codex", DONE)
        said = eng.exchanges.add(sid, "assistant", DONE, embed=False)
        eng.sessions.complete(sid, DONE)
        # An earlier release does not know the column.
        with asking(store_url) as ask:
            ask(f"DELETE FROM exchanges WHERE id = {said}")
        session = eng.sessions.get(sid)
        assert (session.summary, session.outcome) == ("", "")
