"""`engram init`: from an installed program to an answer about the person's own past."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram import Engram as Store
from engram import StoreNotFound
from engram.interfaces.beginning.answering import answered, query
from engram.interfaces.cli import init as command
from engram.interfaces.cli import run
from engram.interfaces.install.commands import Commands
from engram.interfaces.install.plan import HARNESSES, Location, state
from tests._running import Running
from tests.interfaces._home import AGENTS, ASK, RESULT, SETTINGS, TALKS, claude_code, make_home, make_programs

from .conftest import Outcome, program

Init = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with four agents, their programs on the search path, and no store yet."""
    home = tmp_path / "home"
    home.mkdir()
    make_home(home, programs=tmp_path / "programs")
    settle(home, tmp_path, monkeypatch)
    return home


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    settle(home, tmp_path, monkeypatch)
    return home


def settle(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{folder / 'programs'}:/usr/bin:/bin")
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(home / "data"))
    monkeypatch.setenv("ENGRAM_CONFIG_DIR", str(home / "config"))
    monkeypatch.setenv("ENGRAM_EMBEDDER", "auto")
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(variable, raising=False)
    (folder / "work").mkdir()
    monkeypatch.chdir(folder / "work")


@pytest.fixture
def init(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Init:
    """Runs `engram init …` in this process, with the fast embedder."""
    monkeypatch.setenv("ENGRAM_EMBEDDER", "static")

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(["init", *arguments])
        return Outcome(code, *capsys.readouterr())

    return call


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_set_up(name: str) -> bool:
    from engram.interfaces.install.commands import this_installation

    commands: Commands = this_installation()
    return state(HARNESSES[name], Location(), commands) == "ready"


def steps(outcome: Outcome, step: str) -> dict[str, str]:
    """The state of each part of a step."""
    return {each["about"]: each["state"] for each in outcome.json["steps"] if each["step"] == step}


@pytest.mark.requirement("INIT-1", "INIT-4")
def test_with_the_defaults_all_agents_are_set_up_their_past_is_imported_and_a_question_is_answered(
    home: Path, init: Init, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    done = init("--yes")
    assert done.code == 0, done.out + done.err
    assert all(map(is_set_up, AGENTS))
    for name, text in SETTINGS.items():
        for line in text.splitlines():
            assert line.strip(" ,{}") in (home / name).read_text()
    with Store(store_url) as eng:
        found = {each.type: each for each in eng.sessions.list()}
        assert found.keys() == TALKS.keys()
        assert eng.embedding_queue.size() == 0 and eng.embedders.model is not None
        assert all(eng.memories.gist(each.id) for each in found.values())
        assert eng.settings.llm == "extractive" and not (home / "config").exists()
        brief = eng.brief(project="shop")
    # The brief that is shown names the last sessions, with what came of them.
    assert ASK in brief and RESULT in brief and TALKS["codex"][0] in brief
    assert f"(claude-code): {ASK}" in done.out
    question, answer = done.out.partition("  Q  ")[2].split("\n")[:2]
    assert question == f"What came of “{ASK}”?"
    assert answer == f"  A  {RESULT}"
    assert "claude-code in shop, 2026-03-04. All of it: engram history" in done.out
    assert "engram open" in done.out and "engram brief --project shop" in done.out


@pytest.mark.requirement("INIT-1")
def test_the_answer_is_to_what_was_asked_last_in_a_session_about_several_things(store_url: str) -> None:
    said = (
        ("user", "The login page is slow on mobile, around four seconds"),
        ("assistant", "I split the bundle. The login page now loads in 1.3 seconds."),
        ("user", "Customers in Japan complained about the dates"),
        ("assistant", "The interface now formats dates with the customer's own locale."),
    )
    with Store(store_url) as eng:
        session = eng.sessions.register("claude-code", said[0][1])
        for role, text in said:
            eng.exchanges.add(session, role, text)
        eng.sessions.complete(session)
        eng.dream(force=True, stages=["sessions"])
        found = answered(eng)
    assert found is not None
    assert found.question == "What came of “Customers in Japan complained about the dates”?"
    assert found.answer == said[3][1]


@pytest.mark.requirement("INIT-1")
def test_no_question_is_made_of_a_session_in_which_the_person_said_nothing(store_url: str) -> None:
    with Store(store_url) as eng:
        session = eng.sessions.register("claude-code", "")
        eng.exchanges.add(session, "assistant", "Your shareable report on the usage is ready to be read.")
        eng.sessions.complete(session)
        eng.dream(force=True, stages=["sessions"])
        assert answered(eng) is None and query(eng) is None


@pytest.mark.requirement("INIT-1")
def test_the_query_that_is_offered_finds_something(home: Path, init: Init) -> None:
    offered = init("--yes", "--json").json["next"][1]
    assert offered.startswith("engram recall ")
    shown = subprocess.run(
        [program(), *shlex.split(offered)[1:]], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert any(result in shown for _, result in TALKS.values())


@pytest.mark.requirement("INIT-2")
def test_a_second_run_asks_and_changes_nothing(home: Path, init: Init) -> None:
    first = init("--yes", "--json")
    with Store(home / "data" / "engram.db") as eng:
        latest = eng.changes.latest
    settings = {name: text for name, text in tree(home).items() if not name.startswith("data")}
    again = init("--yes", "--json")
    assert again.code == 0
    assert {each["state"] for each in again.json["steps"]} == {"kept"}
    assert again.json["answered"] == first.json["answered"]
    with Store(home / "data" / "engram.db") as eng:
        assert eng.changes.latest == latest
    assert {name: text for name, text in tree(home).items() if not name.startswith("data")} == settings


@pytest.mark.requirement("INIT-2")
def test_a_later_run_imports_only_what_is_new(home: Path, init: Init) -> None:
    init("--yes")
    claude_code(home, "22222222-0000-4000-8000-000000000002", "Drop the old queue", "Dropped it.", day="2026-03-05")
    again = init("--yes", "--json")
    assert steps(again, "import") == {"claude-code": "done", "codex": "kept", "gemini": "kept", "cursor": "kept"}
    (told,) = (each["text"] for each in again.json["steps"] if each["state"] == "done" and each["step"] == "import")
    assert told == "Claude Code: imported 1 session, 2 turns from 2026-03-05."
    assert steps(again, "dream") == {"extractive": "done"}


@pytest.mark.requirement("INIT-3")
def test_a_dry_run_shows_everything_and_changes_nothing(home: Path, init: Init) -> None:
    before = tree(home)
    shown = init("--dry-run")
    assert shown.code == 0
    assert tree(home) == before and not (home / "data").exists()
    for name in SETTINGS:
        assert f"change ~/{name}" in shown.out
    assert "Claude Code: would import 1 session, 2 turns from 2026-03-04." in shown.out
    assert "Nothing was changed." in shown.out
    planned = init("--dry-run", "--json").json
    assert {each["state"] for each in planned["steps"]} == {"planned", "kept"}
    assert planned["answered"] is None and tree(home) == before


@pytest.mark.requirement("INIT-3")
def test_a_dry_run_leaves_a_store_that_is_there_as_it_is(home: Path, init: Init) -> None:
    init("--yes")
    claude_code(home, "22222222-0000-4000-8000-000000000002", "Drop the old queue", "Dropped it.", day="2026-03-05")
    before = tree(home)
    assert steps(init("--dry-run", "--json"), "import")["claude-code"] == "planned"
    assert tree(home) == before


@pytest.mark.requirement("INIT-5")
def test_a_broken_settings_file_does_not_stop_the_others_and_the_end_says_what_to_repeat(
    home: Path, init: Init
) -> None:
    (home / ".gemini" / "settings.json").write_text("{ broken")
    done = init("--yes")
    assert done.code == 1
    assert (home / ".gemini" / "settings.json").read_text() == "{ broken"
    assert [name for name in AGENTS if is_set_up(name)] == ["claude-code", "codex", "cursor"]
    end = done.out.partition("Not done")[2]
    assert "settings.json was left as it is: it cannot be parsed" in end
    assert "again: engram install gemini" in end
    assert RESULT in done.out
    with Store(home / "data" / "engram.db") as eng:
        assert len(eng.sessions.list()) == 4


@pytest.mark.requirement("INIT-5")
def test_a_pipe_in_the_place_of_settings_does_not_stop_the_others(home: Path, init: Init) -> None:
    (home / ".gemini" / "settings.json").unlink()
    os.mkfifo(home / ".gemini" / "settings.json")
    done = init("--yes")
    assert done.code == 1
    assert [name for name in AGENTS if is_set_up(name)] == ["claude-code", "codex", "cursor"]
    assert "settings.json cannot be read: it is no regular file" in done.out.partition("Not done")[2]
    assert RESULT in done.out


@pytest.mark.requirement("INIT-5")
def test_transcripts_that_cannot_be_imported_do_not_stop_the_others(
    home: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram.importers import codex

    def unreadable(path: Path) -> list[Any]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(codex, "FORMAT", codex.FORMAT._replace(find=unreadable))
    done = init("--yes", "--json")
    assert done.code == 1
    assert steps(done, "import") == {"claude-code": "done", "codex": "failed", "gemini": "done", "cursor": "done"}
    (failed,) = (each for each in done.json["steps"] if each["state"] == "failed")
    assert failed["command"] == "engram import codex" and "Permission denied" in failed["text"]


@pytest.mark.requirement("INIT-6")
def test_an_import_that_takes_too_long_stops_and_says_how_to_go_on(
    home: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "IMPORTING", -1.0)
    done = init("--yes")
    assert done.code == 0
    assert "Not reached in time: 1 file. The rest later: engram import claude-code" in done.out
    assert "There is nothing to remember yet." in done.out


@pytest.mark.requirement("INIT-6")
def test_embedding_and_dreaming_that_take_too_long_are_no_failures(
    home: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "EMBEDDING", -1.0)
    monkeypatch.setattr(command, "DREAMING", 0.0)
    done = init("--yes", "--json")
    assert done.code == 0 and done.json["failed"] == 0
    (told,) = (each for each in done.json["steps"] if each["step"] == "embed")
    assert told["command"] == "engram embed" and "without an embedding yet" in told["text"]
    assert steps(done, "dream") == {"extractive": "done"}
    assert done.json["answered"] is not None


@pytest.mark.requirement("INIT-7")
def test_without_an_agent_nothing_is_stored_and_it_says_what_will_fill_the_store(empty_home: Path, init: Init) -> None:
    done = init("--yes")
    assert done.code == 0
    assert "Not found: Claude Code, Codex, Gemini CLI, Cursor." in done.out
    assert "There is nothing to remember yet." in done.out and "engram demo" in done.out
    with Store(empty_home / "data" / "engram.db") as eng:
        assert eng.workspace_names() == []
    assert not list(empty_home.glob(".*"))


@pytest.mark.requirement("INIT-7")
def test_only_agents_that_are_here_are_set_up(empty_home: Path, init: Init, tmp_path: Path) -> None:
    make_programs(tmp_path / "programs")
    for name in ("codex", "gemini", "cursor-agent"):
        (tmp_path / "programs" / name).unlink()
    assert init("--yes").code == 0
    assert [name for name in AGENTS if is_set_up(name)] == ["claude-code"]


@pytest.mark.requirement("INIT-8")
@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_without_a_terminal_it_asks_nothing_and_only_creates_the_store(home: Path, arguments: list[str]) -> None:
    ended = run_without_terminal(*arguments)
    assert ended.returncode == 0
    assert "engram.db" in ended.stdout
    again = run_without_terminal(*arguments)
    for said in (ended.stderr, again.stderr):
        assert ("nothing else was set up. --yes takes the defaults." in said) == (not arguments)
        assert "created" not in said
    assert [name for name in AGENTS if is_set_up(name)] == []


@pytest.mark.requirement("INIT-8")
@pytest.mark.parametrize("arguments", [["--store-only", "--yes"], ["--store-only", "--dry-run"]])
def test_only_the_store_and_everything_else_exclude_each_other(home: Path, arguments: list[str]) -> None:
    before = tree(home)
    assert run_without_terminal(*arguments).returncode == 2
    assert tree(home) == before


def run_without_terminal(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program(), "init", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.requirement("INIT-8")
def test_for_a_service_it_only_creates_the_store(home: Path, init: Init) -> None:
    before = tree(home)
    done = init("--store-only", "--json")
    assert done.json == {"store": str(home / "data" / "engram.db"), "workspace": "default"}
    assert {name: text for name, text in tree(home).items() if not name.startswith("data")} == before
    with pytest.raises(StoreNotFound):
        Store(home / "data" / "other.db", create=False)


@pytest.mark.requirement("INIT-1")
def test_with_the_store_of_a_server_the_server_embeds_and_thinks(
    home: Path, init: Init, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = server.eng.workspace(f"init-{server.port}")
    monkeypatch.setenv("ENGRAM_URL", server.url)
    monkeypatch.setenv("ENGRAM_TOKEN", server.token())
    monkeypatch.setenv("ENGRAM_WORKSPACE", eng.workspace_name)
    done = init("--yes")
    assert done.code == 0, done.out + done.err
    assert {each.type for each in eng.sessions.list()} == TALKS.keys()
    assert "Dreaming works" not in done.out and "Recall by meaning" not in done.out
    # Neither works over the network.
    assert "engram brief" in done.out and "engram open" not in done.out and "engram backup" not in done.out
    assert RESULT in done.out
    assert not (home / "data" / "engram.db").exists()


class Terminal:
    """The command on a terminal, with a person who waits for a question before they answer."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [program(), "init", *arguments], stdin=slave, stdout=slave, stderr=slave, close_fds=True
        )
        os.close(slave)
        self.shown = ""
        self._seen = 0

    def answer(self, question: str, keys: str) -> None:
        self._read(lambda: question in self.shown[self._seen :])
        self._seen = self.shown.index(question, self._seen) + len(question)
        os.write(self.master, f"{keys}\n".encode())

    def end(self) -> int:
        self._read(lambda: False)
        os.close(self.master)
        return self.process.wait(timeout=60)

    def _read(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            ready, _, _ = select.select([self.master], [], [], 60)
            assert ready, f"no further output after: {self.shown}"
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # Linux says so when the other side has closed
                piece = b""
            if not piece:
                assert self.process.wait(timeout=60) is not None
                return
            self.shown += piece.decode().replace("\r\n", "\n")


@pytest.mark.requirement("INIT-9")
def test_a_person_answers_by_keyboard_and_is_not_asked_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDDER", "static")
    terminal = Terminal()
    terminal.answer("Add Engram to Claude Code? [Y/n]", "")
    terminal.answer("Import them, the newest first? [Y/n]", "y")
    terminal.answer("Add Engram to Codex? [Y/n]", "n")
    terminal.answer("Import them, the newest first? [Y/n]", "n")
    terminal.answer("Add Engram to Gemini CLI? [Y/n]", "")
    terminal.answer("Import them, the newest first? [Y/n]", "")
    terminal.answer("Add Engram to Cursor? [Y/n]", "")
    terminal.answer("Import them, the newest first? [Y/n]", "")
    terminal.answer("Choose [extractive]:", "")
    assert terminal.end() == 0, terminal.shown
    assert "change ~/.claude/settings.json" in terminal.shown
    assert "Importing Claude Code" in terminal.shown and "Summarising sessions" in terminal.shown
    assert RESULT in terminal.shown
    assert [name for name in AGENTS if is_set_up(name)] == ["claude-code", "gemini", "cursor"]
    with Store(home / "data" / "engram.db") as eng:
        assert {each.type for each in eng.sessions.list()} == {"claude-code", "gemini", "cursor"}
    again = Terminal()
    again.answer("Add Engram to Codex? [Y/n]", "")
    again.answer("Import them, the newest first? [Y/n]", "")
    assert again.end() == 0
    assert "Choose" not in again.shown and again.shown.count("[Y/n]") == 2
    last = Terminal()
    assert last.end() == 0
    assert "[Y/n]" not in last.shown


@pytest.mark.requirement("INIT-9")
def test_a_thinker_is_chosen_only_by_a_person_and_one_that_fails_changes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDDER", "static")
    Store(home / "data" / "engram.db").close()
    assert run(["init", "--yes"]) == 0
    terminal = Terminal()
    terminal.answer("Who thinks when Engram summarises your sessions?", "codex")
    assert terminal.end() == 1
    assert "again: engram dream thinker codex" in terminal.shown
    assert not (home / "config" / "config.toml").exists()


class Keys(io.StringIO):
    """A keyboard in this process."""

    def isatty(self) -> bool:
        return True


@pytest.mark.requirement("INIT-9", "INIT-4")
def test_a_large_embedder_is_offered_with_its_size_and_no_is_the_default(
    home: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram.embedding import catalogue

    monkeypatch.setenv("ENGRAM_EMBEDDER", "auto")
    monkeypatch.setattr(catalogue, "is_installed", lambda choice: choice == "static")
    monkeypatch.setattr("sys.stdin", Keys("n\n" * 8 + "\n\n"))
    shown = init()
    assert shown.code == 0
    assert "static is there and finds 32 of 100 paraphrases. minilm finds 91" in shown.out
    assert "Download minilm, " in shown.err and " MB? [y/N]" in shown.err
    assert "Recall by meaning uses the small built-in model (static). minilm finds more" in shown.out
    assert "To change that: engram embedder use minilm" in shown.out
    # With the defaults it is not even offered, and nothing is downloaded.
    asked = init("--yes")
    assert asked.code == 0 and "MB?" not in asked.err
    with Store(home / "data" / "engram.db") as eng:
        assert eng.embedders.model is not None and eng.embedders.model.startswith("static")


@pytest.mark.requirement("INIT-1")
def test_the_json_document_has_every_step_and_no_other_output(home: Path, init: Init) -> None:
    done = init("--yes", "--json")
    assert done.err == ""
    document = json.loads(done.out)
    assert document["failed"] == 0 and document["dry_run"] is False and document["project"] == "shop"
    assert document["answered"]["answer"] == RESULT
    assert {each["name"] for each in document["agents"] if each["found"]} == AGENTS.keys()
    assert steps(done, "hooks") == dict.fromkeys(AGENTS, "done")


@pytest.mark.requirement("INIT-6")
def test_records_that_were_left_out_are_named_by_the_command_that_is_shown(home: Path, init: Init) -> None:
    path = claude_code(home, "33333333-0000-4000-8000-000000000003", "Paint the door", "Painted it.", day="2026-03-06")
    path.write_text("{broken\n" + path.read_text())
    said = " ".join(init("--yes").out.split())
    assert "1 record left out: `engram import claude-code --dry-run` names it." in said
    shown = subprocess.run(
        [program(), "import", "claude-code", "--dry-run"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert f"{path.name}, line 1" in shown


@pytest.mark.requirement("INIT-4")
def test_agents_are_to_be_restarted_only_when_their_settings_changed(home: Path, init: Init) -> None:
    told = "Restart your agents, so that they read their settings again."
    assert told not in init("--dry-run").out
    assert told in init("--yes").out
    assert told not in init("--yes").out
