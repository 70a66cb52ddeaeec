"""`engram message …`: talk to the other agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ...records import PERSON
from .common import Group, as_json, complete_session, open_store, result, session_option, text_from, utc_option
from .persons import agent_variable, is_person, sender
from .screen import ago, by_whom, hanging, one_line, session_task, short_ids, style

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...client import Engram
    from ...records import Message

#: Characters of what a sender works on.
_TASK = 80
#: The address of every session at work.
_EVERYBODY = "*"


@click.group(cls=Group)
def message() -> None:
    """Messages between sessions, and to the person."""


@message.command()
@click.argument("to", shell_complete=complete_session)
@click.argument("text", required=False)
@session_option(required=False)
@click.pass_context
def send(ctx: click.Context, to: str, text: str | None, session_id: str | None) -> None:
    """Send TEXT to a session, to the sessions that hold a resource, to every session at work ('*'), or to the person.

    TO is a resource, or a session's id, a unique beginning or end of it, or its name. `person` is the person whose
    workspace it is. Without --session the message is from a person, and in an agent's shell from the agent's session.
    """
    eng = open_store(ctx)
    sent = _sent(eng, sender(eng, session_id), to, text_from(text))
    result(ctx, sent, f"Sent to {', '.join(sent.recipients)}.")


@message.command()
@click.argument("whose", metavar="[person|SESSION]", required=False, shell_complete=complete_session)
@click.option("--peek", is_flag=True, help="Leave the messages unread.")
@utc_option
@session_option(required=False)
@click.pass_context
def inbox(ctx: click.Context, whose: str | None, peek: bool, session_id: str | None) -> None:
    """Print the session's unread messages, oldest first. Printing marks them as read.

    SESSION is a session's id, a unique beginning or end of it, or its name; it is the same as --session.
    `engram message inbox person` prints those to the person instead, and so does a person's command without a session.
    In an agent's shell they stay unread.
    """
    if whose is not None and whose != PERSON:
        session_id = open_store(ctx).sessions.resolve(whose)
        whose = None
    elif is_person(session_id):
        whose = PERSON
    if whose is None and session_id is None:
        option = next(each for each in ctx.command.params if each.name == "session_id")
        raise click.MissingParameter("`engram message inbox person` prints those to the person.", ctx=ctx, param=option)
    eng = open_store(ctx)
    messages = eng.messages
    reader = whose or str(session_id)
    if peek or (whose and agent_variable() is not None):
        _print(ctx, eng, messages.inbox(reader, peek=True))
        return
    if sys.stdout is None:
        raise click.ClickException("Standard output is closed; the messages stay unread.")
    with messages.showing_person() if whose else messages.showing(reader) as unread:
        _print(ctx, eng, unread)


@message.command("list")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Maximum number; 0: all.")
@click.option("--of-session", metavar="ID", help="Only messages that this session sent or was sent.")
@utc_option
@click.pass_context
def list_messages(ctx: click.Context, limit: int, of_session: str | None) -> None:
    """List the messages of all sessions and of the person, newest first. It marks nothing as read."""
    eng = open_store(ctx)
    session = eng.sessions.resolve(of_session) if of_session else None
    _print(ctx, eng, eng.messages.list(limit, session_id=session), "There are no messages.", addressed=True)


def _sent(eng: Engram, by: str | None, to: str, text: str) -> Message:
    """The message, sent. A text that may mean a session or a held resource is refused."""
    from ...errors import EngramError, SessionAmbiguous

    if to == PERSON:
        return eng.messages.send(by, to, text)
    try:
        session = eng.sessions.resolve(to)
    except SessionAmbiguous:
        raise
    except EngramError:
        return eng.messages.send(by, to, text)
    if session != to and eng.leases.check(to):
        raise click.UsageError(
            f"{to!r} is a short form of session {session} and also a resource that is held. Give the whole id, or the "
            "resource with its project."
        )
    return eng.messages.send(by, session, text)


def _print(
    ctx: click.Context,
    eng: Engram,
    found: list[Message],
    nothing: str = "No unread messages.",
    *,
    addressed: bool = False,
) -> None:
    short = short_ids(each for message in found for each in (message.from_session, message.to) if each)
    senders = {each.from_session for each in found if each.from_session}
    known = eng.sessions.some(senders) if senders and not as_json(ctx) else {}
    lines = []
    for each in found:
        sender = style(one_line(short(each.from_session)) if each.from_session else "a person", bold=True)
        if session := known.get(each.from_session or ""):
            sender += f" ({one_line(session_task(session), _TASK)})"
        receiver = f" to {_receiver(each.to, short)}" if addressed else ""
        head = [f"{sender}{receiver}", by_whom(each.author), ago(each.created_at), "shown again" if each.again else ""]
        lines.append(f"{', '.join(filter(None, head))}\n  {hanging(each.text)}")
    result(ctx, found, "\n\n".join(lines) or nothing)


def _receiver(to: str, short: Callable[[str], str]) -> str:
    """To whom a message is addressed: a session, a resource, the person, or everyone."""
    if to == PERSON:
        return "the person"
    return "every session" if to == _EVERYBODY else one_line(short(to), 200)
