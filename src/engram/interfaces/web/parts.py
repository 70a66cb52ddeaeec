"""The pieces that pages are made of. Every text that is given to them is escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ...clock import age_in_words, between
from ...safe_text import one_line, visible
from ..http.html import Html, tag, together
from .icons import icon

if TYPE_CHECKING:
    from ...records import Session
    from .request import PageRequest

Tone = Literal["plain", "good", "warn", "bad", "accent"]
#: How the kinds of agents are coloured. Others get a colour by their name.
_HUES = {"claude-code": 1, "codex": 4, "gemini": 2, "cursor": 6, "companion": 5, "mcp": 3, "dream": 5, "import": 0}
_HUE_COUNT = 8
#: A text of a list, in quotation marks or not.
_LISTED = re.compile(r'"([^"]*)"|([^,]+)')
#: Seconds up to which the age of a thing says more than its day.
_AGES = 7 * 86_400


def card(*content: Html | None, title: str | None = None, beside: Html | None = None, **attributes: str | None) -> Html:
    """A framed part of a page. `attributes` may have `id`, `class_` and `data_live`."""
    kind = " ".join(filter(None, ("card", attributes.pop("class_", None))))
    head = tag("header", tag("h2", title), beside, class_="card-head") if title else None
    return tag("section", head, *content, class_=kind, **attributes)


def live(*content: Html | None, id: str, on: str, class_: str | None = None) -> Html:
    """A part that is loaded again when something of these kinds changes: `on="session lease"`; see http.feed.WHATS."""
    return tag("div", *content, id=id, data_live=on, class_=class_)


def empty(text: str, *commands: str) -> Html:
    """What stands in the place of nothing: why it is empty, and what would fill it."""
    shown = [tag("pre", tag("code", each)) for each in commands]
    return tag("div", tag("p", text), *shown, class_="empty")


def when(stamp: str | None, now: str) -> Html:
    """A time as its age, or as its day if that is a week ago.

    The browser keeps it true (`static/times.js`) and shows the local time when one points at it.
    """
    if not stamp:
        return Html("")
    shown = age_in_words(stamp, now) if between(stamp, now) < _AGES else stamp[:10]
    return _time(stamp, shown)


def day(stamp: str) -> Html:
    return tag("time", stamp[:10], datetime=stamp, class_="date")


def clock(stamp: str) -> Html:
    """The time of a day, where the day stands above."""
    return _time(stamp, stamp[11:16], class_="clock")


def day_and_clock(stamp: str) -> Html:
    return _time(stamp, f"{stamp[:10]} {stamp[11:16]}", class_="clock")


def _time(stamp: str, shown: str, *, class_: str | None = None) -> Html:
    return tag("time", shown, datetime=stamp, title=f"{stamp[:10]} {stamp[11:16]} UTC", class_=class_)


def shown_list(texts: Iterable[str]) -> str:
    """Texts as a person types them into one field: separated by commas, and one with a comma in quotation marks."""
    return ", ".join(f'"{each}"' if "," in each else each for each in texts)


def typed_list(text: str) -> list[str]:
    """The texts of such a field. `textsIn` in static/forms.js reads it in the same way."""
    found = (quoted or bare for quoted, bare in _LISTED.findall(text))
    return [each.strip() for each in found if each.strip()]


def badge(text: str, tone: Tone = "plain", *, title: str | None = None) -> Html:
    return tag("span", visible(text), class_=f"badge {tone}", title=title)


def agent(type: str) -> Html:
    """The kind of an agent, always in the same colour."""
    return tag("span", one_line(type, 40), class_=f"agent hue-{hue(type)}")


def at_work(session: Session) -> Html:
    """Whether a session that has not ended is still heard of."""
    if session.stale:
        return badge("⚠ stale", "warn", title="No heartbeat for a while")
    return badge("● at work", "good")


def hue(name: str) -> int:
    """The number of a colour for a name."""
    return _HUES.get(name, sum(name.encode()) % _HUE_COUNT)


def project(request: PageRequest, name: str | None) -> Html:
    if not name:
        return Html("")
    return tag("a", one_line(name, 60), href=request.link("search", project=name), class_="project")


def session_link(request: PageRequest, id: str, text: str | None = None) -> Html:
    """A link to a session. Without a text, the end of its id, which is enough to tell sessions apart."""
    return tag(
        "a", text or visible(id[-8:]), href=request.link("sessions", id), class_=None if text else "id", title=id
    )


def turn_address(request: PageRequest, session: str, turn: int) -> str:
    """The page of a session that shows this turn."""
    return f"{request.link('sessions', session, around=turn)}#turn-{turn}"


def memory_link(request: PageRequest, id: int, text: str | None = None) -> Html:
    return tag("a", text or f"memory {id}", href=request.link("memories", id), class_=None if text else "id")


def short_id(id: str) -> str:
    return visible(id[-8:])


def row(*content: str | None, class_: str | None = None) -> Html:
    """Things beside each other, which wrap when there is no room."""
    return tag("div", *content, class_=" ".join(filter(None, ("row", class_))))


def folded(
    summary: str, *content: Html | None, open: bool = False, class_: str | None = None, id: str | None = None
) -> Html:
    """What is shown only when the person unfolds it. With an `id` it stays unfolded when the page is loaded again."""
    return tag("details", tag("summary", summary), *content, open=open, class_=class_, id=id)


def tabs(current: str, entries: Mapping[str, tuple[str, str]], label: str) -> Html:
    """A choice between views of one page: by name, the text and the address."""
    links = [
        tag("a", text, href=address, aria_current="true" if name == current else None)
        for name, (text, address) in entries.items()
    ]
    return tag("nav", *links, class_="tabs", aria_label=label)


def table(heads: Sequence[str], rows: Iterable[Sequence[str | None]], *, label: str, class_: str | None = None) -> Html:
    """A table. On a phone each row becomes a card, and each cell shows its heading."""
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in heads)))
    body = [
        tag("tr", *(tag("td", cell, data_head=name) for name, cell in zip(heads, cells, strict=True))) for cells in rows
    ]
    return tag("table", tag("caption", label, class_="unseen"), head, tag("tbody", *body), class_=class_)


def meter(value: float, most: float, *, label: str, marked: bool = True) -> Html:
    """A bar that is full at `most`. Near that and beyond it, it is marked, unless `marked` is off."""
    share = value / most if most > 0 else 0.0
    tone = "good" if not marked else "bad" if share > 1 else "warn" if share > 0.9 else "good"
    bar = tag(
        "svg",
        tag("rect", class_="back", width="100", height="6"),
        tag("rect", class_=f"fill {tone}", width=f"{min(max(share, 0.0), 1.0) * 100:.1f}", height="6"),
        class_="meter",
        viewBox="0 0 100 6",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    return bar


def pager(newer: str | None, older: str | None, *, names: tuple[str, str] = ("Newer", "Older")) -> Html | None:
    """Links to the pages before and after this one; None if there is only this one."""
    if newer is None and older is None:
        return None
    links = [
        tag("a", text, href=address, class_="button second", rel=rel) if address else None
        for text, address, rel in ((names[0], newer, "prev"), (names[1], older, "next"))
    ]
    return tag("nav", *links, class_="pager", aria_label="Pages of this list")


def hidden(values: Mapping[str, object]) -> Html:
    """Values that a form sends as they are, whatever their type."""
    return tag("input", type="hidden", data_values=json.dumps(values, ensure_ascii=True))


def form(
    call: str,
    *content: Html | None,
    values: Mapping[str, object] | None = None,
    confirm: str | None = None,
    preview: bool = False,
    then: str | None = None,
    done: str | None = None,
    also: tuple[str, Mapping[str, object]] | None = None,
    class_: str | None = None,
    label: str | None = None,
    **attributes: str | bool | None,
) -> Html:
    """A form that calls an operation of the HTTP API, such as `memory.update`, or a call of the library, such as
    `library:memories.approve`; `static/forms.js` sends it.

    Its fields are the arguments. A field's `data-type` says what it is if it is no text: whole, number, flag, texts.
    `values` are sent too, as they are. `confirm` is asked first. With `preview` the call is first made with `dry_run`,
    and the person sees what would go. `then` is the address of the page that follows; by default this page is loaded
    again. `done` is said afterwards. `also` is another call, which follows if the first succeeds.

    A form with `data_conflict`, the name or id of a stored text, edits that text. It sends only the fields that the
    person has changed. If somebody else has changed the text meanwhile, the person sees both texts.
    """
    return tag(
        "form",
        hidden(values) if values else None,
        *content,
        class_=class_,
        aria_label=label,
        # A browser that goes back would put what was typed into the form of a later version, or of another text.
        autocomplete="off",
        data_call=call,
        data_confirm=confirm,
        data_preview=preview,
        data_then=then,
        data_done=done,
        data_also=json.dumps(also) if also else None,
        **attributes,
    )


def button(
    text: str, *, picture: str | None = None, class_: str | None = None, **attributes: str | bool | None
) -> Html:
    """A button that sends its form."""
    return tag(
        "button", icon(picture) if picture else None, tag("span", text), type="submit", class_=class_, **attributes
    )


def opener(text: str, shows: str, *, picture: str | None = "edit", **attributes: str | bool | None) -> Html:
    """A button that shows and hides the element with this id, such as the field to edit a text in."""
    return tag(
        "button",
        icon(picture) if picture else None,
        tag("span", text),
        type="button",
        class_="small",
        data_shows=shows,
        aria_expanded="false",
        aria_controls=shows,
        **attributes,
    )


def action(
    call: str,
    text: str,
    values: Mapping[str, object],
    *,
    picture: str | None = None,
    kind: str = "small",
    **more: str | bool | None,
) -> Html:
    """A form with nothing but a button. `more` are arguments of `form`."""
    key = more.pop("data_key", None)
    return form(call, button(text, picture=picture, class_=kind, data_key=key), values=values, class_="inline", **more)  # type: ignore[arg-type]


def forget(
    request: PageRequest,
    values: Mapping[str, object],
    *,
    then: str | None = None,
    text: str = "Forget",
    turns: int | None = None,
) -> Html:
    """The button that forgets something, after a preview of what goes with it. Empty if the person may not.

    `turns` is how many turns that has, for the preview, which has the first of them only.
    """
    if not request.may("admin"):
        return Html("")
    return action(
        "forget",
        text,
        values,
        picture="forget",
        kind="small danger",
        preview=True,
        then=then,
        done="Forgotten.",
        data_turns=None if turns is None else str(turns),
    )


def field(
    label: str,
    name: str,
    value: str = "",
    *,
    long: bool = False,
    hint: str | None = None,
    **attributes: str | bool | None,
) -> Html:
    """A labelled text field."""
    id = f"f-{name}-{attributes.pop('key', '')}"
    entry = (
        # A browser drops a line end directly after the tag, so the text's own would be lost.
        tag("textarea", "\n", value, id=id, name=name, **attributes)
        if long
        else tag("input", id=id, name=name, value=value, **{"type": "text", **attributes})
    )
    note = tag("small", hint, class_="quiet") if hint else None
    return tag("p", tag("label", label, for_=id), entry, note, class_="field")


def choice(
    label: str, name: str, options: Mapping[str, str], current: str = "", **attributes: str | bool | None
) -> Html:
    """A labelled list to choose from: by value, the text."""
    id = f"f-{name}-{attributes.pop('key', '')}"
    made = [tag("option", text, value=value, selected=value == current) for value, text in options.items()]
    return tag("p", tag("label", label, for_=id), tag("select", *made, id=id, name=name, **attributes), class_="field")


def definition(pairs: Iterable[tuple[str, str | None]]) -> Html:
    """Names and values; a pair without a value is left out."""
    shown = [together(tag("dt", name), tag("dd", value)) for name, value in pairs if value]
    return tag("dl", *shown)


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 session`, `1,204 sessions`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: float) -> str:
    """Bytes for people: `4.2 MB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1_000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1_000
    raise AssertionError
