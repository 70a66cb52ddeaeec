"""Engram: one memory for all of a person's agents.

    from engram import Engram

    eng = Engram()
    sid = eng.sessions.register("claude-code", "Porting the router")
    print(eng.sitrep())

Names are loaded on first use, because a hook or `engram --help` imports this package without needing most of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import Engram as Engram
    from .clock import Clock as Clock
    from .config import Config as Config
    from .errors import BlockExists as BlockExists
    from .errors import BlockNotFound as BlockNotFound
    from .errors import CapReached as CapReached
    from .errors import Conflict as Conflict
    from .errors import DreamNotFound as DreamNotFound
    from .errors import EmbedderFailed as EmbedderFailed
    from .errors import EngramError as EngramError
    from .errors import ExchangeNotFound as ExchangeNotFound
    from .errors import InvalidInput as InvalidInput
    from .errors import InvalidURL as InvalidURL
    from .errors import LeaseHeld as LeaseHeld
    from .errors import LeaseLost as LeaseLost
    from .errors import LeaseNotFound as LeaseNotFound
    from .errors import LLMFailed as LLMFailed
    from .errors import LLMMalformed as LLMMalformed
    from .errors import LLMRefused as LLMRefused
    from .errors import LLMTruncated as LLMTruncated
    from .errors import LLMUnavailable as LLMUnavailable
    from .errors import LogBroken as LogBroken
    from .errors import MemoryNotFound as MemoryNotFound
    from .errors import MigrationChanged as MigrationChanged
    from .errors import Miscounted as Miscounted
    from .errors import MissingExtra as MissingExtra
    from .errors import NoRecipient as NoRecipient
    from .errors import NotAStore as NotAStore
    from .errors import NotFound as NotFound
    from .errors import ProposalNotFound as ProposalNotFound
    from .errors import ProposalStale as ProposalStale
    from .errors import SchemaTooNew as SchemaTooNew
    from .errors import SessionAmbiguous as SessionAmbiguous
    from .errors import SessionEnded as SessionEnded
    from .errors import SessionNotFound as SessionNotFound
    from .errors import SettingsConflict as SettingsConflict
    from .errors import SettingsUnusable as SettingsUnusable
    from .errors import StoreBusy as StoreBusy
    from .errors import StoreDamaged as StoreDamaged
    from .errors import StoreError as StoreError
    from .errors import StoreFull as StoreFull
    from .errors import StoreReadOnly as StoreReadOnly
    from .errors import StoreUnavailable as StoreUnavailable
    from .errors import UndoBlocked as UndoBlocked
    from .errors import UpgradeNeeded as UpgradeNeeded
    from .errors import VersionConflict as VersionConflict
    from .errors import VersionNotFound as VersionNotFound
    from .errors import WorkNotFound as WorkNotFound
    from .errors import WorkspaceNotFound as WorkspaceNotFound
    from .records import Block as Block
    from .records import BlockEdit as BlockEdit
    from .records import Change as Change
    from .records import DreamBacklog as DreamBacklog
    from .records import DreamReport as DreamReport
    from .records import DreamStatus as DreamStatus
    from .records import Drives as Drives
    from .records import Exchange as Exchange
    from .records import Gist as Gist
    from .records import Hit as Hit
    from .records import Holder as Holder
    from .records import Lease as Lease
    from .records import LogEntry as LogEntry
    from .records import Memory as Memory
    from .records import MemoryEdit as MemoryEdit
    from .records import Message as Message
    from .records import Obstacle as Obstacle
    from .records import Proposal as Proposal
    from .records import Receipt as Receipt
    from .records import Session as Session
    from .records import Spent as Spent
    from .records import Stats as Stats
    from .records import UndoReport as UndoReport
    from .records import WorkItem as WorkItem
    from .records import WorkspaceInfo as WorkspaceInfo

from ._version import VERSION as __version__

_WHERE = {
    "client": ("Engram",),
    "clock": ("Clock",),
    "config": ("Config",),
    "errors": (
        "BlockExists",
        "BlockNotFound",
        "CapReached",
        "Conflict",
        "DreamNotFound",
        "EmbedderFailed",
        "EngramError",
        "ExchangeNotFound",
        "InvalidInput",
        "InvalidURL",
        "LLMFailed",
        "LLMMalformed",
        "LLMRefused",
        "LLMTruncated",
        "LLMUnavailable",
        "LeaseHeld",
        "LeaseLost",
        "LeaseNotFound",
        "LogBroken",
        "MemoryNotFound",
        "MigrationChanged",
        "Miscounted",
        "MissingExtra",
        "NoRecipient",
        "NotAStore",
        "NotFound",
        "ProposalNotFound",
        "ProposalStale",
        "SchemaTooNew",
        "SessionAmbiguous",
        "SessionEnded",
        "SessionNotFound",
        "SettingsConflict",
        "SettingsUnusable",
        "StoreBusy",
        "StoreDamaged",
        "StoreError",
        "StoreFull",
        "StoreReadOnly",
        "StoreUnavailable",
        "UndoBlocked",
        "UpgradeNeeded",
        "VersionConflict",
        "VersionNotFound",
        "WorkNotFound",
        "WorkspaceNotFound",
    ),
    "records": (
        "Block",
        "BlockEdit",
        "Change",
        "DreamBacklog",
        "DreamReport",
        "DreamStatus",
        "Drives",
        "Exchange",
        "Gist",
        "Hit",
        "Holder",
        "Lease",
        "LogEntry",
        "Memory",
        "MemoryEdit",
        "Message",
        "Obstacle",
        "Proposal",
        "Receipt",
        "Session",
        "Spent",
        "Stats",
        "WorkItem",
        "UndoReport",
        "WorkspaceInfo",
    ),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [*sorted(_MODULE), "__version__", "sitrep"]


def sitrep(budget: int | None = 1_000, session_id: str | None = None, project: str | None = None) -> str:
    """The situation report of the user's own store."""
    from .client import Engram

    with Engram() as eng:
        return eng.sitrep(budget, session_id, project)


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULE[name]}", __name__), name)
    globals()[name] = value
    return value
