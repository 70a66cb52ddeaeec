"""Small charts, drawn on the server as SVG.

A chart has no inline style, so heights are numbers and widths are shares of what there is: the text keeps its size on
a phone. Below each chart is a table with the same numbers, for screen readers and for copying.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from math import ceil, floor, log10

from ...safe_text import visible
from ..http.html import Html, tag
from .parts import folded, table

#: Pixels: the height of the bars, and of the labels below them.
_HEIGHT, _BELOW = 150, 24
#: The space above the highest bar, so that its label is not cut.
_ABOVE = 8
_AXIS_WIDTH = 44
#: Lines across the chart, at most, and labels below it, without and with years: a phone has room for no more.
_MOST_TICKS, _MOST_LABELS, _MOST_WITH_YEARS = 4, 4, 3
#: The share of its place that a bar fills, and the number of bars from which on they fill all of it: on a phone each
#: would be narrower than 3 pixels.
_FILLED, _MANY = 0.7, 61
#: Days from which on a chart is by week. On a phone a bar for each day would be narrower than 3 pixels.
LONG_SPAN = 92
#: Days or other places beside each other.
MOST_BARS = 400
#: Colours of series, one after the other, so that neighbours differ also in small dots.
_COLOURS = (2, 1, 4, 7, 6, 5, 3, 0)

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

Write = Callable[[float], str]


def whole(number: float) -> str:
    """`12,300`."""
    return f"{number:,.0f}"


def short(number: float) -> str:
    """`12k`, `1.5M`, for an axis."""
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= least:
            return f"{number / least:.1f}".removesuffix(".0") + unit
    return f"{number:g}"


def bars(
    places: Sequence[str],
    series: Mapping[str, Sequence[float]],
    label: str,
    *,
    unit: str = "",
    write: Write = whole,
    hues: Mapping[str, int] | None = None,
    names: Mapping[str, str] | None = None,
    place: str = "Day",
    links: Sequence[str] | None = None,
    months: bool = False,
) -> Html:
    """Stacked bars: for each place below them, such as a day, one value of each series.

    `label` is the title. `unit` is what is counted, such as `tokens`. `hues` gives series fixed colours (`hue-0` to
    `hue-7`); the others get one after the other. `names` says how series are called that are not called by their key.
    `place` names what a bar stands for. `links` are addresses, one for each place; the bar leads there, and so does its
    row in the table. With `months`, the labels below the bars are the months of the days.
    """
    if len(places) > MOST_BARS:
        raise ValueError(f"A chart has at most {MOST_BARS} bars.")
    shown = {name: values for name, values in series.items() if any(values)}
    called = {key: (names or {}).get(key, key) for key in shown}
    totals = [sum(values[at] for values in shown.values()) for at in range(len(places))]
    step, top = _scale(max(totals, default=0.0))
    colours = {name: (hues or {}).get(name, _COLOURS[at % len(_COLOURS)]) for at, name in enumerate(series)}
    ticks = [step * at for at in range(round(top / step) + 1)]
    axis = tag(
        "svg",
        *(
            tag("text", short(each), x=str(_AXIS_WIDTH - 10), y=_number(_y(each, top) + 4), text_anchor="end")
            for each in ticks
        ),
        class_="axis",
        width=str(_AXIS_WIDTH),
        height=str(_ABOVE + _HEIGHT + _BELOW),
        aria_hidden="true",
    )
    lines = [
        tag("line", x1="0", x2="100%", y1=_number(_y(each, top)), y2=_number(_y(each, top)), class_="grid")
        for each in ticks
    ]
    drawn = [
        _linked(
            _bar(
                at,
                len(places),
                name if place == "Day" else f"{place} {name}",
                {key: values[at] for key, values in shown.items()},
                top,
                colours,
                called,
                write,
            ),
            links[at] if links else None,
        )
        for at, name in enumerate(places)
        if totals[at] > 0
    ]
    total = f"{write(sum(totals))} {unit}".strip()
    plot = tag(
        "svg",
        *lines,
        *drawn,
        *_labels(places, months=months),
        class_="bars",
        width="100%",
        height=str(_ABOVE + _HEIGHT + _BELOW),
        # A picture holds nothing that one can click.
        role="group" if links else "img",
        aria_label=f"{label}: {total} in all. The table below has the numbers.",
    )
    head = tag("figcaption", tag("strong", label), tag("span", f"{total} in all", class_="quiet"))
    return tag(
        "figure",
        head,
        tag("div", axis, plot, class_="plot"),
        _legend(called, colours) if len(shown) > 1 else None,
        _as_table(places, shown, called, totals, label, place, write, links),
        class_="chart",
    )


def _bar(
    at: int,
    count: int,
    name: str,
    values: Mapping[str, float],
    top: float,
    colours: Mapping[str, int],
    called: Mapping[str, str],
    write: Write,
) -> Html:
    filled = _FILLED if count < _MANY else 1.0
    width = 100 / count * filled
    left = 100 / count * (at + (1 - filled) / 2)
    pieces: list[Html] = []
    below = 0.0
    for key, value in values.items():
        if value <= 0:
            continue
        high, low = _y(below + value, top), _y(below, top)
        below += value
        pieces.append(
            tag(
                "rect",
                x=f"{left:.3f}%",
                width=f"{width:.3f}%",
                y=_number(high),
                height=_number(max(low - high, 0.5)),
                class_=f"hue-{colours[key]}",
            )
        )
    told = ", ".join(f"{called[key]} {write(value)}" for key, value in values.items() if value > 0)
    # Pointing at any part of its column tells what a bar is made of.
    column = tag("rect", x=f"{100 / count * at:.3f}%", width=f"{100 / count:.3f}%", y="0", height=str(_ABOVE + _HEIGHT))
    return tag("g", tag("title", f"{visible(name)}: {visible(told)}"), column, *pieces, class_="bar")


def _linked(bar: Html, address: str | None) -> Html:
    """A bar that leads somewhere. With the keyboard one goes there from the table: a year has too many bars."""
    return bar if address is None else tag("a", bar, href=address, tabindex="-1", aria_hidden="true")


def _labels(places: Sequence[str], *, months: bool) -> list[Html]:
    """The names of some places, evenly spread."""
    count = len(places)
    if not count:
        return []
    if months:
        # A week of last spring is found by its month.
        places = [date.fromisoformat(each).strftime("%b %Y") for each in places]
    has_years = bool(_DAY.fullmatch(places[0])) and places[0][:4] != places[-1][:4]
    step = max(1, ceil(count / (_MOST_WITH_YEARS if has_years or months else _MOST_LABELS)))
    chosen = list(range(count - 1, -1, -step))[::-1]
    made = []
    year = "" if has_years else places[0][:4]
    for at in chosen:
        middle = 100 / count * (at + 0.5)
        anchor = "start" if middle < 8 else "end" if middle > 92 else "middle"
        edge = {"start": 0.0, "end": 100.0, "middle": middle}[anchor]
        made.append(
            tag(
                "text",
                visible(_label(places[at], year)),
                x=f"{edge:.3f}%",
                y=str(_ABOVE + _HEIGHT + _BELOW - 5),
                text_anchor=anchor,
                class_="label",
            )
        )
        year = places[at][:4]
    return made


def _label(place: str, year: str) -> str:
    """The name of a place below the chart: a day without its year, if the label before it is in the same year."""
    return place[5:] if _DAY.fullmatch(place) and place[:4] == year else place


def _legend(called: Mapping[str, str], colours: Mapping[str, int]) -> Html:
    entries = [
        tag("li", tag("span", class_=f"dot hue-{colours[key]}", aria_hidden="true"), visible(name))
        for key, name in called.items()
    ]
    return tag("ul", *entries, class_="legend")


def _as_table(
    places: Sequence[str],
    shown: Mapping[str, Sequence[float]],
    called: Mapping[str, str],
    totals: Sequence[float],
    label: str,
    place: str,
    write: Write,
    links: Sequence[str] | None,
) -> Html:
    """The numbers of the chart, without the places that have none; the latest first."""
    heads = [place, *called.values(), *(["All"] if len(shown) > 1 else [])]
    rows = [
        [
            tag("a", places[at], href=links[at]) if links else places[at],
            *(write(values[at]) for values in shown.values()),
            *([write(totals[at])] if len(shown) > 1 else []),
        ]
        for at in reversed(range(len(places)))
        if totals[at] > 0
    ]
    return folded("As a table", table([visible(each) for each in heads], rows, label=label, class_="numbers"))


def _scale(highest: float) -> tuple[float, float]:
    """The distance of the lines across the chart, and the value at its top: 1, 2 or 5 times a power of ten."""
    if highest <= 0:
        return 1.0, 1.0
    rough = highest / _MOST_TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999_999)
    # What is counted is whole.
    step = max(step, 1.0)
    return step, step * ceil(highest / step - 1e-9)


def _y(value: float, top: float) -> float:
    return _ABOVE + _HEIGHT * (1 - value / top)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
