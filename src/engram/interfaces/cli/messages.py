"""`engram message …`: talk to the other agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .common import Group, complete_session, open_store, result, session_option, text_from
from .screen import hanging, one_line, style

if TYPE_CHECKING:
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
    """Send TEXT to a session, to the holders of a resource, or to everybody at work ('*').

    Without --session it is from a person.
    """
    sent = open_store(ctx).messages.send(session_id, to, text_from(text))
    result(ctx, sent, f"Sent to {', '.join(sent.recipients)}.")


@message.command()
@click.option("--peek", is_flag=True, help="Leave them unread.")
@session_option()
@click.pass_context
def inbox(ctx: click.Context, peek: bool, session_id: str) -> None:
    """Unread messages of the session, oldest first. They are read once they are printed."""
    messages = open_store(ctx).messages
    if peek:
        _print(ctx, messages.inbox(session_id, peek=True))
        return
    if sys.stdout is None:
        raise click.ClickException("Standard output is closed; the messages stay unread.")
    with messages.showing(session_id) as unread:
        _print(ctx, unread)


def _print(ctx: click.Context, unread: list[Message]) -> None:
    lines = [
        f"{style(one_line(each.from_session) or 'a person', bold=True)}, {each.created_at[:19].replace('T', ' ')}"
        f"{', shown again' if each.again else ''}\n  {hanging(each.text)}"
        for each in unread
    ]
    result(ctx, unread, "\n\n".join(lines) or "No unread messages.")
