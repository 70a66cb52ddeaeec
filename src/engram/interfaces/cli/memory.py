"""`engram remember`, `recall`, `say`, `history`, `timeline`, `embed`, `memory …`: store things, and find them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import click

from ... import checks
from ...records import UNLIKELY
from . import approval
from .common import (
    SESSION,
    Group,
    command,
    complete_session,
    edited,
    limit_option,
    moment_type,
    open_store,
    progress,
    result,
    session_option,
    text_from,
    typed,
    utc_option,
)
from .counting import counted
from .persons import as_person, is_person, require_person
from .screen import (
    by_whom,
    day,
    fields,
    hanging,
    highlighted,
    one_line,
    short_ids,
    style,
    table,
    when,
    with_times,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...records import Exchange, Hit, Memory, MemoryEdit, MemoryState

_ID = click.argument("id", type=click.IntRange(min=1))
_SINCE = click.option(
    "--since",
    metavar="TIME",
    callback=moment_type,
    help="From this time on: 2026-11-01, 2026-11-01T18:00, or 7d for 7 days ago.",
)
_UNTIL = click.option("--until", metavar="TIME", callback=moment_type, help="Before this time; same forms as --since.")

_AUTHOR = click.option("--author", metavar="NAME", help="Only what this author wrote: the name of an access token.")
_NO_EMBED = click.option(
    "--no-embed",
    is_flag=True,
    help="Compute no embedding now; `engram embed` does it later. Until then only its words find it.",
)


@command()
@click.argument("text", required=False)
@click.option(
    "--kind",
    default="note",
    show_default=True,
    help="Kind of memory: fact, preference, decision, lesson, note, todo, …",
)
@click.option("--tag", "tags", multiple=True, help="Tag; may be repeated.")
@click.option("--no-tags", is_flag=True, help="Do not copy the tags of the memory that it supersedes.")
@click.option("--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="How much it matters.")
@click.option(
    "--key", help="Subject; a new memory with the same kind and key supersedes the old one and keeps its tags and pin."
)
@click.option("--pin/--no-pin", "pinned", default=None, help="Mark it as always relevant, for the brief.")
@click.option("--project", help="Project it belongs to.  [default: the session's, else the folder's]")
@_NO_EMBED
@session_option(required=False)
@click.pass_context
def remember(
    ctx: click.Context,
    /,
    text: str | None,
    tags: tuple[str, ...],
    no_tags: bool,
    no_embed: bool,
    session_id: str | None,
    **options: Any,
) -> None:
    """Store something worth knowing. Storing the same text again strengthens the existing memory.

    What a person stores is approved. From an agent's shell, or with a session, a pin waits for a person's approval.
    """
    if tags and no_tags:
        raise click.UsageError("Give --tag or --no-tags, not both.")
    eng, content = open_store(ctx), text_from(text)

    def store(person: bool) -> Memory:
        return eng.remember(
            content,
            tags=tags if tags or no_tags else None,
            session_id=session_id,
            trust="user" if person else "agent",
            by_person=person,
            embed=not no_embed,
            **options,
        )

    memory = as_person(eng, session_id, store)
    known = f" It is not new: it has been stored {counted(memory.reinforced + 1, 'time')}."
    stored = f"Stored as memory {memory.id} ({memory.kind}).{known if memory.reinforced else ''}"
    result(ctx, memory, stored + _secret_left_out(content, memory) + approval.needs_person(memory))


@command()
@click.argument("query")
@click.option("-k", type=click.IntRange(1, 1000), default=5, show_default=True, help="Maximum number of results.")
@click.option(
    "--session",
    "session_id",
    type=SESSION,
    metavar="ID",
    shell_complete=complete_session,
    help="Only from this session.",
)
@click.option("--kind", "kinds", multiple=True, help="Only memories of this kind; may be repeated.")
@click.option(
    "--role", "roles", multiple=True, help="Only turns with this role, or log for log entries; may be repeated."
)
@click.option("--tag", "tags", multiple=True, help="Only memories with this tag; may be repeated.")
@click.option("--project", help="Only from this project.")
@_AUTHOR
@_SINCE
@_UNTIL
@click.option("--archived", "include_archived", is_flag=True, help="Include archived and superseded memories.")
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "words", "vectors"]),
    default="hybrid",
    show_default=True,
    help="Search by words, by meaning (vectors), or by both.",
)
@click.option(
    "--rerank",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Compare the best results again, token by token; auto: if the model is good at it.",
)
@click.option("--budget", type=click.IntRange(min=1), help="Maximum number of tokens, of all results together.")
@click.option(
    "--min-score",
    type=click.FloatRange(0, 1),
    default=UNLIKELY,
    show_default=True,
    help="Hide results with less chance to be about the question.",
)
@click.option("--all", "everything", is_flag=True, help="Show the hidden results too.")
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@utc_option
@click.pass_context
def recall(
    ctx: click.Context, /, query: str, k: int, min_score: float, everything: bool, explain: bool, **options: Any
) -> None:
    """Search everything said, done and learnt, by words and by meaning.

    The number before a result is the chance that it is about the question.
    """
    from ..recall_socket.client import COMMAND_DEADLINE
    from ..recall_socket.client import recall as ask_server

    min_score = checks.share(min_score, "--min-score")  # click accepts NaN
    kinds, roles, tags = (list(options.pop(name)) for name in ("kinds", "roles", "tags"))
    what = ["memories"] if kinds and not roles else ["exchanges"] if roles and not kinds else ["exchanges", "memories"]
    options |= {"what": what, "kinds": kinds or None, "roles": roles or None, "tags": tags or None, "note": False}
    eng = open_store(ctx)
    # A running `engram mcp` answers before this process could load a model.
    found = ask_server(eng, query, k, within=COMMAND_DEADLINE, **options)
    if found is None:
        found = eng.recall(query, k, **options)
    hits = [hit for hit in found if everything or hit.score >= min_score]
    eng.memories.used([hit.memory_id for hit in hits if hit.memory_id is not None])
    result(ctx, hits, lambda: "\n".join([*_shown(hits, explain), *_hidden(len(found) - len(hits), hits)]))


@command()
@click.argument("session_id", type=SESSION, metavar="SESSION", shell_complete=complete_session)
@click.argument("role", type=click.Choice(["user", "assistant", "system", "tool", "log"]))
@click.argument("text", required=False)
@click.option(
    "--at",
    "created_at",
    metavar="TIME",
    callback=moment_type,
    help="Time when it was said; same forms as --since of `engram recall`.  [default: now]",
)
@_NO_EMBED
@click.pass_context
def say(
    ctx: click.Context, session_id: str, role: str, text: str | None, created_at: str | None, no_embed: bool
) -> None:
    """Add a turn or a log entry to a session.

    What an agent's shell adds as the user has the trust of an agent.
    """
    eng = open_store(ctx)
    trust = "agent" if role == "user" and not is_person() else None
    id = eng.exchanges.add(session_id, role, text_from(text), created_at=created_at, trust=trust, embed=not no_embed)
    result(ctx, {"id": id}, f"Added as exchange {id}.")


@command()
@click.argument(
    "session_id", type=SESSION, metavar="[SESSION]", envvar="ENGRAM_SESSION", shell_complete=complete_session
)
@limit_option("turns", 0)
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only turns with a higher number.")
@click.option("--before", type=click.IntRange(min=1), metavar="SEQ", help="The last turns with a lower number.")
@click.option("--logs", is_flag=True, help="Include the entries of the session's log.")
@utc_option
@click.pass_context
def history(ctx: click.Context, session_id: str, limit: int, after: int, before: int | None, logs: bool) -> None:
    """Show everything said in a session, oldest first.

    `engram forget --exchange ID` takes the ids that are shown. SEQ is the number of an exchange within its session;
    --json shows it.
    """
    turns = open_store(ctx).exchanges.history(session_id, limit, after=after, before=before, logs=logs)
    result(ctx, turns, lambda: "\n".join(map(_turn, turns)) or "Nothing has been said in this session.")


@command()
@click.option(
    "--since",
    metavar="TIME",
    callback=moment_type,
    help="From this time on: 2026-11-01, or 2h for 2 hours ago.  [default: 7d]",
)
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of turns."
)
@utc_option
@click.pass_context
def timeline(ctx: click.Context, since: str | None, limit: int) -> None:
    """Show what was said lately in all sessions, newest first.

    `engram forget --exchange ID` takes the ids that are shown.
    """
    found = open_store(ctx).exchanges.timeline(since, limit)
    result(
        ctx,
        found,
        lambda: (
            "\n".join(_turn(turn, session=True) for turn in found)
            or "Nothing was said in that time. --since 30d goes back further."
        ),
    )


@command()
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Maximum number of items.  [default: all in the queue]")
@click.pass_context
def embed(ctx: click.Context, limit: int | None) -> None:
    """Compute embeddings for items that were written without a model."""
    queue = open_store(ctx).embedding_queue
    waiting = queue.size()
    with progress("Embedding") as show:
        done = queue.work(limit, progress=lambda count: show(count, min(waiting, limit or waiting)))
    left = queue.size()
    rest = f" {counted(left, 'item')} left in the queue." if left else ""
    result(ctx, {"done": done, "left": left}, f"Embedded {counted(done, 'item')}.{rest}")


@click.group(cls=Group)
def memory() -> None:
    """List, show and change memories."""


@memory.command("list")
@click.option("--kind", help="Only memories of this kind.")
@click.option("--tag", help="Only memories with this tag.")
@click.option(
    "--status",
    type=click.Choice(["active", "superseded", "archived"]),
    default="active",
    show_default=True,
    help="Only memories with this status.",
)
@click.option("--project", help="Only from this project.")
@_AUTHOR
@_SINCE
@_UNTIL
@click.option("--pinned", is_flag=True, help="Only pinned memories.")
@click.option("--derived/--no-derived", default=True, help="With or without gists, eras and digests.")
@click.option("--waiting", is_flag=True, help="Only memories that wait for a person's approval, for the brief.")
@click.option(
    "--at",
    metavar="TIME",
    callback=moment_type,
    help="As they stood at this time, filtered by that; same forms as --since.",
)
@limit_option("memories", 50)
@utc_option
@click.pass_context
def list_memories(ctx: click.Context, /, waiting: bool, **filters: Any) -> None:
    """List memories, newest first."""
    found = open_store(ctx).memories.list(waiting=waiting, **filters)
    result(ctx, found, lambda: approval.waiting(found) if waiting else _table(found))


@memory.command()
@_ID
@click.option("--at", metavar="TIME", callback=moment_type, help="As it stood at this time; same forms as --since.")
@utc_option
@click.pass_context
def show(ctx: click.Context, id: int, at: str | None) -> None:
    """Show everything about one memory, with its links and versions."""
    memories = open_store(ctx).memories
    found = memories.get(id, at=at)
    versions = memories.history(id, at=at)
    sources, links = memories.sources(id, at=at), memories.links(id, at=at)
    more = {"sources": sources, "links": links, "history": versions}
    result(ctx, {**found._asdict(), **more}, lambda: _whole(found, sources, links, versions))


@memory.command("history")
@_ID
@utc_option
@click.pass_context
def memory_history(ctx: click.Context, id: int) -> None:
    """Show how a memory changed, newest first.

    That is each text, and each change of importance, pin, tags, status and approval.
    """
    memories = open_store(ctx).memories
    versions, states = memories.history(id), memories.states(id)
    result(ctx, {"versions": versions, "states": states}, lambda: "\n".join(_events(versions, states)))


@memory.command()
@click.argument("named", metavar="ID[@VERSION]...", type=approval.MEMORY_VERSION, nargs=-1, required=True)
@click.option("--withdraw", is_flag=True, help="Take the approval away.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def approve(ctx: click.Context, named: tuple[tuple[int, int | None], ...], withdraw: bool, yes: bool) -> None:
    """Approve what memories say, so that the brief may show them.

    The brief shows a memory that an agent has pinned, or that comes from a tool or an import, only when a person has
    approved its text. A new text needs a new approval. `engram memory list --waiting` lists what waits.

    The whole text is printed, and you are asked. Without a terminal, name the version that you have read (2@3), or give
    --yes. Run this in your own terminal: it refuses to work in an agent's shell.
    """
    options = ["--withdraw"] if withdraw else []
    require_person("approve a memory", typed("memory", "approve", *options, *(str(id) for id, _ in named)))
    eng = open_store(ctx)
    if withdraw:
        done = eng.memories.withdraw_all([id for id, _ in named])
    else:
        done = approval.approve(ctx, eng, named, sure=yes)
    result(ctx, done, lambda: "\n".join(approval.decided(each, withdrawn=withdraw) for each in done))


@memory.command()
@_ID
@click.argument("text", required=False)
@click.option("--reason", default="", help="Reason for the change; kept in the history.")
@click.option("--tag", "tags", multiple=True, help="New tag, instead of all existing tags; may be repeated.")
@click.option("--importance", type=click.FloatRange(0, 1), help="New importance.")
@session_option(required=False)
@click.pass_context
def edit(
    ctx: click.Context,
    id: int,
    text: str | None,
    reason: str,
    tags: tuple[str, ...],
    importance: float | None,
    session_id: str | None,
) -> None:
    """Change a memory. Without TEXT and options, $EDITOR opens."""
    eng = open_store(ctx)
    memories = eng.memories
    if text is None and not tags and importance is None:
        content: str | None = edited(memories.get(id).content, "Give TEXT, or - to read it from standard input.")
    else:
        content = None if text is None else text_from(text)

    def update(person: bool) -> Memory:
        return memories.update(
            id,
            content,
            reason=reason,
            actor=session_id,
            tags=tags or None,
            importance=importance,
            by_person=person,
        )

    changed = as_person(eng, session_id, update)
    secret = "" if content is None else _secret_left_out(content, changed)
    result(ctx, changed, f"Memory {id} is at version {changed.version}.{secret}{approval.needs_person(changed)}")


@memory.command()
@_ID
@click.argument("other", type=click.IntRange(min=1))
@click.option("--relation", default="related", show_default=True, help="How the first relates to the second.")
@click.pass_context
def link(ctx: click.Context, id: int, other: int, relation: str) -> None:
    """Link two memories."""
    open_store(ctx).memories.link(id, other, relation)
    result(ctx, {"from": id, "to": other, "relation": relation}, f"Linked memory {id} to memory {other} ({relation}).")


@memory.command()
@_ID
@click.option("--undo", is_flag=True, help="Make it active again.")
@click.pass_context
def archive(ctx: click.Context, id: int, undo: bool) -> None:
    """Archive a memory. It stays readable, and `engram recall --archived` finds it."""
    memories = open_store(ctx).memories
    moved = memories.unarchive(id) if undo else memories.archive(id)
    result(ctx, moved, f"Memory {id} is {moved.status}.")


@memory.command()
@_ID
@click.option("--undo", is_flag=True, help="Unpin it.")
@click.pass_context
def pin(ctx: click.Context, id: int, undo: bool) -> None:
    """Mark a memory as always relevant, for the brief. A person who pins a memory also approves it."""
    eng = open_store(ctx)
    changed = as_person(eng, None, lambda person: eng.memories.update(id, pinned=not undo, by_person=person))
    result(
        ctx, changed, f"Memory {id} is {'pinned' if changed.pinned else 'not pinned'}.{approval.needs_person(changed)}"
    )


def _secret_left_out(given: str, stored: Memory) -> str:
    """What is said when the stored text lacks a secret that was in the given one."""
    mark = "[redacted"
    if stored.content.count(mark) <= given.count(mark):
        return ""
    return f" A secret was left out: {mark}: …] stands in its place."


def _table(found: list[Memory]) -> str:
    rows = [(str(each.id), each.kind, ",".join(each.tags), day(each.said_at), each.content) for each in found]
    return table(("id", "kind", "tags", "date", "content"), rows) if rows else "No memories."


def _events(versions: list[MemoryEdit], states: list[MemoryState]) -> Iterator[str]:
    """The versions and the other changes of a memory in one list, newest first."""
    events: list[tuple[str, str]] = []
    for each in reversed(versions):
        text = f"text forgotten (receipt {each.receipt})" if each.receipt else one_line(each.content)
        reason = f" ({one_line(each.reason, 200)})" if each.reason else ""
        by = by_whom(each.author, each.actor)
        events.append((each.created_at, _event(each.created_at, by, f"version {each.version}: {text}{reason}")))
    written = {(each.created_at, f"version {each.version}") for each in versions}
    for state in reversed(states):
        rest = [word for word in state.changes if word != "stored" and (state.at, word) not in written]
        if rest:
            events.append(
                (state.at, _event(state.at, by_whom(state.author, state.actor), one_line(", ".join(rest), 500)))
            )
    for _, line in sorted(events, key=lambda event: event[0])[::-1]:
        yield line


def _event(at: str, by: str, what: str) -> str:
    return "  ".join(filter(None, (when(at), what, by)))


def _hidden(count: int, shown: list[Hit]) -> list[str]:
    """What is said about results that are not shown."""
    nothing = [] if shown else ["Nothing found."]
    if not count:
        return nothing
    results = "1 unlikely result is hidden; --all shows it."
    if count > 1:
        results = f"{count} unlikely results are hidden; --all shows them."
    return [*nothing, style(results, dim=True)]


#: The column where a result's text begins.
_INDENT = 6


def _shown(hits: list[Hit], explain: bool) -> Iterator[str]:
    short = short_ids(hit.session_id for hit in hits if hit.session_id)
    above: dict[int | None, str] = {}
    for hit in hits:
        where = f"memory {hit.memory_id}" if hit.memory_id else f"exchange {hit.exchange_id}"
        head = [where, hit.label, day(hit.created_at)]
        head += [f"session {short(hit.session_id)}"] if hit.session_id else []
        head += [by_whom(hit.author)] if hit.author else []
        head += [f"cut from {len(hit.whole):,} characters"] if len(hit.whole) > len(hit.text) else []
        head += ["replaced by {} {}".format(*hit.replaced_by)] if hit.replaced_by is not None else []
        yield style(f"{hit.score:.2f}  {wrapped(one_line(', '.join(head), 500), _INDENT)}", dim=True)
        matched = hit.why["matched"]
        assert isinstance(matched, list)
        yield _indented(_highlighted(wrapped(hit.text, _INDENT), matched))
        yield from _related(hit, above)
        above[hit.exchange_id] = hit.text
        if explain:
            yield from _explained(hit)


def _related(hit: Hit, above: dict[int | None, str]) -> Iterator[str]:
    """The answer of a question. One that stands above is not repeated."""
    if hit.answer is not None:
        ids = hit.answer.exchange_ids
        where = f"answered in exchange {', '.join(map(str, ids))}"
        if len(ids) == 1 and hit.answer.text in above.get(ids[0], ""):
            yield _marked(f"{where}, above")
        else:
            yield _marked(f"{where}:")
            yield _indented(wrapped(hit.answer.text, _INDENT))


def _explained(hit: Hit) -> Iterator[str]:
    """The parts of a score: three that are added up, two factors, and the result. What changes nothing is left out."""
    share, meaning, tokens, preference, form, strength = (
        float(str(hit.why[name])) for name in ("share", "meaning", "tokens", "preference", "form", "strength")
    )
    matched, dates = (", ".join(map(str, each)) for each in (hit.why["matched"], hit.why["dates"]) if _is_list(each))
    parts = {
        "words": f"{min(share, 1):.0%} of the question: {matched}" if share else "",
        "meaning": f"{meaning:.1f} standard deviations above an unrelated text" if meaning > 0 else "",
        "tokens": f"{tokens:.2f} similar, token by token" if tokens > 0 else "",
        "preference": f"× {preference:.2f} for kind, date, recency, importance and project",
        "form": f"× {form:.2f} for a text that asks, announces, was pasted or is long",
        "strength": f"{strength:.2f}, all parts together",
        "date": f"{dates} in the question" if dates else "",
    }
    unchanged = {name for name, factor in (("preference", preference), ("form", form)) if factor == 1}
    for name, said in parts.items():
        if said and name not in unchanged:
            yield style(_indented(f"{name:10}  {wrapped(said, _INDENT + 12)}"), dim=True)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _marked(text: str) -> str:
    """Engram's own words, at a column where no stored text begins."""
    return style(f"{' ' * (_INDENT - 2)}{wrapped(text, _INDENT)}", dim=True)


def _indented(text: str) -> str:
    return f"{' ' * _INDENT}{text}"


def _highlighted(text: str, matched: list[str]) -> str:
    """The text with the words in bold that begin with a matched stem."""
    stems = tuple(matched)
    return highlighted(text, lambda word: word.lower().startswith(stems)) if stems else text


def _turn(turn: Exchange, session: bool = False) -> str:
    head = [when(turn.created_at), f"exchange {turn.id}", one_line(turn.session_id) if session else ""]
    shown = "  ".join(filter(None, [*head, by_whom(turn.author)]))
    return f"{style(shown, dim=True)}  {style(turn.role, bold=True)}: {hanging(turn.content)}"


def _whole(
    memory: Memory,
    sources: list[tuple[str, int]],
    links: list[tuple[int, int, str]],
    versions: list[MemoryEdit],
) -> str:
    values: dict[str, object] = {
        **with_times(memory._asdict()),
        "said": day(memory.said_at) if memory.said_at != memory.created_at else None,
        "tags": ", ".join(memory.tags) or None,
        "data": _data(memory.data),
        # Only what is pinned, or comes from a tool or an import, waits for an approval.
        "approved": memory.approved or (False if memory.pinned or memory.trust in ("tool", "import") else None),
        "superseded by": memory.superseded_by and f"memory {memory.superseded_by}",
        "sources": ", ".join(f"{kind} {id}" for kind, id in sources) or None,
        "links": "\n".join(_link(memory.id, *link) for link in links) or None,
        "versions": "\n".join(map(_version, versions)),
    }
    return fields(values)


def _data(data: object) -> str | None:
    """`said 2026-11-12, by user`; what has an inner structure as JSON."""
    import json

    if not data and not isinstance(data, bool | int | float):
        return None
    simple = isinstance(data, dict) and all(
        isinstance(value, int | float) or (isinstance(value, str) and value and not {",", "\n"} & {*value})
        for value in data.values()
    )
    if isinstance(data, dict) and simple:
        words = (f"{name} {_yes_or_no(value) if isinstance(value, bool) else value}" for name, value in data.items())
        return ", ".join(words)
    return json.dumps(data, ensure_ascii=False)


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _link(own: int, begin: int, end: int, relation: str) -> str:
    """A link, from the view of one of its memories."""
    return f"→ memory {end} ({one_line(relation)})" if begin == own else f"← memory {begin} ({one_line(relation)})"


def _version(version: MemoryEdit) -> str:
    parts = (
        f"{version.version}  {when(version.created_at)}",
        by_whom(version.author, version.actor),
        one_line(version.reason, 200),
        f"text forgotten (receipt {version.receipt})" if version.receipt else one_line(version.content),
    )
    return "  ".join(filter(None, parts))
