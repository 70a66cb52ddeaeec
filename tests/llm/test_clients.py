"""Clients as thinkers, with a program that stands for the client. `make e2e` runs the real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engram import InvalidInput, LLMMalformed, LLMRefused, LLMTruncated, LLMUnavailable
from engram.llm import CLIENTS, Passage, Prompt, Provider, Usage, load
from engram.llm.clients import MARK, client, programs, running
from tests._alive import is_running
from tests._waiting import until
from tests.llm._client import FakeClient
from tests.llm.conftest import Ledger, Refused

SCHEMA = {
    "type": "object",
    "properties": {"gist": {"type": "string", "maxLength": 30}, "lines": {"type": "integer"}},
    "required": ["gist", "lines"],
    "additionalProperties": False,
}
PROMPT = Prompt("gist", "Say what happened.", (Passage("e1", "user", "Mail ann@example.org about $foo."),))
GOOD = '{"gist": "It went well.", "lines": 1}'

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the processes are looked at in /proc")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(MARK, raising=False)
    return FakeClient(tmp_path / "bin")


def thinker(
    fake: FakeClient, *, timeout: float = 30, ledger: Ledger | None = None, name: str = "claude-code"
) -> Provider:
    provider = load(name, programs={name.partition(":")[0]: str(fake.program)}, timeout=timeout, meter=ledger)
    assert provider is not None
    return provider


def left(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "cache" / "thinkers").iterdir()]


@pytest.mark.requirement("THINK-1")
def test_the_prompt_is_on_standard_input_and_in_no_argument(fake: FakeClient) -> None:
    fake.answers(GOOD)
    answer = thinker(fake).complete(PROMPT, system="You distil.", schema=SCHEMA)
    assert answer.data == {"gist": "It went well.", "lines": 1}
    assert answer.usage == Usage(1, 11, 7)
    (run,) = fake.runs
    assert "Say what happened." in run["prompt"]
    said = " ".join(run["arguments"])
    assert "example.org" not in said
    assert "Say what happened" not in said


@pytest.mark.requirement("THINK-1")
def test_it_runs_in_an_empty_folder_of_its_owner_alone_and_nothing_is_left(fake: FakeClient, tmp_path: Path) -> None:
    fake.does(transcript=True, out=json.dumps({"result": GOOD}))
    assert thinker(fake).complete(PROMPT, schema=SCHEMA).data
    (run,) = fake.runs
    assert (run["entries"], run["mode"]) == ([], "0o700")
    assert not Path(run["folder"]).exists()
    assert left(tmp_path) == []


@pytest.mark.requirement("THINK-1")
def test_it_gets_the_mark_and_its_login_and_no_other_variable(
    fake: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "its own")
    monkeypatch.setenv("GITHUB_TOKEN", "not its own")
    monkeypatch.setenv("NODE_OPTIONS", "--require=/repository/evil.js")
    monkeypatch.setenv("CLAUDECODE", "1")
    fake.answers(GOOD)
    thinker(fake).complete(PROMPT, schema=SCHEMA)
    (run,) = fake.runs
    seen = run["environment"]
    assert (seen[MARK], seen["ANTHROPIC_API_KEY"], seen["HOME"]) == ("1", "its own", os.environ["HOME"])
    assert not {"GITHUB_TOKEN", "NODE_OPTIONS", "CLAUDECODE", "ENGRAM_EMBEDDER"} & seen.keys()


@pytest.mark.requirement("THINK-2")
def test_a_mention_in_a_quoted_text_is_hidden_from_the_client_and_shown_in_a_plain_answer(fake: FakeClient) -> None:
    fake.answers("Ann is ann\\u0040example.org.")
    answer = thinker(fake).complete(PROMPT)
    assert answer.text == "Ann is ann@example.org."
    (run,) = fake.runs
    assert "@" not in run["prompt"]
    rows = [json.loads(line) for line in run["prompt"].splitlines() if line.startswith("{")]
    assert [row["text"] for row in rows] == ["Mail ann@example.org about $foo."]


@pytest.mark.requirement("THINK-2")
def test_codex_s_mentions_of_skills_are_hidden_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "cache"))
    fake = FakeClient(tmp_path / "bin", "codex")
    events = [
        {"type": "item.completed", "item": {"type": "agent_message", "text": GOOD}},
        {"type": "turn.completed", "usage": {"input_tokens": 8, "output_tokens": 7}},
    ]
    fake.does(out="\n".join(map(json.dumps, events)))
    answer = thinker(fake, name="codex").complete(PROMPT, schema=SCHEMA)
    assert (answer.data, answer.usage) == ({"gist": "It went well.", "lines": 1}, Usage(1, 8, 7))
    listing, asking = fake.runs
    assert listing["arguments"][:2] == ["debug", "models"]
    assert not {"@", "$"} & set(asking["prompt"])


@pytest.mark.requirement("THINK-3")
def test_a_client_without_a_fixed_program_is_not_run_though_path_has_one(
    fake: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    provider = load("claude-code")
    assert provider is not None
    with pytest.raises(LLMUnavailable, match=r"not fixed yet.*engram dream thinker claude-code"):
        provider.complete(PROMPT)
    assert fake.runs == []


@pytest.mark.requirement("THINK-3")
def test_a_false_program_earlier_on_path_is_not_run(
    fake: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    false = FakeClient(tmp_path / "repository" / "bin")
    for interpreter in ("env", "python3", "node", "sh"):
        (false.folder / interpreter).write_bytes(false.program.read_bytes())
        (false.folder / interpreter).chmod(0o755)
    monkeypatch.setenv("PATH", f"{false.folder}:{os.environ['PATH']}")
    fake.answers(GOOD)
    assert thinker(fake).complete(PROMPT, schema=SCHEMA).data
    assert (len(fake.runs), false.runs) == (1, [])
    assert str(false.folder) not in fake.runs[0]["environment"]["PATH"]


@pytest.mark.requirement("THINK-3")
def test_a_missing_program_is_refused_before_a_call_is_counted(fake: FakeClient) -> None:
    fake.program.unlink()
    ledger = Ledger()
    with pytest.raises(LLMUnavailable, match="claude is missing"):
        thinker(fake, ledger=ledger).complete(PROMPT)
    assert ledger.expected == []


@pytest.mark.requirement("THINK-3")
@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_program_that_others_can_write_is_refused(fake: FakeClient, mode: int) -> None:
    fake.program.chmod(mode)
    with pytest.raises(LLMUnavailable, match="writable by others"):
        thinker(fake).complete(PROMPT)
    assert fake.runs == []


@pytest.mark.requirement("THINK-3")
def test_a_program_in_a_folder_that_others_can_write_is_refused_also_behind_a_link(
    fake: FakeClient, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(fake.program)
    assert programs.problem(str(link)) is None
    fake.folder.chmod(0o777)
    assert "writable by others" in (programs.problem(str(link)) or "")
    with pytest.raises(LLMUnavailable, match="writable by others"):
        thinker(fake).complete(PROMPT)


@pytest.mark.requirement("THINK-3")
def test_a_program_is_looked_for_outside_the_repository_and_in_absolute_folders(
    fake: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    false = FakeClient(tmp_path / "repository" / "bin")
    (tmp_path / "repository" / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "repository")
    monkeypatch.setenv("PATH", f"bin:{false.folder}:{fake.folder}")
    assert programs.find("claude") == str(fake.program)
    monkeypatch.setenv("PATH", f"bin:{false.folder}")
    assert programs.find("claude") is None


@pytest.mark.requirement("THINK-4")
def test_the_time_limit_ends_the_client_and_a_grandchild_that_ignores_sigterm(fake: FakeClient, tmp_path: Path) -> None:
    fake.does(sleep=300, ignores_term=True, grandchild="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    ledger = Ledger()
    began = time.monotonic()
    with pytest.raises(LLMUnavailable, match="did not answer within 1 seconds, and was ended"):
        thinker(fake, timeout=1, ledger=ledger).complete(PROMPT)
    assert time.monotonic() - began < 20
    (run,) = fake.runs
    grandchild = int((fake.folder / "grandchild").read_text())
    assert not is_running(run["pid"])
    assert not is_running(grandchild)
    assert left(tmp_path) == []
    (spent,) = ledger.spent
    assert spent.input_tokens > 0, "what was read before the end is paid for"


@pytest.mark.requirement("THINK-4")
def test_a_grandchild_with_a_session_of_its_own_is_ended_when_the_client_has_answered(fake: FakeClient) -> None:
    marker = fake.folder / "escaped"
    fake.answers(GOOD)
    script = json.loads((fake.folder / "script.json").read_text())
    escape = f"os.setsid()\nopen({str(marker)!r}, 'w').close()"
    fake.does(**script, grandchild=escape, wait_for="escaped")
    assert thinker(fake).complete(PROMPT, schema=SCHEMA).data
    assert marker.exists()
    assert not is_running(int((fake.folder / "grandchild").read_text()))


@pytest.mark.requirement("THINK-4")
def test_killing_the_supervisor_ends_the_client_and_its_processes(fake: FakeClient, tmp_path: Path) -> None:
    fake.does(sleep=300, grandchild="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    failures: list[Exception] = []

    def think() -> None:
        try:
            thinker(fake).complete(PROMPT)
        except LLMUnavailable as error:
            failures.append(error)

    thread = threading.Thread(target=think)
    thread.start()
    until(lambda: (fake.folder / "started").exists())
    (run,) = fake.runs
    supervisor = int(Path(f"/proc/{run['pid']}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGKILL)
    thread.join(30)
    assert "was ended before it answered" in str(failures[0])
    grandchild = int((fake.folder / "grandchild").read_text())
    until(lambda: not is_running(run["pid"]) and not is_running(grandchild))
    assert left(tmp_path) == []


_KILLED = """
import sys
from engram.llm import Passage, Prompt, load
thinker = load("claude-code", programs={"claude-code": sys.argv[1]}, timeout=300)
thinker.complete(Prompt("gist", "Say it.", (Passage("e1", "user", "hello"),)))
"""


@pytest.mark.requirement("THINK-4")
@pytest.mark.parametrize("group", [False, True])
def test_killing_engram_ends_the_client_and_leaves_nothing(fake: FakeClient, tmp_path: Path, group: bool) -> None:
    fake.does(sleep=300, transcript=True, ignores_term=True, grandchild="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    thinking = subprocess.Popen([sys.executable, "-c", _KILLED, str(fake.program)], start_new_session=True)
    until(lambda: (fake.folder / "started").exists())
    (run,) = fake.runs
    grandchild = int((fake.folder / "grandchild").read_text())
    assert is_running(run["pid"])
    if group:
        os.killpg(thinking.pid, signal.SIGKILL)
    else:
        thinking.kill()
    thinking.wait()
    until(lambda: not is_running(run["pid"]) and not is_running(grandchild))
    until(lambda: left(tmp_path) == [])


@pytest.mark.requirement("THINK-4")
def test_a_folder_that_a_lost_machine_left_is_removed_by_the_next_run(fake: FakeClient, tmp_path: Path) -> None:
    lost = tmp_path / "cache" / "thinkers" / "run-lost"
    lost.mkdir(parents=True)
    (lost / "transcript.jsonl").write_text("what was said")
    os.utime(lost, (1, 1))
    fake.answers(GOOD)
    with running.place() as used:
        os.utime(used.folder, (1, 1))
        thinker(fake).complete(PROMPT, schema=SCHEMA)
        assert os.path.exists(used.folder), "a run that goes on keeps its folder"
    assert left(tmp_path) == []


@pytest.mark.requirement("THINK-5")
@pytest.mark.parametrize(
    ("does", "kind", "problem"),
    [
        ({"code": 1, "err": "boom\nError: no such option --print"}, LLMUnavailable, "code 1.*no such option --print"),
        ({"code": 127, "err": "env: node: No such file"}, LLMUnavailable, "cannot be started.*node"),
        ({"out": "Hello, I am not JSON"}, LLMMalformed, "code 0 and gave no answer"),
        ({"out": "[1, 2]"}, LLMMalformed, "gave no answer"),
        ({"out": "[" * 100_000}, LLMMalformed, "gave no answer"),
        ({"out": ""}, LLMMalformed, "gave no answer"),
        ({"out": "x" * 100_000, "repeat": 100}, LLMMalformed, "far more than an answer"),
        ({"signal": 9}, LLMUnavailable, "killed .signal 9."),
        (
            {"code": 1, "out": json.dumps({"is_error": True, "result": "Not logged in · Please run /login"})},
            LLMUnavailable,
            "not logged in. Run `claude`",
        ),
        (
            {"code": 1, "out": json.dumps({"is_error": True, "result": "You have hit your limit, resets 3pm"})},
            LLMUnavailable,
            "failed: “You have hit your limit, resets 3pm”",
        ),
        ({"code": 1, "out": json.dumps({"subtype": "error_max_turns"})}, LLMMalformed, "asked for tools"),
        ({"out": json.dumps({"result": "Hm", "stop_reason": "max_tokens"})}, LLMTruncated, "cut off"),
        ({"out": json.dumps({"result": "No", "stop_reason": "refusal"})}, LLMRefused, "refused to answer"),
        ({"out": json.dumps({"result": '{"gist": 1}'})}, LLMMalformed, "two answers that cannot be used"),
    ],
)
def test_what_goes_wrong_is_said_in_plain_words(
    fake: FakeClient, tmp_path: Path, does: dict[str, object], kind: type[Exception], problem: str
) -> None:
    fake.does(**does)
    ledger = Ledger()
    with pytest.raises(kind, match=problem):
        thinker(fake, ledger=ledger).complete(PROMPT, schema=SCHEMA)
    assert len(ledger.expected) == len(ledger.spent) == len(fake.runs)
    assert left(tmp_path) == []


@pytest.mark.requirement("THINK-5")
def test_a_wrong_answer_is_asked_for_once_more_with_what_was_wrong(fake: FakeClient) -> None:
    fake.answers('{"gist": "no lines"}')
    with pytest.raises(LLMMalformed):
        thinker(fake).complete(PROMPT, schema=SCHEMA)
    first, second = fake.runs
    assert second["prompt"].startswith(first["prompt"])
    assert "has no 'lines'" in second["prompt"]


@pytest.mark.requirement("LLM-22", "THINK-5")
def test_a_client_s_answer_that_is_too_long_is_cut(fake: FakeClient) -> None:
    fake.answers("", structured_output={"gist": "It went well. " * 9, "lines": 1})
    assert thinker(fake).complete(PROMPT, schema=SCHEMA).data == {"gist": "It went well. It went well.", "lines": 1}
    assert len(fake.runs) == 1


@pytest.mark.requirement("LLM-9", "THINK-5")
def test_a_cap_refuses_the_call_before_the_client_is_started(fake: FakeClient) -> None:
    ledger = Ledger()
    ledger.cap = 0
    with pytest.raises(Refused):
        thinker(fake, ledger=ledger).complete(PROMPT)
    assert fake.runs == []


@pytest.mark.requirement("THINK-6")
def test_engram_does_not_think_inside_a_thinker(fake: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "1")
    with pytest.raises(LLMUnavailable, match="does not think inside a thinker"):
        thinker(fake).complete(PROMPT)
    assert fake.runs == []


@pytest.mark.requirement("THINK-6")
def test_under_the_mark_the_hook_and_the_server_exit_at_once_and_touch_nothing(tmp_path: Path) -> None:
    given = {**os.environ, MARK: "1", "ENGRAM_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path / "home")}
    given.pop("ENGRAM_URL", None)
    event = json.dumps({"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup", "cwd": "/"})
    for command in (["engram-hook", "claude-code"], ["engram", "mcp"]):
        program = Path(sys.executable).with_name(command[0])
        done = subprocess.run(
            [program, *command[1:]], input=event, env=given, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "home").exists()


@pytest.mark.requirement("THINK-1")
@pytest.mark.parametrize("name", CLIENTS)
def test_each_client_can_be_chosen_with_a_model_and_has_a_small_one_by_default(name: str) -> None:
    found = client(name)
    assert (provider := load(name)) and provider.name == f"{name}:{found.model}"
    assert (provider := load(f"{name}:some-model")) and provider.name == f"{name}:some-model"
    with pytest.raises(InvalidInput, match=f"model of the {name} provider"):
        load(f"{name}:")
