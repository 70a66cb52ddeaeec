"""`engram dream thinker`: who thinks during passes, and choosing another."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from .common import Command, as_json, open_store, result
from .counting import counted
from .screen import one_line, say, style, wrapped

if TYPE_CHECKING:
    from ...client import Engram
    from ...setup_records import ThinkerChoice, ThinkerInfo


@click.command(cls=Command)
@click.argument("name", required=False)
@click.option("--program", metavar="PATH", help="Program of the client. Default: the one that PATH finds now.")
@click.option("--no-trial", is_flag=True, help="Do not ask the thinker a first question.")
@click.pass_context
def thinker(ctx: click.Context, name: str | None, program: str | None, no_trial: bool) -> None:
    """Show who thinks during passes, or choose NAME for it.

    NAME is extractive, agent, claude-code, codex, gemini, openai or anthropic; claude-code:MODEL names a model. Says
    what the thinker is and costs, asks it one short question, and stores the choice in your config.toml. For a client,
    the path of its program is stored too, and later passes run no other file.
    """
    eng = open_store(ctx)
    if name is None:
        if program is not None:
            raise click.UsageError("--program needs NAME.")
        listed = eng.thinkers.list()
        value = {"thinker": eng.settings.llm, "from": eng.settings.origins["llm"], "thinkers": listed}
        result(ctx, value, lambda: _listed(eng, listed))
        return
    program = None if program is None else os.path.abspath(os.path.expanduser(program))
    plan = eng.thinkers.plan(name, program)
    if not as_json(ctx):
        say(_planned(eng, plan))
    done = eng.thinkers.use(name, program, trial=not no_trial)
    warning = eng.thinkers.overruled(name)
    result(ctx, {**done._asdict(), "costs": plan.costs, "warning": warning}, lambda: _done(done, warning))


def thinks(name: str, origin: str = "") -> str:
    """Who thinks during passes, for a first reader, and where that was chosen."""
    shown = one_line(name, 200) + (f", from {one_line(origin, 1_000)}" if origin else "")
    if name == "extractive":
        return f"Dreaming works without a model ({shown}). It costs nothing."
    if name == "agent":
        return f"Dreaming leaves its work to your agents ({shown})."
    return f"Dreaming uses a model ({shown})."


def _planned(eng: Engram, plan: ThinkerInfo) -> str:
    lines = [f"{style(plan.name, bold=True)}: {plan.what}.", wrapped(plan.costs, 0)]
    if plan.program:
        lines.append(f"Program: {one_line(plan.program, 1_000)}")
    if plan.name not in ("extractive", "agent"):
        found = eng.settings
        lines.append(
            f"Caps: {found.dream_day_calls:,} calls and {found.dream_day_tokens:,} tokens a day in a workspace "
            "(dream_day_calls, dream_day_tokens)."
        )
    return "\n".join(lines)


def _done(done: ThinkerChoice, warning: str | None) -> str:
    lines = []
    if done.calls is not None:
        tokens = f"{done.input_tokens or 0:,} tokens in, {done.output_tokens or 0:,} out"
        lines.append(f"It answered the trial: {counted(done.calls, 'call')}, {tokens}.")
    lines.append(f"{thinks(done.name)} Stored in {one_line(done.file, 1_000)}.")
    if warning:
        lines.append(f"{style('Warning:', fg='yellow')} {one_line(warning, 1_000)}")
    return "\n".join(lines)


def _listed(eng: Engram, listed: list[ThinkerInfo]) -> str:
    setting, origin = eng.settings.llm, eng.settings.origins["llm"]
    lines = [style(thinks(setting, origin), bold=True), ""]
    for each in listed:
        mark = "now" if each.used else "no" if each.problem else "yes"
        lines.append(f"{each.name:20} {mark:4} {wrapped(each.what, 26)}")
        said = [each.costs, f"Program: {each.program}" if each.program else "", each.problem]
        lines += [style(f"  {wrapped(line, 2)}", dim=True) for line in said if line]
    lines += ["", "yes: could be used here; no: not yet. To choose one: engram dream thinker NAME"]
    return "\n".join(lines)
