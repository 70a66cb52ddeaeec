"""`engram open`, `engram serve --open` and `make run`: from a terminal to the dashboard."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from engram import Engram as Store
from engram import private_files
from engram.access_records import LINK_LIFE
from engram.config import load
from engram.interfaces import login_page, server_file
from tests._certificates import certified
from tests._waiting import until

from .conftest import Engram, program
from .test_serve import Served, serve

opens = pytest.mark.requirement("CLI-38")
ROOT = Path(__file__).parents[2]


class Browser(NamedTuple):
    """A program in place of a browser. It notes its arguments and keeps the page that it was given."""

    command: str
    folder: Path

    @property
    def arguments(self) -> str:
        return (self.folder / "arguments").read_text()

    @property
    def link(self) -> str:
        page = (self.folder / "page").read_text()
        targets = re.findall(r'(?:url=|href=")([^"]+)"', page)
        assert len(set(targets)) == 1, page
        return unescape(targets[0])


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    folder = tmp_path / "browser"
    folder.mkdir()
    script = folder / "browse"
    script.write_text(
        f'#!/bin/sh\ncp "${{1#file://}}" {folder}/page.new\necho "$@" > {folder}/arguments\n'
        f"mv {folder}/page.new {folder}/page\n"
    )
    script.chmod(0o700)
    return Browser(str(script), folder)


def run(folder: Path, store: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {
        name: value for name, value in os.environ.items() if name not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    }
    variables |= {"ENGRAM_URL": store, "ENGRAM_DATA_DIR": str(folder / "data"), **environment}
    return subprocess.run([program(), *arguments], env=variables, cwd=folder, capture_output=True, text=True)


def log_in(served: Served, link: str) -> tuple[int, str]:
    """Follow a link and press the button of its page; the status, and the first page afterwards."""
    with httpx.Client(base_url=served.url, verify=False, trust_env=False) as client:
        assert client.get(link).status_code == 200
        form = {"code": httpx.URL(link).params["code"], "next": "/"}
        answer = client.post("/login", data=form, headers={"origin": served.url})
        return answer.status_code, client.get("/", follow_redirects=True).text


@opens
def test_the_browser_gets_a_private_file_whose_link_logs_in_once(
    store_url: str, tmp_path: Path, browser: Browser
) -> None:
    with serve(store_url, tmp_path) as served:
        opened = run(tmp_path, store_url, "open", "--json", BROWSER=browser.command)
        assert opened.returncode == 0, opened.stderr
        assert json.loads(opened.stdout) == {"url": served.url, "opened": True}
        (file,) = (tmp_path / "data" / "logins").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert browser.arguments.strip() == file.as_uri()
        code = httpx.URL(browser.link).params["code"]
        assert code not in browser.arguments + opened.stdout + opened.stderr

        status, home = log_in(served, browser.link)
        assert status == 303
        assert "this machine's user" in unescape(home)
        assert log_in(served, browser.link)[0] == 401


@opens
def test_the_link_is_printed_on_request_and_without_a_browser(sqlite_url: str, tmp_path: Path) -> None:
    with serve(sqlite_url, tmp_path) as served:
        printed = run(tmp_path, sqlite_url, "open", "--print")
        link = printed.stdout.strip()
        assert link.startswith(f"{served.url}/login?code=engraml_")
        assert log_in(served, link)[0] == 303
        without = run(tmp_path, sqlite_url, "open")
        assert without.returncode == 0
        assert "No browser was found" in without.stdout
        assert f"{served.url}/login?code=" in without.stdout
        assert not (tmp_path / "data" / "logins").exists()
        refused = run(tmp_path, sqlite_url, "open", "--print", CLAUDECODE="1")
        assert refused.returncode != 0
        assert "code=" not in refused.stdout + refused.stderr


@opens
def test_only_a_server_of_this_store_that_answers_is_found(sqlite_url: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    Store(other).close()
    with serve(sqlite_url, tmp_path) as served:
        (file,) = (tmp_path / "data" / "servers").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "code=" not in file.read_text() and served.token not in file.read_text()
        nothing = run(tmp_path, other, "open", "--print")
        assert nothing.returncode == 1
        assert "engram serve" in nothing.stderr
        # Another name of the same file is the same store.
        (tmp_path / "link.db").symlink_to(sqlite_url)
        assert run(tmp_path, str(tmp_path / "link.db"), "open", "--print").returncode == 0
        served.process.kill()
        served.process.wait()
        assert file.exists()
        assert run(tmp_path, sqlite_url, "open", "--print").returncode == 1
        assert not file.exists()
    with serve(sqlite_url, tmp_path, "--workers", "2"):
        assert run(tmp_path, sqlite_url, "open", "--print").returncode == 0
    assert list((tmp_path / "data" / "servers").iterdir()) == []


@opens
def test_a_file_that_is_no_server_s_is_no_server(sqlite_url: str, tmp_path: Path) -> None:
    settings = load(url=sqlite_url, data_dir=str(tmp_path / "data"))
    with server_file.announced(settings, "http://127.0.0.1:1", "127.0.0.1", 1, tls=False):
        (file,) = (tmp_path / "data" / "servers").iterdir()
        # The process runs, but nobody answers there.
        assert server_file.find(settings) is None
        assert file.exists()
        for text in ("", "[]", "{}", '{"url": 1, "local": 2, "process": 3}', "\x00"):
            file.write_text(text)
            assert server_file.find(settings) is None
            assert not file.exists()
    (tmp_path / "file").write_text("")
    unusable = settings._replace(data_dir=str(tmp_path / "file"))
    with server_file.announced(unusable, "http://127.0.0.1:1", "127.0.0.1", 1, tls=False):
        assert server_file.find(unusable) is None


@opens
def test_who_looks_for_a_server_leaves_the_file_that_the_server_is_writing(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(url=sqlite_url, data_dir=str(tmp_path / "data"))
    make_file = private_files.make_file

    def looked_at(path: str) -> None:
        make_file(path)
        assert server_file.find(settings) is None

    monkeypatch.setattr(private_files, "make_file", looked_at)
    with server_file.announced(settings, "http://127.0.0.1:1", "127.0.0.1", 1, tls=False):
        (file,) = (tmp_path / "data" / "servers").iterdir()
        assert json.loads(file.read_text())["url"] == "http://127.0.0.1:1"


@opens
def test_pages_of_links_that_no_longer_work_are_removed(sqlite_url: str, tmp_path: Path, browser: Browser) -> None:
    settings = load(url=sqlite_url, data_dir=str(tmp_path / "data"))
    folder = tmp_path / "data" / "logins"
    login_page.remove_old(settings)
    folder.mkdir(parents=True, mode=0o700)
    old, new = folder / "old.html", folder / "new.html"
    old.touch()
    new.touch()
    os.utime(old, (old.stat().st_mtime - LINK_LIFE - 1,) * 2)
    with serve(sqlite_url, tmp_path):
        assert not old.exists()
        assert new.exists()
        os.utime(new, (new.stat().st_mtime - LINK_LIFE - 1,) * 2)
        run(tmp_path, sqlite_url, "open", BROWSER=browser.command)
        assert not new.exists()
        assert len(list(folder.iterdir())) == 1


@opens
def test_serve_opens_the_browser_when_it_answers(sqlite_url: str, tmp_path: Path, browser: Browser) -> None:
    with serve(sqlite_url, tmp_path, "--open", BROWSER=browser.command) as served:
        until(lambda: (browser.folder / "page").exists())
        assert log_in(served, browser.link)[0] == 303
    (browser.folder / "page").unlink()
    with serve(sqlite_url, tmp_path, "--open", BROWSER=browser.command, CLAUDECODE="1") as served:
        assert "--open is ignored" in served.log()
    assert not (browser.folder / "page").exists()


@opens
def test_a_server_with_a_public_address_and_a_certificate_of_its_own_is_found(sqlite_url: str, tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    public = "https://engram.example.org"
    options = ["--host", "0.0.0.0", "--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key)]
    variables = {**os.environ, "ENGRAM_URL": sqlite_url, "ENGRAM_DATA_DIR": str(tmp_path / "data")}
    process = subprocess.Popen([program(), "serve", *options, "--public-url", public], env=variables, cwd=tmp_path)
    try:
        settings = load(url=sqlite_url, data_dir=str(tmp_path / "data"))
        until(lambda: server_file.find(settings) is not None)
        printed = run(tmp_path, sqlite_url, "open", "--print")
        assert printed.stdout.startswith(f"{public}/login?code="), printed.stderr
    finally:
        process.terminate()
        process.wait()


@opens
def test_with_a_remote_store_its_address_is_opened(engram: Engram, tmp_path: Path, browser: Browser) -> None:
    printed = engram("--store", "https://engram.example.org,other.example.org", "open", "--print")
    assert printed.out.strip() == "https://engram.example.org:443"
    opened = run(tmp_path, "https://engram.example.org", "open", BROWSER=browser.command)
    assert opened.returncode == 0
    assert browser.arguments.strip() == "https://engram.example.org:443"


class Screen(NamedTuple):
    process: subprocess.Popen[bytes]
    master: int

    def until(self, text: str) -> str:
        """Everything the screen shows until a text appears on it."""
        shown = ""
        while text not in shown:
            shown += os.read(self.master, 65536).decode()
        return shown


@contextmanager
def made(folder: Path, *, terminal: bool, **environment: str) -> Iterator[Screen]:
    """`make run` on an empty store and a free port."""
    programs = folder / "bin"
    programs.mkdir()
    script = programs / "engram"
    script.write_text(
        f'#!/bin/sh\ncase "$1" in serve) shift; set -- serve --port 0 "$@";; esac\nexec {program()} "$@"\n'
    )
    script.chmod(0o700)
    master, slave = pty.openpty()
    variables = {**os.environ, "ENGRAM_DATA_DIR": str(folder / "data"), "TERM": "xterm", **environment}
    process = subprocess.Popen(
        ["make", "--old-file", "setup", "run", f"BIN={programs}", f"READY={programs}/engram"],
        stdin=slave if terminal else subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env=variables,
        cwd=ROOT,
        start_new_session=True,
    )
    os.close(slave)
    settings = load(data_dir=str(folder / "data"))
    try:
        yield Screen(process, master)
        # Before it answers, it may not hear the signal.
        until(lambda: server_file.find(settings) is not None or process.poll() is not None)
        assert process.poll() is None, os.read(master, 65536).decode()
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(master)


@pytest.mark.requirement("CLI-39")
@pytest.mark.skipif(shutil.which("make") is None or sys.platform != "linux", reason="make run needs make")
def test_make_run_offers_made_up_data_for_an_empty_store(tmp_path: Path, browser: Browser) -> None:
    with made(tmp_path, terminal=True, BROWSER=browser.command) as screen:
        asked = screen.until("[y/N] ")
        assert 'Your store is empty. Fill the workspace "demo"' in asked
        os.write(screen.master, b"\n")
        shown = screen.until("Ctrl-C ends it.")
        assert "`engram demo --fill` fills a workspace `demo`" in shown
        until(lambda: (browser.folder / "page").exists())
    with Store(tmp_path / "data" / "engram.db") as eng:
        assert eng.workspaces() == []

    shutil.rmtree(tmp_path / "bin")
    with made(tmp_path, terminal=True, BROWSER=browser.command) as screen:
        screen.until("[y/N] ")
        os.write(screen.master, b"y\n")
        shown = screen.until("Ctrl-C ends it.")
        assert "now has a made-up month" in shown
        assert "The store is empty" not in shown

    shutil.rmtree(tmp_path / "bin")
    with made(tmp_path, terminal=True, BROWSER=browser.command) as screen:
        assert "[y/N]" not in screen.until("Ctrl-C ends it.")


@pytest.mark.requirement("CLI-39")
@pytest.mark.skipif(shutil.which("make") is None or sys.platform != "linux", reason="make run needs make")
def test_make_run_without_a_terminal_asks_and_fills_nothing(tmp_path: Path, browser: Browser) -> None:
    with made(tmp_path, terminal=False, BROWSER=browser.command) as screen:
        assert "[y/N]" not in screen.until("Ctrl-C ends it.")
    assert not (browser.folder / "page").exists()
    with Store(tmp_path / "data" / "engram.db") as eng:
        assert eng.workspaces() == []
