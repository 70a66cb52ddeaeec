"""What every tier works on: an engine, a workspace, and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .config import Config
    from .storage.engine import Engine


class Scope(NamedTuple):
    engine: Engine
    #: Every statement a tier runs filters by it.
    workspace: str
    config: Config
