"""`engram token …`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engram import Engram as Store
from engram.access_records import OWNER
from engram.store_url import masked
from tests.interfaces.conftest import Engram, in_terminal

SECRET = re.compile(r"engram_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


def with_client(url: str, id: str = "client-1") -> None:
    """Let an OAuth client in."""
    with Store(url) as eng:
        eng.access.clients.register(id, {"client_name": "Editor"}, "s" * 64)
        code, _ = eng.access.consents.approve(eng.access.consents.ask(id, {}), OWNER, "write", workspace="team")
        eng.access.consents.exchange_code(id, code)


@pytest.mark.requirement("ACCESS-24", "CLI-1")
def test_a_token_is_shown_once(engram: Engram, store_url: str) -> None:
    made = engram("token", "create", "laptop")
    (secret,) = SECRET.findall(made.out)
    assert made.code == 0 and "Token laptop: scope write, all workspaces, until it is revoked." in made.out
    assert "It is shown only once." in made.out
    with Store(store_url) as eng:
        assert eng.access.tokens.verify(secret).name == "laptop"
    for shown in (engram("token", "list"), engram("token", "list", "--json"), engram("token", "revoke", "laptop")):
        assert shown.code == 0 and not SECRET.search(shown.out + shown.err)


@pytest.mark.requirement("ACCESS-24", "CLI-1")
def test_scope_workspace_and_expiry_are_options(engram: Engram, store_url: str) -> None:
    made = engram("token", "create", "ci", "--scope", "read", "--workspace", "team", "--expires", "30d", "--json").json
    assert SECRET.fullmatch(made["secret"]) and made["token"]["scope"] == "read"
    assert made["token"]["workspace"] == "team" and made["token"]["expires_at"] > made["token"]["created_at"]
    listed = engram("token", "list").out
    assert re.search(r"ci +[0-9a-f]{12} +token +read +team +just now +never +in 30d", listed)
    before = engram("--workspace", "home", "token", "create", "phone", "--json").json
    assert before["token"]["workspace"] == "home"


@pytest.mark.requirement("ACCESS-24", "CLI-1")
def test_the_configured_workspace_does_not_limit_a_token(engram: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_WORKSPACE", "team")
    assert engram("token", "create", "laptop", "--json").json["token"]["workspace"] is None
    assert engram("token", "list").code == 0, "a workspace without anything in it yet"


@pytest.mark.requirement("ACCESS-24", "CLI-1")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--expires", "0"],
        ["--expires", "-5"],
        ["--expires", "0d"],
        ["--expires", "soon"],
        ["--scope", "root"],
        ["--workspace", "No Such"],
    ],
)
def test_wrong_options_make_no_token(engram: Engram, arguments: list[str]) -> None:
    refused = engram("token", "create", "laptop", *arguments)
    assert refused.code == 2 and refused.out == "" and arguments[0].removeprefix("--") in refused.err
    assert "There are no tokens." in engram("token", "list").out


@pytest.mark.requirement("ACCESS-24", "CLI-1")
def test_a_name_that_is_taken_is_a_conflict_that_says_what_to_do(engram: Engram) -> None:
    engram("token", "create", "my laptop")
    refused = engram("token", "create", "my laptop")
    assert refused.code == 4 and "engram token revoke 'my laptop'" in refused.err
    assert engram("token", "create", "my laptop", "--json").json["error"]["code"] == "token_exists"


@pytest.mark.requirement("ACCESS-24", "CLI-1")
def test_a_token_is_revoked_by_name_or_id(engram: Engram) -> None:
    id = engram("token", "create", "phone", "--json").json["token"]["id"]
    engram("token", "create", "laptop")
    assert engram("token", "revoke", "laptop").out == "Revoked laptop.\n"
    assert engram("token", "revoke", id, "--json").json["token"]["name"] == "phone"
    again = engram("token", "revoke", "laptop")
    assert again.code == 3 and "engram token list" in again.err
    assert "laptop" not in engram("token", "list").out
    assert re.search(r"laptop .*revoked", engram("token", "list", "--ended").out)


@pytest.mark.requirement("ACCESS-25", "CLI-1")
def test_oauth_clients_are_listed_and_removed_like_tokens(engram: Engram, store_url: str) -> None:
    with_client(store_url)
    engram("token", "create", "Editor")
    with Store(store_url) as eng:
        eng.access.clients.register("client-2", {"client_name": "Waiting"})
    lines = engram("token", "list").out.splitlines()
    assert len(lines) == 4
    assert re.search(r"^Editor +[0-9a-f]{12} +token +write", lines[1])
    assert re.search(r"^Editor \(oauth\) +client-1 +OAuth client +write +team +just now +never +in 30d", lines[2])
    assert re.search(r"^Waiting +client-2 +OAuth client .*not let in", lines[3])
    listed = engram("token", "list", "--json").json
    assert [each["name"] for each in listed["tokens"]] == ["Editor"]
    assert listed["clients"][0]["consents"][0]["scope"] == "write"
    assert "hash" not in listed["clients"][0]
    removed = engram("token", "revoke", "Editor (oauth)")
    assert removed.out == "Removed the OAuth client Editor. Its tokens are revoked.\n"
    assert engram("token", "revoke", "client-2", "--json").json == {"client": {"id": "client-2", "name": "Waiting"}}
    assert [each["name"] for each in engram("token", "list", "--json").json["tokens"]] == ["Editor"]
    assert engram("token", "revoke", "client-2").code == 3


@pytest.mark.requirement("ACCESS-25", "CLI-1")
def test_of_two_clients_with_one_name_the_id_decides(engram: Engram, store_url: str) -> None:
    for id in ("client-1", "client-2"):
        with_client(store_url, id)
    refused = engram("token", "revoke", "Editor")
    assert refused.code == 2 and "client-1, client-2" in refused.err
    assert engram("token", "revoke", "client-2").code == 0
    assert engram("token", "revoke", "Editor").code == 0


@pytest.mark.requirement("ACCESS-24")
def test_on_a_terminal_the_secret_is_whole(tmp_path: Path) -> None:
    code, shown = in_terminal(
        "token", "create", "laptop", environment={"ENGRAM_DATA_DIR": str(tmp_path), "COLUMNS": "40"}
    )
    assert code == 0 and SECRET.search(shown)


@pytest.mark.requirement("ACCESS-24")
def test_a_new_token_names_its_store_and_says_that_nothing_is_in_its_workspace(engram: Engram, store_url: str) -> None:
    made = engram("token", "create", "laptop", "--workspace", "tema")
    assert f"It is for the store {masked(store_url)}." in made.out
    assert made.err == "Nothing is in workspace tema yet. The first write to it makes it.\n"
    quiet = engram("token", "create", "phone", "--workspace", "tema", "--json")
    assert quiet.err == "" and set(quiet.json) == {"token", "secret"}
    engram("remember", "x", "--workspace", "tema")
    assert engram("token", "create", "ci", "--workspace", "tema").err == ""
    assert engram("token", "create", "home").err == ""
