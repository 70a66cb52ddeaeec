"""`engram dream`, `context` and `usage`, as a person, a script and a terminal see them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import engram as library
from tests._models import session_answer
from tests._talks import talk
from tests._waiting import until

from .conftest import Engram, in_terminal, program


@pytest.mark.requirement("DREAM-22", "CLI-1")
def test_dream_alone_means_one_pass(eng: library.Engram, engram: Engram) -> None:
    session = talk(eng)
    none = engram("dream", "show")
    assert (none.code, "There has been no pass" in none.err) == (3, True)
    (report,) = engram("dream", "--force", "--json").json
    assert report["gists"] == [session]
    shown = engram("dream", "show", str(report["id"]))
    assert shown.code == 0 and "probe" not in shown.out
    assert ("recall check 0." in shown.out) == (report["seconds"]["probe"] >= 0.005)
    assert engram("dream", "show").out == shown.out
    assert f"pass {report['id']}, " in engram("dream", "list").out
    assert "1 gist, 1 era" in shown.out
    assert engram("dream", "list", "--json").json[0]["id"] == report["id"]
    status = engram("dream", "status", "--json").json
    assert status["backlog"]["ripe"] == 0
    assert status["drives"]["curiosity"] == 0
    pending, urgency, due, last, automatic = engram("dream", "status").out.splitlines()
    assert pending.split() == ["pending", "nothing"]
    assert urgency.endswith("to summarise sessions: not urgent; to update eras and the portrait: not urgent")
    assert due.split() == ["due", "nothing"]
    assert last.startswith(f"last pass  {report['id']}, ")
    assert ", by hand: 1 gist" in last
    assert automatic.split(maxsplit=1) == ["automatic", "off (auto_dream)"]
    assert engram("dream", "show", "99").code == 3
    assert engram("dream", "--stage", "nap").code == 2


@pytest.mark.requirement("DREAM-3", "CLI-1")
def test_a_dry_run_only_says_what_would_be_done(eng: library.Engram, engram: Engram) -> None:
    talk(eng)
    assert "would write 1" in engram("dream", "run", "--force", "--dry-run").out
    shown = engram("dream", "--dry-run").out
    assert "sessions: 1 session still at work. Due after the end, after 30 minutes of silence" in shown
    for stage in ("consolidate", "eras", "profile", "narrative"):
        assert f"{stage}: " in shown
    eng.sessions.complete(talk(eng, "the parser"))
    shown = engram("dream", "--dry-run").out
    assert "sessions: would read 1 session. 1 session with something new: 1 ended." in shown
    assert "Dreaming about 1 session costs nothing without a model." in " ".join(shown.split())
    assert eng.dreams.list() == []


@pytest.mark.requirement("DREAM-17", "CLI-1")
def test_a_workspace_or_all_of_them(eng: library.Engram, engram: Engram) -> None:
    for name in ("anna", "ben"):
        talk(eng.workspace(name))
    assert [each["workspace"] for each in engram("dream", "--force", "--workspace", "anna", "--json").json] == ["anna"]
    found = engram("dream", "--force", "--all", "--json").json
    assert {each["workspace"] for each in found["reports"]} >= {"anna", "ben"}
    assert (found["totals"]["workspaces"], found["totals"]["gists"]) == (2, 1)
    assert "totals  2 passes in 2 workspaces, " in engram("dream", "--all").out


@pytest.mark.requirement("DREAM-22", "CLI-2")
def test_the_exit_code_is_4_while_another_pass_is_under_way(eng: library.Engram, engram: Engram) -> None:
    talk(eng)
    other = eng.sessions.register("dream", "dreaming")
    eng.leases.claim(other, "dream", exclusive=True, ttl=300)
    outcome = engram("dream", "--force")
    assert outcome.code == 4
    said = f"No pass was started; another pass is running: session {other}, since "
    assert outcome.out.startswith(said)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\n", outcome.out.removeprefix(said))


@pytest.mark.requirement("DREAM-4", "CLI-1")
def test_a_pass_under_way_is_called_running_and_a_dead_one_is_not(
    eng: library.Engram, engram: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(eng)
    seen: list[str] = []

    def look(stage: str, done: int, total: int) -> None:
        if not seen:
            seen.extend(engram("dream", *asked, "--utc").out for asked in (["list"], ["status"], ["show", "1"]))
            raise KeyboardInterrupt  # and then it dies

    with pytest.raises(KeyboardInterrupt):
        eng.dream(force=True, progress=look)
    running = r"running since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n"
    assert re.fullmatch(rf"pass 1, by hand: {running}", seen[0])
    assert re.search(rf"last pass +1, by hand: {running}", seen[1])
    assert re.search(rf"result +{running}", seen[2])
    for asked in (["list"], ["status"], ["show", "1"]):
        out = engram("dream", *asked).out
        assert out.count("did not end") == 1 and "running" not in out


@pytest.mark.requirement("WORK-1", "CLI-1")
def test_an_agent_takes_work_and_hands_it_in(
    eng: library.Engram, engram: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_LLM", "agent")
    session = talk(eng)
    engram("dream", "--force")
    item = engram("dream", "work", "next", "--json").json
    assert (item["stage"], item["subject"]) == ("sessions", session)
    assert engram("dream", "work", "next").out == "No work item is waiting.\n"
    assert engram("dream", "work", "submit", str(item["id"]), session_answer()).code == 0
    assert engram("dream", "work", "submit", str(item["id"]), session_answer()).code == 4
    assert engram("dream", "work", "submit", "999", "What?").code == 3
    assert engram("dream", "--force", "--json").json[0]["gists"] == [session]


@pytest.mark.requirement("CONTEXT-1", "USAGE-1", "CLI-1")
def test_context_and_usage_are_shown(eng: library.Engram, engram: Engram) -> None:
    assert engram("context").out == "Nothing is remembered yet.\n"
    session = talk(eng)
    engram("dream", "--force")
    outcome = engram("context", "the router", "--session", session, "--budget", "500")
    assert "## Narrative" in outcome.out
    assert engram("context", "--budget", "500", "--json").json["context"].startswith("# Context of")
    assert engram("usage").out == "No model has been called in that time.\n"
    assert engram("usage", "--json").json == []


@pytest.mark.requirement("DREAM-22")
def test_a_terminal_shows_a_bar_for_each_stage_and_a_pipe_none(sqlite_url: str) -> None:
    with library.Engram(sqlite_url) as eng:
        talk(eng)
    code, shown = in_terminal("dream", "--force", environment={"ENGRAM_URL": sqlite_url})
    assert code == 0
    assert all(stage in shown for stage in ("sessions    [", "eras        [", "profile     ["))


def started(url: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "ENGRAM_URL": url}
    pipe = subprocess.PIPE
    return subprocess.Popen([program(), *arguments], env=environment, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.requirement("DREAM-22", "DREAM-6")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_pass_after_its_step_with_everything_kept_and_the_lease_freed(
    store_url: str, eng: library.Engram, number: signal.Signals
) -> None:
    for each in range(60):
        talk(eng, f"task {each}")
    process = started(store_url, "dream", "--force", "--json")
    until(lambda: bool(eng.memories.list(kind="gist", limit=1)))
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "stopped early on request" in out
    (report,) = eng.dreams.list()
    assert 0 < len(report.gists) < 60
    assert len(report.gists) == len(eng.memories.list(kind="gist", limit=0))
    assert eng.leases.list() == []


@pytest.mark.requirement("DREAM-22", "DREAM-19")
def test_a_loop_dreams_at_once_when_told_and_ends_on_a_signal(store_url: str, eng: library.Engram) -> None:
    eng.sessions.complete(talk(eng))
    process = started(store_url, "dream", "loop", "--every", "6h", "--now")
    try:
        until(lambda: any(report.ended_at for report in eng.dreams.list()))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")
    assert len(out.splitlines()) == 1
    assert eng.leases.list() == []


@pytest.mark.requirement("DREAM-19")
def test_a_loop_says_a_failure_in_one_line_and_goes_on_also_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(tmp_path))
    store, log = tmp_path / "engram.db", tmp_path / "dream.log"
    store.write_text("This is no store. " * 500)
    script = (
        "import importlib, sys; from engram.interfaces.cli import main; "
        "importlib.import_module('engram.interfaces.cli.dream')._LEAST_INTERVAL = 0.1; "
        f"sys.argv = ['engram', 'dream', 'loop', '--every', '1s', '--store', {str(store)!r}]; main()"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", script], stdout=pipe, stderr=pipe, text=True)
    try:
        until(lambda: log.exists() and "A round of passes failed" in log.read_text())
        store.unlink()
        with library.Engram(str(store)) as eng:
            eng.sessions.complete(talk(eng))
            # The line about the pass is the last thing that a round writes.
            until(lambda: any("A round of passes failed" not in line for line in log.read_text().splitlines()))
        for file in tmp_path.glob("engram.db*"):
            file.unlink()
        store.write_text("This is no store. " * 500)
        said = log.read_text().count("A round of passes failed")
        until(lambda: log.read_text().count("A round of passes failed") > said)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert len(out.splitlines()) == 1
    lines = err.splitlines()
    assert len(lines) >= 2 and all(line.startswith("A round of passes failed: ") for line in lines), err


@pytest.mark.requirement("DUE-1", "CLI-1")
def test_the_rule_for_waiting_gists_agrees_with_the_time_beside_it(eng: library.Engram, engram: Engram) -> None:
    eng.sessions.complete(talk(eng))
    eng.dream(force=True, stages=["sessions"])
    out = engram("dream", "status").out
    assert "or on the next day, because there is no portrait yet. By itself at " in out
    assert "after a week" not in out
    eng.dream(force=True)
    eng.sessions.complete(talk(eng, "another thing"))
    eng.dream(force=True, stages=["sessions"])
    out = engram("dream", "status").out
    assert "on the next day with 2, after a week with 1. By itself at " in out


@pytest.mark.requirement("DREAM-22", "CLI-1")
def test_what_a_stage_left_out_is_said_in_words(
    eng: library.Engram, engram: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(eng)
    (report,) = eng.dream(force=True)
    shown = report._replace(left_out={"sessions": 7, "eras": 1})
    monkeypatch.setattr(library.Engram, "dream", lambda self, **options: [shown])
    assert re.search(r"left out +7 items of the stage sessions, 1 item of the stage eras\n", engram("dream").out)
