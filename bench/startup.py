"""What it costs to start: `engram sitrep` as a fresh process, against Python with the libraries it cannot do without.

Agents and their hooks run `engram` again and again, so each run's start is what its users wait for. The measure is a
Python that does nothing but `import click, apsw, dataclasses, platformdirs, logging, tomllib`: the command line, the
database, and the parts of the standard library that a program with settings and warnings uses. What Engram takes beyond
that is its own: its modules, opening the store, a few queries, the report. Engram need not use all of these imports; to
do without some is one way to be fast.

Fair because both sides run the same interpreter in the same folder and environment, by turns, whole processes from
start to exit, with compiled bytecode on both sides: Engram's is compiled first, as an installer does it, and variables
that change how Python starts (`PYTHON…`, such as PYTHONDONTWRITEBYTECODE) are taken out of the environment. The store
is a small one in a folder of its own, as a person's usually is.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import engram
from engram import Engram

if TYPE_CHECKING:
    from bench import _measure as measure
else:
    import _measure as measure

IMPORTS = "import click, apsw, dataclasses, platformdirs, logging, tomllib"
IMPORTING, SITREP, HELP, LOG, NOTHING = (
    "python -c 'import click, …'",
    "engram sitrep",
    "engram --help",
    "engram session log",
    "python -c pass",
)


def commands() -> dict[str, list[str]]:
    """What is run, by the name it is shown under."""
    program = os.path.join(sysconfig.get_path("scripts"), "engram")
    return {
        IMPORTING: [sys.executable, "-c", IMPORTS],
        SITREP: [program, "sitrep"],
        HELP: [program, "--help"],
        LOG: [program, "session", "log", "one more step done"],
        NOTHING: [sys.executable, "-c", "pass"],
    }


def fill() -> str:
    """A small store at the place where the command looks for it; the id of a session in it."""
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
    """Make sure that what is measured does the work."""
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    if "**Active sessions (3):**" not in shown:
        raise AssertionError(f"not the report that was expected:\n{shown}")


def main() -> None:
    chosen = measure.options(__doc__).parse_args()
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
