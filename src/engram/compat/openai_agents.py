"""A session of the OpenAI Agents SDK that is kept in Engram.

    from engram.compat.openai_agents import EngramSession

    session = EngramSession("conversation_123")
    result = await Runner.run(agent, "What city is the Golden Gate Bridge in?", session=session)

The SDK gets back every item as it gave it, in order. What the user and the agent say is also a turn of the Engram
session with the same id, so every other agent of the workspace can recall it. Secrets are removed before anything is
stored; an item that had one comes back without it.

The core of Engram is synchronous, so every call runs in a thread. A write that has begun is finished even if its caller
is cancelled, so that the next call sees all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from .. import checks
from .._version import install_command
from ..errors import ExchangeNotFound, InvalidInput, MissingExtra, SessionNotFound
from .given_store import GivenStore

try:
    from agents.memory import SessionSettings
except ImportError as missing:
    raise MissingExtra(
        f"engram.compat.openai_agents needs a package that is not installed ({missing.name}). "
        f"Install it: {install_command('openai-agents')}."
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.items import TResponseInputItem

    from .given_store import Store

#: The role of a turn, by the role of the SDK's message.
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
Result = TypeVar("Result")


class EngramSession:
    """The history of one conversation: the SDK's `Session` protocol.

    `store` is an open `Engram`, the path or URL of a store, or None for the user's own store. `db_path` is the same,
    under the name that the SDK's `SQLiteSession` has for it. `session_settings` limits how many items `get_items`
    returns, as for the SDK's own sessions.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        store: Store = None,
        *,
        db_path: Store = None,
        workspace: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = checks.new_name(session_id, "session id")
        self.session_settings = session_settings or SessionSettings()
        if store is not None and db_path is not None:
            raise InvalidInput("Give store or db_path, not both.")
        self._store = GivenStore(db_path if store is None else store, workspace)
        self._eng = self._store.eng

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The latest `limit` items, oldest first. Without a limit that of the settings counts, else all are given."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        wanted = limit if limit is None else max(checks.whole(limit, "limit", least=-checks.MAX_WHOLE), 0)
        found = await asyncio.to_thread(self._eng.transcripts.latest, self.session_id, wanted)
        return [cast("TResponseInputItem", each.value) for each in found]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all or none."""
        if not isinstance(items, list | tuple):
            raise InvalidInput(f"items is a {type(items).__name__}; it must be a list of items.")
        messages = [(item, *_said(item)) for item in items]
        await _finish(lambda: self._add(messages))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it; None if there is none. Its text and what was derived from it alone go."""
        return cast("TResponseInputItem | None", await _finish(self._pop))

    async def clear_session(self) -> None:
        """Remove all items. Their texts are forgotten, with everything that was derived from them alone."""
        await _finish(self._clear)

    def close(self) -> None:
        """Close the store, unless it was given open."""
        self._store.close()

    def _add(self, messages: list[tuple[TResponseInputItem, str | None, str]]) -> None:
        try:
            self._eng.transcripts.add(self.session_id, messages)
        except SessionNotFound:
            self._eng.sessions.ensure(self.session_id)
            self._eng.transcripts.add(self.session_id, messages)

    def _pop(self) -> object:
        while last := self._eng.transcripts.latest(self.session_id, 1):
            (item,) = last
            try:
                self._eng.forget(exchange=item.turn or item.id)
            except ExchangeNotFound:
                continue  # another process has taken it
            return item.value
        return None

    def _clear(self) -> None:
        while items := self._eng.transcripts.latest(self.session_id):
            try:
                self._eng.forget(exchanges=[item.turn or item.id for item in items])
            except ExchangeNotFound:
                continue  # another process has removed some of them
            return


def _said(item: object) -> tuple[str | None, str]:
    """The role and the text of a message; no role for a tool call, its output, reasoning, or a role that is unknown."""
    if not isinstance(item, Mapping):
        raise InvalidInput(f"An item is a {type(item).__name__}; it must be a dict.")
    named = item.get("role") if item.get("type", "message") == "message" else None
    role = _ROLES.get(named) if isinstance(named, str) else None
    content = item.get("content")
    if isinstance(content, str):
        return role, _storable(content)
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    texts = [part.get("text", part.get("refusal")) for part in parts]
    return role, _storable("\n".join(text for text in texts if isinstance(text, str)))


def _storable(text: str) -> str:
    """The text of a turn, without the few characters that no store can hold. The item itself keeps them."""
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def _finish(call: Callable[[], Result]) -> Result:
    """Run a write in a thread and wait for its end, also if the caller is cancelled meanwhile."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        # Looked at, so that asyncio does not complain about a failure that nobody saw.
        running.exception()
        raise
