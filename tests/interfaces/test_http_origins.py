"""Requests that are not for this server, or that pages of other sites make, and the headers of every answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from engram import Engram, InvalidInput
from engram.interfaces.http.origins import Places, client_address, places, public_origin

from ._server import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Engram(tmp_path_factory.mktemp("store") / "engram.db") as eng, serving(eng) as server:
        yield server


def raw(server: Server, text: str) -> tuple[int, str]:
    """Send bytes as they are; the status and the whole answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode("latin-1"))
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    shown = answer.decode()
    return int(shown.split(" ", 2)[1]), shown


def ask(server: Server, *headers: str, target: str = "/health", method: str = "GET") -> int:
    lines = "".join(f"{header}\n" for header in headers).replace("PORT", str(server.port))
    return raw(server, f"{method} {target} HTTP/1.1\n{lines}connection: close\n\n")[0]


@pytest.mark.requirement("SERVER-40")
@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT", "LocalHost:PORT"])
def test_the_server_answers_to_its_own_names(server: Server, host: str) -> None:
    assert ask(server, f"host: {host}") == 200


@pytest.mark.requirement("SERVER-40")
@pytest.mark.parametrize("path", ["/health", "/mcp", "/api/v1/sitrep", "/login", "/token", "/nothing"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:PORT",
        "EVIL.COM:PORT",
        "localhost.evil.com:PORT",
        "127.0.0.1.evil.com:PORT",
        "localhost@evil.com:PORT",
        "evil.com@localhost:PORT",
        "localhost",
        "localhost:80",
        "localhost:PORT:PORT",
        "localhost:0PORT",
        "localhost.:PORT",
        "127.0.0.1",
        "127.0.0.1.:PORT",
        "127.1:PORT",
        "127.0.0.2:PORT",
        "2130706433:PORT",
        "0x7f.0.0.1:PORT",
        "0.0.0.0:PORT",
        "[::]:PORT",
        "[::1]",
        "[::1%25lo]:PORT",
        "[0:0:0:0:0:0:0:1]:PORT",
        "[::ffff:127.0.0.1]:PORT",
        "::1",
        "localhost:PORT, evil.com",
        "http://localhost:PORT",
        "localhost:PORT/",
        "localhost :PORT",
    ],
)
def test_another_host_name_is_misdirected(server: Server, host: str, path: str) -> None:
    assert ask(server, f"host: {host}", target=path) == 421


@pytest.mark.requirement("SERVER-40")
def test_an_empty_a_missing_and_a_doubled_host_are_refused(server: Server) -> None:
    assert ask(server, "host:") in (400, 421)
    assert ask(server, "accept: */*") == 400
    assert ask(server, "host: localhost:PORT", "host: evil.com") == 400
    assert ask(server, "host: localhost:PORT", "host: localhost:PORT") == 400


@pytest.mark.requirement("SERVER-40")
def test_a_target_with_another_host_does_not_help(server: Server) -> None:
    assert ask(server, "host: evil.com", target="http://evil.com/health") == 421
    assert ask(server, f"host: evil.com:{server.port}", target=f"http://localhost:{server.port}/health") == 421


@pytest.mark.requirement("SERVER-41")
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.com",
        "https://127.0.0.1:PORT",
        "http://127.0.0.1",
        "http://127.0.0.1:80",
        "http://localhost:PORT.evil.com",
        "http://localhost.evil.com:PORT",
        "http://evil.com@localhost:PORT",
        "http://localhost:PORT/",
        "HTTP://LOCALHOST:PORT",
        "http://localhost.:PORT",
        "http://[::]:PORT",
        "localhost:PORT",
        "file://",
        "chrome-extension://abcdefghijklmnop",
        "http://localhost:PORT http://evil.com",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/health", "/mcp", "/login", "/register", "/api/v1/sitrep"])
def test_a_page_of_another_origin_is_refused(server: Server, origin: str, path: str) -> None:
    assert ask(server, "host: 127.0.0.1:PORT", f"origin: {origin}", target=path) == 403


@pytest.mark.requirement("SERVER-41")
def test_pages_of_the_server_and_programs_are_let_through(server: Server) -> None:
    for origin in ("http://127.0.0.1:PORT", "http://localhost:PORT", "http://[::1]:PORT"):
        assert ask(server, "host: 127.0.0.1:PORT", f"origin: {origin}") == 200
    assert ask(server, "host: 127.0.0.1:PORT") == 200
    two = ("origin: http://127.0.0.1:PORT", "origin: http://127.0.0.1:PORT")
    assert ask(server, "host: 127.0.0.1:PORT", *two) == 403


@pytest.mark.requirement("SERVER-40", "SERVER-41")
def test_a_websocket_is_checked_too(server: Server) -> None:
    upgrade = ("upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
    assert ask(server, "host: evil.com", *upgrade) == 421
    assert ask(server, "host: 127.0.0.1:PORT", "origin: http://evil.com", *upgrade) == 403


@pytest.mark.requirement("SERVER-42")
@pytest.mark.parametrize("path", ["/health", "/login", "/static/base.css", "/mcp", "/", "/nothing", "/api/v1/sitrep"])
def test_every_answer_has_the_security_headers(server: Server, path: str) -> None:
    with server.http() as http:
        headers = http.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] in ("no-referrer", "same-origin")
    assert "cache-control" in headers
    assert "strict-transport-security" not in headers
    refused = raw(server, f"GET {path} HTTP/1.1\nhost: evil.com\nconnection: close\n\n")[1].lower()
    assert "content-security-policy: default-src 'none'" in refused
    assert "cache-control: no-store" in refused


@pytest.mark.requirement("SERVER-42")
def test_over_https_a_browser_learns_to_use_nothing_else(eng: Engram) -> None:
    from engram.interfaces.http.options import Options

    with (
        serving(eng, Options(public_url="https://engram.example.org", behind_proxy=True)) as server,
        server.http() as http,
    ):
        outside = http.get("/health", headers={"host": "engram.example.org"})
        assert outside.headers["strict-transport-security"].startswith("max-age=")
        assert http.get("/health", headers={"host": "engram.example.org:443"}).status_code == 200
        assert http.get("/health", headers={"host": "engram.example.org:80"}).status_code == 421
        assert "strict-transport-security" not in http.get("/health").headers


def host_of(*values: str) -> dict[str, list[tuple[bytes, bytes]]]:
    return {"headers": [(b"host", value.encode()) for value in values]}


@pytest.mark.requirement("SERVER-40")
def test_the_public_url_and_the_address_of_the_socket_are_the_names_of_the_server() -> None:
    behind = places("0.0.0.0", 8377, public_url="https://engram.example.org/")
    assert behind.bases() == {"https://engram.example.org"}
    assert behind.refusal(host_of("engram.example.org")) is None
    assert behind.refusal(host_of("0.0.0.0:8377")) is not None
    assert behind.refusal(host_of("127.0.0.1:8377")) is not None
    direct = places("192.168.1.5", 443, tls=True)
    assert direct.bases() == {"https://192.168.1.5"}
    assert direct.refusal(host_of("192.168.1.5:443")) is None
    both = places("127.0.0.1", 80, public_url="https://engram.example.org:8443")
    assert both.refusal(host_of("localhost")) is None
    assert both.refusal(host_of("localhost:80")) is None
    assert both.refusal(host_of("engram.example.org:8443")) is None
    assert both.refusal(host_of("engram.example.org")) is not None
    assert both.base(host_of("localhost")) == "https://engram.example.org:8443"
    with pytest.raises(InvalidInput, match="public URL"):
        places("0.0.0.0", 8377)


@pytest.mark.requirement("SERVER-40")
@pytest.mark.parametrize(
    "url",
    [
        *("", "engram.example.org", "ftp://engram.example.org", "http://engram.example.org", "https://"),
        *("https://a.example/engram", "https://a.example/?x=1", "https://a.example/#x", "https://me@a.example"),
        *("https://a.example:port", "https://a.example:70000", "https://a b.example", "https://ä.example"),
        *("https://a.example?", "https://[::1", "https://[evil]", "https://a.example;b"),
    ],
)
def test_a_public_url_is_an_address_and_nothing_more(url: str) -> None:
    with pytest.raises(InvalidInput, match="public URL"):
        public_origin(url)


@pytest.mark.requirement("SERVER-40")
def test_a_public_url_becomes_what_a_browser_writes() -> None:
    assert public_origin("https://Engram.Example.org:443/") == "https://engram.example.org"
    assert public_origin("http://[::1]:8377") == "http://[::1]:8377"
    assert Places([public_origin("http://localhost:80")]).refusal(host_of("localhost:80")) is None


@pytest.mark.requirement("SERVER-43")
def test_limits_go_by_the_address_that_the_client_cannot_choose() -> None:
    def seen(client: str | None, *forwarded: str, behind_proxy: bool) -> str:
        headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
        scope = {"client": (client, 1) if client else None, "headers": headers}
        return client_address(scope, behind_proxy=behind_proxy)

    assert seen("10.0.0.9", "1.2.3.4", behind_proxy=False) == "10.0.0.9"
    assert seen("10.0.0.9", "6.6.6.6, 1.2.3.4", behind_proxy=True) == "1.2.3.4"
    assert seen("10.0.0.9", "6.6.6.6", "7.7.7.7, 1.2.3.4", behind_proxy=True) == "1.2.3.4"
    assert seen("10.0.0.9", behind_proxy=True) == "10.0.0.9"
    one, other = (seen(f"2001:db8:1:2::{last}", behind_proxy=False) for last in ("1", "ffff"))
    assert one == other == "2001:db8:1:2::/64"
    assert seen("::ffff:1.2.3.4", behind_proxy=False) == "1.2.3.4"
    assert seen(None, behind_proxy=False) == "local"
