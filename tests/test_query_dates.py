"""Dates in questions: what is one, what only looks like one, and what it means."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from itertools import pairwise

import pytest

from engram.memory import query_dates

#: A Monday.
NOW = "2026-11-16T12:00:00.000000Z"


@pytest.mark.requirement("RECALL-11")
@pytest.mark.parametrize(
    "question, first, last",
    [
        ("What happened in May 2023?", "2023-05-01", "2023-05-31"),
        ("the trip of February, 2024", "2024-02-01", "2024-02-29"),
        ("What did she do in June?", "2026-06-01", "2026-06-30"),
        ("who came in december", "2025-12-01", "2025-12-31"),
        ("Where were we in 2022?", "2022-01-01", "2022-12-31"),
        ("the log of 2023-05-07", "2023-05-07", "2023-05-07"),
        ("the log of 2023-05", "2023-05-01", "2023-05-31"),
        ("What was said on 7 May 2023?", "2023-05-07", "2023-05-07"),
        ("What was said on May 7th, 2023?", "2023-05-07", "2023-05-07"),
        ("What was said on the 3rd of November?", "2026-11-03", "2026-11-03"),
        ("What broke yesterday?", "2026-11-15", "2026-11-15"),
        ("Who called last night?", "2026-11-15", "2026-11-15"),
        ("What did I do today?", "2026-11-16", "2026-11-16"),
        ("What did we decide last week?", "2026-11-09", "2026-11-15"),
        ("What is planned this week?", "2026-11-16", "2026-11-22"),
        ("sales of the past month", "2026-10-01", "2026-10-31"),
        ("Who left last year?", "2025-01-01", "2025-12-31"),
        ("What did he say on Friday?", "2026-11-13", "2026-11-13"),
        ("What did he say last Monday?", "2026-11-09", "2026-11-09"),
        ("the crash three days ago", "2026-11-13", "2026-11-13"),
        ("the crash 2 weeks ago", "2026-11-02", "2026-11-08"),
    ],
)
def test_a_date_is_the_days_it_names(question: str, first: str, last: str) -> None:
    (span,) = query_dates.spans(question, NOW)
    assert (span.first.date().isoformat(), span.last.date().isoformat()) == (first, last)
    assert span.phrase in question


@pytest.mark.requirement("RECALL-11")
@pytest.mark.parametrize(
    "question",
    [
        "What may I change?",
        "May we march for a second?",
        "Wait a second",
        "What did April and June say to Mark?",
        "Which port is 2023?",
        "line 12 of may_parser.py",
        "version 1.2.3 on port 8080",
        "the sun sat on the moon",
        "on 2023-13-45",
        "February 30, 2023",
        "How many days are in a week?",
        "next week",
    ],
)
def test_what_only_looks_like_a_date_is_none(question: str) -> None:
    assert query_dates.spans(question, NOW) == ()


@pytest.mark.requirement("RECALL-6", "RECALL-11")
@pytest.mark.parametrize(
    "question",
    [
        "in " * 40_000,
        "1 " * 50_000,
        "May " * 30_000,
        "2023-05-07 " * 10_000,
        "9" * 100_000,
        "\u4e8c" * 100_000,
        "\U0001f600",
    ],
)
def test_any_text_may_be_read_for_dates_and_only_a_few_of_them_count(question: str) -> None:
    assert len(query_dates.spans(question, NOW)) <= 3


@pytest.mark.requirement("RECALL-11")
@pytest.mark.parametrize("now", ["1000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"])
def test_no_time_is_too_early_or_too_late_to_ask(now: str) -> None:
    for question in ("999 years ago", "last year", "this month", "this week", "yesterday"):
        query_dates.spans(question, now)


@pytest.mark.requirement("RECALL-11")
def test_how_far_a_day_is_from_the_time_named() -> None:
    (span,) = query_dates.spans("in May 2023", NOW)
    days = [datetime(2023, month, day) for month, day in ((4, 1), (4, 30), (5, 1), (5, 31), (6, 1), (7, 1))]
    assert [span.days_from(day) for day in days] == [30, 1, 0, 0, 1, 31]
    assert all(query_dates.day(f"{a:%Y-%m-%d}T10:00:00.000000Z") < b for a, b in pairwise(days))


@pytest.mark.requirement("RECALL-11")
@pytest.mark.parametrize(
    "question, imported", [("What may I do for a second?", False), ("What broke yesterday?", True)]
)
def test_the_parser_is_imported_only_for_a_question_with_a_date(question: str, imported: bool) -> None:
    code = f"from engram.memory import query_dates; query_dates.spans({question!r}, {NOW!r})"
    code += "; import sys; print('dateparser' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(imported)
