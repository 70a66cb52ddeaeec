"""The pages of the dashboard on a large store: how long the server takes for each.

**The store** has 100,000 turns in 2,000 sessions of a year (one of them has 5,000 turns), 5,000 memories of all kinds
with versions and states, 1,500 gists, 12 eras, blocks with 200 versions, 100 passes of dreaming, 50 proposals, and 40
sessions at work with 60 leases and 300 messages (`_dashboard.py`).

**Pages.** Every page in `PAGES` of interfaces/web/routes.py is loaded from a real `engram serve` on loopback by a
client that is logged in as a browser is, one request after the other. A page with parameters needs a sample address
here. The addresses alternate in rounds, and the first rounds do not count. *first* is the first load after the start of
the server, *median* and *p95* are of the later ones, from the request to the last byte of the answer. *processor* is
the processor time of the server, which a busy machine changes less. The ratio is to the page Now of an empty workspace:
the login, the frame and the navigation are the same there.

**Search.** A page with results takes as long as `recall` and little more. It is compared with `recall` of the same
question in this process. The two alternate.

`--store FOLDER` keeps the store there for another run. Its sessions at work count as at work for some minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

import psycopg

from engram import Engram
from engram.clock import Clock
from engram.config import load
from engram.interfaces.web.routes import PAGES

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.interfaces._browser import Browser

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench._dashboard import FULL, SMALL, Samples, Size, Year
    from bench._postgres import server as postgres_server
    from bench._postgres import with_schema
    from bench.server import free_port, running
else:
    import _measure as measure
    from _dashboard import FULL, SMALL, Samples, Size, Year
    from _postgres import server as postgres_server
    from _postgres import with_schema
    from server import free_port, running

#: Milliseconds: of a page, and of the search page beyond `recall`.
PAGE, SEARCH = 150.0, 60.0
WARM = 3
EMPTY = "an empty workspace"
#: What the search page asks `recall` for.
RESULTS = 20
_Query = dict[str, object]


class Address(NamedTuple):
    name: str
    #: Below `/w/WORKSPACE/`.
    path: str
    #: The question, if recall answers it.
    asked: str | None = None


def addresses(samples: Samples) -> list[Address]:
    """Addresses of every page that there is."""
    asked_for: list[tuple[str, _Query]] = [(f"{len(each.split())} words", {"q": each}) for each in samples.questions]
    queries: dict[str, list[tuple[str, _Query]]] = {
        "search": [("latest", {}), *asked_for],
        "memory": [
            ("brief", {"project": samples.project}),
            ("brief, 3 months ago", {"project": samples.project, "at": samples.earlier}),
            ("all", {"view": "all"}),
            ("all, gists", {"view": "all", "kind": "gist"}),
            ("all, a tag", {"view": "all", "tag": "build"}),
            ("all, a project", {"view": "all", "project": samples.project}),
            ("all, archived", {"view": "all", "status": "archived"}),
            ("all, 3 months ago", {"view": "all", "at": samples.earlier}),
            ("waiting", {"view": "waiting"}),
        ],
        "time": [
            ("30 days", {}),
            ("90 days", {"days": 90}),
            ("a year", {"days": 365}),
            ("a year, by agent", {"days": 365, "by": "type"}),
            ("a project", {"project": samples.project}),
            ("an agent, a day", {"type": "codex", "day": samples.day}),
        ],
        "graph": [
            ("beginning", {}),
            ("session", {"kind": "session", "id": samples.session}),
            ("memory", {"kind": "memory", "id": samples.memory}),
            ("file", {"kind": "file", "id": samples.file}),
            ("block", {"kind": "block", "id": samples.block}),
        ],
        "dreams": [
            ("proposals", {}),
            ("due", {"view": "due"}),
            ("passes", {"view": "passes"}),
            ("numbers", {"view": "numbers"}),
        ],
    }
    values: dict[str, object] = {
        "blocks/{name:path}": samples.block,
        "dreams/{id}": samples.dream,
        "sessions/{id:path}": samples.session,
        "memories/{id}": samples.memory,
    }
    found = []
    for template in PAGES:
        path = template
        if "{" in template:
            if template not in values:
                raise SystemExit(f"bench/pages.py has no sample for the page {template}: add one.")
            path = template.partition("{")[0] + quote(str(values[template]), safe="")
        first, _, rest = (template or "now").partition("/")
        place = first.capitalize() + (f": {'one' if '{' in rest else rest}" if rest else "")
        for name, query in queries.get(template, [("", {})]):
            shown = f"{place}: {name}" if name else place
            asked = query.get("q")
            found.append(Address(shown, f"{path}?{urlencode(query)}" if query else path, str(asked) if asked else None))
    return found


class Loaded(NamedTuple):
    """What one page took."""

    milliseconds: float
    #: Of the server.
    processor: float
    size: int


class Client:
    """A browser that is logged in, as far as loading pages goes."""

    def __init__(self, port: int, token: str, server: subprocess.Popen[bytes]) -> None:
        with Browser(f"http://127.0.0.1:{port}") as browser:
            browser.submit(browser.visit("/login"), token=token)
            cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        self._headers = {"Cookie": cookies, "Accept": "text/html", "Accept-Encoding": "gzip", "Sec-Fetch-Site": "none"}
        self._http = HTTPConnection("127.0.0.1", port, timeout=60)
        self._server = server

    def load(self, path: str) -> Loaded:
        used, begun = processor(self._server), perf_counter()
        self._http.request("GET", path, headers=self._headers)
        answer = self._http.getresponse()
        body = answer.read()
        took = perf_counter() - begun
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}")
        return Loaded(1_000 * took, 1_000 * (processor(self._server) - used), len(body))

    def close(self) -> None:
        self._http.close()


def processor(server: subprocess.Popen[bytes]) -> float:
    """Seconds of processor time that all threads of a process have used."""
    threads = Path(f"/proc/{server.pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def measured(client: Client, asked: list[Address], rounds: int) -> dict[str, list[Loaded]]:
    """Load every page once per round."""
    found: dict[str, list[Loaded]] = {}

    def load(address: Address, workspace: str) -> float:
        loaded = client.load(f"/w/{workspace}/{address.path}")
        found.setdefault(address.name, []).append(loaded)
        return loaded.milliseconds

    sides: dict[str, Callable[[], float]] = {each.name: partial(load, each, "default") for each in asked}
    sides[EMPTY] = partial(load, Address(EMPTY, ""), "empty")
    measure.alternate(sides, WARM + rounds)
    return found


def report_pages(report: measure.Report, found: dict[str, list[Loaded]], asked: list[Address]) -> None:
    searches = {each.name for each in asked if each.asked}
    least = median(each.milliseconds for each in found[EMPTY][WARM:])
    rows: list[tuple[str | float, ...]] = []
    for name, loaded in found.items():
        warm = loaded[WARM:]
        took = [each.milliseconds for each in warm]
        middle = median(took)
        rows.append(
            (
                name,
                loaded[0].milliseconds,
                middle,
                quantiles(took, n=20)[18],
                median(each.processor for each in warm),
                loaded[0].size / 1_000,
                middle / least,
                "see below" if name in searches else "PASS" if middle <= PAGE else "MISS",
            )
        )
    head = ("ms", "first", "median", "p95", "processor", "kB", "ratio", f"≤ {PAGE:g} ms")
    report.table("pages", head, rows)


def report_search(report: measure.Report, eng: Engram, client: Client, asked: list[Address], rounds: int) -> None:
    questions = [each for each in asked if each.asked]
    if not questions:
        return
    rows: list[tuple[str | float, ...]] = []
    for each in questions:
        page, recall = "page", "recall"
        sides: dict[str, Callable[[], float]] = {
            page: partial(_page, client, each.path),
            recall: partial(_recall, eng, each.asked or ""),
        }
        times = {name: took[WARM:] for name, took in measure.alternate(sides, WARM + rounds).items()}
        more = median(times[page]) - median(times[recall])
        rows.append((each.name, median(times[page]), median(times[recall]), more, "PASS" if more <= SEARCH else "MISS"))
    report.table("search", ("ms", "page", "recall", "more", f"≤ {SEARCH:g} ms"), rows)


def _page(client: Client, path: str) -> float:
    return client.load(f"/w/default/{path}").milliseconds


def _recall(eng: Engram, question: str) -> float:
    begun = perf_counter()
    eng.recall(question, RESULTS)
    return 1_000 * (perf_counter() - begun)


@contextmanager
def filled(url: str, size: Size, kept: Path | None) -> Iterator[tuple[Engram, Samples]]:
    """The store, and samples from it. With `kept`, a file with the samples, a store that is there is used."""
    clock = Clock()
    with Engram(settings=load(url=url, embedder="static"), clock=clock) as eng:
        if kept is not None and kept.exists():
            known = json.loads(kept.read_text())
            samples = Samples(**{**known, "questions": tuple(known["questions"])})
            for each in eng.sessions.active():
                eng.sessions.heartbeat(each.id)
        else:
            samples = Year(eng, clock, size).fill(said)
            if kept is not None:
                kept.write_text(json.dumps(samples._asdict()))
        yield eng, samples


def said(progress: str) -> None:
    print(f"  {progress}", file=sys.stderr, flush=True)


def run(
    report: measure.Report, url: str, size: Size, rounds: int, *, kept: Path | None = None, server: str | None = None
) -> None:
    """Measure on a store. `server` is the PostgreSQL server that has it."""
    with filled(url, size, kept) as (eng, samples):
        if server is not None:
            # Autovacuum does the same within a minute or two.
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute("ANALYZE")
        stats = eng.sessions.stats()
        report.notes.append(
            f"{stats.turns:,} turns, {stats.sessions:,} sessions, {sum(stats.memories.values()):,} memories, "
            f"{stats.gists:,} gists"
        )
        token = eng.access.tokens.create(f"bench {perf_counter()}", "admin").secret
        port = free_port()
        command = [sys.executable, "-m", "engram", "--store", url, "serve", "--port", str(port), "--no-dream"]
        with running(command, port) as process:
            client = Client(port, token, process)
            asked = addresses(samples)
            report_pages(report, measured(client, asked, rounds), asked)
            report_search(report, eng, client, asked, rounds)
            client.close()


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--postgres", action="store_true", help="a store on PostgreSQL, on a server of its own")
    parser.add_argument("--rounds", type=int, help="how often each page is loaded")
    parser.add_argument("--store", type=Path, metavar="FOLDER", help="keep the SQLite store there, or use the kept one")
    asked = parser.parse_args()
    size, rounds = (SMALL, 5) if asked.quick else (FULL, 15)
    rounds = max(2, asked.rounds or rounds)
    engine = "PostgreSQL" if asked.postgres else "SQLite"
    report = measure.Report(f"The pages of the dashboard, {engine}")
    folder = asked.store.absolute() if asked.store else None
    with measure.workplace() as temporary:
        if asked.postgres:
            with postgres_server() as url:
                run(report, with_schema(url, "bench_pages"), size, rounds, server=url)
        elif folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            run(report, str(folder / "engram.db"), size, rounds, kept=folder / "samples.json")
        else:
            run(report, f"{temporary}/pages.db", size, rounds)
    report.show(as_json=asked.json)


if __name__ == "__main__":
    main()
