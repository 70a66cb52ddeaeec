"""Whether the lines that are injected into prompts help.

The 48 coding sessions are replayed through the hooks in the order in which they happened (`replay.py`). For 150 of
their prompts, two readers judged turns of earlier sessions, apart from each other: does the turn clearly help with this
prompt, is it only related, or is it noise? The candidates were pooled from several ways of recalling; copies were
removed. `injection_labels.json` names prompts and turns by number; it does not contain their text.

- **Lines.** The share of injected lines that clearly help, are related, are noise, or were not judged. A line that one
  of the two readers marked as helping counts as helping. Lines that were not judged count as noise.
- **Helped.** Of the prompts for which something clearly helps, the share that got such a line.
- **Prompts with a line.** Of all 150.
- **False alarms.** Fifty prompts about other projects and other things, asked after all sessions.
- **Without content.** Thirty prompts such as "continue" and "run the tests".
- **Cases.** Hand-made ones, with a second project.

By words the hook works alone. By meaning a running server recalls for it; here its model recalls in this process, so
that a slow machine does not change the figures. `--fit` prints the gate's weights, fitted to the judged lines, and what
they give on sessions that they were not fitted to.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from engram import Engram
from engram.clock import Clock
from engram.config import load
from engram.errors import MissingExtra
from engram.interfaces.hooks import injection
from engram.memory import prompt_gate
from engram.records import Hit, Session

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench.injection_cases import CASES, ELSEWHERE, WITHOUT_CONTENT, Case
    from bench.recall_quality import DATA
    from bench.replay import Replay, Turn, sessions
else:
    import _measure as measure
    from injection_cases import CASES, ELSEWHERE, WITHOUT_CONTENT, Case
    from recall_quality import DATA
    from replay import Replay, Turn, sessions

LABELS = Path(__file__).parent / "injection_labels.json"
CODING = DATA.parent.parent / "coding" / "dev.jsonl"
#: Name, embedder, and whether meaning counts.
MODES = (("words", "static", False), ("static", "static", True), ("minilm", "minilm", True))
HELPS, RELATED, NOISE, UNKNOWN = "helps", "related", "noise", "not judged"
_EXCHANGE = re.compile(r"exchange (\d+), trust")
#: The weights are fitted on some sessions and tried on the others, so many times.
FOLDS = 12

Labels = dict[str, dict[str, str]]


class Given(NamedTuple):
    """A prompt of the sessions, and the turns that were injected."""

    prompt: str
    turns: tuple[str, ...]
    context: str


class Judged(NamedTuple):
    """A hit of a prompt, with its features and its label."""

    session: str
    features: tuple[float, ...]
    helps: bool


def labels() -> Labels:
    read = json.loads(LABELS.read_text())

    def full(short: str) -> str:
        number, _, turn = short.partition("/")
        return f"{read['sessions'][int(number)]}/{turn}"

    return {full(prompt): {full(k): v for k, v in found.items()} for prompt, found in read["prompts"].items()}


def judged(grades: str) -> str:
    if "2" in grades:
        return HELPS
    return RELATED if "1" in grades else NOISE


class Finder:
    """The hooks' recall, by words alone or by meaning. Keeps the last hits."""

    def __init__(self, by_meaning: bool) -> None:
        self.by_meaning = by_meaning
        self.hits: list[Hit] = []

    def __call__(self, eng: Engram, asked: str, session: Session) -> tuple[list[Hit], bool]:
        if self.by_meaning:
            eng.embedding_queue.work(limit=100_000)
        options: dict[str, Any] = {"exclude_session": session.id, "prefer_project": session.project, "note": False}
        mode = "hybrid" if self.by_meaning else "words"
        self.hits = eng.recall(
            asked, injection.DEPTH, mode=mode, rerank="never", turns_project=session.project, **options
        )
        return self.hits, self.by_meaning


@contextmanager
def replaying(embedder: str, finder: Finder, project: str) -> Iterator[Replay]:
    """A new store, in a folder with the project's name."""
    with measure.workplace() as folder, patch.object(injection, "find", finder):
        home = Path(folder) / project
        (home / ".git").mkdir(parents=True)
        before = os.getcwd()
        os.chdir(home)
        clock = Clock()
        try:
            settings = load(url=str(Path(folder) / "store.db"), embedder=embedder, recall_socket="off")
            with Engram(settings=settings, clock=clock) as eng:
                if finder.by_meaning:
                    eng.embedding_queue.embedder()
                yield Replay(eng, clock, Path(folder), home)
        finally:
            os.chdir(before)


class Listener:
    """Keeps what the labelled prompts got, and the label of every hit that was judged."""

    def __init__(self, finder: Finder, marks: Labels) -> None:
        self._finder = finder
        self._marks = marks
        #: The turn that an exchange records.
        self.turns: dict[int, str] = {}
        self.given: list[Given] = []
        self.hits: list[Judged] = []

    def __call__(self, turn: Turn, context: str) -> None:
        key = f"{turn.session}/{turn.number}"
        hits, self._finder.hits = self._finder.hits, []
        if key not in self._marks:
            return
        got = tuple(self.turns[int(id)] for id in _EXCHANGE.findall(context) if int(id) in self.turns)
        self.given.append(Given(key, got, context))
        for hit in hits:
            ids = hit.answer.exchange_ids if hit.answer else (hit.exchange_id,)
            found = [self._marks[key].get(self.turns.get(id or 0, "")) for id in ids]
            grades = next(filter(None, found), None)
            if grades is not None:
                self.hits.append(Judged(turn.session, prompt_gate.features(hit), judged(grades) == HELPS))


def replay_all(replay: Replay, coding: Path, finder: Finder, marks: Labels) -> Listener:
    """Replay all sessions. Returns what the labelled prompts got."""
    heard = Listener(finder, marks)
    for session in sessions(coding):
        replay.session(session, on_prompt=heard)
        heard.turns |= {id: f"{session['id']}/{number}" for id, number in replay.stored(session).items()}
    return heard


def row(name: str, given: Sequence[Given], marks: Labels) -> list[str | float]:
    """The figures of one mode."""
    verdicts = [
        judged(marks[each.prompt][turn]) if turn in marks[each.prompt] else UNKNOWN
        for each in given
        for turn in each.turns
    ]
    lines = max(len(verdicts), 1)
    helpable = {prompt for prompt, found in marks.items() if any("2" in grades for grades in found.values())}
    helped = {each.prompt for each in given if any("2" in marks[each.prompt].get(turn, "") for turn in each.turns)}
    return [
        name,
        len(verdicts),
        *(f"{100 * verdicts.count(verdict) / lines:.0f} %" for verdict in (HELPS, RELATED, NOISE, UNKNOWN)),
        f"{100 * len(helped) / len(helpable):.0f} %",
        f"{100 * sum(bool(each.turns) for each in given) / len(marks):.0f} %",
    ]


def false_alarms(replay: Replay, prompts: Sequence[str]) -> list[str]:
    """The prompts that get a line."""
    got: list[str] = []
    session = {"id": "elsewhere", "started": "2026-03-01T10:00:00Z"}
    turns = [{"role": "user", "text": prompt} for prompt in prompts]
    replay.session({**session, "turns": turns}, on_prompt=lambda turn, text: got.append(turn.text) if text else None)
    return got


def failed_cases(embedder: str, finder: Finder) -> list[str]:
    return [case.name for case in CASES if not passes(case, embedder, finder)]


def passes(case: Case, embedder: str, finder: Finder) -> bool:
    contexts: list[str] = []
    with replaying(embedder, finder, "app") as replay:
        for what, project, text in case.stored:
            role, _, kind = what.partition(":")
            if role == "memory":
                replay.eng.remember(text, kind=kind, project=project, trust="user")
            else:
                earlier = replay.eng.sessions.find(f"earlier in {project}", "codex")
                id = (
                    earlier.id
                    if earlier
                    else replay.eng.sessions.register("codex", "", project=project, external_id=f"earlier in {project}")
                )
                replay.eng.exchanges.add(id, role, text)
        # Other memories and turns, so that words are rare or common as they are in a real store.
        id = replay.eng.sessions.register("codex", "", project="app", external_id="other work")
        for number, text in enumerate(ELSEWHERE):
            replay.eng.exchanges.add(id, "user" if number % 2 else "assistant", text)
        session = {"id": "now", "started": "2026-03-01T10:00:00Z", "turns": [{"role": "user", "text": case.prompt}]}
        replay.session(session, on_prompt=lambda turn, text: contexts.append(text), on_start=contexts.append)
    # What the brief has is not injected again.
    given = "\n".join(contexts)
    return all(part in given for part in case.wanted) and not any(part in contexts[1] for part in case.unwanted)


def fit(hits: Sequence[Judged], ridge: float = 3.0, steps: int = 300) -> list[float]:
    """Logistic regression: the base, then a weight for each feature. Newton's method with a ridge penalty."""
    import numpy as np

    values = np.array([(1.0, *each.features) for each in hits])
    truth = np.array([float(each.helps) for each in hits])
    scale = values.std(axis=0)
    scale[0], scale[scale == 0] = 1.0, 1.0
    values = values / scale
    weights = np.zeros(values.shape[1])
    penalty = np.diag([0.0] + [ridge] * (values.shape[1] - 1))
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-values @ weights))
        slope = values.T @ (chance - truth) + penalty @ weights
        curve = (values * (chance * (1 - chance))[:, None]).T @ values + penalty
        step = np.linalg.solve(curve + 1e-9 * np.eye(len(weights)), slope)
        weights -= step
        if abs(step).max() < 1e-9:
            break
    return [round(float(value), 2) for value in weights / scale]


def apart(hits: Sequence[Judged]) -> list[tuple[float, bool]]:
    """The log-odds of every judged hit, by weights that were fitted to other sessions."""
    names = sorted({each.session for each in hits})
    random.Random(5).shuffle(names)
    found: list[tuple[float, bool]] = []
    for fold in range(FOLDS):
        tried = set(names[fold::FOLDS])
        weights = fit([each for each in hits if each.session not in tried])
        for each in hits:
            if each.session in tried:
                odds = sum(a * b for a, b in zip(weights, (1.0, *each.features), strict=True))
                found.append((odds, each.helps))
    return sorted(found, reverse=True)


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--coding", type=Path, default=CODING, metavar="PATH", help="the coding sessions, dev.jsonl")
    parser.add_argument("--fit", action="store_true", help="print weights for the gate, fitted to the judged lines")
    parser.add_argument("--only", choices=[name for name, *_ in MODES], help="one way of recalling")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the first N prompts with their lines")
    chosen = parser.parse_args()
    coding, marks = chosen.coding.resolve(), labels()
    report = measure.Report("Injection into prompts: which lines help")
    rows: list[list[str | float]] = []
    alarms: list[list[str | float]] = []
    for name, embedder, by_meaning in MODES:
        if chosen.only not in (None, name):
            continue
        finder = Finder(by_meaning)
        try:
            with replaying(embedder, finder, "specstory-cli") as replay:
                heard = replay_all(replay, coding, finder, marks)
                elsewhere = false_alarms(replay, ELSEWHERE)
                empty = false_alarms(replay, WITHOUT_CONTENT)
        except MissingExtra:
            report.notes.append(f"{name} is not installed and was left out.")
            continue
        rows.append(row(name, heard.given, marks))
        failed = failed_cases(embedder, finder)
        alarms.append(
            [
                name,
                f"{len(elsewhere)} of {len(ELSEWHERE)}",
                f"{len(empty)} of {len(WITHOUT_CONTENT)}",
                f"{len(CASES) - len(failed)} of {len(CASES)}",
            ]
        )
        report.notes += [f"{name}: the case {case!r} fails." for case in failed]
        report.notes += [f"{name}: a line for {prompt!r}" for prompt in (*elsewhere, *empty)]
        if chosen.fit:
            order = apart(heard.hits)
            shares = (f"{sum(helps for _, helps in order[:most])} of the first {most}" for most in (10, 20, 30, 40, 60))
            report.notes.append(
                f"{name}: weights {fit(heard.hits)} from {len(heard.hits)} hits; apart: {', '.join(shares)} help, "
                f"at {[round(order[most - 1][0], 2) for most in (20, 30, 40, 60)]}"
            )
        for each in [each for each in heard.given if each.context][: chosen.show]:
            print(
                f"\n{name} {each.prompt}: {[marks[each.prompt].get(turn, '?') for turn in each.turns]}\n{each.context}"
            )
    head = ["", "lines", HELPS, RELATED, NOISE, UNKNOWN, "helped", "prompts with a line"]
    report.table(f"{len(marks)} prompts", head, rows)
    report.table("Other prompts", ["", "false alarms", "without content", "cases that pass"], alarms)
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
