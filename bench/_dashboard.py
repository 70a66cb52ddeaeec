"""A year of work in one workspace, for the benchmark of the dashboard's pages.

Everything is written through the library, in bulk. The passes of dreaming are real, but they run first, while the store
is small. The gists, eras and proposals after them are written as a pass would.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from engram import Engram
from engram.clock import Clock, stamp
from engram.dreaming import plans
from engram.gist_text import GistText, compose
from engram.records import PERSON

if TYPE_CHECKING:
    from bench.recall_speed import SEED, Speech

    from engram.memory.exchanges import Added
else:
    from recall_speed import SEED, Speech

T = TypeVar("T")

PROJECTS = ("router", "invoices", "harbour", "parser", "website")
AGENTS = ("claude-code", "codex", "gemini", "cursor", "companion", "mcp")
KINDS = ("fact", "preference", "decision", "lesson", "note", "todo")
TAGS = ("build", "deploy", "database", "style", "people", "tests", "api", "money")
DAY = 86_400.0
#: Calls in one transaction.
BATCH = 200
ACTIVE, LEASES, MESSAGES, UNREAD, PROPOSALS, BLOCKS = 40, 60, 300, 12, 50, 12
#: Every so many turns has the length of a report with code; every so many memories is pinned, archived, and so on.
LONG = 40
_CODE = "```python\ndef route(request):\n    return handlers[request.path](request)\n```"


class Size(NamedTuple):
    turns: int
    sessions: int
    #: Turns of the largest session.
    largest: int
    memories: int
    gists: int
    passes: int
    #: Versions of the longest history of a block.
    versions: int


FULL = Size(100_000, 2_000, 5_000, 5_000, 1_500, 100, 200)
SMALL = Size(5_000, 200, 500, 500, 150, 5, 40)


class Samples(NamedTuple):
    """What the pages are asked for."""

    session: str
    #: A memory with several versions, made from turns.
    memory: int
    file: str
    block: str
    dream: int
    project: str
    #: A day in the middle of the year, and one three months ago.
    day: str
    earlier: str
    questions: tuple[str, ...]


class Year:
    def __init__(self, eng: Engram, clock: Clock, size: Size) -> None:
        self._eng = eng
        self._clock = clock
        self._size = size
        self._random = random.Random(SEED)
        self._speech = Speech()
        self._texts = self._speech.turns()
        self._end = time.time()
        self._sessions: list[str] = []
        #: The sessions that ended, with when they began and their turns.
        self._turns: dict[str, list[Added]] = {}
        self._began: dict[str, float] = {}
        self._memories: list[int] = []

    def fill(self, said: Callable[[str], None]) -> Samples:
        for step in (
            self._dream,
            self._talk,
            self._remember,
            self._summarise,
            self._write_blocks,
            self._work,
            self._propose,
        ):
            begun = time.perf_counter()
            step()
            said(f"{step.__name__.strip('_').replace('_', ' ')}: {time.perf_counter() - begun:.1f} s")
        return self._samples()

    def _moment(self, share: float, seconds: float = 0.0) -> float:
        """A time of the year; the share 0 is its beginning."""
        return min(self._end - 1, self._end - 365 * DAY * (1 - share) + seconds)

    def _at(self, share: float, seconds: float = 0.0) -> str:
        return stamp(self._moment(share, seconds))

    def _dream(self) -> None:
        """Passes all through the year, each about a new session. They run at these times by a shifted clock."""
        for number in range(self._size.passes):
            self._clock.shift = self._moment(number / self._size.passes) - self._end
            id = self._eng.sessions.register(AGENTS[number % 6], self._title(), project=PROJECTS[number % 5])
            self._eng.exchanges.add_many(
                {"session_id": id, "role": ("user", "assistant")[n % 2], "content": self._text()} for n in range(6)
            )
            self._eng.sessions.complete(id, self._title())
            self._eng.dream(force=True, stages=None if number % 20 == 0 else ["sessions"])
        self._clock.shift = 0.0

    def _talk(self) -> None:
        """The sessions and their turns. The last of them are at work."""
        size = self._size
        count = size.sessions - size.passes
        usual = (size.turns - size.largest - 6 * size.passes) / (count - 1)
        turns = [self._random.randint(int(usual * 0.2), int(usual * 1.8)) for _ in range(count)]
        turns[count // 2] = size.largest
        for numbers in chunks(range(count)):
            with self._eng.write():
                self._register(numbers, count)
            of_turn: list[Added] = []
            wanted = [(self._sessions[number], turns[number]) for number in numbers]
            self._eng.exchanges.add_many(self._said(wanted), added=of_turn)
            done = iter(of_turn)
            for id, many in wanted:
                self._turns[id] = list(islice(done, many))
            with self._eng.write():
                for number in numbers:
                    if number < count - ACTIVE:
                        id = self._sessions[number]
                        self._eng.sessions.complete(id, self._title(), at=stamp(self._began[id] + turns[number] * 30))

    def _register(self, numbers: Iterable[int], count: int) -> None:
        for number in numbers:
            at_work = number >= count - ACTIVE
            began = self._moment(number / count)
            id = self._eng.sessions.register(
                AGENTS[number % 6],
                self._title(),
                project=PROJECTS[number * 7 % 5],
                at=None if at_work else stamp(began),
                parent_id=self._sessions[-1] if at_work and number % 8 == 7 else None,
            )
            self._sessions.append(id)
            self._began[id] = self._end if at_work else began

    def _said(self, wanted: list[tuple[str, int]]) -> Iterator[dict[str, Any]]:
        for id, many in wanted:
            began = self._began[id]
            for n in range(many):
                yield {
                    "session_id": id,
                    "role": ("user", "assistant")[n % 2],
                    "content": self._report() if n % LONG == LONG - 1 else self._text(),
                    "created_at": stamp(min(began + n * 30, time.time())),
                }

    def _remember(self) -> None:
        for numbers in chunks(range(self._size.memories)):
            with self._eng.write():
                for number in numbers:
                    self._memories.append(self._one_memory(number))

    def _one_memory(self, number: int) -> int:
        """Most stay as they are; the others are pinned, edited, archived, replaced or not approved."""
        memories, share = self._eng.memories, number / self._size.memories * 0.95
        id = self._sessions[number * 13 % (len(self._sessions) - ACTIVE)]
        turns = self._turns[id]
        by_person = number % 9 == 0
        made = self._eng.remember(
            self._text(),
            kind=KINDS[number % 6],
            key=f"key {number % 600}" if number % 8 == 0 else None,
            tags=[TAGS[number % 8], TAGS[number % 7]],
            importance=round(self._random.random(), 2),
            pinned=number % 60 == 0,
            session_id=id if number % 3 else None,
            project=PROJECTS[number % 5] if number % 4 else None,
            sources=[("exchange", each.id) for each in turns[:3]] if number % 3 else (),
            trust="tool" if number % 25 == 1 else "import" if number % 25 == 2 else None,
            by_person=by_person or number % 8 == 0,
            at=self._at(share),
        )
        if number % 10 == 3:
            for edit in range(1 + number % 4):
                at = self._at(share, (edit + 1) * 3 * DAY)
                memories.update(made.id, self._text(), reason="said again, better", at=at, by_person=by_person)
        if number % 12 == 5:
            memories.archive(made.id, at=self._at(share, 20 * DAY))
        if number % 20 == 7 and self._memories:
            memories.link(made.id, self._memories[-1])
        return made.id

    def _summarise(self) -> None:
        done = [id for id in self._sessions if len(self._turns[id]) > 1][: -ACTIVE - 1]
        for ids in chunks(done[-self._size.gists :]):
            with self._eng.write():
                for id in ids:
                    turns = self._turns[id]
                    text = GistText(self._title(), self._text(), (self._title(), self._title()), self._report())
                    at = stamp(min(self._began[id] + len(turns) * 30 + 3_600, self._end))
                    sources = [each.id for each in turns[-20:]]
                    self._eng.gists.store(id, compose(text), turns[-1].seq, sources=sources, at=at, read=True)
        now = datetime.fromtimestamp(self._end, UTC)
        for back in range(12):
            month = (now.replace(day=1) - timedelta(days=back * 30.4)).strftime("%Y-%m")
            story = "\n".join(f"- {self._text()} [e{self._turns[self._sessions[0]][0].id}]" for _ in range(12))
            self._eng.eras.store(month, f"## {self._title()}\n\n{story}", 150)

    def _write_blocks(self) -> None:
        blocks = self._eng.blocks
        for number, name in enumerate(["world", *(f"plan-{n}" for n in range(1, BLOCKS))]):
            versions = self._size.versions if number < 2 else 10
            lines = [f"- {self._text()}" for _ in range(12)]
            with self._eng.write():
                if blocks.get(name) is None:
                    blocks.create(name, "\n".join(lines), at=self._at(0.1))
                for version in range(versions - 1):
                    lines[version % 12] = f"- {self._text()}"
                    at = self._at(0.1 + 0.85 * version / versions)
                    blocks.update(name, "\n".join(lines), reason=f"step {version}", at=at)

    def _work(self) -> None:
        """What the sessions at work do: logs, leases, messages."""
        eng, at_work = self._eng, self._sessions[-ACTIVE:]
        with eng.write():
            for number in range(LEASES):
                path = f"src/{PROJECTS[number % 5]}/module_{number % 50}.py"
                eng.leases.claim(at_work[number % ACTIVE], path, "porting it", ttl=7_200)
            for id in at_work:
                for _ in range(10):
                    eng.sessions.log(id, self._title())
        kept: list[int] = []
        for numbers in chunks(range(MESSAGES)):
            with eng.write():
                for number in numbers:
                    to_person = number % 3 == 0
                    to = PERSON if to_person else at_work[(number + 1) % ACTIVE]
                    sent = eng.messages.send(at_work[number % ACTIVE], to, self._text())
                    kept += [sent.id] if to_person else []
        eng.messages.read_by_person(kept[:-UNREAD])

    def _propose(self) -> None:
        eng = self._eng
        found = eng.memories.list(derived=False, limit=4 * PROPOSALS)
        (dream, *_) = eng.dreams.list(1)
        assert dream.id is not None
        with eng._view.engine.write() as tx:
            for number in range(PROPOSALS):
                first, second = found[4 * number], found[4 * number + 1]
                plan = plans.supersede(first, second, 0.8) if number % 2 else plans.merge([first, second], 0.9, 0.8)
                eng.proposals.add(tx, plan, dream.id)

    def _samples(self) -> Samples:
        largest = max(self._turns, key=lambda id: len(self._turns[id]))
        middle = datetime.fromtimestamp(self._moment(0.5), UTC)
        earlier = datetime.fromtimestamp(self._end - 90 * DAY, UTC)
        (dream, *_) = self._eng.dreams.list(1)
        turns = [each.content for each in self._eng.exchanges.recent(largest, 50)]
        (first, *_) = self._speech.questions(turns, 1)
        lease = self._eng.leases.list()[0]
        return Samples(
            session=largest,
            memory=self._memories[self._size.memories // 2 // 60 * 60 + 3],
            file=lease.resource,
            block="world",
            dream=dream.id or 0,
            project=PROJECTS[0],
            day=middle.date().isoformat(),
            earlier=earlier.date().isoformat(),
            questions=(first, " ".join(first.split()[-2:]), "why do we not deploy on Fridays?"),
        )

    def _text(self) -> str:
        return next(self._texts)

    def _title(self) -> str:
        return " ".join(next(self._texts).split()[:8])

    def _report(self) -> str:
        """A long text as agents write them: headings, lists, code."""
        parts = [f"## {self._title()}", *(f"- {self._text()}" for _ in range(6)), _CODE, self._text()]
        return "\n\n".join(parts)


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, BATCH)):
        yield part
