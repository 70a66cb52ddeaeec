"""Every error Engram raises, as one tree.

Each class has a stable `code` (for programs), an HTTP status and an exit code (for the interfaces). The first line
of a class's docstring is its default message; most raisers say more: what was wrong, with which value, what to do.

    EngramError
    ├── InvalidInput                  a value that can never be right
    │   ├── InvalidURL                a store address that cannot be read
    │   └── SessionAmbiguous          part of an id that several sessions share; carries their ids
    ├── NotFound                      something named that does not exist
    │   ├── WorkspaceNotFound         carries the workspaces there are
    │   ├── SessionNotFound
    │   ├── LeaseNotFound
    │   ├── ExchangeNotFound
    │   ├── MemoryNotFound
    │   ├── BlockNotFound
    │   │   └── VersionNotFound
    │   ├── NoRecipient               a message nobody would get
    │   ├── DreamNotFound
    │   ├── ProposalNotFound
    │   └── WorkNotFound              a piece of thinking that nobody left
    ├── Conflict                      right, but not now
    │   ├── SessionEnded              it must say that it is back first
    │   ├── LeaseHeld                 carries the holders
    │   ├── LeaseLost                 the fencing token is stale
    │   ├── BlockExists
    │   ├── ProposalStale             what it would change has changed since
    │   ├── VersionConflict           carries the current version
    │   ├── SettingsConflict          a harness's settings hold something else in Engram's place
    │   ├── UndoBlocked               carries what was changed since
    │   └── StoreBusy                 somebody else is writing; try again
    ├── EmbedderFailed                the model cannot be used; words still can
    ├── CapReached                    no more may be spent on models now
    ├── LLMFailed                     whoever thinks gave no answer that can be used
    │   ├── LLMUnavailable            unreachable, busy, too slow, or it refused the key or the request
    │   ├── LLMRefused                the model will not answer this
    │   ├── LLMTruncated              the answer did not fit into max_tokens
    │   └── LLMMalformed              the answer has not the form that was asked for
    ├── Miscounted                    a change would have touched other rows than planned
    ├── LogBroken                     a block's log does not end in its content
    ├── SettingsUnusable              a harness's settings file cannot be read or written
    └── StoreError                    the store cannot be used
        ├── StoreUnavailable          unreachable, or cannot be opened
        ├── StoreReadOnly
        ├── StoreFull
        ├── StoreDamaged              what the file holds contradicts itself
        ├── NotAStore                 a file that is not an Engram store
        ├── SchemaTooNew              written by a later Engram
        ├── UpgradeNeeded             written by an earlier Engram, and not to be migrated here
        ├── MigrationChanged          an applied migration was edited
        └── MissingExtra              an optional dependency is not installed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .records import Holder, Obstacle


class EngramError(Exception):
    """Something went wrong in Engram."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])

    def details(self) -> dict[str, object]:
        """What a program can act on, beyond the message; goes into every interface's error shape."""
        return {}


class InvalidInput(EngramError):
    """A value is not acceptable."""

    code = "invalid_input"
    status = 400
    exit_code = 2


class InvalidURL(InvalidInput):
    """The store's address cannot be understood."""

    code = "invalid_url"


class SessionAmbiguous(InvalidInput):
    """The text fits more than one session."""

    code = "session_ambiguous"

    def __init__(self, message: str, text: str, candidates: Sequence[str]) -> None:
        super().__init__(message)
        self.text = text
        #: The ids of sessions that the text fits; at most ten.
        self.candidates = tuple(candidates)

    def details(self) -> dict[str, object]:
        return {"text": self.text, "candidates": list(self.candidates)}


class NotFound(EngramError):
    """There is no such thing in this workspace."""

    code = "not_found"
    status = 404
    exit_code = 3


class WorkspaceNotFound(NotFound):
    """There is no such workspace in this store."""

    code = "workspace_not_found"

    def __init__(self, message: str, name: str, workspaces: Sequence[str]) -> None:
        super().__init__(message)
        self.name = name
        #: The workspaces there are.
        self.workspaces = tuple(workspaces)

    def details(self) -> dict[str, object]:
        return {"workspace": self.name, "workspaces": list(self.workspaces)}


class SessionNotFound(NotFound):
    """There is no such session in this workspace."""

    code = "session_not_found"


class LeaseNotFound(NotFound):
    """There is no such lease in this workspace."""

    code = "lease_not_found"


class ExchangeNotFound(NotFound):
    """There is no such exchange in this workspace."""

    code = "exchange_not_found"


class MemoryNotFound(NotFound):
    """There is no such memory in this workspace."""

    code = "memory_not_found"


class BlockNotFound(NotFound):
    """There is no such block in this workspace."""

    code = "block_not_found"


class VersionNotFound(BlockNotFound):
    """The block never had that version."""

    code = "version_not_found"


class DreamNotFound(NotFound):
    """There is no such dream in this workspace."""

    code = "dream_not_found"


class ProposalNotFound(NotFound):
    """There is no such proposal in this workspace."""

    code = "proposal_not_found"


class WorkNotFound(NotFound):
    """There is no such work item in this workspace."""

    code = "work_not_found"


class NoRecipient(NotFound):
    """Nobody would receive this message."""

    code = "no_recipient"


class Conflict(EngramError):
    """Somebody else's state stands in the way."""

    code = "conflict"
    status = 409
    exit_code = 4


class SessionEnded(Conflict):
    """The session has been completed or abandoned."""

    code = "session_ended"


class LeaseHeld(Conflict):
    """Another session holds an overlapping claim."""

    code = "lease_held"

    def __init__(self, message: str, resource: str, holders: Sequence[Holder], waiting: Sequence[str]) -> None:
        super().__init__(message)
        self.resource = resource
        #: Live overlapping claims of other sessions, oldest first.
        self.holders = tuple(holders)
        #: Sessions that asked earlier and are still waiting, in order of arrival.
        self.waiting = tuple(waiting)

    def details(self) -> dict[str, object]:
        return {
            "resource": self.resource,
            "holders": [holder._asdict() for holder in self.holders],
            "waiting": list(self.waiting),
        }


class LeaseLost(Conflict):
    """The lease behind this fencing token is no longer held."""

    code = "lease_lost"

    def __init__(self, message: str, token: int, reason: str) -> None:
        super().__init__(message)
        self.token = token
        #: How it ended: expired, released, broken, completed or abandoned.
        self.reason = reason

    def details(self) -> dict[str, object]:
        return {"token": self.token, "reason": self.reason}


class BlockExists(Conflict):
    """A block of that name exists already."""

    code = "block_exists"


class ProposalStale(Conflict):
    """What the proposal would change has changed since it was made."""

    code = "proposal_stale"


class VersionConflict(Conflict):
    """The block was changed by somebody else in the meantime."""

    code = "version_conflict"

    def __init__(self, message: str, name: str, expected: int, current: int) -> None:
        super().__init__(message)
        self.name = name
        self.expected = expected
        #: The version to read, merge with and name as expected in the next try; 0 when there is no block.
        self.current = current

    def details(self) -> dict[str, object]:
        return {"name": self.name, "expected": self.expected, "current": self.current}


class SettingsConflict(Conflict):
    """A harness's settings hold something else where Engram would write."""

    code = "settings_conflict"


class UndoBlocked(Conflict):
    """The run cannot be undone."""

    code = "undo_blocked"

    def __init__(self, message: str, run: int, obstacles: Sequence[Obstacle] = ()) -> None:
        super().__init__(message)
        self.run = run
        #: What was changed since, and how; empty when that is not the reason.
        self.obstacles = tuple(obstacles)

    def details(self) -> dict[str, object]:
        return {"run": self.run, "obstacles": [obstacle._asdict() for obstacle in self.obstacles]}


class StoreBusy(Conflict):
    """Another process is writing to the store; try again."""

    code = "store_busy"
    status = 503


class EmbedderFailed(EngramError):
    """The embedder cannot be used."""

    # Not a StoreError: the store is fine, and recall can go on with words alone.
    code = "embedder_failed"
    status = 503


class CapReached(EngramError):
    """No more may be spent on models now."""

    code = "cap_reached"
    status = 429


class LLMFailed(EngramError):
    """The language model gave no answer that can be used."""

    code = "llm_failed"
    status = 502


class LLMUnavailable(LLMFailed):
    """The language model cannot be used now."""

    code = "llm_unavailable"
    status = 503


class LLMRefused(LLMFailed):
    """The language model refused to answer."""

    code = "llm_refused"


class LLMTruncated(LLMFailed):
    """The language model's answer was cut off."""

    code = "llm_truncated"


class LLMMalformed(LLMFailed):
    """The language model's answer has not the form that was asked for."""

    code = "llm_malformed"


class Miscounted(EngramError):
    """A change would have touched other rows than it was planned to; it was taken back."""

    code = "miscounted"


class LogBroken(EngramError):
    """A block's log does not end in its current content."""

    code = "log_broken"


class SettingsUnusable(EngramError):
    """A harness's settings file cannot be read or written."""

    code = "settings_unusable"


class StoreError(EngramError):
    """The store cannot be used."""

    code = "store_error"
    status = 503


class StoreUnavailable(StoreError):
    """The store cannot be reached or opened."""

    code = "store_unavailable"


class StoreReadOnly(StoreError):
    """The store can be read but not written."""

    code = "store_read_only"


class StoreFull(StoreError):
    """The disk that holds the store is full."""

    code = "store_full"
    status = 507


class StoreDamaged(StoreError):
    """The store is damaged."""

    code = "store_damaged"


class NotAStore(StoreError):
    """The file is not an Engram store."""

    code = "not_a_store"


class SchemaTooNew(StoreError):
    """The store was written by a later version of Engram."""

    code = "schema_too_new"


class UpgradeNeeded(StoreError):
    """The store was written by an earlier version of Engram and has to be upgraded first."""

    code = "upgrade_needed"


class MigrationChanged(StoreError):
    """A migration that was applied to this store is not the one this version ships."""

    code = "migration_changed"


class MissingExtra(StoreError):
    """An optional dependency is not installed."""

    code = "missing_extra"
