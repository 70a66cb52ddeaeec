"""`engram embedder list` and `engram embedder use`: what finds texts by meaning."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from .common import Group, as_json, open_store, progress, result
from .counting import counted
from .screen import one_line, say, style, table, wrapped

if TYPE_CHECKING:
    from ...client import Engram
    from ...setup_records import EmbedderChange, EmbedderInfo, EmbedderPlan

#: List prices in US dollars for a million tokens, as of this release.
_PRICES = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13, "text-embedding-ada-002": 0.10}


@click.group(cls=Group)
def embedder() -> None:
    """Show and change what finds texts by meaning.

    A workspace uses one embedder. A new workspace takes the best one that is installed, unless ENGRAM_EMBEDDER names
    another. Engram never changes it by itself.
    """


@embedder.command("list")
@click.pass_context
def list_embedders(ctx: click.Context) -> None:
    """List the embedders: how much they find, what they take, and which one the workspace uses.

    PARAPHRASES is the share that is found of a hundred paraphrases without a common word, where it was measured. SIZE
    is what the embedder takes on the disk besides Engram itself.
    """
    eng = open_store(ctx)
    listed, better, problem = eng.embedders.list(), eng.embedders.better(), eng.embedders.problem()
    value = {
        "embedders": listed,
        "workspace": eng.workspace_name,
        "model": eng.embedders.model,
        "setting": eng.settings.embedder,
        "better": None if better is None else better.name,
        "problem": problem,
    }
    result(ctx, value, lambda: _listed(eng, listed, better, problem))


def _listed(eng: Engram, listed: list[EmbedderInfo], better: EmbedderInfo | None, problem: str | None) -> str:
    rows = [
        (
            each.name,
            "" if each.paraphrases is None else f"{each.paraphrases}%",
            f"{each.megabytes} MB" if each.megabytes else "",
            "yes" if each.installed else "no",
            "yes" if each.used else "",
        )
        for each in listed
    ]
    head, *shown = table(("name", "paraphrases", "size", "installed", "used"), rows, whole=("size",)).split("\n")
    lines = [head]
    for row, each in zip(shown, listed, strict=True):
        lines += [row, style(f"  {wrapped(each.what, 2)}", dim=True)]
    lines += ["", _state(eng, listed)]
    if problem:
        lines.append(f"{style('Warning:', fg='yellow')} {one_line(problem, 1_000)}")
    if better is not None:
        lines.append(f"{better.name} finds more. To change to it: engram embedder use {better.name}")
    return "\n".join(lines)


def _state(eng: Engram, listed: list[EmbedderInfo]) -> str:
    used = next((each for each in listed if each.used), None)
    if used is not None:
        return f"Workspace {eng.workspace_name} uses {used.name}."
    setting = eng.settings.embedder
    if setting == "none":
        return f"Workspace {eng.workspace_name} has no vectors, and the setting embedder is none: recall goes by words."
    return (
        f"Workspace {eng.workspace_name} has no vectors yet. The first ones will be of {eng.embedders.next_choice()}."
    )


@embedder.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def use(ctx: click.Context, name: str, yes: bool) -> None:
    """Give the workspace another embedder: static, minilm, openai, openai:MODEL or onnx:FOLDER.

    Says what it costs, installs what is missing, tries the model, and embeds everything again. Recall uses the old
    vectors until the new ones are complete. If the command is stopped, run it again: it continues from there.
    """
    eng = open_store(ctx)
    plan = eng.embedders.plan(name)
    if not as_json(ctx):
        say(_planned(plan, eng.workspace_name))
    if not yes:
        _ask()
    quiet = as_json(ctx)
    with progress("Embedding") as show:
        done = eng.embedders.use(plan.name, said=lambda line: None if quiet else say(f"{line} …"), progress=show)
    warning = _overruled(eng, plan.name)
    value = {**done._asdict(), "warning": warning}
    result(ctx, value, lambda: _done(done, eng.workspace_name, warning))


def _ask() -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask on. Give --yes.")
    if not click.confirm("Continue?", default=True, err=True):
        raise click.Abort


def _planned(plan: EmbedderPlan, workspace: str) -> str:
    found = "" if plan.paraphrases is None else f" It finds {plan.paraphrases} of 100 paraphrases."
    lines = [f"{style(plan.name, bold=True)}: {plan.what}.{found}"]
    if plan.downloads:
        lines.append(
            f"To install: {' and '.join(plan.downloads)}; about {plan.download_megabytes} MB to download, "
            f"{plan.disk_megabytes} MB on the disk."
        )
    if plan.texts:
        lines.append(f"To embed: {counted(plan.texts, 'text')} of workspace {workspace}{_time(plan)}.")
    else:
        lines.append(f"To embed: nothing. Workspace {workspace} has no text without a vector of this model.")
    if plan.remote:
        lines.append(_money(plan))
    return "\n".join(lines)


def _time(plan: EmbedderPlan) -> str:
    if plan.seconds is None:
        return ""
    if plan.seconds < 10:
        return ", a few seconds"
    return f", about {counted(round(plan.seconds / 60), 'minute') if plan.seconds >= 90 else 'a minute'}"


def _money(plan: EmbedderPlan) -> str:
    """What a server costs. It gets every text now, and every new text and question later."""
    address = os.environ.get("OPENAI_BASE_URL")
    sent = f"These texts, about {plan.tokens:,} tokens, and every later text and question are sent to"
    if address:
        from ...store_url import masked

        return f"{sent} {masked(address)}, which may cost money."
    price = _PRICES.get(plan.name.partition(":")[2])
    cost = "That costs money." if price is None else f"At its list price that is {_dollars(plan.tokens, price)} now."
    return f"{sent} OpenAI. {cost} It needs OPENAI_API_KEY."


def _dollars(tokens: int, price: float) -> str:
    dollars = tokens * price / 1e6
    return "less than 0.01 US dollars" if dollars < 0.01 else f"about {dollars:,.2f} US dollars"


def _overruled(eng: Engram, choice: str) -> str | None:
    """A warning when the setting names another embedder than the one that the workspace has now."""
    setting, origin = eng.settings.embedder, eng.settings.origins["embedder"]
    if setting in ("auto", choice) or (setting == "openai" and choice.startswith("openai:")):
        return None
    where = "ENGRAM_EMBEDDER" if origin == "environment" else f"embedder in {origin}"
    return (
        f"{where} is {setting}. Processes with this setting cannot use the new vectors and recall by words. Remove the "
        "setting, or set it to auto."
    )


def _done(done: EmbedderChange, workspace: str, warning: str | None) -> str:
    before = f" instead of {done.before}" if done.before not in (None, done.model) else ""
    text = f"Workspace {workspace} uses {done.model}{before}. Embedded {counted(done.embedded, 'text')}."
    return f"{text}\n{style('Warning:', fg='yellow')} {warning}" if warning else text
