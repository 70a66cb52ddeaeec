"""`engram lock …`: claim what you are about to change, and see other claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import Group, duration_type, open_store, result, session_option, utc_option
from .persons import sender
from .screen import ago, one_line, session_task, short_ids, style, table, until, when

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...records import Holder, Lease, Session


@click.group(cls=Group)
def lock() -> None:
    """Claims on files and other resources.

    A RESOURCE is a path, a glob as in .gitignore (quote it: '*.md', 'src/**'), or any name such as staging or
    port:8080.
    """


@lock.command()
@click.argument("resource")
@click.option("--note", help="Purpose of the claim, for other sessions.")
@click.option(
    "--exclusive",
    is_flag=True,
    help="Fail if another session holds it. Until it ends, others can claim it only as advisory.",
)
@click.option(
    "--ttl", metavar="TIME", callback=duration_type, help="Time after which the claim ends: 90 (seconds), 30s, 15m, 2h."
)
@click.option(
    "--wait",
    metavar="TIME",
    default="0",
    callback=duration_type,
    help="Maximum time to wait for an exclusive claim.",
)
@utc_option
@session_option()
@click.pass_context
def claim(
    ctx: click.Context,
    resource: str,
    note: str | None,
    exclusive: bool,
    ttl: float | None,
    wait: float,
    session_id: str,
) -> None:
    """Claim a resource, and show other claims on it."""
    if wait and not exclusive:
        raise click.UsageError("--wait needs --exclusive: an advisory claim never waits.")
    lease = open_store(ctx).leases.claim(session_id, resource, note, exclusive=exclusive, ttl=ttl, wait=wait)
    result(ctx, lease, lambda: _claimed(lease))


@lock.command()
@click.argument("resource", required=False)
@click.option("--all", "everything", is_flag=True, help="Release everything the session holds.")
@session_option()
@click.pass_context
def release(ctx: click.Context, resource: str | None, everything: bool, session_id: str) -> None:
    """Release a claim, or all of them."""
    if everything == (resource is not None):
        raise click.UsageError("Give a RESOURCE, or --all.")
    leases = open_store(ctx).leases
    released = [leases.release(session_id, resource)] if resource is not None else leases.release_all(session_id)
    result(
        ctx,
        released,
        "\n".join(f"Released {one_line(lease.resource, 200)}." for lease in released) or "Nothing was held.",
    )


@lock.command()
@click.argument("resource")
@utc_option
@click.pass_context
def check(ctx: click.Context, resource: str) -> None:
    """Show the claims on a resource and on everything that overlaps it."""
    holders = open_store(ctx).leases.check(resource)
    result(ctx, holders, lambda: _holders(holders) if holders else "No session holds it.")


@lock.command("list")
@click.option("--mine", is_flag=True, help="Only the claims of --session.")
@click.option("--overlaps", is_flag=True, help="Only pairs of claims of different sessions that overlap.")
@utc_option
@session_option(required=False)
@click.pass_context
def list_leases(ctx: click.Context, mine: bool, overlaps: bool, session_id: str | None) -> None:
    """List the claims, oldest first."""
    if overlaps:
        if mine:
            raise click.UsageError("Give --mine or --overlaps, not both.")
        pairs = open_store(ctx).leases.overlaps()
        result(ctx, pairs, lambda: "\n\n".join(_holders(list(pair)) for pair in pairs) or "No claims overlap.")
        return
    if mine and session_id is None:
        raise click.UsageError("--mine needs --session or ENGRAM_SESSION.")
    eng = open_store(ctx)
    leases = eng.leases.list(session_id if mine else None)

    def shown() -> str:
        return _leases(leases, eng.sessions.some({each.session_id for each in leases}))

    result(ctx, leases, shown if leases else "Nothing is claimed.")


@lock.command("break")
@click.argument("resource")
@click.option("--reason", required=True, help="Reason; the sessions that lose a claim get it as a message.")
@click.option(
    "--token",
    metavar="N",
    type=click.IntRange(min=1),
    help="Break only the claim with this token; `engram lock list` shows the tokens.",
)
@session_option(required=False)
@click.pass_context
def break_lease(ctx: click.Context, resource: str, reason: str, token: int | None, session_id: str | None) -> None:
    """End the claims of other sessions on a resource.

    This ends every claim of other sessions that overlaps RESOURCE. With --token it ends one of them, and fails if that
    claim has ended. You do not hold RESOURCE afterwards: `engram lock claim` claims it. Without --session a person
    breaks the claims, and in an agent's shell the agent's session.
    """
    eng = open_store(ctx)
    # Left out when it is not given: a server of an earlier release does not know it.
    options = {} if token is None else {"token": token}
    broken = eng.leases.break_lease(resource, sender(eng, session_id), reason, **options)
    result(ctx, broken, "\n".join(map(_ended, broken)))


def _ended(lease: Lease) -> str:
    return f"Ended the claim of {lease.session_id} on {one_line(lease.resource, 200)} (token {lease.token})."


def _claimed(lease: Lease) -> str:
    kind = "exclusively" if lease.exclusive else "as advisory"
    until = f" until {when(lease.expires_at)}" if lease.expires_at else ""
    text = f"Claimed {one_line(lease.resource, 200)} {kind}{until}; token {lease.token}."
    if lease.conflicts:
        warning = style("Other sessions claim it too:", fg="yellow")
        text += f"\n{warning}\n{_holders(list(lease.conflicts))}"
    return text


def _holders(holders: list[Holder]) -> str:
    short = short_ids(each.session_id for each in holders)
    return table(
        ("resource", "kind", "session", "type", "since", "note"),
        [
            (
                each.resource,
                _kind(each),
                short(each.session_id) + (" (stale)" if each.stale else ""),
                each.session_type,
                ago(each.claimed_at, short=True),
                each.note or "",
            )
            for each in holders
        ],
    )


def _leases(leases: list[Lease], sessions: Mapping[str, Session]) -> str:
    short = short_ids(each.session_id for each in leases)
    return table(
        ("resource", "kind", "session", "agent", "since", "expires", "token", "note"),
        [
            (
                each.resource,
                _kind(each),
                short(each.session_id),
                session_task(sessions[each.session_id]) if each.session_id in sessions else "",
                ago(each.claimed_at, short=True),
                until(each.expires_at, short=True),
                str(each.token),
                each.note or "",
            )
            for each in leases
        ],
        spare=("token", "since"),
    )


def _kind(claim: Holder | Lease) -> str:
    return "exclusive" if claim.exclusive else "advisory"
