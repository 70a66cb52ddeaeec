"""The page Memory."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ShiftedClock
from tests.interfaces._server import Server

from ._person import Person


@pytest.mark.requirement("WEB-9")
def test_the_brief_is_that_of_the_project_with_the_latest_turns_or_memories(
    server: Server, me: Person, clock: ShiftedClock
) -> None:
    eng = server.eng
    for project in ("acme/shop", "acme/docs"):
        eng.exchanges.add(eng.sessions.register("codex", "Working", project=project), "user", "Begin")
        clock.advance(60)
    eng.sessions.register("claude-code", "By hand", project="acme/empty")
    assert "The brief of acme/docs" in me.see("memory").text
    clock.advance(60)
    eng.remember("Deploys never happen on Fridays", project="acme/shop")
    page = me.see("memory")
    assert "The brief of acme/shop" in page.text
    assert re.findall(r'<option value="(acme/\w+)"', page.response.text) == ["acme/shop", "acme/docs", "acme/empty"]


@pytest.mark.requirement("WEB-9")
def test_a_pin_that_waits_is_told_from_an_approved_one_and_each_memory_has_its_project(
    server: Server, me: Person
) -> None:
    eng = server.eng
    eng.memories.update(eng.remember("Read the runbook first", project="acme/shop").id, pinned=True)
    assert "pinned, to approve" in me.see("memory", view="all").text
    (waiting,) = eng.memories.list(waiting=True)
    eng.memories.approve(waiting.id)
    page = me.see("memory", view="all").response.text
    assert "to approve<" not in page
    assert ">pinned<" in page
    assert '/search?project=acme%2Fshop"' in page
    assert '/search?project=acme%2Fshop"' not in me.see("memory", view="all", project="acme/shop").response.text
