"""`engram dream review`: decide about each change that dreaming proposes, with one key."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .common import Command, as_json, edited, open_store, result, typed
from .persons import is_person
from .screen import coloured_diff, fields, print_json, say

if TYPE_CHECKING:
    from ...client import Engram
    from ...records import Proposal

_KEYS = "[a]ccept and apply  [e]dit  [r]eject  [s]kip  [q]uit"


@click.command(cls=Command)
@click.option("--accept", type=click.IntRange(min=1), metavar="ID", help="Accept a proposal; the next pass applies it.")
@click.option("--reject", type=click.IntRange(min=1), metavar="ID", help="Reject a proposal; it does not return.")
@click.option(
    "--edit", type=(click.IntRange(min=1), str), metavar="ID TEXT", help="Accept a proposal with another text."
)
@click.option("--apply", type=click.IntRange(min=1), metavar="ID", help="Accept a proposal and apply it now.")
@click.option("--state", default="pending", show_default=True, help="Only proposals in this state; all: every state.")
@click.pass_context
def review(
    ctx: click.Context,
    accept: int | None,
    reject: int | None,
    edit: tuple[int, str] | None,
    apply: int | None,
    state: str,
) -> None:
    """Decide about the changes that dreaming proposes.

    On a terminal they are shown one after another. Elsewhere they are listed, and decided by the options. What a person
    accepts is approved for the brief; what an agent accepts is not.
    """
    proposals = open_store(ctx).proposals
    decided: list[Proposal] = []
    if accept is not None:
        decided.append(proposals.accept(accept, by_person=is_person()))
    if reject is not None:
        decided.append(proposals.reject(reject))
    if edit is not None:
        decided.append(proposals.edit(*edit, by_person=is_person()))
    if apply is not None:
        decided.append(proposals.apply(apply, by_person=is_person()))
    if decided:
        result(ctx, decided, lambda: "\n".join(map(_decision, decided)))
        return
    found = proposals.list(None if state == "all" else state)
    if as_json(ctx):
        print_json(found)
    elif not found:
        say("No proposal is waiting for a decision." if state == "pending" else "There are no such proposals.")
    elif state == "pending" and sys.stdin.isatty() and sys.stdout.isatty():
        _walk(open_store(ctx), found)
    else:
        say("\n\n".join(map(_shown, found)))


def _walk(eng: Engram, found: list[Proposal]) -> None:
    for number, proposal in enumerate(found, 1):
        say(f"{_shown(proposal)}\n\n{number} of {len(found)}: {_KEYS}")
        while (key := _key()) not in tuple("aersq"):
            say(_KEYS)
        if key == "q":
            return
        if key != "s":
            _decide(eng, proposal, key)


def _key() -> str:
    """The key that is pressed. The end of the input quits the review."""
    try:
        return click.getchar().lower()
    except EOFError:
        return "q"


def _decide(eng: Engram, proposal: Proposal, key: str) -> None:
    """Decide about one proposal as it was shown. An error is printed, and the review goes on."""
    from ...errors import EngramError

    text = None
    try:
        if key == "r":
            decided = eng.proposals.reject(proposal.id, expected=proposal.version)
        else:
            text = edited(proposal.content, "Use --edit ID TEXT.") if key == "e" else None
            decided = eng.proposals.apply(proposal.id, content=text, by_person=is_person(), expected=proposal.version)
        say(f"{_decision(decided)}\n")
    except EngramError as problem:
        say(f"{problem}\n" if text is None else f"{problem}\nYour text was not stored:\n\n{text}\n")
    except click.ClickException as problem:
        say(f"{problem.message}\n")


def _decision(proposal: Proposal) -> str:
    undo = f" To undo that: {_undo_command(proposal)}" if proposal.applied_as else ""
    return f"Proposal {proposal.id} is {proposal.state}.{undo}"


def _undo_command(proposal: Proposal) -> str:
    return typed("dream", "undo", str(proposal.applied_as))


def _shown(proposal: Proposal) -> str:
    values: dict[str, object] = {
        "proposal": f"{proposal.id}, {proposal.state}{', out of date' if proposal.stale else ''}",
        "undo": _undo_command(proposal) if proposal.applied_as else None,
        "what": proposal.what,
        "why": f"{proposal.why} (confidence {proposal.confidence:.2f})",
        "sources": ", ".join(f"{kind} {id}" for kind, id in proposal.sources),
    }
    return f"{fields(values)}\n{coloured_diff(proposal.diff)}"
