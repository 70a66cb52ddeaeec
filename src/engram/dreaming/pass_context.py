"""What every stage of a pass works with: the tiers, whoever thinks, and writes that only a lease's holder may make."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ..errors import NotFound
from ..llm import Passage
from ..memory.blocks import Blocks
from ..memory.gists import Gists
from ..memory.memories import Memories
from . import grounds
from .grounds import Outdated
from .proposals import Proposals
from .recall_check.probe import Probe
from .thinking import Waiting
from .undo.reversal import undo_actions

if TYPE_CHECKING:
    from ..coordination.leases import Leases
    from ..memory.provenance import Thing
    from ..records import Exchange, Gist
    from ..storage.engine import Transaction
    from ..store_view import StoreView
    from .plans import Done, Plan
    from .thinking import Thinker
    from .undo.journal import Journal

#: Words of the user and of the agents themselves; what tools print and imports bring is not taken at its word.
TRUSTED = ("user", "agent")
#: About so many characters go into one prompt.
PIECE = 16_000

T = TypeVar("T")
Progress = Callable[[str, int, int], None]


class Stopped(Exception):
    """The pass was asked to end; what is done is kept."""


class Tally:
    """What consolidation did, in numbers."""

    def __init__(self) -> None:
        #: Groups of duplicates that were found, and what was left alone.
        self.groups = self.skipped = 0
        #: Changes that were made, and proposed; there is a most of both together.
        self.actions = self.proposed = 0

    def figures(self, changes: Collection[tuple[Plan, Done]]) -> dict[str, int]:
        """As a report names them; of the changes that stand."""
        of = Counter(plan.what for plan, _ in changes)
        before = sum(done.tokens_before for _, done in changes)
        after = sum(done.tokens_after for _, done in changes)
        return {
            "groups": self.groups,
            "merged": sum(len(plan.targets) for plan, _ in changes if plan.what == "merge"),
            "archived": of["archive"],
            "tokens_before": before,
            "tokens_after": after,
            "tokens_saved": before - after,
            "duplicates_merged": of["merge"],
            "conflicts_resolved": of["supersede"],
            "summarized": of["overflow"],
            "skipped": self.skipped,
        }


class PassContext:
    """One pass over one workspace."""

    def __init__(
        self,
        view: StoreView,
        leases: Leases,
        thinker: Thinker,
        token: int,
        journal: Journal,
        *,
        force: bool,
        stop: threading.Event,
        progress: Progress | None,
    ) -> None:
        self.view = view
        self.workspace = view.workspace
        self.engine = view.engine
        self.journal = journal
        self.memories = Memories(view, self._changing)
        self.gists = Gists(view, self.memories, self._changing)
        self.blocks = Blocks(view, self._changing)
        self.proposals = Proposals(view, self.memories, self.blocks)
        self.probe = Probe(view, self.memories, self.blocks)
        #: The number of the pass.
        self.dream = journal.dream
        self.thinker = thinker
        self.force = force
        self._leases = leases
        self._token = token
        self._stop = stop
        self._progress = progress
        #: What was done, for the report.
        self.new_gists: list[str] = []
        self.new_eras: list[str] = []
        self.new_blocks: dict[str, int] = {}
        self.reflected = False
        self.errors: list[str] = []
        self.alarms: list[str] = []
        #: Memories that are new because somebody said so.
        self.learnt: list[int] = []
        self.extracted: int | None = None
        self.proposed = 0
        #: What consolidation did, if it did anything to its end.
        self.tally: Tally | None = None
        #: The changes that were made, by the number of the action.
        self.changes: dict[int, tuple[Plan, Done]] = {}
        self._touched: dict[int, set[Thing]] = {}

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """One action: all of it or nothing, and nothing once the lease is lost; it can be undone by itself.

        What was thought since the last action is used up here. Outdated when something that a thinker was shown was
        forgotten or changed since.
        """
        outer = not self.engine.joined
        if outer:
            self.journal.action += 1
        with self.engine.write() as tx:
            self._leases.fence(tx, self._token)
            if outer:
                self.thinker.settle(tx)
            yield tx
        if outer:
            self.thinker.drop()

    action = write

    @property
    def number(self) -> int:
        """Of the action under way, or of the last one."""
        return self.journal.action

    def touch(self, things: Iterable[Thing]) -> None:
        """Note what the action under way changes."""
        self._touched.setdefault(self.number, set()).update(things)

    def actions_on(self, things: Set[Thing]) -> set[int]:
        """The actions that changed any of these."""
        return {number for number, touched in self._touched.items() if touched & things}

    def take_back(self, actions: set[int]) -> set[int]:
        """Undo some of this pass's actions and keep the others; which were undone, with those that built on them."""
        with self.write():
            return undo_actions(self.view, self.dream, actions)

    def propose(self, tx: Transaction, plan: Plan) -> bool:
        """Leave a plan for somebody to decide; whether it is new."""
        assert plan.grounds, "a plan of a pass says what it rests on"
        made = self.proposals.make(tx, plan, self.dream)
        self.proposed += made
        return made

    def each(self, stage: str, things: Sequence[T], act: Callable[[PassContext, T], None]) -> None:
        """Do a stage thing by thing; what an agent has yet to think about is left to a later pass."""
        for number, thing in enumerate(things):
            self.step(stage, number, len(things))
            self.attempt(stage, act, thing)
        self.step(stage, len(things), len(things))

    def attempt(self, stage: str, act: Callable[[PassContext, T], None], thing: T) -> bool:
        """Do one thing of a stage; False when it is left to a later pass, because an agent has yet to think about it,
        or because what it was made of was forgotten or changed meanwhile."""
        try:
            act(self, thing)
        except Waiting:
            return False
        except (Outdated, NotFound) as gone:
            self.errors.append(f"{stage}: {gone}")
            return False
        finally:
            self.thinker.drop()
        return True

    def _changing(self, tx: Transaction, kind: str, ref: str | int, since: int | None = None) -> None:
        """Called by the tiers before every change."""
        self.thinker.require_settled(tx)
        self.journal.touch(tx, kind, ref, since)

    def step(self, stage: str, done: int, total: int) -> None:
        """Between two steps: tell how far it is, and end here when that was asked for."""
        if self._progress:
            self._progress(stage, done, total)
        if self._stop.is_set():
            raise Stopped


def turn_passage(turn: Exchange) -> Passage:
    handle, text = grounds.turn(turn)
    return Passage(handle, f"{turn.role}, {turn.created_at[:10]}", text, turn.role, turn.created_at)


def gist_passage(gist: Gist) -> Passage:
    return Passage(f"m{gist.memory_id}", f"session {gist.session_id}", gist.text, "", gist.at)


def pieces(passages: list[Passage]) -> list[list[Passage]]:
    """Passages in portions that fit a prompt, in order."""
    portions: list[list[Passage]] = []
    size = PIECE
    for passage in passages:
        if size + len(passage.text) > PIECE:
            portions.append([])
            size = 0
        portions[-1].append(passage)
        size += len(passage.text)
    return portions
