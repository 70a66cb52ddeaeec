"""Who is let in: a token on every path, its scope on every operation, its workspace on everything."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from engram import Engram
from engram.interfaces.http import guard, routes
from engram.operations import OPERATIONS
from tests._running import Running
from tests._tables import dump, holds
from tests.test_operations import CASES, Scene


def every_route(server: Running) -> list[tuple[str, str]]:
    """Every path that needs a token, with the methods that it answers."""
    operations = [
        (method, routes.path_of(operation))
        for operation in OPERATIONS.values()
        for method in routes.methods_of(operation)
    ]
    others = [
        (method, route.path.replace("{name}", "sessions.list"))
        for route in server.service.app.router.routes
        if isinstance(route, Route) and not guard.is_open(route.path)
        for method in sorted(route.methods or ["GET", "POST"])
    ]
    return [*operations, *others]


@pytest.mark.requirement("SERVER-2")
def test_no_request_without_a_token_reaches_the_store(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    engine = server.eng._view.engine

    def noted(name: str) -> Any:
        real = getattr(engine, name)

        def call(*arguments: Any, **options: Any) -> Any:
            asked.append(name)
            return real(*arguments, **options)

        return call

    monkeypatch.setattr(engine, "_reading", noted("_reading"))
    monkeypatch.setattr(engine, "_writing", noted("_writing"))
    found = every_route(server)
    assert len(found) > 60
    without = [{}, {"Authorization": "Bearer"}, {"Authorization": "Basic eDp5"}, {"Authorization": "engram_x"}]
    malformed = [{"Authorization": f"Bearer {secret}"} for secret in ("x", "engram_", "engram_0123456789ab_short")]
    with server.client("") as nobody:
        for method, path in [*found, ("GET", "/no/such/path"), ("DELETE", "/api/v1/sitrep"), ("PUT", "/api/v1/x")]:
            for headers in without + malformed:
                answer = nobody.request(method, path, headers=headers, json={} if method == "POST" else None)
                assert answer.status_code == 401, f"{method} {path} {headers}"
                assert answer.headers["www-authenticate"].startswith('Bearer realm="engram"')
                if method != "HEAD":
                    assert answer.json()["error"]["code"] == "unauthorized"
    assert asked == []


@pytest.mark.requirement("SERVER-2")
def test_a_wrong_token_is_refused_before_anything_else_is_told(server: Running) -> None:
    unknown = f"engram_0123456789ab_{'x' * 43}"
    with server.client(unknown) as stranger:
        for answer in (
            stranger.get("/api/v1/sitrep"),
            stranger.get("/api/v1/recall", params={"k": "wrong"}),
            stranger.get("/api/v1/no/such/operation"),
            stranger.delete("/api/v1/sitrep"),
            stranger.post("/api/v1/remember", content=b"{", headers={"Content-Type": "application/json"}),
            stranger.post("/api/v1/remember", content=b"x" * (5 << 20)),
            stranger.get("/api/v1/events"),
            stranger.get("/metrics"),
            stranger.get("/api/v1/openapi.json"),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
            assert "resource_metadata=" in answer.headers["www-authenticate"]


@pytest.mark.requirement("SERVER-2")
def test_a_revoked_token_is_refused_at_once(server: Running) -> None:
    secret = server.token("read", name="short-lived")
    with server.client(secret) as client:
        assert client.get("/api/v1/sitrep").status_code == 200
        server.eng.access.tokens.revoke("short-lived")
        assert client.get("/api/v1/sitrep").status_code == 401


@pytest.mark.requirement("SERVER-2")
def test_the_paths_without_a_token_are_those_of_one_list(server: Running) -> None:
    assert guard.OPEN[:2] == ("/health", "/ready")
    with server.client("") as nobody:
        assert nobody.get("/health").json()["status"] == "ok"
        assert nobody.get("/ready").json() == {"status": "ready"}
        for path in ("/health/", "/healthy", "/ready/../api/v1/sitrep", "//health", "/HEALTH"):
            assert nobody.get(path).status_code == 401, path


def in_scope(scope: str) -> list[str]:
    return [name for name, operation in OPERATIONS.items() if operation.scope == scope]


@pytest.mark.requirement("SERVER-3")
def test_a_token_gets_403_on_every_operation_beyond_its_scope(server: Running) -> None:
    eng = server.eng.workspace("scopes")
    scene = Scene(eng)
    cases = {name: arguments(scene) for name, (arguments, _) in CASES.items()}
    before = dump(eng.settings.url)
    headers = {"X_Engram_Workspace": "scopes"}
    allowed = {"read": ("read",), "write": ("read", "write"), "admin": ("read", "write", "admin")}
    for scope in ("read", "write"):
        with server.client(server.token(scope), **headers) as client:
            for name, operation in OPERATIONS.items():
                if operation.scope in allowed[scope]:
                    continue
                answer = client.post(routes.path_of(operation), json=cases[name])
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden"), name
    after = dump(eng.settings.url)
    changed = {table for table in after if after[table] != before[table]}
    assert changed <= {"access_tokens", "sqlite_sequence"}


@pytest.mark.requirement("SERVER-4")
def test_a_token_of_one_workspace_sees_and_changes_nothing_of_another(server: Running) -> None:
    theirs = server.eng.workspace("theirs")
    session = theirs.sessions.register("codex", "canary-summary")
    theirs.exchanges.add(session, "user", "canary-turn about the deploy")
    memory = theirs.remember("canary-memory about the deploy")
    theirs.world.set("canary-world")
    theirs.leases.claim(session, "port:4711", note="canary-note")
    with server.client(server.token("admin", "ours")) as client:
        for name, operation in OPERATIONS.items():
            for method in routes.methods_of(operation):
                answer = client.request(
                    method, routes.path_of(operation), headers={"X-Engram-Workspace": "theirs"}, json={}
                )
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden"), name
                assert "canary" not in answer.text
        everything = [
            client.get("/api/v1/sitrep"),
            client.get("/api/v1/brief"),
            client.get("/api/v1/recall", params={"query": "deploy canary", "min_score": 0, "k": 100}),
            client.get("/api/v1/context", params={"query": "deploy canary"}),
            client.get("/api/v1/memory/list"),
            client.get("/api/v1/session/list", params={"all": "true"}),
            client.get("/api/v1/exchange/timeline"),
            client.get("/api/v1/changes"),
            client.get("/api/v1/lock/list"),
            client.get("/api/v1/block/list"),
            client.get("/api/v1/workspaces"),
            client.get("/api/v1/sessions/recent"),
            client.get("/api/v1/dreams"),
            client.get("/api/v1/memory/show", params={"id": memory.id}),
            client.get("/api/v1/session/show", params={"id": session}),
            client.post("/api/v1/forget", json={"memory": memory.id}),
        ]
        for answer in everything:
            assert "canary" not in answer.text
            assert "theirs" not in answer.text
        assert [answer.status_code for answer in everything[-3:]] == [404, 404, 404]
        assert client.get("/metrics").status_code == 403
        with client.stream("GET", "/api/v1/events?workspace=theirs") as refused:
            assert refused.status_code == 403
    assert theirs.memories.get(memory.id).content == "canary-memory about the deploy"


@pytest.mark.requirement("SERVER-2")
def test_a_route_that_does_not_verify_is_still_closed_to_a_wrong_token(server: Running) -> None:
    async def careless(request: object) -> PlainTextResponse:
        return PlainTextResponse("anybody may read this")

    app = server.service.app
    app.router.routes.append(Route("/careless", careless))
    try:
        with server.client(f"engram_0123456789ab_{'x' * 43}") as stranger:
            assert stranger.get("/careless").status_code == 401
            assert "anybody" not in stranger.get("/careless").text
        with server.client(server.token("read")) as known:
            assert known.get("/careless").text == "anybody may read this"
    finally:
        app.router.routes.pop()


#: A key for each operation that writes, with the arguments of the table.
@pytest.mark.requirement("SERVER-12")
def test_a_repeated_request_with_the_same_key_is_answered_and_not_done_again(
    server: Running, admin: httpx.Client
) -> None:
    writing = [name for name, operation in OPERATIONS.items() if operation.scope != "read"]
    for place, name in enumerate(writing):
        eng = server.eng.workspace(f"keys-{place}")
        arguments = CASES[name][0](Scene(eng))
        headers = {"X-Engram-Workspace": eng.workspace_name, "Idempotency-Key": f"key {place}"}
        headers["X-Engram-Project"] = str(Engram.project_of("."))
        first, second = (
            admin.post(routes.path_of(OPERATIONS[name]), json=arguments, headers=headers) for _ in range(2)
        )
        assert first.status_code == 200, f"{name}: {first.text}"
        assert "idempotency-replayed" not in first.headers
        before = eng.changes(limit=10_000)
        assert (second.status_code, second.text) == (200, first.text), name
        assert second.headers["idempotency-replayed"] == "true"
        assert eng.changes(limit=10_000) == before


@pytest.mark.requirement("SERVER-12")
def test_a_key_is_for_one_request_of_one_token(server: Running, admin: httpx.Client) -> None:
    def remember(client: httpx.Client, text: str, key: str) -> httpx.Response:
        headers = {"X-Engram-Workspace": "one-key", "Idempotency-Key": key}
        return client.post("/api/v1/remember", json={"text": text}, headers=headers)

    assert remember(admin, "Tea at five", "k").status_code == 200
    other = remember(admin, "Tea at six", "k")
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")
    with server.client() as somebody:
        assert remember(somebody, "Tea at six", "k").status_code == 200
    # A request that was refused can be repeated with the same key.
    assert remember(admin, "", "again").status_code == 400
    assert remember(admin, "Tea at seven", "again").status_code == 200
    assert remember(admin, "Tea at eight", "x" * 201).status_code == 400
    contents = [memory.content for memory in server.eng.workspace("one-key").memories.list()]
    assert sorted(contents) == ["Tea at five", "Tea at seven", "Tea at six"]


@pytest.mark.requirement("SERVER-19")
def test_no_secret_of_a_token_is_in_the_store(server: Running) -> None:
    secret = server.token("write")
    with server.client(secret) as client:
        client.post(
            "/api/v1/session/register", json={"type": "codex", "summary": "x"}, headers={"Idempotency-Key": "a"}
        )
    assert holds(server.eng.settings.url, secret) == {}
