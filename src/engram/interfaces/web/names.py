"""How pages name things in one line: texts without Markdown's marks, and sessions by what they were about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ... import gist_text
from ...emphasis import without_emphasis
from ...harness_commands import without_plan_lead
from ...outcomes import cut
from ...safe_text import one_line, visible
from ..http.html import Html, tag, together
from .parts import session_link

if TYPE_CHECKING:
    from ...records import Gist, Session
    from .request import PageRequest

#: Characters of a text that are looked at. Nothing that is shown in one line is longer.
_READ = 4_000
#: A longer word that is a path is shown by its end.
_LONG_PATH = 40
#: What is shown of pasted output, and what stands before it.
_PASTED, PASTED = 70, "Pasted output:"
#: Signs with which lines of programs begin, and the share of letters above which a line is a sentence nevertheless.
_OUTPUT, _LETTERS = "{}[]<>|=$%✖✗✘✓✔│┌└├", 0.85
_FENCE = re.compile(r"(?m)^ *(?:```|~~~)\w*[ \t]*$|```")
_RULE = re.compile(r"(?m)^…? *+(?:-{3,}+|={3,}+|\*{3,}+|[|: -]{5,}+) *+$")
_HEADING = re.compile(r"(?m)^…?[ \t]*+#{1,6}[ \t]++(.*)$")
_TABLE = re.compile(r"(?m)^[ \t]*\|(.+)\|(?:[ \t]*|…|\.\.\.)$")
_QUOTE = re.compile(r"(?m)^[ \t]*>[ \t]?")
_ITEM = re.compile(r"(?m)^…?[ \t]*[-*+][ \t]+(?=\S)")
_BULLET = "• "
#: A line of a month that dreaming tells: `2026-11-15, shop: …`.
_DATED = re.compile(r"(?m)^(?=20\d\d-\d\d-\d\d)")
#: A heading directly below an item of a list, which Markdown would add to the item: `Still open:`.
_BELOW_ITEM = re.compile(r"(?m)^(- .*)\n(?=\w[^\n]{0,80}:[ \t]*$)")
_LINK = re.compile(r"!?\[([^\]\n]{1,200})\]\((?:https?://|mailto:|/|#)[^)\s]{0,500}\)")
#: Single quotes stay: `it's`. Underscores stay: `__init__`.
_CODE = re.compile(r"`([^`\n]{1,400})`")
#: What stands in the place of a text that is empty: only forgetting leaves a memory without one.
FORGOTTEN = "The text was forgotten"
#: Who writes what a pass of dreaming writes.
DREAMING = "dream"
#: A long cut text ends with one of these.
_ENDS = " .…\"”“'"


def plain(text: str, longest: int) -> str:
    """A text in one line, without Markdown's marks. Items of a list are kept apart."""
    told = _HEADING.sub(_titled, text[:_READ])
    line = one_line(unmarked(told), _READ).replace(f": {_BULLET}", ": ").removeprefix(_BULLET)
    return cut(line.replace(f" {_BULLET}", " · "), longest)


def unmarked(text: str) -> str:
    """The lines of a text without Markdown's marks. What is in code stays."""
    text = _QUOTE.sub("", _HEADING.sub(r"\1", _RULE.sub("", _FENCE.sub("", text))))
    text = _TABLE.sub(_cells, _ITEM.sub(_BULLET, text))
    return _CODE.sub(r"\1", without_emphasis(_LINK.sub(r"\1", text)))


def _cells(table_row: re.Match[str]) -> str:
    return " · ".join(filter(None, (cell.strip() for cell in table_row[1].split("|"))))


def _titled(heading: re.Match[str]) -> str:
    """A heading as the beginning of a sentence, if anything follows."""
    text = heading[1].rstrip("# \t")
    is_last = not heading.string[heading.end() :].strip()
    return text if is_last or not text or text[-1] in ".:;,!?…" else f"{text}:"


def dated_list(text: str) -> str:
    """A month as dreaming tells it, with its days as a list, and what is still open as another one."""
    return _BELOW_ITEM.sub(r"\1\n\n", _DATED.sub("- ", text))


def task(text: str, longest: int = 160) -> str:
    """What a session was asked, as a title. Long paths are shown by their end, pasted output by its first words."""
    asked = _after_json(without_plan_lead(text[:_READ]))
    line = " ".join(_short(word) for word in one_line(unmarked(asked), _READ).replace(_BULLET, "").split(" "))
    if not _is_output(line):
        return cut(line, longest)
    return f"{PASTED} {cut(re.split(' [=-]{3} ', line)[0], min(_PASTED, longest))}"


def title(session: Session, gist: Gist | str | None = None, longest: int = 160) -> str:
    """The name of a session: the title of its gist, or what it was asked. Empty if neither says anything."""
    told = gist_text.parse(gist if isinstance(gist, str) else gist.text).title if gist else ""
    # An agent at work says itself what it does. A gist says more than a command: `/review 12: Rate limits`.
    first = [session.summary, told] if session.status == "active" else [told, session.summary]
    if told.startswith(session.summary):
        first = [told]
    found = [task(each, longest) for each in (*first, session.name or "") if each.strip()]
    return next((each for each in found if not each.startswith(PASTED)), found[0] if found else "")


def titles(request: PageRequest, sessions: Iterable[Session], longest: int = 160) -> dict[str, str]:
    """The names of some sessions, by id."""
    known = {each.id: each for each in sessions}
    gists = request.eng.gists.of(list(known)) if known else {}
    return {id: title(each, gists.get(id), longest) for id, each in known.items()}


def titles_of(request: PageRequest, ids: Iterable[str | None], longest: int = 160) -> dict[str, str]:
    """The names of the sessions with these ids. One that is not there, or has no name, is left out."""
    # An actor may also be a person or a pass.
    wanted = list(dict.fromkeys(filter(None, ids)))
    found = request.eng.sessions.some(wanted) if wanted else {}
    known = [found[id] for id in wanted if id in found]
    return {id: name for id, name in titles(request, known, longest).items() if name}


def named(request: PageRequest, id: str, names: dict[str, str], longest: int = 60) -> Html:
    """A link to a session by its name; by the end of its id if it has none."""
    return session_link(request, id, cut(names[id], longest) if names.get(id) else None)


def forgotten(request: PageRequest, id: int) -> Html:
    """What stands in the place of the text of this memory if it was forgotten, with a link to the receipt."""
    versions = request.eng.memories.history(id)
    number = versions[0].receipt if versions else None
    if number is None:
        return together(FORGOTTEN, ".")
    receipt = tag("a", f"receipt {number}", href=f"{request.link('system')}#receipts")
    return together(f"{FORGOTTEN} (", receipt, ").")


def writer(request: PageRequest, author: str | None, actor: str | None) -> str:
    """Who wrote a version, for the person who reads the page: `you, in another window`, `the session “Fix the router”`.

    `author` is the name of a token. `actor` is a session or a part of Engram; a person has none.
    """
    if actor == DREAMING:
        return "dreaming"
    if actor:
        session = titles_of(request, [actor], 60).get(actor)
        # A program may name itself.
        return f"the session “{session}”" if session else _agent(request, actor)
    if (author or "") == request.grant.name:
        return "you, in another window"
    return one_line(author, 60) if author else "a person at this machine"


def _agent(request: PageRequest, actor: str) -> str:
    return "a session without a task" if request.eng.sessions.some([actor]) else one_line(actor, 60)


def says_the_same(one: str, other: str) -> bool:
    """Whether one text begins like the other, or has it in it, apart from marks, quotation marks and their ends."""
    first, second = sorted((_bare(one), _bare(other)), key=len)
    return bool(first) and first in second


def _bare(text: str) -> str:
    return plain(text, _READ).strip(_ENDS).casefold()


def _short(word: str) -> str:
    if len(word) <= _LONG_PATH or word.count("/") < 2 or "://" in word:
        return word
    return f"…/{word.rstrip('/').rpartition('/')[2]}"


def _after_json(text: str) -> str:
    """What a person wrote below pasted JSON; the whole text if there is none."""
    if not text.startswith(("{", "[")):
        return text
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return text
    return text[end:] if len(text[end:].split()) > 1 else text


def _is_output(line: str) -> bool:
    if len(line) < 2 or line[0] not in _OUTPUT:
        return False
    letters = sum(each.isalpha() or each == " " for each in line[:120])
    return letters < _LETTERS * len(line[:120])


def lines(text: str) -> str:
    """Several lines without Markdown's marks and without what could change the text around them."""
    return "\n".join(filter(None, (visible(each.rstrip()) for each in unmarked(text).split("\n"))))


def memory_line(kind: str, content: str, longest: int) -> str:
    """A memory in one line. A gist by its title."""
    if not content:
        return "(the text was forgotten)"
    told = gist_text.parse(content) if kind == "gist" else None
    return task(told.title, longest) if told and told.title else plain(content, longest)
