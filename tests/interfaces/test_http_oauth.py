"""OAuth from the first 401 to the last refresh, with the SDK's own client, and everything that must not work."""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx
import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from engram import Engram
from engram.access_records import OWNER
from engram.interfaces.http.logs import Log
from engram.interfaces.http.oauth import MOST_REGISTRATIONS, REGISTRATIONS_WITHIN
from engram.interfaces.http.options import Options
from mcp import Client
from tests.conftest import ShiftedClock

from ._browser import Browser, Page
from ._server import Server, serving

CALLBACK = "http://127.0.0.1:33418/callback"


@pytest.fixture
def server(sqlite_url: str, clock: ShiftedClock) -> Iterator[Server]:
    """On one engine: the store's own tests run on both."""
    with Engram(sqlite_url, clock=clock) as eng, serving(eng) as server:
        yield server


@pytest.fixture
def browser(server: Server) -> Iterator[Browser]:
    """A browser whose person is logged in."""
    with Browser(server.url) as browser:
        browser.submit(browser.visit("/login"), token=server.token("person", "admin"))
        yield browser


class Program:
    """A client by hand, so that each step can go wrong."""

    def __init__(self, server: Server, redirect: str = CALLBACK, **metadata: Any) -> None:
        self.server = server
        self.redirect = redirect
        self.verifier = secrets.token_urlsafe(48)
        given = {"redirect_uris": [redirect], "client_name": "Test client", "token_endpoint_auth_method": "none"}
        answer = self.post("/register", json={**given, **metadata})
        assert answer.status_code == 201, answer.text
        self.registered = answer.json()
        self.id: str = self.registered["client_id"]

    def post(self, path: str, **more: Any) -> httpx.Response:
        with self.server.http() as http:
            return http.post(path, **more)

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")

    def request(self, **changed: str | None) -> str:
        """The address to which the person's browser is sent."""
        asked: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "state": "the state",
            "resource": self.server.mcp,
            **changed,
        }
        return "/authorize?" + urlencode({name: value for name, value in asked.items() if value is not None})

    def code(self, browser: Browser, may: str = "write", workspace: str = "default", **changed: str | None) -> str:
        page = browser.visit(self.request(**changed), site="cross-site")
        if page.refresh:
            page = browser.follow_refresh(page)
        return answered(browser.submit(page, may=may, workspace=workspace, decision="allow"))["code"]

    def exchange(self, code: str, /, **changed: str | None) -> httpx.Response:
        given: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "client_id": self.id,
            "code_verifier": self.verifier,
            "resource": self.server.mcp,
            **changed,
        }
        return self.post("/token", data={name: value for name, value in given.items() if value is not None})

    def refresh(self, token: str, **changed: str) -> httpx.Response:
        given = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.id, **changed}
        return self.post("/token", data=given)

    def tokens(self, browser: Browser, **more: str) -> dict[str, Any]:
        answer = self.exchange(self.code(browser, **more))
        assert answer.status_code == 200, answer.text
        tokens: dict[str, Any] = answer.json()
        return tokens

    def works(self, token: str) -> int:
        with self.server.http(token) as http:
            return http.get("/api/v1/sitrep").status_code


def answered(page: Page) -> dict[str, str]:
    """What the browser takes to the client."""
    assert page.refresh is not None, page.text
    return {name: value for name, (value,) in parse_qs(urlsplit(page.refresh).query).items()}


class Memory:
    """Where the SDK's client keeps its tokens."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.requirement("SERVER-56")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_client_that_knows_only_the_address_is_let_in_by_a_person(
    eng: Engram, clock: ShiftedClock, name: str
) -> None:
    with serving(eng) as server, Browser(f"http://{name}:{server.port}") as browser:
        url = f"http://{name}:{server.port}/mcp"
        token = server.token("person")
        answers: list[dict[str, str]] = []
        asked = 0

        async def open_browser(address: str) -> None:
            """The person comes from the client, logs in the first time, looks at the question, and agrees."""
            nonlocal asked
            asked += 1
            page = browser.follow_refresh(browser.visit(address, site="cross-site"))
            if asked == 1:
                assert "wants to use Engram" in page.text
                page = browser.submit(page, token=token)
            assert "Let Test client use Engram?" in page.text
            assert "a program on your own machine (127.0.0.1:33418)" in page.text
            answers.append(answered(browser.submit(page, decision="allow")))

        async def wait_for_answer() -> AuthorizationCodeResult:
            return AuthorizationCodeResult(**answers[-1])

        async def visit() -> None:
            memory = Memory()
            auth = OAuthClientProvider(
                url,
                OAuthClientMetadata(redirect_uris=[AnyUrl(CALLBACK)], client_name="Test client"),
                memory,
                redirect_handler=open_browser,
                callback_handler=wait_for_answer,
            )
            async with (
                httpx2.AsyncClient(auth=auth, trust_env=False, timeout=30) as http,
                Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
            ):
                me = (await client.call_tool("sitrep", {"summary": "Porting"})).structured_content["session"]
                assert memory.tokens is not None
                first = memory.tokens
                assert first.scope == "read write"
                # The access token expires; the client refreshes it and goes on as the same session.
                clock.advance(3_601)
                auth.context.token_expiry_time = 1.0
                again = await client.call_tool("session", {"action": "log", "text": "step"})
                assert again.structured_content["result"]["session_id"] == me
                assert memory.tokens is not None
                assert memory.tokens.access_token != first.access_token
                assert memory.tokens.refresh_token != first.refresh_token
                assert asked == 1
                # What the client wrote has its name as author, and the person can throw it out.
                (registered,) = server.eng.access.clients.list()
                assert registered.consents[0].name == "Test client (oauth)"
                server.eng.access.clients.remove(registered.id)

        anyio.run(visit)


@pytest.mark.requirement("SERVER-57")
def test_the_server_describes_itself_under_the_address_that_the_client_used(server: Server) -> None:
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}"):
        with server.http(headers={"host": host}) as http:
            base = f"http://{host}"
            challenge = http.post("/mcp").headers["www-authenticate"]
            assert f'resource_metadata="{base}/.well-known/oauth-protected-resource/mcp"' in challenge
            for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
                resource = http.get(path).json()
                assert resource["resource"] == f"{base}/mcp"
                assert resource["authorization_servers"] == [base]
                assert resource["scopes_supported"] == ["read", "write"]
            described = http.get("/.well-known/oauth-authorization-server").json()
            assert described["issuer"] == base
            assert described["code_challenge_methods_supported"] == ["S256"]
            assert described["response_types_supported"] == ["code"]
            assert described["token_endpoint_auth_methods_supported"][0] == "none"
            for end in ("authorization", "token", "registration", "revocation"):
                assert described[f"{end}_endpoint"].startswith(f"{base}/")


@pytest.mark.requirement("SERVER-57")
def test_behind_a_proxy_the_public_address_is_described(eng: Engram) -> None:
    public = "https://engram.example.org"
    headers = {"host": "engram.example.org", "x-forwarded-host": "evil.example"}
    with serving(eng, Options(public_url=public, behind_proxy=True)) as server, server.http(headers=headers) as http:
        assert http.get("/.well-known/oauth-authorization-server").json()["issuer"] == public
        assert http.get("/.well-known/oauth-protected-resource/mcp").json()["resource"] == f"{public}/mcp"


@pytest.mark.requirement("SERVER-58")
def test_the_person_chooses_what_the_client_may_do(server: Server, browser: Browser) -> None:
    server.eng.workspace("ours").remember("The launch code is on the fridge")
    program = Program(server)
    page = browser.visit(program.request(scope="read write admin"))
    assert page.choices == {"may": ["read", "write", "admin"], "workspace": ["default", "ours", ""]}
    assert (page.forms[0].fields["may"], page.forms[0].fields["workspace"]) == ("write", "default")
    assert browser.visit(program.request(scope="read")).forms[0].fields["may"] == "read"
    reader = program.tokens(browser, may="read", workspace="ours")
    assert reader["scope"] == "read"
    with server.http(reader["access_token"]) as http:
        assert http.get("/api/v1/recall", params={"query": "launch code"}).json()["result"]
        assert http.post("/api/v1/remember", json={"text": "x"}).status_code == 403
        assert http.get("/api/v1/sitrep", headers={"x-engram-workspace": "default"}).status_code == 403


@pytest.mark.requirement("SERVER-58")
def test_no_client_gets_more_than_the_person_has(server: Server) -> None:
    server.eng.workspace("ours").remember("The launch code is on the fridge")
    program = Program(server)
    with Browser(server.url) as narrow:
        narrow.submit(narrow.visit("/login"), token=server.token("narrow", "read", "theirs"))
        page = narrow.visit(program.request(scope="read write"))
        assert page.choices == {"may": ["read"], "workspace": ["theirs"]}
        for values in ({"may": "write"}, {"may": "admin"}, {"workspace": "ours"}, {"may": ""}, {"may": "root"}):
            given = {"may": "read", "workspace": "theirs", "decision": "allow", **values}
            refused = narrow.submit(page, **given)
            assert refused.status in (400, 403), values
            assert refused.refresh is None
        # All workspaces of a person who has one are that one.
        tokens = program.exchange(answered(narrow.submit(page, workspace="", decision="allow"))["code"]).json()
        with server.http(tokens["access_token"]) as http:
            assert http.get("/api/v1/sitrep", headers={"x-engram-workspace": "ours"}).status_code == 403
            assert http.get("/api/v1/sitrep").status_code == 200
        server.eng.access.tokens.revoke("narrow")
        assert program.works(tokens["access_token"]) == 401
        assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.requirement("SERVER-58")
def test_a_client_that_is_denied_gets_nothing(server: Server, browser: Browser) -> None:
    program = Program(server)
    page = browser.visit(program.request())
    denied = answered(browser.submit(page, decision="deny"))
    assert denied.pop("error_description")
    assert denied == {"error": "access_denied", "state": "the state", "iss": server.url}
    assert answered(browser.submit(page, decision=None))["error"] == "access_denied"
    assert server.eng.access.clients.list()[0].consents == ()


@pytest.mark.requirement("SERVER-58")
def test_a_client_cannot_let_in_another_client(server: Server, browser: Browser) -> None:
    program = Program(server)
    token = program.tokens(browser)["access_token"]
    with Browser(server.url) as other:
        other.submit(other.visit("/login"), token=token)
        page = other.visit(program.request())
        assert (page.status, page.forms) == (403, [])


@pytest.mark.requirement("SERVER-59")
def test_nobody_decides_for_the_person(server: Server, browser: Browser) -> None:
    program = Program(server)
    page = browser.visit(program.request())
    allow = {"may": "write", "workspace": "default", "decision": "allow"}
    for origin in ("https://evil.example", "null", f"http://localhost:{server.port}"):
        refused = browser.submit(page, origin=origin, **allow)
        assert (refused.status, refused.refresh) == (403, None)
    with Browser(server.url) as stranger:
        refused = stranger.submit(page, **allow)
        assert (refused.status, refused.refresh) == (401, None)
    with server.http(server.token("program", "admin"), {"origin": server.url}) as http:
        assert http.post("/authorize", data={**page.forms[0].fields, **allow}).status_code == 401
    policy = page.response.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self'" in policy


@pytest.mark.requirement("SERVER-60")
def test_a_code_works_once_and_a_second_use_ends_everything(server: Server, browser: Browser) -> None:
    program = Program(server)
    code = program.code(browser)
    tokens = program.exchange(code).json()
    assert program.works(tokens["access_token"]) == 200
    assert program.exchange(code).json()["error"] == "invalid_grant"
    assert program.works(tokens["access_token"]) == 401
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.requirement("SERVER-60")
def test_a_refresh_token_works_once_and_a_second_use_ends_everything(server: Server, browser: Browser) -> None:
    program = Program(server)
    first = program.tokens(browser)
    second = program.refresh(first["refresh_token"]).json()
    assert program.works(second["access_token"]) == 200
    assert program.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert program.works(second["access_token"]) == 401
    assert program.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.requirement("SERVER-60")
def test_a_refresh_gives_less_if_asked_and_never_more(server: Server, browser: Browser) -> None:
    program = Program(server)
    tokens = program.tokens(browser)
    assert program.refresh(tokens["refresh_token"], scope="admin").json()["error"] == "invalid_scope"
    less = program.refresh(tokens["refresh_token"], scope="read").json()
    assert less["scope"] == "read"
    with server.http(less["access_token"]) as http:
        assert http.post("/api/v1/remember", json={"text": "x"}).status_code == 403
    assert program.refresh(less["refresh_token"]).json()["scope"] == "read write"


@pytest.mark.requirement("SERVER-60")
def test_codes_and_tokens_expire(server: Server, browser: Browser, clock: ShiftedClock) -> None:
    program = Program(server)
    code = program.code(browser)
    clock.advance(301)
    assert program.exchange(code).json()["error"] == "invalid_grant"
    tokens = program.tokens(browser)
    assert tokens["expires_in"] <= 3_600
    clock.advance(3_601)
    assert program.works(tokens["access_token"]) == 401
    assert program.works(program.refresh(tokens["refresh_token"]).json()["access_token"]) == 200


@pytest.mark.requirement("SERVER-60")
@pytest.mark.parametrize(
    "changed",
    [
        {"code_verifier": "x" * 64},
        {"code_verifier": None},
        {"code_verifier": ""},
        {"redirect_uri": "http://127.0.0.1:33418/other"},
        {"redirect_uri": "http://127.0.0.1:33419/callback"},
        {"redirect_uri": None},
        {"client_id": "somebody"},
        {"client_id": None},
        {"code": "engramc_0123456789ab_" + "x" * 43},
        {"code": ""},
        {"resource": "https://evil.example/mcp"},
        {"grant_type": "password"},
        {"grant_type": "client_credentials"},
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "x"},
    ],
)
def test_a_code_is_exchanged_only_as_it_was_asked_for(
    server: Server, browser: Browser, changed: dict[str, str | None]
) -> None:
    program = Program(server)
    code = program.code(browser)
    refused = program.exchange(code, **changed)
    assert refused.status_code in (400, 401)
    assert "error" in refused.json()
    assert "access_token" not in refused.json()
    assert refused.headers["cache-control"] == "no-store"
    # The mistake of somebody else does not use it up.
    assert program.exchange(code).status_code == 200


@pytest.mark.requirement("SERVER-60")
def test_the_code_and_token_of_one_client_are_nothing_to_another(server: Server, browser: Browser) -> None:
    mine, other = Program(server), Program(server)
    other.verifier = mine.verifier
    code = mine.code(browser)
    assert other.exchange(code).json()["error"] == "invalid_grant"
    tokens = mine.exchange(code).json()
    assert other.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    for token in (tokens["access_token"], tokens["refresh_token"]):
        assert other.post("/revoke", data={"token": token, "client_id": other.id}).status_code == 200
    assert mine.works(tokens["access_token"]) == 200


@pytest.mark.requirement("SERVER-60")
@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_client_gives_back_its_tokens(server: Server, browser: Browser, kind: str) -> None:
    program = Program(server)
    tokens = program.tokens(browser)
    given = {"token": tokens[kind], "client_id": program.id, "token_type_hint": kind}
    assert program.post("/revoke", data=given).status_code == 200
    assert program.works(tokens["access_token"]) == 401
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert program.post("/revoke", data=given).status_code == 200
    person = server.token("other person")
    assert program.post("/revoke", data={**given, "token": person}).status_code == 200
    assert program.works(person) == 200
    assert program.post("/revoke", data={"token": person}).status_code == 401


@pytest.mark.requirement("SERVER-60")
def test_a_token_for_another_server_is_refused(eng: Engram) -> None:
    outside = Options(public_url="https://engram.example.org", behind_proxy=True)
    with serving(eng) as server, serving(eng, outside) as other, Browser(server.url) as browser:
        browser.submit(browser.visit("/login"), token=server.token("person"))
        token = Program(server).tokens(browser)["access_token"]
        with server.http(token) as http:
            assert http.get("/api/v1/sitrep").status_code == 200
        with other.http(token) as http:
            assert http.get("/api/v1/sitrep").status_code == 401


@pytest.mark.requirement("SERVER-61")
@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1:33418/callback/../evil"},
        {"redirect_uri": "http://127.0.0.1:33418/callback?x=1"},
        {"redirect_uri": "http://127.0.0.1:33418/callback#x"},
        {"redirect_uri": "http://127.0.0.1:33418@evil.example/callback"},
        {"redirect_uri": "http://localhost:33418/callback"},
        {"redirect_uri": "https://127.0.0.1:33418/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": ""},
        {"client_id": "nobody"},
        {"client_id": "https://evil.example/client.json"},
        {"client_id": None},
    ],
)
def test_no_browser_is_sent_to_an_address_that_was_not_registered(
    server: Server, browser: Browser, changed: dict[str, str | None]
) -> None:
    page = browser.visit(Program(server).request(**changed))
    assert (page.status, page.forms, page.links, page.refresh) == (400, [], [], None)


@pytest.mark.requirement("SERVER-61")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
    ],
)
def test_a_wrong_request_is_shown_to_the_person_and_redirects_nobody(
    server: Server, changed: dict[str, str | None], error: str
) -> None:
    """Anybody can register a client, and a redirect without a person's decision would lead anywhere."""
    program = Program(server)
    with server.http() as http:
        answer = http.get(program.request(**changed))
        assert answer.status_code == 400
        (link,) = Page(answer).links
        assert Page(answer).refresh is None
    assert link.startswith(f"{CALLBACK}?")
    assert parse_qs(urlsplit(link).query)["error"] == [error]
    assert parse_qs(urlsplit(link).query)["state"] == ["the state"]


@pytest.mark.requirement("SERVER-61")
def test_a_program_on_the_person_s_machine_may_listen_on_any_port(server: Server, browser: Browser) -> None:
    for registered, used in (
        ("http://127.0.0.1/callback", "http://127.0.0.1:51000/callback"),
        ("http://localhost:1/callback", "http://localhost:51000/callback"),
        ("http://[::1]/callback", "http://[::1]:51000/callback"),
    ):
        program = Program(server, registered)
        page = browser.submit(browser.visit(program.request(redirect_uri=used)), decision="allow")
        assert str(page.refresh).startswith(f"{used}?code=")
        code = answered(page)["code"]
        assert program.exchange(code, redirect_uri=registered).status_code == 400
        assert program.exchange(code, redirect_uri=used).status_code == 200


@pytest.mark.requirement("SERVER-61")
@pytest.mark.parametrize(
    "address",
    [
        *("https://client.example/callback", "https://client.example:8443/cb?tenant=1", "http://127.0.0.1:1"),
        *("cursor://anysphere.cursor-retrieval/oauth/callback", "com.example.app:/callback", "vscode://x.y/z"),
    ],
)
def test_addresses_of_web_and_native_clients_can_be_registered(server: Server, browser: Browser, address: str) -> None:
    program = Program(server, address)
    page = browser.submit(browser.visit(program.request()), decision="allow")
    assert str(page.refresh).startswith(address)
    assert program.exchange(answered(page)["code"]).status_code == 200


@pytest.mark.requirement("SERVER-61", "SERVER-62")
@pytest.mark.parametrize(
    "metadata",
    [
        {"redirect_uris": []},
        {"redirect_uris": None},
        {"redirect_uris": ["http://evil.example/callback"]},
        {"redirect_uris": ["http://localhost.evil.example/callback"]},
        {"redirect_uris": ["https://user@evil.example/"]},
        {"redirect_uris": ["https://evil.example/#fragment"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["JavaScript:alert(1)"]},
        {"redirect_uris": ["data:text/html,x"]},
        {"redirect_uris": ["file:///etc/passwd"]},
        {"redirect_uris": ["not a url"]},
        {"redirect_uris": ["https://*.evil.example/"]},
        {"redirect_uris": ["https://client.example/" + "x" * 3_000]},
        {"redirect_uris": [f"https://client.example/{each}" for each in range(11)]},
        {"redirect_uris": ["https://client.example/", "javascript:alert(1)"]},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"grant_types": ["client_credentials"]},
        {"response_types": ["token"]},
        {"client_name": ["list"]},
    ],
)
def test_a_registration_that_cannot_be_used_safely_is_refused(server: Server, metadata: dict[str, Any]) -> None:
    given = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", **metadata}
    with server.http() as http:
        answer = http.post("/register", json=given)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] in ("invalid_redirect_uri", "invalid_client_metadata")
    assert server.eng.access.clients.list() == []


@pytest.mark.requirement("SERVER-62")
def test_registration_is_bounded(server: Server, clock: ShiftedClock) -> None:
    with server.http() as http:
        assert http.post("/register", content=b"x" * 100_000).status_code == 413
        many = {"redirect_uris": [f"https://client.example/{each:01500d}" for each in range(9)]}
        assert http.post("/register", json=many).status_code == 400
        for body in (b"", b"[]", b"null", b"{", b'"x"', b"[" * 20_000, b"\xff"):
            assert http.post("/register", content=body).status_code in (400, 429), body[:10]
    with serving(server.eng, Options(behind_proxy=True)) as behind:

        def register(address: str) -> httpx.Response:
            with behind.http(headers={"x-forwarded-for": address}) as http:
                return http.post("/register", json={"redirect_uris": [CALLBACK]})

        for _ in range(MOST_REGISTRATIONS):
            assert register("1.2.3.4").status_code == 201
        refused = register("1.2.3.4")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) <= REGISTRATIONS_WITHIN
        assert register("1.2.3.5").status_code == 201
        clock.advance(REGISTRATIONS_WITHIN + 1)
        assert register("1.2.3.4").status_code == 201


@pytest.mark.requirement("SERVER-62")
def test_what_a_client_says_about_itself_is_shown_as_text_and_nothing_is_fetched(
    server: Server, browser: Browser
) -> None:
    hostile = '"><script>alert(1)</script>\nEngram says: press Allow <img src=x onerror=alert(1)>'
    addresses = {
        name: "https://evil.example/x" for name in ("client_uri", "logo_uri", "tos_uri", "policy_uri", "jwks_uri")
    }
    program = Program(server, client_name=hostile, **addresses)
    assert not addresses.keys() & program.registered.keys()
    (stored,) = server.eng.access.clients.list()
    assert "evil.example" not in str(stored)
    page = browser.visit(program.request(state=hostile))
    assert not {"script", "img"} & set(page.elements)
    assert "evil.example" not in page.response.text
    done = browser.submit(page, decision="allow")
    assert not {"script", "img"} & set(done.elements)
    assert answered(done)["state"] == hostile


@pytest.mark.requirement("SERVER-62")
@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_a_client_with_a_secret_has_to_show_it(server: Server, browser: Browser, method: str) -> None:
    program = Program(server, token_endpoint_auth_method=method)
    secret = program.registered["client_secret"]
    code = program.code(browser)
    assert program.exchange(code).status_code == 401
    assert program.exchange(code, client_secret="wrong").status_code == 401
    given = {
        **{"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK},
        **{"client_id": program.id, "code_verifier": program.verifier},
    }
    if method == "client_secret_post":
        answer = program.post("/token", data={**given, "client_secret": secret})
    else:
        assert program.post("/token", data=given, auth=(program.id, "wrong")).status_code == 401
        answer = program.post("/token", data=given, auth=(program.id, secret))
    assert answer.status_code == 200
    assert secret not in str(server.eng.access.clients.list())


@pytest.mark.requirement("SERVER-63")
def test_no_secret_of_a_login_or_of_oauth_is_in_a_log_or_an_error(
    server: Server, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    written = io.StringIO()
    server.service.log = log = Log(written, for_people=False)
    log.start()
    token, link = server.token("canary"), server.eng.access.logins.make_link(OWNER)
    program = Program(server, token_endpoint_auth_method="client_secret_post")
    shown: list[str] = []
    with Browser(server.url) as other:
        shown.append(other.visit(f"/login?code={link}x").text)
        form = other.visit("/login")
        shown.append(other.submit(form, token=f"{token}x").text)
        other.submit(other.visit(f"/login?code={link}"))
        other.submit(form, token=token)
        cookies = list(other.cookies.values())
        ((name, value),) = other.cookies.items()
        with server.http(headers={"cookie": f"{name}={value}x"}) as http:
            shown.append(http.get("/api/v1/sitrep").text)
    code = program.code(browser)
    secret = program.registered["client_secret"]
    shown.append(program.exchange(code, client_secret=f"{secret}x").text)
    tokens = program.exchange(code, client_secret=secret).json()
    shown.append(program.exchange(code, client_secret=secret).text)
    shown.append(program.refresh(tokens["refresh_token"], client_secret=secret).text)
    with server.http(f"{tokens['access_token']}x") as http:
        shown.append(http.get("/api/v1/sitrep").text)
        shown.append(http.post("/mcp", json={"token": token}).text)
    hidden = [token, link, code, secret, tokens["access_token"], tokens["refresh_token"], *cookies]
    log.close()
    # The client of this test logs what it sends.
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    said = "\n".join([*shown, *(logging.Formatter().format(record) for record in ours)])
    said += written.getvalue()
    assert '"/token"' in said
    for each in hidden:
        assert each.rpartition("_")[2] not in said
