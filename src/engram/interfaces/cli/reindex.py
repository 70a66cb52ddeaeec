"""`engram reindex`: compute all embeddings again, with another model."""

from __future__ import annotations

import click

from .common import command, open_store, progress, result
from .counting import counted


@command()
@click.option(
    "--model",
    help="Embedder to use: static, minilm, openai, openai:MODEL or onnx:FOLDER.  [default: the workspace's, unless "
    "ENGRAM_EMBEDDER names another]",
)
@click.pass_context
def reindex(ctx: click.Context, model: str | None) -> None:
    """Compute missing embeddings, or all of them with another model.

    Recall uses the old vectors until the new ones are complete. If the command is stopped, the next run continues
    from there. `engram embedder use` also installs a model and tries it first.
    """
    eng = open_store(ctx)
    with progress("Reindexing") as show:
        made = eng.reindex(model, progress=show)
    result(ctx, {"embedded": made}, f"Embedded {counted(made, 'item')}.")
