"""`engram session …`: start a session, report what it works on, and complete it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import (
    SESSION,
    Group,
    complete_session,
    limit_option,
    moment_type,
    open_store,
    result,
    session_option,
    text_from,
    utc_option,
)
from .screen import ago, by_whom, fields, hanging, short_ids, style, table, when, with_times

if TYPE_CHECKING:
    from ...records import Session

_ID = click.argument(
    "session_id", type=SESSION, metavar="[ID]", envvar="ENGRAM_SESSION", shell_complete=complete_session
)


@click.group(cls=Group)
def session() -> None:
    """Sessions: agents at work.

    ID is a session's id, a unique beginning or end of it, or its name. Without it, ENGRAM_SESSION is used:
    after `export ENGRAM_SESSION=$(engram session start claude-code "Porting the router")`, all commands act as that
    session.
    """


@session.command()
@click.argument("type")
@click.argument("summary")
@click.option("--name", help="Name for people.")
@click.option("--project", help="Project it works on.  [default: the git remote's or folder's name]")
@click.option(
    "--external-id", metavar="ID", help="Id that the harness gave it. An existing session with this id is resumed."
)
@click.option(
    "--parent",
    "parent_id",
    type=SESSION,
    metavar="ID",
    shell_complete=complete_session,
    help="Session that started it.",
)
@click.option("--meta", multiple=True, metavar="KEY=VALUE", help="Metadata; may be repeated.")
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
    """Start a session and print its id.

    TYPE is the kind of agent, such as claude-code. SUMMARY says what it is going to do.
    """
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
    """Send a heartbeat: the session is still at work. SUMMARY replaces what it is working on."""
    text = None if summary is None else text_from(summary)
    found = open_store(ctx).sessions.heartbeat(session_id, text)
    result(ctx, found, f"{found.id} is active.")


@session.command()
@click.argument("text", required=False)
@session_option()
@click.pass_context
def log(ctx: click.Context, text: str | None, session_id: str) -> None:
    """Add an entry to the session's log."""
    entry = open_store(ctx).sessions.log(session_id, text_from(text))
    result(ctx, entry, f"Logged as entry {entry.seq} of {entry.session_id}.")


@session.command()
@click.argument("outcome", required=False)
@session_option()
@click.pass_context
def done(ctx: click.Context, outcome: str | None, session_id: str) -> None:
    """Complete the session with its OUTCOME, and release its claims."""
    text = None if outcome is None else text_from(outcome)
    found = open_store(ctx).sessions.complete(session_id, text)
    result(ctx, found, f"{found.id} is completed.")


@session.command("list")
@click.option("--all", "everything", is_flag=True, help="Include sessions that have ended, newest first.")
@click.option("--tree", is_flag=True, help="Show subagents under their parents instead of counting them.")
@click.option("--dreams", is_flag=True, help="Include passes of dreaming.")
@limit_option("sessions with --all", 50)
@click.option("--since", metavar="TIME", callback=moment_type, help="Begun then or later: 2026-11-01, or 2h or 7d ago.")
@click.option("--until", metavar="TIME", callback=moment_type, help="Begun before that time.")
@click.option("--project", metavar="NAME", help="Only of this project.")
@click.option("--type", "session_type", metavar="NAME", help="Only of this kind of agent, such as claude-code.")
@click.option(
    "--status", type=click.Choice(["active", "idle", "completed", "abandoned"]), help="Only sessions of this status."
)
@utc_option
@click.pass_context
def list_sessions(
    ctx: click.Context,
    everything: bool,
    tree: bool,
    dreams: bool,
    limit: int,
    since: str | None,
    until: str | None,
    project: str | None,
    session_type: str | None,
    status: str | None,
) -> None:
    """List sessions at work, the latest heartbeat first.

    --since, --until and --status also list sessions that have ended, as --all does.
    """
    sessions = open_store(ctx).sessions
    everything = everything or any(given is not None for given in (since, until, status))
    if everything:
        found = sessions.list(
            limit,
            dreams=dreams,
            subagents=tree,
            since=since,
            until=until,
            project=project,
            type=session_type,
            status=status,
        )
    else:
        at_work = sessions.active(dreams=dreams, subagents=tree)
        found = [each for each in at_work if project in (None, each.project) and session_type in (None, each.type)]
    counts = sessions.subagents(active=not everything)
    narrowed = any(given is not None for given in (since, until, project, session_type, status))
    none = "There are no sessions yet." if everything else "No session is at work. --all lists those that have ended."
    none = "No session matches." if narrowed else none
    listed = [{**each._asdict(), "subagents": counts.get(each.id, 0)} for each in found]
    result(ctx, listed, lambda: _table(_under_parents(found), {} if tree else counts) if found else none)


@session.command()
@_ID
@utc_option
@click.pass_context
def show(ctx: click.Context, session_id: str) -> None:
    """Show everything about one session."""
    eng = open_store(ctx)
    found = eng.sessions.get(session_id)
    leases = eng.leases.list(session_id)
    result(
        ctx,
        {**found._asdict(), "leases": [lease._asdict() for lease in leases]},
        lambda: fields(
            {
                **with_times(_with_outcome_after_summary(found)),
                "status": _status(found),
                "stale": None,
                "metadata": ", ".join(f"{key}={value}" for key, value in found.metadata.items()) or None,
                "leases": ", ".join(lease.resource for lease in leases) or None,
            }
        ),
    )


@session.command()
@_ID
@limit_option("entries", 20)
@utc_option
@click.pass_context
def logs(ctx: click.Context, session_id: str, limit: int) -> None:
    """Show the session's log, newest entry first."""
    entries = open_store(ctx).sessions.logs(session_id, limit)
    heads = ["  ".join(filter(None, (when(entry.created_at), by_whom(entry.author)))) for entry in entries]
    lines = [f"{style(head, dim=True)}  {hanging(entry.content)}" for head, entry in zip(heads, entries, strict=True)]
    result(ctx, entries, "\n".join(lines) or "The log is empty.")


def _under_parents(sessions: list[Session]) -> list[Session]:
    """Each subagent behind its parent, if that is in the list; otherwise in the same order."""
    listed = {each.id for each in sessions}
    children: dict[str, list[Session]] = {}
    for each in sessions:
        if each.parent_id in listed:
            children.setdefault(str(each.parent_id), []).append(each)
    ordered: list[Session] = []
    waiting = [each for each in reversed(sessions) if each.parent_id not in listed]
    while waiting:
        each = waiting.pop()
        ordered.append(each)
        waiting.extend(reversed(children.get(each.id, [])))
    return ordered


def _table(sessions: list[Session], counts: dict[str, int]) -> str:
    # The outcome of a session that was resumed is in `show`; here it would read as what the session is doing.
    outcomes = [each.outcome if each.status == "completed" else "" for each in sessions]
    short = short_ids(each.id for each in sessions)
    return table(
        ("id", "name", "type", "status", "seen", "turns", "project", "author", "summary", "outcome"),
        [
            (
                short(each.id),
                each.name or "",
                _type(each, sessions, counts),
                _status(each),
                ago(each.heartbeat_at, short=True),
                f"{each.turns:,}",
                each.project or "",
                each.author or "",
                each.summary,
                outcome,
            )
            for each, outcome in zip(sessions, outcomes, strict=True)
        ],
        spare=("turns", "outcome", "author", "type"),
    )


def _type(session: Session, sessions: list[Session], counts: dict[str, int]) -> str:
    """`claude-code + 3 subagents`; a subagent behind its parent as `└ claude-code`."""
    count = counts.get(session.id, 0)
    if count:
        return f"{session.type} + {count} {'subagent' if count == 1 else 'subagents'}"
    return f"└ {session.type}" if session.parent_id in {each.id for each in sessions} else session.type


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
    return "stale" if session.stale else session.status


def _metadata(pairs: tuple[str, ...]) -> dict[str, object]:
    metadata: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.", param_hint="--meta")
        metadata[key] = value
    return metadata
