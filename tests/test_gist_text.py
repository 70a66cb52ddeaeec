"""The text of a gist, put together and taken apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.gist_text import GistText, compose, parse

LINES = st.text(max_size=40)


def test_a_gist_begins_with_its_title_its_outcome_and_what_is_open() -> None:
    parts = GistText("Time zones", "The flag is --local-time-zone.", ("Document it.", "Release it."), "It was asked.")
    text = compose(parts)
    assert text.split("\n") == [
        "# Time zones",
        "Outcome: The flag is --local-time-zone.",
        "Open: Document it.",
        "Open: Release it.",
        "It was asked.",
    ]
    assert parse(text) == parts


def test_a_gist_of_an_earlier_release_is_all_story() -> None:
    old = "2026-01-16 user: Rename the flag.\n2026-01-16 assistant: Renamed.\nAlso: flag, zone"
    assert parse(old) == GistText(story=old)


def test_an_outcome_in_the_story_stays_there() -> None:
    assert parse("It began.\nOutcome: it ended.") == GistText(story="It began.\nOutcome: it ended.")


STORIES = st.tuples(
    st.lists(st.sampled_from(["# A heading", "Outcome: none.", "Open: a door.", "Story:", "Story: long"]), max_size=3),
    st.text(max_size=40),
).map(lambda parts: "\n".join([*parts[0], parts[1]]).strip())


def test_a_story_that_begins_like_another_part_stays_the_story() -> None:
    for story in ("# Notes\nIt began.", "Outcome: lost.\nIt began.", "Open: the door.", "Story:\nOpen: it.", "Story:"):
        for parts in (GistText(story=story), GistText("Zones", "Done.", ("Release it.",), story)):
            assert parse(compose(parts)) == parts


@given(LINES, LINES, st.lists(LINES, max_size=3), STORIES)
def test_what_is_put_together_comes_apart_again(title: str, outcome: str, left: list[str], story: str) -> None:
    kept = tuple(" ".join(each.split()) for each in left if each.strip())
    found = parse(compose(GistText(title, outcome, tuple(left), story)))
    assert found == GistText(" ".join(title.split()), " ".join(outcome.split()), kept, story)
