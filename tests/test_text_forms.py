"""The form of a text, and the order of hits that belong to one matter, without a store."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.memory import matters
from engram.memory.text_forms import Form, form, is_question

STATEMENT = Form(0.0, 0.0, 0.0)

LABELS = st.sampled_from(["user", "assistant", "tool", "system", "fact", "note"])
WORDS = st.sampled_from(
    [
        *(
            "good ",
            "ok, ",
            "now ",
            "let me ",
            "so ",
            "and ",
            "what ",
            "is ",
            "don't ",
            "when ",
            "tests ",
            "12 ",
            "new ",
        ),
        *(
            "pass",
            "? ",
            "。",
            "\n",
            "+",
            "-",
            "@@ -1",
            "<a-b>",
            "[x] ",
            "Ann: ",
            '"k": ',
            "at f(",
            "| ",
            "漢",
            "\u0301",
        ),
    ]
)
TEXTS = st.lists(WORDS | st.text(max_size=8), max_size=60).map("".join)


@pytest.mark.requirement("RECALL-26")
@pytest.mark.parametrize(
    "text",
    [
        "Which port does it use?",
        "what did we decide about the gateway",
        "So, should we deploy?",
        "[10:32] Ann Lee: Is it raining?",
        "I looked at the gateway. It hangs. Do you know why?",
        "don't you think so",
        '"Is it done?"',
        "雨ですか？",
    ],
)
def test_a_question_is_one_with_or_without_its_mark(text: str) -> None:
    assert is_question(text)


@pytest.mark.requirement("RECALL-26")
@pytest.mark.parametrize(
    "text",
    [
        "Don't use tabs",
        "Do not push to main",
        "When the build fails, run it again",
        "Where possible, use a view",
        "The gateway hangs.",
        "Is it raining? I stayed at home. I read a book. I cooked. Then I slept for a very long time.",
        "<task-notification>Why?</task-notification>",
        "",
        " \n ",
    ],
)
def test_an_instruction_or_a_statement_is_no_question(text: str) -> None:
    assert not is_question(text)


@pytest.mark.requirement("RECALL-26")
@pytest.mark.parametrize(
    "text, label, expected",
    [
        ("Now let me run the linter.", "assistant", Form(0, 1, 0)),
        ("Now let me run the linter.", "user", STATEMENT),
        ("Good. All 12 tests pass.", "assistant", Form(0, 1, 0)),
        ("The linter skips the parser.", "assistant", STATEMENT),
        ("Where possible use a view", "fact", STATEMENT),
        ("Where possible use a view", "user", STATEMENT),
        ("Who owns the gateway?", "fact", Form(1, 0, 0)),
        ("2026-01-01T10:00:00 started\n2026-01-01T10:00:01 stopped", "tool", Form(0, 0, 1)),
        ("@@ -1,2 +1,2 @@\nThe gateway hangs.", "user", Form(0, 0, 1)),
        ("[Request interrupted by user]", "user", Form(0, 0, 1)),
        (" /clear\n", "user", Form(0, 0, 1, 1)),
        ("/review", "user", Form(0, 0, 1, 1)),
        ("/review 12", "user", Form(0, 0, 0, 0.7)),
        ("/a:b-c 12345", "user", Form(0, 0, 0, 0.5)),
        ("/review 12", "assistant", STATEMENT),
        ("/review 12", "fact", STATEMENT),
        ("/etc/hosts is empty", "user", STATEMENT),
        ("/", "user", STATEMENT),
    ],
)
def test_the_form_of_a_text(text: str, label: str, expected: Form) -> None:
    assert form(text, label) == expected


@pytest.mark.requirement("RECALL-29")
@settings(max_examples=60)
@given(TEXTS, LABELS)
def test_shares_are_shares_whatever_the_text(text: str, label: str) -> None:
    assert all(0 <= share <= 1 for share in form(text, label))
    assert is_question(text) in (True, False)


#: What the patterns repeat. A pattern that tries every way to divide such a text would never end.
UNITS = [
    *("good ", "good, ", "ok so ", "good point ", "now now ", "all done ", "you're right ", "got it—", "also, "),
    *("1 ", "new 1 unit ", "tests ", "tests \t", "thank you ", "so and but ", "okay, ", "hey, hi, "),
    *(" ", "\t", "\n", "at x", "at (", "  1  ", "1", "- ", "+ ", "| ", "a-", "<a-", "</a-a", "[", "[[]", "]"),
    *("A: ", "A' ", "A.", "a: \t", '"a ', "a?", "a? ", "?", ".", "…", "。", "漢", "\u0301", "\x00", "\r", "\u2028"),
]


@pytest.mark.requirement("RECALL-29")
def test_of_a_long_text_only_the_beginning_is_read_and_no_repetition_takes_long() -> None:
    for unit in UNITS:
        text = (unit * 1_000_000)[:1_000_000]
        for label in ("assistant", "user"):
            assert form(text, label) == form(text[:2_000], label)
            assert all(0 <= share <= 1 for share in form(text[:1_999] + "!", label))
        assert is_question(text) == is_question(text[:2_000])


FORMS = st.sampled_from([STATEMENT, Form(1, 0, 0), Form(0, 1, 0), Form(0, 0, 1), Form(0.5, 0.5, 0.2)])
SAID = st.lists(
    st.sampled_from(["gateway", "router", "listens", "port", "8001", "8002", "no longer", "now", "Friday", "?", "."]),
    max_size=8,
).map(" ".join)


@st.composite
def found(draw: st.DrawFn) -> list[matters.Found]:
    things = draw(st.lists(st.tuples(st.sampled_from(["exchange", "memory"]), st.integers(1, 9)), unique=True))
    chances = sorted((draw(st.floats(0, 0.99)) for _ in things), reverse=True)
    made = []
    for thing, chance in zip(things, chances, strict=True):
        text = draw(SAID)
        made.append(
            matters.found(
                thing,
                text,
                len(text) + draw(st.sampled_from([0, 0, 900])),
                f"2026-01-0{draw(st.integers(1, 4))}T00:00:00.000000Z",
                draw(st.sampled_from(["user", "agent", "tool", "import", "unheard of"])),
                draw(FORMS),
                chance,
                frozenset(draw(st.lists(st.integers(1, 9), max_size=2))) if thing[0] == "memory" else frozenset(),
                None,
            )
        )
    return made


@pytest.mark.requirement("RECALL-24", "RECALL-27", "RECALL-29")
@settings(max_examples=100)
@given(found(), st.booleans())
def test_arranging_loses_nothing_but_turns_that_a_memory_says(hits: list[matters.Found], latest_first: bool) -> None:
    arranged = matters.arrange(hits, latest_first=latest_first)
    before, after = [hit.thing for hit in hits], [hit.thing for hit in arranged]
    assert len(set(after)) == len(after) and set(after) <= set(before)
    for hit in hits:
        if hit.thing not in after:
            assert hit.thing[0] == "exchange"
            assert any(hit.thing[1] in memory.turns for memory in arranged)
    chances = [hit.chance for hit in arranged]
    assert chances == sorted(chances, reverse=True)
    by_thing = {hit.thing: hit for hit in arranged}
    for hit in arranged:
        if hit.replaced_by is not None:
            newer = by_thing[hit.replaced_by]
            assert newer.at > hit.at
            assert not (hit.trust == "user" and newer.trust != "user")
    assert not any(hit.replaced_by == hit.thing for hit in arranged)


@pytest.mark.requirement("RECALL-24", "RECALL-27")
@pytest.mark.parametrize("length, is_all", [(25, True), (2_500, False)])
def test_a_piece_of_a_longer_text_is_neither_replaced_nor_left_out(length: int, is_all: bool) -> None:
    turn = ("exchange", 1)
    text, stated, before, after = "Gateway port is 8001 here", STATEMENT, "2026-01-01", "2026-01-02"
    old = matters.found(turn, text, length, before, "user", stated, 0.9, frozenset(), None)
    new = matters.found(("memory", 1), "Gateway port is 8002", 20, after, "user", stated, 0.8, frozenset(), None)
    replaced = {hit.thing: hit.replaced_by for hit in matters.arrange([old, new], latest_first=True)}
    assert replaced[turn] == (new.thing if is_all else None)
    same = matters.found(("memory", 2), text, 25, before, "user", stated, 0.7, frozenset({1}), None)
    assert [hit.thing for hit in matters.arrange([old, same], latest_first=True)] == (
        [same.thing] if is_all else [same.thing, turn]
    )
