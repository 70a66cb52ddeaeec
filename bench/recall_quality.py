"""How well recall finds what answers a question: LoCoMo's conversations, and a hundred paraphrases.

**LoCoMo** is long conversations between two people, with questions and the turns that answer them. Every session is an
Engram session, written with `exchanges.add_many` at its own date; a turn is "speaker: text [photo caption]". `R@k` is
the share of a question's answering turns among the first k that `recall` returns, `sR@k` the same for sessions, which
rank by their best turn; both are means over all questions that name a turn. All are asked twice: with each conversation
in a store of its own, and with all in one, where the others' turns are in the way.

**Paraphrases** are questions and memories that share no content word (`paraphrases.py`), the memories put among all the
turns: `hit@k` is the share of questions whose memory is among the first k.

Fair because only the public API is used, as a caller uses it, with what is installed and nothing set but the embedder.
The constants of `recall` are fixed and were chosen with these conversations in view, on four to be tried on the fifth;
on others it may find a point less. The data is read where it is, and no part of it is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from engram import Engram
from engram.config import load
from engram.embedding import load as load_embedder
from engram.errors import MissingExtra
from engram.memory import words

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench.paraphrases import PAIRS
else:
    import _measure as measure
    from paraphrases import PAIRS

DATA = Path(__file__).resolve().parents[2] / "shared" / "locomo" / "dev.json"
MEASURES = ("R@5", "R@10", "R@20", "sR@5", "sR@10")
HITS = ("hit@1", "hit@5", "hit@10")
#: Enough to rank the sessions by their best turns too.
DEPTH = 500
#: Some ids in the data are written `D8:6; D9:17` or `D:11:26`.
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


class Mode(NamedTuple):
    name: str
    embedder: str
    mode: str


MODES = (Mode("words", "none", "words"), Mode("static", "static", "hybrid"), Mode("minilm", "minilm", "hybrid"))


class Turn(NamedTuple):
    id: str
    role: str
    text: str


class Session(NamedTuple):
    at: str
    turns: list[Turn]


class Question(NamedTuple):
    text: str
    #: The ids of the turns that answer it.
    evidence: frozenset[str]


class Conversation(NamedTuple):
    sessions: list[Session]
    questions: list[Question]


class Loaded(NamedTuple):
    """A conversation in a store: where its turns went."""

    exchanges: dict[str, int]
    #: The session of each exchange.
    sessions: dict[int, str]


class Target(NamedTuple):
    """What one figure of a mode should be, alone or above another mode's."""

    mode: str
    figure: str
    least: float
    aim: float
    above: str | None = None


TARGETS = (
    Target("words", "R@10", 76, 78),
    Target("static", "R@10", 0, 1.5, above="words"),
    Target("minilm", "R@10", 3, 5, above="words"),
    Target("words", "sR@10", 94, 95.5),
    Target("static", "sR@10", 94, 95.5),
    Target("minilm", "sR@10", 94, 95.5),
    Target("minilm", "hit@5", 80, 90),
)


def read(path: Path) -> list[Conversation]:
    if not path.is_file():
        raise SystemExit(f"There is no LoCoMo data at {path}; say with --data where dev.json is.")
    return [_conversation(raw) for raw in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(raw: dict[str, Any]) -> Conversation:
    said = raw["conversation"]
    numbers = sorted(int(key.split("_")[1]) for key, value in said.items() if isinstance(value, list))
    sessions = [
        Session(
            datetime.strptime(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").isoformat(),
            [_turn(turn, said["speaker_a"]) for turn in said[f"session_{number}"]],
        )
        for number in numbers
    ]
    known = {turn.id for session in sessions for turn in session.turns}
    questions = [Question(asked["question"], _evidence(asked) & known) for asked in raw["qa"]]
    return Conversation(sessions, [question for question in questions if question.evidence])


def _turn(raw: dict[str, Any], first: str) -> Turn:
    caption = f" [{raw['blip_caption']}]" if raw.get("blip_caption") else ""
    role = "user" if raw["speaker"] == first else "assistant"
    return Turn(raw["dia_id"], role, f"{raw['speaker']}: {raw['text']}{caption}")


def _evidence(asked: dict[str, Any]) -> frozenset[str]:
    named = _EVIDENCE.findall(" ".join(asked.get("evidence") or []))
    return frozenset(f"D{session}:{turn}" for session, turn in named)


def fill(eng: Engram, conversation: Conversation) -> Loaded:
    loaded = Loaded({}, {})
    for session in conversation.sessions:
        id = eng.sessions.register("import", f"talk of {session.at}")
        eng.exchanges.add_many(
            {"session_id": id, "role": turn.role, "content": turn.text, "created_at": session.at}
            for turn in session.turns
        )
        for turn, exchange in zip(session.turns, eng.exchanges.history(id), strict=True):
            loaded.exchanges[turn.id] = exchange.id
            loaded.sessions[exchange.id] = id
    return loaded


def ask(eng: Engram, mode: Mode, loaded: Loaded, questions: Sequence[Question]) -> Iterator[list[float]]:
    """The measures of each question."""
    for question in questions:
        hits = eng.recall(question.text, DEPTH, mode=mode.mode)
        found = [hit.exchange_id for hit in hits if hit.exchange_id is not None]
        ranked = list(dict.fromkeys(hit.session_id for hit in hits))
        wanted = {loaded.exchanges[id] for id in question.evidence}
        sessions = {loaded.sessions[id] for id in wanted}
        yield [len(wanted & set(found[:k])) / len(wanted) for k in (5, 10, 20)] + [
            len(sessions & set(ranked[:k])) / len(sessions) for k in (5, 10)
        ]


def ask_paraphrases(eng: Engram, mode: Mode) -> list[list[float]]:
    """Remember the memories among what is there, and ask for each of them."""
    ids = [eng.remember(pair.memory).id for pair in PAIRS]
    results = []
    for pair, id in zip(PAIRS, ids, strict=True):
        hits = [hit.memory_id for hit in eng.recall(pair.question, 10, mode=mode.mode)]
        results.append([float(id in hits[:k]) for k in (1, 5, 10)])
    return results


def expect_paraphrases() -> None:
    """Make sure that words alone cannot find them."""
    for question, memory in PAIRS:
        shared = set(words.terms(question)) & set(words.terms(memory))
        if shared:
            raise AssertionError(f"{question!r} and {memory!r} share {', '.join(shared)}")


def run(folder: str, mode: Mode, conversations: Sequence[Conversation], step: int) -> dict[str, dict[str, float]]:
    """Every figure of a mode, by where the questions were asked."""
    separate: list[list[float]] = []
    together: list[list[float]] = []
    with ExitStack() as stack:
        one = stack.enter_context(Engram(settings=load(url=f"{folder}/{mode.name}.db", embedder=mode.embedder)))
        all_loaded = [fill(one, conversation) for conversation in conversations]
        for number, conversation in enumerate(conversations):
            questions = conversation.questions[::step]
            settings = load(url=f"{folder}/{mode.name}-{number}.db", embedder=mode.embedder)
            own = stack.enter_context(Engram(settings=settings))
            separate += ask(own, mode, fill(own, conversation), questions)
            together += ask(one, mode, all_loaded[number], questions)
        pairs = ask_paraphrases(one, mode)
    return {
        "a store each": _means(MEASURES, separate),
        "all in one store": _means(MEASURES, together),
        "paraphrases": _means(HITS, pairs),
    }


def _means(names: Sequence[str], rows: Sequence[Sequence[float]]) -> dict[str, float]:
    return {name: 100 * fmean(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def usable() -> tuple[list[Mode], list[str]]:
    """The modes whose embedder is installed, and what to say about the others."""
    modes, missing = [], []
    for mode in MODES:
        try:
            load_embedder(mode.embedder)
        except MissingExtra as error:
            missing.append(f"{mode.name} was left out: {error}")
        else:
            modes.append(mode)
    return modes, missing


def compare(figures: dict[str, dict[str, dict[str, float]]]) -> Iterator[tuple[str | float, ...]]:
    """Each target that was measured, and whether it was met."""
    for mode, figure, least, aim, above in TARGETS:
        if mode not in figures:
            continue
        place = "paraphrases" if figure in HITS else "a store each"
        value = figures[mode][place][figure] - (figures[above][place][figure] if above else 0)
        sign = "+" if above else ""
        name = f"{mode} {figure}" + (f" above {above}" if above else "")
        met = value > least if least == 0 else value >= least
        verdict = "AIM" if value >= aim else "PASS" if met else "MISS"
        yield name, f"{value:{sign}.1f}", f"{least:{sign}g}", f"{aim:{sign}g}", verdict


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="LoCoMo's dev.json")
    chosen = parser.parse_args()
    expect_paraphrases()
    conversations = read(chosen.data.resolve())
    modes, missing = usable()
    step = 5 if chosen.quick else 1
    with measure.workplace() as folder:
        figures = {mode.name: run(folder, mode, conversations, step) for mode in modes}
    report = measure.Report("Recall: quality")
    turns = sum(len(session.turns) for conversation in conversations for session in conversation.sessions)
    asked = sum(len(conversation.questions[::step]) for conversation in conversations)
    report.notes.append(f"{len(conversations)} conversations, {turns:,} turns, {asked:,} questions with evidence")
    report.notes.append(f"{len(PAIRS)} paraphrases, asked among all the turns")
    report.notes += missing
    for place, head in (("a store each", MEASURES), ("all in one store", MEASURES), ("paraphrases", HITS)):
        rows: list[list[str | float]] = [[name, *figures[name][place].values()] for name in figures]
        report.table(f"{place}, %", ("", *head), rows)
    report.table("targets", ("", "reached", "at least", "aim", ""), list(compare(figures)))
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
