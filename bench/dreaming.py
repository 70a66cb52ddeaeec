"""The cost of a pass with little new: the same 50 new sessions in a store of 1,000 sessions and in one of 10,000.

A pass must not become slower as a store grows. It finds new sessions without reading old ones, and it extends an era,
the profile and the narrative instead of rewriting them. Both stores are filled in the same way, with sessions over
several years, and one pass gives every session its gist. Then, in each of several rounds, each store gets the same 50
new sessions in a new month and one forced pass; the stores alternate. All settings are the defaults: the extractive
thinker and the static embedder.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from engram import Engram
from engram.config import load

if TYPE_CHECKING:
    from bench import _measure as measure
else:
    import _measure as measure

NEW = 50
TURNS = 6
#: Sessions per month of a person with many agents.
A_MONTH = 100
LINES = (
    "We moved the {0} to the new library on Monday.",
    "I prefer short functions in the {0}.",
    "The deploy of the {0} failed because the schema was at {1}.",
    "I decided to keep the old {0} until release {1}.",
    "The {0} takes {1} milliseconds to warm up.",
    "Remember to check the {0} again after step {1}.",
)
THINGS = ("router", "parser", "cache", "schema", "queue", "editor", "index", "importer", "report", "scheduler")


def fill(eng: Engram, sessions: int, month: str | None = None) -> None:
    """Add sessions of a few turns each, spread over past months, or all in the given month."""
    ids = [eng.sessions.register("claude-code", f"task {number}") for number in range(sessions)]
    eng.exchanges.add_many(
        {
            "session_id": id,
            "role": ("user", "assistant")[turn % 2],
            "content": LINES[turn % len(LINES)].format(THINGS[(place + turn) % len(THINGS)], place * TURNS + turn),
            "created_at": f"{month or _month(place)}-0{1 + place % 9}T10:0{turn}:00Z",
        }
        for place, id in enumerate(ids)
        for turn in range(TURNS)
    )


def _month(place: int) -> str:
    year, month = divmod(place // A_MONTH, 12)
    return f"{2018 + year}-{1 + month:02d}"


def one_pass(eng: Engram, months: count[int]) -> float:
    """Add new sessions in a new month and run a pass; the seconds it took."""
    fill(eng, NEW, f"{2030 + next(months)}-01")
    begun = perf_counter()
    (report,) = eng.dream(force=True)
    seconds = perf_counter() - begun
    if len(report.gists) != NEW or len(report.eras) != 1 or report.errors:
        raise AssertionError(f"unexpected report of the pass: {report}")
    return seconds


def main() -> None:
    chosen = measure.options(__doc__).parse_args()
    sizes = (100, 1_000) if chosen.quick else (1_000, 10_000)
    rounds = 3 if chosen.quick else 7
    with measure.workplace() as folder:
        stores = {size: Engram(settings=load(url=f"{folder}/{size}.db")) for size in sizes}
        first = {}
        for size, eng in stores.items():
            fill(eng, size)
            begun = perf_counter()
            eng.dream(force=True)
            first[size] = perf_counter() - begun
        sides = {f"{size:,} sessions": partial(one_pass, eng, count()) for size, eng in stores.items()}
        measure.alternate(sides, 1)  # once for the caches
        results = measure.alternate(sides, rounds)
        for eng in stores.values():
            eng.close()
    small, large = results
    report = measure.Report("Dreaming: the cost of a pass")
    report.notes.append(f"{NEW} new sessions of {TURNS} turns, {rounds} rounds by turns, extractive and static")
    rows = [(name, median(times) * 1e3, min(times) * 1e3) for name, times in results.items()]
    report.table("a pass over what is new, ms", ("", "median", "fastest"), rows)
    report.table(
        "the first pass over everything, s", ("", "seconds"), [(f"{n:,} sessions", t) for n, t in first.items()]
    )
    report.compare(f"{large} / {small}", results[large], results[small], "at most", 1.5)
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
