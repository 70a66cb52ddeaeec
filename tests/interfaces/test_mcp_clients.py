"""Real clients over standard input and output: the SDK's, and the MCP Inspector."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from engram import Engram, __version__
from engram.config import load
from mcp import Client, StdioServerParameters
from tests._tables import values

from .conftest import program

#: Where `make inspector` puts it: outside the repository, because it is large and the same for every clone.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "engram-tests" / "inspector"
INSPECTOR = CACHE / "node_modules" / ".bin" / "mcp-inspector"


def server(store: str, **environment: str) -> StdioServerParameters:
    given = {name: value for name, value in os.environ.items() if name.startswith("ENGRAM_")}
    return StdioServerParameters(command=program(), args=["mcp", "--store", store], env={**given, **environment})


async def call(client: Client, tool: str, **arguments: object) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content["result"]


@pytest.mark.requirement("MCP-11", "MCP-1", "MCP-2", "MCP-8")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_sdk_s_client_finds_everything(store_url: str, mode: str) -> None:
    async def visit() -> None:
        async with Client(server(store_url), mode=mode) as client:
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("engram", __version__)
            assert client.instructions
            tools = (await client.list_tools()).tools
            wire = json.dumps(
                [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools],
                ensure_ascii=False,
                separators=(",", ":"),
            )
            assert len(tools) <= 8
            assert len(wire) / 4 <= 2_000
            assert {each.uri for each in (await client.list_resources()).resources} == {
                *("engram://sitrep", "engram://world")
            }
            templates = (await client.list_resource_templates()).resource_templates
            assert {each.uri_template for each in templates} == {"engram://block/{name}", "engram://session/{id}"}
            assert {each.name for each in (await client.list_prompts()).prompts} == {"brief", "handoff"}

            report = await client.call_tool("sitrep", {"summary": "Porting the router"})
            session = report.structured_content["session"]
            assert (await call(client, "lock", action="claim", resource="a"))["session_id"] == session
            await call(client, "remember", text="Deploys never happen on Fridays", kind="preference")
            found = await client.call_tool("recall", {"query": "when do we deploy?"})
            assert "> Deploys never happen on Fridays" in found.content[0].text  # type: ignore[union-attr]
            await call(client, "block", action="update", name="world", content="Ship on Friday.")
            (world,) = (await client.read_resource("engram://world")).contents
            assert world.text.endswith("\n> Ship on Friday.")  # type: ignore[union-attr]
            (message,) = (await client.get_prompt("brief", {"task": "Port"})).messages
            assert "Your task: Port" in message.content.text  # type: ignore[union-attr]

            wrong = await client.call_tool("recall", {"query": "x", "k": "five"})
            assert wrong.is_error
            with pytest.raises(MCPError, match=r"There is no tool 'nothing'\. The tools are: sitrep, session"):
                await client.call_tool("nothing", {})
            with pytest.raises(MCPError, match="There is no block 'missing'"):
                await client.read_resource("engram://block/missing")
            with pytest.raises(MCPError, match="There is no prompt"):
                await client.get_prompt("goodbye")

    anyio.run(visit)


@pytest.mark.requirement("MCP-11", "MCP-4")
def test_two_clients_at_once_see_each_other_and_keep_out_of_each_other_s_way(store_url: str) -> None:
    async def visit() -> None:
        async with Client(server(store_url)) as one, Client(server(store_url)) as other:
            await one.call_tool("sitrep", {"summary": "Porting the router"})
            report = await other.call_tool("sitrep", {"summary": "Adding rate limits"})
            assert "Porting the router" in report.content[0].text  # type: ignore[union-attr]
            claim = {"action": "claim", "resource": "src/router.py", "exclusive": True}
            assert not (await one.call_tool("lock", claim)).is_error
            held = await other.call_tool("lock", claim)
            assert held.is_error
            assert held.structured_content["error"]["code"] == "lease_held"
            await call(other, "session", action="message", to="src/router.py", text="May I?")
            answer = await one.call_tool("lock", {"action": "list"})
            assert "> May I?" in answer.content[0].text  # type: ignore[union-attr]
            await call(one, "remember", text="The router is ported")
            assert (await call(other, "recall", query="router"))["hits"]

    anyio.run(visit)


def inspect(store: str, *arguments: str) -> Any:
    node = shutil.which("node")
    if node is None or not INSPECTOR.exists():
        pytest.skip("the MCP Inspector is not installed: `make inspector` gets it, with node and npm")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < 20:
        pytest.skip(f"the MCP Inspector needs node 20 or newer, not {version.strip()}")
    done = subprocess.run(
        [str(INSPECTOR), "--cli", program(), "mcp", "--store", store, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.requirement("MCP-11")
def test_the_inspector_lists_and_calls_the_tools(new_sqlite_url: str) -> None:
    assert len(inspect(new_sqlite_url, "--method", "tools/list")["tools"]) <= 8
    arguments = ["--tool-name", "sitrep", "--tool-arg", "summary=Looking around"]
    answer = inspect(new_sqlite_url, "--method", "tools/call", *arguments)
    assert answer["content"][0]["text"].startswith("# Brief: ")
    with Engram(new_sqlite_url) as eng:
        # The Inspector is gone, and with it the session.
        assert [(each.summary, each.status) for each in eng.sessions.list()] == [("Looking around", "completed")]


async def until(reached: Callable[[], bool]) -> None:
    """Wait for something that happens in another process; as long as a busy machine may take."""
    with anyio.fail_after(90):
        while not reached():
            await anyio.sleep(0.05)


@pytest.mark.requirement("MCP-15", "LEASE-5")
def test_a_hundred_waiting_claims_leave_the_server_free_for_other_calls(store_url: str) -> None:
    got: list[str] = []

    async def visit(eng: Engram) -> None:
        holder = eng.sessions.register("codex", "Deploys")
        eng.leases.claim(holder, "deploy", exclusive=True)
        waiting = [eng.sessions.register("claude-code", f"Wants to deploy {number}") for number in range(100)]
        scopes = {session: anyio.CancelScope() for session in waiting}

        def queue() -> list[str]:
            return values(store_url, "lease_waiters", "session_id")

        async def claim(client: Client, session: str) -> None:
            with scopes[session]:
                arguments = {"action": "claim", "resource": "deploy", "exclusive": True, "wait": 300}
                answer = await client.call_tool("lock", {**arguments, "session": session})
                if not answer.is_error:
                    got.append(session)

        async with Client(server(store_url, ENGRAM_EMBEDDER="none")) as client, anyio.create_task_group() as tasks:
            for session in waiting[:2]:
                tasks.start_soon(claim, client, session)
                await until(lambda session=session: session in queue())  # type: ignore[misc]
            for session in waiting[2:]:
                tasks.start_soon(claim, client, session)
            await until(lambda: len(queue()) == 100)
            with anyio.fail_after(90):
                report = await client.call_tool("sitrep", {"summary": "Looking around"})
                assert f"session {holder})\n  has claimed: deploy" in report.content[0].text  # type: ignore[union-attr]
                assert (await call(client, "lock", action="list"))[0]["session_id"] == holder
                await call(client, "remember", text="We deploy on Mondays")
            assert got == []
            # Cancelling gives up the place; the next in line is the first one then.
            scopes[waiting[0]].cancel()
            await until(lambda: waiting[0] not in queue())
            eng.leases.release(holder, "deploy")
            await until(lambda: bool(got))
            assert got == [waiting[1]]
            assert [lease.session_id for lease in eng.leases.list()] == [waiting[1]]
            assert len(queue()) == 98
            # The rest is still in the queue when the client goes.
            tasks.cancel_scope.cancel()
        assert queue() == []

    with Engram(settings=load(url=store_url, embedder="none")) as eng:
        anyio.run(visit, eng)
