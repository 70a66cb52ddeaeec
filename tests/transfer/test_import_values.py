"""The values of an import: what would break a store later is refused with its line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, ExportDamaged, checks
from engram.dreaming.plans import Plan
from engram.transfer.column_values import NUMBERS_END, check_of
from engram.transfer.tables import EXPORTED
from tests._tables import dump, run
from tests.transfer._comparing import exported, opened
from tests.transfer.test_import_numbers import Change, rewritten

_FAR = 2**63 - 1
_WRONG: tuple[tuple[str, str, Any], ...] = (
    ("session", "heartbeat_at", "NaN"),
    ("session", "last_seq", _FAR),
    ("session", "last_seq", 2**53 - 1),
    ("session", "outcome_from", 99_999_999),
    ("session", "turns", -1),
    ("exchange", "created_at", "2026-11-15T18:36:08Z"),
    ("exchange", "seq", 500),
    ("lease", "claimed_at", "x"),
    ("lease", "ttl", -1),
    ("lease", "ttl", 1e300),
    ("message", "created_at", " "),
    ("block", "version", -1),
    ("block_version", "version", 0),
    ("memory", "superseded_by", 99_999_999),
    ("memory_version", "version", 0),
    ("source", "derived_kind", "null"),
    ("source", "derived_kind", "session"),
    ("source", "derived_id", 99_999_999),
    ("source", "derived_version", 0),
    ("source", "source_kind", "session"),
    ("source", "source_id", 99_999_999),
    ("memory", "created_at", "\uff11"),
    ("memory", "created_at", "2026-02-30T00:00:00.000000Z"),
    ("memory", "created_at", "0001-01-01T00:00:00.000000Z"),
    ("memory", "created_at", "2026-11-15T18:36:08.123456Z\n"),
    ("memory", "updated_at", "zz"),
    ("memory", "version", 2**62),
    ("memory", "importance", 99),
    ("gist", "month", "2026-13"),
    ("dream", "started_at", "x"),
    ("usage", "day", "2026-3-2"),
    ("usage", "calls", NUMBERS_END),
)


@pytest.mark.requirement("MOVE-9")
def test_values_that_would_break_a_store_are_refused_with_their_line(rich: Engram, empty: str, tmp_path: Path) -> None:
    rich.export(tmp_path / "a.jsonl", all_workspaces=True)
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    first = {json.loads(line)["record"]: number for number, line in reversed([*enumerate(lines, 1)])}
    with opened(empty) as other:
        other.workspace("kept").remember("This was here.", embed=False)
        before = dump(empty)
        for record, name, value in _WRONG:

            def change(line: dict[str, Any], of: str = record, new: dict[str, Any] = {name: value}) -> Any:  # noqa: B006
                return new if line["record"] == of else None

            with pytest.raises(ExportDamaged, match=f"'{name}' is not") as found:
                other.load_export(rewritten(tmp_path / "a.jsonl", tmp_path / "b.jsonl", change))
            assert found.value.line == first[record], (record, name)
            assert dump(empty) == before, (record, name)
        other.load_export(tmp_path / "a.jsonl")


def _changed(record: str, column: str, change: Callable[[Any], Any], **where: Any) -> Change:
    """Changes JSON in the first record that has some there and fits."""
    done: list[bool] = []

    def apply(line: dict[str, Any]) -> dict[str, Any] | None:
        fits = line["record"] == record and all(line.get(name) == value for name, value in where.items())
        if done or not fits or line.get(column) in (None, "null", "{}"):
            return None
        done.append(True)
        return {column: json.dumps(change(json.loads(line[column])))}

    return apply


def _with(name: str, value: Any) -> Callable[[Any], Any]:
    return lambda found: {**found, name: value}


def _with_row(name: str, value: Any) -> Callable[[Any], Any]:
    return lambda found: {**found, "row": {**found["row"], name: value}}


#: JSON that readers take apart, in a form that they do not expect.
_OTHER_JSON: tuple[tuple[str, str, Callable[[Any], Any], dict[str, Any]], ...] = (
    ("receipt", "went", _with("ids", -1), {}),
    ("receipt", "went", _with("ids", {"memories": 3}), {}),
    ("receipt", "went", lambda found: [], {}),
    ("receipt", "went", lambda found: "text", {}),
    ("journal", "before", _with("sources", [[]]), {"kind": "memory"}),
    ("journal", "before", _with("versions", [[2, "x"]]), {"kind": "memory"}),
    ("journal", "before", _with("since", -1), {"kind": "memory"}),
    ("journal", "before", _with_row("created_at", "x"), {"kind": "memory"}),
    ("journal", "before", _with_row("importance", 7), {"kind": "memory"}),
    ("journal", "before", _with_row("another", 7), {"kind": "memory"}),
    ("journal", "before", lambda found: [], {"kind": "memory"}),
    ("journal", "before", _with("gist", [{}, "x", "y"]), {"kind": "session"}),
    ("journal", "before", _with("covered", [2**62, 1]), {"kind": "session"}),
    ("journal", "after", _with("links", [3]), {"kind": "memory"}),
    ("journal", "after", _with("text", None), {"kind": "memory"}),
    ("dream", "report", _with("before", {}), {}),
    ("dream", "report", _with("gists", 3), {}),
    ("proposal", "data", lambda found: [1], {}),
    ("memory_state", "tags", lambda found: {}, {}),
)


@pytest.mark.requirement("MOVE-9")
def test_json_of_another_form_is_refused_with_its_line(rich: Engram, empty: str, tmp_path: Path) -> None:
    _proposed_and_undone(rich)
    rich.export(tmp_path / "a.jsonl", all_workspaces=True)
    with opened(empty) as other:
        other.workspace("kept").remember("This was here.", embed=False)
        before = dump(empty)
        for record, column, change, where in _OTHER_JSON:
            rewritten(tmp_path / "a.jsonl", tmp_path / "b.jsonl", _changed(record, column, change, **where))
            assert (tmp_path / "b.jsonl").read_bytes() != (tmp_path / "a.jsonl").read_bytes(), (record, column)
            with pytest.raises(ExportDamaged, match=f"'{column}' is JSON of another kind"):
                other.load_export(tmp_path / "b.jsonl")
            assert dump(empty) == before, (record, column)
        other.load_export(tmp_path / "a.jsonl")


def _proposed_and_undone(eng: Engram) -> None:
    """Passes with snapshots of memories and sessions, and a proposal with data."""
    made = [eng.remember(text) for text in ("The shop opens at nine.", "The shop opens at ten.")]
    plan = Plan("supersede", "", 0.9, "", tuple(("memory", each.id, 1) for each in made), (), {"winner": made[0].id})
    with eng._view.engine.write() as tx:
        eng.proposals.add(tx, plan, 1)
    eng.proposals.apply(eng.proposals.list("pending")[-1].id)
    eng.exchanges.add(eng.sessions.list()[-1].id, "user", "One more thing about the router.")
    eng.dream(force=True)
    eng.exchanges.add(eng.sessions.list()[-1].id, "user", "And one more.")
    eng.dream(force=True)


@pytest.mark.requirement("UNDO-1")
def test_json_of_another_form_in_a_store_reads_as_empty(rich: Engram, store_url: str) -> None:
    _proposed_and_undone(rich)
    for statement in (
        """UPDATE receipts SET went = '{"ids": -1}'""",
        """UPDATE dreams SET report = '{"before": 3}'""",
        """UPDATE journal SET before = '{"row": {}, "sources": [[]]}' WHERE kind = 'memory' AND before <> 'null'""",
        """UPDATE journal SET before = '{"covered": [1, 1], "gist": [{}, "x", "y"], "folds": []}'
           WHERE kind = 'session' AND before <> 'null'""",
    ):
        run(store_url, statement)
    assert [each.ids for each in rich.receipts()] == [{}]
    assert all(each.gists == [] for each in rich.dreams.list())
    assert rich.dreams.undo().left
    rich.forget(memory=rich.remember("This goes.").id)


@pytest.mark.requirement("MOVE-9")
def test_every_column_knows_what_it_may_hold() -> None:
    for moved in EXPORTED:
        for column in moved.table.columns:
            check, name = check_of(column), f"{moved.record}.{column.name}"
            if column.type is str:
                is_time = column.name in ("at", "day", "month", "deadline", "matured") or column.name.endswith("_at")
                is_kind = column.name in ("derived_kind", "source_kind")
                assert (check("x") is None) == (not (is_time or is_kind) or column.name == "seen_at"), name
                assert check("a\0b") and check(1) and check(None), name
            else:
                assert check("1") and check(True) and check(-1) and check(_FAR) and check(float("nan")), name
                assert check(0) is None and check(1) is None, name


#: Runs a command with so many bytes of address space.
_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1_000_000_000, 1_000_000_000))
from engram.interfaces.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.requirement("MOVE-9")
@pytest.mark.parametrize("megabytes", [60, 70])
def test_a_line_that_would_take_all_memory_is_refused(tmp_path: Path, megabytes: int) -> None:
    with Engram(tmp_path / "a.db") as eng:
        eng.export(tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_bytes().splitlines(keepends=True)
    bomb = b'{"record":"number","x":[' + b"[]," * (megabytes * 1_000_000 // 3) + b"[]]}\n"
    (tmp_path / "b.jsonl").write_bytes(lines[0] + bomb)
    command = ["--store", str(tmp_path / "a.db"), "import", "jsonl", str(tmp_path / "b.jsonl")]
    done = subprocess.run([sys.executable, "-c", _LIMITED, *command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert f"line 2: the line {'takes more memory than there is' if megabytes == 60 else 'is too long'}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("MOVE-2")
def test_the_longest_texts_with_the_longest_escapes_come_back(eng: Engram, empty: str, tmp_path: Path) -> None:
    long = "\U000e0041" * checks.MAX_TEXT
    eng.exchanges.add(eng.sessions.register("codex", "talk"), "user", long)
    before = exported(eng, tmp_path / "a.jsonl")
    with opened(empty) as other:
        other.load_export(tmp_path / "a.jsonl")
        assert exported(other, tmp_path / "b.jsonl") == before
