"""The turns of a session as a conversation, with the steps between them folded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING

from ...safe_text import lines, one_line
from ..http.html import Html, tag, together
from .markdown import markdown
from .names import plain
from .parts import badge, clock, forget, plural, row, turn_address

if TYPE_CHECKING:
    from ...records import Exchange
    from .request import PageRequest

#: A longer turn is folded: in lines, and in characters, because a line may be long.
_LONG_LINES, _LONG_TEXT = 40, 2_500
#: Characters of a turn that are shown. The rest is in the library.
_LONGEST = 200_000
#: A longer text is shown as it is: Markdown of such a length takes too long for a page of many turns.
_PLAIN = 20_000
#: Characters of all turns of a page that are rendered as Markdown, and how much larger their HTML usually is at most.
_RENDERED, _GROWTH = 80_000, 2
#: The HTML of all turns of a page. What follows is shown as it is, and only its beginning.
_PAGE, _BEGINNING = 1_500_000, 1_000
_STEP = 400
#: Steps that are shown under one heading.
_MOST_STEPS = 200
_NAMES = {"user": "You", "assistant": "Agent", "system": "System"}
#: How lines begin that a program wrote.
_OUTPUT = (
    "at ",
    "File ",
    "Traceback",
    "$ ",
    ">>> ",
    "INFO",
    "DEBUG",
    "WARN",
    "ERROR",
    "+",
    "@@",
    "diff ",
    "|",
    "{",
    "}",
    "]",
    '"',
)
#: The line below the heads of a table in Markdown.
_TABLE_RULE = re.compile(r"(?m)^ {0,3}\|?(?:[ \t]*:?-{3,}+:?[ \t]*\|)++(?:[ \t]*:?-{3,}+:?)?[ \t]*$")
#: What an agent writes in Markdown and a program hardly prints.
_MARKS = ("**", "`", "](")


def conversation(request: PageRequest, entries: Sequence[Exchange], wanted: int | None) -> Html:
    room = _Room()
    # The turn that was asked for is shown first, so that there is room for it.
    said = {
        each.id: room.said(each) for each in sorted(entries, key=lambda each: each.id != wanted) if not _is_step(each)
    }
    shown: list[Html] = []
    today = ""
    for (day, is_step), some in groupby(entries, lambda each: (each.created_at[:10], _is_step(each))):
        if day != today:
            shown.append(_day(day))
            today = day
        if is_step:
            shown.append(_steps(request, list(some), wanted))
        else:
            shown += [_turn(request, each, wanted, said[each.id]) for each in some]
    return tag("ol", *shown, class_="conversation")


def _day(day: str) -> Html:
    named = date.fromisoformat(day)
    name = f"{named:%A}, {named.day} {named:%B} {named.year}"
    return tag("li", tag("h3", name, title="Days and times are UTC"), class_="of-day")


def _is_step(entry: Exchange) -> bool:
    return entry.role in ("log", "tool")


class _Room:
    """What the turns of a page may still cost."""

    def __init__(self) -> None:
        self._rendered, self._page = _RENDERED, _PAGE

    def said(self, turn: Exchange) -> Html | None:
        """The text of a turn: rendered, or as it is. None if there is no room for it."""
        text = turn.content[:_LONGEST]
        if len(text) > self._page:
            return None
        if len(text) > min(_PLAIN, self._rendered) or _is_pasted(text, turn.role):
            made = _verbatim(text)
        else:
            made = markdown(_with_json_as_code(text))
            self._rendered -= max(len(text), len(made) // _GROWTH)
        if len(made) > self._page:
            return None
        self._page -= len(made)
        return made


def _turn(request: PageRequest, turn: Exchange, wanted: int | None, said: Html | None) -> Html:
    text = turn.content[:_LONGEST]
    body, more, cut = (said, _more(turn, text, wanted), None) if said is not None else _beginning(request, turn)
    if len(turn.content) > _LONGEST:
        cut = cut or tag("p", "The rest of this turn is too long to be shown.", class_="quiet")
    name = turn.author if turn.role == "user" and turn.author else _NAMES.get(turn.role, turn.role)
    head = row(
        tag("strong", one_line(name, 60)),
        badge(turn.trust, "warn", title="Where the text comes from") if turn.trust == "import" else None,
        tag("a", clock(turn.created_at), href=turn_address(request, turn.session_id, turn.id)),
        tag("span", class_="spacer"),
        forget(request, {"exchange": turn.id}),
        class_="turn-head",
    )
    return tag(
        "li",
        head,
        tag("div", tag("div", body, class_="said"), more, cut, class_="bubble"),
        id=f"turn-{turn.id}",
        class_=f"turn {turn.role if turn.role in _NAMES else 'other'}" + (" wanted" if turn.id == wanted else ""),
        data_item=True,
    )


def _more(turn: Exchange, text: str, wanted: int | None) -> Html | None:
    """Folds a long turn."""
    count = text.count("\n") + 1
    if count <= _LONG_LINES and len(text) <= _LONG_TEXT:
        return None
    size = plural(count, "line") if count > _LONG_LINES else f"{len(text):,} characters"
    return tag(
        "details",
        tag("summary", tag("span", f"Show all ({size})", class_="unfold"), tag("span", "Show less", class_="fold")),
        id=f"all-{turn.id}",
        class_="more",
        # The turn that a search has found is read at once.
        open=turn.id == wanted,
    )


def _beginning(request: PageRequest, turn: Exchange) -> tuple[Html, None, Html]:
    """The beginning of a turn for which the page has no room, and where all of it is."""
    text = turn.content[:_BEGINNING]
    size = f"{len(turn.content):,} characters"
    link = tag("a", f"Show all ({size})", href=turn_address(request, turn.session_id, turn.id))
    return _verbatim(f"{text}…" if len(turn.content) > len(text) else text), None, tag("p", link)


def _steps(request: PageRequest, steps: list[Exchange], wanted: int | None) -> Html:
    shown = [
        tag(
            "li",
            tag("span", plain(each.content, _STEP)),
            tag("span", clock(each.created_at), class_="at"),
            forget(request, {"exchange": each.id}),
            id=f"turn-{each.id}",
            class_="wanted" if each.id == wanted else None,
        )
        for each in steps[:_MOST_STEPS]
    ]
    if len(steps) > _MOST_STEPS:
        shown.append(tag("li", f"and {len(steps) - _MOST_STEPS} more", class_="quiet"))
    is_open = any(each.id == wanted for each in steps)
    summary = together(
        tag("span", plural(len(steps), "step")),
        tag("span", one_line(", ".join(_short_names(steps)), 90), class_="quiet"),
    )
    return tag(
        "li",
        tag("details", tag("summary", summary), tag("ol", *shown), id=f"steps-{steps[0].id}", open=is_open),
        class_="steps",
    )


def _short_names(steps: Sequence[Exchange]) -> Iterator[str]:
    """The first words of the first few steps, each once."""
    yield from list(dict.fromkeys(plain(each.content, 28) for each in steps))[:4]


def _verbatim(text: str) -> Html:
    return tag("pre", lines(text), class_="verbatim")


def _with_json_as_code(text: str) -> str:
    """The text with pasted JSON as code, so that its lines stay as they are."""
    if "```" in text or not any(f"\n{each}\n" in f"\n{text}\n" for each in "{["):
        return text
    made: list[str] = []
    closing = ""
    for line in text.split("\n"):
        begins = not closing and line.rstrip() in ("{", "[")
        made += ["```", line] if begins else [line]
        if begins:
            closing = "}" if line.startswith("{") else "]"
        elif closing and line.rstrip() == closing:
            made.append("```")
            closing = ""
    return "\n".join(made)


def _is_pasted(text: str, role: str) -> bool:
    """Whether most lines are the output of a program, whose spaces and line breaks matter.

    Agents write Markdown: what an agent says is output only if nothing in it is marked.
    """
    some = [line for line in text.split("\n")[:400] if line.strip()]
    if len(some) < 6 or "```" in text or _TABLE_RULE.search(text):
        return False
    if role == "assistant" and any(mark in text for mark in _MARKS):
        return False
    output = sum(
        line.startswith(("  ", "\t")) or line.lstrip().startswith(_OUTPUT) or line[:2].isdigit() or line[:1] == "["
        for line in some
    )
    return output > 0.6 * len(some) and not any(
        line.startswith("# ") or line.lstrip().startswith("- ") for line in some
    )
