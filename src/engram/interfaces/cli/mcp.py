"""`engram mcp`: the server that harnesses start for their agents."""

from __future__ import annotations

import os
import sys

import click

from .common import command, load_settings
from .screen import say


@command()
@click.pass_context
def mcp(ctx: click.Context) -> None:
    """Serve agents over MCP, on standard input and output.

    A harness starts it, as in {"command": "engram", "args": ["mcp"]}. docs/mcp.md lists its tools.
    """
    if "ENGRAM_THINKER" in os.environ:
        return  # a client that thinks for Engram is not served
    from ..mcp.stdio import serve

    if sys.stdin.isatty():
        say(
            "Waiting for MCP messages on standard input. Harnesses start this command themselves. Ctrl-D ends it.",
            err=True,
        )
    serve(load_settings(ctx))
