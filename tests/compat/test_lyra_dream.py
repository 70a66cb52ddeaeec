"""`lyra-dream`: a pass over Lyra's store, once or until it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram import Engram
from engram.compat import lyra, lyra_dream, lyra_store


@pytest.fixture
def place(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("LYRA_DB_PATH", store_url)
    yield store_url
    lyra.close()


def test_a_pass_summarises_what_was_said_and_is_told_in_one_line(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lyra.remember("s", "user", "My sister Ana moved to Lisbon in spring.")
    assert lyra_dream.main([]) == 0
    shown = capsys.readouterr().out
    assert (shown.count("\n"), "gists: 1" in shown) == (1, True)
    assert lyra.get_summary("s") is not None
    assert lyra_dream.main(["--force"]) == 0
    # Only a companion reflects.
    assert lyra.get_self_state() is not None


def test_what_waits_for_a_decision_is_named_with_the_command(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    lyra.remember("s", "user", "My sister Ana moved to Lisbon in spring.")
    lyra.set_narrative("My own narrative.")
    assert lyra_dream.main(["--force"]) == 0
    assert "1 proposal waits for your decision: engram dream review --store " in capsys.readouterr().out
    assert lyra.get_narrative() == "My own narrative."


def test_another_pass_is_a_conflict(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    with lyra_store.opened() as eng:
        other = eng.sessions.register("dream", "dreaming")
        eng.leases.claim(other, "dream", exclusive=True, ttl=300)
    assert lyra_dream.main([]) == 4
    assert "no pass was started" in capsys.readouterr().out


def test_a_store_that_cannot_be_opened_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("This is not a database.")
    monkeypatch.setenv("LYRA_DB_PATH", str(file))
    assert lyra_dream.main([]) == 1
    assert capsys.readouterr().err.startswith("lyra-dream: ")


@pytest.mark.parametrize("wrong", ["0", "-5", "nan", "soon", "inf"])
def test_a_wrong_pause_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        lyra_dream.main(["--loop", wrong])
    assert end.value.code == 2
    assert "at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_loop_ends_cleanly_at_a_signal(number: signal.Signals, sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        eng.sessions.ensure("s")
        eng.exchanges.add("s", "user", "My sister Ana moved to Lisbon in spring.")
    command = [sys.executable, "-m", "engram.compat.lyra_dream", "--force", "--loop", "3600"]
    environment = {**os.environ, "LYRA_DB_PATH": sqlite_url}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "gists: 1" in process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
