"""`engram block …` and `engram world …`: texts that agents edit, with every version kept.

The world state is the block `world`, so both groups share one implementation of each verb.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .common import (
    Group,
    as_json,
    complete_block,
    edited,
    limit_option,
    moment_type,
    open_store,
    result,
    session_option,
    text_from,
    utc_option,
)
from .counting import counted
from .screen import coloured_diff, one_line, print_json, print_stored, say, table, when

if TYPE_CHECKING:
    from ...client import Engram
    from ...records import Block, BlockEdit

WORLD = "world"

_NAME = click.argument("name", shell_complete=complete_block)
_TEXT = click.argument("text", required=False)
_REASON = click.option("--reason", default="", help="Reason for the change; kept in the history.")
_ACTOR = session_option(required=False, name="actor")
_EXPECT = click.option(
    "--expect",
    type=click.IntRange(min=0),
    metavar="VERSION",
    help="Fail unless the text is at this version; 0: not written yet.",
)


@click.group(cls=Group)
def block() -> None:
    """Named, versioned texts with a token budget.

    TEXT is an argument, - for standard input, or left out to write it in $EDITOR.
    """


@click.group(cls=Group)
def world() -> None:
    """The shared world state: what every agent should know.

    TEXT is an argument, - for standard input, or left out to write it in $EDITOR.
    """


def _both(command: str) -> Callable[[Callable[..., None]], None]:
    """Offer a verb on any block, and on the world state."""

    def register(verb: Callable[..., None]) -> None:
        # click collects a function's parameters on the function, in a list that it consumes.
        parameters: list[click.Parameter] = getattr(verb, "__click_params__", [])

        def on_world(*args: Any, **kwargs: Any) -> None:
            verb(*args, name=WORLD, **kwargs)

        world.command(command, params=parameters[::-1], help=verb.__doc__)(click.pass_context(on_world))
        block.command(command)(_NAME(click.pass_context(verb)))

    return register


_DATA = click.option("--data", metavar="JSON", help="Any JSON value to keep beside the text; - for standard input.")


_AT = click.option(
    "--at",
    metavar="TIME",
    callback=moment_type,
    help="As it was at this time: 2026-11-15, 2026-11-15T18:36, or 2h or 7d ago.",
)


@block.command()
@_NAME
@click.argument("text", default="")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=4096,
    show_default=True,
    help="Maximum number of tokens; see `engram block archive`.",
)
@_DATA
@_ACTOR
@click.pass_context
def create(ctx: click.Context, name: str, text: str, max_tokens: int, data: str | None, actor: str | None) -> None:
    """Create a block."""
    made = open_store(ctx).blocks.create(name, text_from(text), max_tokens, actor=actor, data=_json(data))
    result(ctx, made, f"Created block {made.name}.")


@block.command("list")
@_AT
@click.pass_context
def list_blocks(ctx: click.Context, at: str | None) -> None:
    """List all blocks by name."""
    from ...tokens import estimate

    blocks = open_store(ctx).blocks.list(at=at)
    rows = [
        (each.name, str(each.version), f"{estimate(each.content)}/{each.max_tokens}", each.content) for each in blocks
    ]
    result(ctx, blocks, lambda: table(("name", "version", "tokens", "content"), rows) if rows else "No blocks yet.")


@_both("show")
@click.option(
    "--version", type=click.IntRange(min=1), metavar="N", help="Show this version instead of the current one."
)
@_AT
@click.option("--data", "only_data", is_flag=True, help="Print the block's data, as JSON, instead of its text.")
def show(ctx: click.Context, name: str, version: int | None, at: str | None, only_data: bool) -> None:
    """Print the text."""
    if version is not None and at is not None:
        raise click.UsageError("Give --version or --at, not both.")
    blocks = open_store(ctx).blocks
    if version is not None:
        content = blocks.version(name, version)
        data = next((each.data for each in blocks.versions(name) if each.version == version), None)
        shown: dict[str, object] = {"name": name, "version": version, "content": content, "data": data}
    else:
        found = blocks.get(name, at=at)
        if found is None and name != WORLD:
            raise blocks.missing(name, at)
        shown = found._asdict() if found else {"name": name, "version": 0, "content": "", "data": None}
    if only_data:
        print_json(shown["data"])
    else:
        _printed(ctx, shown, "content")


@_both("set")
@_TEXT
@_REASON
@_DATA
@_EXPECT
@_ACTOR
def set_text(
    ctx: click.Context,
    name: str,
    text: str | None,
    reason: str,
    data: str | None,
    expect: int | None,
    actor: str | None,
) -> None:
    """Replace the whole text. With --data and no TEXT, replace only the data."""
    eng = open_store(ctx)
    if data is not None:
        kept = text if text is None else text_from(text)
        _written(ctx, eng.blocks.update(name, kept, reason, actor=actor, expected_version=expect, data=_json(data)))
        return
    before = eng.blocks.get(name)
    content = text_from(text, before.content if before else "")
    _written(ctx, _put(eng, name, content, reason, expect, actor))


@_both("edit")
@_REASON
@_ACTOR
def edit(ctx: click.Context, name: str, reason: str, actor: str | None) -> None:
    """Edit the text in $EDITOR.

    If another session changes it in the meantime, that is a conflict, and your text is saved to a file.
    """
    from ...errors import VersionConflict

    eng = open_store(ctx)
    before = eng.blocks.get(name)
    set_command = "engram world set" if name == WORLD else f"engram block set {name}"
    content = edited(before.content if before else "", f"`{set_command} -` reads the text from standard input.")
    try:
        _written(ctx, _put(eng, name, content, reason, before.version if before else 0, actor))
    except VersionConflict as error:
        raise VersionConflict(
            f"{error} Your text is in {_keep(content)}.", error.name, error.expected, error.current
        ) from error


@block.command()
@_NAME
@_TEXT
@_REASON
@_EXPECT
@_ACTOR
@click.pass_context
def append(ctx: click.Context, name: str, text: str | None, reason: str, expect: int | None, actor: str | None) -> None:
    """Add TEXT on a new line at the end."""
    added = text_from(text)
    blocks = open_store(ctx).blocks
    _written(ctx, blocks.append(name, added, reason, separator="\n", actor=actor, expected_version=expect))


@block.command()
@_NAME
@click.argument("old")
@click.argument("new")
@_REASON
@_EXPECT
@_ACTOR
@click.pass_context
def replace(
    ctx: click.Context, name: str, old: str, new: str, reason: str, expect: int | None, actor: str | None
) -> None:
    """Replace OLD with NEW. OLD must occur exactly once."""
    blocks = open_store(ctx).blocks
    _written(ctx, blocks.replace(name, old, new, reason, actor=actor, expected_version=expect))


@_both("history")
@limit_option("versions", 0)
@utc_option
def history(ctx: click.Context, name: str, limit: int) -> None:
    """List the versions, newest first."""
    edits = open_store(ctx).blocks.versions(name, limit)
    result(ctx, edits, lambda: _history(edits))


@_both("diff")
@click.argument("a", type=click.IntRange(min=1))
@click.argument("b", type=click.IntRange(min=1))
def diff(ctx: click.Context, name: str, a: int, b: int) -> None:
    """Show what changed from version A to version B."""
    text = open_store(ctx).blocks.diff(name, a, b)
    result(ctx, {"name": name, "a": a, "b": b, "diff": text}, lambda: coloured_diff(text))


@_both("restore")
@click.argument("version", type=click.IntRange(min=1))
@_ACTOR
def restore(ctx: click.Context, name: str, version: int, actor: str | None) -> None:
    """Write the text of an earlier VERSION again, as a new version."""
    _written(ctx, open_store(ctx).blocks.restore(name, version, actor=actor))


@block.command()
@_NAME
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def delete(ctx: click.Context, name: str, yes: bool) -> None:
    """Delete a block with its history."""
    if not yes:
        if as_json(ctx):
            raise click.UsageError("With --json there is no prompt: add --yes.")
        click.confirm("Delete the block with its whole history?", abort=True, err=True)
    open_store(ctx).blocks.delete(name)
    result(ctx, {"deleted": name}, f"Deleted block {name}.")


@block.command()
@_NAME
@_ACTOR
@click.pass_context
def archive(ctx: click.Context, name: str, actor: str | None) -> None:
    """Cut off the text beyond the block's token budget, and print it."""
    overflow = open_store(ctx).blocks.archive_overflow(name, actor=actor)
    _printed(ctx, {"name": name, "overflow": overflow}, "overflow")
    if overflow is None:
        say("The block is within its budget. Nothing was cut.", err=True)


@block.command()
@_NAME
@click.pass_context
def verify(ctx: click.Context, name: str) -> None:
    """Check that the latest version in the history is the current text."""
    versions = open_store(ctx).blocks.verify(name)
    result(
        ctx,
        {"name": name, "versions": versions},
        f"{name}: {counted(versions, 'version')}; the last one is the current text.",
    )


def _json(data: str | None) -> object:
    """The value of --data."""
    if data is None:
        return None
    import json

    try:
        value: object = json.loads(text_from(data))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--data is not valid JSON: {error}.") from error
    if value is None:
        raise click.UsageError("--data is null, which would change nothing; {} empties the data.")
    return value


def _put(eng: Engram, name: str, content: str, reason: str, expect: int | None, actor: str | None) -> Block:
    if name == WORLD:
        return eng.world.set(content, actor, expect, reason)
    return eng.blocks.update(name, content, reason, actor=actor, expected_version=expect)


def _written(ctx: click.Context, written: Block) -> None:
    result(ctx, written, f"{written.name} is now at version {written.version}.")


def _printed(ctx: click.Context, values: dict[str, object], text: str) -> None:
    """Print one of the values, a stored text, as it is; with --json all of them."""
    if as_json(ctx):
        print_json(values)
    else:
        print_stored(str(values[text] or ""))


def _history(edits: list[BlockEdit]) -> str:
    rows = [
        (
            str(each.version),
            when(each.created_at),
            each.actor or "",
            each.author or "",
            one_line(each.reason, 200),
            f"text forgotten (receipt {each.receipt})" if each.receipt else one_line(each.new, 100),
        )
        for each in edits
    ]
    return table(("version", "when", "session", "author", "reason", "text"), rows) if rows else "No versions yet."


def _keep(content: str) -> str:
    """Save a text that could not be stored to a file; its path."""
    import tempfile

    handle, path = tempfile.mkstemp(prefix="engram-", suffix=".md")
    with os.fdopen(handle, "w", encoding=sys.getfilesystemencoding()) as file:
        file.write(content)
    return path
