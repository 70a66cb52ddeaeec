"""The MCP server over streamable HTTP: the SDK's own client, several workers, and what each token may do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import httpx2
import mcp_types as types
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from engram import Engram, __version__
from engram.interfaces.mcp import tools
from engram.operations import OPERATIONS
from mcp import Client
from tests._tables import values
from tests._waiting import until

from ._server import Server, serving

MODERN = "2026-07-28"


@pytest.fixture
def server(eng: Engram) -> Iterator[Server]:
    with serving(eng) as server:
        yield server


@asynccontextmanager
async def client(server: Server, token: str, mode: str = "legacy", **headers: str) -> Any:
    """The SDK's client with a token."""
    given = {"authorization": f"Bearer {token}", **headers}
    async with (
        httpx2.AsyncClient(headers=given, trust_env=False, timeout=30) as http,
        Client(streamable_http_client(server.mcp, http_client=http), mode=mode) as connected,
    ):
        yield connected


async def call(client: Client, tool: str, **arguments: object) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content["result"]


def refused(answer: types.CallToolResult) -> str:
    assert answer.is_error
    assert answer.structured_content is not None
    code: str = answer.structured_content["error"]["code"]
    return code


class Raw:
    """A client that speaks the protocol by hand, and so may ask another worker each time."""

    def __init__(self, token: str, **headers: str) -> None:
        self.headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-11-25",
            **headers,
        }

    def begin(self, server: Server, name: str = "test-client") -> httpx.Response:
        info = {"name": name, "version": "1"}
        answer = self.post(
            server, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        )
        if "mcp-session-id" in answer.headers:
            self.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        return answer

    def post(self, server: Server, method: str, params: dict[str, object]) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(server.mcp, headers=self.headers, json=body, trust_env=False, verify=False, timeout=30)

    def tool(self, server: Server, name: str, **arguments: object) -> Any:
        answer = self.post(server, "tools/call", {"name": name, "arguments": arguments})
        assert answer.status_code == 200, answer.text
        return result(answer)["structuredContent"]

    def end(self, server: Server) -> httpx.Response:
        return httpx.delete(server.mcp, headers=self.headers, trust_env=False, timeout=30)


def result(answer: httpx.Response) -> Any:
    """The result in an answer, which may be a stream of events."""
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        (text,) = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    return json.loads(text)["result"]


@pytest.mark.requirement("SERVER-44", "MCP-12")
@pytest.mark.parametrize("mode", ["legacy", MODERN, "auto"])
def test_the_sdk_s_client_finds_the_same_as_over_standard_input(server: Server, mode: str) -> None:
    async def visit() -> None:
        async with client(server, server.token("laptop"), mode) as connected:
            if mode != MODERN:  # told to use it, the client does not ask who the server is
                assert connected.server_info is not None
                assert (connected.server_info.name, connected.server_info.version) == ("engram", __version__)
            listed = (await connected.list_tools()).tools
            assert [tool.name for tool in listed] == [tool.name for tool in tools.TOOLS]
            assert {each.name for each in (await connected.list_prompts()).prompts} == {"brief", "handoff"}
            me = (await connected.call_tool("sitrep", {"summary": "Porting"})).structured_content["session"]
            await call(connected, "remember", text="Deploys never happen on Fridays", session=me)
            assert (await call(connected, "recall", query="deploys on Fridays"))["hits"]
            await call(connected, "block", action="update", name="world", content="Ship on Friday.", session=me)
            (world,) = (await connected.read_resource("engram://world")).contents
            assert world.text.endswith("\n> Ship on Friday.")
            (message,) = (await connected.get_prompt("brief", {"task": "Port"})).messages
            assert "Your task: Port" in message.content.text
            with pytest.raises(MCPError, match="There is no tool 'nothing'"):
                await connected.call_tool("nothing", {})

    anyio.run(visit)


@pytest.mark.requirement("SERVER-45", "MCP-3")
def test_each_connection_has_its_own_session(server: Server) -> None:
    async def visit() -> None:
        token = server.token("laptop")
        async with client(server, token) as one, client(server, token) as other:
            first = (await one.call_tool("sitrep", {"summary": "One"})).structured_content["session"]
            second = (await other.call_tool("sitrep", {"summary": "Other"})).structured_content["session"]
            assert first != second
            assert (await call(one, "session", action="log", text="x"))["session_id"] == first
            assert (await call(other, "session", action="log", text="y"))["session_id"] == second

    anyio.run(visit)


@pytest.mark.requirement("SERVER-45", "MCP-12")
def test_a_client_without_a_handshake_names_its_session_and_learns_that_it_has_to(server: Server) -> None:
    async def visit() -> None:
        async with client(server, server.token("laptop"), MODERN) as connected:
            report = await connected.call_tool("sitrep", {"summary": "One"})
            me = report.structured_content["session"]
            assert f"Pass session: {me} with every call." in report.content[0].text
            nameless = await connected.call_tool("session", {"action": "log", "text": "x"})
            assert refused(nameless) == "invalid_input"
            assert (await call(connected, "session", action="log", text="x", session=me))["session_id"] == me
            assert server.eng.sessions.get(me).type == "mcp"

    anyio.run(visit)


@pytest.fixture
def two(open_store: Callable[..., Engram]) -> Iterator[tuple[Server, Server]]:
    """Two servers on one store, as two workers are."""
    with serving(open_store()) as one, serving(open_store()) as other:
        yield one, other


@pytest.mark.requirement("SERVER-45")
def test_any_worker_finds_the_session_of_a_client_again(two: tuple[Server, Server]) -> None:
    one, other = two
    raw = Raw(one.token("laptop"))
    raw.begin(one, "claude-code")
    me = raw.tool(other, "sitrep", summary="Porting")["session"]
    assert one.eng.sessions.get(me).type == "claude-code"
    for worker in (one, other, one):
        assert raw.tool(worker, "session", action="log", text="step")["result"]["session_id"] == me
    claim = raw.tool(one, "lock", action="claim", resource="port:80", exclusive=True)["result"]
    assert claim["session_id"] == me
    assert raw.tool(other, "sitrep", summary="Still porting")["session"] == me
    raw.tool(other, "session", action="complete", outcome="Done")
    assert one.eng.sessions.get(me).status == "completed"
    over = raw.tool(one, "session", action="log", text="late")
    assert "yours has ended" in over["error"]["message"]
    assert raw.tool(one, "sitrep", summary="The next task")["session"] == me
    assert raw.tool(other, "session", action="log", text="step")["result"]["session_id"] == me


@pytest.mark.requirement("SERVER-45")
def test_a_session_that_a_client_takes_over_is_its_own_on_every_worker(two: tuple[Server, Server]) -> None:
    one, other = two
    mine = one.eng.sessions.register("codex", "Begun elsewhere")
    raw = Raw(one.token("laptop"))
    raw.begin(one)
    assert raw.tool(one, "sitrep", session=mine)["session"] == mine
    assert raw.tool(other, "session", action="log", text="step")["result"]["session_id"] == mine
    raw.end(other)
    assert one.eng.sessions.get(mine).status == "active"


@pytest.mark.requirement("SERVER-46")
def test_the_connection_of_another_token_leads_to_nothing(two: tuple[Server, Server]) -> None:
    one, other = two
    mine, theirs = Raw(one.token("mine")), Raw(one.token("theirs"))
    mine.begin(one)
    me = mine.tool(one, "sitrep", summary="Porting")["session"]
    theirs.headers["mcp-session-id"] = mine.headers["mcp-session-id"]
    for worker in two:
        assert theirs.tool(worker, "session", action="log", text="x")["error"]["code"] == "invalid_input"
    assert theirs.end(one).status_code == 200
    assert one.eng.sessions.get(me).status == "active"
    assert mine.tool(other, "session", action="log", text="x")["result"]["session_id"] == me


@pytest.mark.requirement("SERVER-45")
def test_a_client_that_ends_its_connection_completes_its_session(server: Server) -> None:
    raw = Raw(server.token("laptop"))
    raw.begin(server)
    me = raw.tool(server, "sitrep", summary="Porting")["session"]
    raw.tool(server, "lock", action="claim", resource="port:80")
    raw.tool(server, "session", action="log", text="router ported")
    assert raw.end(server).status_code == 200
    session = server.eng.sessions.get(me)
    assert (session.status, session.outcome) == ("completed", "router ported")
    assert server.eng.leases.list() == []
    assert raw.post(server, "tools/list", {}).status_code == 404
    raw.headers["mcp-session-id"] = "not one of ours"
    assert raw.post(server, "tools/list", {}).status_code == 404
    del raw.headers["mcp-session-id"]
    assert raw.end(server).status_code == 400


@pytest.mark.requirement("SERVER-47")
def test_a_message_is_read_once_its_answer_was_sent(server: Server) -> None:
    raw = Raw(server.token("laptop"))
    raw.begin(server)
    me = raw.tool(server, "sitrep", summary="Porting")["session"]
    server.eng.messages.send(None, me, "hello")
    shown = raw.tool(server, "lock", action="list")
    assert [each["text"] for each in shown["messages"]["unread"]] == ["hello"]
    # The next request of this client comes after the note.
    assert "messages" not in raw.tool(server, "lock", action="list")
    assert server.eng.messages.inbox(me, peek=True) == []


def arguments_of(operation: str) -> dict[str, object]:
    """Arguments with which an operation would be performed, if it were allowed."""
    values = {
        "text": "x",
        "texts": ["x"],
        "whole": 1,
        "number": 1,
        "duration": 1,
        "flag": True,
        "object": {},
        "json": {},
    }
    return {
        each.name: each.choices[0] if each.choices else values[each.kind]
        for each in OPERATIONS[operation].inputs
        if each.required and not each.rare
    }


CALLS = [(tool.name, action, name) for tool in tools.TOOLS for action, name in tool.actions.items()]


@pytest.mark.requirement("SERVER-48")
@pytest.mark.parametrize("scope", ["read", "write"])
def test_every_tool_that_a_token_does_not_allow_is_forbidden(server: Server, scope: str) -> None:
    ranks = ("read", "write", "admin")
    before = server.eng.changes()

    async def visit() -> None:
        async with client(server, server.token("narrow", scope)) as connected:
            for tool, action, name in CALLS:
                needed = OPERATIONS[name].scope
                given = {"action": action} if len(dict(CALLS_OF[tool])) > 1 else {}
                if ranks.index(needed) > ranks.index(scope):
                    answer = await connected.call_tool(tool, {**given, **arguments_of(name)})
                    assert refused(answer) == "forbidden", (tool, action)
                elif scope == "read":
                    answer = await connected.call_tool(tool, {**given, **arguments_of(name)})
                    assert not answer.is_error or refused(answer) in ("session_not_found", "block_not_found"), (
                        tool,
                        action,
                        answer,
                    )

    anyio.run(visit)
    if scope == "read":
        assert server.eng.changes() == before


CALLS_OF = {tool.name: list(tool.actions.items()) for tool in tools.TOOLS}


@pytest.mark.requirement("SERVER-48")
def test_a_token_that_only_reads_sees_everything_and_changes_nothing(server: Server) -> None:
    me = server.eng.from_elsewhere().sessions.register("codex", "Porting")
    server.eng.messages.send(None, me, "hello")
    server.eng.remember("Deploys never happen on Fridays")
    before = server.eng.changes()

    async def visit() -> None:
        async with client(server, server.token("viewer", "read")) as connected:
            assert "Porting" in (await connected.call_tool("sitrep", {})).content[0].text
            assert (await call(connected, "recall", query="deploys on Fridays"))["hits"]
            assert (await connected.read_resource("engram://sitrep")).contents
            assert (await connected.get_prompt("brief")).messages
            for given in ({"summary": "x"}, {"session": me}):
                assert refused(await connected.call_tool("sitrep", given)) == "forbidden"
            # The messages of a session are not taken by a caller that may not write.
            assert (await connected.call_tool("lock", {"action": "list", "session": me})).structured_content == {
                "result": [],
                "session": me,
            }

    anyio.run(visit)
    assert server.eng.changes() == before
    assert [each.text for each in server.eng.messages.inbox(me, peek=True)] == ["hello"]


@pytest.mark.requirement("SERVER-49")
def test_a_token_of_one_workspace_sees_nothing_of_another(server: Server) -> None:
    server.eng.workspace("ours").remember("The launch code is on the fridge")
    server.eng.workspace("ours").blocks.create("plan", "secret plan")

    async def visit() -> None:
        async with client(server, server.token("narrow", "admin", "theirs")) as connected:
            await connected.call_tool("sitrep", {"summary": "Looking around"})
            assert (await call(connected, "recall", query="launch code"))["hits"] == []
            assert await call(connected, "block", action="list") == []
            with pytest.raises(MCPError, match="There is no block"):
                await connected.read_resource("engram://block/plan")
            await call(connected, "remember", text="Mine")
        async with client(server, server.token("wide"), **{"x-engram-workspace": "ours"}) as connected:
            assert (await call(connected, "recall", query="launch code"))["hits"]

    anyio.run(visit)
    assert [each.name for each in server.eng.workspaces() if each.name == "theirs"]
    raw = Raw(server.token("narrower", "admin", "theirs"), **{"x-engram-workspace": "ours"})
    answer = raw.begin(server)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    raw = Raw(server.token("odd", "admin"), **{"x-engram-workspace": "../ours"})
    assert raw.begin(server).status_code == 400


@pytest.mark.requirement("SERVER-50")
@pytest.mark.parametrize("token", [None, "nonsense", "engram_0123456789ab_" + "x" * 43])
def test_without_a_valid_token_the_answer_says_where_to_get_one(server: Server, token: str | None) -> None:
    with server.http() as http:
        headers = {"accept": "application/json, text/event-stream"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        for method in ("GET", "POST", "DELETE", "PUT", "OPTIONS"):
            answer = http.request(method, "/mcp", headers=headers, content=b"{}")
            assert answer.status_code == 401
            assert (
                f'resource_metadata="{server.url}/.well-known/oauth-protected-resource/mcp"'
                in (answer.headers["www-authenticate"])
            )


@pytest.mark.requirement("SERVER-44")
def test_what_is_no_request_of_the_protocol_is_refused_without_harm(server: Server) -> None:
    token = server.token("laptop")
    with server.http(token) as http:
        both = {"accept": "application/json, text/event-stream"}
        answer = http.get("/mcp", headers=both)
        assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, POST")
        json_type = {**both, "content-type": "application/json"}
        for body in (b"", b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"[" * 100_000, b'{"id": 1e999}', b"\xff"):
            for more in ({}, {"mcp-protocol-version": MODERN}, {"mcp-protocol-version": "1999-01-01"}):
                answer = http.post("/mcp", headers={**json_type, **more}, content=body)
                assert 400 <= answer.status_code < 500, (body[:20], answer.text)
        huge = http.post("/mcp", headers=json_type, content=b" " * (5 * 1024 * 1024))
        assert huge.status_code == 413
    raw = Raw(token)
    raw.begin(server)
    arguments = b'{"name": "remember", "arguments": {"text": "cut \\ud83d"}}'
    cut = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ' + arguments + b"}"
    headers = {**raw.headers, "content-type": "application/json"}
    answer = httpx.post(server.mcp, headers=headers, content=cut, trust_env=False)
    assert result(answer)["isError"] is False
    assert [each.content for each in server.eng.memories.list()] == ["cut \N{REPLACEMENT CHARACTER}"]


@pytest.mark.requirement("SERVER-45")
def test_a_client_says_which_project_it_works_in(server: Server) -> None:
    raw = Raw(server.token("laptop"), **{"x-engram-project": "acme/shop"})
    raw.begin(server)
    me = raw.tool(server, "sitrep", summary="Porting")["session"]
    assert server.eng.sessions.get(me).project == "acme/shop"
    claim = raw.tool(server, "lock", action="claim", resource="src/router.py")["result"]
    assert claim["resource"] == "acme/shop:src/router.py"
    plain = Raw(server.token("desktop"))
    plain.begin(server)
    other = plain.tool(server, "sitrep", summary="Reading")["session"]
    assert server.eng.sessions.get(other).project is None
    odd = Raw(server.token("odd"), **{"x-engram-project": "x" * 300})
    assert odd.begin(server).status_code == 400


@pytest.mark.requirement("SERVER-65", "SERVER-47")
def test_a_claim_that_waits_leaves_the_queue_when_its_client_goes(server: Server, store_url: str) -> None:
    holder = server.eng.sessions.register("codex", "Deploying")
    server.eng.leases.claim(holder, "port:80", exclusive=True)
    raw = Raw(server.token("laptop"))
    raw.begin(server)
    me = raw.tool(server, "sitrep", summary="Waiting")["session"]
    arguments = {"action": "claim", "resource": "port:80", "exclusive": True, "wait": "5m"}
    params = {"name": "lock", "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    def waiting() -> int:
        return len(values(store_url, "lease_waiters", "session_id"))

    with (
        httpx.Client(trust_env=False, verify=False, timeout=30) as http,
        http.stream("POST", server.mcp, headers=raw.headers, json=body) as answer,
    ):
        assert answer.status_code == 200
        until(lambda: waiting() == 1)
    until(lambda: waiting() == 0)
    server.eng.messages.send(None, me, "hello")
    assert raw.tool(server, "lock", action="list")["messages"]["unread"][0]["text"] == "hello"
