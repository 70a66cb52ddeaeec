"""What a person does with memories in a browser: pin, edit, archive, forget, approve; each with the scope it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from engram import Engram
from tests.conftest import ShiftedClock

from ._browser import Browser
from ._server import Server, serving

#: Carries out a call in a browser that is logged in: the path below /api/v1, and the arguments.
Post = Callable[[str, dict[str, Any]], httpx.Response]


@pytest.fixture
def server(sqlite_url: str, clock: ShiftedClock) -> Iterator[Server]:
    with Engram(sqlite_url, clock=clock) as eng, serving(eng) as server:
        yield server


@contextmanager
def logged_in(server: Server, scope: str) -> Iterator[Post]:
    with Browser(server.url) as browser:
        browser.submit(browser.visit("/login"), token=server.token(f"{scope} of the person", scope))
        ((name, secret),) = browser.cookies.items()
    headers = {"cookie": f"{name}={secret}", "sec-fetch-site": "same-origin"}
    with server.http(headers=headers) as http:
        yield lambda path, given: http.post(f"/api/v1/{path}", json=given)


def in_library(post: Post, name: str, **options: object) -> Any:
    answer = post(f"library/{name}", {"options": options})
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.requirement("SERVER-53", "MEMORY-9", "MEMORY-14")
def test_an_admin_login_pins_and_approves_in_one_call_and_unpins(server: Server) -> None:
    memory = server.eng.remember("Never push to main", pinned=True)
    with logged_in(server, "admin") as post:
        pinned = in_library(post, "memories.update", id=memory.id, pinned=True, by_person=True)
        assert (pinned["$"], pinned["fields"]["pinned"], pinned["fields"]["approved"]) == ("Memory", True, True)
        assert "Never push to main" in server.eng.brief()
        edited = in_library(
            post,
            "memories.update",
            id=memory.id,
            content="Never push to main or release",
            reason="more exact",
            by_person=True,
            expected_version=1,
        )["fields"]
        assert (edited["version"], edited["approved"]) == (2, True)
        stale = {"id": memory.id, "content": "x", "by_person": True, "expected_version": 1}
        assert code(post("library/memories.update", {"options": stale})) == (409, "version_conflict")
        unpinned = in_library(post, "memories.update", id=memory.id, pinned=False, by_person=True)["fields"]
        assert (unpinned["pinned"], unpinned["approved"]) == (False, True)
        in_library(post, "memories.withdraw", id=memory.id)
        assert not server.eng.memories.get(memory.id).approved
        approved = in_library(post, "memories.approve", id=memory.id, version=2)["fields"]
        assert approved["approved"]
        assert code(post("library/memories.approve", {"options": {"id": memory.id, "version": 1}})) == (
            409,
            "version_conflict",
        )
        dry = post("forget", {"memory": memory.id, "dry_run": True}).json()["result"]
        assert dry["counts"] == {"memories": 1} and dry["preview"]
        assert server.eng.memories.get(memory.id).approved
        assert post("forget", {"memory": memory.id}).json()["result"]["counts"] == {"memories": 1}
        assert server.eng.memories.list() == []


@pytest.mark.requirement("SERVER-53", "MEMORY-9", "MEMORY-14", "REMOTE-9")
def test_a_login_that_may_write_edits_and_archives_but_does_nothing_as_a_person(server: Server) -> None:
    memory = server.eng.remember("Never push to main", by_person=True, pinned=True)
    id = {"id": memory.id}
    with logged_in(server, "write") as post:
        assert post("memory/archive", id).json()["result"]["status"] == "archived"
        assert post("memory/unarchive", id).json()["result"]["status"] == "active"
        assert code(post("memory/update", {**id, "pinned": False})) == (403, "person_needed")
        for name, options in (
            ("memories.update", {**id, "pinned": True, "by_person": True}),
            ("memories.approve", id),
            ("memories.withdraw", id),
        ):
            assert code(post(f"library/{name}", {"options": options})) == (403, "forbidden")
        assert code(post("forget", {"memory": memory.id, "dry_run": True})) == (403, "forbidden")
        edited = post("memory/update", {**id, "text": "Push to main"}).json()["result"]
        assert (edited["version"], edited["approved"], edited["pinned"]) == (2, False, True)
    assert "Push to main" not in server.eng.brief()
