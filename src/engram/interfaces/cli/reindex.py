"""`engram reindex`: compute all embeddings again, with another model."""

from __future__ import annotations

import click

from .common import command, open_store, progress, result
from .counting import counted


@command()
@click.option(
    "--model", help="Embedder to use: static, minilm, openai or openai:MODEL.  [default: the configured embedder]"
)
@click.pass_context
def reindex(ctx: click.Context, model: str | None) -> None:
    """Compute all embeddings again, with the configured embedder or another one.

    Recall uses the old vectors until the new ones are complete. If the command is stopped, the next run continues
    from there. Afterwards set ENGRAM_EMBEDDER to the same model: a process with another model recalls by words alone.
    """
    eng = open_store(ctx)
    with progress("Reindexing") as show:
        made = eng.reindex(model, progress=show)
    result(ctx, {"embedded": made}, f"Embedded {counted(made, 'item')}.")
