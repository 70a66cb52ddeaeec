"""Whether a pass makes recall worse: LoCoMo's conversations before and after it.

Each conversation goes into a store of its own, as in `recall_quality.py`. The benchmark asks all questions. Then it
runs one pass with extraction and with `dream_consolidate=apply`; no memory is too young. It asks all questions again.
A second pass should find nothing to do. Then the first pass is undone. After that every memory with its history, links
and sources, every block, every gist and all hits should be the same as before the pass.

`R@10` is the share of a question's answering turns among the first ten hits. A memory counts as the turns it was made
from, because it contains the answering sentence and names the turn. The figure in brackets is R@10 of turns alone.

The comparison is fair because it uses only the public API, and both times asks the same questions in the same way.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from engram import Engram
from engram.config import load

if TYPE_CHECKING:
    from bench.recall_quality import DATA, Conversation, Loaded, fill, read

    from engram.records import DreamReport, Hit
else:
    from recall_quality import DATA, fill, read

TEN = 10


class Figures(NamedTuple):
    both: float
    turns: float


def ask(eng: Engram, conversation: Conversation, loaded: Loaded) -> list[Figures]:
    """Ask every question; both measures in per cent."""
    found = []
    for question in conversation.questions:
        wanted = {loaded.exchanges[id] for id in question.evidence}
        both = eng.recall(question.text, TEN, note=False)
        turns = eng.recall(question.text, TEN, what=("exchanges",), note=False)
        found.append(Figures(_share(eng, both, wanted), _share(eng, turns, wanted)))
    return found


def _share(eng: Engram, hits: list[Hit], wanted: set[int]) -> float:
    ids: set[int] = set()
    for hit in hits:
        if hit.exchange_id is not None:
            ids.add(hit.exchange_id)
        elif hit.memory_id is not None:
            ids.update(id for kind, id in eng.memories.sources(hit.memory_id) if kind == "exchange")
    return 100 * len(ids & wanted) / len(wanted)


def mean(figures: list[Figures]) -> Figures:
    return Figures(fmean(each.both for each in figures), fmean(each.turns for each in figures))


def did_nothing(report: DreamReport) -> bool:
    return not any((report.gists, report.eras, report.extracted, report.merged, report.archived, report.proposals))


def known(eng: Engram, conversation: Conversation) -> list[object]:
    """The state of the store: memories, blocks, gists, and the hits of all questions."""
    statuses = ("active", "superseded", "archived")
    memories = [memory for status in statuses for memory in eng.memories.list(status=status)]
    return [
        *(memory._replace(recalled=0, recalled_at=None) for memory in memories),
        *(each(memory.id) for memory in memories for each in (eng.memories.history, eng.memories.links)),
        *(eng.memories.sources(memory.id) for memory in memories),
        *eng.blocks.list(),
        eng.memories.gists_by_month(),
        *([hit._replace(age=0.0) for hit in eng.recall(each.text, TEN, note=False)] for each in conversation.questions),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--embedder", default="static")
    chosen = parser.parse_args()
    before: list[Figures] = []
    after: list[Figures] = []
    print(
        "conversation  questions  before          after           learnt  merged  proposed  alarms  second pass  undone"
    )
    for number, conversation in enumerate(read(chosen.data), 1):
        with tempfile.TemporaryDirectory() as folder:
            settings = load(
                url=f"{folder}/engram.db", embedder=chosen.embedder, dream_consolidate="apply", dream_min_age=0
            )
            with Engram(settings=settings) as eng:
                loaded = fill(eng, conversation)
                eng.backlog.work()
                first, blank = ask(eng, conversation, loaded), known(eng, conversation)
                (report,) = eng.dream(force=True)
                second = ask(eng, conversation, loaded)
                (again,) = eng.dream(force=True)
                eng.dreams.undo()  # the first pass; the second changed nothing
                undone = known(eng, conversation) == blank
        before += first
        after += second
        one, other = mean(first), mean(second)
        print(
            f"{number:12}  {len(first):9}  {one.both:5.1f} ({one.turns:5.1f})   {other.both:5.1f} ({other.turns:5.1f})"
            f"   {report.extracted or 0:6}  {report.merged or 0:6}  {report.proposals or 0:8}  {len(report.alarms):6}"
            f"  {'nothing' if did_nothing(again) else again}      {'equal' if undone else 'DIFFERENT'}",
            flush=True,
        )
        for line in (*report.errors, *report.alarms):
            print(f"              {line}")
    one, other = mean(before), mean(after)
    print(f"R@10 of all (turns alone): {one.both:.2f} ({one.turns:.2f}) -> {other.both:.2f} ({other.turns:.2f})")


if __name__ == "__main__":
    main()
