"""Whether a score is the chance that a hit is about the question, in small stores and in large ones.

The questions are of two kinds: about LoCoMo's five development conversations, and about 48 real coding sessions
(`coding/dev.jsonl`). The best hits for 160 of them were judged twice, apart, by a language model that saw question and
passage: does the passage answer the question, is it about the very matter, or neither? The judgements agree for 98 of
100 passages (Cohen's kappa 0.96). A hit is *about* the question if both said one of the first two. Forty more questions
are about nothing in either store, so no hit is. `recall_labels.json` has the questions and judgements. It names turns
by number; it does not contain their text. Hits that were not judged are left out, and counted.

**Reliability.** Hits are grouped by score. In each group, the mean score should be the share that is about the
question.

**Small stores.** A judged passage, or none, among few or many random others, each stored as a memory.

**The floor.** What the interfaces hide by default: the share of questions about nothing that still get a hit, and the
share of hits about the question that are lost.

**Fit.** `scoring.Weights.odds` for these hits. The constants in the code come from here; they have two numbers for
each embedder, for more than two thousand hits, so they are not fitted to single questions.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from engram import Engram
from engram.config import load
from engram.errors import MissingExtra
from engram.records import UNLIKELY, Hit

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench.recall_quality import DATA, Conversation, fill, read, remembering
else:
    import _measure as measure
    from recall_quality import DATA, fill, read, remembering

LABELS = Path(__file__).parent / "recall_labels.json"
CODING = DATA.parent.parent / "coding" / "dev.jsonl"
#: Hits that are judged for each question.
DEPTH = 8
SIZES = (1, 10, 100)
#: Among so many passages from the same sessions some are about the question, though nobody judged them for it.
LARGEST = str(SIZES[-1])
#: Characters of a passage in a small store.
SHORT = 400
GROUPS = (0.0, 0.08, 0.2, 0.4, 0.6, 0.8, 1.0)
#: Mode, embedder and mode of recall.
MODES = (("words", "static", "words"), ("static", "static", "hybrid"), ("minilm", "minilm", "hybrid"))
SEED = 5
#: Strengths below this count as this; their logarithm would outweigh all others.
LEAST = 1e-3


class Judged(NamedTuple):
    """A hit with its judgement."""

    set: str
    question: str
    rank: int
    score: float
    strength: float
    about: bool
    answers: bool


class Asked(NamedTuple):
    set: str
    question: str
    eng: Engram
    #: Grades of both judges by exchange, and the turns that answer.
    grades: dict[int, str]
    answers: frozenset[int]


def load_coding(eng: Engram, path: Path) -> dict[str, int]:
    """Store the coding sessions; returns the exchange of each turn, by session and number."""
    turns: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        session = json.loads(line)
        said = [(number, turn) for number, turn in enumerate(session["turns"]) if turn["text"].strip()]
        id = eng.sessions.register("claude-code", session["id"], project=session["project"])
        at = session["started"]
        rows = []
        for _, turn in said:
            at = max(at, turn.get("at") or at)
            rows.append({"session_id": id, "role": turn["role"], "content": turn["text"], "created_at": at})
        eng.exchanges.add_many(rows)
        for (number, _), exchange in zip(said, eng.exchanges.history(id), strict=True):
            turns[f"{session['id']}/{number}"] = exchange.id
    return turns


def questions(
    stack: ExitStack,
    folder: str,
    embedder: str,
    labels: dict[str, Any],
    conversations: Sequence[Conversation],
    path: Path,
) -> list[Asked]:
    """All questions, each with the store that is asked."""

    def opened(name: str) -> Engram:
        settings = load(url=f"{folder}/{embedder}-{name}.db", embedder=embedder)
        return stack.enter_context(Engram(settings=settings))

    coding = opened("coding")
    turns = load_coding(coding, path)
    asked = []
    for each in labels["coding"]:
        grades: dict[int, str] = {}
        for place, grade in each["judged"].items():
            turn = turns[place.rpartition("/")[0]]
            grades[turn] = max(grade, grades.get(turn, "00"))
        answers = frozenset(turns[place] for place in each["answers"] if place in turns)
        asked.append(Asked("coding", each["question"], coding, grades, answers))
    stores = []
    for number, conversation in enumerate(conversations):
        eng = opened(str(number))
        stores.append((eng, fill(eng, conversation)))
    for each in labels["locomo"]:
        eng, loaded = stores[each["conversation"]]
        question = conversations[each["conversation"]].questions[each["question"]]
        grades = {loaded.exchanges[id]: grade for id, grade in each["judged"].items()}
        answers = frozenset(loaded.exchanges[id] for id in question.evidence)
        asked.append(Asked("LoCoMo", question.text, eng, grades, answers))
    elsewhere = [coding, stores[2][0]]
    asked += [Asked("nothing", each, eng, {}, frozenset()) for each in labels["off_topic"] for eng in elsewhere]
    return asked


def judge(asked: Sequence[Asked], mode: str) -> tuple[list[Judged], int]:
    """The judged hits of all questions, and how many hits nobody judged."""
    judged, unknown = [], 0
    for each in asked:
        for rank, hit in enumerate(each.eng.recall(each.question, DEPTH, mode=mode, note=False)):
            assert hit.exchange_id is not None
            grade = "00" if each.set == "nothing" else each.grades.get(hit.exchange_id)
            if grade is None and hit.exchange_id in each.answers:
                grade = "22"
            if grade is None:
                unknown += 1
                continue
            judged.append(_judged(each.set, each.question, rank, hit, min(grade) >= "1", min(grade) == "2"))
    return judged, unknown


def _judged(set: str, question: str, rank: int, hit: Hit, about: bool, answers: bool) -> Judged:
    strength = hit.why["strength"]
    assert isinstance(strength, float)
    return Judged(set, question, rank, hit.score, strength, about, answers)


def in_small_stores(
    eng: Engram, asked: Sequence[Asked], sizes: Sequence[int], mode: str, step: int
) -> Iterator[Judged]:
    """A passage that is about the question, or none, among random others in a store of each size."""
    chooser = random.Random(SEED)
    texts = {(each.eng, id): each.eng.exchanges.get(id).content for each in asked for id in each.grades}
    # A longer turn has several pieces, and one judgement.
    short = {key: text for key, text in texts.items() if len(text) < SHORT}
    unrelated = [(each.eng, id) for each in asked for id, grade in each.grades.items() if grade == "00"]
    others = [short[key] for key in unrelated if key in short]
    number = 0
    for size in sizes:
        for each in asked[::step]:
            about = [id for id, grade in each.grades.items() if min(grade) >= "1"]
            fitting = [short[each.eng, id] for id in about if (each.eng, id) in short]
            own = {texts[each.eng, id] for id in each.grades}
            for some in ([chooser.choice(fitting)], []) if fitting else ([],):
                number += 1
                store = eng.workspace(f"small-{number}")
                rest = [text for text in chooser.sample(others, size + 30) if text not in own]
                for text in dict.fromkeys([*some, *rest[: size - len(some)]]):
                    store.remember(text)
                for rank, hit in enumerate(store.recall(each.question, 3, mode=mode, note=False)):
                    yield _judged(str(size), each.question, rank, hit, hit.whole in fitting, False)


def reliability(name: str, judged: Sequence[Judged]) -> Iterator[list[str | float]]:
    for low, high in pairwise(GROUPS):
        inside = [each for each in judged if low <= each.score < high]
        if inside:
            mean, share = (100 * fmean(column) for column in zip(*((e.score, e.about) for e in inside), strict=True))
            yield [f"{name} {low:.2f}–{high:.2f}", f"{len(inside):,}", mean, share]


def fit(judged: Sequence[Judged]) -> tuple[float, float]:
    """Logistic regression of `about` on the logarithm of strength, by Newton's method."""
    at_one, growth = 0.0, 1.0
    rows = [(log(max(each.strength, LEAST)), float(each.about)) for each in judged]
    for _ in range(30):
        g0 = g1 = h00 = h01 = h11 = 0.0
        for x, y in rows:
            p = 1 / (1 + exp(-at_one - growth * x))
            w = p * (1 - p)
            g0, g1 = g0 + y - p, g1 + (y - p) * x
            h00, h01, h11 = h00 + w, h01 + w * x, h11 + w * x * x
        det = h00 * h11 - h01 * h01
        at_one += (h11 * g0 - h01 * g1) / det
        growth += (h00 * g1 - h01 * g0) / det
    return at_one, growth


def floor(judged: Sequence[Judged]) -> list[float]:
    """In %: questions about nothing with a hit above the floor, and hits about the question below it."""
    nothing: dict[tuple[str, int], bool] = {}
    seen: dict[str, int] = {}
    for each in judged:
        if each.set == "nothing":
            seen[each.question] = seen.get(each.question, 0) + (each.rank == 0)
            key = each.question, seen[each.question]
            nothing[key] = nothing.get(key, False) or each.score >= UNLIKELY
    lost = [each.score < UNLIKELY for each in judged if each.about]
    return [100 * fmean(nothing.values()), 100 * fmean(lost)]


def answered(judged: Sequence[Judged], set: str) -> list[float]:
    """In % of the questions: an answer is the first hit, among the first three, among the first five."""
    best: dict[str, int] = {}
    for each in judged:
        if each.set == set:
            best[each.question] = min(best.get(each.question, DEPTH), each.rank if each.answers else DEPTH)
    return [100 * fmean(rank < k for rank in best.values()) for k in (1, 3, 5)]


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="LoCoMo's dev.json")
    parser.add_argument("--coding", type=Path, default=CODING, metavar="PATH", help="the coding sessions, dev.jsonl")
    chosen = parser.parse_args()
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    conversations = read(chosen.data.resolve())
    coding = chosen.coding.resolve()
    report = measure.Report("Recall: what a score means")
    tables: dict[str, list[list[str | float]]] = {name: [] for name in ("fit", "floor", "answers")}
    with measure.workplace() as folder, ExitStack() as stack:
        prepared: dict[str, list[Asked]] = {}
        for name, embedder, mode in MODES:
            try:
                _remember_vectors(embedder)
            except MissingExtra as error:
                report.notes.append(f"{name} was left out: {error}")
                continue
            if embedder not in prepared:
                prepared[embedder] = questions(stack, folder, embedder, labels, conversations, coding)
            asked = prepared[embedder][:: 6 if chosen.quick else 1]
            judged, unknown = judge(asked, mode)
            report.notes.append(f"{name}: {len(judged):,} judged hits, {unknown} that nobody judged")
            small = stack.enter_context(Engram(settings=load(url=f"{folder}/small-{name}.db", embedder=embedder)))
            step = 4 if embedder == "minilm" else 2
            in_small = list(in_small_stores(small, asked, SIZES[:1] if chosen.quick else SIZES, mode, step))
            rows = [
                row for set in ("LoCoMo", "coding") for row in reliability(set, [e for e in judged if e.set == set])
            ]
            rows += reliability("all", judged)
            for size in SIZES:
                rows += reliability(f"{size} items", [each for each in in_small if each.set == str(size)])
            report.table(f"{name}: hits by score", ("", "hits", "score, %", "about, %"), rows)
            at_one, growth = fit([*judged, *(each for each in in_small if each.set != LARGEST)])
            tables["fit"].append([name, f"{at_one:.2f}", f"{growth:.2f}"])
            tables["floor"].append([name, *floor(judged)])
            for set in ("LoCoMo", "coding"):
                tables["answers"].append([f"{name}, {set}", *answered(judged, set)])
    report.table(f"the floor of {UNLIKELY}", ("", "nothing, %", "lost, %"), tables["floor"])
    report.table("an answer among the first, %", ("", "1", "3", "5"), tables["answers"])
    report.table("odds that fit", ("", "at 1", "growth"), tables["fit"])
    report.show(as_json=chosen.json)


def _remember_vectors(embedder: str) -> None:
    """The same passages are embedded for many small stores, so their vectors are computed once."""
    from engram.embedding import load as load_embedder

    model: Any = load_embedder(embedder)
    if embedder == "minilm" and "embed" not in vars(model):
        model.embed = _stacked(remembering(model.embed))
        model.tokens = remembering(model.tokens)


def _stacked(make: Any) -> Any:
    import numpy as np

    return lambda texts: np.array(make(texts), np.float32).reshape(len(texts), -1)


if __name__ == "__main__":
    main()
