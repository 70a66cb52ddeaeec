"""What every tier works on: an engine, a workspace, and the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .config import Config
    from .storage.engine import Engine, Transaction

#: Called with a kind (`memory`, `block`, `session`) and an id before such a thing is changed, and right after its row
#: was made: so whoever keeps a journal sees it as it was.
Watch: TypeAlias = "Callable[[Transaction, str, str | int], None]"


class Scope(NamedTuple):
    engine: Engine
    #: Every statement a tier runs filters by it.
    workspace: str
    config: Config
