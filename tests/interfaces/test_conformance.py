"""The MCP conformance suite from npm against `/mcp`, and its scenarios for authorization servers.

Most of its server scenarios call tools, prompts and resources of a server that was written for the suite, such as a
tool `test_simple_text`. They say nothing about a server that does something else. Each such scenario or check is
listed below with its reason, and every other one must pass, in each version of the protocol.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engram import Engram
from tests._waiting import until

from ._browser import Browser
from ._server import Server, free_port, serving

#: Where `make conformance` puts it, with a Node that is new enough.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "engram-tests" / "conformance"
SUITE = CACHE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NODE = CACHE / "node_modules" / ".bin" / "node"

_TOOL = "It calls a tool of the suite's own server."
_PROMPT = "It gets a prompt of the suite's own server."
_RESOURCE = "It reads a resource of the suite's own server."
_ASKS_BACK = "It wants a tool that asks the client for input. Engram's tools never do."
_TASKS = "It is about the extension for tasks, which Engram does not offer."
_HEADERS = "It is about tool arguments in headers, which no tool of Engram has."

#: Scenarios, and single checks of scenarios, that do not apply to Engram, with the reason.
NOT_APPLICABLE = {
    "completion-complete": "Engram's prompts and resources have nothing to complete.",
    "logging-set-level": "Engram sends no log messages to clients.",
    "tools-call-with-logging": "Engram sends no log messages to clients.",
    "resources-subscribe": "Engram's resources cannot be subscribed to.",
    "resources-unsubscribe": "Engram's resources cannot be subscribed to.",
    **dict.fromkeys(
        (
            *("tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource"),
            *("tools-call-mixed-content", "tools-call-error", "tools-call-with-progress", "json-schema-2020-12"),
            "server-stateless:sep-2575-server-rejects-undeclared-capability",
            "server-stateless:sep-2575-missing-capability-http-400",
            "server-stateless:sep-2575-http-server-no-independent-requests-on-stream",
            "server-stateless:sep-2575-server-no-log-without-loglevel",
        ),
        _TOOL,
    ),
    **dict.fromkeys(
        (
            *("prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image"),
            "input-required-result-non-tool-request",
        ),
        _PROMPT,
    ),
    **dict.fromkeys(("resources-read-text", "resources-read-binary", "resources-templates-read"), _RESOURCE),
    **dict.fromkeys(
        (
            *("tools-call-sampling", "tools-call-elicitation"),
            *("elicitation-sep1034-defaults", "elicitation-sep1330-enums"),
            *("input-required-result-basic-elicitation", "input-required-result-basic-sampling"),
            *("input-required-result-basic-list-roots", "input-required-result-request-state"),
            *("input-required-result-multiple-input-requests", "input-required-result-multi-round"),
            *("input-required-result-result-type", "input-required-result-tampered-state"),
            "input-required-result-capability-check",
        ),
        _ASKS_BACK,
    ),
    **dict.fromkeys(
        (
            *("tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal"),
            *("tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope"),
            *("tasks-required-task-error", "tasks-mrtr-composition"),
        ),
        _TASKS,
    ),
    "http-custom-header-server-validation": _HEADERS,
}
EXTENSIONS = "extensions"
#: The versions of the protocol that the suite knows, and its extensions, which belong to none.
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28", EXTENSIONS)

#: Each scenario that was run, with its failed checks.
Outcome = dict[str, set[str]]


@pytest.fixture
def suite() -> list[str]:
    if not SUITE.exists() or not NODE.exists():
        pytest.skip("the MCP conformance suite is not installed: `make conformance` gets it, with npm")
    return [str(NODE), str(SUITE)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The server. The suite cannot send a token, so one is added to its requests to `/mcp`."""
    with Engram(tmp_path / "store" / "engram.db") as eng:
        token = eng.access.tokens.create("suite", "admin").secret

        def with_token(app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
            async def added(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
                if scope["type"] == "http" and scope["path"] == "/mcp":
                    scope["headers"] = [*scope["headers"], (b"authorization", b"Bearer " + token.encode())]
                await app(scope, receive, send)

            return added

        with serving(eng, wrap=with_token) as server:
            yield server


def failing(folder: Path) -> Outcome:
    found: Outcome = {}
    for results in folder.glob("*/checks.json"):
        # The folder's name is `server-`, the scenario, and the time.
        name = re.sub(r"^server-(.*)-\d{4}-\d\d-\d\dT.*$", r"\1", results.parent.name)
        checks = json.loads(results.read_text())
        found[name] = {check["id"] for check in checks if check["status"] == "FAILURE"}
    return found


@pytest.mark.requirement("SERVER-64")
def test_every_server_scenario_that_applies_passes(suite: list[str], server: Server, tmp_path: Path) -> None:
    failed: set[str] = set()
    for version in VERSIONS:
        folder = tmp_path / version
        only = [] if version == EXTENSIONS else ["--spec-version", version]
        command = [*suite, "server", "--url", server.mcp, "--suite", "all", *only, "-o", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        outcomes = failing(folder)
        assert len(outcomes) >= 20, done.stdout + done.stderr
        assert {"tools-list", "resources-list", "prompts-list"} <= {name for name, each in outcomes.items() if not each}
        assert outcomes.get("dns-rebinding-protection", set()) == set()
        checks = {f"{scenario}:{check}": scenario for scenario, each in outcomes.items() for check in each}
        unexpected = {check for check, scenario in checks.items() if not {check, scenario} & NOT_APPLICABLE.keys()}
        assert unexpected == set(), version
        failed |= {*checks, *checks.values()}
    assert NOT_APPLICABLE.keys() - failed == set(), "these pass, so they apply"


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a process that waits for something which will not come: the test has failed, or it takes too long."""
    late = threading.Timer(120, process.kill)
    late.start()
    try:
        yield
    except BaseException:
        process.kill()
        raise
    finally:
        # It ends by itself when its work is done.
        if process.poll() is None:
            process.wait()
        late.cancel()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.requirement("SERVER-64")
def test_the_scenarios_for_authorization_servers_pass(suite: list[str], server: Server, tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "results"
    with server.http() as http:
        asked = {"redirect_uris": [f"http://127.0.0.1:{port}/callback"], "token_endpoint_auth_method": "none"}
        client = http.post("/register", json=asked).json()["client_id"]
    command = [*suite, "authorization", "--url", server.url, "--client-id", client, "--resource", server.mcp]
    running = subprocess.Popen(
        [*command, "-p", str(port), "-o", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert running.stdout is not None
    said = []
    with running, ending(running), Browser(server.url) as browser:
        browser.submit(browser.visit("/login"), token=server.token("person"))
        for line in running.stdout:
            said.append(line)
            if line.startswith(f"{server.url}/authorize?"):
                # The suite waits for a person with a browser.
                page = browser.visit(line.strip())
                # The suite prints the address before it listens for the answer.
                until(lambda: is_listening(port))
                browser.follow_refresh(browser.submit(page, decision="allow"))
    results = [check for file in folder.glob("**/checks.json") for check in json.loads(file.read_text())]
    statuses = {check["id"]: check["status"] for check in results}
    # The suite recommends that servers fetch a client's description from the address that the client gives as its id.
    # Nothing that a client sends makes Engram fetch an address.
    assert statuses == {
        "authorization-server-metadata": "SUCCESS",
        "authorization-server-metadata-cimd": "WARNING",
        "authorization-code-grant": "SUCCESS",
    }, "".join(said)
