"""What is due: the one place that decides which stages of a pass have work, and when a pass starts by itself.

Passes, dry runs, the loop, the scheduler, hooks, the MCP server and `engram dream status` all ask here. Work becomes
due by amount or by time:

- A session with new turns is due when it has ended, is silent, or has many of them.
- Memories are due for consolidation when they come of age.
- Many gists are due for eras and the portrait at once, a few on the next day, a single one after a week. The first
  portrait of a workspace needs one gist and a night.

`STAGES` has one function for each stage. It counts what waits and says why the stage is due or what it waits for. A
stage can have work that an earlier stage of the same pass made, so a pass asks again before each stage.

An automatic pass also needs a pause since the last one. A stage that left work undone is recorded. Automatic passes try
the same work again after pauses that double, up to a day, so a stage that always fails does not start a pass every
hour. `engram dream status` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ..clock import between, duration, later
from ..coordination.sessions import LAST_AUTOMATIC
from ..dream_records import Due, StuckStage
from ..memory.blocks import Blocks
from ..safe_text import without_quotes
from . import drives
from .stages import eras, profile

if TYPE_CHECKING:
    from ..config import Config
    from ..records import Drives
    from ..storage.engine import Row, Transaction
    from ..store_view import StoreView

#: Why a pass ran. Every reason but the first is that of an automatic pass.
BY_HAND, SESSION_END, IDLE_SERVER, LOOP, IF_DUE = "by hand", "session end", "idle server", "loop", "if due"
REASONS = (BY_HAND, SESSION_END, IDLE_SERVER, LOOP, IF_DUE)
AGENT, EXTRACTIVE = "agent", "extractive"

#: This many gists are due for eras and the portrait at once, and this many on the next day.
_MANY_GISTS, _SOME_GISTS = 6, 2
#: A day begins at midnight, but not sooner than this many seconds after a gist was made.
_NIGHT = 6 * 3_600.0
#: A single gist is due after this many seconds.
_WEEK = 7 * 86_400.0
#: The longest pause before the same work is tried again.
_LONGEST_PAUSE = 86_400.0
_LONGEST_PROBLEM = 300

_WAITING_SESSIONS = """
SELECT COUNT(*), COALESCE(SUM(at_agents), 0), COALESCE(SUM(free * ended), 0), COALESCE(SUM(free * silent), 0),
       COALESCE(SUM(free * long), 0), COALESCE(SUM(free * lost), 0), COALESCE(SUM(free * new), 0),
       MIN(CASE WHEN free * (1 - ended) = 1 THEN heartbeat_at END)
FROM (
  SELECT heartbeat_at, at_agents, 1 - at_agents AS free,
         CASE WHEN status <> 'active' THEN 1 ELSE 0 END AS ended,
         CASE WHEN status = 'active' AND heartbeat_at < :silent THEN 1 ELSE 0 END AS silent,
         CASE WHEN status = 'active' AND heartbeat_at >= :silent AND turns - gist_turns >= :long THEN 1 ELSE 0 END
           AS long,
         CASE WHEN status = 'active' AND heartbeat_at >= :silent AND turns - gist_turns < :long AND gist_turns = 0
           AND gist IS NOT NULL THEN 1 ELSE 0 END AS lost,
         CASE WHEN status = 'active' AND heartbeat_at >= :silent AND turns - gist_turns < :long AND gist_turns = 0
           AND gist IS NULL THEN 1 ELSE 0 END AS new
  FROM (
    SELECT s.heartbeat_at, s.status, s.turns, s.gist_turns,
           (SELECT g.memory_id FROM gists g WHERE g.workspace = s.workspace AND g.session_id = s.id) AS gist,
           CASE WHEN :agents = 1 AND EXISTS (
             SELECT 1 FROM work w WHERE w.workspace = s.workspace AND w.stage = 'sessions' AND w.subject = s.id
               AND w.answer IS NULL) THEN 1 ELSE 0 END AS at_agents
    FROM sessions s WHERE s.workspace = :workspace AND s.turns > s.gist_turns AND s.turns > s.turns_gone
  ) AS waiting
) AS sorted
"""
# A gist without text waits for its session to be summarised again.
_FOLDS = """
SELECT f.target, COUNT(*), MIN(m.updated_at), MIN(m.created_at)
FROM folds f JOIN memories m ON m.id = f.gist
WHERE f.workspace = :workspace AND f.target IN ('era', 'narrative') AND m.status = 'active' AND m.content <> ''
GROUP BY f.target
"""
_LOST_ERAS = """
SELECT COUNT(*) FROM rebuilds r JOIN memories m ON m.id = r.ref
WHERE r.workspace = :workspace AND r.kind = 'memory' AND m.kind = 'era' AND m.status = 'active'
"""
# A text of a person or a companion is not rewritten.
_LOST_NARRATIVE = """
SELECT COUNT(*) FROM rebuilds r JOIN blocks b ON b.id = r.ref
WHERE r.workspace = :workspace AND r.kind = 'block' AND b.name = 'narrative' AND b.updated_by IN ('dream', 'import')
"""
# Turns under a gist that a client wrote at a compaction, or an earlier release, in sessions that have no newer ones.
_UNREAD = """
SELECT COUNT(*) FROM folds f JOIN gists g ON g.memory_id = f.gist
  JOIN sessions s ON s.workspace = g.workspace AND s.id = g.session_id
WHERE f.workspace = :workspace AND f.target = 'extract' AND s.turns <= s.gist_turns AND NOT (:agents = 1 AND EXISTS (
  SELECT 1 FROM work w WHERE w.workspace = s.workspace AND w.stage = 'sessions' AND w.subject = s.id
    AND w.answer IS NULL))
"""
_HAS_PORTRAIT = "SELECT COUNT(*) FROM blocks WHERE workspace = :workspace AND name = 'narrative'"
_COMPARED = """
SELECT COALESCE(matured, '') FROM dreams
WHERE workspace = :workspace AND compared IS NOT NULL ORDER BY id DESC LIMIT 1
"""
_OF_AGE = """
SELECT COUNT(*) FROM memories
WHERE workspace = :workspace AND status = 'active' AND created_at > :before AND created_at <= :matured
  AND kind NOT IN ('gist', 'era', 'digest', 'store-item')
"""
_NEXT_OF_AGE = """
SELECT MIN(created_at) FROM memories
WHERE workspace = :workspace AND status = 'active' AND created_at > :matured
  AND kind NOT IN ('gist', 'era', 'digest', 'store-item')
"""
_AGREED = "SELECT COUNT(*) FROM proposals WHERE workspace = :workspace AND state IN ('accepted', 'edited')"
_WORK = """
SELECT stage, SUM(CASE WHEN answer IS NULL THEN 1 ELSE 0 END), SUM(CASE WHEN answer IS NULL THEN 0 ELSE 1 END)
FROM work WHERE workspace = :workspace GROUP BY stage
"""
_STUCK = """
SELECT stage, left_over, attempts, problem, retry_at FROM dream_retries WHERE workspace = :workspace ORDER BY stage
"""
_SET_STUCK = """
INSERT INTO dream_retries (workspace, stage, left_over, attempts, problem, retry_at)
VALUES (:workspace, :stage, :left, :attempts, :problem, :retry)
ON CONFLICT (workspace, stage) DO UPDATE SET left_over = :left, attempts = :attempts, problem = :problem,
  retry_at = :retry
"""
_SET_FREE = "DELETE FROM dream_retries WHERE workspace = :workspace AND stage = :stage"
# Automatic passes that have no report, since the last one that has: their processes died.
_UNENDED = """
SELECT COUNT(*) FROM dreams
WHERE workspace = :workspace AND reason <> 'by hand' AND id > COALESCE(
  (SELECT MAX(id) FROM dreams WHERE workspace = :workspace AND reason <> 'by hand' AND report <> '{}'), 0)
"""


class Look(NamedTuple):
    """What the functions of the stages look at."""

    tx: Transaction
    view: StoreView
    now: str
    #: Sessions that an earlier stage of the same pass would summarise. Only a dry run has to guess them.
    coming: int = 0
    #: The drives now, for the stages that follow one.
    levels: Drives | None = None

    @property
    def workspace(self) -> str:
        return self.view.workspace

    @property
    def config(self) -> Config:
        return self.view.config


def assess(look: Look, stages: Sequence[str] = ()) -> dict[str, Due]:
    """What each stage would do now, and why; of all stages or only of some."""
    return {name: of_stage(look, name) for name in stages or STAGES}


def of_stage(look: Look, stage: str) -> Due:
    """What one stage would do now. A stage that this module does not know is never due by itself."""
    count = STAGES.get(stage)
    return count(look) if count else Due(stage, False, 0, "", "It runs only when it is forced.")


def _sessions(look: Look) -> Due:
    """Sessions with turns that no gist covers, or whose turns were not read for statements yet."""
    tx, config, stage = look.tx, look.config, "sessions"
    ((waiting, at_agents, ended, silent, long, lost, new, heartbeat),) = tx.all(
        _WAITING_SESSIONS,
        workspace=look.workspace,
        silent=later(look.now, -config.stale_after),
        long=drives.TURNS_FOR_GIST,
        agents=int(config.llm == AGENT),
    )
    # Several sessions that have no gist yet are due even while they are at work.
    many = new if new >= drives.MANY_SESSIONS else 0
    unread = int(tx.value(_UNREAD, workspace=look.workspace, agents=int(config.llm == AGENT)) or 0)
    ready = int(ended + silent + long + lost + many) + unread
    kinds = (
        (ended, "ended"),
        (silent, f"silent for {duration(config.stale_after)}"),
        (long, f"with at least {drives.TURNS_FOR_GIST} new turns"),
        (lost, "whose gist lost text"),
        (many, "at work and without a gist"),
        (unread, "with turns that were not read for statements"),
    )
    if ready:
        listed = ", ".join(f"{int(number)} {words}" for number, words in kinds if number)
        return Due(
            stage,
            True,
            ready,
            f"read {_counted(ready, 'session')}",
            f"{_counted(ready, 'session')} with something new: {listed}.",
        )
    if at_agents == waiting and waiting:
        return Due(stage, False, 0, "", f"{_counted(int(waiting), 'session')} waiting for an answer from an agent.")
    if waiting:
        return Due(
            stage,
            False,
            int(waiting - at_agents),
            "",
            f"{_counted(int(waiting - at_agents), 'session')} still at work. Due after the end, after "
            f"{duration(config.stale_after)} of silence, or with {drives.TURNS_FOR_GIST} new turns.",
            later(heartbeat, config.stale_after),
        )
    return Due(stage, False, 0, "", "Every session was read.")


def _consolidate(look: Look) -> Due:
    """Memories that came of age since the last comparison, and decisions that are not carried out yet."""
    tx, config = look.tx, look.config
    if config.dream_consolidate == "off":
        return Due("consolidate", False, 0, "", "It is turned off (dream_consolidate).")
    before = tx.value(_COMPARED, workspace=look.workspace) or ""
    matured = later(look.now, -config.dream_min_age)
    fresh = int(tx.value(_OF_AGE, workspace=look.workspace, before=before, matured=matured))
    agreed = int(tx.value(_AGREED, workspace=look.workspace))
    kinds = (
        f"{_counted(fresh, 'memory')} came of age ({duration(config.dream_min_age)}) since the last comparison"
        if fresh
        else "",
        f"{_counted(agreed, 'accepted proposal')} not applied yet" if agreed else "",
    )
    would = (f"compare {_counted(fresh, 'memory')}" if fresh else "", f"apply {_counted(agreed, 'proposal')}")
    if fresh or agreed:
        done = " and ".join(filter(None, (would[0], would[1] if agreed else "")))
        return Due("consolidate", True, fresh + agreed, done, f"{'; '.join(filter(None, kinds))}.")
    gists = max((fold.number for fold in _folds(look).values()), default=0) + look.coming
    if gists >= _MANY_GISTS:
        return Due("consolidate", True, 0, "look for unused memories and overlong blocks", f"{gists} gists are new.")
    young = tx.value(_NEXT_OF_AGE, workspace=look.workspace, matured=matured)
    if young is None:
        return Due("consolidate", False, 0, "", "Every memory was compared.")
    age = duration(config.dream_min_age)
    return Due(
        "consolidate", False, 0, "", f"New memories are compared after {age}.", later(young, config.dream_min_age)
    )


def _eras(look: Look) -> Due:
    tx = look.tx
    lost = int(tx.value(_LOST_ERAS, workspace=look.workspace) or 0)
    if not lost and (wrong := eras.wrong_months(look.tx, look.workspace)):
        reason = f"The era of {', '.join(wrong)} does not tell the sessions of its month."
        return _unless_at_agents(look, Due("eras", True, len(wrong), f"write {_counted(len(wrong), 'era')}", reason))
    return _fold_stage(look, "eras", "era", "write {} into eras", lost, f"write {_counted(lost, 'era')} again")


def _profile(look: Look) -> Due:
    """The profile is rendered from memories, so it is due whenever it does not say what they say."""
    if profile.is_outdated(look.tx, look.workspace, Blocks(look.view).get("profile")):
        return Due("profile", True, 1, "write the profile", "What is known about the user has changed.")
    return Due("profile", False, 0, "", "It says what is known about the user.")


def _narrative(look: Look) -> Due:
    tx = look.tx
    lost = int(tx.value(_LOST_NARRATIVE, workspace=look.workspace) or 0)
    return _fold_stage(
        look, "narrative", "narrative", "continue the narrative with {}", lost, "write the narrative again"
    )


def _reflect(look: Look) -> Due:
    """A reflection. It never starts a pass by itself."""
    if not look.config.is_companion(look.workspace):
        return Due("reflect", False, 0, "", "Only a companion reflects.")
    levels = look.levels or drives.current(look.tx, look.workspace, drives.backlog(look.tx, look.workspace))
    level = f"curiosity is {levels.curiosity:.2f}"
    if levels.curiosity >= drives.THRESHOLD:
        return Due("reflect", True, 1, "write a reflection", f"{level.capitalize()}.")
    return Due("reflect", False, 0, "", f"{level.capitalize()}; from {drives.THRESHOLD} on, a pass reflects.")


#: What counts the work of each stage, in the order of a pass.
STAGES: dict[str, Callable[[Look], Due]] = {
    "sessions": _sessions,
    "consolidate": _consolidate,
    "eras": _eras,
    "profile": _profile,
    "narrative": _narrative,
    "reflect": _reflect,
}
#: These stages run in a pass that has begun, but do not start one.
_NEVER_ALONE = ("reflect",)


class _Fold(NamedTuple):
    """Gists that are new to a target: how many, when the oldest was last written, and when it was first."""

    number: int = 0
    oldest: str = ""
    created: str = ""


def _folds(look: Look) -> dict[str, _Fold]:
    tx = look.tx
    rows: list[Row] = tx.all(_FOLDS, workspace=look.workspace)
    return {target: _Fold(int(count), oldest, created) for target, count, oldest, created in rows}


def _fold(look: Look, target: str) -> _Fold:
    return _folds(look).get(target, _Fold())


def _fold_stage(look: Look, stage: str, target: str, would: str, lost: int, again: str) -> Due:
    """Gists that wait for an era or a part of the portrait. `again` is what is done if text of it was `lost`."""
    fold = _fold(look, target)
    count = fold.number + look.coming
    gists = _counted(count, "gist")
    doing = would.format(gists)
    if lost:
        return _unless_at_agents(look, Due(stage, True, count + lost, again, "Forgetting took text from it."))
    if not count:
        return Due(stage, False, 0, "", "Every gist is part of it.")
    if count >= _MANY_GISTS:
        return _unless_at_agents(look, Due(stage, True, count, doing, f"{gists} not part of it yet."))
    at = _due_at(look, fold)
    if at is not None and at <= look.now:
        since = duration(between(fold.oldest, look.now))
        return _unless_at_agents(look, Due(stage, True, count, doing, f"{gists} waiting for {since}."))
    tx = look.tx
    if tx.value(_HAS_PORTRAIT, workspace=look.workspace):
        rule = f"Due with {_MANY_GISTS}, on the next day with {_SOME_GISTS}, after a week with 1."
    else:
        rule = f"Due with {_MANY_GISTS}, or on the next day, because there is no portrait yet."
    return Due(stage, False, count, "", f"{gists} not part of it yet. {rule}", at)


def _due_at(look: Look, fold: _Fold) -> str | None:
    """When these gists are due by themselves."""
    if not fold.number:
        return None
    tx, at = look.tx, _next_day(fold.oldest)
    alone = fold.number < _SOME_GISTS and tx.value(_HAS_PORTRAIT, workspace=look.workspace)
    return max(at, later(fold.created, _WEEK)) if alone else at


def _unless_at_agents(look: Look, due: Due) -> Due:
    """The same, but not due if agents think and have not answered the stage's prompts yet."""
    if look.config.llm != AGENT:
        return due
    tx = look.tx
    for stage, waiting, answered in tx.all(_WORK, workspace=look.workspace):
        if stage == due.stage and waiting and not answered:
            return Due(due.stage, False, 0, "", f"{_counted(int(waiting), 'work item')} waiting for an agent.")
    return due


def _next_day(since: str) -> str:
    """The first midnight, local time, after this time; a few hours later at least."""
    moment = datetime.fromisoformat(since[:-1]).replace(tzinfo=UTC)
    day = moment.astimezone().replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
    midnight = later(day.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z", 86_400.0)
    return max(midnight, later(since, _NIGHT))


class Decision(NamedTuple):
    """Whether an automatic pass begins now."""

    run: bool
    #: Why, or why not.
    why: str
    #: When the next one can begin; None if nothing waits.
    next_at: str | None


def decide(look: Look, *, every: float, assessed: Mapping[str, Due] | None = None) -> Decision:
    """Whether an automatic pass begins now: something is due, and `every` seconds have passed since the last began.

    `assessed` is what `assess` found for all stages in the same transaction, if the caller knows it.
    """
    names = [stage for stage in STAGES if stage not in _NEVER_ALONE]
    found = assess(look, names) if assessed is None else {name: assessed[name] for name in names}
    held = {each.stage: each for each in stuck(look.tx, look.workspace) if each.retry_at > look.now}
    starts: list[Due] = []
    later_on: list[str] = []
    for due in found.values():
        holding = held.get(due.stage)
        if due.due and not due.waiting:  # such a stage runs in a pass that has begun, but does not start one
            continue
        if due.due and (holding is None or due.waiting > holding.left):
            starts.append(due)
        elif due.due and holding is not None:
            later_on.append(holding.retry_at)
        elif due.at is not None:
            later_on.append(due.at)
    begins = look.now if starts else min(later_on, default=None)
    if begins is None:
        return Decision(False, "Nothing is due.", None)
    free = _free_from(look, every)
    begins = max(begins, free) if free else begins
    if not starts:
        return Decision(False, "Nothing is due.", begins)
    if begins > look.now:
        return Decision(False, "The last automatic pass began too recently.", begins)
    return Decision(True, " ".join(f"{due.stage}: {due.reason}" for due in starts), look.now)


def is_due(view: StoreView) -> bool:
    """Whether an automatic pass would begin now. One read."""
    with view.engine.read() as tx:
        look = Look(tx, view, tx.now())
        return decide(look, every=view.config.auto_dream_every).run


def _free_from(look: Look, every: float) -> str | None:
    """The time before which no automatic pass begins; None if there was none yet."""
    tx = look.tx
    last = last_automatic(tx, look.workspace)
    if last is None or every <= 0 or last > look.now:  # in the future: the clock was set back
        return None
    unended = int(tx.value(_UNENDED, workspace=look.workspace))
    return later(last, min(max(every, _LONGEST_PAUSE), every * 2 ** min(max(unended - 1, 0), 10)))


def last_automatic(tx: Transaction, workspace: str) -> str | None:
    """When the last automatic pass began."""
    began: str | None = tx.value(LAST_AUTOMATIC, workspace=workspace)
    return began


def stuck(tx: Transaction, workspace: str) -> list[StuckStage]:
    """The stages that left work undone."""
    return [StuckStage(*row) for row in tx.all(_STUCK, workspace=workspace)]


def note_leftovers(look: Look, before: Mapping[str, Due], problems: Mapping[str, str], progressed: set[str]) -> None:
    """Record at the end of a pass what its stages left undone.

    `before` is what was due for each stage that ran, `problems` what went wrong, and `progressed` the stages that did
    something although as much as before is due.
    """
    tx = look.tx
    known = {each.stage: each for each in stuck(tx, look.workspace)}
    for stage, was in before.items():
        left = of_stage(look, stage)
        if not left.due or not left.waiting or stage in _NEVER_ALONE:
            tx.run(_SET_FREE, workspace=look.workspace, stage=stage)
            continue
        earlier = known.get(stage)
        stands_still = left.waiting >= was.waiting and stage not in progressed
        attempts = (earlier.attempts if earlier else 0) + 1 if stands_still else 1
        every = max(look.config.auto_dream_every, 60.0)
        tx.run(
            _SET_STUCK,
            workspace=look.workspace,
            stage=stage,
            left=left.waiting,
            attempts=attempts,
            problem=without_quotes(problems.get(stage, ""))[:_LONGEST_PROBLEM],
            retry=later(look.now, min(max(every, _LONGEST_PAUSE), every * 2 ** min(attempts - 1, 10))),
        )


def thinker(config: Config) -> str:
    """What thinks during an automatic pass. Nothing that costs money, unless the user has said so."""
    if config.auto_dream_llm == "same" or config.llm == AGENT:
        return config.llm
    return EXTRACTIVE


def _counted(number: int, noun: str) -> str:
    plural = noun if number == 1 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {plural}"
