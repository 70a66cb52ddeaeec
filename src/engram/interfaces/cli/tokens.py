"""`engram token …`: who may use this store over a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...access_records import SCOPES
from .common import Group, as_json, duration_type, load_settings, open_store, result, typed, utc_option
from .screen import META, ago, one_line, say, style, table, until, when
from .setup import shown_url

if TYPE_CHECKING:
    from ...access_records import AccessToken, Client, Consent, NewToken


@click.group(cls=Group)
def token() -> None:
    """Access tokens for `engram serve`: who may use this store from elsewhere.

    A token's name is shown as the author of what is written with it.
    """


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="write",
    show_default=True,
    help="What it allows: read; write, which includes read; or admin, which includes both.",
)
@click.option(
    "--expires",
    metavar="TIME",
    callback=duration_type,
    help="Time after which it ends, such as 12h or 30d. Default: never.",
)
@utc_option
@click.pass_context
def create(ctx: click.Context, name: str, scope: str, expires: float | None) -> None:
    """Make a token and print it. It is shown only once: the store keeps a hash."""
    # The common option chooses the workspace. Here that is the only one that the token is for.
    workspace = ctx.meta.get(f"{META}.workspace")
    eng = open_store(ctx)
    made = eng.access.tokens.create(name, scope, workspace=workspace, expires=expires)
    result(ctx, made, lambda: _created(made, shown_url(load_settings(ctx, warn=False))))
    if workspace is not None and workspace not in eng.workspace_names() and not as_json(ctx):
        say(f"Nothing is in workspace {one_line(workspace)} yet. The first write to it makes it.", err=True)


next(
    each for each in create.params if each.name == "workspace"
).help = "The only workspace that the token is for. Default: all."


@token.command("list")
@click.option("--ended", is_flag=True, help="Also tokens that have expired or were revoked.")
@utc_option
@click.pass_context
def list_tokens(ctx: click.Context, ended: bool) -> None:
    """List the tokens, and the OAuth clients that persons let in."""
    access = open_store(ctx).access
    # An OAuth client's token is replaced every hour. What lasts is the client.
    tokens = [each for each in access.tokens.list(ended=ended) if each.client_id is None]
    clients = access.clients.list()
    shown = [{name: value for name, value in each._asdict().items() if name != "hash"} for each in clients]
    result(ctx, {"tokens": tokens, "clients": shown}, lambda: _listed(tokens, clients))


@token.command()
@click.argument("name")
@click.pass_context
def revoke(ctx: click.Context, name: str) -> None:
    """End a token, or remove an OAuth client. NAME is its name or its id.

    Logins that began with the token end too, and so do the OAuth clients that were let in with it.
    """
    from ...errors import ClientNotFound, TokenNotFound

    access = open_store(ctx).access
    try:
        revoked = access.tokens.revoke(name)
    except TokenNotFound as unknown:
        try:
            removed = access.clients.remove(name)
        except ClientNotFound:
            raise unknown from None
        record = {"id": removed.id, "name": removed.name}
        result(ctx, {"client": record}, f"Removed the OAuth client {one_line(removed.name)}. Its tokens are revoked.")
        return
    result(ctx, {"token": revoked}, f"Revoked {one_line(revoked.name, 200)}.")


def _created(made: NewToken, store: str) -> str:
    token = made.token
    where = f"workspace {token.workspace}" if token.workspace else "all workspaces"
    end = f"until {when(token.expires_at)}" if token.expires_at else "until it is revoked"
    name, secret = one_line(token.name, 200), style(made.secret, bold=True)
    return (
        f"Token {name}: scope {token.scope}, {where}, {end}.\nIt is for the store {one_line(store, 5_000)}.\n\n"
        f"  {secret}\n\nStore it now. It is shown only once."
    )


def _listed(tokens: list[AccessToken], clients: list[Client]) -> str:
    rows = [*map(_token_row, tokens), *(row for each in clients for row in _client_rows(each))]
    if not rows:
        return f"There are no tokens. Make one: {typed('token', 'create', 'NAME')}"
    return table(("name", "id", "kind", "scope", "workspace", "created", "last use", "ends"), rows, whole={"id"})


def _token_row(token: AccessToken) -> tuple[str, ...]:
    if token.revoked_at is not None:
        end = "revoked"
    else:
        end = "expired" if _is_past(token.expires_at) else until(token.expires_at, short=True) or "never"
    return (token.name, token.id, "token", token.scope, token.workspace or "all", *_times(token), end)


def _client_rows(client: Client) -> list[tuple[str, ...]]:
    """A row for each consent. The id is the client's, because `revoke` removes the client."""
    named = client.id, "OAuth client"
    if not client.consents:
        return [(client.name, *named, "", "", ago(client.created_at, short=True), "never", "not let in")]
    return [
        (each.name, *named, each.scope, each.workspace or "all", *_times(each), until(each.expires_at, short=True))
        for each in client.consents
    ]


def _times(given: AccessToken | Consent) -> tuple[str, str]:
    return ago(given.created_at, short=True), ago(given.last_used_at, short=True) or "never"


def _is_past(stamp: str | None) -> bool:
    from ...clock import Clock

    return stamp is not None and stamp <= Clock().now()
