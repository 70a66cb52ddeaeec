"""Another model for what is there already."""

from __future__ import annotations

import sys

import click

from .common import command, open_store, result


@command()
@click.option("--model", help="static, minilm, openai or openai:MODEL.  [default: the configured embedder]")
@click.pass_context
def reindex(ctx: click.Context, model: str | None) -> None:
    """Embed everything anew, with the configured embedder or another one.

    The old vectors serve until the new ones are complete. Stopped or killed, it goes on where it was when it is
    started again. Afterwards set ENGRAM_EMBEDDER to the same model: a process with another one recalls by words alone.
    """
    eng = open_store(ctx)
    with click.progressbar(length=1, label="Reindexing", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = max(total, 1)
            bar.update(done - bar.pos)

        made = eng.reindex(model, progress=show)
    result(ctx, {"embedded": made}, f"{made} embedded.")
