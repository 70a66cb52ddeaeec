"""The store that a program gives to an adapter: an open one, its address, or none for the user's own."""

from __future__ import annotations

import os
from typing import TypeAlias

from ..client import Engram, address

Store: TypeAlias = Engram | str | os.PathLike[str] | None


class GivenStore:
    """An open store. Closing it closes only what was opened here."""

    def __init__(self, store: Store, workspace: str | None) -> None:
        self._opened = not isinstance(store, Engram)
        if isinstance(store, Engram):
            self.eng = store if workspace is None else store.workspace(workspace)
        else:
            self.eng = Engram(address(store), workspace=workspace)

    def close(self) -> None:
        if self._opened:
            self.eng.close()
