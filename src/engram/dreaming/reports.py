"""Reports of passes."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import json_columns
from ..dream_records import Due
from ..json_shapes import flag, list_of, maybe, object_of, real, record, text, whole
from ..records import DreamBacklog, DreamReport, Drives, UndoReport

_BACKLOG = record(dict.fromkeys(DreamBacklog._fields, whole), closed=True)
_DRIVES = record({**dict.fromkeys(Drives._fields, real), "updated_at": text}, closed=True)
_DUE = record({"stage": text, "due": flag, "waiting": whole, "would": text, "reason": text}, {"at": maybe(text)})
_TEXTS = list_of(text)
_COUNTS = (
    *("extracted", "proposals", "groups", "merged", "archived", "tokens_before", "tokens_after", "tokens_saved"),
    *("duplicates_merged", "conflicts_resolved", "summarized", "skipped"),
)
#: A report as a pass stores it. Later releases add fields.
_IS_PASS = record(
    {
        **dict.fromkeys(("before", "after"), _BACKLOG),
        **dict.fromkeys(("drives_before", "drives"), _DRIVES),
        **dict.fromkeys(("gists", "eras", "errors", "alarms"), _TEXTS),
        **dict.fromkeys(("calls", "input_tokens", "output_tokens", "waiting"), whole),
        "dry_run": flag,
        "provider": text,
        "blocks": object_of(whole),
        "seconds": object_of(real),
    },
    {
        **dict.fromkeys(_COUNTS, maybe(whole)),
        "notes": maybe(_TEXTS),
        "left_out": maybe(object_of(whole)),
        "due": list_of(_DUE),
    },
)
_IS_UNDO = record({}, {"run": whole, "restored": _TEXTS, "removed": _TEXTS, "left": _TEXTS})


def is_report(value: object) -> bool:
    """Whether this is a report that a pass or an undo has stored. It is empty until then."""
    is_undo = isinstance(value, dict) and ("kind" in value or not value)
    return _IS_UNDO(value) if is_undo else _IS_PASS(value)


def read_pass(stored: str) -> dict[str, Any]:
    """The fields of a pass's report; empty if it has none, or one that cannot be read."""
    values = _only(DreamReport, json_columns.load_object(stored, "dreams.report", _IS_PASS))
    if values:
        values["due"] = tuple(Due(**_only(Due, each)) for each in values.get("due", ()))
        for name in ("before", "after"):
            values[name] = DreamBacklog(**values[name])
        for name in ("drives_before", "drives"):
            values[name] = Drives(**values[name])
    return values


def read_undo(stored: str) -> dict[str, Any]:
    """The fields of an undo's report, without one that cannot be read."""
    return _only(UndoReport, json_columns.load_object(stored, "dreams.report", _IS_UNDO))


def _only(form: type[NamedTuple], values: dict[str, Any]) -> dict[str, Any]:
    """Without the fields of later releases."""
    return {name: value for name, value in values.items() if name in form._fields}


def empty_report(
    workspace: str,
    session: str | None,
    now: str,
    provider: str,
    backlog: DreamBacklog,
    levels: Drives,
    *,
    dry_run: bool = False,
) -> DreamReport:
    """A report of a pass that has done nothing yet."""
    return DreamReport(
        id=None,
        workspace=workspace,
        session_id=session,
        dry_run=dry_run,
        started_at=now,
        ended_at=None,
        provider=provider,
        before=backlog,
        after=backlog,
        drives_before=levels,
        drives=levels,
        gists=[],
        eras=[],
        blocks={},
        calls=0,
        input_tokens=0,
        output_tokens=0,
        waiting=0,
        seconds={},
        errors=[],
        alarms=[],
    )
