"""`engram demo`: three scripted agents at work, and the situation report that each of them would see.

The agents use the same calls as real ones, in a temporary store. `engram demo --fill` writes a made-up month to the
user's store instead, for looking around: see `interfaces.demo`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .common import as_json, command, load_settings, progress, result
from .screen import META, fields, print_json, say, style

if TYPE_CHECKING:
    from ...client import Engram
    from ..demo.filling import Filled

#: Not a real project, so that the demo looks the same wherever it runs.
_PROJECT = "acme/shop"
#: The workspace that is filled, unless another one is named.
FILLED = "demo"


@command()
@click.option(
    "--pace", type=click.FloatRange(min=0, max=60), metavar="SECONDS", help="Seconds to pause after each step."
)
@click.option("--fill", is_flag=True, help="Fill a workspace of your store with a made-up month instead.")
@click.pass_context
def demo(ctx: click.Context, pace: float | None, fill: bool) -> None:
    """Watch three agents share a repository, in a temporary store.

    With --fill, a made-up month of a small team is written to the workspace `demo` of your store, or to the one that
    --workspace names. It must be empty. The month ends now and has everything that Engram keeps, so there is something
    to look at.
    """
    from ...client import Engram

    if fill:
        if pace is not None:
            raise click.UsageError("--pace is for the demo without --fill.")
        _fill(ctx)
        return
    terminal = sys.stdout.isatty() and not as_json(ctx)
    pause = (1.5 if terminal else 0.0) if pace is None else pace
    steps = []
    with (
        tempfile.TemporaryDirectory(prefix="engram-demo-") as folder,
        Engram(os.path.join(folder, "engram.db"), workspace="demo") as eng,
    ):
        for step, viewer in script(eng):
            report = eng.sitrep(session_id=viewer, project=_PROJECT)
            steps.append({"step": step, "report": report})
            if not as_json(ctx):
                _show(step, report, terminal)
                time.sleep(pause)
    if as_json(ctx):
        print_json(steps)
    else:
        say(style("The demo's store was deleted. Start with your own: `engram init`.", bold=True))


def _fill(ctx: click.Context) -> None:
    from ...store_url import masked
    from ..demo.filling import fill

    # The user's own workspace is never filled because a setting names it.
    ctx.meta.setdefault(f"{META}.workspace", FILLED)
    settings = load_settings(ctx)
    with progress("Filling") as show:
        filled = fill(settings, progress=show)
    result(ctx, filled, lambda: _said(filled, masked(settings.url)))


def _said(filled: Filled, store: str) -> str:
    counts = {name.replace("_", " "): count for name, count in filled._asdict().items() if name != "workspace"}
    named = f"--workspace {filled.workspace}"
    return "\n".join(
        [
            f"The workspace {style(filled.workspace, bold=True)} of {store} now has a made-up month:",
            fields(counts),
            f"Look around: `engram brief {named} --full`, `engram recall {named} 'why were customers charged twice'`,",
            "or in the browser: `engram serve`, then `engram open`.",
        ]
    )


def _show(step: str, report: str, terminal: bool) -> None:
    if terminal:
        click.clear()
    say(f"{style('▶ ' + step, fg='cyan', bold=True)}\n\n{report}\n")


def script(eng: Engram) -> Iterator[tuple[str, str | None]]:
    """Play the demo; after each step, give its description and the session that reads the report."""
    from ...errors import LeaseHeld, VersionConflict

    yield "No agent is at work yet.", None

    claude = eng.sessions.register("claude-code", "Porting the router to the new framework", project=_PROJECT)
    eng.world.set("Goal: ship 2.0 on Friday.\nThe old router stays until the new one passes all tests.", claude)
    yield "Claude Code starts and writes the world state.", claude

    eng.leases.claim(claude, f"{_PROJECT}:src/router.py", "rewriting")
    codex = eng.sessions.register("codex", "Adding rate limits", project=_PROJECT)
    eng.sessions.log(codex, "read the middleware; limits belong in the router")
    yield "Claude Code claims the file it rewrites. Codex joins and sees both.", codex

    claimed = eng.leases.claim(codex, f"{_PROJECT}:src/**", "rate limits").conflicts
    holder = claimed[0].session_id
    yield f"Codex claims all of src and learns that {holder} works on part of it.", codex

    companion = eng.sessions.register("companion", "Keeping the release notes", project=_PROJECT)
    eng.leases.claim(companion, f"{_PROJECT}:CHANGELOG.md", "release notes", exclusive=True, ttl=300)
    yield "A companion joins and claims the changelog exclusively.", companion

    try:
        eng.leases.claim(claude, f"{_PROJECT}:*.md", exclusive=True)
    except LeaseHeld as refused:
        eng.messages.send(claude, refused.holders[0].session_id, "I need the changelog for a line; when are you done?")
        yield (
            "Claude Code cannot claim the Markdown files, and asks the companion, which holds the changelog.",
            companion,
        )

    for message in eng.messages.inbox(companion):
        eng.sessions.log(companion, f"was asked: {message.text}")
        eng.leases.release(companion, f"{_PROJECT}:CHANGELOG.md")
        eng.messages.send(companion, claude, "It is yours now.")
    yield "The companion reads the question, releases the changelog, and answers.", claude

    seen = eng.blocks.get("world")
    assert seen is not None
    eng.world.set(seen.content + "\nRouter: ported, tests green.", claude, seen.version)
    try:
        eng.world.set(seen.content + "\nRate limits: in review.", codex, seen.version)
    except VersionConflict as conflict:
        eng.world.set(eng.world.get() + "\nRate limits: in review.", codex, conflict.current)
    yield "Claude Code and Codex edit the world state at once; neither overwrites the other.", codex

    eng.sessions.complete(claude, "Router ported; all 214 tests pass")
    yield "Claude Code is done. Its claims are released at once.", codex

    eng.sessions.complete(codex, "Rate limits added, 100 requests a minute")
    eng.sessions.complete(companion, "Release notes written")
    yield "All agents are done. The next one can read what happened.", None
