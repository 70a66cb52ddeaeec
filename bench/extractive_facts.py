"""Prints every statement that the extractive provider finds, to be judged by reading.

A statement is right if the person really states it as their own wish, rule, decision, lesson or lasting fact, if it can
be understood alone, if its kind is right, and if it still matters in a later session. Two data sets: the coding
sessions and LoCoMo's conversations. Nothing is stored unless `--tsv` names a folder; then a table for readers is
written there, with the number, the place, the kind, the statement and the turn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engram.llm import Passage, Prompt, load

if TYPE_CHECKING:
    from bench import recall_quality, replay
else:
    import recall_quality
    import replay

SHARED = Path(__file__).resolve().parents[2] / "shared"
#: Every fourth coding session and the last conversation are kept for the report.
HELD_OUT = 4
_SHOWN = 600


class Session(NamedTuple):
    name: str
    passages: tuple[Passage, ...]
    held_out: bool


def coding(path: Path) -> Iterator[Session]:
    for number, session in enumerate(replay.sessions(path)):
        passages = tuple(
            Passage(f"e{turn.number}", f"{turn.role}, {turn.at[:10]}", turn.text, turn.role, turn.at)
            for turn in replay.turns(session)
        )
        yield Session(session["id"], passages, number % HELD_OUT == HELD_OUT - 1)


def locomo(path: Path) -> Iterator[Session]:
    conversations = recall_quality.read(path)
    for number, conversation in enumerate(conversations):
        for place, session in enumerate(conversation.sessions, 1):
            passages = tuple(
                Passage(f"e{at}", f"{turn.role}, {session.at[:10]}", turn.text, turn.role, session.at)
                for at, turn in enumerate(session.turns)
            )
            yield Session(f"{number}.{place}", passages, number == len(conversations) - 1)


def answer(session: Session) -> dict[str, Any]:
    thinker = load("extractive")
    assert thinker is not None
    found: dict[str, Any] = json.loads(thinker.complete(Prompt("session", "", session.passages), max_tokens=2_000).text)
    return found


def rows(sessions: Sequence[Session]) -> Iterator[tuple[str, dict[str, Any], str]]:
    for session in sessions:
        said = {passage.id: passage.text for passage in session.passages}
        for each in answer(session)["statements"]:
            yield f"{session.name}/{each['source'][1:]}", each, said[each["source"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, metavar="PATH", help="the folder of the data sets")
    parser.add_argument("--which", choices=("tuned", "held-out", "all"), default="tuned")
    parser.add_argument("--gists", action="store_true", help="print whole answers instead of statements")
    parser.add_argument("--tsv", type=Path, metavar="FOLDER", help="also write a table for readers")
    chosen = parser.parse_args()
    sets = {
        "coding": list(coding(chosen.shared / "coding" / "dev.jsonl")),
        "locomo": list(locomo(chosen.shared / "locomo" / "dev.json")),
    }
    for name, every in sets.items():
        sessions = [each for each in every if chosen.which == "all" or each.held_out == (chosen.which == "held-out")]
        print(f"## {name}: {len(sessions)} sessions")
        if chosen.gists:
            for session in sessions:
                print(f"--- {session.name}\n{json.dumps(answer(session), ensure_ascii=False, indent=1)}")
            continue
        found = list(rows(sessions))
        for place, each, _ in found:
            print(f"{place}\t{each['kind']}\t{each['confidence']}\t{each['text']}")
        print(f"{len(found)} statements\n")
        if chosen.tsv:
            lines = [
                "\t".join([str(number), place, each["kind"], each["text"], " ".join(turn.split())[:_SHOWN]])
                for number, (place, each, turn) in enumerate(found, 1)
            ]
            (chosen.tsv / f"facts-{name}.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
