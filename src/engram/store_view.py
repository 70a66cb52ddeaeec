"""What every tier works on: an engine, a workspace, and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from .config import Config
    from .storage.engine import Engine, Transaction


class Watch(Protocol):
    """Called with a kind (`memory`, `block`, `session`) and an id before such a thing is changed, and right after its
    row was made: so whoever keeps a journal sees it as it was. Versions after `since` are about to go."""

    def __call__(self, tx: Transaction, kind: str, ref: str | int, since: int | None = None) -> None: ...


class StoreView(NamedTuple):
    engine: Engine
    #: Every statement a tier runs filters by it.
    workspace: str
    config: Config
