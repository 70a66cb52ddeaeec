"""System: is everything in order, and who may use it?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..._version import VERSION
from ...access_records import SCOPES
from ...errors import Forbidden
from ...health_records import OK, WRONG
from ...safe_text import one_line
from ...store_url import masked
from ..http.html import Html, tag, together
from .frame import Page
from .names import named, titles_of
from .parts import (
    action,
    agent,
    badge,
    button,
    card,
    choice,
    definition,
    empty,
    field,
    folded,
    form,
    meter,
    plural,
    project,
    row,
    size,
    table,
    when,
)
from .request import link

if TYPE_CHECKING:
    from ...access_records import AccessToken, Client
    from ...health_records import Finding
    from .parts import Tone
    from .request import PageRequest

_DAY = 86_400
_LIVES = {"": "until it is revoked", str(7 * _DAY): "a week", str(30 * _DAY): "30 days", str(365 * _DAY): "a year"}
_WHAT = {"read": "read", "write": "read and write", "admin": "read, write, forget and administer"}
_RECEIPTS = 10
_COMMAND = re.compile(r"engram(?: [a-z]+){1,2}+(?: \d+| [A-Z]+)?(?: --[a-z-]+(?: [^\s-]\S*)?)*")
#: What a harness did last, in words.
_EVENTS = {
    "started": "started a session",
    "turn": "said something",
    "log": "took a step",
    "heartbeat": "was heard of",
    "completed": "completed a session",
    "abandoned": "left a session",
}
#: Parts of the store whose rows are not what their name says.
_ROWS = {"exchanges": "turns and steps"}


def page(request: PageRequest) -> Page:
    # What is about the whole store is only for a token that is.
    whole = request.grant.workspace is None
    parts = [
        _state(request),
        _health_later(request) if whole and request.may("admin") else None,
        _harnesses(request),
        _connect(request),
        _sizes_later(request) if whole else None,
        _workspaces(request) if whole else None,
        _receipts(request),
    ]
    access = together(_tokens(request), _clients(request)) if whole and request.may("admin") else None
    body = together(tag("div", *parts, class_="columns"), access)
    return Page("system", "Is everything in order, and who may use it?", body)


def _state(request: PageRequest) -> Html:
    eng = request.eng
    stats = eng.sessions.stats()
    problem = eng.embedders.problem()
    waiting = eng.embedding_queue.size()
    memories = sum(stats.memories.values())
    queue = f"{plural(waiting, 'text')} waiting" if waiting else "nothing waits"
    work = (
        action("backlog.work", "Embed them now", {}, done="Done.")
        if waiting and not problem and request.may("admin")
        else None
    )
    who = request.grant.name or "the user of this machine"
    counted = (
        plural(stats.sessions, "session"),
        plural(stats.turns, "turn"),
        plural(memories, "memory", "memories"),
        plural(stats.gists, "gist"),
    )
    is_owner = request.may("admin") and request.grant.workspace is None
    pairs = (
        ("Version", VERSION),
        ("You", f"{who} may {_WHAT.get(request.grant.scope, request.grant.scope)}"),
        ("Store", _store(eng.settings.url) if is_owner else None),
        ("Holds", ", ".join(counted)),
        ("Embedder", f"{stats.embedder}, vectors of {stats.model}" if stats.model else stats.embedder),
        ("Embedding queue", row(tag("span", queue), work)),
    )
    wrong = tag("p", problem, class_="problem") if problem else None
    return card(definition(pairs), wrong, title="This store", id="state", data_live="memory session")


def _store(url: str) -> Html:
    """The store by the end of its address; the whole appears when one points at it."""
    whole = masked(url)
    return tag("span", whole.rpartition("/")[2] or whole, title=whole)


def _harnesses(request: PageRequest) -> Html:
    events = request.eng.harness_events()
    rows: list[tuple[Html, Html, Html | None]] = []
    names = titles_of(request, [each.session_id for each in events.harnesses])
    for each in events.harnesses:
        if each.session_id is None:
            rows.append((agent(each.harness), tag("span", "nothing yet", class_="quiet"), None))
        else:
            event = tag("span", _EVENTS.get(each.what, each.what))
            what = row(event, named(request, each.session_id, names), project(request, each.project))
            rows.append((agent(each.harness), what, when(each.at, request.now)))
    # The log is about all workspaces of this machine.
    failures = events.failures if request.grant.workspace is None else None
    trouble: Html | None = None
    if failures is not None and failures.last_day:
        where = "Run engram doctor on the machine of the server for the last one."
        trouble = tag("p", f"Hooks failed {plural(failures.last_day, 'time')} within a day. {where}", class_="problem")
    elif failures is not None:
        trouble = tag("p", "No hook has failed within a day.", class_="quiet")
    if not rows:
        return card(
            empty("No agent has used this store yet.", "engram install claude-code"), title="Agents", id="harnesses"
        )
    shown = table(("Agent", "Last event", "When"), rows, label="The last event of each harness")
    return card(shown, trouble, title="Agents", id="harnesses", data_live="session exchange")


def _connect(request: PageRequest) -> Html:
    base = request.base
    return card(
        tag("p", "Claude Code asks you for consent in the browser:"),
        tag("pre", tag("code", f"claude mcp add --transport http engram {base}/mcp")),
        tag("p", "Hooks for an agent on any machine that reaches this address:"),
        tag("pre", tag("code", f"engram install claude-code --store {base}")),
        tag("p", "Any program that speaks HTTP: ", tag("a", "the description of the API", href="/api/v1/openapi.json")),
        title="Connect an agent",
    )


def sizes_page(request: PageRequest) -> Page:
    """The card with the sizes. The page System loads it afterwards, because the whole store may have to be read."""
    if request.grant.workspace is not None:
        raise Forbidden("The size of the whole store is shown only to a token for all workspaces.")
    body = tag("div", _sizes(request), class_="columns")
    return Page("system", "What takes the space?", body, title="Size")


def health_page(request: PageRequest) -> Page:
    """The card with what the doctor finds. The page System loads it afterwards, because the checks read much."""
    if request.grant.workspace is not None or not request.may("admin"):
        raise Forbidden("The checks of the whole store are shown only to an admin token for all workspaces.")
    body = tag("div", _health(request), class_="columns")
    return Page("system", "Is anything wrong?", body, title="Health")


def _health_later(request: PageRequest) -> Html:
    address = request.link("system", "health")
    checked = tag("p", tag("a", "Check the store", href=address), class_="quiet")
    return card(checked, title="Health", id="health", class_="health", data_load=address)


def _health(request: PageRequest) -> Html:
    findings = request.eng.doctor()
    worse = [each for each in findings if each.state != OK]
    is_wrong = any(each.state == WRONG for each in worse)
    fine = plural(len(findings) - len(worse), "check") + " passed."
    entries = [_finding(each) for each in sorted(worse, key=lambda each: each.state != WRONG)]
    mends = [each for each in worse if each.mends]
    mend = (
        action(
            "library:doctor",
            "Repair automatically",
            {"fix": True},
            confirm=f"Repair {plural(len(mends), 'finding')}? Everything else stays as it is.",
            done="Repaired.",
        )
        if mends
        else None
    )
    return card(
        tag("ul", *entries, class_="findings") if entries else None,
        row(tag("span", fine, class_="quiet"), mend),
        tag("p", "Harness settings and hooks are checked by ", tag("code", "engram doctor"), ".", class_="quiet small"),
        title="Health",
        beside=badge("problem found", "bad") if is_wrong else badge("no problem found", "good"),
        id="health",
        class_="health",
    )


def _finding(finding: Finding) -> Html:
    tone: Tone = "bad" if finding.state == WRONG else "plain"
    return tag(
        "li",
        row(badge(finding.state, tone), tag("strong", one_line(finding.found, 300))),
        tag("p", one_line(finding.means, 400), class_="quiet small") if finding.means else None,
        tag("p", _fix(finding.fix), class_="small") if finding.fix else None,
    )


def _fix(fix: str) -> Html | str:
    """What mends it. A command is code; a sentence that has one stays as it is."""
    line = one_line(fix, 400)
    return tag("code", line) if _COMMAND.fullmatch(line) else line


def _sizes_later(request: PageRequest) -> Html:
    address = request.link("system", "sizes")
    measured = tag("p", tag("a", "Measure the parts of the store", href=address), class_="quiet")
    return card(measured, title="Size", id="sizes", class_="sizes", data_load=address)


def _sizes(request: PageRequest) -> Html:
    sizes = request.eng.sizes()
    # The store may have grown between the two measurements.
    whole = max(sizes.store_bytes, sum(each.bytes for each in sizes.tiers)) or 1
    rows = [
        (
            name,
            tag("span", f"{each.rows:,}", class_="number"),
            tag("span", size(each.bytes), class_="number"),
            meter(each.bytes, whole, label=f"{name}: {each.bytes / whole:.0%} of the store", marked=False),
        )
        for each in sizes.tiers
        if each.bytes and (name := _ROWS.get(each.tier, each.tier))
    ]
    free = f", {size(sizes.free_bytes)} of it unused" if sizes.free_bytes else ""
    shown = table(("Part", "Rows", "Size", "Share"), rows, label="What each part of the store takes, about")
    return card(
        tag("p", f"{size(sizes.store_bytes)} on the disk{free}", class_="quiet"),
        shown,
        title="Size",
        id="sizes",
        class_="sizes",
    )


def _workspaces(request: PageRequest) -> Html | None:
    found = request.eng.workspaces()
    if len(found) < 2:
        return None
    rows = [
        (
            tag("a", each.name, href=link(each.name)),
            tag("span", f"{each.sessions:,}", class_="number"),
            tag("span", f"{each.turns:,}", class_="number"),
            tag("span", f"{each.memories:,}", class_="number"),
            when(each.active_at, request.now),
        )
        for each in found[:100]
    ]
    return card(
        table(("Name", "Sessions", "Turns", "Memories", "Last active"), rows, label="All workspaces"),
        title="Workspaces",
    )


def _receipts(request: PageRequest) -> Html:
    receipts = request.eng.receipts(_RECEIPTS)
    if not receipts:
        return card(
            empty("Nothing was forgotten. A receipt of each forgetting, without any of its text, is kept here."),
            title="Forgotten",
        )
    rows = [
        (
            f"receipt {each.id}",
            one_line(each.asked, 80),
            ", ".join(_counted(count, what) for what, count in each.counts.items() if count),
            when(each.created_at, request.now),
        )
        for each in receipts
    ]
    return card(
        table(("Receipt", "Asked", "Deleted", "When"), rows, label="Receipts of forgetting"),
        title="Forgotten",
        id="receipts",
        data_live="receipt",
    )


def _counted(count: int, kind: str) -> str:
    """`1 memory`: receipts name what they count in the plural, such as `log entries shortened`."""
    many = kind.replace("exchanges", "turns")
    one = [f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s") for word in many.split(" ")]
    return plural(count, " ".join(one), many)


def _tokens(request: PageRequest) -> Html:
    tokens = [each for each in request.eng.access.tokens.list() if each.client_id is None]
    rows = [_token(request, each) for each in tokens]
    shown = table(("Name", "May", "Workspace", "Made", "Last used", "Ends", "Actions"), rows, label="Access tokens")
    workspaces = {"": "all", **{name: name for name in request.workspaces}}
    create = form(
        "library:access.tokens.create",
        field("Name", "name", required=True, key="token"),
        choice("May", "scope", {scope: _WHAT[scope] for scope in SCOPES}, "write", key="token"),
        choice("Workspace", "workspace", workspaces, key="token"),
        choice("Works", "expires", _LIVES, key="token", data_type="number"),
        button("Make a token"),
        # Below all fields, so that they stand in one line.
        tag("small", "The name becomes the author of what is written with the token.", class_="quiet hint"),
        class_="filters",
        data_secret="The token is shown only now. Copy it to the program that uses it.",
    )
    return card(shown, folded("New token", create), title="Tokens", id="tokens")


def _token(request: PageRequest, token: AccessToken) -> tuple[str | None, ...]:
    own = token.id == request.grant.token_id
    revoke = action(
        "library:access.tokens.revoke",
        "Revoke",
        {"name_or_id": token.id},
        kind="small danger",
        confirm=f"Revoke {one_line(token.name, 80)}? Programs and browsers that use it stop working at once."
        + (" You are logged in with it." if own else ""),
        done="Revoked.",
    )
    return (
        row(tag("strong", one_line(token.name, 80)), badge("you", "accent") if own else None),
        token.scope,
        token.workspace or "all",
        when(token.created_at, request.now),
        when(token.last_used_at, request.now) if token.last_used_at else "never",
        tag("time", token.expires_at[:10], datetime=token.expires_at, class_="date") if token.expires_at else "never",
        revoke,
    )


def _clients(request: PageRequest) -> Html | None:
    clients = request.eng.access.clients.list()
    if not clients:
        return None
    rows = [_client(request, each) for each in clients]
    return card(
        table(("Name", "May", "Registered", "Last used", "Actions"), rows, label="OAuth clients"),
        title="Connected OAuth clients",
        id="clients",
    )


def _client(request: PageRequest, client: Client) -> tuple[str | None, ...]:
    scopes = ", ".join(f"{each.scope} in {each.workspace or 'all'}" for each in client.consents) or "nothing yet"
    remove = action(
        "library:access.clients.remove",
        "Remove",
        {"name_or_id": client.id},
        kind="small danger",
        confirm=f"Remove {one_line(client.name, 80)}? Its tokens stop working at once.",
        done="Removed.",
    )
    used = when(client.used_at, request.now) if client.used_at else "never"
    return one_line(client.name, 80), scopes, when(client.created_at, request.now), used, remove
