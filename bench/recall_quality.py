"""How well recall finds the answer to a question: LoCoMo's conversations, and a hundred paraphrases.

**LoCoMo** has long conversations between two people, with questions and the turns that answer them. Every session
becomes an Engram session, written with `exchanges.add_many` at its own date. A turn is "speaker: text [photo caption]".
`R@k` is the share of a question's answering turns among the first k hits. `sR@k` is the same for sessions, ranked by
their best turn. Both are means over all questions that name a turn. All questions are asked twice: with each
conversation in its own store, and with all conversations in one store.

**Paraphrases** are questions and memories that share no content word (`paraphrases.py`). The memories are stored among
all turns. `hit@k` is the share of questions whose memory is among the first k hits.

**Held out.** Each mode is measured with all weights of a small grid. Each conversation uses the weights with
the best R@10 on the four others, so its own questions did not choose its weights. They did influence the method and the
grids, so other data may give about a point less. The tables also show the result of the constants in the code, which
users get.

The comparison is fair because it uses only the public API and sets only the embedder and the weights. It requests fifty
hits, which searches no deeper than requesting five. MiniLM's vectors are cached during the run, which only saves time.
The data is read in place and not copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from engram import Engram
from engram.config import load
from engram.embedding import load as load_embedder
from engram.errors import MissingExtra
from engram.memory import analyser
from engram.memory.scoring import Weights, weights_of

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench.paraphrases import PAIRS
else:
    import _measure as measure
    from paraphrases import PAIRS

DATA = Path(__file__).resolve().parents[2] / "shared" / "locomo" / "dev.json"
MEASURES = ("R@5", "R@10", "R@20", "sR@5", "sR@10")
HITS = ("hit@1", "hit@5", "hit@10")
#: Hits per question: enough to rank most sessions by their best turns.
DEPTH = 50
#: Some ids in the data are written `D8:6; D9:17` or `D:11:26`.
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


Made = TypeVar("Made")
#: One row of measures for each question of a conversation.
Results = list[list[float]]


class Mode(NamedTuple):
    name: str
    embedder: str
    mode: str
    rerank: str
    #: The changes that are tried, besides the weights in the code.
    grid: Sequence[dict[str, Any]]

    @property
    def choices(self) -> list[Weights]:
        """All weights to try; those in the code come first."""
        usual = weights_of(self.embedder)
        return list(dict.fromkeys([usual, *(usual._replace(**changed) for changed in self.grid)]))


MODES = (
    Mode("words", "none", "words", "never", [{"smooth": smooth} for smooth in (0.2, 0.3, 0.4)]),
    Mode("static", "static", "hybrid", "never", [{"meaning": meaning} for meaning in (35, 45, 60)]),
    Mode("minilm, no rerank", "minilm", "hybrid", "never", [{"meaning": meaning} for meaning in (20, 25, 35)]),
    Mode(
        "minilm",
        "minilm",
        "hybrid",
        "always",
        [{"meaning": meaning} for meaning in (20, 25, 35)] + [{"rerank": rerank} for rerank in (1.5, 2.0, 3.0)],
    ),
)


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
    """A conversation in a store: the exchanges of its turns."""

    exchanges: dict[str, int]
    #: The session of each exchange.
    sessions: dict[int, str]


class Target(NamedTuple):
    """The target of one figure of a mode, absolute or above another mode."""

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
        raise SystemExit(f"There is no LoCoMo data at {path}. Give the path of dev.json with --data.")
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


class Stores(NamedTuple):
    """The conversations with one embedder: each in its own store, and all in one."""

    own: list[tuple[Engram, Loaded]]
    one: Engram
    loaded: list[Loaded]


def prepare(stack: ExitStack, folder: str, embedder: str, conversations: Sequence[Conversation]) -> Stores:
    def opened(name: str) -> Engram:
        settings = load(url=f"{folder}/{embedder}-{name}.db", embedder=embedder)
        return stack.enter_context(Engram(settings=settings))

    own = []
    for number, conversation in enumerate(conversations):
        eng = opened(str(number))
        own.append((eng, fill(eng, conversation)))
    one = opened("one")
    return Stores(own, one, [fill(one, conversation) for conversation in conversations])


def ask(eng: Engram, mode: Mode, weights: Weights, loaded: Loaded, questions: Sequence[Question]) -> Results:
    results = []
    for question in questions:
        hits = eng.recall(question.text, DEPTH, mode=mode.mode, rerank=mode.rerank, weights=weights)
        found = [hit.exchange_id for hit in hits if hit.exchange_id is not None]
        ranked = list(dict.fromkeys(hit.session_id for hit in hits))
        wanted = {loaded.exchanges[id] for id in question.evidence}
        sessions = {loaded.sessions[id] for id in wanted}
        turns = [len(wanted & set(found[:k])) / len(wanted) for k in (5, 10, 20)]
        results.append(turns + [len(sessions & set(ranked[:k])) / len(sessions) for k in (5, 10)])
    return results


def ask_paraphrases(eng: Engram, mode: Mode) -> Results:
    """Store the memories among the turns and ask for each. Memories that are already stored are not duplicated."""
    ids = [eng.remember(pair.memory).id for pair in PAIRS]
    results = []
    for pair, id in zip(PAIRS, ids, strict=True):
        hits = [hit.memory_id for hit in eng.recall(pair.question, 10, mode=mode.mode, rerank=mode.rerank)]
        results.append([float(id in hits[:k]) for k in (1, 5, 10)])
    return results


def remembering(make: Callable[[list[str]], Sequence[Made]]) -> Callable[[Sequence[str]], list[Made]]:
    """Cache the results of a function by text."""
    made: dict[str, Made] = {}

    def remembered(texts: Sequence[str]) -> list[Made]:
        new = [text for text in dict.fromkeys(texts) if text not in made]
        made.update(zip(new, make(new), strict=True))
        return [made[text] for text in texts]

    return remembered


def expect_paraphrases() -> None:
    """Check that the halves of each pair share no term, so that words alone cannot find it."""
    for question, memory in PAIRS:
        shared = set(analyser.terms(question)) & set(analyser.terms(memory))
        if shared:
            raise AssertionError(f"{question!r} and {memory!r} share {', '.join(shared)}")


class Figures(NamedTuple):
    """The results of one mode."""

    held_out: dict[str, float]
    #: R@10 of each conversation, with the best weights of the others.
    each: list[float]
    together: dict[str, float]
    usual: dict[str, float]
    #: The lowest and the highest R@10 of the grid.
    lowest: float
    highest: float


def run(stores: Stores, mode: Mode, conversations: Sequence[Conversation], step: int) -> Figures:
    questions = [conversation.questions[::step] for conversation in conversations]
    places = list(zip(stores.own, questions, strict=True))
    grid = [[ask(eng, mode, weights, loaded, some) for (eng, loaded), some in places] for weights in mode.choices]
    held_out: list[Results] = []
    together: Results = []
    for number, some in enumerate(questions):
        best = max(range(len(grid)), key=lambda choice: _r10(grid[choice][:number] + grid[choice][number + 1 :]))
        held_out.append(grid[best][number])
        together += ask(stores.one, mode, mode.choices[best], stores.loaded[number], some)
    return Figures(
        _means(MEASURES, list(chain(*held_out))),
        [_r10([results]) for results in held_out],
        _means(MEASURES, together),
        _means(MEASURES, list(chain(*grid[0]))),
        min(map(_r10, grid)),
        max(map(_r10, grid)),
    )


def _r10(conversations: Sequence[Results]) -> float:
    return 100 * fmean(row[MEASURES.index("R@10")] for results in conversations for row in results)


def _means(names: Sequence[str], rows: Sequence[Sequence[float]]) -> dict[str, float]:
    return {name: 100 * fmean(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def usable() -> tuple[list[Mode], list[str]]:
    """The modes whose embedder is installed, and a note about each of the others."""
    modes, missing = [], []
    for mode in MODES:
        try:
            embedder: Any = load_embedder(mode.embedder)
        except MissingExtra as error:
            missing.append(f"{mode.name} was left out: {error}")
        else:
            modes.append(mode)
            if mode.embedder == "minilm" and "tokens" not in vars(embedder):
                embedder.tokens = remembering(embedder.tokens)
    return modes, missing


def compare(figures: dict[str, Figures], hits: dict[str, dict[str, float]]) -> Iterator[tuple[str | float, ...]]:
    """A row for each measured target: the value, the target, and whether it is met."""
    for mode, figure, least, aim, above in TARGETS:
        if mode not in figures:
            continue
        value = hits[mode][figure] if figure in HITS else figures[mode].held_out[figure]
        value -= figures[above].held_out[figure] if above else 0
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
    with measure.workplace() as folder, ExitStack() as stack:
        embedders = dict.fromkeys(mode.embedder for mode in modes)
        stores = {embedder: prepare(stack, folder, embedder, conversations) for embedder in embedders}
        figures = {mode.name: run(stores[mode.embedder], mode, conversations, step) for mode in modes}
        # Last, because the memories stay in the stores.
        hits = {mode.name: _means(HITS, ask_paraphrases(stores[mode.embedder].one, mode)) for mode in modes}
    report = measure.Report("Recall: quality")
    turns = sum(len(session.turns) for conversation in conversations for session in conversation.sessions)
    asked = sum(len(conversation.questions[::step]) for conversation in conversations)
    report.notes.append(f"{len(conversations)} conversations, {turns:,} turns, {asked:,} questions with evidence")
    report.notes.append(f"{len(PAIRS)} paraphrases, asked among all the turns with the weights in the code")
    report.notes += missing
    show(report, figures, hits)
    report.show(as_json=chosen.json)


def show(report: measure.Report, figures: dict[str, Figures], hits: dict[str, dict[str, float]]) -> None:
    def table(title: str, head: Sequence[str], rows: Mapping[str, Sequence[float]]) -> None:
        report.table(title, ("", *head), [[name, *row] for name, row in rows.items()])

    def column(pick: Callable[[Figures], dict[str, float]]) -> dict[str, Sequence[float]]:
        return {name: list(pick(each).values()) for name, each in figures.items()}

    table("a store each, held out, %", MEASURES, column(lambda each: each.held_out))
    table("all in one store, held out, %", MEASURES, column(lambda each: each.together))
    table("a store each, weights in the code, %", MEASURES, column(lambda each: each.usual))
    numbers = [str(number) for number in range(1, 1 + len(next(iter(figures.values())).each))]
    each = {name: [*some.each, some.lowest, some.highest] for name, some in figures.items()}
    table("R@10 by conversation, and lowest and highest of the grid, %", (*numbers, "lowest", "highest"), each)
    table("paraphrases, %", HITS, {name: list(some.values()) for name, some in hits.items()})
    report.table("targets", ("", "reached", "at least", "aim", ""), list(compare(figures, hits)))


if __name__ == "__main__":
    main()
