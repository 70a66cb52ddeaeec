"""The real Claude Code as a client of the server: over HTTP, with a token, and with nothing of Engram installed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram import Engram
from tests.e2e.clients import CLIENTS, Desk
from tests.e2e.model import SESSION, Calling, serving
from tests.interfaces._server import Server
from tests.interfaces._server import serving as serving_store

CLOSING = "The router is ported."
#: Claude Code speaks the protocol without a handshake, so the model names its session, as sitrep told it to.
ME = {"session": SESSION}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Engram(tmp_path / "store" / "engram.db") as eng, serving_store(eng) as server:
        yield server


@pytest.fixture
def model() -> Iterator[Calling]:
    with serving(Calling(CLOSING)) as model:
        assert isinstance(model, Calling)
        yield model


@pytest.fixture
def desk(tmp_path: Path, model: Calling, apart: None) -> Desk:
    """A person's machine with Claude Code and nothing else."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    desk = Desk(CLIENTS["claude-code"], home, project, str(tmp_path / "nowhere.db"), model.url)
    desk.client.settings(home, model.url)
    return desk


def connect(desk: Desk, server: Server, token: str) -> None:
    headers = ["--header", f"Authorization: Bearer {token}", "--header", "X-Engram-Project: acme/shop"]
    desk.run("mcp", "add", "--scope", "user", "--transport", "http", "engram", server.mcp, *headers)


@pytest.mark.requirement("CLIENT-9")
def test_claude_code_works_with_the_server_over_http(desk: Desk, server: Server, model: Calling) -> None:
    connect(desk, server, server.token("laptop"))
    assert "Connected" in desk.run("mcp", "list")
    server.eng.remember("Deploys never happen on Fridays")
    model.calls = [
        ("mcp__engram__sitrep", {"summary": "Porting the router"}),
        ("mcp__engram__lock", {"action": "claim", "resource": "src/router.py", "exclusive": True, **ME}),
        ("mcp__engram__recall", {"query": "deploys on Fridays"}),
        ("mcp__engram__remember", {"text": "The router is ported to Rust", **ME}),
        ("mcp__engram__session", {"action": "complete", "outcome": "Ported", **ME}),
    ]
    assert CLOSING in desk.prompt("Please port the router")
    (session,) = server.eng.sessions.list()
    assert (session.type, session.project, session.summary) == ("claude-code", "acme/shop", "Porting the router")
    assert (session.status, session.outcome) == ("completed", "Ported")
    results = model.requests[-1].text
    assert session.id in results
    assert "Deploys never happen on Fridays" in results
    assert "acme/shop:src/router.py" in results
    authors = {each.content: each.author for each in server.eng.memories.list()}
    assert authors["The router is ported to Rust"] == "laptop"


@pytest.mark.requirement("CLIENT-9")
def test_claude_code_with_a_token_that_only_reads_is_told_so(desk: Desk, server: Server, model: Calling) -> None:
    connect(desk, server, server.token("viewer", "read"))
    server.eng.remember("Deploys never happen on Fridays")
    model.calls = [
        ("mcp__engram__recall", {"query": "deploys on Fridays"}),
        ("mcp__engram__remember", {"text": "The router is ported to Rust"}),
    ]
    assert CLOSING in desk.prompt("Please remember that the router is ported")
    results = model.requests[-1].text
    assert "Deploys never happen on Fridays" in results
    assert "Error (forbidden): This needs a token with scope write" in results
    assert len(server.eng.memories.list()) == 1


@pytest.mark.requirement("CLIENT-9")
def test_claude_code_without_a_valid_token_gets_nothing(desk: Desk, server: Server) -> None:
    connect(desk, server, "engram_0123456789ab_" + "x" * 43)
    listed = desk.run("mcp", "list")
    assert "Connected" not in listed
    assert "uthenticat" in listed or "Failed" in listed
