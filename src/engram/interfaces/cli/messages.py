"""`engram message …`: talk to the other agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .common import Group, complete_session, open_store, result, session_option, text_from, utc_option
from .screen import ago, hanging, one_line, short_ids, style

if TYPE_CHECKING:
    from ...client import Engram
    from ...records import Message


@click.group(cls=Group)
def message() -> None:
    """Messages between sessions."""


@message.command()
@click.argument("to", shell_complete=complete_session)
@click.argument("text", required=False)
@session_option(required=False)
@click.pass_context
def send(ctx: click.Context, to: str, text: str | None, session_id: str | None) -> None:
    """Send TEXT to a session, to the sessions that hold a resource, or to every session at work ('*').

    TO is a resource, or a session's id, a unique beginning or end of it, or its name. Without --session the message is
    from a person.
    """
    sent = _sent(open_store(ctx), session_id, to, text_from(text))
    result(ctx, sent, f"Sent to {', '.join(sent.recipients)}.")


@message.command()
@click.option("--peek", is_flag=True, help="Leave the messages unread.")
@utc_option
@session_option()
@click.pass_context
def inbox(ctx: click.Context, peek: bool, session_id: str) -> None:
    """Print the session's unread messages, oldest first. Printing marks them as read."""
    messages = open_store(ctx).messages
    if peek:
        _print(ctx, messages.inbox(session_id, peek=True))
        return
    if sys.stdout is None:
        raise click.ClickException("Standard output is closed; the messages stay unread.")
    with messages.showing(session_id) as unread:
        _print(ctx, unread)


def _sent(eng: Engram, sender: str | None, to: str, text: str) -> Message:
    """The message, sent. A text that may mean a session or a held resource is refused."""
    from ...errors import EngramError, SessionAmbiguous

    try:
        session = eng.sessions.resolve(to)
    except SessionAmbiguous:
        raise
    except EngramError:
        return eng.messages.send(sender, to, text)
    if session != to and eng.leases.check(to):
        raise click.UsageError(
            f"{to!r} is a short form of session {session} and also a resource that is held. Give the whole id, or the "
            "resource with its project."
        )
    return eng.messages.send(sender, session, text)


def _print(ctx: click.Context, unread: list[Message]) -> None:
    short = short_ids(each.from_session for each in unread if each.from_session)
    lines = [
        f"{style(one_line(short(each.from_session)) if each.from_session else 'a person', bold=True)}, "
        f"{ago(each.created_at)}{', shown again' if each.again else ''}\n  {hanging(each.text)}"
        for each in unread
    ]
    result(ctx, unread, "\n\n".join(lines) or "No unread messages.")
