"""`engram recall` hides what is probably not about the question, and says so."""

from __future__ import annotations

import pytest

from engram.records import UNLIKELY

from .conftest import Engram

DEPLOYS = "Deploys never happen on Fridays"
SMOOTHIE = "how do I make a banana smoothie with oat milk?"

pytestmark = pytest.mark.requirement("RECALL-21")


def recalled(engram: Engram, id: int = 1) -> int:
    count: int = engram("memory", "show", str(id), "--json").json["recalled"]
    return count


def test_unlikely_results_are_hidden_counted_and_shown_on_request(engram: Engram) -> None:
    engram("remember", DEPLOYS)
    hidden = engram("recall", SMOOTHIE)
    assert (hidden.code, hidden.out) == (0, "Nothing found.\n1 unlikely result is hidden; --all shows it.\n")
    engram("remember", "The choir sings on Mondays")
    assert engram("recall", SMOOTHIE).out.endswith("2 unlikely results are hidden; --all shows them.\n")
    assert engram("recall", SMOOTHIE, "--json").json == []
    assert recalled(engram) == 0
    shown = engram("recall", SMOOTHIE, "--all").out
    assert DEPLOYS in shown and "hidden" not in shown
    found = engram("recall", SMOOTHIE, "--all", "--json").json
    assert len(found) == 2
    assert all(hit["score"] < UNLIKELY for hit in found)
    assert recalled(engram) == 2


def test_a_likely_result_is_shown_beside_a_note_about_the_others(engram: Engram) -> None:
    engram("remember", DEPLOYS)
    engram("remember", "The choir sings in the old school")
    shown = engram("recall", "do deploys happen on Fridays?").out
    assert DEPLOYS in shown and "choir" not in shown
    assert shown.endswith("\n1 unlikely result is hidden; --all shows it.\n")
    assert (recalled(engram, 1), recalled(engram, 2)) == (1, 0)


def test_the_floor_can_be_chosen(engram: Engram) -> None:
    engram("remember", DEPLOYS)
    assert DEPLOYS in engram("recall", SMOOTHIE, "--min-score", "0").out
    assert DEPLOYS in engram("recall", "deploys on Fridays", "--min-score", "0.5").out
    none = engram("recall", "deploys on Fridays", "--min-score", "1")
    assert none.out.startswith("Nothing found.\n1 unlikely result is hidden")
    assert DEPLOYS in engram("recall", "deploys on Fridays", "--min-score", "1", "--all").out
    for bad in ("-0.1", "1.1", "much", "nan"):
        assert engram("recall", "deploys", "--min-score", bad).code == 2


def test_an_empty_store_hides_nothing(engram: Engram) -> None:
    assert engram("recall", SMOOTHIE).out == "Nothing found.\n"
    assert engram("recall", SMOOTHIE, "--json").json == []
