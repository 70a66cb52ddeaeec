"""`engram init`: from an installed program to a first answer about the person's own past.

It asks first and works then, so that nobody waits for a question. A step that fails does not stop the others.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...errors import EngramError
from .common import as_json, command, load_settings, open_store, progress, result, typed
from .counting import counted
from .init_questions import (
    READY,
    Choices,
    ask,
    better_embedder,
    defaults,
    new_transcripts,
    planned,
    short_path,
    show_agents,
)
from .screen import ago, hanging, one_line, say, short_ids, style, wrapped
from .setup import shown_url
from .thinker import thinks

if TYPE_CHECKING:
    from ...client import Engram
    from ...config import Config
    from ...import_records import ImportReport
    from ..beginning.agents import Agent
    from ..beginning.answering import Answered

#: The longest times for the import, for computing embeddings and for the first pass, in seconds.
IMPORTING, EMBEDDING, DREAMING = 120.0, 45.0, 60.0
#: Of the brief, entries of each section that are shown, and characters of each line.
_ENTRIES, _LINE = 3, 200
_FAILED = 1


#: A line of the brief: its text, and the kind and id of its source.
BriefLine = tuple[str, str | None, str | None]


class Step(NamedTuple):
    """What one step did."""

    #: `hooks`, `import`, `thinker`, `embedder`, `embed` or `dream`.
    step: str
    #: The agent that it is about, or what was chosen.
    about: str
    #: `done`, `kept` (it was in place), `left` (not wanted), `planned` (dry run) or `failed`.
    state: str
    text: str
    #: The command that does it again, or does the rest.
    command: str | None = None


class _Run:
    """One run of the command: its store, what to do, and what came of it."""

    def __init__(self, ctx: click.Context, eng: Engram, dry_run: bool) -> None:
        self.ctx = ctx
        self.eng = eng
        self.dry_run = dry_run
        self.quiet = as_json(ctx)
        self.steps: list[Step] = []
        #: How many turns were imported.
        self.turns = 0

    def add(self, step: str, about: str, state: str, text: str, command: str | None = None) -> None:
        done = Step(step, about, state, text, command)
        self.steps.append(done)
        self.tell(_line(done))

    def tell(self, text: str) -> None:
        if not self.quiet:
            say(text)

    @contextmanager
    def trying(self, step: str, about: str, what: str, command: str) -> Iterator[None]:
        """A failure inside is noted with its reason and the command that repeats the step."""
        try:
            yield
        except (EngramError, OSError) as error:
            why = one_line(str(error), 1_000) or type(error).__name__
            self.add(step, about, "failed", f"{what}: {why}", command)


@command()
@click.option("--yes", is_flag=True, help="Ask nothing and take the defaults. They cost no money.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--store-only", is_flag=True, help="Only create the store, or bring it up to date. For services.")
@click.pass_context
def init(ctx: click.Context, yes: bool, dry_run: bool, store_only: bool) -> int:
    """Set Engram up on this machine, and show what it knows.

    Finds your agents (Claude Code, Codex, Gemini CLI, Cursor), adds Engram to their settings, imports the transcripts
    that they have kept, and summarises the sessions. Then it answers a question about your own past. It asks before
    each step. What is in place is not asked again, so you can run it at any time.

    Without a terminal it only creates the store or brings it up to date, as with --store-only.

    With --yes: every agent that is found, all transcripts, no model, no download. If a step fails, the others are done,
    and the exit code is 1.
    """
    if store_only and (yes or dry_run):
        raise click.UsageError("--store-only cannot be combined with --yes or --dry-run.")
    if store_only or not (yes or dry_run or _can_ask(ctx)):
        # A service that creates its store this way has nobody who could answer.
        eng = open_store(ctx)
        where = shown_url(eng.settings)
        told = f"The store is ready: {where}, workspace {eng.workspace_name}."
        result(ctx, {"store": where, "workspace": eng.workspace_name}, told)
        if not store_only and not as_json(ctx):
            say("There is no terminal to ask, so nothing else was set up. --yes takes the defaults.", err=True)
        return 0
    settings = load_settings(ctx)
    eng = _open_unchanged(ctx, settings) if dry_run else open_store(ctx, warn=False)
    return _begin(ctx, eng, settings, yes=yes, dry_run=dry_run)


def _can_ask(ctx: click.Context) -> bool:
    return sys.stdin.isatty() and not as_json(ctx)


def _open_unchanged(ctx: click.Context, settings: Config) -> Engram:
    """The store as it is; in place of one that is missing or older, an empty one in a temporary folder."""
    import os
    from tempfile import TemporaryDirectory

    from ...client import Engram
    from ...errors import StoreNotFound, UpgradeNeeded

    try:
        eng = Engram(settings=settings, create=False, migrate=False)
    except (StoreNotFound, UpgradeNeeded):
        folder = TemporaryDirectory(prefix="engram-")
        ctx.call_on_close(folder.cleanup)
        eng = Engram(settings=settings._replace(url=os.path.join(folder.name, "empty.db")))
    ctx.call_on_close(eng.close)
    return eng


def _begin(ctx: click.Context, eng: Engram, settings: Config, *, yes: bool, dry_run: bool) -> int:
    from ..beginning import agents as machine
    from ..install.commands import Commands
    from .install import commands_of

    commands, problem = Commands("", ""), None
    try:
        commands = commands_of(settings)
    except EngramError as error:
        problem = error
    run = _Run(ctx, eng, dry_run)
    where = shown_url(settings)
    new = " (would be created or upgraded)" if dry_run and eng.settings.url != settings.url else ""
    run.tell(f"Store: {short_path(where)}, workspace {eng.workspace_name}{new}.\n")
    agents = machine.found(eng, commands)
    if problem is not None:
        agents = [each._replace(problem=str(problem)) if each.found else each for each in agents]
    if not run.quiet:
        show_agents(agents)
    choices = defaults(agents) if yes or dry_run else ask(eng, agents)
    _work(run, agents, choices)
    return _end(run, agents, where)


def _work(run: _Run, agents: list[Agent], choices: Choices) -> None:
    for agent in agents:
        if agent.found:
            _hooks(run, agent, wanted=agent.name in choices.hooks)
    _thinker(run, choices.thinker)
    _embedder(run, choices.embedder)
    _imports(run, [(each, each.name in choices.imports) for each in agents])
    if run.dry_run or run.eng.settings.is_remote:
        if run.turns and not run.eng.settings.is_remote:
            run.add("dream", "extractive", "planned", "Then the sessions are summarised, without a model.")
        return
    if run.turns or not run.eng.dreams.list(1):
        _dream(run)
    if run.turns:
        _embed(run)


def _hooks(run: _Run, agent: Agent, *, wanted: bool) -> None:
    from ..install.files import apply
    from ..install.plan import HARNESSES
    from .install import notes_of

    again = typed("install", agent.name)
    if agent.problem:
        run.add("hooks", agent.name, "failed", f"Engram is not in {agent.title}: {agent.problem}", again)
    elif agent.state == READY:
        run.add("hooks", agent.name, "kept", f"Engram is in {agent.title} already.")
    elif not wanted:
        run.add("hooks", agent.name, "left", f"{agent.title} stays without Engram.", again)
    elif run.dry_run:
        run.add("hooks", agent.name, "planned", planned(agent), again)
    else:
        with run.trying("hooks", agent.name, f"Engram could not be added to {agent.title}", again):
            files = []
            for change in agent.changes:
                backup = apply(change)
                kept = f" (backup: {backup.name})" if backup else ""
                files.append(f"  {change.action}d {short_path(str(change.path))}{kept}")
            notes = [f"  {note}" for note in (*HARNESSES[agent.name].notes, *notes_of(run.eng.settings))]
            text = "\n".join([f"Added Engram to {agent.title}.", *files, *notes])
            run.add("hooks", agent.name, "done", text)


def _thinker(run: _Run, chosen: str | None) -> None:
    if run.eng.settings.is_remote:
        return
    name, origin = run.eng.settings.llm, run.eng.settings.origins["llm"]
    if chosen is None:
        run.add("thinker", name, "kept", thinks(name, "" if origin == "default" else origin), typed("dream", "thinker"))
        return
    with run.trying("thinker", chosen, f"{chosen} cannot think for Engram", typed("dream", "thinker", chosen)):
        run.eng.thinkers.use(chosen)
        warning = run.eng.thinkers.overruled(chosen)
        run.add("thinker", chosen, "done", f"{thinks(chosen)}{f' {warning}' if warning else ''}")


def _embedder(run: _Run, chosen: str | None) -> None:
    if run.eng.settings.is_remote:
        return
    if chosen is None:
        used = (each.name for each in run.eng.embedders.list() if each.used)
        name = next(used, None) or run.eng.embedders.next_choice()
        better = better_embedder(run.eng)
        more = "" if better is None else f" {better.name} finds more ({better.megabytes} MB)."
        again = None if better is None else typed("embedder", "use", better.name)
        run.add("embedder", name, "kept", f"{_finds(name)}{more}", again)
        return
    with run.trying("embedder", chosen, f"{chosen} cannot be used", typed("embedder", "use", chosen)):
        tell: Callable[[str], None] = lambda line: run.tell(f"{line} …")  # noqa: E731
        with progress("Embedding") as show:
            done = run.eng.embedders.use(chosen, said=tell, progress=show)
        run.add("embedder", chosen, "done", _finds(done.model))


def _finds(embedder: str) -> str:
    """What recall goes by, for a first reader."""
    if embedder == "none":
        return "Recall goes by words only (none)."
    kinds = {"static": "the small built-in model", "minilm": "a model on this machine", "onnx": "a model on the disk"}
    provider = embedder.partition(":")[0]
    return f"Recall by meaning uses {kinds.get(provider, 'the model of a server')} ({one_line(embedder, 200)})."


def _imports(run: _Run, agents: list[tuple[Agent, bool]]) -> None:
    """Import what each agent has, together within the time for it."""
    end = monotonic() + IMPORTING
    for agent, wanted in agents:
        again = _import_command(agent)
        kept = agent.transcripts
        if agent.unreadable:
            text = f"{agent.title}'s transcripts cannot be read: {agent.unreadable}"
            run.add("import", agent.name, "failed", text, again)
        elif kept.files and not kept.new:
            text = f"{agent.title}: all {counted(kept.files, 'transcript')} are imported."
            run.add("import", agent.name, "kept", text)
        elif kept.new and not wanted:
            run.add("import", agent.name, "left", f"{agent.title}: {new_transcripts(agent)} not imported.", again)
        elif kept.new:
            with run.trying("import", agent.name, f"{agent.title}'s transcripts", again):
                _import(run, agent, again, lambda: monotonic() >= end)


def _import(run: _Run, agent: Agent, again: str, stop: Callable[[], bool]) -> None:
    from ...importers import run as import_files

    with progress(f"{'Looking at' if run.dry_run else 'Importing'} {agent.title}") as show:
        report = import_files(
            agent.name, agent.places, run.eng, unread=True, stop=stop, progress=show, dry_run=run.dry_run
        )
    run.turns += report.turns
    state = "planned" if run.dry_run else "done"
    rest = f" Not reached in time: {counted(report.files_left, 'file')}." if report.files_left else ""
    left = sum(each.number for each in report.left_out)
    names = _import_command(agent, "--dry-run")
    out = f" {counted(left, 'record')} left out: `{names}` names {'it' if left == 1 else 'them'}." if left else ""
    text = f"{agent.title}: {_imported(report, run.dry_run)}{out}{rest}"
    run.add("import", agent.name, state, text, again if report.files_left or run.dry_run else None)


def _imported(report: ImportReport, dry_run: bool) -> str:
    from .importing import period

    made = [
        counted(number, one)
        for number, one in ((report.sessions, "session"), (report.turns, "turn"), (report.logs, "log entry"))
        if number
    ]
    if not made:
        return f"nothing new in {counted(report.files, 'file')}."
    verb = "would import" if dry_run else "imported"
    dates = f" from {period(report)}" if report.first_at and report.last_at else ""
    return f"{verb} {', '.join(made)}{dates}."


def _import_command(agent: Agent, *options: str) -> str:
    """The command that imports the same, with the path if it is not the usual one."""
    import os

    from ...importers import formats

    usual = {os.path.expanduser(place) for place in formats.get(agent.name).places}
    elsewhere = [str(place) for place in agent.places if str(place) not in usual]
    return typed("import", agent.name, *elsewhere, *options)


def _embed(run: _Run) -> None:
    """Compute embeddings, for as long as there is time. Words find everything already."""
    with run.trying("embed", "", "Embeddings", typed("embed")):
        queue, end = run.eng.embedding_queue, monotonic() + EMBEDDING
        waiting, done = queue.size(), 0
        with progress("Embedding") as show:
            while done < waiting and monotonic() < end:
                made = queue.work(min(_EMBED_STEP, waiting - done))
                if not made:
                    break
                done += made
                show(done, waiting)
        left = queue.size()
        if left:
            text = f"{counted(left, 'text')} without an embedding yet. Recall finds them by words."
            run.add("embed", "", "done", text, typed("embed"))


#: Texts that are embedded between two looks at the time.
_EMBED_STEP = 64


def _dream(run: _Run) -> None:
    """The first pass, without a model and within its time. It begins with the newest sessions.

    It goes by words alone: a slow embedder would take the time that the sessions need. Embeddings come after it.
    """
    again = typed("dream")
    with run.trying("dream", "extractive", "The sessions are not summarised", again):
        eng = run.eng.with_settings(llm="extractive", embedder="none")
        if not eng.dreams.backlog().dirty:
            return
        stop = threading.Event()
        timer = threading.Timer(DREAMING, stop.set)
        timer.daemon = True
        timer.start()
        try:
            with progress("Summarising sessions") as show:
                (report,) = eng.dream(
                    force=True,
                    stop=stop,
                    progress=lambda stage, done, total: show(done, total) if stage == "sessions" and total else None,
                )
        finally:
            timer.cancel()
        # A stage that ran out of time says so as an error.
        errors = [] if stop.is_set() else report.errors
        if report.id is None or errors:
            why = one_line("; ".join(report.errors), 1_000) or "no pass was started."
            run.add("dream", "extractive", "failed", f"The first pass: {why}", again)
            return
        left = eng.dreams.backlog().dirty
        rest = f" {counted(left, 'session')} left for later passes, which start by themselves." if left else ""
        learnt = f" and learnt {counted(report.extracted or 0, 'statement')}" if report.extracted else ""
        text = f"Summarised {counted(len(report.gists), 'session')}{learnt}.{rest} Pass {report.id} can be undone."
        run.add("dream", "extractive", "done", text, again if left else None)


def _line(step: Step) -> str:
    mark = {
        "done": style("✓", fg="green"),
        "kept": style("✓", fg="green"),
        "planned": style("+", fg="cyan"),
        "left": style("·", dim=True),
        "failed": style("✗", fg="red", bold=True),
    }[step.state]
    label = {"done": "The rest later:", "kept": "To change that:", "left": "Later:"}.get(step.state)
    more = f" {label} {step.command}" if step.command and label else ""
    return f"{mark} {wrapped(f'{step.text}{more}', 2)}"


def _end(run: _Run, agents: list[Agent], where: str) -> int:
    """The answer, the brief, what to try next, and what failed."""
    from ..beginning import answering

    answer: Answered | None = None
    project, query = None, None
    brief: str | None = None
    lines: Sequence[BriefLine] = ()
    if not run.dry_run:
        answer = answering.answered(run.eng)
        last = next((each for each in run.eng.sessions.list(50, subagents=False) if each.turns), None)
        if last is not None:
            project = last.project
            made = run.eng.briefing(project=project, local=not run.quiet)
            brief, lines = made.text, made.lines
            query = answering.query(run.eng, answer.session_id if answer else None)
    failed = [step for step in run.steps if step.state == "failed"]
    following = _following(run, project, query, is_empty=brief is None)
    if run.quiet:
        value: dict[str, Any] = {
            "store": where,
            "workspace": run.eng.workspace_name,
            "dry_run": run.dry_run,
            "agents": [_plain(each) for each in agents],
            "steps": run.steps,
            "answered": answer,
            "project": project,
            "brief": brief,
            "next": [line for line, _ in following],
            "failed": len(failed),
        }
        result(run.ctx, value, "")
    else:
        _show_end(run, answer, lines, following, failed)
    return _FAILED if failed else 0


def _shortened(brief: Sequence[BriefLine]) -> Iterator[str]:
    """The first entries of each section of the brief."""
    shown, last = 0, None
    for text, kind, ref in brief[1:]:
        if text.startswith("## "):
            shown = 0
            yield style(f"  {text.removeprefix('## ')}", dim=True)
        elif kind is not None:
            shown += (kind, ref) != last
            last = kind, ref
            if shown <= _ENTRIES:
                indent = 4 if text.startswith(" ") else 2
                yield f"{' ' * indent}{wrapped(one_line(text, _LINE), indent + 2)}"


def _plain(agent: Agent) -> dict[str, Any]:
    files = [{"file": str(change.path), "action": change.action} for change in agent.changes]
    return {**agent._asdict(), "changes": files, "places": [str(place) for place in agent.places]}


def _following(run: _Run, project: str | None, query: str | None, *, is_empty: bool) -> list[tuple[str, str]]:
    """Commands to try next, each with what it does."""
    if run.dry_run:
        return [
            (typed("init"), "does this, and asks before each step"),
            (typed("init", "--yes"), "does this without questions"),
        ]
    if is_empty:
        return [
            (typed("demo"), "three agents share a repository, in a temporary store"),
            (typed("remember", "Deploys never happen on Fridays"), "keeps a first memory"),
            (typed("import", "--help"), "lists the formats: ChatGPT, Claude, mem0, Markdown and more"),
        ]
    named = ["--project", project] if project else []
    here = [
        (typed("recall", query or "what did we decide?"), "finds what was said and learnt"),
        (typed("brief", *named), "all of what your next session in this project starts with"),
    ]
    if run.eng.settings.is_remote:
        return here  # the server has a dashboard and backups of its own
    copies = run.ctx.find_root().command
    can_copy = isinstance(copies, click.Group) and copies.get_command(run.ctx, "backup") is not None
    return [
        (typed("open"), f"the dashboard in your browser; `{typed('serve')}` first, in another terminal"),
        *here,
        *(
            [(typed("backup"), "copies your store; run it again at any time, the newest 7 copies stay")]
            if can_copy
            else []
        ),
    ]


def _show_end(
    run: _Run, answer: Answered | None, brief: Sequence[BriefLine], following: list[tuple[str, str]], failed: list[Step]
) -> None:
    if answer is not None:
        short = short_ids([answer.session_id])(answer.session_id)
        place = f"{answer.type}{f' in {answer.project}' if answer.project else ''}, {ago(answer.at)}"
        source = one_line(f"{place}. All of it: {typed('history', short)}", 500)
        say(f"\n{style('A question about your own past', bold=True)}")
        say(f"  {style('Q', fg='cyan', bold=True)}  {wrapped(answer.question, 5)}")
        say(f"  {style('A', fg='cyan', bold=True)}  {wrapped(answer.answer, 5)}")
        say(style(f"     {wrapped(source, 5)}", dim=True))
    if brief:
        say(f"\n{style('What your next session starts with', bold=True)}")
        for line in _shortened(brief):
            say(line)
    elif not run.dry_run:
        say(
            "\nThere is nothing to remember yet. Sessions of your agents fill the store, once Engram is in their "
            "settings; so do imports and `engram remember`."
        )
    if run.dry_run:
        say("\nThis was a dry run. Nothing was changed.")
    if any(step.step == "hooks" and step.state == "done" for step in run.steps):
        say("\nRestart your agents, so that they read their settings again.")
    say(f"\n{style('Try next', bold=True)}")
    for line, what in following:
        say(f"  {line}\n      {style(wrapped(what, 6), dim=True)}")
    if failed:
        say(f"\n{style('Not done', fg='red', bold=True)}")
        for step in failed:
            say(f"  {hanging(wrapped(step.text, 2))}\n      again: {step.command}")
