"""Where we left off: the last sessions of this project, what each was asked, what came of it, and what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import gist_text, wording
from ...clock import age_in_words, between
from ...coordination.sections import Entry, Section
from ...safe_text import one_line, visible
from .at_work import listed

if TYPE_CHECKING:
    from .at_work import Claims
    from .snapshot import Session, Snapshot

#: Sessions that are shown.
_SESSIONS = 3
#: Words, at least, of an outcome that was given on purpose.
_GIVEN_WORDS = 2
_ASK, _LATER_ASK, _RESULT, _QUESTION = 220, 160, 360, 200
#: For a gist: characters of its outcome, and open points that are shown, of the last session and of those before.
_OUTCOME, _POINTS, _POINT = 600, (8, 4, 2), 300
#: After this many seconds nobody waits for an answer. What was left to do may still be open, and its age is shown.
_WAITED_FOR = 30 * 86_400
#: How a gist names an ask without an answer.
_UNANSWERED = "Not answered: "

# The first turns of the user, the latest ones, and the latest ones of anybody. The end of a long turn is read, too,
# because a question stands there. Nobody here stands for the words of a tool or an import. The appended text keeps
# SQLite from the index by time, with which it would read all turns of the workspace instead of those of the session.
TURNS = """
SELECT seq, role, SUBSTR(content, 1, 2000),
       CASE WHEN LENGTH(content) > 600 THEN SUBSTR(content, LENGTH(content) - 599) ELSE content END FROM exchanges
WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND trust IN ('user', 'agent') AND seq IN (
  SELECT seq FROM (SELECT seq FROM exchanges
    WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND role = 'user'
      AND created_at || '' <= :now AND trust IN ('user', 'agent')
    ORDER BY seq LIMIT 6) AS first
  UNION ALL
  SELECT seq FROM (SELECT seq FROM exchanges
    WHERE workspace = :workspace AND session_id = :session AND role <> 'log' AND role = 'user'
      AND created_at || '' <= :now AND trust IN ('user', 'agent')
    ORDER BY seq DESC LIMIT 12) AS latest
  UNION ALL
  SELECT seq FROM (SELECT seq FROM exchanges
    WHERE workspace = :workspace AND session_id = :session AND role <> 'log'
      AND created_at || '' <= :now AND trust IN ('user', 'agent')
    ORDER BY seq DESC LIMIT 8) AS last
)
ORDER BY seq
"""
_QUOTED = """
SELECT SUBSTR(content, 1, 2000) FROM exchanges WHERE workspace = :workspace AND id = :id AND created_at <= :now
  AND trust IN ('user', 'agent')
"""
# The beginning of a gist has its title, its outcome and what is open. A gist covers a session if no turn came later.
_GIST = """
SELECT SUBSTR(m.content, 1, 4000), CASE WHEN s.turns <= s.gist_turns THEN 1 ELSE 0 END FROM memories m
  JOIN sessions s ON s.workspace = m.workspace AND s.id = m.key
WHERE m.workspace = :workspace AND m.kind = 'gist' AND m.key = :session AND m.status = 'active'
  AND m.trust IN ('user', 'agent') AND m.updated_at <= :now
"""


#: The role of an agent's turn.
_AGENT = "assistant"


class Turn(NamedTuple):
    seq: int
    role: str
    head: str
    tail: str


class Gist(NamedTuple):
    """The gist of a session, and whether it covers all of it."""

    parts: gist_text.GistText
    covers: bool


def section(snapshot: Snapshot, claimed: Claims) -> tuple[Section, set[str]]:
    """The section, and the sessions in it."""
    entries: dict[str, Entry] = {}
    for session in snapshot.over:
        gist = _gist(snapshot, session)
        told = _from_gist(snapshot, session, gist, claimed, len(entries)) or _told(snapshot, session, claimed, gist)
        if told:
            entries[session.id] = Entry(told, ("session", session.id))
        if len(entries) == _SESSIONS:
            break
    made = Section(
        "## Where we left off",
        list(entries.values()),
        "earlier session",
        "engram session list --all",
        rank=5,
        share=0.22,
    )
    return made, set(entries)


def turns(snapshot: Snapshot, session_id: str) -> list[Turn]:
    values = {"workspace": snapshot.workspace, "session": session_id, "now": snapshot.now}
    tx = snapshot.tx
    return [Turn(*row) for row in tx.all(TURNS, **values)]


def _gist(snapshot: Snapshot, session: Session) -> Gist:
    values = {"workspace": snapshot.workspace, "session": session.id, "now": snapshot.now}
    tx = snapshot.tx
    text, covers = tx.one(_GIST, **values) or ("", 0)
    return Gist(gist_text.parse(text), bool(covers))


def _from_gist(snapshot: Snapshot, session: Session, gist: Gist, claimed: Claims, place: int) -> str:
    """The entry of a session whose gist says what came of it; empty if it does not, or not of all of it."""
    title, outcome, points, _ = gist.parts
    if not gist.covers or not outcome:
        return ""
    told = [
        _head(snapshot, session) + (one_line(title, _ASK) or wording.shorten(session.summary, _ASK) or "(no title)")
    ]
    told.append(f"  Result: {wording.shorten(outcome, _OUTCOME)}")
    old = _is_old(snapshot, session)
    head = f"  Open {age_in_words(session.worked_at, snapshot.now)}: " if old else "  Open: "
    points = tuple(each for each in points if not (old and _waits(each)))
    shown = points[: _POINTS[place]]
    told += [f"{head}{wording.shorten(each, _POINT)}" for each in shown]
    told += (
        [f"{head}{len(points) - len(shown)} more (`engram history {visible(session.id)}`)"]
        if points[len(shown) :]
        else []
    )
    if held := claimed.get(session.id):
        told.append(f"  Open: it still claims {listed(held)}.")
    return "\n".join(told)


def _head(snapshot: Snapshot, session: Session) -> str:
    left_open = f", still open as session {visible(session.id)}" if session.status == "active" else ""
    return f"- {age_in_words(session.worked_at, snapshot.now).capitalize()} ({visible(session.type)}{left_open}): "


def _told(snapshot: Snapshot, session: Session, claimed: Claims, gist: Gist) -> str:
    """The entry of a session; empty if nobody asked anything in it and it names no outcome of its own."""
    said = turns(snapshot, session.id)
    asked = list(wording.asks(turn.head for turn in said if turn.role == "user"))
    given = session.summary if session.summary_from is None else ""
    if not asked and not (session.outcome and session.outcome_from is None):
        return ""
    first = given or next(filter(wording.is_substantial, asked), asked[0] if asked else session.summary)
    last = next((ask for ask in reversed(asked) if wording.is_substantial(ask)), "")
    told = [
        _head(snapshot, session)
        + (wording.shorten(wording.plain(first, headings=True) or first, _ASK) or "(no summary)")
    ]
    if last and not first.startswith(last[:60]):
        told.append(f"  Last asked: {wording.shorten(last, _LATER_ASK)}")
    came = _result(snapshot, session, said, gist)
    if came:
        told.append(f"  Result: {came}")
    told += [f"  Open: {each}" for each in _open(session, said, claimed, _is_old(snapshot, session))]
    return "\n".join(told)


def _result(snapshot: Snapshot, session: Session, said: list[Turn], gist: Gist) -> str:
    """What came of it: the outcome, else the agent's last message, else a sentence of the gist."""
    values = {"workspace": snapshot.workspace, "now": snapshot.now}
    outcome, tx = session.outcome, snapshot.tx
    if outcome and session.outcome_from is not None:
        # The stored outcome is short and on one line. The message it repeats has its lists and sentences.
        whole: str = tx.value(_QUOTED, id=session.outcome_from, **values) or ""
        if one_line(whole, len(whole)).startswith(outcome.rstrip("…")):
            outcome = whole
    last = next((turn.head for turn in reversed(said) if turn.role == _AGENT), "")
    # An outcome that somebody gave on purpose may be as short as "Schema migrated".
    given = session.outcome if session.outcome_from is None else ""
    if wording.says_something(came := wording.result(given, _RESULT), _GIVEN_WORDS):
        return came
    for text in (outcome, last):
        if wording.says_something(came := wording.result(text, _RESULT)):
            return came
    came = wording.result(_of_agent(gist.parts.story), _RESULT)
    return came if wording.says_something(came) else ""


def _of_agent(gist: str) -> str:
    """The last sentence of the agent in a gist whose lines say who said what and when; else the whole gist."""
    marked = [line.partition(f" {_AGENT}: ")[2] for line in gist.splitlines() if line[:4].isdigit()]
    return next((each for each in reversed(marked) if each), "") if marked else gist


def _is_old(snapshot: Snapshot, session: Session) -> bool:
    """Whether the agent was at work so long ago that nobody waits for an answer any more."""
    return between(session.worked_at, snapshot.now) > _WAITED_FOR


def _waits(point: str) -> bool:
    """Whether an open point of a gist waits for an answer."""
    return point.startswith(_UNANSWERED) or point.rstrip(" .\"'”’)").endswith(("?", "？"))


def _open(session: Session, said: list[Turn], claimed: Claims, old: bool) -> list[str]:
    found = []
    end = None if old else _end(said)
    if end is not None and wording.is_interruption(end.head):
        found.append("the user stopped the agent at work.")
    elif end is not None and end.role == "user":
        found.append("the last ask has no answer.")
    elif end is not None and (asked := wording.question(end.tail, _QUESTION)):
        found.append(f"it ended with a question: {asked}")
    elif end is not None and session.status == "abandoned" and not wording.result(end.tail, _RESULT):
        found.append("it broke off.")
    if held := claimed.get(session.id):
        found.append(f"it still claims {listed(held)}.")
    return found


def _end(said: list[Turn]) -> Turn | None:
    """The last turn that somebody meant: not a notice of the harness, nor a command such as /exit."""
    for turn in reversed(said):
        if turn.role == _AGENT or wording.is_interruption(turn.head):
            return turn
        if turn.role == "user" and next(wording.asks([turn.head]), ""):
            return turn
    return None
