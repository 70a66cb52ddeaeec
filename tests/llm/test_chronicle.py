"""Eras and the narrative without a model: one line for each session, oldest first, and what is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.gist_text import GistText, compose
from engram.llm import Answer, Passage, Prompt, load

_LINES = {"type": "array", "maxItems": 30, "items": {"type": "string", "maxLength": 500}}
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {name: _LINES for name in ("arc", "open_threads")},
    "required": ["arc", "open_threads"],
    "additionalProperties": False,
}


def gist(
    id: int, day: str, title: str, outcome: str = "", *open_points: str, story: str = "", project: str = "boat"
) -> Passage:
    text = compose(GistText(title, outcome, open_points, story))
    return Passage(f"m{id}", f"{day} 09:30, project {project}", text, "", f"{day}T09:30:00.000000Z")


def ask(task: str, passages: Sequence[Passage], known: str = "", **options: Any) -> Answer:
    provider = load("extractive")
    assert provider is not None
    before = (Passage("b1", f"the {task} so far", known),) if known else ()
    return provider.complete(Prompt(task, "", tuple(passages), before), **options)


def narrative(passages: Sequence[Passage], known: str = "") -> dict[str, list[str]]:
    data: Any = ask("narrative", passages, known, schema=FORM).data
    found: dict[str, list[str]] = data
    return found


MARCH = (
    gist(
        1,
        "2026-03-02",
        "Build the hull",
        "The hull is planked with larch.",
        "The agent asked: “Which varnish shall I order?”",
    ),
    gist(2, "2026-03-05", "Cut the mast", "The mast is cut to nine metres.", "Document the rigging plan"),
    gist(3, "2026-03-09", "Sew the sails", "Both sails are sewn.", project="sails"),
)


@pytest.mark.requirement("LLM-21")
def test_an_era_lists_the_outcome_of_each_session_with_day_and_project_and_then_what_is_open() -> None:
    assert ask("era", MARCH).text.splitlines() == [
        "2026-03-02, boat: Build the hull — The hull is planked with larch.",
        "2026-03-05, boat: Cut the mast — The mast is cut to nine metres.",
        "2026-03-09, sails: Sew the sails — Both sails are sewn.",
        "Still open:",
        "- 2026-03-02, boat: The agent asked: “Which varnish shall I order?”",
        "- 2026-03-05, boat: Document the rigging plan",
    ]


@pytest.mark.requirement("LLM-21")
def test_an_era_goes_on_without_doubled_lines_and_drops_what_is_done() -> None:
    before = f"2026-03: 2 sessions.\n{ask('era', MARCH[:2]).text}"
    later = gist(4, "2026-03-06", "Rigging", "I documented the rigging plan; that is done.")
    again = gist(2, "2026-03-05", "Cut the mast", "The mast is cut and oiled.", "Document the rigging plan")
    lines = ask("era", [again, later], before).text.splitlines()
    assert lines[:3] == [
        "2026-03-02, boat: Build the hull — The hull is planked with larch.",
        "2026-03-05, boat: Cut the mast — The mast is cut and oiled.",
        "2026-03-06, boat: Rigging — I documented the rigging plan; that is done.",
    ]
    assert lines[3:] == ["Still open:", "- 2026-03-02, boat: The agent asked: “Which varnish shall I order?”"]


@pytest.mark.requirement("LLM-21")
def test_a_narrative_has_the_same_lines_each_with_its_gist() -> None:
    made = narrative(MARCH)
    assert made["arc"][0] == "2026-03-02, boat: Build the hull — The hull is planked with larch. [m1]"
    assert [line[-4:] for line in made["arc"]] == ["[m1]", "[m2]", "[m3]"]
    assert made["open_threads"][1] == "2026-03-05, boat: Document the rigging plan [m2]"
    text = ask("narrative", MARCH).text
    assert text.startswith("## How it went\n- 2026-03-02, boat: Build the hull")
    assert "keeps coming up" not in text


@pytest.mark.requirement("LLM-21")
def test_a_narrative_goes_on_and_a_gist_replaces_its_own_line() -> None:
    before = ask("narrative", MARCH).text
    same = narrative(MARCH, before)
    assert same == narrative(MARCH)
    renewed = gist(3, "2026-03-10", "Sew the sails", "Both sails are sewn and packed.", project="sails")
    fresh = gist(5, "2026-03-11", "Order varnish", "The varnish is ordered, so the agent knows which one to use.")
    made = narrative([renewed, fresh], before)
    assert [line[-4:] for line in made["arc"]] == ["[m1]", "[m2]", "[m3]", "[m5]"]
    assert "sewn and packed" in made["arc"][2]
    assert made["open_threads"] == ["2026-03-05, boat: Document the rigging plan [m2]"]


@pytest.mark.requirement("LLM-21")
def test_a_question_that_nobody_answered_for_weeks_is_no_longer_open() -> None:
    late = gist(9, "2026-04-20", "Launch", "The boat is in the water.")
    assert narrative([*MARCH, late])["open_threads"] == ["2026-03-05, boat: Document the rigging plan [m2]"]


@pytest.mark.requirement("LLM-21")
def test_an_interrupted_ask_that_a_later_session_takes_up_is_not_open() -> None:
    first = gist(1, "2026-03-02", "Varnish", "", "Not finished: “Sand the deck with fine paper.”")
    second = gist(
        2,
        "2026-03-03",
        "Sand the deck",
        "The deck is smooth.",
        story="The user asked: “Sand the deck with fine paper.”",
    )
    assert narrative([first])["open_threads"] == [
        "2026-03-02, boat: Not finished: “Sand the deck with fine paper.” [m1]"
    ]
    assert narrative([first, second])["open_threads"] == []


@pytest.mark.requirement("LLM-21")
def test_lines_are_cut_at_a_word_and_a_narrative_keeps_the_latest() -> None:
    long = gist(1, "2026-03-02", "Build " * 40, "The hull is planked " * 60)
    (line,) = narrative([long])["arc"]
    assert len(line) <= 500
    assert line.endswith("… [m1]") or line.endswith(". [m1]")
    many = [gist(n, f"2026-03-{n % 28 + 1:02}", f"Work on part{n}", "It is finished.") for n in range(1, 50)]
    arc = narrative(many)["arc"]
    assert len(arc) == 30
    assert [line[:10] for line in arc] == sorted(line[:10] for line in arc)
    words = ask("era", many, max_tokens=100).text.splitlines()
    assert all(len(line) <= 220 for line in words)
    assert len(words) == 49


@pytest.mark.requirement("LLM-21")
def test_gists_of_earlier_releases_and_of_clients_are_told_by_their_first_words() -> None:
    old = Passage("m1", "session 2026-03-02", "2026-03-02 user: We build the boat ourselves.\nAlso: mast", "", "")
    client = Passage("m2", "2026-03-03 08:00", "The user wanted a mast. It was cut.", "", "2026-03-03T08:00:00Z")
    nothing = Passage(
        "m3", "2026-03-04 08:00", "The session has only commands to the harness: /exit.", "", "2026-03-04"
    )
    assert ask("era", [old, client, nothing]).text.splitlines() == [
        "2026-03-02: We build the boat ourselves.",
        "2026-03-03: The user wanted a mast. It was cut.",
    ]


@pytest.mark.requirement("LLM-21")
def test_a_line_of_a_model_stays_in_an_era() -> None:
    known = "2026-03: 1 session.\nThe month began with the hull."
    lines = ask("era", MARCH[:1], known).text.splitlines()
    assert lines[:2] == [
        "The month began with the hull.",
        "2026-03-02, boat: Build the hull — The hull is planked with larch.",
    ]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(".!?\n :-#[]—"), max_size=300)


@pytest.mark.requirement("LLM-21")
@settings(deadline=None)
@given(st.lists(TEXTS, max_size=5), TEXTS)
def test_any_gist_and_any_known_text_can_be_read(texts: list[str], known: str) -> None:
    gists = [Passage(f"m{n}", "2026-03-02 09:30, project boat", text, "", "2026-03-02") for n, text in enumerate(texts)]
    narrative(gists, known)
    narrative(gists, f"## How it went\n- {known}\n\n## Open threads\n- {known}")
    ask("era", gists, known)
