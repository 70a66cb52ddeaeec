"""Proposals of dreaming, as cards that a person decides on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...errors import EngramError
from ...safe_text import one_line
from ..http.html import Html, tag, together
from .diffs import Budget, side_by_side
from .dream_words import undo
from .markdown import source
from .parts import (
    action,
    badge,
    button,
    day,
    field,
    folded,
    form,
    memory_link,
    plural,
    project,
    row,
    turn_address,
    when,
)

if TYPE_CHECKING:
    from ...records import Exchange, Memory, Proposal
    from .parts import Tone
    from .request import PageRequest

#: Memories and turns of one proposal that are shown.
_MOST_THINGS = 8
#: Characters of a memory or a turn before it is folded.
_LONG = 700
_LONGEST_TURN = 4_000
#: Characters of a text that is too long to be shown beside the other proposals.
_BEGINNING = 240
#: What a page with one proposal may cost: more than the longest texts that one can have.
_ALONE = 8_000_000, 40_000_000
#: Lines, and characters of a line, up to which the comparison shows all of the new text.
_COMPARED_LINES, _COMPARED_LINE = 150, 4_000
#: Proposals with a text that can be edited.
_EDITABLE = ("remember", "merge")
_TONES: dict[str, Tone] = {"archive": "warn", "supersede": "warn", "remember": "good", "merge": "accent"}
_STATES: dict[str, tuple[str, Tone]] = {
    "pending": ("to decide", "accent"),
    "accepted": ("accepted; the next pass applies it", "good"),
    "edited": ("accepted with another text; the next pass applies it", "good"),
    "applied": ("applied", "good"),
    "rejected": ("rejected", "plain"),
}


class _Subject(NamedTuple):
    """What a proposal is about, as it is now."""

    memories: dict[int, Memory]
    #: Ids of memories that are not there any more.
    gone: list[int]
    turns: list[Exchange]
    #: The text of the block that it would write, if there is one.
    block: str | None


def alone() -> Budget:
    """The budget of a page with one proposal, which is shown completely."""
    return Budget(*_ALONE)


def entry(request: PageRequest, proposal: Proposal, budget: Budget) -> Html:
    """A proposal with everything that a decision needs, and the buttons.

    What the budget of the page cannot pay is decided on its own page: nobody decides about a text that is not shown.
    """
    subject = _subject(request, proposal)
    whole = _characters(proposal, subject) <= budget.characters
    name, tone = _STATES[proposal.state]
    head = row(
        badge(_kind(proposal), _TONES.get(proposal.what, "plain")),
        badge("out of date", "bad") if proposal.stale and proposal.state != "rejected" else None,
        badge(name, tone) if proposal.state != "pending" else None,
        tag("span", f"{proposal.confidence:.0%} sure", class_="quiet small", title="Confidence of the proposal"),
        tag("span", class_="spacer"),
        tag("a", f"pass {proposal.dream}", href=request.link("dreams", proposal.dream), class_="quiet small"),
        when(proposal.created_at, request.now),
    )
    return tag(
        "li",
        head,
        tag("h3", *_title(request, proposal)),
        tag("p", _why(proposal, subject), class_="why"),
        _stale(proposal, subject) if proposal.stale and proposal.state not in ("rejected", "applied") else None,
        _things(request, proposal, subject, budget if whole else None),
        _change(proposal, subject, budget) if whole else _elsewhere(request, proposal),
        _buttons(request, proposal) if whole else None,
        class_="card proposal",
        id=f"proposal-{proposal.id}",
        tabindex="-1",
        data_item=True,
    )


def _subject(request: PageRequest, proposal: Proposal) -> _Subject:
    eng = request.eng
    things = list(dict.fromkeys((*proposal.targets, *proposal.sources)))[:_MOST_THINGS]
    wanted = {kind: [id for what, id in things if what == kind] for kind in ("memory", "exchange")}
    found = eng.memories.some(wanted["memory"]) if wanted["memory"] else {}
    said = eng.exchanges.some(wanted["exchange"]) if wanted["exchange"] else {}
    memories = {id: found[id] for id in wanted["memory"] if id in found}
    turns = [said[id] for id in wanted["exchange"] if id in said]
    gone = [id for id in wanted["memory"] if id not in found] + [id for id in wanted["exchange"] if id not in said]
    block = eng.blocks.get(proposal.block) if proposal.block else None
    return _Subject(memories, gone, turns, block.content if block else None)


def _characters(proposal: Proposal, subject: _Subject) -> int:
    """What its texts and their comparison take, at most."""
    memories = sum(len(each.content) for each in subject.memories.values())
    turns = sum(min(len(each.content), _LONGEST_TURN) for each in subject.turns)
    # A text may be shown by itself, on both sides of the comparison, and in the field to edit it.
    return turns + 3 * (memories + len(proposal.content) + len(subject.block or ""))


def _elsewhere(request: PageRequest, proposal: Proposal) -> Html:
    address = request.link("dreams", proposal=proposal.id)
    return tag("p", tag("a", "Read all of it and decide", href=address))


def _is_closing(proposal: Proposal) -> bool:
    return proposal.what == "archive" and any(kind == "exchange" for kind, _ in proposal.sources)


def _kind(proposal: Proposal) -> str:
    return "closing" if _is_closing(proposal) else proposal.what


def _title(request: PageRequest, proposal: Proposal) -> tuple[str | Html, ...]:
    """What would be done, in plain words."""
    ids = [id for kind, id in proposal.targets if kind == "memory"]
    if proposal.what == "merge":
        return (f"Merge {plural(len(ids), 'memory', 'memories')} that say the same into one",)
    if proposal.what == "supersede" and proposal.keeps is not None:
        old = next((id for id in ids if id != proposal.keeps), None)
        if old is not None:
            return ("Replace ", memory_link(request, old), " by ", memory_link(request, proposal.keeps))
    if proposal.what == "archive" and ids:
        # The memory stands below with its number.
        return ("Close this memory: it is done or no longer true" if _is_closing(proposal) else "Archive this memory",)
    if proposal.what == "remember":
        return ("Remember what a tool or a document said",)
    if proposal.block is not None:
        block = tag("a", one_line(proposal.block, 60), href=request.link("blocks", proposal.block))
        if proposal.what == "overflow":
            return ("Shorten the block ", block, ": what exceeds its budget becomes a memory")
        return ("Rewrite the block ", block, ", and let the passes write it from now on")
    return (one_line(proposal.what, 60),)


def _why(proposal: Proposal, subject: _Subject) -> str:
    """The reason. What was said stands below, so that its number tells nothing more."""
    if _is_closing(proposal) and subject.turns:
        said = {"user": "You said so", "assistant": "The agent said so"}.get(subject.turns[0].role, "A turn says so")
        return f"{said} on {subject.turns[0].created_at[:10]}."
    why = proposal.why
    if proposal.what == "archive" and len(proposal.targets) == 1:
        why = why.replace(f"memory {proposal.targets[0][1]} ", "it ", 1)
    return _sentence(why)


def _sentence(text: str) -> str:
    """`memories 1, 2 say the same` as a sentence."""
    line = one_line(text, 600)
    return f"{line[:1].upper()}{line[1:]}." if line else ""


def _stale(proposal: Proposal, subject: _Subject) -> Html:
    """Why it cannot be applied."""
    why = [f"Memory {id} is not there any more." for id in subject.gone]
    for kind, id in proposal.targets:
        memory = subject.memories.get(id) if kind == "memory" else None
        if memory is None:
            continue
        if memory.status != "active":
            why.append(f"Memory {id} is {memory.status} now.")
        elif memory.updated_at > proposal.created_at:
            why.append(f"Memory {id} was changed since.")
    if proposal.block is not None:
        why.append("The block was written since." if subject.block is not None else "The block is not there any more.")
    told = " ".join(why) or "What it would change has changed since."
    return tag("p", f"It cannot be applied. {told} A later pass looks at it again.", class_="notice-line")


def _things(request: PageRequest, proposal: Proposal, subject: _Subject, budget: Budget | None) -> Html | None:
    """The memories and turns that it is about, with their texts; without a budget, with their beginnings."""
    shown = [_memory(request, proposal, each, budget) for each in subject.memories.values()]
    shown += [_turn(request, each, budget) for each in subject.turns]
    total = len(set(proposal.targets) | set(proposal.sources)) - (1 if proposal.block else 0)
    more = None
    if total > _MOST_THINGS:
        more = tag("p", f"It is based on {plural(total - _MOST_THINGS, 'more item')}.", class_="quiet small")
    if proposal.what == "rewrite":
        # A text of the portrait rests on everything, and each of its lines names its sources.
        return folded(f"Made of {plural(total, 'memory', 'memories')}", tag("ul", *shown, class_="things"), more)
    return together(tag("ul", *shown, class_="things"), more) if shown else None


def _memory(request: PageRequest, proposal: Proposal, memory: Memory, budget: Budget | None) -> Html:
    fate: Html | None = None
    if ("memory", memory.id) in proposal.targets and proposal.state in ("pending", "accepted", "edited"):
        if memory.id == proposal.keeps:
            fate = badge("stays", "good")
        elif proposal.what in ("archive", "supersede", "merge"):
            fate = badge("goes to the archive" if proposal.what == "archive" else "is replaced", "warn")
    head = row(
        memory_link(request, memory.id),
        badge(memory.kind),
        fate,
        badge("pinned", "accent") if memory.pinned else None,
        badge("approved", "good") if memory.approved else None,
        project(request, memory.project),
        tag("span", class_="spacer"),
        day(memory.said_at),
    )
    return tag("li", head, _text(memory.content, budget))


def _turn(request: PageRequest, turn: Exchange, budget: Budget | None) -> Html:
    head = row(
        badge(turn.role),
        badge(f"trust: {turn.trust}", "warn") if turn.trust in ("tool", "import") else None,
        tag("a", f"turn {turn.id}", href=turn_address(request, turn.session_id, turn.id), class_="id"),
        tag("span", class_="spacer"),
        when(turn.created_at, request.now),
    )
    return tag("li", head, _text(turn.content[:_LONGEST_TURN], budget))


def _text(text: str, budget: Budget | None) -> Html:
    """A whole text, a long one folded. Without a budget, its beginning."""
    if budget is None:
        return source(text if len(text) <= _BEGINNING else f"{text[:_BEGINNING]}…")
    budget.show(len(text))
    if len(text) <= _LONG:
        return source(text)
    return folded(one_line(text, 240), source(text), class_="long")


def _change(proposal: Proposal, subject: _Subject, budget: Budget) -> Html | None:
    """The present text beside the new one."""
    if proposal.state in ("applied", "rejected") and proposal.what != "remember":
        return None
    if proposal.what == "archive":
        return None
    budget.show(2 * len(proposal.content))
    if proposal.what == "remember":
        return tag("div", tag("p", "The new memory", class_="quiet small"), source(proposal.content), class_="new-text")
    targets = [
        subject.memories[id].content for kind, id in proposal.targets if kind == "memory" and id in subject.memories
    ]
    old, new = "\n".join(targets), proposal.content
    if proposal.what == "supersede":
        lost = (id for _, id in proposal.targets if id != proposal.keeps)
        old = "\n".join(subject.memories[id].content for id in lost if id in subject.memories)
        kept = subject.memories.get(proposal.keeps or 0)
        new = kept.content if kept else ""
    elif proposal.block is not None:
        old = subject.block or ""
        new = old.removesuffix(proposal.content) if proposal.what == "overflow" else proposal.content
    compared = side_by_side(old, new, ("As it is", "As it would be"), f"What proposal {proposal.id} changes", budget)
    return together(compared, _whole(new))


def _whole(text: str) -> Html | None:
    """The new text, if it is too long for the comparison to show all of it."""
    lines = text.split("\n")
    if len(lines) <= _COMPARED_LINES and max(map(len, lines)) <= _COMPARED_LINE:
        return None
    return folded("The whole text as it would be", source(text), class_="long")


def _buttons(request: PageRequest, proposal: Proposal) -> Html | None:
    if not request.may("write"):
        return None
    if proposal.state == "applied":
        return _applied(request, proposal)
    accept = _decision(request, proposal, "apply", "Apply now" if proposal.state != "pending" else "Accept", "a")
    reject = _decision(request, proposal, "reject", "Dismiss" if proposal.stale else "Reject", "r")
    if proposal.state == "rejected":
        again = None if proposal.stale else _decision(request, proposal, "accept", "Accept after all", "a")
        return row(again, class_="decide") if again else None
    opener, editor = _editor(request, proposal) if proposal.what in _EDITABLE and not proposal.stale else (None, None)
    return together(row(None if proposal.stale else accept, opener, reject, class_="decide"), editor)


def _decision(request: PageRequest, proposal: Proposal, decision: str, text: str, key: str) -> Html:
    call, values = _call(request, proposal, decision)
    done = {"apply": "Accepted and applied.", "accept": "Accepted. The next pass applies it.", "reject": "Rejected."}
    return action(
        call,
        text,
        values,
        picture="reject" if decision == "reject" else "approve",
        kind="small" if decision == "reject" else "small primary",
        done=done[decision],
        data_key=key,
    )


def _call(request: PageRequest, proposal: Proposal, decision: str) -> tuple[str, dict[str, object]]:
    """The call for a decision on the text that is shown.

    One that may approve says that a person decides; others decide as an agent would.
    """
    shown = {"id": proposal.id, "expected": proposal.version}
    if request.may("admin"):
        by_person = {} if decision == "reject" else {"by_person": True}
        return f"library:proposals.{decision}", {**shown, **by_person}
    return "dream.review", {**shown, "decide": decision}


def _editor(request: PageRequest, proposal: Proposal) -> tuple[Html, Html]:
    """The button that opens the text, and the text to edit."""
    name = f"edit-{proposal.id}"
    opener = tag(
        "button",
        "Edit",
        type="button",
        class_="small",
        data_shows=name,
        aria_expanded="false",
        aria_controls=name,
        data_key="e",
    )
    # One step, so that no other text comes between the edit and its approval.
    call, values = _call(request, proposal, "apply")
    label = "content" if call.startswith("library:") else "text"
    rows = str(min(16, 3 + proposal.content.count("\n") + len(proposal.content) // 90))
    editor = form(
        call,
        field("The text to store", label, proposal.content, long=True, rows=rows, required=True, key=name),
        row(
            button("Store and apply"),
            tag("button", "Cancel", type="button", class_="second", data_shows=name),
        ),
        values=values,
        class_="stack",
        id=name,
        hidden=True,
        done="Stored and applied.",
    )
    return opener, editor


def _applied(request: PageRequest, proposal: Proposal) -> Html | None:
    """What became of it, and the button that undoes it if it was applied on its own."""
    result = None
    if proposal.result is not None:
        result = tag("span", "It left ", memory_link(request, proposal.result), ".", class_="small")
    if proposal.applied_as is None:
        return result
    try:
        report = request.eng.dreams.show(proposal.applied_as)
    except EngramError:
        return result
    is_alone = getattr(report, "proposal", None) is not None
    said = f"Applied as number {proposal.applied_as}" if is_alone else f"Applied in pass {proposal.applied_as}"
    link = tag("a", said, href=request.link("dreams", proposal.applied_as), class_="small")
    if not is_alone:
        return row(result, link)
    question = (
        f"Undo proposal {proposal.id}? Everything is then as before, and the proposal waits for a decision again."
    )
    return row(result, link, undo(request, proposal.applied_as, question))
