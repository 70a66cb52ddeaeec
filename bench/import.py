"""What an import takes: turns per second and memory, against `add_many` with the same turns.

Writes transcripts of Claude Code (sessions of 40 turns) and one export of ChatGPT, with invented texts, and imports
each in a process of its own, into a new store. `add_many` gets the same turns, already in memory, in another process.
Embeddings are left to the queue on both sides. The sides alternate. Memory is the most that the process had.

    python bench/import.py            10,000 and 200,000 turns
    python bench/import.py --quick    1,000 and 4,000 turns
    python bench/import.py --folder ~/.claude/projects     also a folder of transcripts, and a first question
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any

from engram import Engram
from engram.importers import run

try:
    from bench import _measure as measure
except ImportError:  # run as a script
    import _measure as measure  # type: ignore[import-not-found,no-redef]

#: Turns of one session.
SESSION = 40
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def texts(turns: int) -> Iterator[str]:
    """Texts of 20 to 80 words, from a vocabulary in which few words are common."""
    chance = random.Random(1)
    letters = "etaoinshrdlu"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(20_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    # Made of passages: drawing every word would take longer than what is measured.
    passages = [" ".join(chance.choices(words, cum_weights=weights, k=10)) for _ in range(20_000)]
    for number in range(turns):
        yield f"The result of step {number} is {' '.join(chance.choices(passages, k=chance.randint(2, 8)))}."


def said(turns: int) -> Iterator[tuple[str, str, str, str, str]]:
    """Session, message id, role, text and time of each turn."""
    for number, text in enumerate(texts(turns)):
        at = (BEGIN + timedelta(minutes=number)).isoformat().replace("+00:00", "Z")
        role = "assistant" if number % 2 else "user"
        yield f"session-{number // SESSION:06}", f"message-{number:08}", role, text, at


def write_transcripts(folder: Path, turns: int) -> None:
    """A folder as Claude Code has it."""
    folder.mkdir()
    lines: dict[str, list[str]] = {}
    for session, id, role, text, at in said(turns):
        entry = {
            "type": role,
            "uuid": id,
            "sessionId": session,
            "timestamp": at,
            "cwd": "/srv/router",
            "isSidechain": False,
            "message": {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]},
        }
        lines.setdefault(session, []).append(json.dumps(entry))
        if len(lines[session]) == SESSION:
            (folder / f"{session}.jsonl").write_text("\n".join(lines.pop(session)) + "\n")
    for session, left in lines.items():
        (folder / f"{session}.jsonl").write_text("\n".join(left) + "\n")


def write_export(file: Path, turns: int) -> None:
    """An export as ChatGPT makes it: one document with all conversations."""
    with file.open("w") as out:
        out.write("[")
        mapping: dict[str, Any] = {}
        last: str | None = None
        for number, (session, id, role, text, at) in enumerate(said(turns), 1):
            moment = datetime.fromisoformat(at).timestamp()
            message = {
                "id": id,
                "author": {"role": role},
                "create_time": moment,
                "content": {"content_type": "text", "parts": [text]},
            }
            mapping[id] = {"id": id, "message": message, "parent": last, "children": []}
            if last is not None:
                mapping[last]["children"].append(id)
            last = id
            if number % SESSION == 0 or number == turns:
                conversation = {
                    "conversation_id": session,
                    "title": session,
                    "create_time": moment,
                    "update_time": moment,
                    "current_node": last,
                    "mapping": mapping,
                }
                out.write(("," if number > SESSION else "") + json.dumps(conversation))
                mapping, last = {}, None
        out.write("]")


def child(side: str, path: str, turns: int) -> None:
    """One side, in a process of its own: prints seconds and peak memory."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as folder, Engram(f"{folder}/engram.db") as eng:
        given = list(said(turns)) if side == "add_many" else []
        begun = perf_counter()
        if side == "add_many":
            for session in {session for session, *_ in given}:
                eng.sessions.ensure(session)
            added = eng.exchanges.add_many(
                (
                    {"session_id": session, "external_id": id, "role": role, "content": text, "created_at": at}
                    for session, id, role, text, at in given
                ),
                embed=False,
            )
        else:
            added = run(side, [path], eng).turns
        seconds = perf_counter() - begun
        assert added == turns, (side, added)
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def measured(side: str, path: Path, turns: int, memory: dict[tuple[str, int], float]) -> float:
    """Turns per second of one run."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", side, str(path), str(turns)], check=True, capture_output=True, text=True
    )
    seconds, megabytes = json.loads(done.stdout)
    memory[side, turns] = max(megabytes, memory.get((side, turns), 0))
    return float(turns / seconds)


def import_folder(report: measure.Report, folder: str, question: str) -> None:
    """How long a person's own folder takes, and how soon a question about it is answered."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as place, Engram(f"{place}/engram.db") as eng:
        begun = perf_counter()
        done = run("claude-code", [folder], eng)
        imported = perf_counter() - begun
        begun = perf_counter()
        hits = eng.recall(question)
        by_words = perf_counter() - begun
        begun = perf_counter()
        eng.embedding_queue.work()
        embedded = perf_counter() - begun
    head = ("", "files", "sessions", "turns", "import s", "recall ms", "embed s")
    row = ("folder", done.files, done.sessions, done.turns, imported, by_words * 1000, embedded)
    report.table(f"A folder of transcripts; {len(hits)} hits for the first question", head, [row])


def main() -> None:
    if "--child" in sys.argv:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = measure.options(__doc__)
    parser.add_argument("--folder", help="a folder of Claude Code's transcripts to import as well")
    parser.add_argument("--question", default="what did we decide?", help="the question asked after that import")
    chosen = parser.parse_args()
    sizes, rounds = ((1_000, 4_000), 2) if chosen.quick else ((10_000, 200_000), 2)
    report = measure.Report("Importing")
    memory: dict[tuple[str, int], float] = {}
    with measure.workplace() as folder:
        speeds: dict[int, dict[str, list[float]]] = {}
        for turns in sizes:
            transcripts, export = Path(folder, f"transcripts-{turns}"), Path(folder, f"export-{turns}.json")
            write_transcripts(transcripts, turns)
            write_export(export, turns)
            sides = {
                "claude-code": lambda turns=turns, path=transcripts: measured("claude-code", path, turns, memory),
                "chatgpt": lambda turns=turns, path=export: measured("chatgpt", path, turns, memory),
                "add_many": lambda turns=turns, path=export: measured("add_many", path, turns, memory),
            }
            speeds[turns] = measure.alternate(sides, rounds)
        if chosen.folder:
            import_folder(report, chosen.folder, chosen.question)
    head = ("", *(f"{turns:,}" for turns in sizes))
    names = list(speeds[sizes[0]])
    report.table("turns per second", head, [(name, *(sum(speeds[t][name]) / rounds for t in sizes)) for name in names])
    report.table("memory, MB", head, [(name, *(memory[name, turns] for turns in sizes)) for name in names])
    small, large = sizes
    for name in ("claude-code", "chatgpt"):
        for turns in sizes:
            speed = speeds[turns]
            report.compare(f"{name} / add_many, {turns:,} turns", speed[name], speed["add_many"], "at least", 0.5)
        growth = [memory[name, large]] * 2, [memory[name, small]] * 2
        report.compare(f"{name}: memory, {large:,} / {small:,} turns", *growth, "at most", 1.3)
    report.show(as_json=chosen.json)


if __name__ == "__main__":
    main()
