"""How many duplicates and contradictions the comparator recognises among ordinary statements, and what harm it does.

`statement_pairs.json` has pairs of statements from work and life: duplicates, contradictions (the newer one makes the
older one untrue) and different ones, which may be about nearly the same thing. They were written without knowledge of
the rules. The half `dev` was used to write the rules, the half `kept` was not looked at.

Each pair is judged as consolidation judges it, with the same functions and thresholds: first whether it is proposed as
a merge, then whether it is proposed as a replacement of the older one. Harm is a proposal for a pair of different
statements, or a merge of a contradiction; it is given in per cent of these pairs.

`--show` prints the pairs that were judged wrongly. `--store` puts all pairs into one store and counts the proposals of
a pass, which must also find the pairs. `--fit` fits the weights to the pairs of the tests and of the half
`dev`, prints cross-validated figures, and writes the module with the weights to standard output.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from engram import Engram
from engram.config import load as load_settings
from engram.dreaming.duplicates import evidence, similar
from engram.dreaming.plans import CONTRADICTS
from engram.embedding import load

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.dreaming import ordinary_pairs, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

PAIRS = Path(__file__).with_name("statement_pairs.json")
SIMILARITY = load_settings().dream_similarity
SORTS = ("duplicate", "contradiction", "different")
EMBEDDERS = ("static", "minilm")
#: How strongly the fit keeps the weights small.
PENALTY = 12.0
FOLDS = 10


class Pair(NamedTuple):
    sort: str
    older: str
    newer: str
    half: str


def read_pairs(path: Path) -> list[Pair]:
    return [Pair(*(each[field] for field in Pair._fields)) for each in json.loads(path.read_text("utf-8"))]


def cosines(name: str, some: Sequence[Pair]) -> list[float] | None:
    embedder = load(name)
    if embedder is None:
        return None
    vectors = embedder.embed([text for pair in some for text in (pair.older, pair.newer)])
    return np.einsum("ij,ij->i", vectors[::2], vectors[1::2]).tolist()  # type: ignore[no-any-return]


def judge(pair: Pair, cosine: float, model: str) -> str:
    """What consolidation proposes for the pair."""
    if similar.alike(pair.older, pair.newer, cosine, model) >= SIMILARITY:
        return "merge"
    against = similar.contradicts(pair.older, pair.newer, cosine, model)
    return "replace" if against >= CONTRADICTS else "nothing"


def is_harm(pair: Pair, proposed: str) -> bool:
    return (pair.sort == "different" and proposed != "nothing") or (
        pair.sort == "contradiction" and proposed == "merge"
    )


def report(name: str, half: str, some: list[Pair], proposed: list[str]) -> None:
    right = {"duplicate": "merge", "contradiction": "replace"}
    shares = []
    for sort, wanted in right.items():
        found = [each == wanted for pair, each in zip(some, proposed, strict=True) if pair.sort == sort]
        shares.append(f"{sort}s recognised {100 * np.mean(found):5.1f} % ({sum(found)} of {len(found)})")
    others = sum(pair.sort != "duplicate" for pair in some)
    harm = sum(map(is_harm, some, proposed))
    print(f"{name:8} {half:5} {'   '.join(shares)}   harm {100 * harm / others:4.1f} % ({harm} of {others})")


def show(name: str, some: list[Pair], proposed: list[str]) -> None:
    for pair, each in zip(some, proposed, strict=True):
        wanted = {"duplicate": "merge", "contradiction": "replace", "different": "nothing"}[pair.sort]
        if each != wanted:
            harm = "HARM " if is_harm(pair, each) else ""
            print(f"  {name} {harm}{pair.sort} → {each}: {pair.older} | {pair.newer}")


def run(path: Path, details: bool) -> None:
    known = read_pairs(path)
    for name in EMBEDDERS:
        found = cosines(name, known)
        if found is None:
            print(f"{name}: not installed")
            continue
        proposed = [judge(pair, cosine, name) for pair, cosine in zip(known, found, strict=True)]
        # Again, with the texts read and the word vectors known, as for most pairs of a pass.
        similar._measure.cache_clear()
        start = process_time()
        for pair, cosine in zip(known, found, strict=True):
            judge(pair, cosine, name)
        spent = process_time() - start
        for half in sorted({pair.half for pair in known}):
            chosen = [at for at, pair in enumerate(known) if pair.half == half]
            some, these = [known[at] for at in chosen], [proposed[at] for at in chosen]
            report(name, half, some, these)
            if details:
                show(name, some, these)
        print(f"{name:8} {1e6 * spent / len(known):.0f} µs for a pair of texts that were read before")


def run_pass(path: Path) -> None:
    """Put all pairs into one store, run one pass and count its proposals. It must also find the pairs by itself."""
    known = read_pairs(path)
    for name in EMBEDDERS:
        if load(name) is None:
            print(f"{name}: not installed")
            continue
        counts: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            settings = load_settings(
                url=f"{folder}/engram.db", embedder=name, dream_min_age=0, dream_max_actions=10 * len(known)
            )
            with Engram(settings=settings) as eng:
                pair_of = {
                    eng.remember(text).id: number
                    for number, pair in enumerate(known)
                    for text in (pair.older, pair.newer)
                }
                eng.backlog.work()
                eng.dream(force=True)
                for proposal in eng.proposals.list():
                    touched = {id for _, id, *_ in (*proposal.targets, *proposal.sources)}
                    numbers = {pair_of[id] for id in touched}
                    pair = known[min(numbers)]
                    which = f"{pair.half} {pair.sort}" if len(numbers) == 1 else "two pairs"
                    counts[f"{proposal.what} of {which}"] += 1
        print(f"{name:8} one store, one pass: {', '.join(f'{what} {count}' for what, count in sorted(counts.items()))}")


class Example(NamedTuple):
    """A pair to learn from: the chances of the three sorts, and whether the model decides about it."""

    pair: Pair
    chances: tuple[float, float, float]


def examples() -> list[Example]:
    """The pairs of the tests and of the half `dev`. Nearly equal texts are left out where literal rules decide."""
    sure = {sort: (float(number == 0), float(number == 1), float(number == 2)) for number, sort in enumerate(SORTS)}
    found = [Example(pair, sure[pair.sort]) for pair in read_pairs(PAIRS) if pair.half == "dev"]
    for sort, some in (
        ("duplicate", [*ordinary_pairs.REWORDED, *pairs.SAME, *pairs.HELD_SAME, *pairs.FRESH_SAME]),
        ("contradiction", [*ordinary_pairs.CHANGED, *pairs.CONTRADICTING]),
        ("different", [*ordinary_pairs.BOTH_TRUE, *pairs.COMPATIBLE]),
    ):
        for a, b in some:
            same = sort == "different" and similar.alike(a, b, None) >= SIMILARITY
            sort_now = "duplicate" if same else sort
            found.append(Example(Pair(sort_now, a, b, "tests"), sure[sort_now]))
    # Pairs that must be kept apart: most are contradictions.
    for _, a, b in [*pairs.APART, *(("", *each) for each in [*pairs.HELD_APART, *pairs.FRESH_APART])]:
        if not similar._nearly_equal(a, b):
            found.append(Example(Pair("apart", a, b, "tests"), (0.0, 0.7, 0.3)))
    return found


def measured(some: list[Example], name: str) -> Floats:
    close = cosines(name, [each.pair for each in some])
    assert close is not None
    rows = []
    for (pair, _), cosine in zip(some, close, strict=True):
        numbers = similar._measure(pair.older, pair.newer, cosine)
        assert numbers is not None, pair
        rows.append([1.0, *map(float, numbers)])
    return np.array(rows)


def fitted(rows: Floats, chances: Floats) -> Floats:
    """Weights of a multinomial logistic regression by Newton's method, for standardised measures."""
    size, width = rows.shape[1], chances.shape[1]
    penalty = np.full(size, PENALTY)
    penalty[0] = 0.05
    table = np.zeros((size, width))
    for _ in range(60):
        found = softmax(rows @ table)
        gradient = rows.T @ (found - chances) + penalty[:, None] * table
        curvature = np.zeros((size * width, size * width))
        for one in range(width):
            for other in range(width):
                part = found[:, one] * ((one == other) - found[:, other])
                curvature[one * size : (one + 1) * size, other * size : (other + 1) * size] = (
                    rows * part[:, None]
                ).T @ rows + np.diag(penalty) * (one == other)
        step = np.linalg.solve(curvature, gradient.T.ravel()).reshape(width, size).T
        table -= step * min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-9))
        if np.abs(step).max() < 1e-6:
            break
    return table


def softmax(sums: Floats) -> Floats:
    parts = np.exp(sums - sums.max(axis=1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


def fit(name: str, some: list[Example]) -> tuple[Floats, Floats]:
    """The weights for measures as they are, and each pair's chances by weights that were fitted without it."""
    rows = measured(some, name)
    chances = np.array([each.chances for each in some])
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    mean[0], spread[0] = 0.0, 1.0
    spread[spread == 0] = 1.0
    scaled = (rows - mean) / spread
    validated = np.zeros_like(chances)
    for seed in range(3):
        chance = random.Random(seed)
        fold = np.array([chance.randrange(FOLDS) for _ in some])
        for number in range(FOLDS):
            table = fitted(scaled[fold != number], chances[fold != number])
            validated[fold == number] += softmax(scaled[fold == number] @ table) / 3
    table = fitted(scaled, chances) / spread[:, None]
    table[0] -= mean[1:] @ table[1:]
    return table, validated


def validate(name: str, some: list[Example], chances: Floats, say: Callable[[str], None]) -> None:
    """Cross-validated figures for several thresholds."""
    close = cosines(name, [each.pair for each in some])
    assert close is not None
    literal = [similar.same_words(each.pair.older, each.pair.newer, at) for each, at in zip(some, close, strict=True)]
    barred = [
        similar._nearly_equal(each.pair.older, each.pair.newer)
        or similar.differ(each.pair.older, each.pair.newer) is not None
        for each in some
    ]
    unrelated = [evidence.unrelated(similar._measure(each.pair.older, each.pair.newer, None) or ()) for each in some]
    for half in ("dev", "tests"):
        for least in (0.5, 0.55, 0.6, 0.65, 0.7, 0.75):
            counts = {"merge": 0, "replace": 0, "wrong merge": 0, "wrong replacement": 0}
            for each, same, bar, off, (alike, against, _) in zip(
                some, literal, barred, unrelated, chances, strict=True
            ):
                if each.pair.half != half or each.pair.sort == "apart":
                    continue
                merge = same >= SIMILARITY or (not bar and alike >= least)
                replace = not merge and not off and against >= least
                counts["merge"] += int(merge and each.pair.sort == "duplicate")
                counts["replace"] += int(replace and each.pair.sort == "contradiction")
                counts["wrong merge"] += int(merge and each.pair.sort != "duplicate")
                counts["wrong replacement"] += int(replace and each.pair.sort == "different")
            totals = {sort: sum(each.pair.sort == sort and each.pair.half == half for each in some) for sort in SORTS}
            say(f"{name} {half} from {least}: {counts} of {totals}")


def write_weights() -> None:
    """Print the module with the weights, and the cross-validated figures to standard error."""
    some = examples()
    print(HEAD.rstrip())
    for name in EMBEDDERS:
        table, chances = fit(name, some)
        validate(name, some, chances, lambda line: print(line, file=sys.stderr))
        print(f'    "{name}": (')
        for column in table.T:
            numbers = [f"{weight:.3f}" for weight in column]
            lines = [", ".join(numbers[at : at + 12]) for at in range(0, len(numbers), 12)]
            print("        (\n            " + ",\n            ".join(lines) + ",\n        ),")
        print("    ),")
    print("}\n# fmt: on")


HEAD = '''"""How much each measure of `evidence` counts, by the embedder of the cosine.

A multinomial logistic regression. `python bench/statement_pairs.py --fit` fits it and prints this module.
"""

from typing import Final

Table = tuple[tuple[float, ...], ...]
#: Chances from here on are acted on. At these, cross-validation finds harm in one of a hundred pairs.
SAME_FROM: Final = 0.7
AGAINST_FROM: Final = 0.75
#: A row each for duplicates, contradictions and neither: a constant, then a weight for each of `evidence.NAMES`.
# fmt: off
TABLES: Final[dict[str, Table]] = {
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, default=PAIRS)
    parser.add_argument("--show", action="store_true", help="print the pairs that were judged wrongly")
    parser.add_argument(
        "--store", action="store_true", help="count the proposals of a pass over a store with all pairs"
    )
    parser.add_argument("--fit", action="store_true", help="fit the weights and print their module")
    chosen = parser.parse_args()
    if chosen.fit:
        write_weights()
    elif chosen.store:
        run_pass(chosen.pairs)
    else:
        run(chosen.pairs, chosen.show)


if __name__ == "__main__":
    main()
