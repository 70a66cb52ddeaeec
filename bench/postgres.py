"""Writes on PostgreSQL by several processes, compared with bare statements that write the same rows.

**The calls** are `sessions.log`, `exchanges.add` and `remember`, each durable when it returns. 1, 4 and 16 processes
make them, all in one workspace or each in its own; every process has its own session. *bare* (`_bare.py`) is psycopg 3
with one connection per process, one transaction per call and no checks. Both sides run in the same processes, in
alternation, each in its own schema of the same server. The server has its ordinary settings, so that a commit waits for
the disk.

The comparison is fair because both sides have the same schema (Engram's migrations) and write the same rows, including
the change feed, the word index and the embedding queue. Before the measurement each side makes the same calls in empty
tables, and the tables are compared. There is no embedder (`none`): a model computes outside the database and would hide
the difference. Engram cuts the words of each text within the call; the bare side has them beforehand. Texts are made of
30,000 words with a Zipf distribution, and the workspaces have turns already. So a text brings a few new words.

**With a delay** the same is measured through a proxy on the loopback network that adds 5 ms to each round trip
(`tests/_wire.py`), as between two machines. The proxy also counts the round trips.

**Mixed** (`--mixed`): 16 processes do a random mix of all operations in three workspaces (`tests/stress/_mix.py`). The
server counts deadlocks. There must be none, and no call may fail.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from engram import Engram
from engram.config import load
from engram.memory import word_index

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests._wire import Wire

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench._bare import KIND, TAG, Bare, Text
    from bench._postgres import connect, server, settings, with_schema
    from bench.recall_speed import Speech
else:
    import _measure as measure
    from _bare import KIND, TAG, Bare, Text
    from _postgres import connect, server, settings, with_schema
    from recall_speed import Speech

CALLS = ("log", "add", "remember")
PROCESSES = (1, 4, 16)
ENGRAM, BARE = "Engram", "bare"
SCHEMAS = {ENGRAM: "bench_engram", BARE: "bench_bare"}
ONE, EACH = "one workspace", "one each"
#: Seconds that the proxy adds to each round trip.
DELAY = 0.005
#: Texts that each process has ready, and turns that each workspace has already.
TEXTS, TURNS = 1_500, 200
#: psycopg prepares a statement when it is executed for the sixth time.
WARM = 8
#: How many sentences a text has. Its mean, about 50 words, is near that of the turns of coding sessions.
SENTENCES = (1, 1, 2, 3, 4, 6)
PATIENCE = 600.0
#: Columns that must be equal on both sides, by table: those without times, random ids and numbers of rows.
COMPARED = {
    "sessions": "workspace, status, last_seq, turns",
    "exchanges": "workspace, seq, turn, role, content, trust, external_id, author",
    "items": "workspace, shelf, kind, piece, label, project, turn, length, length(terms), author",
    "terms": "workspace, shelf, term",
    "postings": "tf, length",
    "shelves": "workspace, RTRIM(shelf, '/0123456789'), SUM(items), SUM(length)",
    "backlog": "workspace, kind, taken_until, indexed, words_due",
    "memories": "workspace, kind, key, content, hash, version, importance, pinned, trust, status, project, data",
    "memory_versions": "version, content, reason, actor, author",
    "memory_tags": "workspace, tag",
    "changes": "workspace, what",
}


class Run(NamedTuple):
    """What one process is told to do."""

    side: str
    delayed: bool
    call: str
    workspace: str
    seconds: float
    #: Makes so many calls instead, if it is not 0.
    calls: int = 0


class Done(NamedTuple):
    calls: int
    seconds: float


class Library:
    """Engram, as a caller uses it."""

    def __init__(self, url: str) -> None:
        self._eng = Engram(settings=load(url=url, embedder="none"))
        self._views: dict[str, Engram] = {}

    def log(self, workspace: str, session: str, text: Text) -> None:
        self._view(workspace).sessions.log(session, text.content)

    def add(self, workspace: str, session: str, text: Text) -> None:
        self._view(workspace).exchanges.add(session, "assistant", text.content)

    def remember(self, workspace: str, session: str, text: Text) -> None:
        self._view(workspace).remember(text.content, kind=KIND, tags=[TAG])

    def close(self) -> None:
        self._eng.close()

    def _view(self, workspace: str) -> Engram:
        if workspace not in self._views:
            self._views[workspace] = self._eng.workspace(workspace)
        return self._views[workspace]


class Process:
    """One process that calls: both sides, directly and through the proxy."""

    def __init__(self, number: int, direct: str, delayed: str) -> None:
        self._number = number
        self._servers = {False: direct, True: delayed}
        self._texts = list(islice(texts(number), TEXTS))
        self._used: Counter[tuple[str, str]] = Counter()
        self._sides: dict[tuple[str, bool], Library | Bare] = {}
        self._sessions: dict[tuple[str, str], str] = {}

    def begin(self, workspace: str, turns: int) -> None:
        """Register a session in a workspace, and fill the workspace. Both sides get the same, from Engram."""
        for side, schema in SCHEMAS.items():
            with Engram(settings=load(url=with_schema(self._servers[False], schema), embedder="none")) as eng:
                view = eng.workspace(workspace)
                session = self._sessions[side, workspace] = view.sessions.register("claude-code", "Porting the router")
                said = islice(texts(1_000 + self._number), turns)
                view.exchanges.add_many(
                    [{"session_id": session, "role": "user", "content": text.content} for text in said]
                )

    def run(self, run: Run) -> Done:
        call = getattr(self._side(run.side, run.delayed), run.call)
        session = self._sessions[run.side, run.workspace]
        done = 0
        begun = perf_counter()
        while (done < run.calls) if run.calls else (perf_counter() - begun < run.seconds):
            call(run.workspace, session, self._text(run))
            done += 1
        return Done(done, perf_counter() - begun)

    def close(self) -> None:
        for side in self._sides.values():
            side.close()

    def _side(self, side: str, delayed: bool) -> Library | Bare:
        if (side, delayed) not in self._sides:
            url, schema = self._servers[delayed], SCHEMAS[side]
            made = Library(with_schema(url, schema)) if side == ENGRAM else Bare(connect(url, schema), self._number)
            self._sides[side, delayed] = made
        return self._sides[side, delayed]

    def _text(self, run: Run) -> Text:
        """The next text. The side has not written it before: the same text again is no new memory."""
        used = self._used[run.side, run.call]
        self._used[run.side, run.call] += 1
        again, place = divmod(used, TEXTS)
        text = self._texts[place]
        if not again:
            return text
        more = f"{text.content} again{again}"
        last = text.pieces[-1]
        return Text(more, [*text.pieces[:-1], last._replace(counts=last.counts + Counter([f"again{again}"]))])


def texts(part: int) -> Iterator[Text]:
    """Texts of several sentences, with their words."""
    chance = random.Random(part)
    turns = Speech(part + 1).turns()
    while True:
        content = ". ".join(islice(turns, chance.choice(SENTENCES)))
        yield Text(content, word_index.cut(content))


def serve(line: Connection, number: int, direct: str, delayed: str) -> None:
    """Do what the benchmark says, in a process of its own."""
    process = Process(number, direct, delayed)
    try:
        line.send(None)
        while (asked := line.recv()) is not None:
            name, values = asked
            line.send(getattr(process, name)(*values))
    except EOFError:
        pass
    except BaseException:
        line.send(RuntimeError(traceback.format_exc()))
    finally:
        process.close()


class Crew:
    """The processes that call."""

    def __init__(self, count: int, direct: str, delayed: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._lines: list[Connection] = []
        self._processes = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, number, direct, delayed), daemon=True)
            process.start()
            theirs.close()
            self._lines.append(ours)
            self._processes.append(process)
        self._answers(count)

    def each(self, name: str, values: Sequence[tuple[object, ...]]) -> list[Any]:
        """Let the first processes do something at the same time, each with its own values; their answers."""
        for line, own in zip(self._lines, values, strict=False):
            line.send((name, own))
        return self._answers(len(values))

    def close(self) -> None:
        for line, process in zip(self._lines, self._processes, strict=True):
            line.close()
            process.join(30)
            if process.is_alive():
                process.kill()

    def _answers(self, count: int) -> list[Any]:
        found = []
        for line in self._lines[:count]:
            if not line.poll(PATIENCE):
                raise TimeoutError("a process did not answer")
            answer = line.recv()
            if isinstance(answer, RuntimeError):
                raise answer
            found.append(answer)
        return found


def workspace(where: str, number: int) -> str:
    return "shared" if where == ONE else f"own{number}"


def check_rows(report: measure.Report, crew: Crew, url: str, calls: int) -> None:
    """Make the same calls on both sides, by one process in a workspace of its own, and compare all tables."""
    crew.each("begin", [("compared", 0)])
    for call in CALLS:
        for side in SCHEMAS:
            crew.each("run", [(Run(side, False, call, "compared", 0, calls),)])
    found = {}
    for side, schema in SCHEMAS.items():
        with connect(url, schema) as connection:
            found[side] = _contents(connection, schema)
    for table, rows in found[ENGRAM].items():
        if rows != found[BARE][table]:
            one, other = (found[side][table] for side in SCHEMAS)
            raise AssertionError(f"the sides wrote different rows to {table}: {len(one)}, {len(other)}")
    per_call = {table: len(rows) / calls for table, rows in found[ENGRAM].items() if rows}
    report.notes.append(
        f"{calls} calls of each kind wrote the same rows on both sides; rows of one log, one add and one remember: "
        + ", ".join(f"{count:.2f} {table}" for table, count in per_call.items() if table in COMPARED)
    )


def _contents(connection: Any, schema: str) -> dict[str, list[Any]]:
    tables = connection.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_name <> 'migrations'"
        " AND table_type = 'BASE TABLE' ORDER BY 1",
        (schema,),
    ).fetchall()
    found = {}
    for (table,) in tables:
        if table == "shelves":
            sql = f"SELECT {COMPARED[table]} FROM shelves GROUP BY 1, 2 ORDER BY 1, 2"
        else:
            sql = f"SELECT {COMPARED.get(table, '1')} FROM {table} ORDER BY ROW({COMPARED.get(table, '1')})"
        found[table] = connection.execute(sql.encode()).fetchall()
    return found


def measured(report: measure.Report, crew: Crew, wire: Wire, *, delayed: bool, rounds: int, seconds: float) -> None:
    """Measure every cell of the table, directly or through the proxy."""
    title = f", {DELAY * 1000:g} ms delay" if delayed else ""
    rows: list[tuple[str | float, ...]] = []
    for call in CALLS:
        trips = _warm(crew, wire, call, delayed)
        for count in PROCESSES:
            for where in (EACH, ONE) if count > 1 else (EACH,):
                sides = {side: _side(crew, side, delayed, call, where, count, seconds) for side in SCHEMAS}
                results = measure.alternate(sides, rounds)
                name = f"{call} by {count}" + (f", {where}" if count > 1 else "")
                rates = [median(results[side]) for side in SCHEMAS]
                rows.append((name, *rates, *[trips[side] if delayed else "" for side in SCHEMAS]))
                target = 0.6 if where == EACH else 0.4 if call == "log" else None
                report.compare(f"{name}{title}", results[ENGRAM], results[BARE], "at least" if target else None, target)
                print(f"  {name}{title}: {rates[0]:.0f} {rates[1]:.0f}", file=sys.stderr, flush=True)
    head = ("", *(f"{side}/s" for side in SCHEMAS), *("its trips" if delayed else "" for _ in SCHEMAS))
    report.table(f"calls per second, by number of processes{title}", head, rows)


def _side(
    crew: Crew, side: str, delayed: bool, call: str, where: str, count: int, seconds: float
) -> Callable[[], float]:
    def run() -> float:
        runs = [(Run(side, delayed, call, workspace(where, number), seconds),) for number in range(count)]
        results: list[Done] = crew.each("run", runs)
        return sum(done.calls / done.seconds for done in results)

    return run


def _warm(crew: Crew, wire: Wire, call: str, delayed: bool) -> dict[str, float]:
    """Let every process prepare its statements; the round trips of a call, counted with one process."""
    trips = {}
    for side in SCHEMAS:
        runs = [(Run(side, delayed, call, workspace(EACH, number), 0, WARM),) for number in range(max(PROCESSES))]
        crew.each("run", runs)
        before = wire.trips
        crew.each("run", [(runs[0][0]._replace(calls=20),)])
        trips[side] = (wire.trips - before) / 20
    return trips


def check_counts(url: str) -> None:
    """Check that nothing was written twice or left out: every exchange and memory is in the feed once."""
    for schema in SCHEMAS.values():
        with connect(url, schema) as connection:
            for what, table in (("exchange", "exchanges"), ("memory", "memories")):
                sql = f"SELECT (SELECT COUNT(*) FROM {table}), (SELECT COUNT(*) FROM changes WHERE what = '{what}')"
                ((rows, noted),) = connection.execute(sql.encode()).fetchall()
                if rows != noted:
                    raise AssertionError(f"{schema}: {rows} {table}, {noted} in the feed")


def mixed(report: measure.Report, url: str, seconds: float) -> None:
    """Let 16 processes do a mix of all operations; deadlocks and failed calls."""
    # The time after which a process counts as hanging is then that of `make stress`.
    os.environ["ENGRAM_TEST_STRESS"] = "1"
    from tests.stress._mix import COUNTER, JOURNAL, WORKSPACES, mix
    from tests.stress._processes import Crew as Agents

    store = with_schema(url, "bench_mixed")
    with Engram(settings=load(url=store)) as eng:
        for name in WORKSPACES:
            eng.workspace(name).blocks.create(JOURNAL, max_tokens=10_000_000)
            eng.workspace(name).blocks.create(COUNTER, "0")
    agents = Agents()
    before = deadlocks(url)
    try:
        workers = [agents.start(mix, store, number, seconds) for number in range(max(PROCESSES))]
        for worker in workers:
            worker.hear()
        begun = monotonic()
        for worker in workers:
            worker.call()
        # Fails if a call of a worker failed.
        accounts = [worker.result() for worker in workers]
        took = monotonic() - begun
    finally:
        agents.end()
    found = deadlocks(url) - before
    done = sum((account.done for account in accounts), Counter[str]())
    problems = sum(len(account.problems) for account in accounts)
    report.table(
        f"mixed: {len(accounts)} processes for {took:.0f} seconds",
        ("", "calls", "calls/s", "failed", "deadlocks"),
        [("all operations", float(done.total()), done.total() / took, float(problems), float(found))],
    )
    if found or problems:
        raise AssertionError(f"{found} deadlocks and {problems} failed calls")


def deadlocks(url: str) -> int:
    """How many deadlocks the server has counted in this database."""
    with connect(url, "public") as connection:
        sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ((count,),) = connection.execute(sql.encode()).fetchall()
    return int(count)


@contextmanager
def working(url: str, wire: Wire) -> Iterator[Crew]:
    """The processes, in workspaces that have turns already."""
    for schema in SCHEMAS.values():
        Engram(settings=load(url=with_schema(url, schema), embedder="none")).close()
    crew = Crew(max(PROCESSES), url, wire.url)
    try:
        yield crew
    finally:
        crew.close()


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--mixed", type=float, metavar="SECONDS", help="how long the mix of operations runs")
    parser.add_argument("--only-mixed", action="store_true", help="run only the mix of operations")
    chosen = parser.parse_args()
    report = measure.Report("Writes on PostgreSQL")
    rounds, seconds = (3, 0.5) if chosen.quick else (7, 1.5)
    with measure.workplace(), server() as url:
        os.environ["ENGRAM_EMBEDDER"] = "none"
        report.notes.append(settings(url))
        if not chosen.only_mixed:
            with Wire(url, DELAY) as wire, working(url, wire) as crew:
                check_rows(report, crew, url, 30 if chosen.quick else 200)
                for where in (EACH, ONE):
                    turns = [TURNS if where == EACH or number == 0 else 0 for number in range(max(PROCESSES))]
                    crew.each("begin", [(workspace(where, number), turns[number]) for number in range(len(turns))])
                for delayed in (False, True):
                    measured(report, crew, wire, delayed=delayed, rounds=rounds, seconds=seconds)
            check_counts(url)
        try:
            mixed(report, url, (5.0 if chosen.quick else 120.0) if chosen.mixed is None else chosen.mixed)
        finally:
            # What was measured before is not lost if the mix fails.
            report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
