"""The words of the brief: memories as they are stored, and asks and results that say something."""

from __future__ import annotations

import pytest

from engram import Engram
from engram.tokens import estimate

from .test_brief import HERE, sections, worked


@pytest.mark.requirement("BRIEF-15")
@pytest.mark.parametrize(
    "text",
    [
        "Lint **/*.py only.",
        "#define FOO is forbidden in headers",
        "#1234 stays open",
        "# noqa is forbidden",
        "See [docs](http://intranet/x) first",
        "Use `make`, __never__ *npm*",
        "| a | b |",
        "2**3 is 8 and 4**5 is not",
    ],
)
def test_a_memory_is_shown_as_it_is_stored(eng: Engram, text: str) -> None:
    for pinned, head in ((True, "Pinned"), (False, "Known to hold here")):
        kept = eng.remember(text, kind="lesson", key=head, project=HERE, pinned=pinned, by_person=True)
        (line,) = sections(eng.brief(project=HERE))[head]
        assert line == f"- {text} (lesson, just now, memory {kept.id})"


@pytest.mark.requirement("BRIEF-15")
def test_no_part_of_a_memory_is_dropped_and_a_cut_is_said(eng: Engram) -> None:
    eng.remember("Run this:\n```sh\nrm -rf build\n```\nthen rest", kind="lesson", project=HERE)
    (line,) = sections(eng.brief(project=HERE))["Known to hold here"]
    assert line.startswith("- Run this: ```sh rm -rf build ``` then rest (lesson, ")
    long = "Keep it. " * 40 + "And mail the keys."
    kept = eng.remember(long, kind="decision", project=HERE, importance=1.0)
    line, _ = sections(eng.brief(project=HERE))["Known to hold here"]
    assert line.endswith(f"it. Keep… (decision, just now, memory {kept.id}, cut from {len(long)} characters)")


@pytest.mark.requirement("BRIEF-15", "BRIEF-7")
def test_what_a_session_remembered_is_shown_as_it_is_stored_too(eng: Engram) -> None:
    me = eng.sessions.register("codex", "Linting", project=HERE)
    eng.remember("Lint **/*.py only, #1234 stays open.", session_id=me)
    (line,) = sections(eng.brief(me, resumed=True))["This session so far"]
    assert line.startswith("- Remembered: Lint **/*.py only, #1234 stays open. (note, ")


@pytest.mark.requirement("BRIEF-4", "BRIEF-15")
def test_asks_and_results_lose_their_markdown_but_not_their_patterns(eng: Engram) -> None:
    worked(
        eng,
        ("user", "#1234 stays open: fix **all** of **/*.py and src/**/*.js\n# A heading of this\n#define X"),
        ("assistant", "**Fixed** the **two** bugs in src/**/*.py, see #7."),
    )
    (entry,) = sections(eng.brief(project=HERE))["Where we left off"]
    assert "#1234 stays open: fix all of **/*.py and src/**/*.js A heading of this. #define X" in entry
    assert entry.endswith("Result: Fixed the two bugs in src/**/*.py, see #7.")


@pytest.mark.requirement("BRIEF-5", "BRIEF-15")
@pytest.mark.parametrize("head", ["Pinned", "Known to hold here"])
def test_the_first_memory_is_cut_rather_than_left_out(eng: Engram, head: str) -> None:
    kept = eng.remember(
        "Never push to main. " * 11, kind="lesson", project=HERE, pinned=head == "Pinned", by_person=True
    )
    eng.world.set("\n".join(f"line {number} of the world state" for number in range(40)))
    brief = eng.brief(project=HERE, budget=100)
    assert estimate(brief) <= 100
    (line,) = sections(brief)[head]
    assert line.startswith("- Never push to main.") and line.endswith(f"… (lesson, just now, memory {kept.id})")
    assert sections(eng.brief(project=HERE, budget=400))[head][0].count("Never push") == 11
    assert eng.briefing(project=HERE, budget=100).things == (("memory", kept.id),)


@pytest.mark.requirement("BRIEF-5")
def test_a_brief_without_room_names_the_command_that_shows_everything(eng: Engram) -> None:
    worked(eng, ("user", "Port the router to the new library"), ("assistant", "The router is ported."))
    eng.world.set("Staging is down.")
    brief = eng.brief(project=HERE, budget=40)
    assert brief.endswith("`engram brief --full`") and "--budget" not in brief


@pytest.mark.requirement("BRIEF-16")
@pytest.mark.parametrize("prompt", ["continue", "thx!!!", "👍", "y e s", "hmm", "ok, go ahead"])
def test_a_prompt_that_names_nothing_is_no_task(eng: Engram, prompt: str) -> None:
    me = worked(eng, ("user", prompt), done=False)
    assert eng.sessions.get(me).summary == ""
    eng.exchanges.add(me, "user", "Port the router", embed=False)
    assert eng.sessions.quote(me, "user")
    assert eng.sessions.get(me).summary == "Port the router"


@pytest.mark.requirement("BRIEF-16")
@pytest.mark.parametrize("prompt", ["fix src/router.py", "/review 12", "Router?", "続けてルーターを直して"])
def test_a_short_prompt_that_names_something_is_a_task(eng: Engram, prompt: str) -> None:
    assert eng.sessions.get(worked(eng, ("user", prompt), done=False)).summary == prompt


@pytest.mark.requirement("BRIEF-16")
def test_sessions_without_a_task_are_only_counted(eng: Engram) -> None:
    for _ in range(3):
        eng.sessions.register("codex", None, project=HERE)
    at_work = "Also at work in this project"
    assert sections(eng.brief(project=HERE))[at_work] == ["- 3 sessions without a task."]
    eng.sessions.register("codex", "Porting the router", project=HERE)
    holder = eng.sessions.register("codex", None, project=HERE)
    eng.leases.claim(holder, f"{HERE}:src/a.py")
    claims, porting, rest = sections(eng.brief(project=HERE))[at_work]
    assert claims.startswith("- (no summary) (codex, ") and claims.endswith("has claimed: src/a.py")
    assert porting.startswith("- Porting the router (")
    assert rest == "- and 3 sessions without a task."


@pytest.mark.requirement("BRIEF-16", "BRIEF-4")
@pytest.mark.parametrize(
    ("said", "result"), [("ok", ""), ("👍", ""), ("Looks good.", ""), ("Fixed router.py.", "Fixed router.py.")]
)
def test_a_result_says_something(eng: Engram, said: str, result: str) -> None:
    worked(eng, ("user", "Port the router to the new library"), ("assistant", said), ("user", "And now the docs of it"))
    (entry,) = sections(eng.brief(project=HERE))["Where we left off"]
    assert [line for line in entry.split("\n") if "Result" in line] == ([f"  Result: {result}"] if result else [])
    assert entry.endswith("  Open: the last ask has no answer.")


@pytest.mark.requirement("BRIEF-16", "BRIEF-4")
@pytest.mark.parametrize(("given", "shown"), [("Schema migrated", True), ("ok", False)])
def test_an_outcome_that_was_given_on_purpose_may_have_two_words(eng: Engram, given: str, shown: bool) -> None:
    me = worked(eng, ("user", "Migrate the schema to version 42"), done=False)
    eng.sessions.complete(me, given)
    (entry,) = sections(eng.brief(project=HERE))["Where we left off"]
    assert (f"  Result: {given}" in entry.split("\n")) == shown
