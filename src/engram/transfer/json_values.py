"""What JSON of each column may be, as `column_values` says it of other values.

Undoing and forgetting take snapshots apart and write their values back into tables; reports, receipts and proposals are
shown and carried out. Text that is no JSON is let through, because the tiers read it as empty: a damaged row of the
other store stays as it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..dreaming.reports import is_report
from ..dreaming.undo import shapes
from ..forgetting.forget import IS_WENT
from ..json_shapes import anything, list_of, maybe, object_of, real, record, text
from .column_values import check_of, is_number
from .tables import BY_NAME, OF_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..json_shapes import Shape

Values = dict[str, Any]

_PROPOSAL = {"block": text, "kind": text, "winner": is_number, "importance": real, "tags": list_of(text)}
#: What carrying out a proposal needs.
_NEEDED = {"supersede": ("winner",), "overflow": ("block",), "rewrite": ("block",), "remember": ("kind", "importance")}
_PROPOSALS = {
    what: record(
        {name: _PROPOSAL[name] for name in _NEEDED.get(what, ())}, {**_PROPOSAL, "session": maybe(text), "said": text}
    )
    for what in ("remember", "merge", "supersede", "archive", "overflow", "rewrite")
}
#: Names of columns of a version and of a link in a snapshot.
_VERSION = ("version", "content", "reason", "actor", "created_at", "receipt")
_LINK = ("from_id", "to_id", "relation", "created_at")
_SOURCE = ("derived_version", "source_kind", "source_id")


def is_right(table: str, column: str, values: Values) -> bool:
    """Whether the JSON in a column of a row has what its readers rely on."""
    check, stored = _CHECKS.get((table, column)), values[column]
    if check is None or stored is None:
        return True
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        return True
    return check(values, found)


def _fits(shape: Shape) -> Callable[[Values, Any], bool]:
    return lambda _values, found: shape(found)


def _is_proposal(values: Values, found: Any) -> bool:
    return _PROPOSALS.get(values["what"], record({}))(found)


def _is_snapshot(values: Values, found: Any) -> bool:
    kind = values["kind"]
    if not shapes.is_snapshot((kind, values["ref"]), found):
        return False
    if found is None:
        return True
    if kind == "session":
        gist, at, month = found["gist"] or (1, None, None)
        folds = [("folds", {"target": target, "after": after}) for target, after in found["folds"]]
        gists = [("gists", {"memory_id": gist, "at": at, "month": month})] if at else []
        return all(map(is_number, found["covered"])) and _are_values([*gists, *folds])
    table = OF_KIND[kind]
    parts = [(table, found["row"])]
    parts += [(f"{kind}_versions", dict(zip(_VERSION, each, strict=True))) for each in found["versions"]]
    parts += [("sources", dict(zip(_SOURCE, each, strict=True))) for each in found["sources"]]
    parts += [("memory_links", dict(zip(_LINK, each, strict=True))) for each in found.get("links", ())]
    numbers = [found["since"], found["rebuild"] or 0, found.get("approved") or 0]
    return all(map(is_number, numbers)) and _are_values(parts)


def _are_values(parts: Iterable[tuple[str, Values]]) -> bool:
    """Whether an undo can write these values back into columns of tables."""
    for table, values in parts:
        columns = {column.name: column for column in BY_NAME[table].table.columns}
        for name, value in values.items():
            column = columns[name]
            if not column.nullable if value is None else check_of(column)(value):
                return False
    return True


def _is_state(values: Values, found: Any) -> bool:
    return shapes.is_state((values["kind"], values["ref"]), found)


_CHECKS: dict[tuple[str, str], Callable[[Values, Any], bool]] = {
    ("receipts", "went"): _fits(IS_WENT),
    ("memory_states", "tags"): _fits(list_of(text)),
    ("dreams", "report"): _fits(is_report),
    ("journal", "before"): _is_snapshot,
    ("journal", "after"): _is_state,
    ("proposals", "data"): _is_proposal,
    ("sessions", "metadata"): _fits(object_of(anything)),
    ("work", "form"): _fits(object_of(anything)),
}
