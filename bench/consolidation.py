"""How the search for duplicates scales from ten thousand memories to a hundred thousand.

The memories are the synthetic turns of `recall_speed.py`, with vectors of `static`. Every fiftieth memory is a planted
duplicate: it repeats an earlier one in another order and partly in capitals. *All* is a first pass, for which all
memories are new: it finds the pairs, reads their texts and compares them. *A hundred new* is a later pass: it compares
the last hundred memories with the rest. The two sizes alternate. The search should find every planted pair.

Peak memory is measured in a new process that opens the large store and runs a first pass.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from engram import Engram
from engram.config import load
from engram.dreaming.duplicates.candidates import candidates
from engram.dreaming.duplicates.similar import alike
from engram.embedding import Embedder
from engram.embedding import load as load_embedder
from engram.memory import embedding_queue, word_index
from engram.memory.fingerprints import fingerprint

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench.recall_speed import PER_TRANSACTION, SEED, Speech
else:
    import _measure as measure
    from recall_speed import PER_TRANSACTION, SEED, Speech

#: One of this many memories repeats an earlier one.
AGAIN = 50
NEW = 100
THRESHOLD = 0.92

_INSERT = """
INSERT INTO memories (workspace, kind, content, hash, version, importance, pinned, trust, status, reinforced, recalled,
                      created_at, updated_at)
VALUES (:workspace, 'note', :content, :hash, 1, 0.5, 0, 'agent', 'active', 0, 0, :now, :now) RETURNING id
"""
_LAST = "SELECT MAX(id) FROM memories WHERE workspace = :workspace"
_TEXT = "SELECT content FROM memories WHERE workspace = :workspace AND id = :id"


class Found(NamedTuple):
    seconds: float
    pairs: int
    duplicates: set[tuple[int, int]]


class Store:
    """A store with `count` memories, written without the checks of `remember`, and its planted pairs."""

    def __init__(self, path: str, count: int, embedder: Embedder) -> None:
        self.path = path
        self.count = count
        self.eng = Engram(settings=load(url=path))
        self.planted: set[tuple[int, int]] = set()
        self._view = self.eng._view
        texts = self._texts()
        for start in range(0, count, PER_TRANSACTION):
            self._write(list(islice(texts, min(PER_TRANSACTION, count - start))), embedder)

    def _texts(self) -> Iterator[str]:
        chance = random.Random(SEED)
        said: list[str] = []
        for turn in Speech().turns():
            text = turn
            if len(said) % AGAIN == AGAIN - 1:
                earlier = chance.randrange(len(said))
                words = said[earlier].split()
                place = chance.randrange(1, len(words))
                text = f"{' '.join(words[place:])}, {' '.join(words[:place]).upper()}."
                self.planted.add((earlier + 1, len(said) + 1))
            said.append(text)
            yield text

    def _write(self, texts: list[str], embedder: Embedder) -> None:
        workspace = self._view.workspace
        pieces = [word_index.cut(text) for text in texts]
        rows = embedding_queue.quantised(embedder, texts)
        with self._view.engine.write() as tx:
            now = tx.now()
            ids = [
                tx.all(_INSERT, workspace=workspace, content=text, hash=fingerprint(text), now=now)[0][0]
                for text in texts
            ]
            entries = [
                word_index.Entry("memories", "memory", id, "note", None, None, None, now, cut)
                for id, cut in zip(ids, pieces, strict=True)
            ]
            # These texts are short, so each has one piece.
            vectors = [embedding_queue.Vectors(embedder.name, [row]) for row in rows]
            embedding_queue.store_vectors(tx, workspace, entries, vectors)
            for id in ids:
                tx.note(workspace, "memory", id)

    def find(self, new: int) -> Found:
        """Find the duplicates of the last `new` memories."""
        begun = perf_counter()
        pairs = list(candidates(self._view, range(self.count - new + 1, self.count + 1)))
        texts: dict[int, str] = {}
        with self._view.engine.read() as tx:
            for id in {id for pair in pairs for id in pair[:2]}:
                texts[id] = tx.all(_TEXT, workspace=self._view.workspace, id=id)[0][0]
        same = {pair[:2] for pair in pairs if alike(texts[pair[0]], texts[pair[1]], pair.cosine) >= THRESHOLD}
        return Found(perf_counter() - begun, len(pairs), same)


def peak(path: str) -> float:
    """Peak memory in megabytes of a new process that runs a first pass."""
    return float(subprocess.run([sys.executable, __file__, "--peak", path], check=True, capture_output=True).stdout)


def pass_alone(path: str) -> None:
    with Engram(settings=load(url=path)) as eng:
        with eng._view.engine.read() as tx:
            (last,) = tx.all(_LAST, workspace=eng._view.workspace)[0]
        assert list(candidates(eng._view, range(1, last + 1)))
    # Not from `resource`: its peak includes the parent process.
    with open("/proc/self/status") as status:
        print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e3)


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument(
        "--peak", metavar="STORE", help="print the peak memory of one pass over a store, and nothing else"
    )
    chosen = parser.parse_args()
    if chosen.peak:
        pass_alone(chosen.peak)
        return
    size, rounds = (3_000, 2) if chosen.quick else (10_000, 3)
    report = measure.Report("Consolidation: finding duplicates")
    embedder = load_embedder("static")
    assert embedder is not None
    with measure.workplace() as folder:
        stores = {name: Store(f"{folder}/{name}.db", count, embedder) for name, count in _sizes(size)}
        compare(report, stores, rounds)
        memory = [(name, peak(store.path)) for name, store in stores.items()]
        for store in stores.values():
            store.eng.close()
    report.table("peak memory of a first pass", ("", "MB"), memory)
    most = memory[-1][1] / 1e3
    report.ratios.append(measure.Ratio("peak memory of a process, GB", most, most, most, "at most", 1))
    report.show(as_json=chosen.json)


def _sizes(size: int) -> list[tuple[str, int]]:
    return [(f"{count:,} memories", count) for count in (size, 10 * size)]


def compare(report: measure.Report, stores: dict[str, Store], rounds: int) -> None:
    small, large = stores
    for what, late in (("all", False), (f"{NEW} new", True)):
        found: dict[str, Found] = {}
        results = measure.alternate({name: partial(_timed, name, stores, late, found) for name in stores}, rounds)
        rows = [
            (name, median(results[name]) * 1e3, each.pairs, len(each.duplicates), _share(each, stores[name], late))
            for name, each in found.items()
        ]
        report.table(what, ("", "median ms", "pairs", "duplicates", "planted %"), rows)
        report.compare(f"{what}: {large} / {small}", results[large], results[small], "at most", 15)


def _timed(name: str, stores: dict[str, Store], late: bool, found: dict[str, Found]) -> float:
    found[name] = stores[name].find(NEW if late else stores[name].count)
    return found[name].seconds


def _share(found: Found, store: Store, late: bool) -> float:
    """The percentage of planted pairs that were found; with `late`, of the new ones."""
    wanted = {pair for pair in store.planted if not late or pair[1] > store.count - NEW}
    return 100 * len(found.duplicates & wanted) / max(len(wanted), 1)


if __name__ == "__main__":
    main()
