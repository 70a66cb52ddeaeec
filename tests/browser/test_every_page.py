"""What holds for every page, with a month of made-up data in the store, and with hostile texts in every field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Dialog, Page, expect

from engram import Engram
from engram.config import load
from engram.interfaces.demo import filling
from engram.interfaces.web.routes import PAGES
from tests.conftest import ShiftedClock
from tests.interfaces._server import Server, serving

from ._payloads import PAYLOADS
from .conftest import Visit, Visitor

#: What runs or loads something, if a stored text became an element.
_UNWANTED = (
    "iframe, object, embed, video, audio, img, base, meta[http-equiv=refresh], math, marquee, style, [style], "
    "script:not([src^='/static/']), link:not([href^='/static/']), form[action^='javascript'], "
    + ", ".join(
        f"[on{event}]" for event in ("error", "load", "focus", "toggle", "begin", "start", "click", "mouseover")
    )
)
_BAD_LINKS = "a[href^='javascript' i], a[href^='data:' i], a[href^='vbscript' i], [formaction]"


class TestWithAMonthOfData:
    @pytest.fixture
    def server(self, sqlite_url: str) -> Iterator[Server]:
        filling.fill(load(url=sqlite_url, workspace="default", embedder="none"))
        with Engram(sqlite_url) as eng, serving(eng) as server:
            yield server

    @pytest.mark.requirement("WEB-7")
    def test_no_page_has_a_barrier_or_is_wider_than_its_window(self, log_in: Visit, server: Server, axe: str) -> None:
        wide = log_in(name="wide")
        narrow = log_in(name="narrow", viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True)
        found = []
        for path in addresses(server.eng):
            for visitor in (wide, narrow):
                page = visitor.visit(path)
                found += [f"{path}: {each}" for each in too_wide(page)]
                unfold(page)
                found += [f"{path}, unfolded: {each}" for each in (*barriers(page, axe), *too_wide(page))]
        assert not found, "\n".join(found)


def too_wide(page: Page) -> list[str]:
    room, used = page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollWidth]")
    return [f"{used} pixels wide in a window of {room}"] if used > room else []


#: Names without a place where a line could end.
_LONG = ("B" * 90, "é" * 100, f"https://example.org/{'a1' * 120}", "Z" + "\u0301" * 90)


@pytest.mark.requirement("WEB-7")
def test_no_name_however_long_makes_a_page_wider_than_its_window(log_in: Visit, server: Server) -> None:
    eng = server.eng
    for text in _LONG:
        session = eng.sessions.register("codex" + text[:35], text, project=text[:90], name=text[:90])
        eng.exchanges.add(session, "user", text)
        eng.sessions.log(session, text)
        eng.remember(text, kind="decision", tags=[text[:60]], session_id=session, project=text[:90])
        eng.remember(f"{text} may be so", kind="decision", trust="tool")
        eng.leases.claim(session, f"acme:{text}{text}"[:500].ljust(500, "x"), text, exclusive=True)
        eng.messages.send(session, "person", text)
        child = eng.sessions.register("codex", text, parent_id=session)
        eng.exchanges.add(child, "assistant", text)
        eng.sessions.complete(eng.sessions.register("gemini", text, project=text[:90]), text)
    eng.world.set("\n".join(_LONG))
    for number, text in enumerate(_LONG[:2]):
        eng.blocks.create(text[:100], _LONG[number])
        eng.blocks.update(text[:100], text, reason=text)
    eng.dream(force=True)
    visitor = log_in(name="w" * 90)
    found = []
    for path in [*addresses(eng), *(f"sessions/{each.id}" for each in eng.sessions.active()[:2])]:
        page = visitor.visit(path)
        unfold(page)
        for width in (1360, 390):
            page.set_viewport_size({"width": width, "height": 844})
            found += [f"{path}: {each}" for each in too_wide(page)]
    assert not found, "\n".join(found)


@pytest.mark.requirement("WEB-7")
def test_marks_that_are_piled_on_a_letter_draw_over_nothing_else(person: Visitor) -> None:
    eng = person.server.eng
    eng.messages.send(eng.sessions.register("codex", "Z"), "person", "Z")
    before = person.visit().locator("#page-head").screenshot()
    eng.messages.send(eng.sessions.register("codex", "Z"), "person", "Z" + "\u0301" * 500)
    page = person.visit()
    expect(page.locator("#messages")).to_contain_text("\u0301")
    assert page.locator("#page-head").screenshot() == before


def addresses(eng: Engram) -> list[str]:
    """An address for every page that there is, with what the store holds."""
    sessions = eng.sessions.list(400)
    session = max(sessions, key=lambda each: each.turns)
    memories = eng.memories.list(limit=200)
    memory = memories[len(memories) // 2]
    dreams = eng.dreams.list(1)
    blocks = eng.blocks.list()
    samples = {
        "": [""],
        "search": ["search", "search?q=staging+port", "search?q=window.pwned", "search?q=port&kind=fact"],
        "sessions/{id:path}": [f"sessions/{session.id}"],
        "memories/{id}": [f"memories/{memory.id}"],
        "memory": ["memory", "memory?view=all", "memory?view=waiting", f"memory?at={session.created_at[:10]}"],
        "blocks": ["blocks"],
        "blocks/{name:path}": [f"blocks/{block.name}" for block in blocks[:3]],
        "time": ["time", "time?by=type&days=90"],
        "dreams": ["dreams", *(f"dreams?view={view}" for view in ("due", "preview", "passes", "numbers"))],
        "dreams/{id}": [f"dreams/{each.id}" for each in dreams],
        "portrait": ["portrait"],
        "graph": ["graph", f"graph?kind=session&id={session.id}", f"graph?kind=memory&id={memory.id}"],
        "system": ["system"],
        "system/sizes": ["system/sizes"],
        "system/health": ["system/health"],
    }
    assert samples.keys() == PAGES.keys(), "every page is looked at"
    return [path for paths in samples.values() for path in paths]


def barriers(page: Page, axe: str) -> list[str]:
    """Serious violations of the rules for accessible pages."""
    page.evaluate(axe)
    result: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:120]}"
        for each in result["violations"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.requirement("WEB-7")
def test_everything_around_a_page_is_in_a_landmark(person: Visitor, axe: str) -> None:
    page = person.visit()
    page.evaluate(axe)
    violations = page.evaluate("axe.run({runOnly: ['region']}).then((result) => result.violations)")
    assert [node["html"] for each in violations for node in each["nodes"]] == []
    expect(page.get_by_role("complementary", name="Engram")).to_contain_text("default")


@pytest.mark.requirement("WEB-8")
def test_no_stored_text_runs_in_any_page(person: Visitor, server: Server, clock: ShiftedClock) -> None:
    eng = server.eng
    for payload in PAYLOADS:
        fill_every_field(eng, payload)
    eng.dream(force=True)
    page = person.page
    ran: list[str] = []

    def asked(dialog: Dialog) -> None:
        ran.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", asked)
    for path in (*addresses(eng), *reflected()):
        person.visit(path)
        unfold(page)
        assert page.evaluate("window.pwned === undefined"), path
        assert page.locator(_UNWANTED).count() == 0, (path, page.locator(_UNWANTED).first.evaluate("e => e.outerHTML"))
        assert page.locator(_BAD_LINKS).count() == 0, path
    assert ran == []


def fill_every_field(eng: Engram, payload: str) -> None:
    """Store the text wherever the store takes one. What refuses it, refuses it."""
    line = " ".join(payload.split())
    session = eng.sessions.register("codex", line, project=line[:100], name=line[:100], metadata={"x": payload})
    eng.sessions.log(session, payload)
    for role in ("user", "assistant", "system", "tool"):
        eng.exchanges.add(session, role, f"{payload} said by {role}")
    for kind in ("fact", "preference", "todo", line[:60]):
        eng.remember(
            f"{payload} as {kind}", kind=kind, tags=[line[:60]], key=f"{kind} {line}"[:100], session_id=session
        )
    pinned = eng.remember(f"{payload} pinned", pinned=True, trust="import", project=line[:100])
    eng.memories.approve(pinned.id)
    eng.memories.update(pinned.id, f"{payload} changed", reason=payload)
    eng.leases.claim(session, f"acme:{line[:80]}", line, exclusive=False)
    eng.messages.send(session, "person", payload)
    eng.messages.send(None, session, payload)
    eng.world.set(payload, reason=payload)
    if len(eng.blocks.list()) < 5:
        eng.blocks.create(f"notes-{len(eng.blocks.list())}", payload)
    if len(eng.memories.list(limit=400)) % 3:
        eng.sessions.complete(session, payload)


def reflected() -> list[str]:
    """Addresses that carry the text themselves."""
    from urllib.parse import quote

    given = [quote(each, safe="") for each in PAYLOADS[:12]]
    pages = (
        "search?q={}",
        "memory?view=all&tag={}",
        "time?project={}",
        "graph?kind=file&id={}",
        "blocks/{}",
        "sessions/{}",
        "x{}",
    )
    return [template.format(each) for template, each in zip(pages * 2, given, strict=False)]


def unfold(page: Page) -> None:
    """Show what is folded, so that it is rendered too."""
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.evaluate("document.querySelectorAll('form[hidden]').forEach(each => { each.hidden = false; })")
