"""The server on the official SDK: definitions, calls, resources and prompts, for any transport.

Over standard input and output a process has one connection. Over HTTP each request has its own, and
`interfaces/http/mcp.py` makes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from ... import __version__
from ...errors import EngramError, InvalidInput, NotFound
from ...safe_text import one_line
from . import guide, tools
from .answers import LONGEST_ERROR, Answer
from .connections import Connection, Pending
from .host import PARTING, Host

#: Threads in which waiting claims check whether it is their turn.
LOOKERS = 4

_T = TypeVar("_T")
Context = ServerRequestContext[Any, Any]


def build(
    host: Host, client: Connection | None = None, connect: Callable[[Context], Connection] | None = None
) -> Server[Any]:
    """The server, for one local client, or for those that `connect` finds by their requests."""
    only = client or Connection()

    def connection_of(context: Context) -> Connection:
        found = only if connect is None else connect(context)
        given = client_name(context)
        if given:
            found.client = given
        return found

    #: Threads for waiting claims. They are few, so that other calls always find a free thread.
    lookers = anyio.CapacityLimiter(LOOKERS)

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        cancelled = threading.Event()
        connection = connection_of(context)
        begin = partial(host.begin, connection, params.name, params.arguments or {})
        try:
            answer = await _in_thread(partial(_unless_cancelled, host, connection, begin, cancelled))
        except anyio.get_cancelled_exc_class():
            cancelled.set()
            raise
        if isinstance(answer, Pending):
            answer = await _awaited(host, answer, lookers)
        if answer is None:
            known = ", ".join(tool.name for tool, _ in tools.offered())
            raise _error(types.INVALID_PARAMS, f"There is no tool {params.name!r}. The tools are: {known}.")
        host.passed_on(connection, answer)
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            structured_content=answer.structured,
            is_error=answer.failed,
        )

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        about = {"uri": str(params.uri)}
        document = await _in_thread(partial(host.read, connection_of(context), str(params.uri)), about)
        text = types.TextResourceContents(uri=document.uri, text=document.text, mime_type=document.mime)
        return types.ReadResourceResult(contents=[text])

    async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        text = await _in_thread(partial(host.prompt, connection_of(context), params.name, params.arguments or {}))
        return types.GetPromptResult(
            messages=[types.PromptMessage(role="user", content=types.TextContent(text=text))],
        )

    async def list_tools(context: Context, params: object) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate({"tools": tools.definitions()})

    async def list_resources(context: Context, params: object) -> types.ListResourcesResult:
        return types.ListResourcesResult.model_validate({"resources": guide.RESOURCES})

    async def list_templates(context: Context, params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": guide.TEMPLATES})

    async def list_prompts(context: Context, params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult.model_validate({"prompts": guide.PROMPTS})

    return Server(
        guide.NAME,
        title=guide.TITLE,
        version=__version__,
        instructions=guide.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def client_name(context: Context) -> str:
    """The name that the client gave itself in the handshake, or gives itself with each request; empty if none."""
    client = context.session.client_params
    return one_line(client.client_info.name, 100) if client else ""


def _unless_cancelled(
    host: Host,
    connection: Connection,
    begin: Callable[[], Answer | Pending | None],
    cancelled: threading.Event,
) -> Answer | Pending | None:
    """The answer of a call. A cancelled call runs to its end in its thread, and its messages become unread again."""
    answer = begin()
    if isinstance(answer, Answer) and cancelled.is_set():
        host.lost(connection, answer)
    return answer


async def _in_thread(function: Callable[[], _T], about: dict[str, str] | None = None) -> _T:
    """Run synchronous code in a thread. A call whose client is gone is abandoned: it must not block the server.

    `about` goes with an error as its data.
    """
    try:
        return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)
    except (InvalidInput, NotFound) as error:
        raise _error(types.INVALID_PARAMS, error.message, about) from None
    except EngramError as error:
        raise _error(types.INTERNAL_ERROR, error.message, about) from None


async def _awaited(host: Host, pending: Pending, lookers: anyio.CapacityLimiter) -> Answer:
    """The answer of a waiting claim. It uses a thread only for each check. When cancelled, it leaves the queue."""
    answer: Answer | None = None
    try:
        # A check is short and is not abandoned: an abandoned one could join the queue after the claim has left it.
        while (answer := await anyio.to_thread.run_sync(pending.look, limiter=lookers)) is None:
            await anyio.sleep(pending.pause)
        await anyio.lowlevel.checkpoint_if_cancelled()
        return answer
    except anyio.get_cancelled_exc_class():
        if answer is not None:
            with anyio.move_on_after(PARTING, shield=True):
                await anyio.to_thread.run_sync(
                    host.lost, pending.connection, answer, limiter=lookers, abandon_on_cancel=True
                )
        raise
    finally:
        with anyio.move_on_after(PARTING, shield=True):
            await anyio.to_thread.run_sync(pending.leave, limiter=lookers, abandon_on_cancel=True)


def _error(code: int, message: str, about: dict[str, str] | None = None) -> MCPError:
    """A protocol error. Its message may quote stored text, so it is made safe to show."""
    return MCPError(code, one_line(message, LONGEST_ERROR), about)
