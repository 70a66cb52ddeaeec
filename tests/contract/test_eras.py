"""Eras that a companion tells: a pass leaves them alone until their month has news, and forgetting finds them."""

from __future__ import annotations

import pytest

from engram import Engram
from tests._tables import holds
from tests._talks import talk

pytestmark = pytest.mark.requirement("ERA-1")

TOLD = "A slow month of porting, and the first snow."


def told(eng: Engram) -> list[tuple[str | None, str]]:
    return [(era.key, era.content) for era in eng.eras.list()]


def test_eras_are_listed_by_month_and_a_month_has_one(eng: Engram) -> None:
    eng.eras.store("2026-04", "April.", 2)
    eng.eras.store("2026-03", "March so far.", 1)
    eng.eras.store("2026-03", "March.", 3)
    assert told(eng) == [("2026-03", "March."), ("2026-04", "April.")]
    eng.eras.store("2026-03", "March.", 4)
    assert [era.data for era in eng.eras.list()] == [{"sessions": 4, "gists": []}, {"sessions": 2, "gists": []}]


def test_a_pass_leaves_a_told_era_alone_until_its_month_has_another_gist(eng: Engram) -> None:
    talk(eng)
    eng.dream(force=True, stages=["sessions"])
    eng.eras.store("2026-03", TOLD, 1)
    (report,) = eng.dream(force=True, stages=["eras"])
    assert (report.eras, told(eng)) == ([], [("2026-03", TOLD)])
    talk(eng, "the parser")
    (report,) = eng.dream(force=True, stages=["sessions", "eras"])
    assert report.eras == ["2026-03"]
    assert told(eng) != [("2026-03", TOLD)]


def test_a_pass_keeps_the_era_of_a_month_without_gists(eng: Engram) -> None:
    talk(eng)
    eng.eras.store("2019-12", TOLD, 4)
    eng.dream(force=True)
    assert ("2019-12", TOLD) in told(eng)
    assert "2019-12" not in eng.dream(force=True)[0].eras


def test_forgetting_a_session_takes_the_era_that_was_told_about_it_alone(eng: Engram, store_url: str) -> None:
    session = talk(eng)
    eng.dream(force=True, stages=["sessions"])
    eng.eras.store("2026-03", "A zeppelin was ported.", 1)
    eng.sessions.delete(session)
    assert eng.eras.list() == []
    assert holds(store_url, "zeppelin") == {}


def test_the_last_turn_of_a_gist_is_the_one_that_it_covers_last(eng: Engram) -> None:
    session = talk(eng, turns=4)
    turns = eng.exchanges.history(session)
    assert eng.gists.last_turn(session) is None
    eng.memories.store_gist(session, "The first half.", turns[1].seq)
    assert eng.gists.last_turn(session) == turns[1].id
    eng.sessions.log(session, "done")
    eng.memories.store_gist(session, "All of it.", turns[-1].seq + 1)
    assert eng.gists.last_turn(session) == turns[-1].id
