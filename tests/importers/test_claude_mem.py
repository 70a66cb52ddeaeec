"""The database of claude-mem: sessions with prompts and summaries, observations, and rules of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram import NotOfFormat
from engram.importers.formats import get
from engram.importers.items import EndItem, GistItem, Item, MemoryItem, Options, SessionItem, Turn

from ._databases import Rows, Text, database, read, skipped

SCHEMA = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT, memory_session_id TEXT,
    project TEXT, platform_source TEXT DEFAULT 'claude', user_prompt TEXT, started_at TEXT, started_at_epoch INTEGER,
    completed_at TEXT, completed_at_epoch INTEGER, status TEXT DEFAULT 'active', custom_title TEXT);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT, project TEXT, text TEXT,
    type TEXT, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT,
    files_modified TEXT, prompt_number INTEGER, merged_into_project TEXT, metadata TEXT, created_at TEXT,
    created_at_epoch INTEGER);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT, project TEXT,
    request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, prompt_number INTEGER,
    created_at TEXT, created_at_epoch INTEGER);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT, prompt_number INTEGER,
    prompt_text TEXT, created_at TEXT, created_at_epoch INTEGER);
CREATE TABLE directives (id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT, project TEXT, content TEXT, status TEXT,
    source TEXT, created_at TEXT, created_at_epoch INTEGER);
"""
FORMAT = get("claude-mem")
HARNESS, OWN = "3f0c0d52-0000-4000-8000-000000000001", "memory-1"


def at(hour: int) -> dict[str, object]:
    return {"created_at": f"2026-01-01T{hour}:00:00.000Z", "created_at_epoch": 1767225600000 + hour * 3_600_000}


def iso(hour: int) -> str:
    return f"2026-01-01T{hour}:00:00+00:00"


def session(**more: object) -> dict[str, object]:
    return {
        **{"content_session_id": HARNESS, "memory_session_id": OWN, "project": "shop", "user_prompt": "Fix the cart"},
        **{"started_at": "2026-01-01T10:00:00.000Z", "started_at_epoch": 1767261600000},
        **more,
    }


def prompt(number: int, text: object, hour: int) -> dict[str, object]:
    return {"content_session_id": HARNESS, "prompt_number": number, "prompt_text": text, **at(hour)}


def summary(number: int | None, hour: int, **parts: object) -> dict[str, object]:
    return {"memory_session_id": OWN, "project": "shop", "prompt_number": number, **parts, **at(hour)}


def found(folder: Path, rows: Rows, schema: str = SCHEMA, options: Options | None = None) -> list[Item]:
    return read(FORMAT, database(folder / "claude-mem.db", schema, rows), options)


def test_a_session_has_its_prompts_and_is_summed_up_after_the_last_prompt_that_is_covered(tmp_path: Path) -> None:
    rows: Rows = {
        "sdk_sessions": [session(custom_title="Cart")],
        "user_prompts": [prompt(1, "Fix the cart", 10), prompt(2, "Now the tests", 11), prompt(3, "Thanks", 13)],
        "session_summaries": [
            summary(
                1, 10, request="Fix the cart", investigated="Read cart.ts", completed="Cart fixed", next_steps="Tests"
            ),
            summary(
                2, 12, request="Add tests", learned="Prices are in cents", completed="Tests pass", next_steps="Ship"
            ),
        ],
    }
    assert found(tmp_path, rows) == [
        SessionItem(
            HARNESS,
            "claude-code",
            started_at=iso(10),
            last_at=iso(13),
            project="shop",
            name="Cart",
            summary="Fix the cart",
            outcome="Tests pass",
        ),
        Turn(HARNESS, "user", "Fix the cart", iso(10)),
        Turn(HARNESS, "user", "Now the tests", iso(11)),
        GistItem(
            HARNESS,
            "# Fix the cart\nOutcome: Tests pass\nOpen: Ship\n"
            "Read cart.ts\n\nCart fixed\n\nAdd tests\n\nPrices are in cents",
            iso(12),
        ),
        Turn(HARNESS, "user", "Thanks", iso(13)),
        EndItem(HARNESS),
    ]


@pytest.mark.parametrize(
    ("platform", "type"),
    [
        ("claude", "claude-code"),
        ("codex", "codex"),
        ("gemini-cli", "gemini"),
        (None, "claude-code"),
        ("Other", "other"),
    ],
)
def test_the_type_of_a_session_is_its_harness(tmp_path: Path, platform: str | None, type: str) -> None:
    item = found(tmp_path, {"sdk_sessions": [session(platform_source=platform, status="failed")]})[0]
    assert isinstance(item, SessionItem) and (item.type, item.status) == (type, "abandoned")


def test_a_session_without_prompts_begins_with_the_one_in_its_row(tmp_path: Path) -> None:
    rows: Rows = {"sdk_sessions": [session()], "session_summaries": [summary(None, 12, completed="Done")]}
    assert found(tmp_path, rows)[1:] == [
        Turn(HARNESS, "user", "Fix the cart", iso(10)),
        GistItem(HARNESS, "Outcome: Done", iso(12)),
        EndItem(HARNESS),
    ]


def test_a_summary_without_any_turn_is_a_note(tmp_path: Path) -> None:
    rows: Rows = {
        "sdk_sessions": [session(user_prompt=None)],
        "session_summaries": [
            summary(1, 12, request="Fix", completed="Done"),
            {**summary(1, 13, learned="Nobody knows whose"), "memory_session_id": "unknown"},
        ],
    }
    items = found(tmp_path, rows)
    assert [item for item in items if isinstance(item, MemoryItem)] == [
        MemoryItem(f"summary-{HARNESS}", "# Fix\nOutcome: Done", at=iso(12), data={"session": HARNESS}),
        MemoryItem("summary-unknown", "Nobody knows whose", at=iso(13), data={"session": "unknown"}),
    ]


def test_prompts_of_a_session_without_a_row_are_kept(tmp_path: Path) -> None:
    assert found(tmp_path, {"user_prompts": [prompt(1, "Hello", 10)]}, options=Options(project="acme")) == [
        SessionItem(HARNESS, "claude-code", last_at=iso(10), project="acme"),
        Turn(HARNESS, "user", "Hello", iso(10)),
        EndItem(HARNESS),
    ]


def test_an_observation_is_a_memory(tmp_path: Path) -> None:
    rows: Rows = {
        "sdk_sessions": [session(user_prompt=None)],
        "observations": [
            {
                **{"memory_session_id": OWN, "project": "shop", "type": "bugfix", "title": "Cart total was wrong"},
                **{"subtitle": "Sums in cents", "narrative": "Prices were added as floats.", **at(11)},
                **{"facts": '["Prices are cents", "Totals too, always"]', "concepts": '["gotcha", "money"]'},
                **{"files_read": "[]", "files_modified": '["cart.ts"]', "metadata": '{"a": 1}'},
            },
            {
                **{"memory_session_id": "unknown", "project": "old", "merged_into_project": "new", "type": "decision"},
                **{"title": "Use cents", "subtitle": "Everywhere", "facts": "plain, text", **at(12)},
            },
            {"memory_session_id": OWN, "project": None, "type": "change", "text": "An early observation", **at(13)},
        ],
    }
    assert found(tmp_path, rows)[2:] == [
        MemoryItem(
            f"observation-1@{iso(11)}",
            "Cart total was wrong\nPrices were added as floats.\n- Prices are cents\n- Totals too, always",
            "lesson",
            ("gotcha", "money", "bugfix"),
            at=iso(11),
            project="shop",
            data={
                "subtitle": "Sums in cents",
                "files_modified": ["cart.ts"],
                "session": HARNESS,
                "metadata": {"a": 1},
            },
        ),
        MemoryItem(
            f"observation-2@{iso(12)}",
            "Use cents\nEverywhere\n- plain, text",
            "decision",
            at=iso(12),
            project="new",
            data={"session": "unknown"},
        ),
        MemoryItem(
            f"observation-3@{iso(13)}",
            "An early observation",
            tags=("change",),
            at=iso(13),
            data={"session": HARNESS},
        ),
    ]


def test_a_rule_is_a_preference_in_the_words_of_its_author(tmp_path: Path) -> None:
    rows: Rows = {
        "directives": [
            {"scope": "global", "content": "Never push", "status": "active", "source": "manual", **at(10)},
            {"scope": "project", "project": "shop", "content": "Old", "status": "retired", "source": "auto", **at(11)},
        ]
    }
    assert found(tmp_path, rows) == [
        MemoryItem(f"directive-1@{iso(10)}", "Never push", "preference", at=iso(10), trust="user"),
        MemoryItem(f"directive-2@{iso(11)}", "Old", "preference", at=iso(11), is_archived=True, project="shop"),
    ]


def test_an_older_file_has_other_names_and_fewer_columns(tmp_path: Path) -> None:
    schema = """
        CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, claude_session_id TEXT, sdk_session_id TEXT, project TEXT,
            user_prompt TEXT, started_at TEXT);
        CREATE TABLE observations (id INTEGER PRIMARY KEY, sdk_session_id TEXT, project TEXT, text TEXT, type TEXT,
            created_at TEXT);
        CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, sdk_session_id TEXT, request TEXT, completed TEXT);
    """
    rows: Rows = {
        "sdk_sessions": [
            {"claude_session_id": HARNESS, "sdk_session_id": OWN, "user_prompt": "Go", "started_at": iso(10)},
            {"claude_session_id": "second", "sdk_session_id": None, "user_prompt": "Stay", "started_at": None},
        ],
        "observations": [{"sdk_session_id": OWN, "text": "Seen", "type": "discovery", "created_at": iso(11)}],
        "session_summaries": [{"sdk_session_id": OWN, "request": "Go", "completed": "Gone"}],
    }
    assert found(tmp_path, rows, schema) == [
        SessionItem(HARNESS, "claude-code", started_at=iso(10), last_at=iso(10), summary="Go", outcome="Gone"),
        Turn(HARNESS, "user", "Go", iso(10)),
        GistItem(HARNESS, "# Go\nOutcome: Gone"),
        EndItem(HARNESS),
        SessionItem("second", "claude-code"),
        Turn("second", "user", "Stay"),
        EndItem("second"),
        MemoryItem(f"observation-1@{iso(11)}", "Seen", "fact", ("discovery",), at=iso(11), data={"session": HARNESS}),
    ]


def test_bad_rows_are_named_and_the_others_read(tmp_path: Path) -> None:
    never = {"created_at": "never", "created_at_epoch": None}
    rows: Rows = {
        "sdk_sessions": [session(user_prompt=Text(b"\xff")), session(content_session_id=None)],
        "user_prompts": [
            prompt(1, Text(b"\xff"), 10),
            prompt(2, b"\x00", 10),
            {**prompt(3, "when?", 10), **never},
            {**prompt(4, "epoch only", 10), "created_at": "never"},
            {**prompt(5, "nobody's", 10), "content_session_id": None},
        ],
        "session_summaries": [summary(1, 10), summary(1, 11, request=b"\x01")],
        "observations": [
            {"memory_session_id": OWN, "type": "change", **at(10)},
            {"memory_session_id": OWN, "type": "change", "title": "When?", **never},
            {"memory_session_id": None, "type": None, "title": "good", **at(10)},
        ],
        "directives": [{"content": None, **at(10)}],
    }
    items = found(tmp_path, rows)
    assert skipped(items) == [
        ("sdk_sessions row 2", "no content_session_id"),
        ("user_prompts row 5", "no content_session_id"),
        ("session_summaries row 1", "no text"),
        ("session_summaries row 2", "no text"),
        ("user_prompts row 1", "prompt is not valid Unicode"),
        ("user_prompts row 2", "prompt is not text"),
        ("user_prompts row 3", "impossible date"),
        ("observations row 1", "no text"),
        ("observations row 2", "impossible date"),
        ("directives row 1", "no content"),
    ]
    assert Turn(HARNESS, "user", "epoch only", iso(10)) in items
    assert MemoryItem(f"observation-3@{iso(10)}", "good", at=iso(10)) in items


def test_a_file_of_another_system_is_refused(tmp_path: Path) -> None:
    other = database(tmp_path / "other.db", "CREATE TABLE history (memory_id, new_memory, event)")
    with pytest.raises(NotOfFormat, match=r"is a database of mem0, not of claude-mem\. .*engram import mem0 "):
        FORMAT.find(other)


def test_what_is_marked_as_private_in_a_prompt_is_left_out(tmp_path: Path) -> None:
    rows: Rows = {
        "sdk_sessions": [session()],
        "user_prompts": [prompt(1, "Fix the cart <private>for my doctor</private> now", 10)],
    }
    turns = [item for item in found(tmp_path, rows) if isinstance(item, Turn)]
    assert [turn.text.split() for turn in turns] == [["Fix", "the", "cart", "now"]]
