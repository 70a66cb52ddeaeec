"""Logging in and out with a browser, and what other sites cannot make it do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote_plus

import httpx
import pytest

from engram import Engram
from engram.access_records import OWNER
from engram.interfaces.http.browser import ATTEMPTS_WITHIN, MOST_ATTEMPTS
from engram.interfaces.http.options import Options
from tests.conftest import ShiftedClock

from ._browser import Browser
from ._server import Server, serving

EVIL = "https://evil.example"


@pytest.fixture
def server(sqlite_url: str, clock: ShiftedClock) -> Iterator[Server]:
    """On one engine: the store's own tests run on both."""
    with Engram(sqlite_url, clock=clock) as eng, serving(eng) as server:
        yield server


@pytest.fixture
def browser(server: Server) -> Iterator[Browser]:
    with Browser(server.url) as browser:
        yield browser


@pytest.mark.requirement("SERVER-51")
def test_a_person_logs_in_with_a_token_and_out_again(server: Server, browser: Browser) -> None:
    first = browser.visit("/")
    assert first.status == 401
    assert "You are not logged in" in first.text
    form = browser.follow_refresh(first)
    assert form.status == 200
    # Who sits at the server's machine needs no token.
    assert -1 < form.text.find("engram open") < form.text.find("engram token create NAME")
    home = browser.submit(form, token=server.token("laptop"))
    assert (home.status, home.url) == (200, f"{server.url}/w/default/")
    assert "laptop" in home.text
    assert browser.visit("/login").url == home.url
    (secret,) = browser.cookies.values()
    out = browser.post("/logout", {})
    assert out.url == f"{server.url}/login"
    assert browser.cookies == {}
    assert browser.visit("/").status == 401
    with server.http(headers={"cookie": f"engram-{server.port}={secret}"}) as http:
        assert http.get("/api/v1/sitrep").status_code == 401


@pytest.mark.requirement("SERVER-51")
def test_a_link_logs_in_once_and_looking_at_it_does_not_use_it_up(server: Server, browser: Browser) -> None:
    code = server.eng.access.logins.make_link(OWNER)
    for _ in range(3):
        page = browser.visit(f"/login?code={code}", site="cross-site")
        assert page.status == 200
    assert browser.cookies == {}
    home = browser.submit(page)
    assert "this machine's user" in home.text
    with Browser(server.url) as other:
        again = other.submit(other.visit(f"/login?code={code}"))
        assert again.status == 401
        assert "was used already" in again.text
        assert other.cookies == {}


@pytest.mark.requirement("SERVER-51")
def test_a_link_and_a_login_expire(server: Server, browser: Browser, clock: ShiftedClock) -> None:
    code = server.eng.access.logins.make_link(OWNER)
    page = browser.visit(f"/login?code={code}")
    clock.advance(601)
    late = browser.submit(page)
    assert (late.status, "has expired" in late.text) == (401, True)
    browser.submit(browser.visit("/login"), token=server.token("laptop"))
    assert browser.visit("/").status == 200
    clock.advance(8 * 86_400)
    assert browser.visit("/").status == 401


@pytest.mark.requirement("SERVER-51")
def test_a_login_ends_with_its_token(server: Server, browser: Browser) -> None:
    browser.submit(browser.visit("/login"), token=server.token("laptop"))
    server.eng.access.tokens.revoke("laptop")
    assert browser.visit("/").status == 401


@pytest.mark.requirement("SERVER-52")
def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(server: Server) -> None:
    form = {"token": server.token("laptop")}
    with server.http(headers={"origin": server.url}) as http:
        cookie = http.post("/login", data=form).headers["set-cookie"]
    assert cookie.startswith(f"engram-{server.port}=engrams_")
    assert set(cookie.split("; ")[1:]) == {"Path=/", "Max-Age=604800", "HttpOnly", "SameSite=Strict"}


@pytest.mark.requirement("SERVER-52")
def test_over_https_the_cookie_is_bound_to_the_host(eng: Engram) -> None:
    options = Options(public_url="https://engram.example.org", behind_proxy=True)
    headers = {"host": "engram.example.org", "origin": "https://engram.example.org"}
    with serving(eng, options) as server, server.http(headers=headers) as http:
        cookie = http.post("/login", data={"token": server.token("laptop")}).headers["set-cookie"]
        assert cookie.startswith("__Host-engram=")
        assert "; Secure" in cookie
        assert "Domain" not in cookie
        # The name without the prefix is not believed: another host of the domain could have set it.
        secret = cookie.partition("=")[2].partition(";")[0]
        for name, status in (("__Host-engram", 200), ("engram", 401), (f"engram-{server.port}", 401)):
            assert http.get("/api/v1/sitrep", headers={"cookie": f"{name}={secret}"}).status_code == status


@pytest.mark.requirement("SERVER-53")
def test_the_login_works_for_the_api_but_not_for_another_site(server: Server, browser: Browser) -> None:
    browser.submit(browser.visit("/login"), token=server.token("laptop"))
    ((name, secret),) = browser.cookies.items()
    cookie = {"cookie": f"{name}={secret}"}
    with server.http(headers=cookie) as http:
        assert http.get("/api/v1/sitrep").status_code == 200

        def write(**headers: str) -> int:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            text = {"text": "Deploys never happen on Fridays"}
            return http.post("/api/v1/remember", headers=given, json=text).status_code

        assert write(origin=server.url) == 200
        assert write(sec_fetch_site="same-origin") == 200
        refused: tuple[dict[str, str], ...] = (
            {},
            {"origin": EVIL},
            {"origin": "null"},
            {"origin": f"http://localhost:{server.port}"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"sec-fetch-site": "none"},
        )
        for headers in refused:
            assert write(**headers) == 403, headers
            assert http.post("/logout", headers=headers).status_code == 403, headers
            assert http.post("/mcp", headers=headers, json={}).status_code == 403, headers
        # A token in the header is not sent by a browser on its own.
        assert write(authorization=f"Bearer {server.token('program')}") == 200
    assert len(server.eng.memories.list()) == 1


@pytest.mark.requirement("SERVER-53")
@pytest.mark.parametrize("origin", [EVIL, "null", "http://localhost:1"])
def test_another_site_cannot_log_somebody_in(server: Server, browser: Browser, origin: str) -> None:
    answer = browser.post("/login", {"token": server.token("attacker")}, origin=origin)
    assert answer.status == 403
    with server.http() as http:
        assert http.post("/login", data={"token": "x"}).status_code == 403
    assert browser.cookies == {}


@pytest.mark.requirement("SERVER-54")
def test_wrong_logins_are_limited_for_each_address(eng: Engram, clock: ShiftedClock) -> None:
    token = eng.access.tokens.create("laptop", "write").secret
    with serving(eng, Options(behind_proxy=True)) as server:
        headers = {"origin": server.url}

        def log_in(address: str, given: str) -> httpx.Response:
            with server.http(headers={**headers, "x-forwarded-for": f"6.6.6.6, {address}"}) as http:
                return http.post("/login", data={"token": given})

        for _ in range(MOST_ATTEMPTS):
            assert log_in("1.2.3.4", "engram_0123456789ab_" + "x" * 43).status_code == 401
        for given in ("wrong", token):
            refused = log_in("1.2.3.4", given)
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= ATTEMPTS_WITHIN
        assert log_in("1.2.3.5", token).status_code == 303
        clock.advance(ATTEMPTS_WITHIN + 1)
        assert log_in("1.2.3.4", token).status_code == 303


@pytest.mark.requirement("SERVER-54")
def test_logins_that_succeed_are_not_limited(server: Server, browser: Browser) -> None:
    token = server.token("laptop")
    form = browser.visit("/login")
    for _ in range(MOST_ATTEMPTS + 5):
        assert browser.submit(form, token=token).status == 200


@pytest.mark.requirement("SERVER-55")
@pytest.mark.parametrize(
    "wanted",
    [
        *("https://evil.example", "//evil.example", "/\\evil.example", "/login", "/logout", "javascript:alert(1)"),
        *("/authorize", "/authorizeX?a", "https://evil.example/authorize?x", "/authorize/../evil", " /authorize?x"),
        *("/w", "//w/default/", "/w/\\evil.example", "/w/a\r\nset-cookie: a=b", "/w/\u00e9", " /w/default/"),
    ],
)
def test_the_login_leads_nowhere_else(server: Server, browser: Browser, wanted: str) -> None:
    page = browser.visit(httpx.URL("/login", params={"next": wanted}).raw_path.decode())
    assert page.forms[0].fields["next"] == "/"
    assert browser.submit(page, token=server.token("laptop"), next=wanted).url == f"{server.url}/w/default/"


@pytest.mark.requirement("SERVER-55")
def test_the_login_leads_to_the_page_that_was_asked_for(server: Server, browser: Browser) -> None:
    wanted = "/w/default/search?q=caf%C3%A9+%26+tea"
    with server.http(headers={"accept": "text/html"}) as http:
        refused = http.get(wanted)
    assert refused.status_code == 401
    login = f"/login?next={quote_plus(wanted)}"
    assert f"url={login}" in unescape(refused.text)
    page = browser.visit(login)
    assert "This page needs a login" in page.text
    assert browser.submit(page, token=server.token("laptop")).url == f"{server.url}{wanted}"
    # Another site led here, and the browser has left the cookie out.
    assert browser.visit(login).url == f"{server.url}{wanted}"


@pytest.mark.requirement("SERVER-55")
def test_pages_have_no_inline_script_or_style_and_show_text_as_text(server: Server, browser: Browser) -> None:
    hostile = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    pages = [browser.visit("/"), browser.visit("/login"), browser.visit("/login", site="cross-site")]
    pages.append(browser.visit(httpx.URL("/login", params={"code": hostile, "next": hostile}).raw_path.decode()))
    pages.append(browser.submit(browser.visit("/login"), token=hostile))
    name = "laptop <b>&amp;</b>"
    pages.append(browser.submit(browser.visit("/login"), token=server.token(name)))
    assert name in pages[-1].text
    for page in pages:
        # Only the dashboard has scripts, in files.
        unwanted = {"style", "img", "b", *(() if page is pages[-1] else ("script",))}
        assert not unwanted & set(page.elements)
        assert not [name for name in page.attributes if name == "style" or name.startswith("on")]
        assert page.response.headers["cache-control"] == "no-store"
        assert re.fullmatch(r"text/html; charset=utf-8", page.response.headers["content-type"])
    with server.http() as http:
        style = http.get("/static/base.css")
        assert style.headers["content-type"] == "text/css; charset=utf-8"
        for path in (
            "/static/",
            "/static/%2e%2e/app.py",
            "/static/..%2fapp.py",
            "/static/base.css/",
            "/static/app.py",
        ):
            assert http.get(path).status_code == 404, path


@pytest.mark.requirement("SERVER-55")
def test_a_form_that_no_page_sends_is_refused(server: Server) -> None:
    with server.http(headers={"origin": server.url}) as http:
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert http.post("/login", headers=form, content=b"token=" + b"x" * 20_000).status_code == 400
        assert http.post("/login", headers=form, content=b"token=a&token=b").status_code == 400
        assert http.post("/login", headers=form, content=b"\xff\xfe").status_code == 400
        assert http.post("/login", headers=form, content=b"&".join(b"a%d=1" % n for n in range(100))).status_code == 400
        assert http.post("/login", headers=form, content=b"").status_code == 401
        assert http.put("/login").status_code == 405
