"""What every tier works on: an engine, a workspace, and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from .config import Config
    from .embedding.protocol import Embedder
    from .llm.protocol import Provider
    from .storage.engine import Engine, Transaction


class Watch(Protocol):
    """Called before a memory, block or session changes, and right after its row was inserted.

    A journal uses it to record the earlier state. The versions after `since` are about to be deleted.
    """

    def __call__(self, tx: Transaction, kind: str, ref: str | int, since: int | None = None) -> None: ...


class Elsewhere(NamedTuple):
    """Where a caller is that is not this process, such as the client of a server."""

    #: The project of the caller's folder; None if it has none or did not say.
    project: str | None = None


class StoreView(NamedTuple):
    engine: Engine
    #: Every statement of a tier filters by it.
    workspace: str
    config: Config
    #: Python objects that take the place of the settings `llm` and `embedder`.
    llm: Provider | None = None
    embedder: Embedder | None = None
    #: None if the caller is this process. Otherwise folders and processes here say nothing about the caller.
    elsewhere: Elsewhere | None = None
    #: The author of what is written: the name of an access token. Local use has none.
    author: str | None = None

    @property
    def thinker(self) -> str:
        """The name of what thinks: the object that was given, else the setting."""
        return self.config.llm if self.llm is None else self.llm.name

    def typed(self, command: str) -> str:
        """A command for the reader to type. It names the workspace, unless the settings choose it by themselves."""
        chosen = self.config.workspace if self.config.origins.get("workspace") != "argument" else None
        return command if self.workspace == chosen else f"{command} --workspace {self.workspace}"
