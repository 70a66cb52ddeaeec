"""How PostgreSQL carries many workspaces, and a year of a team.

**Many workspaces.** Four stores on one server have 10, 100, 1,000 and 10,000 workspaces of 200 turns each, with logs,
memories, words and vectors. Engram writes one such workspace; the others are copies of its rows (`_copies.py`) under
their own numbers. The copies have the same texts, but no rows and no words in common. One process calls `log`,
`remember`, `recall` and `sitrep` in ten workspaces of each store, in alternation. Every store then has done the same,
so the ratio of the last store to the first shows what the other workspaces cost.

**A year of a team** is in `_year.py`.

The server has its ordinary settings, except `max_wal_size`: filling the stores would otherwise wait for checkpoints.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from engram import Engram
from engram.config import load

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench import _year as year
    from bench._copies import Workspaces, multiply
    from bench._postgres import connect, server, settings, with_schema
    from bench.recall_speed import Speech
else:
    import _measure as measure
    import _year as year
    from _copies import Workspaces, multiply
    from _postgres import connect, server, settings, with_schema
    from recall_speed import Speech

SIZES = (10, 100, 1_000, 10_000)
SESSIONS, TURNS, LOGS, MEMORIES = 4, 50, 10, 20
#: Workspaces of each store that are used.
USED = 10
CALLS = ("log", "remember", "recall", "sitrep")
TEMPLATE = "template"


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--days", type=int, metavar="N", help="working days of the simulated year")
    parser.add_argument("--only-year", action="store_true", help="leave out the many workspaces")
    parser.add_argument("--only-workspaces", action="store_true", help="leave out the year")
    chosen = parser.parse_args()
    report = measure.Report("Scale on PostgreSQL")
    with measure.workplace(), server() as url:
        with connect(url, "public") as connection:
            connection.execute("ALTER SYSTEM SET max_wal_size = '16GB'")
            connection.execute("SELECT pg_reload_conf()")
        report.notes.append(settings(url))
        if not chosen.only_year:
            sizes = SIZES[:3] if chosen.quick else SIZES
            workspaces(report, url, sizes, rounds=5 if chosen.quick else 15)
        if not chosen.only_workspaces:
            year.simulate(report, url, chosen.days or (20 if chosen.quick else year.DAYS), quick=chosen.quick)
    report.show(as_json=chosen.json)


def workspaces(report: measure.Report, url: str, sizes: tuple[int, ...], *, rounds: int) -> None:
    """Fill the stores and measure the calls."""
    questions = fill(with_schema(url, TEMPLATE))
    stores = {}
    for size in sizes:
        schema = f"scale_{size}"
        open_store(with_schema(url, schema), "w0").close()
        begun = perf_counter()
        with connect(url, "public") as connection:
            multiply(connection, TEMPLATE, schema, size, Workspaces())
            # On a store that grows over time, autovacuum does this.
            for table in tables(url, schema):
                connection.execute(f"VACUUM ANALYZE {schema}.{table}".encode())
        print(f"  {size:,} workspaces after {perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
        stores[size] = Store(with_schema(url, schema), size, questions)
    answers = {size: store.answers() for size, store in stores.items()}
    if len(set(answers.values())) != 1 or not all(answers[sizes[0]]):
        raise AssertionError("recall does not find the same in every copy")
    rows: list[tuple[str | float, ...]] = []
    for call in CALLS:
        for store in stores.values():
            store.calls(call)()
        results = measure.alternate({f"{size}": stores[size].calls(call) for size in sizes}, rounds)
        rows.append((call, *[f"{median(results[f'{size}']) * 1000:.2f}" for size in sizes]))
        name = f"{call}: {sizes[-1]:,} / {sizes[0]:,} workspaces"
        report.compare(name, results[f"{sizes[-1]}"], results[f"{sizes[0]}"], "at most", 1.5)
    for store in stores.values():
        store.close()
    report.table("p50 in ms, by workspaces in the store", ("", *[f"{size:,}" for size in sizes]), rows)
    with connect(url, "public") as connection:
        parts = [year.total(connection, f"scale_{size}") / 2**20 for size in sizes]
    report.table("size of the store in MB", ("", *[f"{size:,}" for size in sizes]), [("", *parts)])
    with connect(url, "public") as connection:
        for size in sizes:
            connection.execute(f"DROP SCHEMA scale_{size} CASCADE".encode())


def open_store(url: str, workspace: str) -> Engram:
    return Engram(settings=load(url=url, workspace=workspace, embedder="static"))


def fill(url: str) -> list[str]:
    """Write one workspace with Engram; questions about it."""
    speech = Speech()
    said = list(islice(speech.turns(), SESSIONS * TURNS))
    with open_store(url, "w0") as eng:
        for number in range(SESSIONS):
            sid = eng.sessions.register("claude-code", f"Porting part {number} of the router")
            own = said[number * TURNS : (number + 1) * TURNS]
            roles = ("user", "assistant")
            eng.exchanges.add_many(
                [{"session_id": sid, "role": roles[n % 2], "content": text} for n, text in enumerate(own)]
            )
            for step in range(LOGS):
                eng.sessions.log(sid, f"step {step}: moved one more handler and ran its tests")
            if number:
                eng.sessions.complete(sid, "The part is ported; tests pass")
        for text in islice(speech.turns(), MEMORIES):
            eng.remember(text, kind="decision", tags=["router"])
        eng.world.set("\n".join(f"- module {number} is ported" for number in range(20)))
        while eng.backlog.work():
            pass
    return speech.questions(said, 20)


def tables(url: str, schema: str) -> list[str]:
    with connect(url, "public") as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1", (schema,))
        return [name for (name,) in rows.fetchall()]


class Store:
    """A store with many workspaces, of which some are used."""

    def __init__(self, url: str, size: int, questions: list[str]) -> None:
        self._eng = open_store(url, "w0")
        names = [f"w{size * number // USED}" for number in range(USED)]
        self._views = [self._eng.workspace(name) for name in names]
        self._sessions = [view.sessions.register("claude-code", "Porting the router") for view in self._views]
        self._questions = questions
        self._number = 0

    def answers(self) -> tuple[tuple[str, ...], ...]:
        """What recall finds, in the first, the last and one more of the used workspaces."""
        views = (self._views[0], self._views[USED // 2], self._views[-1])
        found = [tuple(hit.text for hit in view.recall(self._questions[0], k=5)) for view in views]
        if len(set(found)) != 1:
            raise AssertionError("recall does not find the same in every workspace")
        return tuple(found)

    def calls(self, name: str) -> Callable[[], float]:
        """Makes the call twice in each of the used workspaces; the median of their times, in seconds."""
        call = getattr(self, f"_{name}")

        def run() -> float:
            times = []
            for place in list(range(USED)) * 2:
                self._number += 1
                begun = perf_counter()
                call(self._views[place], self._sessions[place])
                times.append(perf_counter() - begun)
            return median(times)

        return run

    def close(self) -> None:
        self._eng.close()

    def _log(self, view: Engram, session: str) -> None:
        view.sessions.log(session, f"step {self._number}: moved one more handler")

    def _remember(self, view: Engram, session: str) -> None:
        view.remember(f"Decided in step {self._number}: the router keeps its handlers in one table", kind="decision")

    def _recall(self, view: Engram, session: str) -> None:
        view.recall(self._questions[self._number % len(self._questions)], k=5)

    def _sitrep(self, view: Engram, session: str) -> None:
        view.sitrep(session_id=session)


if __name__ == "__main__":
    main()
