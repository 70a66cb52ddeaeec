"""What every stage of a pass works with: the tiers, the thinker, and writes that check the pass's lease."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ..errors import CapReached, EngramError, LeaseLost, LLMUnavailable, MissingExtra, NotFound, StoreError
from ..llm import Passage
from ..memory.blocks import Blocks
from ..memory.gists import Gists
from ..memory.memories import Memories
from .grounds import Outdated
from .proposals import Proposals
from .recall_check.probe import Probe
from .thinking import AnswerPending
from .undo.reversal import undo_actions

if TYPE_CHECKING:
    from ..coordination.leases import Leases
    from ..memory.provenance import Thing
    from ..records import Gist
    from ..storage.engine import Transaction
    from ..store_view import StoreView
    from .plans import Plan, PlanResult
    from .thinking import Thinker
    from .undo.journal import Journal

#: Text of these origins may enter the portrait. Output of tools and imported text may not.
TRUSTED = ("user", "agent")
#: About this many characters of passages go into one prompt.
PROMPT_CHARACTERS = 16_000
#: The same for gists. They are short, and every prompt repeats what is known.
GIST_CHARACTERS = 48_000
#: The report has this many messages about items of one stage that were left out. The others are only counted.
_TOLD = 3

T = TypeVar("T")
Progress = Callable[[str, int, int], None]


class Stopped(Exception):
    """The pass was asked to end. What it has done so far stays."""


#: Failures that concern the whole stage or the whole pass. Every other failure concerns one item.
_NOT_OF_ONE_ITEM = (Stopped, LeaseLost, CapReached, LLMUnavailable, MissingExtra, StoreError)


class ConsolidationCounts:
    """What consolidation did, in numbers."""

    def __init__(self) -> None:
        #: Groups of duplicates that were found, and changes that were not made.
        self.groups = self.skipped = 0
        #: Changes that were made and changes that were proposed. `dream_max_actions` limits their sum.
        self.actions = self.proposed = 0

    def report_fields(self, changes: Collection[tuple[Plan, PlanResult]]) -> dict[str, int]:
        """The fields of a report, counting only changes that were not undone again."""
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
        propose_only: bool = False,
    ) -> None:
        self.view = view
        self.workspace = view.workspace
        self.engine = view.engine
        self.journal = journal
        self.memories = Memories(view, self._before_change)
        self.gists = Gists(view, self.memories, self._before_change)
        self.blocks = Blocks(view, self._before_change)
        self.proposals = Proposals(view, self.memories, self.blocks)
        self.probe = Probe(view, self.memories, self.blocks)
        #: The number of the pass.
        self.dream = journal.dream
        self.thinker = thinker
        self.force = force
        self.propose_only = propose_only
        self._leases = leases
        self._token = token
        self._stop = stop
        self._progress = progress
        #: What the pass did, for its report.
        self.new_gists: list[str] = []
        self.new_eras: list[str] = []
        self.new_blocks: dict[str, int] = {}
        self.reflected = False
        self.errors: list[str] = []
        #: What was put off, and why.
        self.notes: list[str] = []
        self.alarms: list[str] = []
        #: Items that could not be processed and statements that could not be used, by stage, and the latest problem.
        self.left_out: Counter[str] = Counter()
        self.problems: dict[str, str] = {}
        #: New memories that were extracted from turns.
        self.learnt: list[int] = []
        self.extracted: int | None = None
        self.proposed = 0
        #: What consolidation did; None until it has finished.
        self.consolidation: ConsolidationCounts | None = None
        #: The changes that were made, by the number of their action.
        self.changes: dict[int, tuple[Plan, PlanResult]] = {}
        self._touched: dict[int, set[Thing]] = {}

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """One action: a transaction that checks the lease and can be undone by itself.

        It uses up the open thoughts. Outdated when anything they rest on was forgotten or changed since.
        """
        outer = not self.engine.joined
        if outer:
            self.journal.action += 1
        with self.engine.write() as tx:
            self._leases.fence(tx, self._token)
            if outer:
                self.thinker.confirm(tx)
            yield tx
        if outer:
            self.thinker.discard_open()

    @property
    def number(self) -> int:
        """Number of the current action, or of the last one."""
        return self.journal.action

    def touch(self, things: Iterable[Thing]) -> None:
        """Note which things the current action changes."""
        self._touched.setdefault(self.number, set()).update(things)

    def actions_on(self, things: Set[Thing]) -> set[int]:
        """The actions that changed any of these things."""
        return {number for number, touched in self._touched.items() if touched & things}

    def undo_actions(self, actions: set[int]) -> set[int]:
        """Undo some actions of this pass and those that depend on them; which were undone."""
        with self.write():
            return undo_actions(self.view, self.dream, actions)

    def propose(self, tx: Transaction, plan: Plan) -> bool:
        """Propose a plan for a person to decide; whether it is new."""
        assert plan.grounds, "a plan that a pass makes has grounds"
        made = self.proposals.add(tx, plan, self.dream)
        self.proposed += made
        return made

    def propose_rewrite(self, tx: Transaction, plan: Plan) -> bool:
        """Propose a text for a block that is a person's or a companion's; whether it is new."""
        made = self.proposals.add_rewrite(tx, plan, self.dream)
        self.proposed += made
        return made

    def for_each(self, stage: str, things: Iterable[T], act: Callable[[PassContext, T], None], total: int) -> None:
        """Attempt every item of a stage, with a checkpoint between items. The next item is asked for when the one
        before it is done."""
        for number, thing in enumerate(things):
            self.checkpoint(stage, number, total)
            self.attempt(stage, act, thing)
        self.checkpoint(stage, total, total)

    def attempt(self, stage: str, act: Callable[[PassContext, T], None], thing: T) -> bool:
        """Do one item of a stage. False when a later pass has to do it: an agent has not answered yet, the text it was
        made from was forgotten or changed, or the item failed. The stage goes on with its other items."""
        try:
            act(self, thing)
        except AnswerPending:
            return False
        except (Outdated, NotFound) as gone:
            self.errors.append(f"{stage}: {gone}")
            return False
        except _NOT_OF_ONE_ITEM:
            raise
        except Exception as error:
            self._leave_out(stage, error)
            return False
        finally:
            self.thinker.discard_open()
        return True

    def _leave_out(self, stage: str, error: Exception) -> None:
        """Count an item that failed. The report tells the first problems of a stage."""
        self.left_out[stage] += 1
        self.problems[stage] = problem = describe(error)
        if self.left_out[stage] <= _TOLD:
            self.errors.append(f"{stage}: an item was left out: {problem}")

    def _before_change(self, tx: Transaction, kind: str, ref: str | int, since: int | None = None) -> None:
        """The tiers call this before every change."""
        self.thinker.require_confirmed(tx)
        self.journal.record(tx, kind, ref, since)

    def checkpoint(self, stage: str, done: int, total: int) -> None:
        """Report progress between two steps. Raises Stopped when the pass was asked to end."""
        if self._progress:
            self._progress(stage, done, total)
        if self._stop.is_set():
            raise Stopped


def describe(error: Exception) -> str:
    """The error message. For an unexpected error only its type; the traceback goes to the log."""
    if isinstance(error, EngramError):
        return str(error)
    import logging

    logging.getLogger("engram.dreaming").error("a stage failed", exc_info=error)
    return type(error).__name__


def gist_passage(gist: Gist) -> Passage:
    when = f"{gist.at[:10]} {gist.at[11:16]}"
    label = f"{when}, project {gist.project}" if gist.project else when
    return Passage(f"m{gist.memory_id}", label, gist.text, "", gist.at)


def prompt_portions(passages: list[Passage], characters: int = PROMPT_CHARACTERS) -> list[list[Passage]]:
    """Passages in their order, cut into portions that fit one prompt."""
    portions: list[list[Passage]] = []
    size = characters
    for passage in passages:
        if size + len(passage.text) > characters:
            portions.append([])
            size = 0
        portions[-1].append(passage)
        size += len(passage.text)
    return portions
