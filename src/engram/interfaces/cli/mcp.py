"""`engram mcp`: the server that harnesses start for their agents."""

from __future__ import annotations

import sys

import click

from .common import command, load_settings
from .screen import say


@command()
@click.pass_context
def mcp(ctx: click.Context) -> None:
    """Serve agents over MCP, on standard input and output.

    A harness starts it, as in {"command": "engram", "args": ["mcp"]}; docs/mcp.md shows what it offers.
    """
    from ..mcp.stdio import serve

    if sys.stdin.isatty():
        say("Speaking MCP on standard input; a harness starts this by itself. Ctrl-D ends it.", err=True)
    serve(load_settings(ctx))
