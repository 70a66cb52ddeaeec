"""The sizes on the page System: they may take long, so they are a page of their own that follows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engram import Engram
from tests.conftest import ShiftedClock
from tests.interfaces._browser import Browser
from tests.interfaces._server import Server, serving

from ._person import person

LATER = "Measure the parts of the store"


@pytest.fixture
def server(sqlite_url: str, clock: ShiftedClock) -> Iterator[Server]:
    with Engram(sqlite_url, clock=clock) as eng, serving(eng) as server:
        yield server


@pytest.mark.requirement("DASHBOARD-60")
def test_the_page_system_does_not_read_the_store_and_leads_to_the_sizes(server: Server) -> None:
    server.eng.remember("Deploys never happen on Fridays")
    with person(server) as someone:
        page = someone.see("system")
        assert LATER in page.text and "on the disk" not in page.text
        assert "table sizes" not in server.eng._view.engine.memo
        (address,) = {link for link in page.links if link.endswith("/system/sizes")}
        assert f'data-load="{address}"' in page.response.text
        sizes = someone.see("system/sizes")
        assert sizes.status == 200 and "on the disk" in sizes.text and "memories" in sizes.text
        assert 'id="sizes"' in page.response.text and 'id="sizes"' in sizes.response.text


@pytest.mark.requirement("DASHBOARD-60")
def test_the_sizes_are_for_tokens_of_all_workspaces(server: Server) -> None:
    with Browser(server.url) as browser:
        browser.submit(browser.visit("/login"), token=server.token("one", "admin", workspace="default"))
        assert LATER not in browser.visit("/w/default/system", site="same-origin").text
        refused = browser.visit("/w/default/system/sizes", site="same-origin")
        assert refused.status == 403 and "token for all workspaces" in refused.text
