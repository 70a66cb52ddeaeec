"""A real browser (Debian's Chromium, driven by Playwright) on the real server.

After every test: no script failed, nothing was refused by the content policy, and no request left the server's origin.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from engram import Engram
from tests.conftest import ShiftedClock
from tests.interfaces._server import Server, serving

#: Nothing of this is for testing: without them the browser looks for servers that are not there.
_ARGUMENTS = [
    *("--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--no-first-run", "--disable-quic", "--disable-dev-shm-usage"),
]
#: Milliseconds. The machine may be busy.
PATIENCE = 20_000
expect.set_options(timeout=PATIENCE)


def find_chromium() -> str | None:
    named = os.environ.get("ENGRAM_TEST_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a file. Each test has a context of its own, with its own cookies.

    Not for the whole session: while Playwright runs, its event loop does, and other tests could not use their own.
    """
    path = find_chromium()
    if path is None:
        pytest.skip("Chromium is not installed. `make browser` installs it on Debian, as root.")
    # The sandbox of the browser does not work for root.
    arguments = [*_ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def server(sqlite_url: str, clock: ShiftedClock) -> Iterator[Server]:
    """On one engine: what pages read and write has tests on both."""
    with Engram(sqlite_url, clock=clock) as eng, serving(eng) as server:
        yield server


class Visitor(NamedTuple):
    """A person with a browser, logged in."""

    page: Page
    server: Server

    def visit(self, path: str = "") -> Page:
        """Go to a page of the default workspace."""
        self.page.goto(f"{self.server.url}/w/default/{path}")
        return self.page


Visit = Callable[..., Visitor]


def follow(person: Visitor, path: str = "") -> Page:
    """A page that hears of changes."""
    page = person.visit(path)
    expect(page.locator("body")).to_have_attribute("data-stream", "open")
    return page


@pytest.fixture
def log_in(chromium: Browser, server: Server) -> Iterator[Visit]:
    """`log_in(scope="admin", **options)`: a person with a token of this scope, in a new window."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def watch(page: Page) -> None:
        def said(message: ConsoleMessage) -> None:
            # The browser reports every request that failed. Tests that cause one look at what the page says.
            if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource:"):
                problems.append(message.text)

        def asked(request: Request) -> None:
            if not request.url.startswith((f"{server.url}/", "data:", "blob:")):
                problems.append(f"left the server: {request.url}")

        page.on("console", said)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", asked)

    def visitor(scope: str = "admin", *, name: str = "person", **options: object) -> Visitor:
        settings = {"viewport": {"width": 1360, "height": 860}, **options}
        context = chromium.new_context(**settings)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        watch(page)
        page.goto(f"{server.url}/login")
        page.get_by_label("Access token").fill(server.token(name, scope))
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{server.url}/w/**")
        return Visitor(page, server)

    yield visitor
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def person(log_in: Visit) -> Visitor:
    return log_in()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which finds barriers in a page."""
    import axe_playwright_python

    return Path(axe_playwright_python.__path__[0], "axe.min.js").read_text()
