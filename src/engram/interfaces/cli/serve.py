"""`engram serve`: the HTTP server."""

from __future__ import annotations

import click

from .common import command, load_settings


@command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8377, show_default=True, help="Port to listen on.")
@click.pass_context
def serve(ctx: click.Context, host: str, port: int) -> None:
    """Serve the store over HTTP."""
    settings = load_settings(ctx)
    from ..http.options import Options
    from ..http.serving import serve as run

    run(settings, Options(host=host, port=port), host=host, port=port)
