"""The HTTP server under load: requests per second, event streams, memory.

**Calls.** 32 clients call `sitrep`, `session.log` and `recall` over loopback, each on a connection of its own, one
request after the other. They are compared with the same calls in process, and with the least that a Python server can
do: a FastAPI application whose only route is a *synchronous* function that answers a constant, under the same uvicorn
with the same event loop and parser. Both servers run one worker. The sides alternate in short rounds, so that all see
the same machine. Client and server share two cores, and the client is Python too, so the absolute numbers are low.

**Event streams.** 500 streams are opened and stay idle; then one change is made. Reported are the processor time of the
server per second meanwhile, and how long the last stream took to get the change.

**Memory.** The memory of the server after 2,000 requests and after 100,000 (`--requests`).

The store is small, as most are: 200 sessions of twenty days, 10 of them at work, 2,000 turns, 500 memories.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, sleep
from typing import TYPE_CHECKING, NamedTuple

from engram import Engram

if TYPE_CHECKING:
    from bench import _measure as measure
else:
    import _measure as measure

CLIENTS = 32
STREAMS = 500
SITREP, LOG, RECALL, BARE = "sitrep", "session.log", "recall", "bare route"
_BARE = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/")
def answer() -> dict[str, str]:
    return {"result": "constant"}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="critical",
            access_log=False)
"""


class Load(NamedTuple):
    """What a round of requests gave."""

    per_second: float
    #: Milliseconds for one request.
    middle: float
    slowest_percent: float


def filled(path: str) -> tuple[Engram, str]:
    """A store, and a session that logs."""
    eng = Engram(path)
    words = ["router", "deploy", "cache", "invoice", "parser", "schema", "queue", "token", "harbour", "index"]
    for number in range(200):
        # Ten sessions a day; the last ten have just begun.
        at = None if number >= 190 else moment(timedelta(hours=(190 - number) * 2.4))
        sid = eng.sessions.register("codex", f"Porting the {words[number % 10]} of module {number}", at=at)
        turns = [
            {"session_id": sid, "role": ("user", "assistant")[n % 2], "content": f"{words[n]} {number} needs {n}"}
            for n in range(10)
        ]
        eng.exchanges.add_many(turns)
        if at is not None:
            eng.sessions.complete(sid, f"Ported module {number}", at=at)
    for number in range(500):
        eng.remember(f"The {words[number % 10]} number {number} listens on port {5000 + number}", kind="fact")
    return eng, eng.sessions.register("codex", "Load")


def moment(before: timedelta) -> str:
    """The time so long ago."""
    return (datetime.now(UTC) - before).strftime("%Y-%m-%dT%H:%M:%SZ")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def running(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from the moment when it listens."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = perf_counter() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if perf_counter() > until or server.poll() is not None:
                    raise
                sleep(0.05)
        yield server
    finally:
        server.terminate()
        server.wait(30)


def request(method: str, path: str, token: str = "", body: object = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: {len(content)}\r\n"
    head += "Content-Type: application/json\r\n" if content else ""
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    return f"{head}\r\n".encode() + content


async def hammer(port: int, sent: bytes, seconds: float, most: int | None = None) -> Load:
    """32 clients that send the same request again and again."""
    sent = sent.replace(b"PORT", b"%d" % port)
    times: list[float] = []
    begun = perf_counter()
    until = begun + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while perf_counter() < until and (most is None or len(times) < most):
                at = perf_counter()
                writer.write(sent)
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(f"the server answered {head[:200]!r}")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                times.append(perf_counter() - at)
        finally:
            writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    took = perf_counter() - begun
    return Load(len(times) / took, 1000 * median(times), 1000 * quantiles(times, n=100)[98])


def in_process(call: Callable[[], object], seconds: float) -> Load:
    times: list[float] = []
    begun = perf_counter()
    while perf_counter() - begun < seconds:
        at = perf_counter()
        call()
        times.append(perf_counter() - at)
    took = perf_counter() - begun
    return Load(len(times) / took, 1000 * median(times), 1000 * quantiles(times, n=100)[98])


async def watch(
    port: int, token: str, change: Callable[[], object], idle: float, cpu: Callable[[], float]
) -> list[float]:
    """Open the streams, leave them idle, make a change: how many, processor time per second, seconds of the last."""
    sent = request("GET", "/api/v1/events", token).replace(b"PORT", b"%d" % port)
    streams = []
    for _ in range(STREAMS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the server answered {head[:200]!r}")
        streams.append((reader, writer))
    await asyncio.sleep(1)
    before, at = cpu(), perf_counter()
    await asyncio.sleep(idle)
    used = (cpu() - before) / (perf_counter() - at)

    async def first_event(reader: asyncio.StreamReader) -> float:
        while b"event: " not in await reader.readline():
            pass
        return perf_counter()

    waiting = [asyncio.ensure_future(first_event(reader)) for reader, _ in streams]
    await asyncio.sleep(0)
    made = perf_counter()
    change()
    arrived = await asyncio.wait_for(asyncio.gather(*waiting), 30)
    for _, writer in streams:
        writer.close()
    return [float(len(streams)), used, max(arrived) - made]


def processor_time(server: subprocess.Popen[bytes]) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(server: subprocess.Popen[bytes]) -> float:
    """Megabytes of memory that a process has."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of load for each side")
    parser.add_argument("--requests", type=int, default=100_000, help="requests after which memory is compared")
    asked = parser.parse_args()
    rounds, seconds = (3, 1.0) if asked.quick else (8, asked.seconds / 8)
    requests = 4_000 if asked.quick else asked.requests
    report = measure.Report("The HTTP server, 32 clients on loopback")
    with measure.workplace() as folder:
        eng, sid = filled(f"{folder}/engram.db")
        token = eng.access.tokens.create("bench", "write").secret
        port, bare = free_port(), free_port()
        serve = [sys.executable, "-m", "engram", "serve", "--port", str(port), "--no-dream"]
        question = "which port does the harbour use?"
        sent = {
            SITREP: request("GET", "/api/v1/sitrep", token),
            LOG: request("POST", "/api/v1/session/log", token, {"session": sid, "text": "a step"}),
            RECALL: request("POST", "/api/v1/recall", token, {"query": question}),
        }
        calls: dict[str, Callable[[], object]] = {
            SITREP: lambda: eng.sitrep(),
            LOG: lambda: eng.sessions.log(sid, "a step"),
            RECALL: lambda: eng.recall(question),
        }
        with running(serve, port) as server, running([sys.executable, "-c", _BARE, str(bare)], bare):
            loads: dict[str, list[Load]] = {}

            def over_http(name: str) -> float:
                at, what = (bare, request("GET", "/")) if name == BARE else (port, sent[name])
                loads.setdefault(name, []).append(asyncio.run(hammer(at, what, seconds)))
                return loads[name][-1].per_second

            def locally(name: str) -> float:
                loads.setdefault(f"{name}, in process", []).append(in_process(calls[name], seconds))
                return loads[f"{name}, in process"][-1].per_second

            for name in (BARE, *sent):
                over_http(name)
            loads.clear()
            sides = {name: lambda name=name: over_http(name) for name in (BARE, *sent)}
            sides |= {f"{name}, in process": lambda name=name: locally(name) for name in calls}
            results = measure.alternate(sides, rounds)
            rows = [
                (name, *(median(getattr(load, figure) for load in loads[name]) for figure in Load._fields))
                for name in sides
            ]
            report.table("calls", ("", "per second", "p50 ms", "p99 ms"), rows)
            for name in sent:
                bound = ("at least", 0.5) if name != RECALL else (None, None)
                report.compare(f"{name} / {BARE}, requests per second", results[name], results[BARE], *bound)
            for name in sent:
                report.compare(f"{name} / in process, calls per second", results[name], results[f"{name}, in process"])

            idle = 2.0 if asked.quick else 10.0
            used = lambda: processor_time(server)  # noqa: E731
            streams = asyncio.run(watch(port, token, lambda: eng.world.set("changed"), idle, used))
            report.table(
                "event streams",
                ("", "open", "cpu %, idle", "last, ms"),
                [("", streams[0], 100 * streams[1], 1000 * streams[2])],
            )
            asyncio.run(hammer(port, sent[SITREP], 600, requests // 50))
            first = memory(server)
            asyncio.run(hammer(port, sent[SITREP], 600, requests // 2))
            asyncio.run(hammer(port, sent[LOG], 600, requests // 2))
            last = memory(server)
            report.table("memory, MB", ("", "at first", f"{requests:,} later"), [("", first, last)])
        eng.close()
    report.show(as_json=asked.json)


if __name__ == "__main__":
    main()
