"""Eras that somebody tells: a companion, or a system that is imported. Passes of dreaming write the others.

An era is a memory of kind `era` whose key is its month. Its data says which gists it tells. An era that is stored here
counts as made of the month's current gists. So forgetting finds it through them, and a pass leaves it alone until the
month has another gist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from .gists import Gists

if TYPE_CHECKING:
    from ..records import Memory
    from ..store_view import StoreView
    from .memories import Memories

KIND = "era"


class Eras:
    def __init__(self, view: StoreView, memories: Memories) -> None:
        self._engine = view.engine
        self._memories = memories
        self._gists = Gists(view, memories)

    def store(self, month: str, text: str, sessions: int, *, at: str | None = None, embed: bool = True) -> Memory:
        """Store the era of a month (`2026-03`), which had that many sessions. It replaces the month's era.

        `at` is when it was told, by default now. `embed=False` leaves its vector to the embedding queue.
        """
        checks.new_name(month, "month")
        checks.whole(sessions, "sessions", least=0)
        prepared = self._memories.prepare(text, embed=embed)
        with self._engine.write() as tx:
            self._memories.lock(tx)
            told = [gist.memory_id for gist in self._gists.by_month(month)[month]]
            data = {"sessions": sessions, "gists": sorted(told)}
            made_of = [("memory", id) for id in told]
            era = self._memories.remember(
                text, kind=KIND, key=month, sources=made_of, data=data, prepared=prepared, at=at
            )
            if era.data != data:  # the same text was stored before
                era = self._memories.update(era.id, data=data, at=at)
            self._memories.mark_rebuilt(tx, era.id)
            for gist in told:
                self._gists.mark_folded(tx, KIND, gist)
            return era

    # Last, because its name hides the type from annotations that follow it.
    def list(self) -> list[Memory]:
        """The current eras, by month."""
        found = [era for era in self._memories.list(kind=KIND) if era.key is not None and era.content]
        return sorted(found, key=lambda era: era.key or "")
