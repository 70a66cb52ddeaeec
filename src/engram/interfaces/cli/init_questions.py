"""What `engram init` shows of this machine, and what it asks.

An answer is remembered by what it leads to: hooks in the settings, sessions in the store, vectors of an embedder, a
thinker in config.toml. What is in place is said and not asked.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import click

from .counting import counted
from .screen import PATH_LENGTH, ago, byte_size, one_line, say, style, wrapped

if TYPE_CHECKING:
    from ...client import Engram
    from ...setup_records import EmbedderInfo, ThinkerInfo
    from ..beginning.agents import Agent

#: The state of settings that need nothing: see `install.plan.state`.
READY = "ready"
#: The thinker and the embedder that cost nothing.
EXTRACTIVE, BETTER = "extractive", "minilm"


class Choices(NamedTuple):
    """What to do."""

    #: Names of agents.
    hooks: frozenset[str]
    imports: frozenset[str]
    #: A thinker or an embedder to change to; None: leave it as it is.
    thinker: str | None = None
    embedder: str | None = None


def defaults(agents: list[Agent]) -> Choices:
    """What costs nothing: hooks for the agents that are here, and their transcripts."""
    hooks = frozenset(each.name for each in agents if each.found and each.state != READY)
    return Choices(hooks, frozenset(each.name for each in agents if each.transcripts.new))


def show_agents(agents: list[Agent]) -> None:
    here = [each for each in agents if each.found or each.transcripts.files]
    missing = [each.title for each in agents if each not in here]
    say(style("Agents on this machine", bold=True))
    width = max((len(each.title) for each in here), default=0)
    for each in here:
        say(f"  {each.title:{width}}  {wrapped(_found(each), width + 4)}")
    if missing:
        none = "" if here else "None of those that Engram knows. "
        say(f"  {none}Not found: {', '.join(missing)}.")
    say("")


def _found(agent: Agent) -> str:
    place = ", ".join(short_path(path) for path in (agent.program, agent.folder) if path)
    kept = agent.transcripts
    if not kept.files:
        return f"{place}; no transcripts"
    latest = f", the latest from {ago(kept.latest_at)}" if kept.latest_at else ""
    return f"{place}; {counted(kept.files, 'transcript')}{latest}"


def ask(eng: Engram, agents: list[Agent]) -> Choices:
    """Ask for what is not in place yet. Enter takes the default, which costs nothing."""
    hooks, imports = set(), set()
    for agent in agents:
        if agent.found and agent.state != READY and not agent.problem:
            say(planned(agent))
            if _yes(f"Add Engram to {agent.title}?"):
                hooks.add(agent.name)
            say("")
        elif agent.problem:
            hooks.add(agent.name)  # it fails, and the end says why
        if agent.transcripts.new:
            say(f"{agent.title} has {new_transcripts(agent)}. Engram copies what was said; the files stay as they are.")
            if _yes("Import them, the newest first?"):
                imports.add(agent.name)
            say("")
    return Choices(frozenset(hooks), frozenset(imports), _ask_thinker(eng), _ask_embedder(eng))


def planned(agent: Agent) -> str:
    """The files that hooks would change."""
    files = "\n".join(f"  {change.action} {short_path(str(change.path))}" for change in agent.changes)
    verb = "renews its entries" if agent.state == "outdated" else "adds its hooks and its MCP server"
    return (
        f"{style(agent.title, bold=True)}: Engram {verb}, so that it sees and remembers the sessions.\n{files}\n"
        "Everything else in these files stays. A file that exists is backed up first."
    )


def new_transcripts(agent: Agent) -> str:
    kept = agent.transcripts
    size = byte_size(kept.new_bytes)
    if kept.new == kept.files:
        return f"{counted(kept.files, 'transcript')} ({size})"
    return f"{counted(kept.new, 'new or longer transcript')} ({size}) of {kept.files:,}"


def _ask_thinker(eng: Engram) -> str | None:
    """The thinker that the person chooses; None if there is nothing to choose."""
    offered = thinkers(eng)
    if len(offered) < 2:
        return None
    say(style("Who thinks when Engram summarises your sessions?", bold=True))
    width = max(len(each.name) for each in offered)
    for each in offered:
        say(f"  {each.name:{width}}  {wrapped(f'{each.what}. {each.costs}', width + 4)}")
    names = [each.name for each in offered]
    chosen: str = click.prompt("Choose", default=EXTRACTIVE, type=click.Choice(names), show_choices=False, err=True)
    say("")
    return chosen


def thinkers(eng: Engram) -> list[ThinkerInfo]:
    """The thinkers to choose from: none if one is chosen, or if a server thinks with its own."""
    if eng.settings.is_remote or eng.settings.origins["llm"] != "default":
        return []
    return [each for each in eng.thinkers.list() if (each.name == EXTRACTIVE or each.program) and not each.problem]


def better_embedder(eng: Engram) -> EmbedderInfo | None:
    """The embedder to offer: none if the workspace has one, a setting names one, or the best is installed."""
    if eng.settings.is_remote or eng.settings.embedder != "auto" or eng.embedders.model is not None:
        return None
    best = next((each for each in eng.embedders.list() if each.name == BETTER), None)
    return None if best is None or best.installed else best


def _ask_embedder(eng: Engram) -> str | None:
    best = better_embedder(eng)
    if best is None:
        return None
    plan, usual = eng.embedders.plan(best.name), eng.embedders.plan("static")
    say(
        f"Recall by meaning: {style(usual.name, bold=True)} is there and finds {usual.paraphrases} of 100 paraphrases. "
        f"{style(plan.name, bold=True)} finds {plan.paraphrases}, and also runs on this machine."
    )
    wanted = click.confirm(f"Download {plan.name}, {plan.download_megabytes} MB?", default=False, err=True)
    say("")
    return best.name if wanted else None


def _yes(question: str) -> bool:
    return click.confirm(question, default=True, err=True)


def short_path(path: str) -> str:
    """A path with `~` for the home folder."""
    home = os.path.expanduser("~")
    inside = path == home or path.startswith(home + os.sep)
    return one_line(f"~{path[len(home) :]}" if inside else path, PATH_LENGTH)
