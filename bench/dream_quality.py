"""How dreaming changes recall: LoCoMo's conversations before and after one forced pass.

Each conversation is in a store of its own, with its sessions at their real dates (see `recall_quality.py`). All
questions are asked before and after the pass. `R@10` is the share of a question's answering turns among the first 10
hits. It must not fall, because what dreaming writes is on shelves of its own. Then the questions are asked of the gists
alone: `gist sR@5` is the share of answering sessions among the first 5 gists; `turn sR@5` is the same by best turns.
The pass must make a gist for every session and an era for every month.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from engram import Engram
from engram.config import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench import _measure as measure
    from bench.recall_quality import DATA, Conversation, Loaded, Question, fill, read
else:
    import _measure as measure
    from recall_quality import DATA, fill, read

EMBEDDERS = ("none", "static")


class Figures(NamedTuple):
    before: float
    after: float
    turns: float
    gists: float


def turn_recall(eng: Engram, loaded: Loaded, questions: Sequence[Question]) -> list[float]:
    return [
        len(wanted & {hit.exchange_id for hit in eng.recall(question.text, 10)}) / len(wanted)
        for question in questions
        for wanted in [{loaded.exchanges[id] for id in question.evidence}]
    ]


def session_recall(eng: Engram, loaded: Loaded, questions: Sequence[Question], *, gists: bool) -> list[float]:
    """The share of each question's sessions among the first 5, by their gists or by their best turns."""
    shares = []
    for question in questions:
        if gists:
            hits = eng.recall(question.text, 5, what=("memories",), kinds=["gist"])
        else:
            hits = eng.recall(question.text, 200)
        ranked = list(dict.fromkeys(hit.session_id for hit in hits))[:5]
        wanted = {loaded.sessions[loaded.exchanges[id]] for id in question.evidence}
        shares.append(len(wanted & set(ranked)) / len(wanted))
    return shares


def dream(eng: Engram, conversation: Conversation) -> float:
    """Run one forced pass and check its results; the seconds it took."""
    begun = perf_counter()
    (report,) = eng.dream(force=True)
    seconds = perf_counter() - begun
    months = sorted({session.at[:7] for session in conversation.sessions if session.turns})
    sessions = sum(bool(session.turns) for session in conversation.sessions)
    if (len(report.gists), report.eras, report.errors) != (sessions, months, []):
        raise AssertionError(f"{sessions} sessions, {months}, but {report}")
    return seconds


def run(folder: str, embedder: str, conversations: Sequence[Conversation], step: int) -> tuple[Figures, float]:
    columns: list[list[float]] = [[], [], [], []]
    seconds = 0.0
    for number, conversation in enumerate(conversations):
        questions = conversation.questions[::step]
        with Engram(settings=load(url=f"{folder}/{embedder}-{number}.db", embedder=embedder)) as eng:
            loaded = fill(eng, conversation)
            columns[0] += turn_recall(eng, loaded, questions)
            seconds += dream(eng, conversation)
            columns[1] += turn_recall(eng, loaded, questions)
            columns[2] += session_recall(eng, loaded, questions, gists=False)
            columns[3] += session_recall(eng, loaded, questions, gists=True)
    return Figures(*(100 * fmean(column) for column in columns)), seconds


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="LoCoMo's dev.json")
    chosen = parser.parse_args()
    conversations = read(chosen.data.resolve())
    step = 10 if chosen.quick else 1
    with measure.workplace() as folder:
        figures = {each: run(folder, each, conversations, step) for each in EMBEDDERS}
    report = measure.Report("Dreaming: quality")
    sessions = sum(len(conversation.sessions) for conversation in conversations)
    asked = sum(len(conversation.questions[::step]) for conversation in conversations)
    report.notes.append(f"{len(conversations)} conversations, {sessions} sessions, {asked:,} questions; extractive")
    rows: list[list[str | float]] = [[name, *found, seconds] for name, (found, seconds) in figures.items()]
    report.table("recall, %", ("", "R@10", "R@10 after", "turn sR@5", "gist sR@5", "pass, s"), rows)
    verdicts = [
        [
            f"{name}: R@10 does not fall",
            f"{found.after - found.before:+.2f}",
            "PASS" if found.after >= found.before else "MISS",
        ]
        for name, (found, _) in figures.items()
    ]
    report.table("targets", ("", "change", ""), verdicts)
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
