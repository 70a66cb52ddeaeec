"""Anthropic's memory tool on Engram: the files that Claude keeps are blocks of the workspace.

    from engram.compat.anthropic_memory import EngramMemoryTool

    memory = EngramMemoryTool()
    runner = client.beta.messages.tool_runner(model=…, max_tokens=…, messages=[…], tools=[memory])

`EngramMemoryTool` takes the place of the SDK's `BetaLocalFilesystemMemoryTool`, `AsyncEngramMemoryTool` that of its
asynchronous twin. A program with a loop of its own gives the input of each tool call to `handle` and sends the text
back. `memory_files` has the commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._version import install_command
from ..errors import MissingExtra
from .memory_files import MemoryFiles, Refused

try:
    # The SDK's own way into threads; it also works outside asyncio.
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anyio.to_thread import run_sync
except ImportError as missing:
    raise MissingExtra(
        f"engram.compat.anthropic_memory needs a package that is not installed ({missing.name}). "
        f"Install it: {install_command('anthropic')}."
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    from ..client import Engram
    from .given_store import Store


class EngramMemoryTool(BetaAbstractMemoryTool):
    """The memory tool for `client.beta.messages.tool_runner`. A refused command is an error result for Claude.

    `store` is an open `Engram`, the path or URL of a store, or None for the user's own store. `actor` is recorded as
    the author of each version.
    """

    def __init__(
        self,
        store: Store = None,
        *,
        workspace: str | None = None,
        actor: str = "memory tool",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(store, workspace=workspace, actor=actor)

    @property
    def store(self) -> Engram:
        """The store that holds the files."""
        return self._files.store

    def handle(self, command: Mapping[str, object]) -> str:
        """Carry out a command as Claude sent it. Returns the text for Claude, which may be that of an error."""
        return self._files.handle(command)

    def call(self, input: object) -> str:
        # Not through the SDK's own types, which cannot express a command with a part missing.
        return _run(self._files, input)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return self.call(command.to_dict())

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return self.call(command.to_dict())

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self.call(command.to_dict())

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return self.call(command.to_dict())

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return self.call(command.to_dict())

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return self.call(command.to_dict())

    def clear_all_memory(self) -> str:
        """Delete all files."""
        return self._files.clear()


class AsyncEngramMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for an asynchronous client. Each command runs in a thread."""

    def __init__(
        self,
        store: Store = None,
        *,
        workspace: str | None = None,
        actor: str = "memory tool",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(store, workspace=workspace, actor=actor)

    @property
    def store(self) -> Engram:
        """The store that holds the files."""
        return self._files.store

    async def handle(self, command: Mapping[str, object]) -> str:
        """Carry out a command as Claude sent it. Returns the text for Claude, which may be that of an error."""
        return await run_sync(self._files.handle, command)

    async def call(self, input: object) -> str:
        return await run_sync(_run, self._files, input)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await self.call(command.to_dict())

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await self.call(command.to_dict())

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await self.call(command.to_dict())

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await self.call(command.to_dict())

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await self.call(command.to_dict())

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await self.call(command.to_dict())

    async def clear_all_memory(self) -> str:
        """Delete all files."""
        return await run_sync(self._files.clear)


def _run(files: MemoryFiles, command: Any) -> str:
    try:
        return files.run(command)
    except Refused as refused:
        raise ToolError(str(refused)) from None
