"""`engram graph`, `activity`, `harnesses`, and the options of other commands that show a workspace as a whole."""

from __future__ import annotations

import re

import pytest

from .conftest import Engram


@pytest.fixture
def me(engram: Engram) -> str:
    id: str = engram("session", "start", "codex", "Porting the router", "--project", "shop", "--json").json["id"]
    engram("say", id, "user", "Never on Fridays", "--no-embed")
    return id


@pytest.mark.requirement("CLI-1", "GRAPH-1")
def test_the_graph_is_an_indented_tree_with_types(engram: Engram, me: str) -> None:
    engram("remember", "Deploys never on Fridays", "--session", me, "--no-embed")
    engram("remember", "Deploys on Mondays", "--no-embed")
    engram("memory", "link", "2", "1")
    engram("lock", "claim", "shop:src/router.py", "--session", me)
    short = me[-8:]
    assert engram("graph", "memory", "2").out.splitlines() == [
        "memory 2 Deploys on Mondays (note, active)",
        "  about memory 1 Deploys never on Fridays (note, active)",
        f"    made from session {short} Porting the router (codex, active)",
    ]
    first, *rest = engram("graph", "session", short).out.splitlines()
    assert first == f"session {short} Porting the router (codex, active)"
    assert "  about file shop:src/router.py" in rest
    made = rest.index("  source of memory 1 Deploys never on Fridays (note, active)")
    assert rest[made + 1] == "    about memory 2 Deploys on Mondays (note, active)"
    found = engram("graph", "session", short, "-n", "2", "--json").json
    assert len(found["nodes"]) == 2 and found["more"] == 1
    assert found["links"][0].keys() == {"type", "start", "end"}
    assert "  … and 1 more" in engram("graph", "session", short, "-n", "2").out
    assert engram("graph", "memory", "99").code == 3
    assert engram("graph", "exchange", "1").code == 2


@pytest.mark.requirement("CLI-1", "OVERVIEW-1")
def test_activity_is_a_table_with_bars(engram: Engram, me: str) -> None:
    head, row = engram("activity", "--days", "1").out.splitlines()
    assert head.split() == ["day", "project", "type", "sessions", "turns", "memories"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d  shop +codex +1 +1 +0 +█{20}", row)
    assert engram("activity", "--json").json[0]["turns"] == 1
    assert engram("activity", "--until", "2020-01-01").out == "Nothing happened in that time.\n"
    assert engram("activity", "--days", "367").code == 2


@pytest.mark.requirement("CLI-1", "OVERVIEW-4")
def test_harnesses_shows_what_each_did_last(engram: Engram, me: str) -> None:
    lines = engram("harnesses").out.splitlines()
    assert re.match(rf"codex +just now +turn +{me[-8:]} +shop +Never on Fridays", lines[1])
    assert [line.split()[0] for line in lines[2:]] == ["claude-code", "gemini", "cursor", "mcp"]
    assert "not seen lately" in lines[2]
    assert engram("harnesses", "--json").json["harnesses"][0]["session_id"] == me


@pytest.mark.requirement("CLI-1", "OVERVIEW-2", "OVERVIEW-3")
def test_locks_that_overlap_and_sizes_are_options_of_known_commands(engram: Engram, me: str) -> None:
    assert engram("lock", "list", "--overlaps").out == "No claims overlap.\n"
    other = engram("session", "start", "codex", "Limits", "--json").json["id"]
    engram("lock", "claim", "shop:src", "--session", me)
    engram("lock", "claim", "shop:src/limits.py", "--session", other)
    (pair,) = engram("lock", "list", "--overlaps", "--json").json
    assert (pair["first"]["session_id"], pair["second"]["session_id"]) == (me, other)
    assert [line.split()[0] for line in engram("lock", "list", "--overlaps").out.splitlines()] == [
        *("resource", "shop:src", "shop:src/limits.py")
    ]
    assert engram("lock", "list", "--overlaps", "--mine", session=me).code == 2
    sizes = engram("stats", "--sizes", "--json").json["sizes"]
    assert sizes["store_bytes"] > 0 and {each["tier"] for each in sizes["tiers"]} >= {"exchanges", "word index"}
    assert "about rows" in engram("stats", "--sizes").out
    assert "sizes" not in engram("stats", "--json").json


@pytest.mark.requirement("CLI-1", "OVERVIEW-5")
def test_sessions_are_listed_by_filters(engram: Engram, me: str) -> None:
    done = engram("session", "start", "claude-code", "Limits", "--project", "other", "--json").json["id"]
    engram("session", "done", "Limited", session=done)

    def ids(*options: str) -> list[str]:
        return [each["id"] for each in engram("session", "list", *options, "--json").json]

    assert ids("--since", "1h") == [done, me]
    assert ids("--until", "1h") == []
    assert ids("--status", "completed") == [done]
    assert ids("--project", "other") == []
    assert ids("--project", "other", "--all") == [done]
    assert ids("--type", "codex") == ids("--type", "codex", "--all") == [me]
    assert engram("session", "list", "--type", "gemini").out == "No session matches.\n"


@pytest.mark.requirement("CLI-1", "OVERVIEW-6")
def test_history_has_pages_and_the_log(engram: Engram, me: str) -> None:
    engram("session", "log", "Edit src/a.py: done", session=me)
    engram("say", me, "assistant", "I will not", "--no-embed")

    def numbers(*options: str) -> list[int]:
        return [each["seq"] for each in engram("history", me, *options, "--json").json]

    assert numbers() == [1, 3]
    assert numbers("--logs") == [1, 2, 3]
    assert numbers("--logs", "--before", "3", "-n", "1") == [2]
    assert numbers("--after", "1") == [3]
    assert "Edit src/a.py: done" in engram("history", me, "--logs").out
