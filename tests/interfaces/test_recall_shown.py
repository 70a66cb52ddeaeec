"""How results of recall are shown: on the command line, over MCP and in a context."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram import Engram as Store
from engram.interfaces.mcp import answers
from engram.records import plain

from .conftest import Engram, in_terminal

OpenStore = Callable[..., Store]
QUESTION = "Why does the nightly build fail?"
ANSWER = "Its token expired on Monday. A new one is valid for a year."


def converse(eng: Store) -> None:
    session = eng.sessions.register("codex", "Repairing the build")
    eng.exchanges.add(session, "user", QUESTION)
    for number in range(5):
        eng.exchanges.add(session, "assistant", f"Let me look at file {number}.")
    eng.exchanges.add(session, "assistant", ANSWER)


@pytest.mark.requirement("CLI-34", "CONTEXT-7")
def test_a_question_is_shown_with_its_answer(engram: Engram, open_store: OpenStore) -> None:
    eng = open_store()
    converse(eng)
    (asked,) = eng.recall(QUESTION, what=["exchanges"], roles=["user"])
    assert engram("recall", QUESTION, "--role", "user", "--all").out.splitlines()[1:] == [
        f"      {QUESTION}",
        "    answered in exchange 7:",
        f"      {ANSWER}",
    ]
    assert f"   answered in exchange 7:\n> > {ANSWER}" in answers.answer("recall", plain([asked]), None).text
    assert f"Answered in exchange 7: {ANSWER}" in eng.context("why does the nightly build fail?")


@pytest.mark.requirement("CLI-34", "CONTEXT-7")
def test_an_answer_that_stands_above_its_question_is_not_repeated(engram: Engram, open_store: OpenStore) -> None:
    eng = open_store()
    converse(eng)
    query = "the nightly token expired on Monday"
    shown = engram("recall", query, "--all").out
    assert shown.count(ANSWER) == 1 and "    answered in exchange 7, above\n" in shown
    told = answers.answer("recall", plain(eng.recall(query)), None).text
    assert told.count(ANSWER) == 1 and "   answered in exchange 7, above" in told
    assert eng.context(query).count(ANSWER) == 1


@pytest.mark.requirement("CLI-34", "CONTEXT-7")
def test_a_statement_says_what_replaced_it(engram: Engram, open_store: OpenStore) -> None:
    for port in (5432, 6543):
        engram("remember", f"The staging database listens on port {port}")
    newer, older = engram("recall", "staging database port").out.split("0.")[1:]
    assert "port 6543" in newer and "replaced" not in newer
    assert ", replaced by memory 2\n" in older and older.endswith("port 5432\n")
    eng = open_store()
    told = answers.answer("recall", plain(eng.recall("staging database port")), None).text
    assert ", replaced by memory 2, score 0." in told
    assert "just now, replaced by memory 2)" in eng.context("staging database port")


@pytest.mark.requirement("CLI-34")
def test_an_explanation_names_the_parts_that_count(engram: Engram) -> None:
    engram("remember", "Invoices are due in March", "--no-embed")
    *_, words, preference, strength = engram("recall", "invoices", "--mode", "words", "--explain").out.splitlines()
    assert words == "      words       100% of the question: invoic"
    assert preference.startswith("      preference  × 1.33 for kind, ") and strength.startswith("      strength    ")
    engram("remember", "When are the taxes due?", "--no-embed")
    explained = engram("recall", "taxes last week", "-k", "1", "--mode", "words", "--explain", "--all").out
    assert "\n      form        × 0.35 for " in explained
    assert "\n      date        last week in the question\n" in explained
    assert "meaning" not in explained and "tokens" not in explained


@pytest.mark.requirement("CLI-34")
def test_a_long_result_is_broken_between_words_on_a_terminal_and_keeps_its_indentation(sqlite_url: str) -> None:
    text = "The invoices of the northern branch are due in March, and those of the other branches are due in April."
    with Store(sqlite_url) as eng:
        eng.remember(text, embed=False)
    narrow = {"ENGRAM_URL": sqlite_url, "ENGRAM_EMBEDDER": "none", "COLUMNS": "40", "NO_COLOR": "1"}
    _, shown = in_terminal("recall", "invoices", "--explain", environment=narrow)
    head, *rows = shown.splitlines()
    assert max(map(len, [head, *rows])) <= 40
    assert all(row.startswith("      ") for row in rows)
    assert text in " ".join(row.strip() for row in rows)
