"""A person who looks at the pages, with a token of a scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from tests.interfaces._browser import Browser, Page
from tests.interfaces._server import Server


class Person:
    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def see(self, path: str, **query: Any) -> Page:
        """A page of the default workspace."""
        asked = f"?{urlencode(query, doseq=True)}" if query else ""
        return self.browser.visit(f"/w/default/{path}{asked}", site="same-origin")


@contextmanager
def person(server: Server, scope: str = "admin") -> Iterator[Person]:
    with Browser(server.url) as browser:
        home = browser.submit(browser.visit("/login"), token=server.token(f"a {scope} token", scope))
        assert home.status == 200
        yield Person(browser)
