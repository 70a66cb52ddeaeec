"""The MCP server as a harness uses it: `engram mcp` over pipes, with the static embedder and a store on disk.

It measures:

- the time from starting the process to the answer of `tools/list`, next to a bare Python and to the SDK with one tool;
- the first `remember` of a new server, counted from the moment when the SDK is imported;
- `remember` and hybrid `recall` at two sizes of store, next to the same work through the library in one process;
- hybrid `recall` with MiniLM, which compares the best candidates token by token: for new questions, and asked again;
- four servers that write to one store at once, after which every row is counted;
- memory.

`--first` measures only the first `remember`, `--minilm` only recall with MiniLM.

`--transports` measures only `early.py` and `lines.py`: `engram mcp` next to the same server on the SDK's own transport
for standard input and output, which answers nothing before the SDK is imported.

The client sends JSON over a pipe, so no client library is measured. Each call waits for its answer. The targets are
absolute times; the ratios show how much of them the protocol takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from engram import Engram
from engram.config import load
from engram.embedding import load as load_embedder
from engram.errors import MissingExtra

if TYPE_CHECKING:
    from bench import _measure as measure
else:
    import _measure as measure

WRITERS, WRITES = 4, 500
BATCH = 25
CALLS = ("remember", "recall")
QUESTIONS = 40

#: Parts of many different sentences that share words, like notes about one project.
SUBJECTS = ("router", "scheduler", "importer", "migration", "cache", "parser", "deploy", "invoice", "search", "index")
VERBS = ("breaks", "needs", "drops", "retries", "blocks", "renames", "loads", "skips", "doubles", "checks")
OBJECTS = (
    "headers on Fridays",
    "the staging schema",
    "empty rows",
    "the token budget",
    "old sessions",
    "a second lock",
)

BARE_SDK = """
import anyio
from mcp.server.mcpserver import MCPServer
server = MCPServer("bare")
@server.tool()
def echo(text: str) -> str:
    "Give it back."
    return text
anyio.run(server.run_stdio_async)
"""

#: Engram's server without `stdio.py`, `early.py` and `lines.py`.
SDK_TRANSPORT = """
import sys
import anyio
from mcp.server.stdio import stdio_server
from engram.client import Engram
from engram.config import load
from engram.interfaces.mcp.host import Host
from engram.interfaces.mcp.server import build
host = Host(lambda: Engram(settings=load(url=sys.argv[1])))
async def main():
    server = build(host)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
host.work_in_background()
anyio.run(main)
host.close()
"""
OURS, THEIRS = "engram mcp", "on the SDK's transport"


class Client:
    """The client at the harness's end of the pipe."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._ids = count(1)

    def open(self) -> None:
        info = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: object) -> Any:
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if answer.get("isError"):
            raise AssertionError(answer)
        return answer["structuredContent"]["result"]

    def ask(self, method: str, params: dict[str, object] | None = None) -> Any:
        id = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})})
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        if answer.get("id") != id or "error" in answer:
            raise AssertionError(answer)
        return answer["result"]

    def await_sdk(self) -> None:
        """Wait until the SDK answers. It refuses a tool that does not exist, without opening the store."""
        self.send({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "nothing"}})
        assert self.process.stdout is not None
        if "error" not in json.loads(self.process.stdout.readline()):
            raise AssertionError("there is a tool with the name nothing")

    def send(self, message: dict[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.process.wait(timeout=10) != 0:
            raise AssertionError(f"the server ended with {self.process.returncode}")


def engram_command(store: str) -> list[str]:
    return [os.path.join(sysconfig.get_path("scripts"), "engram"), "mcp", "--store", store]


def cold(command: list[str], environment: dict[str, str]) -> float:
    """Seconds from starting the process to the answer of `tools/list`."""
    begun = perf_counter()
    client = Client(command, environment)
    client.open()
    if not client.ask("tools/list")["tools"]:
        raise AssertionError("no tools")
    seconds = perf_counter() - begun
    client.close()
    return seconds


def first_call(store: str, environment: dict[str, str]) -> float:
    """Seconds from starting the process to the answer of the first tool call, which loads the SDK."""
    begun = perf_counter()
    client = Client(engram_command(store), environment)
    client.open()
    client.call("sitrep")
    seconds = perf_counter() - begun
    client.close()
    return seconds


def first_remember(store: str, environment: dict[str, str]) -> float:
    """Seconds of the first `remember` of a server whose SDK has just been imported."""
    client = Client(engram_command(store), environment)
    client.open()
    client.await_sdk()
    seconds = timed(lambda: client.call("remember", text=sentence(next(_FIRST))))
    client.close()
    return seconds


def bare_python(environment: dict[str, str]) -> float:
    begun = perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=environment, check=True)
    return perf_counter() - begun


def sentence(number: int) -> str:
    parts = SUBJECTS[number % 10], VERBS[number // 10 % 10], OBJECTS[number // 100 % 6]
    return f"The {' '.join(parts)} since change {number}"


_FIRST = count(2_000_000)


def paragraph(number: int) -> str:
    """A memory of about 190 characters."""
    return ". ".join(sentence(number * factor) for factor in (1, 7, 31, 83))


def question(number: int) -> str:
    return f"which {SUBJECTS[number % 10]} {VERBS[number // 10 % 10]} something?"


def fill(store: str, size: int, embedder: str = "static", text: Callable[[int], str] = sentence) -> None:
    with Engram(settings=load(url=store, embedder=embedder)) as eng:
        for start in range(0, size, 500):
            with eng.write():
                for number in range(start, min(start + 500, size)):
                    eng.remember(text(number), kind="fact")


def timed(call: Callable[[], object]) -> float:
    begun = perf_counter()
    call()
    return perf_counter() - begun


def batch(call: Callable[[], object]) -> float:
    """The median seconds of a call in a batch. Calls of different agents seldom alternate one by one."""
    return median(timed(call) for _ in range(BATCH))


def calls(store: str, rounds: int, environment: dict[str, str]) -> dict[str, list[float]]:
    """Remember and recall through a server and the library, in alternating batches; the median of each batch."""
    client = Client(engram_command(store), environment)
    client.open()
    client.call("sitrep", summary="Measuring")
    number = count(1_000_000)
    with Engram(store) as eng:
        sides = {
            "remember": lambda: batch(lambda: client.call("remember", text=sentence(next(number)))),
            "remember, library": lambda: batch(lambda: eng.remember(sentence(next(number)))),
            "recall": lambda: batch(lambda: client.call("recall", query=question(next(number)))),
            "recall, library": lambda: batch(lambda: eng.recall(question(next(number)))),
        }
        measure.alternate(sides, 1)
        results = measure.alternate(sides, rounds)
    results["resident"] = [resident(client.process.pid)]
    client.close()
    return results


def with_minilm(store: str, size: int, environment: dict[str, str]) -> tuple[list[float], list[float], float]:
    """The seconds of recalls over MCP with MiniLM: of new questions and of the same ones again, and the memory held."""
    fill(store, size, "minilm", paragraph)
    client = Client(engram_command(store), environment)
    client.open()
    asked = [f"{question(number)} Was it change {number * 37 % size}?" for number in range(QUESTIONS)]
    client.call("recall", query="what is ready?")
    took = [[timed(partial(client.call, "recall", query=each)) for each in asked] for _ in range(2)]
    held = resident(client.process.pid)
    client.close()
    return took[0], took[1], held


def resident(process: int) -> float:
    """Resident memory of a process in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def writers(store: str, environment: dict[str, str], writes: int) -> list[float]:
    """Let four servers write at once and check that every row is stored; the seconds of each write."""
    clients = [Client(engram_command(store), environment) for _ in range(WRITERS)]
    for client in clients:
        client.open()
        client.call("sitrep", summary="Writing")
        client.call("remember", text=f"ready {client.process.pid}", kind="ready")
    together = threading.Barrier(WRITERS)
    took: list[list[float]] = [[] for _ in clients]
    failures: list[BaseException] = []

    def write(place: int) -> None:
        together.wait()
        try:
            for number in range(writes):
                write_one = partial(clients[place].call, "remember", text=f"{place}: {sentence(number)}", kind="w")
                took[place].append(timed(write_one))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(place,)) for place in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    with Engram(store) as eng:
        kept = len(eng.memories.list(kind="w"))
    if failures or kept != WRITERS * writes:
        raise AssertionError(f"{kept} of {WRITERS * writes} rows, {failures}")
    return [seconds for each in took for seconds in each]


def transports(report: measure.Report, folder: str, rounds: int, environment: dict[str, str]) -> None:
    """What `early.py` and `lines.py` are worth: `engram mcp` beside the same server on the SDK's own transport.

    The call only reads. The time of a write is the store's, whatever the transport.
    """
    store = os.path.join(folder, "transports.db")
    fill(store, 100)
    commands = {OURS: engram_command(store), THEIRS: [sys.executable, "-c", SDK_TRANSPORT, store]}
    starts = measure.alternate({name: partial(cold, each, environment) for name, each in commands.items()}, rounds)
    clients = {name: Client(command, environment) for name, command in commands.items()}
    for client in clients.values():
        client.open()
        client.call("sitrep", summary="Measuring")

    def look(client: Client) -> float:
        return batch(lambda: client.call("session", action="list"))

    measure.alternate({name: partial(look, each) for name, each in clients.items()}, 1)
    looked = measure.alternate({name: partial(look, each) for name, each in clients.items()}, rounds)
    for client in clients.values():
        client.close()
    rows = [(n, median(starts[n]) * 1e3, median(looked[n]) * 1e3) for n in commands]
    head = ("", "tools/list", "list")
    report.table("what early.py and lines.py are worth, ms", head, rows)
    report.compare("tools/list: our transport / the SDK's", starts[OURS], starts[THEIRS])
    report.compare("list sessions: our transport / the SDK's", looked[OURS], looked[THEIRS])


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--first", action="store_true", help="only the first remember")
    parser.add_argument("--minilm", action="store_true", help="only recall with MiniLM")
    parser.add_argument("--transports", action="store_true", help="only our transport beside the SDK's")
    chosen = parser.parse_args()
    rounds = 5 if chosen.quick else 15
    report = measure.Report("MCP server")
    with measure.workplace() as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        models = {name: {**environment, "ENGRAM_EMBEDDER": name} for name in _installed("static", "minilm")}
        if chosen.first or chosen.minilm:
            if chosen.first:
                report_first(report, folder, models, rounds)
            if chosen.minilm and "minilm" in models:
                report_minilm(report, folder, models["minilm"], quick=chosen.quick)
            report.show(as_json=chosen.json)
            return
        transports(report, folder, rounds, environment)
        if chosen.transports:
            report.show(as_json=chosen.json)
            return
        report_first(report, folder, models, rounds)
        small = os.path.join(folder, "small.db")
        sides = {
            "engram mcp": partial(cold, engram_command(small), environment),
            "the bare SDK": partial(cold, [sys.executable, "-c", BARE_SDK], environment),
            "python -c pass": partial(bare_python, environment),
            "engram mcp, first call": partial(first_call, small, environment),
        }
        measure.alternate(sides, 1)  # once for the disk's cache
        starts = measure.alternate(sides, rounds)
        report.table(
            "start to answered tools/list, ms (aim: 1,000)",
            ("", "median", "fastest"),
            [(name, median(took) * 1e3, min(took) * 1e3) for name, took in starts.items()],
        )
        report.compare("tools/list: engram mcp / the bare SDK", starts["engram mcp"], starts["the bare SDK"])
        rows: list[tuple[str | float, ...]] = []
        for size in (1_000, 2_000) if chosen.quick else (1_000, 10_000):
            store = os.path.join(folder, f"{size}.db")
            fill(store, size)
            took = calls(store, 5 if chosen.quick else 11, environment)
            for side, memory in (("", f"{took['resident'][0]:.0f}"), (", library", "")):
                times = [median(took[name + side]) * 1e3 for name in CALLS]
                rows.append((f"{size:,} memories{side}", *times, memory))
            for name in CALLS:
                report.compare(f"{name} at {size:,}: over MCP / library", took[name], took[f"{name}, library"])
        report.table("a call, median ms (aim: 2 to remember, 10 to recall)", ("", *CALLS, "MB held"), rows)
        if "minilm" in models:
            report_minilm(report, folder, models["minilm"], quick=chosen.quick)
        report.table(*_together(writers(os.path.join(folder, "four.db"), environment, 50 if chosen.quick else WRITES)))
    report.show(as_json=chosen.json)


def report_first(report: measure.Report, folder: str, models: dict[str, dict[str, str]], rounds: int) -> None:
    sides = {name: partial(first_remember, os.path.join(folder, f"first-{name}.db"), models[name]) for name in models}
    measure.alternate(sides, 1)  # once for the disk's cache
    took = measure.alternate(sides, rounds)
    report.table(
        "the first remember after the SDK is imported, ms (aim: 300)",
        ("", "median", "fastest", "slowest"),
        [(name, median(each) * 1e3, min(each) * 1e3, max(each) * 1e3) for name, each in took.items()],
    )


def report_minilm(report: measure.Report, folder: str, environment: dict[str, str], *, quick: bool) -> None:
    rows: list[tuple[str | float, ...]] = []
    for size in (200, 500) if quick else (1_000, 10_000):
        new, again, held = with_minilm(os.path.join(folder, f"minilm-{size}.db"), size, environment)
        rows.append((f"{size:,} memories", median(new) * 1e3, min(new) * 1e3, median(again) * 1e3, f"{held:.0f}"))
    head = ("", "median", "fastest", "again", "MB held")
    report.table("hybrid recall with MiniLM, new questions and the same again, ms (aim: 60)", head, rows)


def _installed(*names: str) -> list[str]:
    """The embedders of these that are installed."""
    found = []
    for name in names:
        try:
            load_embedder(name)
        except MissingExtra:
            continue
        found.append(name)
    return found


def _together(took: list[float]) -> tuple[str, tuple[str, ...], list[tuple[str | float, ...]]]:
    slowest = sorted(took)[int(len(took) * 0.95)]
    title = f"{WRITERS} servers, {len(took) // WRITERS} writes each, all at once, ms (aim: 5); nothing lost, no error"
    return title, ("", "median", "p95", "slowest"), [("remember", median(took) * 1e3, slowest * 1e3, max(took) * 1e3)]


if __name__ == "__main__":
    main()
