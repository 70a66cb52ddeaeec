"""`engram open`: the dashboard of the server, in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import command, load_settings, result, typed
from .persons import require_person

if TYPE_CHECKING:
    from ...config import Config


@command()
@click.option("--print", "only_print", is_flag=True, help="Print the link instead, for a browser on another machine.")
@click.pass_context
def open(ctx: click.Context, only_print: bool) -> None:
    """Open the dashboard of the running server in the browser, logged in.

    The link works once and for ten minutes. If the store is that of another machine's server, its address is opened,
    and you log in there with your token.
    """
    require_person("log a browser in", "engram open")
    settings = load_settings(ctx)
    if settings.is_remote:
        _open_remote(ctx, settings, only_print)
        return
    from .. import login_page, server_file

    running = server_file.find(settings)
    if running is None:
        raise click.ClickException(
            f"No server of this store runs on this machine. Start one, and leave it running: {typed('serve')}"
        )
    link = login_page.make_link(settings, running.url)
    opened = not only_print and login_page.show(settings, link)
    told = {"url": running.url, "opened": opened} | ({} if opened else {"login": link})
    result(ctx, told, said(running.url, link, opened=opened, asked_to_print=only_print))


def said(url: str, link: str, *, opened: bool, asked_to_print: bool = False) -> str:
    """What to tell the user about a link. It is shown only if the browser did not get it."""
    if opened:
        return f"Opened {url} in your browser. If nothing appears: {typed('open', '--print')}"
    if asked_to_print:
        return link
    return f"No browser was found. To log one in, open this link within ten minutes. It works once: {link}"


def _open_remote(ctx: click.Context, settings: Config, only_print: bool) -> None:
    import webbrowser

    from ...server_url import servers
    from ..login_page import has_browser

    first = servers(settings.url)[0]
    url = f"{'https' if first.tls else 'http'}://{first.authority}"
    opened = not only_print and has_browser() and webbrowser.open(url)
    result(ctx, {"url": url, "opened": opened}, f"Opened {url} in your browser." if opened else url)
