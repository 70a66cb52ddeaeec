"""The cost of starting: `engram sitrep` and every hook as new processes, compared with Python itself.

**Commands.** `engram sitrep` is compared with a Python process that imports the libraries it needs.

Agents and hooks start `engram` very often, so users wait for its start. The baseline is a Python process that only runs
`import click, apsw, dataclasses, platformdirs, logging, tomllib`: the command line, the database, and the parts of the
standard library that a program with settings and warnings uses. The difference is Engram's own cost: its modules,
opening the store, a few queries, the report. Engram does not have to use all of these imports; avoiding some is one way
to be fast.

The comparison is fair because both sides run the same interpreter in the same folder and environment, in alternation,
as whole processes. Both use compiled bytecode: Engram's is compiled first, as an installer does, and variables that
change how Python starts (`PYTHON…`, such as PYTHONDONTWRITEBYTECODE) are removed. The store is small, as most are.

**Hooks.** `engram-hook claude-code` is run for each event of a session and compared with `python -c pass`. All events
except the prompt use the small store at its default place, without an environment variable. The prompt recalls, so it
uses a store with 100,000 turns (`--turns`), in which half of its words are common. The tables show wall-clock time and
processor time; other work on the machine does not affect the processor time.

**The recall socket.** The prompt is run with four states of the socket: there is none, an `engram mcp` with a loaded
model answers, the file is that of a dead process, and a server accepts and says nothing. The last one takes the hook's
whole deadline, which is subtracted before the comparison.
"""

from __future__ import annotations

import compileall
import json
import os
import random
import resource
import socket
import subprocess
import sys
import sysconfig
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import TYPE_CHECKING, NamedTuple

import engram
from engram import Engram
from engram.config import load
from engram.interfaces.recall_socket import client, place

if TYPE_CHECKING:
    from bench import _measure as measure
else:
    import _measure as measure

#: The embedder of the server that answers: it embeds 100,000 turns in a minute.
EMBEDDER = "static"
IMPORTS = "import click, apsw, dataclasses, platformdirs, logging, tomllib"
IMPORTING, SITREP, HELP, LOG, NOTHING = (
    "python -c 'import click, …'",
    "engram sitrep",
    "engram --help",
    "engram session log",
    "python -c pass",
)


def commands() -> dict[str, list[str]]:
    """The measured commands, by their names in the report."""
    program = os.path.join(sysconfig.get_path("scripts"), "engram")
    return {
        IMPORTING: [sys.executable, "-c", IMPORTS],
        SITREP: [program, "sitrep"],
        HELP: [program, "--help"],
        LOG: [program, "session", "log", "one more step done"],
        NOTHING: [sys.executable, "-c", "pass"],
    }


def hook_events(project: str) -> dict[str, dict[str, object]]:
    """One event of each kind in the order of a session, by their names in the report."""
    tool: dict[str, object] = {"tool_name": "Edit", "tool_input": {"file_path": f"{project}/src/router.py"}}
    child: dict[str, object] = {"agent_id": "a1", "agent_type": "Explore"}
    named: dict[str, tuple[str, dict[str, object]]] = {
        "start": ("SessionStart", {"source": "startup"}),
        "before tool": ("PreToolUse", tool),
        "after tool": ("PostToolUse", {**tool, "tool_response": {"ok": True}}),
        "subagent start": ("SubagentStart", child),
        "subagent stop": ("SubagentStop", {**child, "last_assistant_message": "Found it in three places."}),
        "before compaction": ("PreCompact", {"trigger": "auto"}),
        "stop": ("Stop", {"last_assistant_message": "The router is ported; all tests pass."}),
        "end": ("SessionEnd", {"reason": "other"}),
    }
    base = {"session_id": "bench", "cwd": project, "transcript_path": "/nowhere"}
    return {name: {**base, "hook_event_name": event, **fields} for name, (event, fields) in named.items()}


class Spent(NamedTuple):
    """Processor and wall-clock seconds of a process."""

    processor: float
    clock: float


def run_hook(event: dict[str, object] | None, environment: dict[str, str]) -> Spent:
    """Run one event as a new process; None runs a Python that does nothing."""
    program = os.path.join(sysconfig.get_path("scripts"), "engram-hook")
    command = [program, "claude-code"] if event is not None else [sys.executable, "-c", "pass"]
    payload = json.dumps(event).encode()
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, input=payload, env=environment, stdout=subprocess.DEVNULL, check=True)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(used, ended - begun)


def fill_turns(path: str, count: int) -> str:
    """Fill a store with that many turns; a prompt made from words of one turn."""
    noise = random.Random(20261116)
    vocabulary = ["".join(noise.choices("bcdfghjklmnprstv", k=5)) for _ in range(20_000)]
    weights = list(accumulate(1 / (rank + 10) for rank in range(len(vocabulary))))
    with Engram(settings=load(url=path, embedder=EMBEDDER)) as eng:
        sessions = [eng.sessions.register("codex", "Earlier work") for _ in range(50)]
        turns = [" ".join(noise.choices(vocabulary, cum_weights=weights, k=18)) for _ in range(count)]
        said = (
            {"session_id": sessions[place % 50], "role": "user", "content": turn} for place, turn in enumerate(turns)
        )
        eng.exchanges.add_many(said)
    return f"What did we say about {' '.join(turns[count // 2].split()[:8])}?"


class Sockets:
    """Three runtime folders: in one a server answers, in one it is dead, in one it says nothing."""

    def __init__(self, store: str, environment: dict[str, str]) -> None:
        self._store = store
        self._temporary = TemporaryDirectory(prefix="engram-")
        self._silent, dead = _listening(self.path("silent")), _listening(self.path("dead"))
        dead.close()
        program = os.path.join(sysconfig.get_path("scripts"), "engram")
        self._server = subprocess.Popen(
            [program, "mcp", "--store", store],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**environment, **self.variables("answers")},
        )

    def variables(self, state: str) -> dict[str, str]:
        """What makes a process use the socket in this state."""
        return {"XDG_RUNTIME_DIR": self._folder(state), "ENGRAM_EMBEDDER": EMBEDDER, "ENGRAM_URL": self._store}

    def path(self, state: str) -> str:
        os.environ["XDG_RUNTIME_DIR"] = self._folder(state)
        path = place.make(load(url=self._store))
        assert path is not None
        return path

    def expect_answer(self, question: str) -> None:
        """Wait until the server has loaded the model, and check that it finds something."""
        self.path("answers")
        settings = load(url=self._store, embedder=EMBEDDER)
        for _ in range(600):
            if client.ask(settings, "default", question, 8, 1.0, rerank="never"):
                return
            sleep(0.1)
        raise AssertionError("the recall socket does not answer")

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()
        self._silent.close()
        self._temporary.cleanup()
        del os.environ["XDG_RUNTIME_DIR"]

    def _folder(self, state: str) -> str:
        folder = os.path.join(self._temporary.name, state)
        os.makedirs(folder, 0o700, exist_ok=True)
        return folder


def _listening(path: str) -> socket.socket:
    """A socket that never accepts, with room for every hook of a measurement."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1_000)
    return listener


def hooks(report: measure.Report, rounds: int, turns: int) -> None:
    """Compare every event with a Python that does nothing."""
    folder, project = os.environ["ENGRAM_DATA_DIR"], os.getcwd()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ENGRAM", "XDG_"))
    }
    environment["HOME"] = os.path.join(folder, "home")
    large = os.path.join(folder, "large.db")
    prompt: dict[str, object] = {"session_id": "bench", "cwd": project, "hook_event_name": "UserPromptSubmit"}
    prompt["prompt"] = fill_turns(large, turns)
    many = f"prompt, {turns:,} turns"
    asking = {state: f"{many}, socket {state}" for state in ("answers", "dead", "silent")}
    sockets = Sockets(large, environment)
    sides = {NOTHING: partial(run_hook, None, environment)}
    sides |= {name: partial(run_hook, event, environment) for name, event in hook_events(project).items()}
    sides[many] = partial(run_hook, prompt, {**environment, "ENGRAM_URL": large})
    for state, name in asking.items():
        sides[name] = partial(run_hook, prompt, {**environment, **sockets.variables(state)})
    spent: dict[str, list[Spent]] = {name: [] for name in sides}
    try:
        sockets.expect_answer(str(prompt["prompt"]))
        dream_once(hook_events(project), environment)
        for _ in range(rounds + 1):
            # In the order of a session.
            for name, side in sides.items():
                spent[name].append(side())
        sockets.expect_answer(str(prompt["prompt"]))
    finally:
        sockets.close()
    log = os.path.join(environment["HOME"], ".local/share/engram/hook.log")
    if os.path.exists(log):
        raise AssertionError(Path(log).read_text())
    processor = {name: [each.processor for each in found[1:]] for name, found in spent.items()}
    clock = {name: [each.clock for each in found[1:]] for name, found in spent.items()}
    rows = [(name, median(processor[name]) * 1e3, median(clock[name]) * 1e3) for name in sides]
    report.table("engram-hook, ms", ("", "processor", "clock"), rows)
    for name in sides:
        if name != NOTHING:
            limit = 8 if name.startswith(many) else 5
            waited = client.PROMPT_DEADLINE if name == asking["silent"] else 0.0
            label = f"hook: {name}{', less its deadline' if waited else ''} / pass"
            report.compare(label, [each - waited for each in clock[name]], clock[NOTHING], "at most", limit)
            report.compare(f"hook: {name} / pass, processor", processor[name], processor[NOTHING])


def dream_once(events: dict[str, dict[str, object]], environment: dict[str, str]) -> None:
    """Run an automatic pass, so that the measured ends look whether one is due and start none: most are like that."""
    for event in events.values():
        run_hook(event, {**environment, "ENGRAM_AUTO_DREAM": "off"})
    program = os.path.join(sysconfig.get_path("scripts"), "engram")
    done = subprocess.run(
        [program, "dream", "--if-due", "--json"], env=environment, capture_output=True, text=True, check=True
    )
    (report,) = json.loads(done.stdout)
    if not report.get("gists"):
        raise AssertionError(f"no pass was due:\n{done.stdout}")


def fill() -> str:
    """Fill a small store at its default place; the id of a session in it."""
    with Engram() as eng:
        ids = [eng.sessions.register(kind, "Porting the router") for kind in ("claude-code", "codex", "cursor")]
        for id in ids:
            eng.sessions.log(id, "read the code")
        eng.leases.claim(ids[0], "src/router.py", "rewriting")
        eng.messages.send(ids[1], "*", "Who has the schema?")
        eng.world.set("The router moves to the new library this week.", updated_by=ids[0])
    return ids[0]


def run(command: list[str], environment: dict[str, str]) -> float:
    """Seconds from start to exit."""
    begun = perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - begun


def expect_report(command: list[str], environment: dict[str, str]) -> None:
    """Check that the measured command prints the report."""
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    if "**Active sessions (3):**" not in shown:
        raise AssertionError(f"unexpected report:\n{shown}")


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--turns", type=int, help="number of turns in the store of the prompt")
    chosen = parser.parse_args()
    rounds = 7 if chosen.quick else 41
    source = Path(engram.__file__).parent
    if not compileall.compile_dir(source, quiet=1):
        raise SystemExit(f"{source} cannot be compiled")
    with measure.workplace():
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment["ENGRAM_SESSION"] = fill()
        sides = {name: partial(run, command, environment) for name, command in commands().items()}
        measure.alternate(sides, 1)  # once for the disk's cache
        expect_report(commands()[SITREP], environment)
        results = measure.alternate(sides, rounds)
        report = measure.Report("Start")
        hooks(report, rounds, chosen.turns or (2_000 if chosen.quick else 100_000))
    report.notes.append(f"{rounds} rounds by turns; bytecode compiled before; the imports: {IMPORTS}")
    report.table(
        "a process, ms", ("", "median", "fastest"), [(n, median(t) * 1e3, min(t) * 1e3) for n, t in results.items()]
    )
    report.compare("engram sitrep / the imports", results[SITREP], results[IMPORTING], "at most", 1.5)
    report.compare("engram --help / the imports", results[HELP], results[IMPORTING])
    report.compare("engram session log / the imports", results[LOG], results[IMPORTING])
    report.compare("engram sitrep / python -c pass", results[SITREP], results[NOTHING])
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
