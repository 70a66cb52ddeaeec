"""Replays the coding sessions at the times at which they happened, and lets Engram dream by itself, without a command.

The end of a session starts a pass if one is due, as the hook does. Between two sessions an idle MCP server looks every
hour. The passes run in this process, with the clock of the replay, and everything else is as in a user's store. Prints
each pass, why it ran and what was due, and then what there is to read: profile, narrative, an era and some gists.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from engram import Engram
from engram.clock import Clock
from engram.config import Config, load
from engram.dream_records import summary
from engram.interfaces import auto_dream
from engram.records import DreamReport

if TYPE_CHECKING:
    from bench import _measure as measure
    from bench.replay import Replay, sessions, turns
else:
    import _measure as measure
    from replay import Replay, sessions, turns

# This folder has a `secrets.py`. NumPy's random numbers need the one of the standard library.
sys.path = [folder for folder in sys.path if Path(folder or ".").resolve() != Path(__file__).resolve().parent]

DATA = Path(os.environ.get("ENGRAM_SHARED", "../shared")) / "coding" / "dev.jsonl"
#: An idle server looks this often between two sessions, at most this many times.
_LOOK, _LOOKS = timedelta(hours=1), 48


def main() -> None:
    parser = measure.options(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the sessions")
    parser.add_argument("--gists", type=int, default=5, help="number of gists to print")
    chosen = parser.parse_args()
    data = chosen.data.resolve()
    if not data.exists():
        raise SystemExit(f"{data} does not exist; --data names the sessions")
    with measure.workplace(), tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        os.environ["ENGRAM_AUTO_DREAM"] = "on"
        with Engram(settings=load(), clock=clock) as eng:
            begun = time()
            passes = replay(eng, clock, Path(folder), sessions(data)[: 6 if chosen.quick else None])
            print(f"\n{passes} passes by themselves, {time() - begun:.0f} s\n")
            show(eng, chosen.gists)


def replay(eng: Engram, clock: Clock, folder: Path, recorded: list[dict[str, object]]) -> int:
    """Replay the sessions; the number of passes that started by themselves."""
    count = 0

    def dream(settings: Config, reason: str, *, all_workspaces: bool = False) -> bool:
        nonlocal count
        for found in eng.dream_if_due(reason):
            if isinstance(found, DreamReport):
                count += 1
                reasons = "; ".join(f"{each.stage}: {each.reason}" for each in found.due if each.due)
                print(f"{found.started_at[:16]} {summary(found)}\n    {reasons}", flush=True)
        return True

    auto_dream.start = dream
    replayed = Replay(eng, clock, folder, Path.cwd())
    for number, session in enumerate(recorded):
        replayed.session(session)
        ended = max(turn.at for turn in turns(session))
        following = recorded[number + 1]["started"] if number + 1 < len(recorded) else "9999"
        _idle(eng, clock, ended, str(following))
    return count


def _idle(eng: Engram, clock: Clock, since: str, until: str) -> None:
    """The time to the next session, in which only a server runs."""
    moment = datetime.fromisoformat(since[:19]).replace(tzinfo=UTC)
    for _ in range(_LOOKS):
        moment += _LOOK
        if moment.isoformat()[:19] >= until[:19]:
            return
        clock.shift = moment.timestamp() - time()
        if eng.is_dream_due():
            auto_dream.start(eng.settings, auto_dream.IDLE_SERVER)


def show(eng: Engram, gists: int) -> None:
    """What there is to read."""
    for name in ("profile", "narrative"):
        block = eng.blocks.get(name)
        print(f"## The {name}\n\n{block.content if block else '(none)'}\n")
    eras = eng.memories.list(kind="era", limit=0)
    print(f"## One of {len(eras)} eras\n\n{eras[0].content if eras else '(none)'}\n")
    made = eng.memories.list(kind="gist", limit=0)
    print(f"## Some of {len(made)} gists\n")
    for gist in made[:: max(1, len(made) // max(gists, 1))][:gists]:
        print(f"{gist.content}\n")
    extracted = eng.memories.list(tag="extracted", limit=0) if made else []
    print(f"{len(extracted)} statements were learnt.", file=sys.stderr)


if __name__ == "__main__":
    main()
