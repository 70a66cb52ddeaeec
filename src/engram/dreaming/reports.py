"""Reports of passes."""

from __future__ import annotations

from ..records import DreamBacklog, DreamReport, Drives


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
