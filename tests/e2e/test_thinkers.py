"""The real clients as thinkers of passes: with Engram installed in them, against a scripted model."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engram import Engram
from tests.e2e.clients import CLIENTS, ENGRAM, Desk
from tests.e2e.conftest import Sit
from tests.e2e.model import Script, Thinking, serving

GIST = "The user ported the router."
#: A word of the session. It must be in no file but the store.
SECRET = "zanzibar"


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Thinking]:
    script = Script(str(tmp_path / "project" / "notes.txt"), "hello\n", GIST)
    with serving(Thinking(script)) as model:
        assert isinstance(model, Thinking)
        yield model


@pytest.fixture(params=CLIENTS)
def desk(request: pytest.FixtureRequest, sit: Sit, model: Thinking) -> Desk:
    """A desk whose client thinks, with a session to think about."""
    desk = sit(request.param)
    said = json.loads(desk.engram("dream", "thinker", request.param, "--program", desk.program, "--json"))
    assert (said["program"], said["calls"], said["warning"]) == (desk.program, 1, None)
    model.requests.clear()
    private = desk.home / "private.txt"
    private.write_text("the key of the safe is 4711")
    with Engram(desk.store) as eng:
        session = eng.sessions.register("test", "porting the router")
        eng.exchanges.add(session, "user", f"Move the {SECRET} router to Rust, see @{private} and {'$'}skills.")
        eng.exchanges.add(session, "assistant", "The parser is ported; the retry logic is open.")
        eng.sessions.complete(session, "ported")
    return desk


def dream(desk: Desk, **more: str) -> dict[str, Any]:
    (report,) = json.loads(desk.engram("dream", "--force", "--json", **more))
    return dict(report)


def gists(desk: Desk) -> list[str]:
    with Engram(desk.store) as eng:
        return [memory.content for memory in eng.memories.list(kind="gist")]


def clients_at(desk: Desk) -> list[str]:
    """The processes that think for this desk."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if b"ENGRAM_THINKER=1" in variables and f"HOME={desk.home}".encode() in variables:
            found.append(command)
    return found


def files_with(desk: Desk, word: str) -> list[str]:
    """The files in the home of the desk that hold a word."""
    files = [path for path in desk.home.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if word.encode() in path.read_bytes()]


def until(holds: Callable[[], object], within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def offered(body: dict[str, Any]) -> list[str]:
    """The tools that a request offers, without those that only take the answer."""
    declared = [each for tool in body.get("tools", ()) for each in tool.get("functionDeclarations", [tool])]
    declared += [each for item in body.get("input", ()) for each in item.get("tools", ())]
    names = [str(each.get("name") or each.get("type")) for each in declared]
    return [name for name in names if name not in ("StructuredOutput", "DeferredToolPlaceholder")]


@pytest.mark.requirement("THINK-2", "THINK-10")
def test_a_pass_thinks_with_the_client_and_leaves_no_trace_of_what_was_said(desk: Desk, model: Thinking) -> None:
    report = dream(desk)
    assert report["errors"] == []
    assert report["provider"].startswith(desk.client.name)
    assert (report["calls"] > 0, report["input_tokens"] > 0, report["output_tokens"] > 0) == (True, True, True)
    (gist,) = gists(desk)
    assert GIST in gist

    asked = [request for request in model.requests if SECRET in request.text]
    assert asked
    assert [offered(request.body) for request in model.requests] == [[]] * len(model.requests)
    assert all("4711" not in request.text for request in model.requests), "a mention of a file was expanded"
    assert files_with(desk, SECRET) == []
    assert clients_at(desk) == []
    with Engram(desk.store) as eng:
        assert {session.type for session in eng.sessions.list()} & set(CLIENTS) == set(), "a hook has seen the thinker"


@pytest.mark.requirement("THINK-10")
def test_a_tool_is_not_available_even_when_the_model_asks_for_one(desk: Desk, model: Thinking) -> None:
    model.asks_for_tool = True
    report = dream(desk)
    assert not Path(model.script.path).exists()
    assert not (desk.home / "notes.txt").exists()
    assert files_with(desk, SECRET) == []
    assert clients_at(desk) == []
    # The client tells the model that there is no such tool, and the model answers then.
    assert (report["errors"], len(gists(desk))) == ([], 1)


@pytest.mark.requirement("THINK-6", "THINK-10")
def test_under_the_mark_the_hooks_and_the_server_in_the_client_do_nothing(desk: Desk, model: Thinking) -> None:
    model.asks_for_tool = True
    with Engram(desk.store) as eng:
        before = [session.id for session in eng.sessions.list()]
        desk.prompt("Please write hello into notes.txt", ENGRAM_THINKER="1")
        assert Path(model.script.path).read_text() == "hello\n", "the client itself works as ever"
        assert [session.id for session in eng.sessions.list()] == before
        Path(model.script.path).unlink()
        desk.prompt("Please write hello into notes.txt")
        assert len(eng.sessions.list()) == len(before) + 1, "without the mark they work"


@pytest.mark.requirement("THINK-4", "THINK-10")
def test_killing_a_pass_leaves_no_client_and_nothing_half_written_and_the_next_pass_works(
    desk: Desk, model: Thinking
) -> None:
    model.hangs = True
    running = subprocess.Popen(
        [ENGRAM, "dream", "--force"], cwd=desk.project, env=desk.environment(), stdout=subprocess.DEVNULL
    )
    until(lambda: model.requests)
    assert clients_at(desk)
    running.send_signal(signal.SIGKILL)
    running.wait()
    until(lambda: not clients_at(desk))
    until(lambda: not list((desk.home / ".cache" / "engram" / "thinkers").iterdir()))
    assert gists(desk) == []
    assert files_with(desk, SECRET) == []
    asked = len(model.requests)
    time.sleep(2)
    assert len(model.requests) == asked, "nobody asks on after the kill"

    model.hangs = False
    with Engram(desk.store) as eng:
        # The lease of the killed pass ends by itself after five minutes. Nobody waits for that here.
        eng.leases.break_lease("dream", eng.sessions.register("test", "going on"), "the pass was killed")
    report = dream(desk)
    assert (report["errors"], len(gists(desk))) == ([], 1)


@pytest.mark.requirement("THINK-4", "THINK-10")
def test_a_model_that_hangs_is_ended_by_the_time_limit(desk: Desk, model: Thinking) -> None:
    model.hangs = True
    began = time.monotonic()
    report = dream(desk, ENGRAM_LLM_TIMEOUT="5s")
    assert time.monotonic() - began < 60
    assert any("did not answer within 5 seconds" in error for error in report["errors"])
    assert clients_at(desk) == []
    assert gists(desk) == []
    assert files_with(desk, SECRET) == []
