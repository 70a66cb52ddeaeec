"""The sizes on the page System: they may take long, so they are a page of their own that follows."""

from __future__ import annotations

import re

import pytest

from engram.interfaces.web.system import _fix
from tests.interfaces._browser import Browser
from tests.interfaces._server import Server

from ._person import person

LATER = "Measure the parts of the store"


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


@pytest.mark.requirement("DASHBOARD-60")
def test_the_share_of_a_part_is_its_share_of_the_store(server: Server) -> None:
    server.eng.remember("Deploys never happen on Fridays")
    sizes = server.eng.sizes()
    with person(server) as someone:
        page = someone.see("system/sizes").response.text
    widths = [float(each) for each in re.findall(r'class="fill good" width="([\d.]+)"', page)]
    assert len(widths) > 2
    largest = max(each.bytes for each in sizes.tiers)
    assert max(widths) == pytest.approx(100 * largest / sizes.store_bytes, abs=5)
    assert sum(widths) <= 101


@pytest.mark.requirement("DASHBOARD-60")
def test_the_rows_of_turns_are_said_to_count_steps_too_and_events_are_in_words(server: Server) -> None:
    session = server.eng.sessions.register("codex", "Porting the router")
    server.eng.sessions.log(session, "Edit router.py")
    with person(server) as someone:
        assert "turns and steps" in someone.see("system/sizes").text
        assert "took a step" in someone.see("system").text


@pytest.mark.requirement("WEB-20")
def test_a_command_that_mends_a_finding_is_code() -> None:
    assert _fix("engram backup") == "<code>engram backup</code>"
    assert _fix("engram dream run --if-due --workspace demo").startswith("<code>")
    assert "<code>" not in _fix("engram sitrep --workspace demo marks them as abandoned")
