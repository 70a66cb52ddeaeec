"""What a first pass costs with a model: the tokens of all its prompts, against those of the turns themselves.

The coding sessions (`coding/dev.jsonl`) are replayed through the hooks, and one forced pass reads them. A scripted
thinker stands in for the model: it counts each prompt as the model would get it, with the system text. It answers with
five statements a session, so that later prompts show known memories. Every second session leaves a todo, and of those
that it is shown it closes the oldest. Tokens are estimated (`engram.tokens`). A very long turn is quoted in part, so
both ratios are given: against all the turns' tokens, and against the quoted part.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from engram import Engram
from engram.clock import Clock
from engram.config import load
from engram.dreaming import grounds, thinking
from engram.llm import Answer, Prompt, Usage, render
from engram.llm.extractive.thinker import Extractive
from engram.tokens import estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench import _measure as measure
    from bench.replay import Replay, sessions
else:
    import _measure as measure
    from replay import Replay, sessions

DATA = Path(__file__).parents[1].parent / "shared" / "coding" / "dev.jsonl"
#: At most this many times the turns' own tokens.
AIM = 1.5
_STATEMENTS, _STATEMENT = 5, 130
_KINDS = ("fact", "preference", "decision", "lesson")


class Asked(NamedTuple):
    stage: str
    tokens: int
    text: str
    passages: tuple[str, ...]


class Counting:
    """Counts prompts, and answers as a model might."""

    name = "scripted"

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._other = Extractive()

    def complete(
        self, prompt: Prompt, *, system: str = "", max_tokens: int = 1000, schema: Mapping[str, Any] | None = None
    ) -> Answer:
        text = f"{system}\n\n{render(prompt)}"
        self.asked.append(Asked(prompt.task, estimate(text), text, tuple(each.id for each in prompt.passages)))
        if prompt.task == "session":
            data = _session_answer(prompt, todo=len(self.asked) % 2 == 0)
            return Answer(json.dumps(data), data, Usage(1, 0, 0))
        if prompt.task in ("critique", "revise"):
            prompt = prompt._replace(task="reflect")
        return self._other.complete(prompt, system=system, max_tokens=max_tokens, schema=schema)


def _session_answer(prompt: Prompt, *, todo: bool) -> dict[str, Any]:
    """Statements of the usual length and number, in the words of the turns."""
    todos = [passage.id for passage in prompt.known if passage.label.startswith("todo")]
    said = [passage for passage in prompt.passages if len(passage.text) > 40][-_STATEMENTS:]
    return {
        "title": " ".join(prompt.passages[0].text.split())[:80],
        "outcome": " ".join(prompt.passages[-1].text.split())[:300],
        "open": [],
        "gist": " ".join(passage.text[:150] for passage in prompt.passages[-6:])[:1_000],
        "statements": [
            {
                "text": " ".join(passage.text.split())[:_STATEMENT],
                "kind": "todo" if todo and number == 0 else _KINDS[number % len(_KINDS)],
                "source": passage.id,
                "confidence": 0.9,
                "about_user": False,
                "same_as": "",
                "replaces": "",
            }
            for number, passage in enumerate(said)
        ],
        "closed": [{"known": id, "source": prompt.passages[-1].id} for id in todos[:1]],
    }


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="The sessions.")
    parser.add_argument("--prompt", type=Path, help="Write the longest prompt of one piece about a session here.")
    options = parser.parse_args()
    thinker = Counting()
    with measure.workplace() as folder:
        clock = Clock()
        # Todos are closed as they would be after a review.
        settings = load(url=str(Path(folder) / "tokens.db"), embedder="static", dream_consolidate="apply")
        with Engram(settings=settings, clock=clock) as eng:
            replay = Replay(eng, clock, Path(folder), Path(folder) / "specstory-cli")
            (replay.project / ".git").mkdir(parents=True)
            # The project of a session is that of the folder it runs in.
            os.chdir(replay.project)
            for session in sessions(options.data):
                replay.session(session)
            clock.shift = 0
            turns = [turn for each in eng.sessions.list() for turn in eng.exchanges.history(each.id)]
            with mock.patch.object(thinking, "load", lambda *args, **settings: thinker):
                (report,) = eng.dream(force=True)
    _show(report, thinker, [turn.content for turn in turns], as_json=options.json)
    if options.prompt:
        pieces = sorted((each for each in thinker.asked if each.stage == "session"), key=lambda each: each.tokens)
        options.prompt.write_text(pieces[len(pieces) // 2].text)


def _show(report: Any, thinker: Counting, turns: list[str], *, as_json: bool) -> None:
    whole = sum(map(estimate, turns))
    quoted = sum(estimate(grounds.shortened(turn)) for turn in turns)
    by_stage: Counter[str] = Counter()
    for each in thinker.asked:
        by_stage[each.stage] += each.tokens
    sent = Counter(id for each in thinker.asked if each.stage == "session" for id in each.passages)
    made = measure.Report("Tokens of a first pass")
    made.table(
        "Prompts",
        ("task", "calls", "tokens", "× all turns", "× quoted turns", "biggest"),
        [
            (
                task,
                sum(each.stage == task for each in thinker.asked),
                tokens,
                f"{tokens / whole:.2f}",
                f"{tokens / quoted:.2f}",
                max(each.tokens for each in thinker.asked if each.stage == task),
            )
            for task, tokens in [*by_stage.items()]
        ],
    )
    total, sessions_only = sum(by_stage.values()), by_stage["session"]
    made.table(
        "All",
        ("what", "value"),
        [
            ("turns", len(turns)),
            ("tokens of the turns", whole),
            ("tokens of what is quoted of them", quoted),
            ("calls", len(thinker.asked)),
            ("tokens of all prompts", total),
            ("× all turns", f"{total / whole:.2f}"),
            ("× quoted turns", f"{total / quoted:.2f}"),
            ("tokens of sessions, × all turns", f"{sessions_only / whole:.2f}"),
            ("biggest prompt", max(each.tokens for each in thinker.asked)),
            ("turns that were sent twice", sum(times > 1 for times in sent.values())),
            ("statements", report.extracted or 0),
            ("errors", len(report.errors)),
        ],
    )
    made.show(as_json=as_json)
    for error in report.errors:
        print(error)


if __name__ == "__main__":
    main()
