from __future__ import annotations

import pytest

from engram import InvalidInput, InvalidURL
from engram.config import load
from engram.server_url import Server, servers


@pytest.mark.requirement("REMOTE-1")
@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("https://engram.example.org", "https://engram.example.org:443"),
        ("https://engram.example.org:8377/", "https://engram.example.org:8377"),
        ("https://A.example.org:1,b.example.org:2", "https://a.example.org:1,b.example.org:2"),
        ("http://localhost", "http://localhost:8377"),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_the_url_of_a_server_has_one_form(given: str, normal: str) -> None:
    assert load(url=given).url == normal
    assert load(url=given).is_remote


@pytest.mark.requirement("REMOTE-1")
@pytest.mark.parametrize(
    "given",
    [
        *("https://", "https:///", "https://a/path", "https://a?b", "https://a#b", "https://a b", "https://a\\b"),
        *("https://a:0", "https://a:65536", "https://a:port", "https://::1", "https://[::1", "https://[::1]8"),
        *("https://a,,b", "https://ä.example.org"),
    ],
)
def test_what_is_no_server_is_invalid_and_says_what_one_looks_like(given: str) -> None:
    with pytest.raises(InvalidURL, match="https://host"):
        load(url=given)


@pytest.mark.requirement("REMOTE-1")
@pytest.mark.parametrize("host", ["engram.example.org", "10.0.0.1", "127.0.0.1.example.org", "localhost.example.org"])
def test_plain_http_is_only_for_this_machine(host: str) -> None:
    with pytest.raises(InvalidURL, match="not encrypted"):
        load(url=f"http://{host}:8377")


@pytest.mark.requirement("REMOTE-1")
def test_a_password_in_the_url_of_a_server_is_refused_and_not_quoted() -> None:
    with pytest.raises(InvalidURL) as refused:
        load(url="https://me:hunter2canary@engram.example.org")
    assert "canary" not in str(refused.value)


def test_an_address_in_version_six_has_brackets_in_a_header() -> None:
    assert servers("https://[2001:db8::1]:8377") == [Server("2001:db8::1", 8377, True)]
    assert servers("https://[2001:db8::1]:8377")[0].authority == "[2001:db8::1]:8377"


@pytest.mark.requirement("REMOTE-2")
@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_token_is_an_error_and_not_an_absent_one(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    monkeypatch.setenv("ENGRAM_TOKEN", blank)
    with pytest.raises(InvalidInput, match="ENGRAM_TOKEN is blank"):
        load()


@pytest.mark.requirement("REMOTE-2")
def test_settings_shown_in_a_log_have_no_token_and_no_password() -> None:
    settings = load(url="postgresql://me:canary1@db/x", token="engram_canary2", llm_base_url="http://u:canary3@h/v1")
    for shown in (repr(settings), str(settings), f"{settings}"):
        assert "canary" not in shown
    with pytest.raises(InvalidInput) as refused:
        load(token="canary 4")
    assert "canary" not in str(refused.value)
