"""Operations on blocks, the shared versioned texts; the world state is one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..records import WORLD
from .inputs import AT, CURSOR, LIMIT, ME_IF_KNOWN, REASON, Input, Operation, Pages, text, whole

if TYPE_CHECKING:
    from ..client import Engram

_NAME = text("name", "block name; world: the world state", required=True)
_CONTENT = text("content", required=True)
#: Any JSON beside the text. Without help, because every word of a tool's definition costs tokens.
_DATA = Input("data", "json")
_EXPECTED = whole("expected_version", "fail if it is at another version")


def _view(eng: Engram, name: str, version: int | None = None, at: str | None = None) -> object:
    if version is not None and at is not None:
        raise InvalidInput("version and at cannot be combined; leave one of them out.")
    block = eng.blocks.get(name, at=at)
    if block is None:
        raise eng.blocks.missing(name, at)
    if version is None:
        return block
    return {"name": name, "version": version, "content": eng.blocks.version(name, version)}


def _update(eng: Engram, name: str, content: str | None = None, session: str | None = None, **options: Any) -> object:
    # The first write creates the world state, which has no data.
    if name == WORLD and content is not None and options.get("data") is None:
        return eng.world.set(content, updated_by=session, **options)
    return eng.blocks.update(name, content, actor=session, **options)


def _archive_overflow(eng: Engram, name: str, session: str | None = None) -> object:
    return {"name": name, "overflow": eng.blocks.archive_overflow(name, actor=session)}


def _delete(eng: Engram, name: str) -> object:
    eng.blocks.delete(name)
    return {"deleted": name}


OPERATIONS = (
    Operation(
        "block.list", "read", "Names, versions and contents.", lambda eng, at=None: eng.blocks.list(at=at), (AT,)
    ),
    Operation(
        "block.view",
        "read",
        "The content, now or of a version.",
        _view,
        (_NAME, whole("version"), AT),
    ),
    Operation(
        "block.create",
        "write",
        "Create a block.",
        lambda eng, name, content="", session=None, **options: eng.blocks.create(
            name, content, actor=session, **options
        ),
        (
            ME_IF_KNOWN,
            _NAME,
            text("content"),
            _DATA._replace(rare=True),
            whole("max_tokens", "its token budget", rare=True),
        ),
    ),
    Operation(
        "block.update",
        "write",
        "Replace the whole content.",
        _update,
        (ME_IF_KNOWN, _NAME, text("content"), _DATA, REASON, _EXPECTED),
    ),
    Operation(
        "block.append",
        "write",
        "Add a line at the end.",
        lambda eng, name, content, session=None, separator="\n", **options: eng.blocks.append(
            name, content, actor=session, separator=separator, **options
        ),
        (
            ME_IF_KNOWN,
            _NAME,
            _CONTENT,
            REASON,
            _EXPECTED,
            text("separator", "between old and new", rare=True),
        ),
    ),
    Operation(
        "block.replace",
        "write",
        "Replace a passage that occurs once.",
        lambda eng, name, old, content, session=None, **options: eng.blocks.replace(
            name, old, content, actor=session, **options
        ),
        (
            ME_IF_KNOWN,
            _NAME,
            text("old", "passage to replace", required=True),
            _CONTENT,
            REASON,
            _EXPECTED,
        ),
    ),
    Operation(
        "block.history",
        "read",
        "Edits, newest first.",
        lambda eng, name, limit=10, start=None: eng.blocks.history(name, limit, before=start[0] if start else None),
        (_NAME, LIMIT, CURSOR),
        Pages(("version",), (int,), 10),
    ),
    Operation(
        "block.diff",
        "read",
        "What changed between two versions.",
        lambda eng, name, a, b: eng.blocks.diff(name, a, b),
        (_NAME, whole("a", required=True), whole("b", required=True)),
    ),
    Operation(
        "block.restore",
        "write",
        "Write an old version again.",
        lambda eng, name, version, session=None, **options: eng.blocks.restore(name, version, actor=session, **options),
        (ME_IF_KNOWN, _NAME, whole("version", required=True), _EXPECTED),
    ),
    Operation(
        "block.archive_overflow",
        "write",
        "Cut off and return the text beyond max_tokens.",
        _archive_overflow,
        (ME_IF_KNOWN, _NAME),
    ),
    Operation("block.delete", "admin", "Delete it with its history.", _delete, (_NAME,)),
)
