"""Charts that the server draws."""

from __future__ import annotations

import re

import pytest

from engram.interfaces.web.charts import MOST_BARS, bars

pytestmark = pytest.mark.requirement("PAGE-65")


def heights(html: str, hue: int) -> list[float]:
    return [float(each) for each in re.findall(rf'height="([\d.]+)" class="hue-{hue}"', html)]


def test_a_bar_is_as_high_as_its_value_and_the_series_stand_on_each_other() -> None:
    shown = bars(["11-01", "11-02"], {"read": [100, 50], "written": [0, 50]}, "Tokens", hues={"read": 1, "written": 2})
    first, second = heights(shown, 1)
    (other,) = heights(shown, 2)
    assert first == 2 * second == 2 * other
    tops = [float(each) for each in re.findall(r'y="([\d.]+)" height="[\d.]+" class="hue', shown)]
    # The second bar is as high as the first, although it is made of two.
    assert min(tops) == tops[0] == tops[2]


def test_the_axis_the_legend_and_the_table_say_the_numbers() -> None:
    shown = bars(["11-01", "11-02"], {"read": [1_200, 0], "written": [300, 0]}, "Tokens by day", unit="tokens")
    assert "1,500 tokens in all" in shown
    assert "0</text>" in shown
    assert "1.5k</text>" in shown
    assert "11-01: read 1,200, written 300" in shown
    table = shown[shown.index("<table") :]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", table) == ["11-01", "1,200", "300", "1,500"]
    assert 'role="img"' in shown
    assert "style=" not in shown


def test_a_chart_of_nothing_and_of_one_series_works() -> None:
    assert "0 in all" in bars([], {}, "Nothing")
    assert "0 in all" in bars(["a"], {"x": [0]}, "Nothing")
    alone = bars(["a"], {"x": [3]}, "One")
    assert 'class="legend"' not in alone


def test_names_are_text_and_the_number_of_bars_is_bounded() -> None:
    shown = bars(["<b>"], {"<script>": [1], "y": [2]}, "<i>")
    assert not re.search(r"<(b|script|i)>", shown)
    with pytest.raises(ValueError, match="bars"):
        bars(["x"] * (MOST_BARS + 1), {}, "Many")


def test_a_year_is_said_by_the_first_label_and_where_it_changes() -> None:
    def labels(*days: str) -> list[str]:
        return re.findall(r'class="label">([^<]*)<', bars(days, {"x": [1] * len(days)}, "Turns"))

    assert labels("2026-11-01", "2026-11-02") == ["11-01", "11-02"]
    assert labels("2025-12-30", "2025-12-31", "2026-01-01") == ["2025-12-30", "12-31", "2026-01-01"]
    assert len(labels(*(f"2026-01-{day:02}" for day in range(1, 32)))) <= 4


def test_weeks_are_labelled_by_their_month() -> None:
    weeks = ["2025-12-29", "2026-01-05", "2026-01-12"]
    shown = bars(weeks, {"x": [1, 1, 1]}, "Turns", months=True)
    assert re.findall(r'class="label">([^<]*)<', shown) == ["Dec 2025", "Jan 2026", "Jan 2026"]
