"""Conversations of a chat service whose messages form a tree, as sessions.

A person who edits a prompt, or asks for another answer, makes a branch. The branch that was shown last is the session.
Each other branch is a session of its own below it, with only the messages since the split, so that every message is
kept once. A conversation with very many branches keeps the further ones together in one session.

The trees come from files, so they may be damaged: a message may name a parent that does not exist, or itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..safe_text import one_line
from .items import EndItem, GistItem, SessionItem, Turn
from .json_values import digest, fields, text

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

    #: The session of the shown branch.
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


class _Branch(NamedTuple):
    nodes: list[str]
    #: The message after which it splits off.
    after: str | None


def items(chat: Chat) -> Iterator[Item]:
    """The sessions of a conversation, with their turns. A conversation without turns gives nothing."""
    if not any(chat.turns.values()):
        return
    parents = _without_cycles(chat.parents)
    shown, others = _branches(chat, parents)
    yield from _session(chat.session, _said(chat, shown), chat.gist)
    own = [(branch, said) for branch in others if (said := _said(chat, branch.nodes))]
    title = chat.session.name
    name = one_line(f"another branch of {title}" if title else "another branch", LONGEST_NAME)
    for branch, said in own[:MOST_BRANCHES]:
        after = {"after": branch.after} if branch.after is not None else {}
        yield from _session(_below(chat.session, f"branch-{digest(branch.nodes[0])}", name, after), said)
    if rest := [turn for _, said in own[MOST_BRANCHES:] for turn in said]:
        count = {"branches": len(own) - MOST_BRANCHES}
        name = one_line(f"further branches of {title}" if title else "further branches", LONGEST_NAME)
        yield from _session(_below(chat.session, "branches", name, count), rest)


def call_line(tool: str, given: object) -> str:
    """One line about a call of a tool: its name, and the argument that says most."""
    tool = one_line(tool, 80) or "tool"
    arguments = fields(given)
    if not arguments:
        said = text(given)
    elif not (said := next((text(arguments[key]) for key in _TELLING if text(arguments.get(key)).strip()), "")):
        said = ", ".join(f"{key}: {value}" for key, value in arguments.items() if isinstance(value, str | int | float))
    # Only the beginning is shown, and the text may be a whole document.
    said = one_line(said[: 10 * LONGEST_LINE], LONGEST_LINE)
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


def _branches(chat: Chat, parents: dict[str, str | None]) -> tuple[list[str], list[_Branch]]:
    """The messages of the shown branch, and the other branches, oldest first. Each message is in one of them."""
    places = {node: place for place, node in enumerate(parents)}

    def age(node: str) -> tuple[str, int]:
        return chat.times.get(node) or "", places[node]

    children: dict[str, list[str]] = {}
    for node, parent in parents.items():
        if parent is not None:
            children.setdefault(parent, []).append(node)
    current = chat.current
    if current not in parents or not _said(chat, _way(parents, current, set())):
        # The newest message, and what was said after it.
        current = max((node for node in parents if chat.turns.get(node)), key=age)
        while below := children.get(current):
            current = max(below, key=age)
    taken: set[str] = set()
    shown = _way(parents, current, taken)
    others = []
    for leaf in sorted((node for node in parents if node not in children and node not in taken), key=age):
        nodes = _way(parents, leaf, taken)
        others.append(_Branch(nodes, parents[nodes[0]]))
    # What follows the message that was shown last ends in a leaf, so every message was taken. By their beginnings, the
    # branches keep their order when one of them goes on.
    return shown, sorted(others, key=lambda branch: age(branch.nodes[0]))


def _way(parents: Mapping[str, str | None], node: str, taken: set[str]) -> list[str]:
    """The messages that lead to one, in order, without those that are taken. They are taken now."""
    way: list[str] = []
    at: str | None = node
    while at is not None and at not in taken:
        taken.add(at)
        way.append(at)
        at = parents[at]
    return way[::-1]
