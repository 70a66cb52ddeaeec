"""How many agents one machine carries on PostgreSQL.

N simulated agents work at the same time, through the library (each process has its own connections, as the hooks and
MCP servers of agents do) and through `engram serve`. Per minute an agent makes the calls of a real one at work. The
numbers come from 48 recorded sessions of coding agents (`../shared/coding/dev.jsonl`: 442 prompts, 1,136 messages and
1,943 tool calls in 756 minutes of work; a pause counts as at most two minutes).

The calls arrive at random times, however long earlier ones take. The time of a call counts from the moment at which it
was due, so calls that queue up are not hidden. N is doubled until the 95th percentile of a whole step exceeds 250 ms,
or calls are left over at its end; then the range is halved. A number that fails is tried twice. The agents, the server
and PostgreSQL share this machine. All agents are in one workspace (`--workspaces` spreads them), which is the harder
case.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from statistics import median, quantiles
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple

from engram import Engram

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench._postgres import server, with_schema
else:
    import _measure as measure
    from _postgres import server, with_schema

#: Calls of one agent per minute of work. A tool call is logged; a prompt is stored and recalls; a message is stored.
PER_MINUTE = {"log": 2.57, "prompt": 0.58, "message": 1.50, "heartbeat": 1.0, "sitrep": 0.2}
#: The most that the 95th percentile may be, in seconds.
LIMIT = 0.250
#: Processes that the agents share, and calls that one process makes at the same time.
PROCESSES, THREADS = 4, 16
FIRST = 200
#: Seconds at the beginning of a step whose calls do not count: connections open, and modules are loaded.
WARM_UP = 3.0
WORDS = ("router", "deploy", "cache", "invoice", "parser", "schema", "queue", "token", "harbour", "index", "limits")


class Step(NamedTuple):
    """What a number of agents gave."""

    agents: int
    #: Calls per second that were made, and seconds of each.
    rate: float
    times: list[float]
    #: Calls that were due and not done at the end.
    left: int
    failed: int

    @property
    def slow(self) -> float:
        """The 95th percentile in seconds."""
        return quantiles(self.times, n=20)[-1] if len(self.times) > 1 else float("inf")

    @property
    def carried(self) -> bool:
        return self.slow <= LIMIT and self.left == 0 and self.failed == 0


class Agents:
    """The agents of one process."""

    def __init__(self, eng: Engram, number: int, count: int, workspaces: int) -> None:
        self._random = random.Random(number)
        self._agents = []
        for each in range(count):
            view = eng.workspace(f"team-{(number + each * PROCESSES) % workspaces}")
            self._agents.append(
                (view, view.sessions.register("bench", f"Porting the {self._some(1)} of module {each}"))
            )

    def run(self, seconds: float) -> tuple[list[float], int, int]:
        """Make the calls of so many seconds; their times, how many were left over, and how many failed."""
        due: queue.SimpleQueue[tuple[float, Callable[[], object]] | None] = queue.SimpleQueue()
        times: list[float] = []
        failures: list[Exception] = []
        counts = monotonic() + WARM_UP
        end = counts + seconds

        def work() -> None:
            while (given := due.get()) is not None:
                at, call = given
                if monotonic() > end + 2:
                    failures.append(TimeoutError())
                    continue
                try:
                    call()
                    if at >= counts:
                        times.append(monotonic() - at)
                except Exception as error:
                    failures.append(error)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        rate = len(self._agents) * sum(PER_MINUTE.values()) / 60
        at = monotonic() + self._random.expovariate(rate)
        while at < end:
            sleep(max(0.0, at - monotonic()))
            due.put((at, self._call()))
            at += self._random.expovariate(rate)
        for _ in threads:
            due.put(None)
        for thread in threads:
            thread.join()
        left = sum(isinstance(each, TimeoutError) for each in failures)
        return times, left, len(failures) - left

    def _call(self) -> Callable[[], object]:
        eng, sid = self._random.choice(self._agents)
        (what,) = self._random.choices(list(PER_MINUTE), list(PER_MINUTE.values()))
        text = f"The {self._some(6)} needs {self._random.randrange(10_000)}."
        match what:
            case "log":
                return lambda: eng.sessions.log(sid, f"edited src/{text}")
            case "heartbeat":
                return lambda: eng.sessions.heartbeat(sid)
            case "sitrep":
                return lambda: eng.sitrep(session_id=sid, budget=1_000)
            case "message":
                return lambda: eng.exchanges.add(sid, "assistant", text, embed=False)
        return lambda: (eng.exchanges.add(sid, "user", text, embed=False), eng.recall(text, 5, mode="words"))

    def _some(self, count: int) -> str:
        return " ".join(self._random.choices(WORDS, k=count))


def work(line: Connection, url: str, token: str, number: int, count: int, workspaces: int, seconds: float) -> None:
    """One process of agents: prepares, waits for the start, reports."""
    with Engram(url, token=token or None) as eng:
        agents = Agents(eng, number, count, workspaces)
        line.send("ready")
        line.recv()
        line.send(agents.run(seconds))


def step(url: str, token: str, agents: int, workspaces: int, seconds: float) -> Step:
    context = multiprocessing.get_context("spawn")
    lines, processes = [], []
    for number in range(PROCESSES):
        ours, theirs = context.Pipe()
        count = agents // PROCESSES + (number < agents % PROCESSES)
        given = (theirs, url, token, number, count, workspaces, seconds)
        processes.append(context.Process(target=work, args=given, daemon=True))
        lines.append(ours)
        processes[-1].start()
    for line in lines:
        assert line.recv() == "ready"
    for line in lines:
        line.send("go")
    results = [line.recv() for line in lines]
    for process in processes:
        process.join()
    times = [each for result in results for each in result[0]]
    left, failed = (sum(result[column] for result in results) for column in (1, 2))
    return Step(agents, len(times) / seconds, times, left, failed)


def search(url: str, token: str, workspaces: int, seconds: float, budget: float, first: int) -> list[Step]:
    """Steps until the limit is found as closely as the time allows."""
    until = monotonic() + budget
    steps: list[Step] = []
    agents, good, bad = first, 0, 0
    while monotonic() < until:
        steps.append(step(url, token, agents, workspaces, seconds))
        if not steps[-1].carried and monotonic() < until:
            # Once more: another program may have been busy.
            steps.append(step(url, token, agents, workspaces, seconds))
        if steps[-1].carried:
            good = agents
        else:
            bad = agents
        # Within a tenth is close enough: two runs differ by more.
        if bad and bad - good <= max(2, good // 10):
            break
        agents = (good + bad) // 2 if bad else 2 * agents
    return steps


@contextmanager
def served(store: str, workers: int) -> Iterator[str]:
    """The address of `engram serve` on the store."""
    import json

    command = [
        sys.executable,
        "-m",
        "engram",
        "serve",
        "--json",
        "--port",
        "0",
        "--workers",
        str(workers),
        "--no-dream",
    ]
    environ = {**os.environ, "ENGRAM_URL": store}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ)
    assert process.stdout is not None
    try:
        url = json.loads(process.stdout.readline())["url"]
        # The workers start after the line that says where.
        while not answers(f"{url}/ready"):
            assert process.poll() is None, "the server did not start"
            sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def answers(url: str) -> bool:
    from urllib.error import URLError
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def rows(steps: list[Step]) -> list[list[str | float]]:
    return [
        [
            f"{each.agents} agents",
            each.rate,
            median(each.times) * 1000 if each.times else float("nan"),
            each.slow * 1000,
            float(each.left + each.failed),
            "yes" if each.carried else "no",
        ]
        for each in sorted(steps, key=lambda each: each.agents)
    ]


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--workspaces", type=int, default=1, help="spread the agents over so many workspaces")
    parser.add_argument("--workers", type=int, default=2, help="processes of the server")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a step")
    parser.add_argument("--first", type=int, default=FIRST, help="agents of the first step")
    chosen = parser.parse_args()
    # All of it within five minutes.
    seconds, budget = (1.0, 4.0) if chosen.quick else (chosen.seconds, 130.0)
    report = measure.Report("Agents that one machine carries on PostgreSQL")
    report.notes.append(f"agents, server and PostgreSQL on one machine; {chosen.workspaces} workspace(s)")
    head = ("", "calls/s", "p50 ms", "p95 ms", "not done", "carried")
    given = os.environ.get("ENGRAM_BENCH_POSTGRES")
    with measure.workplace(), nullcontext(given) if given else server() as database:
        for name, over_http in (("library", False), (f"engram serve, {chosen.workers} workers", True)):
            store = with_schema(database, f"agents_{'served' if over_http else 'direct'}_{os.getpid()}")
            with Engram(store) as eng:
                token = eng.access.tokens.create("bench", "write").secret if over_http else ""
            if over_http:
                with served(store, chosen.workers) as url:
                    steps = search(url, token, chosen.workspaces, seconds, budget, chosen.first)
            else:
                steps = search(store, "", chosen.workspaces, seconds, budget, chosen.first)
            carried = max((each.agents for each in steps if each.carried), default=0)
            report.table(f"through {name}: {carried} agents with p95 up to {LIMIT * 1000:.0f} ms", head, rows(steps))
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
