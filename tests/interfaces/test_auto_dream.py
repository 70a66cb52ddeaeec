"""Passes that start by themselves, as real processes: at the end of a session, and in an idle MCP server."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engram import Engram as Store
from engram.config import load
from engram.interfaces import auto_dream, detached
from engram.interfaces.hooks import respond
from engram.interfaces.mcp.connections import Connection
from engram.interfaces.mcp.host import DUE_EVERY, IDLE_AFTER, Host
from tests._running import serving
from tests._talks import talk
from tests._waiting import until
from tests.conftest import ShiftedClock

from .conftest import Engram, program

HOUR = 3_600.0


@pytest.fixture
def data(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Automatic passes are on. After the test no pass is running."""
    folder = tmp_path / "data"
    monkeypatch.setenv("ENGRAM_URL", store_url)
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(folder))
    monkeypatch.setenv("ENGRAM_AUTO_DREAM", "on")
    monkeypatch.chdir(tmp_path)
    Store(store_url).close()
    yield folder
    try:
        until(lambda: not running(folder))
    finally:
        for process in running(folder):
            os.kill(process, signal.SIGKILL)


def running(folder: Path) -> list[int]:
    """The detached processes that work with this data folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes() if process.name.isdigit() else b""
            variables = (process / "environ").read_bytes() if b"engram.interfaces.detached" in command else b""
        except OSError:
            continue
        if f"ENGRAM_DATA_DIR={folder}\0".encode() in variables:
            found.append(int(process.name))
    return found


def no_children() -> bool:
    detached._reap()
    return not detached._children


def payload(event: str, session: str, **fields: str) -> bytes:
    return json.dumps({"session_id": session, "hook_event_name": event, **fields}).encode()


def hook(event: str, session: str = "s1", **fields: str) -> str:
    """Handle one event in this process."""
    return respond("claude-code", payload(event, session, **fields))


def hook_process(event: str, session: str = "s1", **fields: str) -> subprocess.Popen[bytes]:
    """Handle one event as a harness does: in a process of its own."""
    command = [os.path.join(os.path.dirname(program()), "engram-hook"), "claude-code"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(payload(event, session, **fields))
    process.stdin.close()
    return process


def reporter(store_url: str) -> Callable[..., object]:
    """How a harness reports events. On a busy machine, loading PostgreSQL's driver can take a hook beyond its limit."""
    return hook if store_url.startswith("postgresql://") else in_process


def in_process(event: str, session: str = "s1", **fields: str) -> None:
    process = hook_process(event, session, **fields)
    assert process.stdout is not None
    process.stdout.read()
    process.stdout.close()
    assert process.wait(30) == 0


def work(session: str = "s1", report: Callable[..., object] = hook) -> None:
    """A session in which something was said, just before its end."""
    report("SessionStart", session, source="startup")
    report("UserPromptSubmit", session, prompt="Port the router to the new library, and always run the tests first.")
    report("Stop", session, last_assistant_message="The router is ported; all tests pass.")


@pytest.mark.requirement("AUTO-5", "AUTO-1")
def test_the_end_of_a_session_starts_a_pass_that_says_why_it_ran(
    data: Path, eng: Store, engram: Engram, store_url: str
) -> None:
    report_event = reporter(store_url)
    work(report=report_event)
    assert running(data) == []
    report_event("SessionEnd", reason="other")
    until(lambda: eng.dreams.list() and eng.dreams.list()[0].ended_at)
    (report,) = eng.dreams.list()
    session = eng.sessions.find("s1", "claude-code")
    assert session is not None
    assert (report.reason, report.gists, report.errors, report.provider) == (
        "session end",
        [session.id],
        [],
        "extractive",
    )
    until(lambda: not running(data))
    (line,) = (data / "dream.log").read_text().splitlines()
    assert f"pass {report.id} (session end)" in line
    assert "router" not in line
    assert stat.S_IMODE((data / "dream.log").stat().st_mode) == 0o600
    assert not (data / "hook.log").exists()
    shown = engram("dream", "status").out
    assert ", session end: 1 gist" in shown
    assert "on, without a model (extractive); last " in shown
    # The next end within the hour starts nothing.
    work("s2", report_event)
    report_event("SessionEnd", "s2", reason="other")
    assert running(data) == []
    assert "The last automatic pass began too recently. The next pass" in engram("dream", "--if-due").out


@pytest.mark.requirement("AUTO-5")
def test_a_session_that_a_clear_ends_starts_a_pass_too(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(auto_dream, "start", lambda settings, reason: started.append(reason))
    monkeypatch.setattr("engram.interfaces.harness_process.find", lambda: "boot:1:1")
    monkeypatch.setattr("engram.interfaces.harness_process.has_many_sessions", lambda process: False)
    work()
    hook("SessionStart", "s2", source="clear")
    assert started == ["session end"]


@pytest.mark.requirement("AUTO-6")
def test_two_sessions_that_end_at_once_start_one_pass(data: Path, eng: Store, store_url: str) -> None:
    report_event = reporter(store_url)
    for session in ("s1", "s2"):
        work(session, report_event)
    if report_event is hook:
        for session in ("s1", "s2"):
            hook("SessionEnd", session, reason="other")
    else:
        ends = [hook_process("SessionEnd", session, reason="other") for session in ("s1", "s2")]
        for process in ends:
            assert process.wait(30) == 0
            assert process.stdout is not None
            process.stdout.close()
    until(lambda: eng.dreams.list() and eng.dreams.list()[0].ended_at)
    until(lambda: not running(data))
    assert len(eng.dreams.list()) == 1
    assert len((data / "dream.log").read_text().splitlines()) == 1


@pytest.mark.requirement("AUTO-6")
def test_a_killed_pass_leaves_nothing_half_done_and_the_next_one_works(
    data: Path, eng: Store, store_url: str, clock: ShiftedClock
) -> None:
    sessions = [talk(eng, f"task {number}") for number in range(80)]
    for session in sessions:
        eng.sessions.complete(session)
    assert auto_dream.start(load(), auto_dream.SESSION_END)
    until(lambda: eng.memories.list(kind="gist", limit=1))
    (process,) = running(data)
    os.kill(process, signal.SIGKILL)
    until(lambda: not running(data))
    made = {str(gist.key) for gist in eng.memories.list(kind="gist", limit=0)}
    assert 0 < len(made) < 80
    assert made == {session for session in sessions if not eng.memories.unsummarised(session)}
    # The system releases the lock a moment after the process is gone.
    until(lambda: not detached.is_running(auto_dream.lock_name(load()), load()))
    clock.advance(HOUR)
    assert eng.dreams.list()[0].errors == ["This pass did not end."]
    (report,) = eng.dream_if_due("session end")
    assert sorted(getattr(report, "gists", [])) == sorted(set(sessions) - made)
    assert getattr(report, "errors", None) == []


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program in Python's place, which writes down how it was started and waits to be told to end."""
    report = tmp_path / "report.json"
    script = tmp_path / "probe"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys, time\n"
        "from engram.interfaces import detached\n"
        "import engram.interfaces.cli as cli\n"
        "def run(arguments):\n"
        "    fds = {fd: os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')\n"
        "           if os.path.exists(f'/proc/self/fd/{fd}')}\n"
        "    known = dict(arguments=arguments, environ=dict(os.environ), cwd=os.getcwd(), nice=os.nice(0),\n"
        "                 sid=os.getsid(0), pid=os.getpid(), fds=fds)\n"
        f"    open({str(report)!r} + '.draft', 'w').write(json.dumps(known))\n"
        f"    os.rename({str(report)!r} + '.draft', {str(report)!r})\n"
        "    deadline = time.monotonic() + 60\n"
        f"    while not os.path.exists({str(report)!r} + '.end') and time.monotonic() < deadline: time.sleep(0.02)\n"
        "    return 0\n"
        "cli.run = run\n"
        "sys.exit(detached.main(sys.argv[4:]))\n"
    )
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    yield report
    Path(f"{report}.end").touch()
    until(no_children)


@pytest.mark.requirement("AUTO-5", "AUTO-6", "AUTO-7")
def test_the_hook_does_not_wait_for_the_pass_which_has_what_it_needs_and_no_more(
    data: Path, probe: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ENGRAM_SESSION"):
        monkeypatch.setenv(name, "a client's own")
    monkeypatch.setenv("ENGRAM_WORKSPACE", "mine")
    work()
    assert hook("SessionEnd", reason="other") == ""
    until(probe.exists)
    # The hook has ended, and the pass is still running.
    known = json.loads(probe.read_text())
    assert known["arguments"] == ["dream", "--if-due", "--reason", "session end"]
    assert (known["cwd"], known["sid"]) == (str(data), known["pid"])
    assert known["nice"] == detached.NICENESS + os.nice(0)
    environment = known["environ"]
    assert (environment["ENGRAM_URL"], environment["ENGRAM_WORKSPACE"]) == (store_url, "mine")
    assert "a client's own" not in environment.values()
    lock = str(data / f"{auto_dream.lock_name(load())}.lock")
    assert {target for target in known["fds"].values() if target not in ("/dev/null", lock)} == set()
    # One workspace's pass does not stop another's.
    other = load(workspace="other")
    assert not detached.start(auto_dream.lock_name(load()), ["dream"], load(), pause=0)
    assert auto_dream.lock_name(other) != auto_dream.lock_name(load())
    assert auto_dream.start(other, auto_dream.SESSION_END)


@pytest.mark.requirement("AUTO-7")
@pytest.mark.parametrize(
    ("settings", "passed_on"),
    [
        ({}, set()),
        ({"llm": "openai:gpt"}, set()),
        ({"llm": "openai:gpt", "auto_dream_llm": "same"}, {"OPENAI_API_KEY", "HTTPS_PROXY"}),
        ({"llm": "anthropic", "auto_dream_llm": "same"}, {"ANTHROPIC_API_KEY", "HTTPS_PROXY"}),
        ({"llm": "agent", "auto_dream_llm": "same"}, set()),
        ({"embedder": "openai"}, {"OPENAI_API_KEY", "HTTPS_PROXY"}),
    ],
)
def test_a_key_is_passed_on_only_to_the_model_that_may_be_used(settings: dict[str, Any], passed_on: set[str]) -> None:
    chosen = load(**settings)
    given = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HTTPS_PROXY", "GITHUB_TOKEN"), "x")
    kept = detached.environment(given, chosen, auto_dream.needed_variables(chosen))
    assert set(kept) & set(given) == passed_on


@pytest.mark.requirement("AUTO-6")
def test_the_lock_has_the_name_of_the_store_without_its_password_and_of_the_workspace() -> None:
    first, second = load(url="postgresql://u:one@host/db"), load(url="postgresql://u:two@host/db")
    assert auto_dream.lock_name(first) == auto_dream.lock_name(second)
    names = {auto_dream.lock_name(load(url=url, workspace=name)) for url in ("a.db", "b.db") for name in ("x", "y")}
    assert len(names) == 4


@pytest.mark.requirement("AUTO-9")
def test_the_setting_turns_it_off(data: Path, monkeypatch: pytest.MonkeyPatch, engram: Engram) -> None:
    monkeypatch.setenv("ENGRAM_AUTO_DREAM", "off")
    work()
    hook("SessionEnd", reason="other")
    assert not list(data.glob("dream-*"))
    assert "automatic  off (auto_dream)" in engram("dream", "status").out
    # A person or a timer can still ask for it.
    assert ", if due" in engram("dream", "--if-due").out


@pytest.mark.requirement("AUTO-9")
def test_a_project_s_file_may_only_turn_it_off(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGRAM_AUTO_DREAM")
    (tmp_path / ".engram.toml").write_text('auto_dream = "off"\nauto_dream_llm = "same"\nauto_dream_every = "1s"\n')
    settings = load()
    assert (settings.auto_dream, settings.auto_dream_llm, settings.auto_dream_every) == ("off", "extractive", HOUR)
    assert len(settings.notices) == 2
    config = Path(os.environ["ENGRAM_CONFIG_DIR"])
    config.mkdir(parents=True)
    (config / "config.toml").write_text('auto_dream = "off"\n')
    (tmp_path / ".engram.toml").write_text('auto_dream = "on"\n')
    assert load().auto_dream == "off"


_MODULES = """
import os, sys
from engram.interfaces import hooks
leave = os._exit
def exit(code):
    os.write(1, ("\\n" + " ".join(sorted(sys.modules))).encode())
    leave(code)
os._exit = exit
# A busy machine may need more time to load PostgreSQL's driver than a hook has.
hooks.LIMIT, hooks.THREAD_LIMIT, hooks.HARD_LIMIT = 60, 61, 62
sys.argv = ["engram-hook", "claude-code"]
hooks.main()
"""


@pytest.mark.requirement("AUTO-5")
def test_the_hook_imports_nothing_to_find_out_whether_a_pass_is_due(data: Path, eng: Store) -> None:
    """It is not due: the last one began just now."""
    loaded = {}
    for setting in ("off", "on"):
        work(setting)
        if setting == "off":
            talk_ended = talk(eng)
            eng.sessions.complete(talk_ended)
            eng.dream_if_due()
        run = subprocess.run(
            [sys.executable, "-c", _MODULES],
            input=payload("SessionEnd", setting, reason="other"),
            env={**os.environ, "ENGRAM_AUTO_DREAM": setting},
            capture_output=True,
            check=True,
        )
        loaded[setting] = set(run.stdout.decode().split())
    assert loaded["on"] - loaded["off"] == set()
    assert {"engram.interfaces.hooks.handlers"} <= loaded["on"]
    assert not {name for name in loaded["on"] if name.startswith("engram.dreaming")}


@pytest.mark.requirement("AUTO-8")
def test_an_idle_server_starts_what_is_due_and_a_call_puts_it_off(
    data: Path, store_url: str, probe: Path, clock: ShiftedClock
) -> None:
    eng = Store(settings=load(), clock=clock)
    host = Host(lambda: eng, clock=clock.monotonic)
    eng.remember("Invoices are due in March.")  # a store of memories alone
    clock.advance(IDLE_AFTER + 1)
    assert not host.dream_when_idle(), "nothing is due"
    clock.advance(86_400)
    assert host.call(Connection(), "recall", {"query": "invoices"}) is not None
    assert not host.dream_when_idle(), "a call was made just now"
    clock.advance(IDLE_AFTER)
    assert host.dream_when_idle()
    until(probe.exists)
    assert json.loads(probe.read_text())["arguments"] == ["dream", "--if-due", "--reason", "idle server"]
    # Calls are answered while the pass runs.
    assert host.call(Connection(), "recall", {"query": "invoices"}) is not None
    clock.advance(IDLE_AFTER + DUE_EVERY)
    assert not host.dream_when_idle(), "one is running"
    eng.close()


@pytest.mark.requirement("AUTO-8", "AUTO-9")
def test_an_idle_server_looks_once_a_minute_and_not_at_all_if_it_is_off(
    open_store: Callable[..., Store], clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def look(self: Store) -> bool:
        looks.append("looked")
        return False

    monkeypatch.setattr(Store, "is_dream_due", look)
    host = Host(lambda: open_store(auto_dream="on"), clock=clock.monotonic)
    clock.advance(IDLE_AFTER)
    for _ in range(10):
        host.dream_when_idle()
        clock.advance(20)
    assert len(looks) == 4
    off = Host(lambda: open_store(auto_dream="off"), clock=clock.monotonic)
    clock.advance(IDLE_AFTER)
    assert not off.dream_when_idle()
    assert len(looks) == 4


@pytest.mark.requirement("AUTO-8")
def test_a_real_server_starts_a_pass_in_the_background(data: Path, eng: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    eng.sessions.complete(talk(eng))
    monkeypatch.setattr("engram.interfaces.mcp.host.IDLE_AFTER", 0.0)
    monkeypatch.setattr("engram.interfaces.mcp.host.DUE_EVERY", 0.0)
    host = Host(lambda: Store(settings=load()))
    thread = host.work_in_background()
    until(lambda: eng.dreams.list() and eng.dreams.list()[0].ended_at)
    assert eng.dreams.list()[0].reason == "idle server"
    host.close()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.requirement("SERVER-24", "AUTO-8")
def test_an_http_server_dreams_in_every_workspace_where_a_pass_is_due(
    data: Path, eng: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.interfaces.http.chores.DUE_EVERY", 0.0)
    views = [eng.workspace(name) for name in ("one", "two")]
    for view in views:
        view.sessions.complete(talk(view))
    with Store(settings=load()) as served:
        with serving(served, chores=True, dream=False):
            pass
        assert running(data) == [], "it was told not to dream"
        with serving(served, chores=True):
            until(lambda: all(view.dreams.list() and view.dreams.list()[0].ended_at for view in views))
    assert [view.dreams.list()[0].reason for view in views] == ["idle server"] * 2


@pytest.mark.requirement("AUTO-1", "CLI-1")
def test_if_due_says_in_a_sentence_why_nothing_ran(eng: Store, engram: Engram) -> None:
    outcome = engram("dream", "--if-due")
    assert (outcome.code, outcome.out) == (0, "No pass was started in workspace default. Nothing is due.\n")
    eng.sessions.complete(talk(eng))
    other = eng.sessions.register("dream", "dreaming")
    lease = eng.leases.claim(other, "dream", exclusive=True, ttl=300)
    outcome = engram("dream", "--if-due")
    assert outcome.code == 0
    assert "another pass is running" in outcome.out
    eng.leases.release(other, lease.resource)
    (report,) = engram("dream", "--if-due", "--json").json
    assert (report["reason"], len(report["gists"])) == ("if due", 1)
    (answer,) = engram("dream", "--if-due", "--json").json
    assert answer["why"] == "Nothing is due."
    assert engram("dream", "--if-due", "--force").code == 2


@pytest.mark.requirement("AUTO-4", "DREAM-22")
def test_a_loop_takes_all_workspaces_and_ends_on_a_signal(store_url: str, data: Path, eng: Store) -> None:
    for name in ("anna", "ben"):
        eng.workspace(name).sessions.complete(talk(eng.workspace(name)))
    pipe = subprocess.PIPE
    loop = subprocess.Popen([program(), "dream", "loop", "--now"], stdout=pipe, stderr=pipe, text=True)
    try:
        until(lambda: all(eng.workspace(name).dreams.list() for name in ("anna", "ben")))
        until(lambda: (data / "dream.log").exists() and (data / "dream.log").read_text().count("\n") == 2)
        loop.send_signal(signal.SIGTERM)
        out, err = loop.communicate(timeout=60)
    finally:
        loop.kill()
    assert (loop.returncode, err) == (0, "")
    assert sorted(line.partition(":")[0] for line in out.splitlines()) == ["anna", "ben"]
    assert all(eng.workspace(name).leases.list() == [] for name in ("anna", "ben"))
