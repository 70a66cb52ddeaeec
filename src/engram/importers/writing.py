"""Writes what readers give into a store. It knows the store and no format.

Sessions are written in batches of some hundred turns, each one transaction together with the record of how far the
import has read. So an import can be killed and begun again, the same file adds nothing, and a longer one adds what is
new. A session that is at work now is left alone, and so is what a person has forgotten.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import checks
from ..clock import Clock, later
from ..errors import EngramError, ImportOverlap, InvalidInput, SessionNotFound
from ..import_records import SESSION, ImportReport, LeftOut, PastSession, PastTurn, Seen
from ..interfaces.external_ids import storable as storable_id
from ..records import PERSON
from ..redact import redact
from ..safe_text import one_line
from .items import BlockItem, EndItem, GistItem, LockItem, MemoryItem, SessionItem, Skipped, Turn
from .recorded import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..client import Engram
    from .items import Item

#: Turns that are written in one transaction; few enough that other writers do not wait long.
BATCH = 250
#: The most examples that are named for each reason to leave a record out.
_EXAMPLES = 3
#: How often a batch is tried again when another import writes the same sessions.
_TRIES = 5
_ROLES = ("user", "assistant", "system", "tool", "log")
_CUT = "\n… (cut)"
#: Seconds by which a time may be ahead of this machine's clock.
_AHEAD = 60

FORGOTTEN = "forgotten here"
AT_WORK = "still at work"
TOO_OLD = "before --since"
BETWEEN = "between turns that the hooks recorded"


class _Session:
    """A session that is being read."""

    def __init__(self, item: SessionItem, recorded: Recorded, id: str | None) -> None:
        self.item = item
        self.recorded = recorded
        #: Its id in the store, once it is there.
        self.id = id
        #: Why nothing of it is imported.
        self.skipped: str | None = None
        #: How many turns were read.
        self.number = recorded.seen.records if recorded.seen is not None and item.status == "active" else 0
        self.turns: list[PastTurn] = []
        #: Turns without a time that may lie between turns which others stored.
        self.held: list[PastTurn] = []
        self.gist: str | None = None
        self.at = item.started_at
        self.latest: str | None = None
        self.is_new = id is None
        #: Whether something was added, and whether that happened since its last gist.
        self.has_grown = self.gist_due = False


class Writer:
    def __init__(
        self, eng: Engram, source: str, *, project: str | None = None, since: str | None = None, again: bool = False
    ) -> None:
        self._eng = eng
        self._source = source
        self._project = project
        self._since = since
        self._again = again
        self._sessions: dict[str, _Session] = {}
        self._waiting = 0
        self._counts: Counter[str] = Counter()
        self._left_out: dict[str, list[str]] = {}
        self._left_out_number: Counter[str] = Counter()
        self._notes: dict[str, None] = {}
        self._first_at: str | None = None
        self._last_at: str | None = None
        self._where = ""
        self._latest_time = later(Clock().now(), _AHEAD)

    def write(self, items: Iterable[Item], where: str) -> None:
        """Write all items of one source."""
        self._where = where
        self._counts["files"] += 1
        for item in items:
            self._take(item)
        for session in list(self._sessions.values()):
            self._end(session)
        self._flush()
        self._sessions.clear()
