"""The cost of encryption: the package that can encrypt compared with plain `apsw`, and a store with and without a key.

Three sides do the same work on stores of their own, by turns:

- `apsw`: the package without encryption, and a plain store;
- `no key`: `apsw-sqlite3mc`, which Engram depends on, and a plain store;
- `key`: `apsw-sqlite3mc` and an encrypted store, with its key in the key file.

Both packages install the module `apsw`. So each is installed into a folder of its own, which is first in the path of
the measured processes. This needs a package index, as `pip install` does.

Measured are whole processes, `python -c 'import apsw'` and four events of `engram-hook`, and inside a process opening
the store, writing a log entry, remembering, recalling, and forgetting. Everything is compared by processor time, which
other work on the machine does not change. Hooks are compared by the clock too, because a person waits for them. A
passphrase is measured once, beside the raw key.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from engram import Engram
from engram.config import load
from engram.maintenance import encrypt

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench.startup import Spent, hook_events
else:
    import _measure as measure
    from startup import Spent, hook_events

PLAIN, WITHOUT, WITH = "apsw", "no key", "key"
SIDES = (PLAIN, WITHOUT, WITH)
EVENTS = ("start", "before tool", "after tool", "stop")

#: Prints how long each part of the work took, in seconds.
WORK = """
import json, sys, time
from engram import Engram
path, times = sys.argv[1], int(sys.argv[2])
def timed(call):
    begun = time.process_time()
    call()
    return time.process_time() - begun
def opening():
    for _ in range(times):
        Engram(path).close()
found = {"open": timed(opening)}
with Engram(path) as eng:
    session = eng.sessions.register("codex", "Measuring")
    eng.recall("which port does the router use?")
    found["log"] = timed(lambda: [eng.sessions.log(session, f"step {n} is done") for n in range(5 * times)])
    made = []
    found["remember"] = timed(
        lambda: made.extend(eng.remember(f"Service {n} of {session} listens on port {n}").id for n in range(times))
    )
    found["recall"] = timed(lambda: [eng.recall(f"which port does service {n} use?") for n in range(times)])
    found["forget"] = timed(lambda: eng.forget(memory=made[0]))
print(json.dumps(found))
"""

PASSPHRASE = """
import sys, time, apsw
def opened(key):
    begun = time.perf_counter()
    connection = apsw.Connection(sys.argv[1] + key[:3])
    connection.execute(f"PRAGMA key='{key}'")
    connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
    connection.close()
    return time.perf_counter() - begun
keys = ["raw:" + "ab" * 32, "correct horse battery staple"]
for key in keys: opened(key)
print(*(min(opened(key) for _ in range(5)) for key in keys))
"""


def packages(folder: str) -> dict[str, str]:
    """Install both packages; the folder of each side."""
    places = {}
    for name in ("apsw", "apsw-sqlite3mc"):
        places[name] = os.path.join(folder, "packages", name)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", places[name], name], check=True)
        subprocess.run([sys.executable, "-m", "compileall", "-q", places[name]], check=True)
    return {PLAIN: places["apsw"], WITHOUT: places["apsw-sqlite3mc"], WITH: places["apsw-sqlite3mc"]}


def environment(folder: str, side: str, package: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    own = os.path.join(folder, side)
    return kept | {"PYTHONPATH": package, "ENGRAM_DATA_DIR": own, "ENGRAM_CONFIG_DIR": os.path.join(own, "config")}


def fill(path: str, turns: int) -> None:
    with Engram(path) as eng:
        session = eng.sessions.register("codex", "Earlier work")
        said = (
            {"session_id": session, "role": "user", "content": f"Turn {n} was about port {n}"} for n in range(turns)
        )
        eng.exchanges.add_many(said)


def process(command: Sequence[str], variables: dict[str, str], event: object = None) -> Spent:
    payload = json.dumps(event).encode()
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, input=payload, env=variables, stdout=subprocess.DEVNULL, check=True)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    return Spent(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended - begun)


def processes(
    command: Sequence[str], variables: dict[str, dict[str, str]], rounds: int, event: object = None
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Processor time and wall-clock time of each side."""
    spent: dict[str, list[Spent]] = {side: [] for side in SIDES}
    for number in range(rounds + 1):
        for side in _turn(number):
            spent[side].append(process(command, variables[side], event))
    # The first round is for the disk's cache.
    return tuple({side: [each[part] for each in found[1:]] for side, found in spent.items()} for part in (0, 1))  # type: ignore[return-value]


def _turn(number: int) -> tuple[str, ...]:
    first = number % len(SIDES)
    return SIDES[first:] + SIDES[:first]


def work(path: str, times: int, variables: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-c", WORK, path, str(times)]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(report: measure.Report, name: str, found: dict[str, list[float]], limit: float | None = None) -> None:
    report.compare(f"{name}: no key / apsw", found[WITHOUT], found[PLAIN])
    bound: measure.Bound | None = "at most" if limit else None
    report.compare(f"{name}: key / no key", found[WITH], found[WITHOUT], bound, limit)


def main() -> None:
    chosen = measure.options(__doc__).parse_args()
    rounds, times, turns = (9, 20, 2_000) if chosen.quick else (21, 40, 20_000)
    report = measure.Report("Encryption")
    with measure.workplace() as folder:
        places = packages(folder)
        variables = {side: environment(folder, side, place) for side, place in places.items()}
        paths = {side: os.path.join(folder, side, "engram.db") for side in SIDES}
        for path in paths.values():
            fill(path, turns)
        os.environ["ENGRAM_CONFIG_DIR"] = variables[WITH]["ENGRAM_CONFIG_DIR"]
        encrypt(load(url=paths[WITH]))
        sizes = {side: os.path.getsize(path) / 1e6 for side, path in paths.items()}

        rows: list[tuple[str, float, float, float]] = []
        imports, _ = processes([sys.executable, "-c", "import apsw"], variables, rounds)
        rows.append(("import, a process", *_milliseconds(imports)))
        compare(report, "import", imports)
        program = os.path.join(sysconfig.get_path("scripts"), "engram-hook")
        for name, event in hook_events(os.getcwd()).items():
            if name in EVENTS:
                processor, clock = processes([program, "claude-code"], variables, rounds, event)
                rows.append((f"hook, {name}", *_milliseconds(processor)))
                compare(report, f"hook, {name}, processor", processor)
                compare(report, f"hook, {name}", clock, 1.3)
        logs = [str(log) for log in Path(folder).rglob("hook.log")]
        if logs:
            raise AssertionError(Path(logs[0]).read_text())

        spent: dict[str, dict[str, list[float]]] = {}
        for number in range(rounds):
            for side in _turn(number):
                for part, seconds in work(paths[side], times, variables[side]).items():
                    spent.setdefault(part, {each: [] for each in SIDES})[side].append(seconds)
        calls = {"open": times, "log": 5 * times, "remember": times, "recall": times, "forget": 1}
        for part, found in spent.items():
            each = {side: [seconds / calls[part] for seconds in values] for side, values in found.items()}
            rows.append((part, *_milliseconds(each)))
            compare(report, part, each)
        report.table("milliseconds of the processor", ("", *SIDES), rows)
        report.table("the store, MB", ("", *SIDES), [("", *(sizes[side] for side in SIDES))])
        command = [sys.executable, "-c", PASSPHRASE, os.path.join(folder, "phrase")]
        done = subprocess.run(command, env=variables[WITH], stdout=subprocess.PIPE, text=True, check=True)
        raw, phrase = (float(seconds) * 1e3 for seconds in done.stdout.split())
        report.notes.append(f"opening with a raw key {raw:.1f} ms, with a passphrase {phrase:.1f} ms (fastest of 5)")
    report.notes.append(f"{rounds} rounds by turns; stores of {turns:,} turns")
    report.show(as_json=chosen.json)


def _milliseconds(found: dict[str, list[float]]) -> tuple[float, float, float]:
    first, second, third = (median(found[side]) * 1e3 for side in SIDES)
    return first, second, third


if __name__ == "__main__":
    main()
