"""The one request of a hook: what is sent, what counts as an answer, and how long it takes."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from engram.remote import once
from engram.remote.once import Disconnected, Unanswered, post
from engram.server_url import Server, servers
from tests.interfaces._raw_server import (
    Behave,
    RawServer,
    answer,
    raw_server,
    read_request,
    saying,
    saying_forever,
    wait_for_end,
)

#: Seconds. Far more than an exchange on loopback takes, for a machine that is busy.
PATIENT = 20.0


def ask(server: RawServer, within: float = PATIENT, body: bytes = b"{}") -> once.Answer:
    (known,) = servers(server.url)
    deadline = time.monotonic() + within
    return post(known, "/path", {"X-Some": "value"}, body, deadline=deadline, reach_by=deadline)


@pytest.mark.requirement("REMOTE-34")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_request_is_one_of_http_1_0_that_closes(host: str) -> None:
    with raw_server(saying(answer(b'{"a":1}')), host) as server:
        assert ask(server, body=b"x" * 300_000) == (200, b'{"a":1}')
    head, _, body = server.received[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST /path HTTP/1.0"
    authority = f"[::1]:{server.port}" if host == "::1" else f"127.0.0.1:{server.port}"
    assert {f"Host: {authority}", "Connection: close", "Content-Length: 300000", "X-Some: value"} <= set(lines)
    assert body == b"x" * 300_000


@pytest.mark.requirement("REMOTE-34")
@pytest.mark.parametrize(
    "sent",
    [
        answer(b"{}"),
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200\r\nServer: x\r\ncontent-LENGTH:2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n\r\n{}",
    ],
)
def test_an_answer_has_a_length_or_ends_with_the_connection(sent: bytes) -> None:
    with raw_server(saying(sent)) as server:
        assert ask(server) == (200, b"{}")


def test_an_answer_with_a_length_does_not_wait_for_the_end_of_the_connection() -> None:
    with raw_server(saying(answer(b"{}"), then_wait=True)) as server:
        assert ask(server) == (200, b"{}")


HOSTILE: dict[str, Behave] = {
    "another protocol": saying(b"\x16\x03\x01" + b"\0" * 200),
    "another version": saying(b"HTTP/2 200 OK\r\n\r\n"),
    "no status": saying(b"HTTP/1.1 two hundred\r\n\r\n"),
    "a long status": saying(b"HTTP/1.1 2000 OK\r\n\r\n"),
    "half of the headers": saying(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "a header without a colon": saying(b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"),
    "a header with a blank": saying(b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}"),
    "a folded header": saying(b"HTTP/1.1 200 OK\r\nX: a\r\n b: c\r\n\r\n"),
    "two lengths": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"),
    "a negative length": saying(b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}"),
    "no number": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\n{}"),
    "chunks": saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    "compressed": saying(answer(b"{}", "200 OK", "Content-Encoding: gzip")),
    "less than announced": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{}"),
    "more than announced": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}{}"),
    "a huge length": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}", then_wait=True),
    "headers without an end": saying_forever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "a line without an end": saying_forever(b"", b"HTTP/1.1 200 OK"),
    "a body without an end": saying_forever(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000),
}


@pytest.mark.requirement("REMOTE-34")
@pytest.mark.parametrize("behave", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_answer_is_refused_and_nothing_of_it_is_told(behave: Behave) -> None:
    with raw_server(behave) as server, pytest.raises(Unanswered) as refused:
        ask(server)
    assert not isinstance(refused.value, Disconnected)
    assert "{}" not in str(refused.value) and "nonsense" not in str(refused.value)


@pytest.mark.requirement("REMOTE-34")
def test_a_redirect_is_an_answer_like_any_other_and_is_not_followed() -> None:
    with raw_server(saying(answer(b"{}"))) as elsewhere:
        moved = answer(b"", "302 Found", f"Location: {elsewhere.url}/path")
        with raw_server(saying(moved)) as server:
            assert ask(server) == (302, b"")
    assert elsewhere.received == []


@pytest.mark.requirement("REMOTE-34")
@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"])
def test_a_server_that_does_not_go_on_is_left_at_the_deadline(said: bytes) -> None:
    with raw_server(saying(said, then_wait=True)) as server, pytest.raises(Unanswered, match="in time"):
        ask(server, within=0.2)


@pytest.mark.requirement("REMOTE-34")
def test_a_connection_that_ends_before_an_answer_is_told_apart() -> None:
    with raw_server(lambda connection, request: None) as server, pytest.raises(Disconnected):
        ask(server)
    with pytest.raises(Disconnected, match="cannot be reached"):
        ask(server)


@pytest.mark.requirement("REMOTE-34")
def test_an_answer_that_comes_before_the_request_was_read_is_taken() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    known = Server("127.0.0.1", listener.getsockname()[1], False)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(100)
            connection.sendall(answer(b"{}", "413 Too Large"))
            connection.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                wait_for_end(connection, b"")

    thread = threading.Thread(target=serve)
    thread.start()
    deadline = time.monotonic() + PATIENT
    found = post(known, "/path", {}, b"x" * 3_000_000, deadline=deadline, reach_by=deadline)
    thread.join()
    listener.close()
    assert found.status == 413


@pytest.mark.requirement("REMOTE-34")
def test_a_name_that_is_not_known_or_takes_too_long_to_look_up_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = time.monotonic() + PATIENT
    unknown = Server("no-such-host.invalid", 1, False)
    with pytest.raises(Disconnected, match="not known"):
        post(unknown, "/path", {}, b"", deadline=deadline, reach_by=deadline)
    ends = threading.Event()
    monkeypatch.setattr(once, "_looked_up", lambda server: [ends.wait()])
    reach_by = time.monotonic() + 0.1
    with pytest.raises(Disconnected, match="takes too long"):
        post(unknown, "/path", {}, b"", deadline=deadline, reach_by=reach_by)
    ends.set()


@pytest.mark.requirement("REMOTE-34")
def test_a_name_of_this_machine_is_looked_up() -> None:
    with raw_server(saying(answer(b"{}"))) as server:
        deadline = time.monotonic() + PATIENT
        known = Server("localhost", server.port, False)
        assert post(known, "/path", {}, b"{}", deadline=deadline, reach_by=deadline).status == 200


@pytest.mark.requirement("REMOTE-34")
def test_a_header_of_several_lines_is_never_sent() -> None:
    with raw_server(saying(answer(b"{}"))) as server:
        deadline = time.monotonic() + PATIENT
        with pytest.raises(ValueError, match="more than one line"):
            post(servers(server.url)[0], "/", {"X": "a\r\nY: b"}, b"", deadline=deadline, reach_by=deadline)


def certificate(folder: Path, name: str) -> Path:
    """A certificate that signs itself, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    known = x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([known]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return file


def encrypting(file: Path, received: list[bytes]) -> Callable[[socket.socket, bytes], None]:
    """A server with this certificate that answers one request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    def serve(plain: socket.socket, _: bytes) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            received.append(read_request(connection))
            connection.sendall(answer(b"{}"))

    return serve


@pytest.mark.requirement("REMOTE-34")
@pytest.mark.parametrize(
    ("certified", "is_known", "problem"),
    [
        ("127.0.0.1", True, ""),
        ("127.0.0.1", False, "certificate is not valid: .* set SSL_CERT_FILE to the file with that authority's"),
        ("elsewhere.example", True, r"certificate is not valid: [^.]*'?127\.0\.0\.1'?\.$"),
    ],
)
def test_over_https_the_certificate_and_the_name_are_verified(
    certified: str, is_known: bool, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path, certified)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    received: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    serve = encrypting(file, received)

    def accept() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            serve(connection, b"")

    thread = threading.Thread(target=accept)
    thread.start()
    deadline = time.monotonic() + PATIENT
    known = Server("127.0.0.1", listener.getsockname()[1], True)
    try:
        if problem:
            with pytest.raises(Unanswered, match=problem):
                post(known, "/path", {"Authorization": "Bearer x"}, b"{}", deadline=deadline, reach_by=deadline)
        else:
            found = post(known, "/path", {"Authorization": "Bearer x"}, b"{}", deadline=deadline, reach_by=deadline)
            assert found == (200, b"{}")
    finally:
        thread.join()
        listener.close()
    assert len(received) == (0 if problem else 1)
