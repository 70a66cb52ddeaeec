"""What models cost, and the caps on it: to the call, in every process, from day to day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from engram import Engram, Spent
from tests._models import Model, serve
from tests._talks import talk
from tests.conftest import ShiftedClock

Open = Callable[..., Engram]


@pytest.fixture
def model() -> Iterator[Model]:
    pytest.importorskip("openai")
    with serve() as model:
        yield model


@pytest.mark.requirement("USAGE-1")
def test_what_was_spent_is_shown_by_day_and_stage(open_store: Open, model: Model, clock: ShiftedClock) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url, companion=True)
    talk(eng)
    (report,) = eng.dream(force=True)
    day = report.started_at[:10]
    spent = {each.stage: each for each in eng.usage()}
    assert spent["sessions"] == Spent(day, "sessions", 1, 100, 10)
    assert {stage: each.calls for stage, each in spent.items()} == {
        "sessions": 1,
        "eras": 1,
        "narrative": 1,
        "reflect": 1,
    }
    assert (report.calls, report.input_tokens, report.output_tokens) == (4, 400, 40)
    clock.advance(2 * 86_400)
    assert eng.usage(days=1) == []


@pytest.mark.requirement("USAGE-2")
@pytest.mark.parametrize("cap", [0, 1, 3, 5])
def test_the_cap_of_a_pass_holds_to_the_call_and_the_pass_ends_cleanly(
    open_store: Open, model: Model, cap: int
) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url, dream_pass_calls=cap)
    for number in range(5):
        talk(eng, f"task {number}")
    (report,) = eng.dream(force=True)
    assert len(model.asked) == report.calls == cap == len(report.gists)
    assert len(report.errors) == 1
    assert f"cap of {cap} calls a pass" in report.errors[0]
    assert eng.dreams.show(report.id or 0) == report
    assert eng.leases.list() == []


@pytest.mark.requirement("USAGE-2")
def test_the_cap_on_tokens_stops_the_pass_before_the_call_that_would_break_it(open_store: Open, model: Model) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url, dream_pass_tokens=6_500)
    for number in range(20):
        talk(eng, f"task {number}")
    (report,) = eng.dream(force=True)
    assert "cap of 6500 tokens a pass" in report.errors[0]
    assert 0 < report.input_tokens + report.output_tokens <= 6_500
    assert report.gists


@pytest.mark.requirement("USAGE-3")
def test_the_cap_of_a_day_holds_over_passes_and_is_over_the_next_day(
    open_store: Open, model: Model, clock: ShiftedClock
) -> None:
    settings = {"llm": "openai:m", "llm_base_url": model.url, "dream_day_calls": 3}
    for number in range(5):
        talk(open_store(), f"task {number}")
    reports = [open_store(**settings).dream(force=True)[0] for _ in range(3)]
    assert [len(report.gists) for report in reports] == [3, 0, 0]
    assert "cap of 3 calls a day" in reports[2].errors[0]
    clock.advance(86_400)
    assert len(open_store(**settings).dream(force=True)[0].gists) == 2


@pytest.mark.requirement("USAGE-3")
def test_the_cap_of_a_day_holds_to_the_call_among_many_at_once(open_store: Open, model: Model) -> None:
    from engram.dreaming.usage import Meter
    from engram.errors import CapReached
    from engram.llm import Usage

    stores = [open_store(dream_day_calls=20) for _ in range(4)]

    def spend(eng: Engram) -> int:
        meter = Meter(eng._view)
        for number in range(20):
            try:
                meter.before(Usage(1, 0, 0))
            except CapReached:
                return number
        return 20

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(spend, stores)) == 20


@pytest.mark.requirement("USAGE-4")
def test_a_failed_call_was_paid_for(open_store: Open, model: Model) -> None:
    eng = open_store(llm="openai:m", llm_base_url=model.url, dream_pass_calls=4)
    talk(eng)
    model.answer = lambda prompt: 500
    (report,) = eng.dream(force=True)
    assert report.gists == []
    assert report.calls == len(model.asked) <= 4
    assert sum(each.calls for each in eng.usage()) == len(model.asked)
