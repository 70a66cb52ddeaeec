"""Every error that Engram raises, as one tree.

Each class has a stable `code` (for programs), an HTTP status and an exit code (for the interfaces). The first line of a
class's docstring is its default message. Most raisers give their own: what was wrong, with which value, what to do.

    EngramError
    ├── InvalidInput                  a value that is never valid
    │   ├── ExportDamaged             an exported file that was cut off or changed; carries the line
    │   ├── InvalidURL                a store address that is not valid
    │   ├── NotOfFormat               a file to import that has another format
    │   ├── NotRemote                 a call that cannot be made over the network
    │   └── SessionAmbiguous          part of an id that several sessions share; carries their ids
    ├── NotFound                      the named thing does not exist
    │   ├── WorkspaceNotFound         carries the workspaces there are
    │   ├── SessionNotFound
    │   ├── LeaseNotFound
    │   ├── ExchangeNotFound
    │   ├── MemoryNotFound
    │   ├── BlockNotFound
    │   │   └── VersionNotFound
    │   ├── NoRecipient               a message that no session would receive
    │   ├── DreamNotFound
    │   ├── ProposalNotFound
    │   ├── TokenNotFound             no live access token of that name or id
    │   ├── ClientNotFound            no OAuth client of that id
    │   ├── NothingToImport           a path without anything to import
    │   ├── StoreNotFound             no store, and the caller does not want one made
    │   └── WorkNotFound              a work item for agents that does not exist
    ├── Conflict                      valid, but not in the current state
    │   ├── SessionEnded              the session must resume first
    │   ├── LeaseHeld                 carries the holders
    │   ├── LeaseLost                 the fencing token is stale
    │   ├── BlockExists
    │   ├── FileExists                a file that would be overwritten
    │   ├── StoreNotEmpty             a copy needs an empty store, or its own unfinished copy
    │   ├── WorkspaceNotEmpty         an import needs a workspace without content
    │   ├── TokenExists               a live access token has that name
    │   ├── IdempotencyConflict       the key was used for another request, or its answer is not there
    │   ├── ImportOverlap             two imports write the same session at once
    │   ├── PersonNeeded              only a person may decide this, and an agent asks
    │   ├── ProposalStale             its target has changed since
    │   ├── VersionConflict           carries the current version
    │   ├── SettingsConflict          a harness's settings hold another entry in Engram's place
    │   ├── UndoBlocked               carries the later changes
    │   └── StoreBusy                 another process is writing; try again
    ├── Unauthorized                  no valid token, login or code
    ├── Forbidden                     the token does not allow this
    ├── TooManyRequests               carries the seconds to wait
    ├── EmbedderFailed                the embedding model cannot be used; recall by words still works
    ├── CapReached                    the limit on model calls or tokens is reached
    ├── LLMFailed                     the language model gave no usable answer
    │   ├── LLMUnavailable            unreachable, busy, too slow, or the key or request was refused
    │   ├── LLMRefused                the model refused to answer
    │   ├── LLMTruncated              the answer did not fit into max_tokens
    │   └── LLMMalformed              the answer does not match the requested schema
    ├── Miscounted                    a change affected an unexpected number of rows
    ├── LogBroken                     a block's log does not end in its content
    ├── SettingsUnusable              a harness's settings file cannot be read or written
    └── StoreError                    the store cannot be used
        ├── StoreUnavailable          unreachable, or cannot be opened
        ├── StoreReadOnly
        ├── StoreFull
        ├── StoreDamaged              the file's contents contradict each other
        ├── NotAStore                 a file that is not an Engram store
        ├── StoreEncrypted            encrypted, and its key is missing, wrong or not safe to use
        ├── SchemaTooNew              written by a later Engram
        ├── UpgradeNeeded             written by an earlier Engram; this process does not migrate it
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

    def __init__(self, message: str | None = None, *, typed: str = "") -> None:
        """`typed` is advice that names commands. It ends the message; an interface without commands leaves it out."""
        #: The message without that advice.
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        super().__init__(f"{self.message} {typed}".rstrip())

    def details(self) -> dict[str, object]:
        """Data for programs, beyond the message; part of the error in every interface."""
        return {}


class InvalidInput(EngramError):
    """A value is not acceptable."""

    code = "invalid_input"
    status = 400
    exit_code = 2


class ExportDamaged(InvalidInput):
    """The exported file was cut off or changed."""

    code = "export_damaged"

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        #: The number of the line, beginning with 1.
        self.line = line

    def details(self) -> dict[str, object]:
        return {"line": self.line}


class InvalidURL(InvalidInput):
    """The store's address is not valid."""

    code = "invalid_url"


class NotOfFormat(InvalidInput):
    """The file does not have the format that was named."""

    code = "not_of_format"


class NotRemote(InvalidInput):
    """This cannot be done over the network. Do it on the server's machine, with its own store."""

    code = "not_remote"


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


class TokenNotFound(NotFound):
    """There is no such access token."""

    code = "token_not_found"


class ClientNotFound(NotFound):
    """There is no such OAuth client."""

    code = "client_not_found"


class NothingToImport(NotFound):
    """There is nothing to import at this path."""

    code = "nothing_to_import"


class StoreNotFound(NotFound):
    """There is no store at this address."""

    code = "store_not_found"


class NoRecipient(NotFound):
    """No session would receive this message."""

    code = "no_recipient"


class Conflict(EngramError):
    """The request conflicts with the current state."""

    code = "conflict"
    status = 409
    exit_code = 4


class SessionEnded(Conflict):
    """The session has been completed or abandoned."""

    code = "session_ended"


class LeaseHeld(Conflict):
    """Another session holds an overlapping claim."""

    code = "lease_held"

    def __init__(
        self, message: str, resource: str, holders: Sequence[Holder], waiting: Sequence[str], *, typed: str = ""
    ) -> None:
        super().__init__(message, typed=typed)
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
    """A block with that name already exists."""

    code = "block_exists"


class FileExists(Conflict):
    """The file exists already."""

    code = "file_exists"


class StoreNotEmpty(Conflict):
    """The store is not empty."""

    code = "store_not_empty"


class WorkspaceNotEmpty(Conflict):
    """The workspace is not empty."""

    code = "workspace_not_empty"

    def __init__(self, message: str, name: str, *, typed: str = "") -> None:
        super().__init__(message, typed=typed)
        self.name = name

    def details(self) -> dict[str, object]:
        return {"workspace": self.name}


class ProposalStale(Conflict):
    """The target of the proposal has changed since the proposal was made."""

    code = "proposal_stale"


class VersionConflict(Conflict):
    """The block has been changed in the meantime."""

    code = "version_conflict"

    def __init__(self, message: str, name: str, expected: int, current: int) -> None:
        super().__init__(message)
        self.name = name
        self.expected = expected
        #: The version to read, merge with and expect in the next attempt; 0 if there is no block.
        self.current = current

    def details(self) -> dict[str, object]:
        return {"name": self.name, "expected": self.expected, "current": self.current}


class TokenExists(Conflict):
    """An access token with that name already exists."""

    code = "token_exists"


class IdempotencyConflict(Conflict):
    """The idempotency key was used before, and its answer cannot be given again."""

    code = "idempotency_conflict"


class ImportOverlap(Conflict):
    """Another import is writing the same session. Wait until it has ended, then import again."""

    code = "import_overlap"


class PersonNeeded(Conflict):
    """Only a person may decide this."""

    code = "person_needed"
    status = 403


class SettingsConflict(Conflict):
    """A harness's settings hold another entry where Engram would write."""

    code = "settings_conflict"


class UndoBlocked(Conflict):
    """The pass cannot be undone."""

    code = "undo_blocked"

    def __init__(self, message: str, run: int, obstacles: Sequence[Obstacle] = ()) -> None:
        super().__init__(message)
        self.run = run
        #: The later changes; empty if they are not the reason.
        self.obstacles = tuple(obstacles)

    def details(self) -> dict[str, object]:
        return {"run": self.run, "obstacles": [obstacle._asdict() for obstacle in self.obstacles]}


class StoreBusy(Conflict):
    """Another process is writing to the store; try again."""

    code = "store_busy"
    status = 503


class Unauthorized(EngramError):
    """This needs a valid access token."""

    code = "unauthorized"
    status = 401


class Forbidden(EngramError):
    """The access token does not allow this."""

    code = "forbidden"
    status = 403


class TooManyRequests(EngramError):
    """There were too many requests; try again later."""

    code = "too_many_requests"
    status = 429

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        #: Seconds until the next attempt can succeed.
        self.retry_after = retry_after

    def details(self) -> dict[str, object]:
        return {"retry_after": self.retry_after}


class EmbedderFailed(EngramError):
    """The embedder cannot be used."""

    # Not a StoreError: the store works, and recall goes on by words.
    code = "embedder_failed"
    status = 503


class CapReached(EngramError):
    """The limit on model calls or tokens is reached."""

    code = "cap_reached"
    status = 429


class LLMFailed(EngramError):
    """The language model gave no usable answer."""

    code = "llm_failed"
    status = 502


class LLMUnavailable(LLMFailed):
    """The language model is not available."""

    code = "llm_unavailable"
    status = 503


class LLMRefused(LLMFailed):
    """The language model refused to answer."""

    code = "llm_refused"


class LLMTruncated(LLMFailed):
    """The language model's answer was cut off."""

    code = "llm_truncated"


class LLMMalformed(LLMFailed):
    """The language model's answer does not match the requested schema."""

    code = "llm_malformed"


class Miscounted(EngramError):
    """A change affected an unexpected number of rows and was rolled back."""

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
    #: True if a PostgreSQL server did not confirm a commit: the write may be there, or not.
    may_be_written: bool = False

    def __init__(self, message: str | None = None, *, may_be_written: bool = False) -> None:
        super().__init__(message)
        if may_be_written:
            self.may_be_written = True

    def details(self) -> dict[str, object]:
        return {"may_be_written": True} if self.may_be_written else {}


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


class StoreEncrypted(StoreError):
    """The store is encrypted, and its key is missing or wrong."""

    code = "store_encrypted"


class SchemaTooNew(StoreError):
    """The store was written by a later version of Engram."""

    code = "schema_too_new"


class UpgradeNeeded(StoreError):
    """The store was written by an earlier version of Engram and must be upgraded first."""

    code = "upgrade_needed"


class MigrationChanged(StoreError):
    """A migration of this store differs from the one that this version ships."""

    code = "migration_changed"


class MissingExtra(StoreError):
    """An optional dependency is not installed."""

    code = "missing_extra"
