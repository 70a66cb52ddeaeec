"""Sessions: each one is thought about once, piece by piece, oldest first.

After an import more sessions may wait than the caps of a pass allow, and the newest matter most. So a pass takes the
newest sessions that the caps leave room for, reads those in order of time, and goes on with the next newest. A session
may therefore be read after later ones; what it says never replaces or closes what was said after it (`learnt`).

One answer gives the gist of a piece with what was said before, the statements in it, and which known memories they
repeat, replace or close. The prompt shows the turns of the piece, the gist so far, the nearest known memories and the
open todos of the project. A piece is written in one transaction, so a pass that ends early goes on with the next one,
and no turn is sent twice.

If a session has turns of the user or of agents, only these are thought about. Output of tools and imported text is read
separately and only ever becomes proposals, so that it cannot pass for a person's words or reach the portrait.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ... import gist_text, wording
from ...gist_text import GistText
from ...harness_commands import CONTROLS
from ...llm import GIST_SO_FAR, Passage, Prompt
from ...llm.extractive.stories import ONLY_COMMANDS
from ...memory import memory_index
from ...memory.telling_words import MOST, telling_words
from ...safe_text import one_line
from .. import estimates, grounds, prompts
from ..drives import sessions_to_summarise
from ..pass_context import TRUSTED
from . import learnt, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...records import Exchange, Memory
    from ..pass_context import PassContext
    from ..thinking import Thought

STAGE = learnt.STAGE
#: What the stages were called whose work this one does. Passes still accept the names.
EARLIER_NAMES = ("gists", "extract")
#: Stages that left work items for agents in an earlier release. The profile needs no answer any more.
_LEFTOVERS = (*EARLIER_NAMES, "profile")
#: A question whose answers are longer than this is parted from some of them.
_LONGEST = 90_000
_TOKENS = 4_000
#: The title of a gist: its characters, the fewest words of a name that is one, and names that programs give before
#: anything was said.
_LONGEST_TITLE = 120
_FEWEST_WORDS = 2
_NO_TITLES = ("new chat", "new conversation", "new session", "new agent", "new thread", "untitled chat")
#: A session may take this many times the tokens that were estimated.
_MARGIN = 1.3

_SESSION = """
SELECT summary, COALESCE(project, ''), summary_from, CASE WHEN parent_id IS NULL THEN COALESCE(name, '') ELSE '' END
FROM sessions WHERE workspace = :workspace AND id = :session
"""
_FIRST_TIME = """
SELECT created_at FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' ORDER BY seq LIMIT 1
"""
_LAST_TIME = """
SELECT created_at FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' ORDER BY seq DESC LIMIT 1
"""


class Session(NamedTuple):
    id: str
    #: What it set out to do, and the exchange that this repeats.
    summary: str
    project: str
    summary_from: int | None
    #: Its name for people; empty for a subagent, whose name is only its kind.
    name: str


class Piece(NamedTuple):
    """Consecutive turns that are thought about at once."""

    #: The seq after which it begins, and the last one that it covers.
    after: int
    upto: int
    #: The turns that the gist is made of, and those that only become proposals.
    told: list[Exchange]
    brought: list[Exchange]
    #: `part 1 of 2`, or empty.
    part: str


def run(context: PassContext) -> None:
    """Think about the sessions that need it; with `force`, about every session with a new turn."""
    for stage in _LEFTOVERS:
        context.thinker.withdraw(stage)
    with context.engine.read() as tx:
        unread = context.gists.unread(tx)
        silent = context.view.config.stale_after
        ready = sessions_to_summarise(tx, context.workspace, everything=context.force, silent_after=silent)
        sessions = {*ready, *unread}
        began = {id: tx.value(_FIRST_TIME, workspace=context.workspace, session=id) or "" for id in sessions}
    if sessions:
        context.probe.ask_sample()
    context.extracted = context.extracted or 0
    in_order = sorted(sessions, key=lambda id: (began[id], id))
    chosen = _newest_within_caps(context, in_order) if context.thinker.capped else in_order
    context.for_each(STAGE, chosen, _read_session, len(sessions))
    # A model has judged what contradicts what. Without one, words are compared.
    if context.learnt and context.thinker.extractive:
        learnt.propose_contradictions(context)


def _newest_within_caps(context: PassContext, sessions: Sequence[str]) -> Iterator[str]:
    """The sessions, given in order of time. If the caps leave no room for all, the newest come first."""
    waiting = list(sessions)
    with context.engine.read() as tx:
        size = estimates.sizes(tx, context.workspace, set(waiting))
        ended = {id: tx.value(_LAST_TIME, workspace=context.workspace, session=id) or "" for id in waiting}
    while waiting:
        calls, tokens = context.thinker.meter.left()
        tokens -= _TOKENS  # a call is refused if there is no room for its longest answer
        chosen: set[str] = set()
        for id in sorted(waiting, key=lambda id: (ended[id], id), reverse=True):
            if id in size:
                calls -= size[id].calls
                tokens -= int(_MARGIN * (size[id].read + size[id].written))
            if chosen and min(calls, tokens) < 0:
                break
            chosen.add(id)
        yield from (id for id in waiting if id in chosen)
        waiting = [id for id in waiting if id not in chosen]


def _read_session(context: PassContext, id: str) -> None:
    """Think about what is new in a session, one piece after another."""
    with context.engine.read() as tx:
        session = Session(id, *(tx.one(_SESSION, workspace=context.workspace, session=id) or ("", "", None, "")))
        after = context.gists.unread(tx, id).get(id, context.gists.covered(tx, id).seq)
    turns = context.gists.unsummarised(id, after=after)
    for piece in _pieces(context, id, turns, after):
        _read_piece(context, session, piece)


def _pieces(context: PassContext, session: str, turns: list[Exchange], after: int) -> list[Piece]:
    """The turns in pieces. While an agent has a piece, only that one."""
    pending = context.thinker.pending_coverage(STAGE, session)
    if isinstance(pending, dict) and pending.get("after") == after and isinstance(pending.get("upto"), int):
        turns = [turn for turn in turns if turn.seq <= pending["upto"]]
        return [_piece(turns, after, str(pending.get("part", "")))] if turns else []
    if pending is not None:
        context.thinker.withdraw(STAGE, session)
    # Cut by what was said, so that no piece consists of output of tools alone.
    parts = cut([turn for turn in turns if turn.trust in TRUSTED] or turns)
    made: list[Piece] = []
    for number, part in enumerate(parts, 1):
        upto = part[-1].seq if number < len(parts) else turns[-1].seq
        between = [turn for turn in turns if after < turn.seq <= upto]
        made.append(_piece(between, after, f"part {number} of {len(parts)}" if len(parts) > 1 else ""))
        after = upto
    return made


def _piece(turns: list[Exchange], after: int, part: str) -> Piece:
    told = [turn for turn in turns if turn.trust in TRUSTED]
    return Piece(after, turns[-1].seq, told, [turn for turn in turns if turn.trust not in TRUSTED], part)


def cut(turns: Sequence[Exchange]) -> list[list[Exchange]]:
    """The turns in parts of about equal size that fit a prompt. A part begins with a turn of the user, so that no
    answer is parted from its question, unless the answers alone are too long."""
    groups: list[list[Exchange]] = []
    sizes: list[int] = []
    for turn in turns:
        more = len(grounds.shortened(turn.content))
        if not groups or turn.role == "user" or sizes[-1] + more > _LONGEST:
            groups.append([])
            sizes.append(0)
        groups[-1].append(turn)
        sizes[-1] += more
    total = sum(sizes)
    room = total / max(1, -(-total // estimates.PIECE))
    parts: list[list[Exchange]] = []
    size = 0
    for group, more in zip(groups, sizes, strict=True):
        if not parts or size + more / 2 > room * len(parts):
            parts.append([])
        parts[-1] += group
        size += more
    return parts


def _read_piece(context: PassContext, session: Session, piece: Piece) -> None:
    """Think about one piece, and write its gist and its statements."""
    gist = context.gists.current(session.id)
    # What a tool or a document says is not mixed with what was said, neither now nor in the gist so far.
    before = gist if gist and gist.content and (gist.trust in TRUSTED or not piece.told) else None
    if not piece.told and before is not None and before.trust in TRUSTED:
        answers = [(_think_about_quoted(context, session, piece.brought), piece.brought)]
        text, told = before.content, []
    elif commands := _only_commands(piece):
        # There is nothing to think about, and a model would be paid for it.
        told, answers = piece.told, []
        text = before.content if before else f"{ONLY_COMMANDS} {', '.join(commands)}."
    else:
        told = piece.told or piece.brought
        thought = _think(context, session, piece, told, before)
        # Words alone add nothing to a summary that a model wrote at a compaction. They are only read for statements.
        keeps = before is not None and context.thinker.extractive and _is_covered(context, session, piece)
        title = _own_title(session.name) if context.thinker.extractive else ""
        text = before.content if before is not None and keeps else _gist_text(thought, told, title)
        answers = [([thought], told)]
        if piece.told and piece.brought:
            answers.append((_think_about_quoted(context, session, piece.brought), piece.brought))
    _write(context, session, piece, text, told, gist, answers)


def _is_covered(context: PassContext, session: Session, piece: Piece) -> bool:
    with context.engine.read() as tx:
        return piece.upto <= context.gists.covered(tx, session.id).seq


def _only_commands(piece: Piece) -> list[str]:
    """The commands to the harness, if a piece has nothing else."""
    given = [wording.command(turn.content) if turn.role == "user" else ("", "") for turn in piece.told]
    if piece.brought or not all(name in CONTROLS and not words for name, words in given):
        return []
    return [f"/{name}" for name, _ in dict.fromkeys(given)]


def _write(
    context: PassContext,
    session: Session,
    piece: Piece,
    text: str,
    told: list[Exchange],
    gist: Memory | None,
    answers: list[tuple[list[Thought], list[Exchange]]],
) -> None:
    found, closed, proposed = [], [], []
    seen: dict[int, str] = {}
    for thoughts, turns in answers:
        for thought in thoughts:
            answer = cast(dict[str, Any], thought.data)
            shown = {id: known for id, known in thought.memories_shown().items() if not gist or id != gist.id}
            seen |= shown
            said = [turn for turn in turns if turn.trust in TRUSTED and turn.role in ("user", "assistant")]
            found += learnt.read(context, answer, session.id, said, shown) if said else []
            closed += learnt.read_closed(context, answer, said, shown) if said else []
            brought = [turn for turn in turns if turn.trust not in TRUSTED]
            proposed += learnt.read(context, answer, session.id, brought, {}) if brought else []
    ready = learnt.prepare(context, found)
    prepared = context.memories.prepare(text)
    words = _words(context, told, text, gist) if told else None
    own = [session.summary, *([gist.content] if gist else [])]
    copied = nearest.borrowed(context, text, told, seen.items(), own)
    with context.write() as tx:
        context.gists.store(
            session.id,
            text,
            piece.upto,
            sources=[turn.id for turn in told],
            memories=copied,
            words=words,
            read=True,
            prepared=prepared,
        )
        changes = learnt.store(context, tx, ready, closed)
        for statement in proposed:
            context.propose(tx, statement.plan)
    if session.id not in context.new_gists:
        context.new_gists.append(session.id)
    learnt.carry_out(context, changes)


def _think(
    context: PassContext, session: Session, piece: Piece, told: list[Exchange], before: Memory | None
) -> Thought:
    """The answer about a piece."""

    def build() -> tuple[Prompt, object]:
        passages = tuple(map(turn_passage, told))
        known = (_head(session, piece, told), *_gist_so_far(before))
        if not piece.told:
            prompt = Prompt("session", prompts.SESSION_QUOTED, passages, known)
        else:
            memories = nearest.known(context, session.project, told)
            prompt = Prompt("session", prompts.SESSION, passages, (*known, *memories))
        return prompt, {"after": piece.after, "upto": piece.upto, "part": piece.part}

    return _ask(context, session.id, build)


def _think_about_quoted(context: PassContext, session: Session, turns: list[Exchange]) -> list[Thought]:
    """The answers about output of tools and imported text, of which only the statements are used."""
    thoughts = []
    for number, part in enumerate(cut(turns), 1):
        prompt = Prompt("session", prompts.SESSION_QUOTED, tuple(map(turn_passage, part)))
        thoughts.append(_ask(context, f"{session.id} quoted {number}", partial(_uncovered, prompt)))
    return thoughts


def _uncovered(prompt: Prompt) -> tuple[Prompt, object]:
    return prompt, None


def _ask(context: PassContext, subject: str, build: Callable[[], tuple[Prompt, object]]) -> Thought:
    return context.thinker.think(STAGE, subject, build, form=prompts.SESSION_FORM, max_tokens=_TOKENS)


def _head(session: Session, piece: Piece, told: list[Exchange]) -> Passage:
    """The session itself: its project, its times, which part this is, and what it set out to do."""
    first, last = told[0].created_at, told[-1].created_at
    times = f"{first[:10]} {first[11:16]} to {last[:10]} {last[11:16]} UTC"
    label = "; ".join(filter(None, ["this session", f"project {session.project or 'none'}", times, piece.part]))
    if not session.summary.strip() or session.summary_from in {turn.id for turn in told}:
        # Nothing is quoted, or only what stands below.
        return Passage("p1", label, "")
    handle, text = grounds.of_session(session.id, session.summary)
    return Passage(handle, label, text)


def _gist_so_far(gist: Memory | None) -> tuple[Passage, ...]:
    if gist is None:
        return ()
    handle, text = grounds.of_memory(gist)
    return (Passage(handle, GIST_SO_FAR, text),)


def turn_passage(turn: Exchange) -> Passage:
    handle, text = grounds.of_turn(turn)
    at = turn.created_at
    return Passage(handle, f"{turn.role}, {at[:10]} {at[11:16]}", text, turn.role, at)


def _own_title(name: str) -> str:
    """The name of a session, if it tells what the session is about, as the title of an imported conversation does."""
    line = one_line(name, _LONGEST_TITLE)
    return "" if len(line.split()) < _FEWEST_WORDS or line.lower() in _NO_TITLES else line


def _gist_text(thought: Thought, turns: list[Exchange], title: str) -> str:
    """The text of the gist, with the session's own title if it has one.

    A session of greetings may have nothing to tell; then its longest turn is the gist.
    """
    answer = cast(dict[str, Any], thought.data)
    told = {name: answer[name] if isinstance(answer.get(name), str) else "" for name in ("title", "outcome", "gist")}
    given = answer.get("open")
    points = tuple(each for each in given if isinstance(each, str)) if isinstance(given, list) else ()
    text = gist_text.compose(GistText(title or told["title"], told["outcome"], points, told["gist"]))
    return text or one_line(max((turn.content for turn in turns), key=len), 200)


def _words(context: PassContext, turns: list[Exchange], text: str, gist: Memory | None) -> list[str]:
    """Words of the session by which its gist is found, besides those of its text."""
    with context.engine.read(feed=True) as tx:
        new = telling_words(tx, context.workspace, (turn.content for turn in turns), [text])
    old = memory_index.words_of(gist.data) if gist and gist.content else []
    return list(dict.fromkeys([*new, *old]))[: 2 * MOST]
