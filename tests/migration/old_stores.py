"""Stores as an earlier release wrote them, as text: `python -m tests.migration.old_stores COMMIT POSTGRES_URL`.

The files in `stores/` are this program's output: for each engine the rows that the code of one commit wrote, with
every table in use. It takes that commit's `src` out of the repository's history, fills a store of each engine with it
in a process of its own, and writes the rows down. The tables are those of the migrations up to that release, which are
never edited; the rows of `migrations` hold their hashes, so an edited one is found.

A test loads a file into a new store and opens it with the code of today (`load`, `test_old_stores.py`). A new release
gets a new file; the old ones stay.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from engram.storage import migrate
from engram.store_url import split_schema

STORES = Path(__file__).parent / "stores"
_MADE_AT = "-- made at: "

Ask = Callable[[str], list[tuple[Any, ...]]]


def releases() -> list[int]:
    """The schemas of the releases whose stores are kept here."""
    return sorted({int(file.name.partition(".")[0]) for file in STORES.glob("*.sql")})


def load(url: str, release: int, *, create: bool = True) -> str:
    """Make the store of a release in a place where none is yet; the time at which it was made.

    With `create` off, the schema on PostgreSQL is there already.
    """
    engine = "postgres" if url.startswith("postgresql:") else "sqlite"
    text = (STORES / f"{release:04d}.{engine}.sql").read_text(encoding="utf-8")
    with asking(url) as ask:
        if engine == "postgres" and create:
            ask(f"CREATE SCHEMA {split_schema(url)[1]}")
        for migration in migrate.shipped(engine):
            if migration.number <= release:
                ask(migration.sql)
        ask(text)
    return text.partition(_MADE_AT)[2].partition("\n")[0]


@contextmanager
def asking(url: str) -> Iterator[Ask]:
    """Statements on a store behind the library's back."""
    if url.startswith("postgresql:"):
        import psycopg

        address, schema = split_schema(url)
        with psycopg.connect(address, autocommit=True) as server:
            server.execute(f"SET search_path TO {schema}, public".encode())
            yield lambda sql: asked.fetchall() if (asked := server.execute(sql.encode())).description else []
        return
    from tests._files import connect

    os.makedirs(os.path.dirname(url), exist_ok=True)
    file = connect(url)
    try:
        yield lambda sql: file.execute(sql).fetchall()
    finally:
        file.close()


def tables(ask: Ask, url: str) -> list[str]:
    """The tables of a store, each after those it refers to."""
    if url.startswith("postgresql:"):
        rows = ask(
            "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' "
            "AND relname <> 'closeness' ORDER BY oid"
        )
    else:
        rows = ask("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid")
    return [name for (name,) in rows]


def _written(url: str, made_at: str) -> str:
    """The rows of a store as SQL."""
    postgres = url.startswith("postgresql:")
    lines = ["-- Written by tests/migration/old_stores.py; not to be edited.", f"{_MADE_AT}{made_at}"]
    with asking(url) as ask:
        for table in tables(ask, url):
            columns = _columns(ask, table, postgres)
            rows = ask(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(columns)}")
            if not rows:
                continue
            overriding = " OVERRIDING SYSTEM VALUE" if postgres else ""
            lines.append(f"INSERT INTO {table} ({', '.join(columns)}){overriding} VALUES")
            lines.append(",\n".join(f"({', '.join(_literal(value, postgres) for value in row)})" for row in rows) + ";")
        lines += _postgres_counters(ask) if postgres else _sqlite_counters(ask)
    return "\n".join(lines) + "\n"


def _columns(ask: Ask, table: str, postgres: bool) -> list[str]:
    if postgres:
        rows = ask(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() "
            f"AND table_name = '{table}' ORDER BY ordinal_position"
        )
    else:
        rows = ask(f"SELECT name FROM pragma_table_info('{table}') ORDER BY cid")
    return [name for (name,) in rows]


def _literal(value: object, postgres: bool) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes | memoryview):
        return f"'\\x{bytes(value).hex()}'" if postgres else f"X'{bytes(value).hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _sqlite_counters(ask: Ask) -> list[str]:
    rows = ", ".join(f"('{name}', {last})" for name, last in ask("SELECT name, seq FROM sqlite_sequence ORDER BY name"))
    return ["DELETE FROM sqlite_sequence;", f"INSERT INTO sqlite_sequence (name, seq) VALUES {rows};"]


def _postgres_counters(ask: Ask) -> list[str]:
    found = ask(
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND is_identity = 'YES' ORDER BY 1"
    )
    lines = []
    for table, column in found:
        ((last,),) = ask(f"SELECT MAX({column}) FROM {table}")
        if last is not None:
            lines.append(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {last});")
    return lines


def fill(url: str) -> None:
    """Use everything there is, with the library of whichever release is on the path. Does not return."""
    from engram import Clock, Engram
    from engram.config import load as settings

    clock = Clock()

    def opened(workspace: str, **chosen: Any) -> Engram:
        return Engram(settings=settings(url=url, workspace=workspace, dream_min_age=0, **chosen), clock=clock)

    clock.shift = -3 * 86_400.0
    _long_ago(opened("default"))
    clock.shift = 0.0
    with opened("default") as eng:
        eng.sessions.sweep()
        _coordinate(eng)
        _remember(eng)
        _dream(eng)
        eng.workspace("other").world.set("Elsewhere, nothing is known of the rest.")
    with opened("agents", llm="agent") as eng:
        _leave_work(eng)
    _pay(opened)
    _end(opened("default"), url)


def _long_ago(eng: Any) -> None:
    """A session that was never heard of again, with a claim that expired."""
    with eng:
        lost = eng.sessions.register("codex", "Never came back", {"shell": "zsh"}, external_id="lost-1")
        eng.leases.claim(lost, "port:9000", "was testing", exclusive=True, ttl=60)


def _coordinate(eng: Any) -> None:
    at_work = eng.sessions.register("claude-code", "Porting the router", {"model": "m"}, name="lead", external_id="a-1")
    child = eng.sessions.register("claude-code", "Reading the tests", parent_id=at_work, external_id="a-1/sub")
    eng.sessions.ensure("lyra-main", "Lyra")
    done = eng.sessions.register("cursor", "Fixing the build")
    for entry in ("began", "It's 50% done: ünïcödé and \U0001f600", "second\nline\twith a tab"):
        eng.sessions.log(at_work, entry)
    eng.leases.claim(done, "port:8081", exclusive=True)
    eng.sessions.complete(done, "The build is green")
    eng.leases.claim(at_work, "db/schema", "migrating", exclusive=True, ttl=86_400 * 30)
    eng.leases.claim(child, "docs/", "reading")
    eng.leases.claim(child, "port:1", exclusive=True)
    eng.leases.break_lease("port:1", at_work, "the child has hung")
    eng.leases.claim(child, "port:2")
    eng.leases.release(child, "port:2")
    eng.messages.send(child, at_work, "May I have the schema?")
    eng.messages.inbox(at_work)
    eng.messages.send(at_work, child, "Not yet.")
    eng.messages.send(None, "*", "Lunch is at noon.")
    for role, text in (
        ("system", "You are a careful engineer."),
        ("user", "I never deploy on Fridays, because the pager is mine at the weekend."),
        ("assistant", "Understood: no deploys on Fridays."),
        ("tool", "src/router.py: 41 passed, 0 failed"),
    ):
        eng.exchanges.add(at_work, role, text)
    imported = eng.sessions.register("import", "An old conversation")
    eng.exchanges.add(
        imported, "user", "We used to meet on Tuesdays.", trust="import", created_at="2026-01-05T09:00:00Z"
    )
    eng.exchanges.add(imported, "assistant", "A long answer. " * 400, trust="import", created_at="2026-01-05T09:01:00Z")


def _remember(eng: Any) -> None:
    session = eng.sessions.find("a-1", "claude-code").id
    turn = eng.exchanges.recent(session, 10)[1]
    kinds = ("fact", "preference", "decision", "lesson", "note", "todo", "digest", "recipe")
    made = {
        kind: eng.remember(
            f"A {kind} about the number {number}: the valve on pump {number} opens at {number + 40} degrees.",
            kind=kind,
            tags=[kind, "pumps"],
            importance=number / 10,
            session_id=session if number % 2 else None,
            data={"number": number},
        )
        for number, kind in enumerate(kinds, 1)
    }
    eng.remember(
        "Deploys never happen on Fridays",
        kind="preference",
        pinned=True,
        sources=[("exchange", turn.id)],
        project="acme/router",
    )
    eng.remember("The capital of the project is Bern", kind="fact", key="capital")
    eng.remember("The capital of the project is Basel", kind="fact", key="capital")
    eng.remember(made["note"].content, kind="note")
    eng.remember("This holds until the end of the century", kind="note", expires_at="2099-12-31T00:00:00Z")
    eng.memories.update(made["fact"].id, "A fact that was corrected: pump 1 opens at 42 degrees.")
    eng.memories.link(made["fact"].id, made["decision"].id, "explains")
    eng.memories.archive(made["todo"].id)
    eng.recall("which pump opens at 42 degrees?")
    eng.world.set("The router is being ported.")
    eng.world.set("The router is ported.")
    eng.blocks.create("plan", "First the tests.", max_tokens=200)
    eng.blocks.append("plan", " Then the code.")
    eng.blocks.create("secret", "The word is swordfish.")
    eng.blocks.delete("secret")
    eng.forget(memory=made["lesson"].id)


def _dream(eng: Any) -> None:
    said = (
        "I prefer PostgreSQL for the billing service, because invoices need transactions.",
        "We decided to deploy the billing service on Mondays, never on a Friday.",
        "I learned that the nightly export holds its lock for forty minutes.",
        "Remember that the second replica in Zurich is still to be ordered.",
        "I live in Bern and work from home on Wednesdays.",
    )
    for month in ("2026-02", "2026-03"):
        session = eng.sessions.register("claude-code", f"billing in {month}")
        for number, line in enumerate(said):
            eng.exchanges.add(session, "user", f"{line} ({month})", created_at=f"{month}-02T10:0{number}:00Z")
            eng.exchanges.add(
                session, "assistant", f"Noted, number {number}.", created_at=f"{month}-02T10:0{number}:30Z"
            )
    eng.dream(force=True)
    wordings = ("Invoices go out with the first train", "The night shift ends at six", "Parcels wait in hall two")
    for text in (*wordings, "The kettle is in the small kitchen", "Lifts are checked in the spring"):
        eng.remember(f"{text}.", kind="note")
        eng.remember(text, kind="fact")
    eng.dream(force=True)
    waiting = [each for each in eng.proposals.list() if each.what == "merge"]
    eng.proposals.accept(waiting[0].id)
    eng.proposals.edit(waiting[1].id, "The night shift ends at six in the morning.")
    eng.proposals.reject(waiting[2].id)
    later = eng.sessions.register("claude-code", "one more talk")
    eng.exchanges.add(later, "user", "I prefer tea over coffee in the morning.")
    eng.dream(force=True)
    again = eng.sessions.register("claude-code", "a talk whose pass is undone")
    eng.exchanges.add(again, "user", "I prefer trains over planes for short trips.")
    eng.dream(force=True)
    eng.dreams.undo()
    # What an era and the portrait were made of goes, so that they are to be made anew.
    first = eng.sessions.list()
    month = next(each for each in first if each.summary == "billing in 2026-03")
    eng.forget(exchange=eng.exchanges.history(month.id)[2].id)


def _leave_work(eng: Any) -> None:
    for about in ("lamps", "chairs"):
        session = eng.sessions.register("claude-code", f"work on {about}")
        for number in range(6):
            eng.exchanges.add(session, ("user", "assistant")[number % 2], f"Step {number} about {about} went well.")
    eng.dream(force=True)
    item = eng.work.next("an agent")
    from tests._models import session_answer

    told = "They worked on it."
    eng.work.submit(item.id, told if item.form is None else session_answer(gist=told), "an agent")
    eng.work.next("another agent")


def _pay(opened: Callable[..., Any]) -> None:
    """A pass with a model that is asked over the network."""
    os.environ["OPENAI_API_KEY"] = "none"
    from tests._models import serve

    with serve() as model, opened("paid", llm="openai:m", llm_base_url=model.url) as eng:
        session = eng.sessions.register("claude-code", "a talk")
        for number in range(6):
            eng.exchanges.add(session, ("user", "assistant")[number % 2], f"We talked about the number {number}.")
        eng.dream(force=True)


def _end(eng: Any, url: str) -> None:
    """What is left undone: decisions, things without vectors, and a session that dies while it waits for a lease."""
    accepted, edited = (each.id for each in eng.proposals.list() if each.what == "merge")
    eng.proposals.accept(accepted)
    eng.proposals.edit(edited, "Lifts are checked in the spring, by the town.")
    session = eng.sessions.register("codex", "Waiting for the schema")
    eng.exchanges.add(session, "user", "The zeppelin leaves the hangar at dawn.", embed=False)
    eng.remember("Zeppelins are kept in the hangar", embed=False)
    eng.memories.store_gist(session, "Somebody talked about a zeppelin.", 1)
    claim = lambda: eng.leases.claim(session, "db/schema", exclusive=True, wait=300)  # noqa: E731
    threading.Thread(target=claim, daemon=True).start()
    with asking(url) as ask:
        for _ in range(1_000):
            if ask("SELECT 1 FROM lease_waiters"):
                break
            time.sleep(0.02)
    os._exit(0)


def _generate(commit: str, urls: Iterable[str]) -> None:
    from engram import Clock

    root = Path(__file__).parents[2]
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=root, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(archive)) as opened:
            opened.extractall(folder, filter="data")
        place = {**os.environ, "PYTHONPATH": f"{folder}/src{os.pathsep}{root}", "ENGRAM_CONFIG_DIR": f"{folder}/config"}
        # A repository, so that resources and projects have names that say nothing of this machine.
        work = Path(folder) / "work"
        work.mkdir()
        subprocess.run(["git", "init", "-q", str(work)], check=True)
        (work / ".git" / "config").write_text('[remote "origin"]\n\turl = git@example.com:acme/router.git\n')
        for given in urls:
            url = given or f"{folder}/store/engram.db"
            code = "import sys; from tests.migration.old_stores import fill; fill(sys.argv[1])"
            subprocess.run([sys.executable, "-c", code, url], check=True, env=place, cwd=work)
            with asking(url) as ask:
                ((newest,),) = ask("SELECT MAX(number) FROM migrations")
            name = f"{newest:04d}.{'postgres' if given else 'sqlite'}.sql"
            STORES.mkdir(exist_ok=True)
            (STORES / name).write_text(_written(url, Clock().now()), encoding="utf-8")
            print(name)


if __name__ == "__main__":
    _generate(sys.argv[1], ("", sys.argv[2]))
