"""`engram session …`: say that you are at work, on what, and when you are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import Group, complete_session, open_store, result, session_option, text_from
from .screen import fields, hanging, one_line, style, table

if TYPE_CHECKING:
    from ...records import Session

_ID = click.argument("session_id", metavar="[ID]", envvar="ENGRAM_SESSION", shell_complete=complete_session)


@click.group(cls=Group)
def session() -> None:
    """Agents at work.

    `export ENGRAM_SESSION=$(engram session start claude-code "Porting the router")` makes the later commands act as
    that session.
    """


@session.command()
@click.argument("type")
@click.argument("summary")
@click.option("--name", help="A name for people.")
@click.option("--project", help="What it works in.  [default: the git remote's or folder's name]")
@click.option("--external-id", metavar="ID", help="The harness's own id; a known one is resumed.")
@click.option("--parent", "parent_id", metavar="ID", shell_complete=complete_session, help="Who started it.")
@click.option("--meta", multiple=True, metavar="KEY=VALUE", help="Something to keep about it; may be repeated.")
@click.pass_context
def start(
    ctx: click.Context,
    type: str,
    summary: str,
    name: str | None,
    project: str | None,
    external_id: str | None,
    parent_id: str | None,
    meta: tuple[str, ...],
) -> None:
    """Begin a session and print its id."""
    id = open_store(ctx).sessions.register(
        type,
        text_from(summary),
        _metadata(meta),
        name=name,
        project=project,
        external_id=external_id,
        parent_id=parent_id,
    )
    result(ctx, {"id": id}, id)


@session.command()
@click.argument("summary", required=False)
@session_option()
@click.pass_context
def beat(ctx: click.Context, summary: str | None, session_id: str) -> None:
    """Say that the session is still at work, and perhaps on what."""
    text = None if summary is None else text_from(summary)
    found = open_store(ctx).sessions.heartbeat(session_id, text)
    result(ctx, found, f"{found.id} is active.")


@session.command()
@click.argument("text", required=False)
@session_option()
@click.pass_context
def log(ctx: click.Context, text: str | None, session_id: str) -> None:
    """Note something done."""
    entry = open_store(ctx).sessions.log(session_id, text_from(text))
    result(ctx, entry, f"Noted as entry {entry.seq} of {entry.session_id}.")


@session.command()
@click.argument("outcome", required=False)
@session_option()
@click.pass_context
def done(ctx: click.Context, outcome: str | None, session_id: str) -> None:
    """Complete the session with what came of it, and release what it holds."""
    text = None if outcome is None else text_from(outcome)
    found = open_store(ctx).sessions.complete(session_id, text)
    result(ctx, found, f"{found.id} is completed.")


@session.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="With --all; 0: no limit."
)
@click.pass_context
def list_sessions(ctx: click.Context, everything: bool, limit: int) -> None:
    """Sessions at work, the latest heartbeat first; with --all every session, the newest first."""
    sessions = open_store(ctx).sessions
    found = sessions.list(limit) if everything else sessions.active()
    result(ctx, found, lambda: _table(found) if found else "No session is at work.")


@session.command()
@_ID
@click.pass_context
def show(ctx: click.Context, session_id: str) -> None:
    """Everything about one session."""
    eng = open_store(ctx)
    found = eng.sessions.get(session_id)
    leases = eng.leases.list(session_id)
    result(
        ctx,
        {**found._asdict(), "leases": [lease._asdict() for lease in leases]},
        lambda: fields(
            {
                **_with_outcome_after_summary(found),
                "status": _status(found),
                "stale": None,
                "metadata": found.metadata or None,
                "leases": ", ".join(lease.resource for lease in leases) or None,
            }
        ),
    )


@session.command()
@_ID
@click.option("-n", "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="0: all.")
@click.pass_context
def logs(ctx: click.Context, session_id: str, limit: int) -> None:
    """What the session noted, the latest first."""
    entries = open_store(ctx).sessions.logs(session_id, limit)
    lines = [f"{style(_time(entry.created_at), dim=True)}  {hanging(entry.content)}" for entry in entries]
    result(ctx, entries, "\n".join(lines) or "Nothing was noted yet.")


def _table(sessions: list[Session]) -> str:
    # The outcome of a session that was resumed is in `show`; here it would read as what the session is doing.
    outcomes = [one_line(each.outcome) if each.status == "completed" else "" for each in sessions]
    headings = ("id", "name", "type", "status", "heartbeat", "turns", "project", "summary")
    return table(
        (*headings, "outcome") if any(outcomes) else headings,
        [
            (
                each.id,
                one_line(each.name, 30),
                each.type,
                _status(each),
                _time(each.heartbeat_at),
                str(each.turns),
                each.project or "",
                one_line(each.summary),
                *([outcome] if any(outcomes) else []),
            )
            for each, outcome in zip(sessions, outcomes, strict=True)
        ],
    )


def _with_outcome_after_summary(session: Session) -> dict[str, object]:
    """The fields of a session as a person reads them; an empty outcome is left out."""
    shown: dict[str, object] = {}
    for name, value in session._asdict().items():
        if name != "outcome":
            shown[name] = value
        if name == "summary":
            shown["outcome"] = session.outcome or None
    return shown


def _status(session: Session) -> str:
    return "active, stale" if session.stale else session.status


def _time(stamp: str) -> str:
    return stamp[:19].replace("T", " ")


def _metadata(pairs: tuple[str, ...]) -> dict[str, object]:
    metadata: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.", param_hint="--meta")
        metadata[key] = value
    return metadata
