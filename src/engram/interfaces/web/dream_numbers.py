"""What passes cost and made, by day, as charts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ...clock import later
from ...errors import InvalidInput
from ..http.html import Html, tag
from .charts import bars
from .parts import card, empty, live, plural, tabs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...records import DreamReport
    from .request import PageRequest

_SPANS = (7, 30, 90)
#: Passes that are counted. A loop makes at most some hundred in these days.
_MOST_PASSES = 500
_DAY = 86_400.0

#: The colours of stages and of what passes make, so that they are the same in every chart.
_HUES = {
    **{
        "sessions": 2,
        "sessions, automatic": 6,
        "consolidate": 4,
        "eras": 1,
        "narrative": 7,
        "reflect": 5,
        "profile": 3,
    },
    **{"gists": 2, "portrait": 7, "statements": 4, "merged": 3, "archived": 0, "proposals": 5, "tokens": 4},
}

Series = dict[str, list[float]]


def view(request: PageRequest) -> Html:
    span = request.whole("days", 30, least=1, most=90)
    if span not in _SPANS:
        raise InvalidInput(f"days must be {', '.join(map(str, _SPANS[:-1]))} or {_SPANS[-1]}.")
    days = [later(request.now, -_DAY * back)[:10] for back in range(span - 1, -1, -1)]
    spent = request.eng.usage(span)
    tokens = _by_day(days, ((each.day, _stage(each.stage), each.input_tokens + each.output_tokens) for each in spent))
    calls = _by_day(days, ((each.day, _stage(each.stage), each.calls) for each in spent))
    passes = [each for each in request.eng.dreams.list(_MOST_PASSES) if each.started_at[:10] >= days[0]]
    counted = [each for each in passes if not each.undone_by]
    made = _by_day(days, (row for each in counted for row in _made(each)))
    saved = _by_day(days, ((each.started_at[:10], "tokens", each.tokens_saved or 0) for each in counted))
    names = _shown(days)
    entries = {str(each): (f"{each} days", request.link("dreams", view="numbers", days=each)) for each in _SPANS}
    missing = len(passes) == _MOST_PASSES
    return live(
        tag("div", tabs(str(span), entries, "Time span")),
        tag(
            "div",
            card(_chart(names, tokens, "Tokens by stage", "tokens", *_NO_MODEL)),
            # Without calls both would say the same.
            card(_chart(names, calls, "Model calls by stage", "calls", *_NO_MODEL)) if _has_values(calls) else None,
            card(_chart(names, made, "What passes made", "things", "No pass has made anything in these days.")),
            card(_chart(names, saved, "Tokens saved by consolidation", "tokens", _NOTHING_SAVED)),
            class_="charts",
        ),
        tag("p", f"Only the latest {plural(_MOST_PASSES, 'pass', 'passes')} are counted.", class_="quiet")
        if missing
        else None,
        id="numbers",
        on="dream",
        class_="stack",
    )


_NO_MODEL = (
    "No model was called in these days. Without a model, passes quote what was said. This costs nothing. To let a "
    "model or a client that you already pay for think:",
    "engram dream thinker",
)
_NOTHING_SAVED = "No pass merged or archived anything in these days. What you accept is counted under Passes."


def _chart(names: list[str], series: Series, label: str, unit: str, nothing: str, *commands: str) -> Html:
    if _has_values(series):
        return bars(names, series, label, unit=unit, hues=_HUES)
    return tag("figure", tag("figcaption", tag("strong", label)), empty(nothing, *commands), class_="chart")


def _has_values(series: Series) -> bool:
    return any(any(values) for values in series.values())


def _stage(name: str) -> str:
    """`sessions, automatic` for `auto/sessions`."""
    return f"{name.removeprefix('auto/')}, automatic" if name.startswith("auto/") else name


def _made(report: DreamReport) -> Iterable[tuple[str, str, float]]:
    counts: Mapping[str, int] = {
        "gists": len(report.gists),
        "eras": len(report.eras),
        "portrait": len(report.blocks),
        "statements": report.extracted or 0,
        "merged": report.merged or 0,
        "archived": report.archived or 0,
        "proposals": report.proposals or 0,
    }
    return ((report.started_at[:10], name, count) for name, count in counts.items())


def _by_day(days: list[str], rows: Iterable[tuple[str, str, float]]) -> Series:
    """The sums of each day, by name; the largest series first."""
    at = {day: number for number, day in enumerate(days)}
    found: Series = defaultdict(lambda: [0.0] * len(days))
    for day, name, value in rows:
        if day in at:
            found[name][at[day]] += value
    return dict(sorted(found.items(), key=lambda each: -sum(each[1])))


def _shown(days: list[str]) -> list[str]:
    """`11-18`: the year would only take room."""
    return [day[5:] for day in days]
