"""Shared by the benchmarks: measuring sides in alternation, and reporting the results.

A ratio is meaningful only if both sides run under the same conditions, and the load of a machine changes every second.
So the sides alternate, each round starts with another side, and a ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Literal, NamedTuple, TypeAlias

Bound: TypeAlias = Literal["at least", "at most"]


class Ratio(NamedTuple):
    """The ratio of two sides, and its target."""

    name: str
    value: float
    #: The quartiles of the rounds.
    low: float
    high: float
    #: None if the ratio has no target.
    bound: Bound | None
    target: float | None

    @property
    def met(self) -> bool | None:
        if self.bound is None or self.target is None:
            return None
        return self.value >= self.target if self.bound == "at least" else self.value <= self.target


class Table(NamedTuple):
    """Figures of several sides, one row each; the first column is the name."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | float]]


class Report:
    """The results of one benchmark, as text or, with `--json`, as JSON."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.notes = [f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"]
        self.tables: list[Table] = []
        self.ratios: list[Ratio] = []

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str | float]]) -> None:
        self.tables.append(Table(title, head, rows))

    def compare(
        self,
        name: str,
        above: Sequence[float],
        below: Sequence[float],
        bound: Bound | None = None,
        target: float | None = None,
    ) -> None:
        """Add the ratio of two sides' rounds, with its target if it has one."""
        rounds = [a / b for a, b in zip(above, below, strict=True)]
        low, _, high = quantiles(rounds, n=4)
        self.ratios.append(Ratio(name, median(rounds), low, high, bound, target))

    def show(self, *, as_json: bool) -> None:
        if as_json:
            print(json.dumps(self._plain(), ensure_ascii=False))
            return
        print("\n  ".join([self.title, *self.notes]))
        for title, head, rows in self.tables:
            print(f"\n{title}")
            for row in (head, *rows):
                print(f"  {row[0]:<30}" + "".join(map(_cell, row[1:])))
        if self.ratios:
            print(f"\n{'ratios':<48}{'median':>8}{'middle half':>16}   target")
        for each in self.ratios:
            spread = f"{each.low:.2f}–{each.high:.2f}"
            wanted = f"{each.bound} {each.target:g}: {'PASS' if each.met else 'MISS'}" if each.bound else "(none)"
            print(f"  {each.name:<46}{each.value:>8.2f}{spread:>16}   {wanted}")

    def _plain(self) -> dict[str, object]:
        return {
            "title": self.title,
            "notes": self.notes,
            "tables": [table._asdict() for table in self.tables],
            "ratios": [{**ratio._asdict(), "met": ratio.met} for ratio in self.ratios],
        }


def _cell(value: str | float) -> str:
    return f"{value:>11}" if isinstance(value, str) else f"{value:>11,.1f}"


def alternate(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run every side once per round, starting each round with another side; the results by side."""
    names = list(sides)
    results: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(sides[name]())
    return results


@contextmanager
def workplace() -> Iterator[str]:
    """Make a temporary folder for stores and change to a git project in it. The user's own store is not touched."""
    for name in [name for name in os.environ if name.startswith("ENGRAM_")]:
        del os.environ[name]
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as folder:
        os.environ["ENGRAM_CONFIG_DIR"] = os.environ["ENGRAM_DATA_DIR"] = folder
        # `auto` would take what the machine has installed. Figures of different machines must be comparable.
        os.environ["ENGRAM_EMBEDDER"] = "static"
        # No benchmark leaves a process behind. Those about automatic passes switch them on.
        os.environ["ENGRAM_AUTO_DREAM"] = "off"
        project = Path(folder, "project")
        files = {".git/config": '[remote "origin"]\n\turl = https://example.org/acme/router.git\n', "src/router.py": ""}
        for name, text in files.items():
            (project / name).parent.mkdir(parents=True)
            (project / name).write_text(text)
        os.chdir(project)
        try:
            yield folder
        finally:
            os.chdir(before)


def options(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short run, to check that it works")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser
