"""`engram reindex`: compute all embeddings again, with another model."""

from __future__ import annotations

import sys

import click

from .common import command, open_store, result
from .counting import counted


@command()
@click.option("--model", help="static, minilm, openai or openai:MODEL.  [default: the configured embedder]")
@click.pass_context
def reindex(ctx: click.Context, model: str | None) -> None:
    """Compute all embeddings again, with the configured embedder or another one.

    Recall uses the old vectors until the new ones are complete. If the command is stopped, it continues there when it
    is run again. Afterwards set ENGRAM_EMBEDDER to the same model: a process with another model recalls by words alone.
    """
    eng = open_store(ctx)
    with click.progressbar(length=1, label="Reindexing", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = max(total, 1)
            bar.update(done - bar.pos)

        made = eng.reindex(model, progress=show)
    result(ctx, {"embedded": made}, f"Embedded {counted(made, 'item')}.")
