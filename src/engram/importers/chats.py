"""Conversations of a chat service whose messages form a tree, as sessions.

A person who edits a prompt, or asks for another answer, makes a branch. The session of a conversation is its oldest
branch: what was said first at every split. Each other branch is a session of its own below it, with only the messages
since the split, so that every message is kept once. The branch that was shown last may be another one in the next
export; the oldest stays the oldest, so an export adds only what is new, whichever was imported before. If there are
several branches, the one that was shown last is marked. A conversation with very many branches keeps the further ones
together in one session.

The trees come from files, so they may be damaged: a message may name a parent that does not exist, or itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .items import EndItem, GistItem, SessionItem, Turn
from .json_values import digest, fields, text
from .texts import short_line

if TYPE_CHECKING:
    from .items import Item

#: The most branches of a conversation that become sessions of their own.
MOST_BRANCHES = 20
#: The longest name of a session, and the longest line about a tool.
LONGEST_NAME, LONGEST_LINE = 160, 200
#: The arguments of a tool that best say what it did, the best first.
_TELLING = ("query", "q", "title", "name", "path", "file_path", "url", "command", "prompt", "code", "text", "id")


class Chat(NamedTuple):
    """One conversation."""

    #: The session of the oldest branch.
    session: SessionItem
    #: The parent of each message, in the order of the file; None for the first of a conversation.
    parents: Mapping[str, str | None]
    #: What each message says. A message that says nothing may be missing.
    turns: Mapping[str, Sequence[Turn]]
    #: When each message was written, if it is known.
    times: Mapping[str, str | None]
    #: The message that was shown last.
    current: str | None = None
    #: What the conversation comes to.
    gist: str | None = None


#: What a session says whose branch was shown last.
_SHOWN = {"shown": True}


class _Branch(NamedTuple):
    nodes: list[str]
    #: The message after which it splits off.
    after: str | None


def items(chat: Chat) -> Iterator[Item]:
    """The sessions of a conversation, with their turns. A conversation without turns gives nothing."""
    if not any(chat.turns.values()):
        return
    parents = _without_cycles(chat.parents)
    first, *others = _branches(chat, parents)
    shown = _shown(chat, parents, [first, *others])
    own = [(branch, _said(chat, branch.nodes)) for branch in others]
    session = chat.session
    if own and shown is first:
        session = session._replace(metadata={**session.metadata, **_SHOWN})
    yield from _session(session, _said(chat, first.nodes), chat.gist)
    title = chat.session.name
    name = short_line(f"another branch of {title}" if title else "another branch", LONGEST_NAME)
    for branch, said in own[:MOST_BRANCHES]:
        after = {"after": branch.after} if branch.after is not None else {}
        about = {**after, **(_SHOWN if branch is shown else {})}
        yield from _session(_below(chat.session, f"branch-{digest(branch.nodes[0])}", name, about), said)
    # By time, so that what is new comes last, whichever branch goes on.
    rest = [turn for _, said in own[MOST_BRANCHES:] for turn in _timed(said, chat.session)]
    if rest := sorted(rest, key=lambda turn: turn.at or ""):
        count = {"branches": len(own) - MOST_BRANCHES}
        name = short_line(f"further branches of {title}" if title else "further branches", LONGEST_NAME)
        yield from _session(_below(chat.session, "branches", name, count), rest)


def call_line(tool: str, given: object) -> str:
    """One line about a call of a tool: its name, and the argument that says most."""
    tool = short_line(tool, 80) or "tool"
    arguments = fields(given)
    if not arguments:
        said = text(given)
    elif not (said := next((text(arguments[key]) for key in _TELLING if text(arguments.get(key)).strip()), "")):
        said = ", ".join(f"{key}: {value}" for key, value in arguments.items() if isinstance(value, str | int | float))
    said = short_line(said, LONGEST_LINE)
    return f"{tool}: {said}" if said else tool


def _said(chat: Chat, nodes: Sequence[str]) -> list[Turn]:
    return [turn for node in nodes for turn in chat.turns.get(node, ())]


def _below(session: SessionItem, part: str, name: str, metadata: Mapping[str, object]) -> SessionItem:
    return SessionItem(
        f"{session.id}#{part}",
        session.type,
        project=session.project,
        name=name,
        parent=session.id,
        metadata={"branch_of": session.id, **metadata},
    )


def _session(session: SessionItem, turns: list[Turn], gist: str | None = None) -> Iterator[Item]:
    turns = _timed(turns, session)
    times = [turn.at for turn in turns if turn.at is not None]
    session = session._replace(
        started_at=session.started_at or (min(times) if times else None),
        last_at=session.last_at or (max(times) if times else None),
    )
    yield session
    for turn in turns:
        yield turn._replace(session=session.id)
    if gist:
        yield GistItem(session.id, gist, session.last_at, f"{session.id}#gist")
    yield EndItem(session.id)


def _timed(turns: list[Turn], session: SessionItem) -> list[Turn]:
    """The turns; one without a time gets that of its neighbour, or the conversation's."""
    first = next((turn.at for turn in turns if turn.at is not None), session.started_at or session.last_at)
    timed, latest = [], first
    for turn in turns:
        latest = turn.at or latest
        timed.append(turn if turn.at is not None else turn._replace(at=latest))
    return timed


def _without_cycles(parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """The tree, without parents that do not exist and without the links that close a circle."""
    tree = {node: parent if parent in parents else None for node, parent in parents.items()}
    places = {node: place for place, node in enumerate(tree)}
    settled: set[str] = set()
    for node in tree:
        way: dict[str, None] = {}
        at: str | None = node
        while at is not None and at not in settled and at not in way:
            way[at] = None
            at = tree[at]
        if at in way:
            circle = list(way)
            # The one that comes first in the file is probably the beginning.
            tree[min(circle[circle.index(at) :], key=places.__getitem__)] = None
        settled.update(way)
    return tree


def _branches(chat: Chat, parents: dict[str, str | None]) -> list[_Branch]:
    """The branches that say something, oldest first. Each message that says something is in one of them.

    A branch goes on with the oldest message after each message, and every other one begins a new branch. So later
    messages make branches longer or begin new ones, and no message ever moves to another branch.
    """
    ages = _ages(chat, parents)
    children: dict[str | None, list[str]] = {}
    for node, parent in parents.items():
        if node in ages:
            children.setdefault(parent, []).append(node)
    for nodes in children.values():
        nodes.sort(key=ages.__getitem__)
    found = []
    for parent, nodes in children.items():
        # Without a parent, each is the first of a tree of its own.
        for begin in nodes if parent is None else nodes[1:]:
            branch, at = [], begin
            while True:
                branch.append(at)
                if at not in children:
                    break
                at = children[at][0]
            found.append(_Branch(branch, parent))
    return sorted(found, key=lambda branch: ages[branch.nodes[0]])


def _ages(chat: Chat, parents: dict[str, str | None]) -> dict[str, tuple[str, int]]:
    """When a message was said, or what was said first after it, for all that lead to a message which says something.

    Messages that say nothing often have no time. Of two messages without a time, the first in the file counts as older.
    """
    said = [(chat.times.get(node) or "", place, node) for place, node in enumerate(parents) if chat.turns.get(node)]
    ages: dict[str, tuple[str, int]] = {}
    for time, place, node in sorted(said):
        at: str | None = node
        while at is not None and at not in ages:
            ages[at] = (time, place)
            at = parents[at]
    return ages


def _shown(chat: Chat, parents: dict[str, str | None], branches: list[_Branch]) -> _Branch:
    """The branch that has the message which was shown last; if that is not known, the newest message."""
    of = {node: branch for branch in branches for node in branch.nodes}
    at = chat.current if chat.current in parents else None
    while at is not None and not chat.turns.get(at):
        at = parents[at]
    return of[at or max((node for node in of if chat.turns.get(node)), key=lambda node: chat.times.get(node) or "")]
