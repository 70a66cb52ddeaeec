"""Recall that answers: statements before questions, the latest first, answers with questions, on both engines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram import Engram
from engram.clock import later
from engram.records import Hit
from tests.conftest import ShiftedClock

OpenStore = Callable[..., Engram]

DAY = 86_400
MODES = ["hybrid", "words"]


def say(eng: Engram, session: str, *turns: tuple[str, str]) -> list[int]:
    eng.sessions.ensure(session)
    return [eng.exchanges.add(session, role, text) for role, text in turns]


def hit_of(hits: list[Hit], *, exchange: int | None = None, memory: int | None = None) -> Hit:
    return next(hit for hit in hits if (hit.exchange_id, hit.memory_id) == (exchange, memory))


def place(hits: list[Hit], text: str) -> int:
    return next(place for place, hit in enumerate(hits) if text in hit.whole)


@pytest.mark.requirement("RECALL-22")
def test_a_question_comes_with_its_answer(eng: Engram) -> None:
    question, reply, _ = say(
        eng,
        "s",
        ("user", "Which database does the ledger use?"),
        ("assistant", "It keeps its rows in CockroachDB."),
        ("user", "Thanks, that helps."),
    )
    hits = eng.recall("Which database does the ledger use?", 5)
    answer = hit_of(hits, exchange=question).answer
    assert answer == ("It keeps its rows in CockroachDB.", (reply,))
    assert hit_of(hits, exchange=reply).answer is None


@pytest.mark.requirement("RECALL-22")
def test_the_answer_is_found_behind_many_turns_of_narration(eng: Engram) -> None:
    narration = [("assistant", "Let me check the next file."), ("tool", "1: ledger ledger ledger")] * 12
    question, *_, conclusion, _, _ = say(
        eng,
        "s",
        ("user", "Why does the ledger import fail?"),
        *narration,
        ("assistant", "The ledger import fails because the header row is missing. " + "Other things are fine. " * 60),
        ("user", "I see. The ledger import fails because of me."),
        ("assistant", "The ledger import fails for nobody else."),
    )
    answer = hit_of(eng.recall("Why does the ledger import fail?", 5), exchange=question).answer
    assert answer is not None
    assert answer.exchange_ids == (conclusion,)
    assert answer.text.startswith("The ledger import fails because the header row is missing.")
    assert answer.text.endswith("…") and len(answer.text) <= 450


@pytest.mark.requirement("RECALL-22")
@pytest.mark.parametrize("asker, other", [("user", "assistant"), ("assistant", "user")])
def test_yes_and_no_are_answers(eng: Engram, asker: str, other: str) -> None:
    question, reply = say(eng, "s", (asker, "Shall we support Windows in the installer?"), (other, "No."))
    answer = hit_of(eng.recall("support Windows", 5), exchange=question).answer
    assert answer == ("No.", (reply,))


@pytest.mark.requirement("RECALL-22")
def test_there_is_no_answer_without_a_reply_nor_to_a_statement_nor_to_a_memory(eng: Engram) -> None:
    say(eng, "a", ("user", "Which lathe is broken?"))
    say(eng, "b", ("user", "Which lathe is noisy?"), ("user", "Forget it."), ("assistant", "The lathe is noisy."))
    say(eng, "c", ("user", "Which lathe is old?"), ("assistant", "Let me look at the lathe list."))
    say(eng, "d", ("user", "The lathe is green."), ("assistant", "It was painted in May."))
    say(eng, "e", ("user", "Which lathe is loud?"), ("tool", "lathe"), ("log", "The lathe is loud."))
    eng.remember("Which lathe is sold?")
    hits = eng.recall("which lathe", 20)
    assert len(hits) == 11  # all but the log entry
    assert {hit.text: hit.answer for hit in hits if hit.answer} == {}


@pytest.mark.requirement("RECALL-23")
@pytest.mark.parametrize("mode", MODES)
def test_the_statement_stands_before_the_question_however_often_it_is_asked(
    eng: Engram, clock: ShiftedClock, mode: str
) -> None:
    say(eng, "s0", ("user", "The staging gateway listens on port 8443."))
    for n in range(1, 6):
        clock.advance(DAY)
        say(eng, f"s{n}", ("user", "Which port does the staging gateway listen on?"))
        hits = eng.recall("Which port does the staging gateway listen on?", 10, mode=mode)
        assert hits[0].whole == "The staging gateway listens on port 8443."
        assert len(hits) == n + 1
        assert hits[0].score >= hits[1].score


@pytest.mark.requirement("RECALL-23")
@pytest.mark.parametrize("mode", [*MODES, "vectors"])
def test_a_question_asked_a_hundred_times_does_not_hide_its_answer(eng: Engram, mode: str) -> None:
    say(eng, "s", ("user", "The staging gateway listens on 8443."))
    eng.sessions.ensure("t")
    asked = "Which port does the staging gateway listen on?"
    for count in (45, 55):
        eng.exchanges.add_many({"session_id": "t", "role": "user", "content": asked} for _ in range(count))
        for k in (1, 5):
            assert eng.recall(asked, k, mode=mode)[0].whole == "The staging gateway listens on 8443."


@pytest.mark.requirement("RECALL-24")
@pytest.mark.parametrize("mode", MODES)
def test_of_two_values_the_latest_comes_first_and_the_older_says_so(
    eng: Engram, clock: ShiftedClock, mode: str
) -> None:
    made = []
    for port in (8001, 8002, 8003):
        made.append(eng.remember(f"The gateway listens on port {port}.", trust="user"))
        clock.advance(DAY)
    hits = eng.recall("which port does the gateway listen on?", 5, mode=mode)
    assert [hit.memory_id for hit in hits] == [each.id for each in reversed(made)]
    newest = ("memory", made[-1].id)
    assert [hit.replaced_by for hit in hits] == [None, newest, newest]


@pytest.mark.requirement("RECALL-24")
def test_what_is_no_longer_so_is_replaced(eng: Engram, clock: ShiftedClock) -> None:
    old, _ = say(eng, "s", ("user", "The nightly job uploads reports to the bucket."), ("assistant", "Noted."))
    clock.advance(DAY)
    (new,) = say(eng, "t", ("user", "The nightly job no longer uploads reports."))
    hits = eng.recall("does the nightly job upload reports?", 5)
    assert hits[0].exchange_id == new
    assert hit_of(hits, exchange=old).replaced_by == ("exchange", new)


@pytest.mark.requirement("RECALL-24")
def test_a_superseded_memory_names_what_superseded_it(eng: Engram) -> None:
    old = eng.remember("Tea is served at four.", key="tea")
    new = eng.remember("Nobody drinks it now, coffee only.", key="tea")
    hits = eng.recall("when is tea served?", 5, include_archived=True)
    assert hit_of(hits, memory=old.id).replaced_by == ("memory", new.id)
    assert hit_of(hits, memory=new.id).replaced_by is None


@pytest.mark.requirement("RECALL-24")
@pytest.mark.parametrize("trust", ["agent", "tool", "import"])
def test_text_of_less_trust_replaces_nothing_that_a_person_said(eng: Engram, clock: ShiftedClock, trust: str) -> None:
    old = eng.remember("The vault opens with badge 1001.", trust="user")
    clock.advance(DAY)
    eng.remember("The vault now opens with badge 6666.", trust=trust)
    hits = eng.recall("The vault opens with badge 1001?", 5)
    assert hit_of(hits, memory=old.id).replaced_by is None
    if trust != "agent":
        assert hits[0].memory_id == old.id


@pytest.mark.requirement("RECALL-24")
def test_different_subjects_do_not_replace_each_other(eng: Engram, clock: ShiftedClock) -> None:
    for text in ("The gateway listens on port 8001", "The router listens on port 8002", "The gateway has two fans"):
        eng.remember(text)
        clock.advance(DAY)
    hits = eng.recall("which port does the gateway listen on?", 5)
    assert hits[0].text == "The gateway listens on port 8001"
    assert [hit.replaced_by for hit in hits] == [None, None, None]


@pytest.mark.requirement("RECALL-24")
def test_the_statement_with_the_number_that_the_question_names_comes_first(eng: Engram, clock: ShiftedClock) -> None:
    made = []
    for port in (8001, 8002, 8003):
        made.append(eng.remember(f"The gateway listens on port {port}.", trust="user").id)
        clock.advance(DAY)
    hits = eng.recall("what listens on port 8002?", 5)
    assert hits[0].memory_id == made[1]
    assert hits[0].replaced_by == ("memory", made[2])
    assert hits[1].memory_id == made[2]


@pytest.mark.requirement("RECALL-24")
@pytest.mark.parametrize("turn", ["/pr-review {}", "/review-pull-request number {}", "Address {}", "Option {}"])
@pytest.mark.parametrize("mode", MODES)
def test_commands_and_instructions_with_numbers_do_not_replace_each_other(
    eng: Engram, clock: ShiftedClock, turn: str, mode: str
) -> None:
    ids = {}
    for number in (150, 157, 165, 166):
        (ids[number],) = say(eng, f"s{number}", ("user", turn.format(number)))
        clock.advance(DAY)
    for number, id in ids.items():
        hits = eng.recall(turn.format(number), 4, mode=mode)
        assert hits[0].exchange_id == id
        assert {hit.replaced_by for hit in hits} == {None}


@pytest.mark.requirement("RECALL-26")
@pytest.mark.parametrize("mode", MODES)
def test_a_command_to_the_harness_stands_below_what_it_is_about(eng: Engram, mode: str) -> None:
    say(eng, "a", ("user", "/deploy-gateway"))
    say(eng, "b", ("user", "/deploy-gateway 7"))
    (said,) = say(eng, "c", ("user", "We deploy the gateway by hand."))
    hits = eng.recall("deploy gateway", 3, mode=mode)
    assert [hit.whole for hit in hits] == ["We deploy the gateway by hand.", "/deploy-gateway 7", "/deploy-gateway"]
    assert hits[0].exchange_id == said


@pytest.mark.requirement("RECALL-24")
def test_a_question_that_names_a_time_is_not_answered_with_the_latest(eng: Engram, clock: ShiftedClock) -> None:
    now = clock.now()
    eng.sessions.ensure("s")
    then = later(now, -40 * DAY)
    old = eng.exchanges.add("s", "user", "The gateway listens on port 8001.", created_at=then)
    new = eng.exchanges.add("s", "user", "The gateway listens on port 8002.", created_at=later(now, -DAY))
    assert eng.recall("which port does the gateway listen on?", 2)[0].exchange_id == new
    hits = eng.recall(f"which port did the gateway listen on, on {then[:10]}?", 2)
    assert [hit.exchange_id for hit in hits] == [old, new]


@pytest.mark.requirement("RECALL-25")
def test_words_that_name_a_time_are_not_searched_for(open_store: OpenStore) -> None:
    eng = open_store(embedder="none")
    eng.remember("The invoice of the last month is open.")
    eng.remember("We decided to keep the endpoint.")
    (hit,) = eng.recall("what did we decide last month?", 5)
    assert hit.text == "We decided to keep the endpoint."
    assert hit.why["dates"] == ["last month"]
    (hit,) = eng.recall("last month", 5)
    assert hit.text == "The invoice of the last month is open."
    (hit,) = eng.recall("what was last month?", 5)
    assert hit.text == "The invoice of the last month is open."


@pytest.mark.requirement("RECALL-26")
@pytest.mark.parametrize(
    "weaker",
    [
        "Now let me run the linter on the parser module.",
        "Should the linter run on the parser module?",
        "2026-01-01 10:00:00 INFO linter parser module\n2026-01-01 10:00:01 INFO linter parser module",
        "diff --git a/linter b/linter\n@@ -1,2 +1,2 @@\n-parser module\n+linter parser module",
        "<task-notification>linter parser module</task-notification>",
        '{"linter": "parser", "module": 1}\n{"linter": "parser", "module": 2}',
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_what_only_announces_asks_or_was_pasted_stands_below_a_statement(eng: Engram, weaker: str, mode: str) -> None:
    say(eng, "a", ("assistant", weaker))
    (stated,) = say(eng, "b", ("assistant", "The linter skips the parser module."))
    hits = eng.recall("linter parser module", 2, mode=mode)
    assert hits[0].exchange_id == stated and len(hits) == 2
    assert hits[1].why["form"] < hits[0].why["form"]  # type: ignore[operator]


@pytest.mark.requirement("RECALL-26")
def test_an_instruction_counts_like_any_statement(eng: Engram) -> None:
    for text in (
        "Don't deploy on Fridays",
        "Do not deploy on Fridays",
        "When the deploy fails on Fridays, wait",
        "When in doubt deploy on Monday",
        "Will Smith may deploy on Fridays",
    ):
        eng.remember(text)
    assert {hit.why["form"] for hit in eng.recall("deploy on Fridays", 9)} == {1.0}


@pytest.mark.requirement("RECALL-27")
def test_a_memory_stands_before_its_turn_and_a_turn_that_says_nothing_else_is_left_out(eng: Engram) -> None:
    same, more, long = say(
        eng,
        "s",
        ("user", "Note: the boiler is serviced each October."),
        ("user", "The boiler room is locked, and its key hangs in the hall beside the mirror, as it always did."),
        ("user", "The boiler burns pellets. " * 30 + "The chimney is swept each spring. " * 30),
    )
    first = eng.remember("The boiler is serviced each October", sources=[("exchange", same)])
    second = eng.remember("The boiler room is locked", sources=[("exchange", more)])
    third = eng.remember("The boiler burns pellets. " * 30, sources=[("exchange", long)])
    for k in (3, 5, 10):
        ids = [(hit.exchange_id, hit.memory_id) for hit in eng.recall("boiler", k)]
        assert len(ids) == min(k, 5)
        assert (same, None) not in ids
        for turn, memory in ((more, second.id), (long, third.id)):
            if (turn, None) in ids:
                assert ids.index((None, memory)) < ids.index((turn, None))
    assert (None, first.id) in ids and (more, None) in ids and (long, None) in ids


@pytest.mark.requirement("RECALL-28")
def test_the_text_is_a_passage_and_the_whole_is_there_too(eng: Engram) -> None:
    whole = "Meadows are green in spring. " * 60 + "The badger sleeps under the oak. " + "Rivers are blue. " * 60
    eng.remember(whole)
    (hit,) = eng.recall("where does the badger sleep?")
    assert hit.whole == whole
    assert "The badger sleeps under the oak." in hit.text
    assert len(hit.text) <= 562
    assert hit.text.startswith("…") and hit.text.endswith("…")
    assert hit.text.strip("…").strip()[-1] == "."
    eng.remember("A short text is shown whole.")
    assert place(eng.recall("short text"), "shown whole.") == 0
    assert eng.recall("short text")[0].text == eng.recall("short text")[0].whole == "A short text is shown whole."


@pytest.mark.requirement("RECALL-29")
@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
def test_hostile_texts_break_nothing(eng: Engram, mode: str) -> None:
    hostile = [
        "otter? " * 3_000,
        "otter\n" * 3_000,
        "good " * 3_000 + "otter",
        "otter" + "\u0301" * 3_000,
        "otter ```" * 500,
        "[otter" * 500,
        "%s %(otter)s {otter} '; DROP TABLE items; -- otter",
        "\u202eotter\u2066 \ufeff\u200d",
        "水獭。otter。" * 800,
        "</otter-otter>" * 400,
        "otter: " * 500,
        "…otter…",
    ]
    eng.sessions.ensure("s")
    for n, text in enumerate(hostile):
        turn = eng.exchanges.add("s", ("user", "assistant")[n % 2], text)
        eng.remember(text, sources=[("exchange", turn)])
    hits = eng.recall("otter?", 1_000, mode=mode)
    assert {hit.whole for hit in hits} == set(hostile)
    for hit in hits:
        assert len(hit.text) <= 562 and 0 <= hit.score <= 0.99
        assert hit.text.strip("…").strip() in hit.whole
    eng.recall("\u202e" + hostile[8], 5, mode=mode)


@pytest.mark.requirement("RECALL-25")
@pytest.mark.parametrize(
    "older, newer",
    [
        ("Room 101 has a projector", "Room 102 has a projector"),
        ("Ticket 4512 is fixed in release 2", "Ticket 4513 is fixed in release 3"),
        ("Deploys happen on Mondays for Berlin", "Deploys happen on Tuesdays for Paris"),
        ("Service A listens on port 8001", "Service B listens on port 8002"),
        ("Staging runs Postgres 15", "Staging runs Redis 7"),
        ("The API returns JSON", "The API does not return XML"),
        ("The login page is in English", "The login page is in English and now also in German"),
        ("The nightly backup of shard 3 takes 33 minutes", "The nightly backup of shard 55 takes 85 minutes"),
        ("PR #41 is approved by Anna", "PR #42 is approved by Anna"),
    ],
)
def test_statements_about_different_things_replace_nothing_and_keep_their_order(
    eng: Engram, clock: ShiftedClock, older: str, newer: str
) -> None:
    eng.remember(older)
    clock.advance(3_600)
    eng.remember(newer)
    hits = eng.recall(older, 2)
    assert [(hit.text, hit.replaced_by) for hit in hits] == [(older, None), (newer, None)]


@pytest.mark.requirement("RECALL-25")
@pytest.mark.parametrize(
    "question, older, newer",
    [
        (
            "The staging database listens on port",
            "The staging database listens on port 5432",
            "The staging database listens on port 6543",
        ),
        ("The nightly backup takes", "The nightly backup takes 33 minutes", "The nightly backup takes 85 minutes"),
        # Without the day, which would name a time.
        ("Deploys go out on", "Deploys go out on Tuesday", "Deploys go out on Thursday"),
        (
            "We deploy the shop with",
            "We deploy the shop with Jenkins",
            "We no longer deploy the shop with Jenkins",
        ),
    ],
)
def test_a_statement_with_another_value_at_its_end_replaces_the_older_one(
    eng: Engram, clock: ShiftedClock, question: str, older: str, newer: str
) -> None:
    first = eng.remember(older)
    clock.advance(3_600)
    second = eng.remember(newer)
    hits = eng.recall(question, 2)
    assert [(hit.memory_id, hit.replaced_by) for hit in hits] == [
        (second.id, None),
        (first.id, ("memory", second.id)),
    ]


@pytest.mark.requirement("RECALL-22")
@pytest.mark.parametrize(
    "question, reply",
    [
        ("How do I deploy to staging?", "Run `make deploy-staging`."),
        ("When do we deploy?", "Okay, Tuesday."),
        ("Should we use uv?", "Sure."),
        ("Do the tests pass?", "All tests pass."),
        ("Which config?", '{"port": 6543}'),
        ("What is the phone number of the office?", "+49 30 1234567"),
        ("tell me how to deploy", "Run the deploy script."),
    ],
)
def test_short_commands_and_output_are_answers(eng: Engram, question: str, reply: str) -> None:
    asked, _ = say(eng, "s", ("user", question), ("assistant", reply))
    answer = hit_of(eng.recall(question, 5), exchange=asked).answer
    assert answer is not None and answer.text == reply


@pytest.mark.requirement("RECALL-30")
@pytest.mark.parametrize("mode", MODES)
def test_a_text_that_was_said_twice_takes_one_place(eng: Engram, clock: ShiftedClock, mode: str) -> None:
    pasted = "diff --git a/kiln b/kiln\n@@ -1,2 +1,2 @@\n-kiln glaze 900\n+kiln glaze 950"
    for n in range(3):
        say(eng, f"s{n}", ("user", "Check the glaze of the kiln, please."), ("tool", pasted))
        clock.advance(DAY)
    said = say(eng, "t", ("user", "The kiln is white, and the glaze is wet."), ("user", "The kiln has no glaze yet."))
    hits = eng.recall("kiln glaze", 4, mode=mode)
    assert len({hit.whole for hit in hits}) == 4
    # Of a statement the latest is the one that is kept.
    assert next(hit for hit in hits if hit.whole.startswith("Check")).session_id == "s2"
    # Nothing is lost where there is room.
    hits = eng.recall("kiln glaze", 20, mode=mode)
    assert len(hits) == 8 and len({hit.whole for hit in hits[4:]}) == 2
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {hit.exchange_id for hit in hits} >= set(said)
    (only,) = eng.recall("kiln glaze", 4, mode=mode, session_id="s0", roles=["user"])
    assert only.session_id == "s0"


@pytest.mark.requirement("RECALL-30")
def test_the_same_words_of_another_speaker_keep_their_place(eng: Engram) -> None:
    say(eng, "s", ("user", "The kiln is white."), ("assistant", "The kiln is white."))
    eng.remember("The kiln is white.")
    say(eng, "t", ("user", "The kiln is white."), ("user", "A kiln is a kind of oven."))
    hits = eng.recall("is the kiln white?", 3)
    assert {(hit.label, hit.whole) for hit in hits} >= {
        ("user", "The kiln is white."),
        ("assistant", "The kiln is white."),
    }
    assert eng.recall("is the kiln white?", 9)[-1].whole in ("The kiln is white.", "A kiln is a kind of oven.")
