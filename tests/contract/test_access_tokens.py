"""Access tokens: who may do what, for how long, and what is stored of a secret."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engram import Engram, Forbidden, InvalidInput, TokenExists, TokenNotFound, Unauthorized
from engram.access import permission, secret_texts
from engram.access_records import OWNER, SCOPES, Grant
from tests._tables import dump, values
from tests.conftest import KEY_FILE, ShiftedClock


@pytest.mark.requirement("ACCESS-1")
def test_a_token_gives_its_name_scope_workspace_and_expiry(eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "write", workspace="team", expires=60)
    assert re.fullmatch(rf"engram_{made.token.id}_[A-Za-z0-9_-]{{43}}", made.secret)
    assert re.fullmatch(r"[0-9a-f]{12}", made.token.id)
    grant = eng.access.tokens.verify(made.secret)
    assert grant == Grant("laptop", "write", "team", made.token.id, made.token.expires_at)
    assert made.token.expires_at is not None and made.token.expires_at > made.token.created_at
    assert eng.access.tokens.verify(eng.access.tokens.create("any", "read").secret).workspace is None


@pytest.mark.requirement("ACCESS-2")
def test_only_a_hash_of_a_secret_is_stored(store_url: str, eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "admin")
    link = eng.access.logins.make_link(eng.access.tokens.verify(made.secret))
    cookie = eng.access.logins.use_link(eng.access.logins.make_link(OWNER))
    stored = repr(dump(store_url))
    for secret in (made.secret, link, cookie):
        assert secret[-43:] not in stored
    assert values(store_url, "access_tokens", "hash") == [secret_texts.digest(made.secret)]


@pytest.mark.requirement("ACCESS-2")
def test_no_byte_of_a_secret_is_in_the_files_of_a_store(sqlite_url: str) -> None:
    with Engram(sqlite_url) as eng:
        made = eng.access.tokens.create("laptop", "admin")
        cookie = eng.access.logins.log_in(made.secret)
        links = [eng.access.logins.make_link(OWNER) for _ in range(2)]
        eng.access.logins.use_link(links[0])
        eng.access.answers.once("token", "k", "d", "default", lambda: eng.access.tokens.create("x", "read").secret)
        # The log is copied, because the last connection that closes removes it.
        copies = [Path(f"{sqlite_url}{end}") for end in ("", "-wal")]
        subprocess.run(["cp", *map(str, copies), str(copies[0].parent.parent)], check=True)
    files = [*copies[0].parent.iterdir(), *(copies[0].parent.parent / each.name for each in copies)]
    stored = b"".join(file.read_bytes() for file in files)
    # In an encrypted store nothing can be found.
    assert (secret_texts.digest(made.secret).encode() in stored) is not bool(KEY_FILE)
    for secret in (made.secret, cookie, *links):
        assert secret[-43:].encode() not in stored
    assert not secret_texts.contains_secret(stored.decode("latin-1"))


@pytest.mark.requirement("ACCESS-2")
def test_no_representation_shows_a_secret(eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "admin")
    secret = secret_texts.make(secret_texts.TOKEN)
    for shown in (repr(made), str(made), f"{made}", repr([made]), repr(made.token)):
        assert made.secret[-43:] not in shown and "laptop" in shown
    assert secret.text[-43:] not in repr(secret) + str(secret)


@pytest.mark.requirement("ACCESS-2")
def test_a_secret_that_somebody_pastes_is_not_stored(eng: Engram) -> None:
    kinds = ("TOKEN", "LINK", "COOKIE", "REQUEST", "CODE", "REFRESH")
    texts = [secret_texts.make(getattr(secret_texts, kind)).text for kind in kinds]
    eng.sessions.ensure("s")
    for text in texts:
        eng.exchanges.add("s", "user", f"Use {text} for the server.")
        eng.remember(f"The header is 'Authorization: Bearer {text}'")
        assert secret_texts.contains_secret(text) and not secret_texts.contains_secret(text[:-1])
    stored = [each.content for each in eng.exchanges.history("s")] + [each.content for each in eng.memories.list()]
    assert len(stored) >= len(texts) + 1
    assert not [text for text in texts if text[-43:] in repr(stored)]


@pytest.mark.requirement("ACCESS-3")
@pytest.mark.parametrize(
    "secret",
    [
        "",
        "engram_",
        "x" * 63,
        "engram_0123456789ab_" + "x" * 42,
        "engram_0123456789ab_" + "x" * 44,
        "engram_0123456789aB_" + "x" * 43,
        "engram_0123456789ab_" + "ä" * 43,
        " engram_0123456789ab_" + "x" * 43,
        "engram_0123456789ab_" + "x" * 43 + "\n",
        "engraml_0123456789ab_" + "x" * 43,
        None,
        7,
        b"engram_0123456789ab_" + b"x" * 43,
    ],
)
def test_a_malformed_secret_is_refused_without_the_store(eng: Engram, secret: object) -> None:
    tokens = eng.access.tokens
    eng.close()
    with pytest.raises(Unauthorized):
        tokens.verify(secret)  # type: ignore[arg-type]


@pytest.mark.requirement("ACCESS-3")
def test_a_wrong_secret_is_refused(eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "admin")
    for wrong in (made.secret[:-1] + ("A" if made.secret[-1] != "A" else "B"), f"engram_{'0' * 12}_{'x' * 43}"):
        with pytest.raises(Unauthorized, match="not known") as refused:
            eng.access.tokens.verify(wrong)
        assert wrong not in str(refused.value)


@pytest.mark.requirement("ACCESS-3")
def test_secrets_are_compared_in_constant_time(eng: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []

    def compare(first: str, second: str) -> bool:
        compared.append((first, second))
        return first == second

    monkeypatch.setattr("hmac.compare_digest", compare)
    made = eng.access.tokens.create("laptop", "admin")
    link = eng.access.logins.make_link(eng.access.tokens.verify(made.secret))
    cookie = eng.access.logins.use_link(link)
    eng.access.logins.grant_of(cookie)
    assert [first for first, _ in compared] == [secret_texts.digest(text) for text in (made.secret, link, cookie)]
    with pytest.raises(Unauthorized):
        eng.access.tokens.verify(f"engram_{'0' * 12}_{'x' * 43}")
    assert len(compared) == 4, "an unknown id takes as long as a wrong secret"


@pytest.mark.requirement("ACCESS-4")
def test_an_expired_token_is_refused_by_the_stores_clock(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.access.tokens.create("laptop", "read", expires=60)
    clock.advance(59)
    assert eng.access.tokens.verify(made.secret).name == "laptop"
    clock.advance(2)
    with pytest.raises(Unauthorized, match="expired"):
        eng.access.tokens.verify(made.secret)
    assert eng.access.tokens.list() == []
    assert [token.id for token in eng.access.tokens.list(ended=True)] == [made.token.id]


@pytest.mark.requirement("ACCESS-4")
def test_a_revoked_token_is_refused_at_once_everywhere(open_store: Callable[..., Engram]) -> None:
    here, there = open_store(), open_store()
    made = here.access.tokens.create("laptop", "read")
    assert there.access.tokens.verify(made.secret).name == "laptop"
    assert here.access.tokens.revoke("laptop").revoked_at is not None
    with pytest.raises(Unauthorized, match="revoked"):
        there.access.tokens.verify(made.secret)
    assert there.access.tokens.list() == []


@pytest.mark.requirement("ACCESS-4")
def test_a_token_is_revoked_by_its_id_too_and_only_once(eng: Engram) -> None:
    made = eng.access.tokens.create("laptop", "read")
    assert eng.access.tokens.revoke(made.token.id).name == "laptop"
    for asked in (made.token.id, "laptop", "nobody"):
        with pytest.raises(TokenNotFound):
            eng.access.tokens.revoke(asked)


@pytest.mark.requirement("ACCESS-5")
def test_a_live_name_is_given_once(eng: Engram, clock: ShiftedClock) -> None:
    eng.access.tokens.create("laptop", "read", expires=60)
    with pytest.raises(TokenExists, match="engram token revoke laptop"):
        eng.access.tokens.create("laptop", "read")
    clock.advance(61)
    eng.access.tokens.create("laptop", "read")
    eng.access.tokens.revoke("laptop")
    eng.access.tokens.create("laptop", "read")
    assert [token.name for token in eng.access.tokens.list()] == ["laptop"]
    assert len(eng.access.tokens.list(ended=True)) == 3


@pytest.mark.requirement("ACCESS-5")
@pytest.mark.parametrize(
    "name",
    [
        "",
        "  ",
        " laptop",
        "laptop ",
        "x" * 101,
        "a\nb",
        "a\x1b[31mb",
        "a\x00b",
        "claude (oauth)",
        "claude (OAuth)",
        "ghp_1aZ9qLm3Xv7Tb2Nc8Rk4Wd6Yp0Hs5Jf",
        None,
        7,
    ],
)
def test_a_token_name_is_one_plain_line_without_a_secret(eng: Engram, name: object) -> None:
    with pytest.raises(InvalidInput):
        eng.access.tokens.create(name, "read")  # type: ignore[arg-type]
    assert eng.access.tokens.list() == []


@pytest.mark.requirement("ACCESS-5")
@pytest.mark.parametrize(
    "values", [{"scope": "root"}, {"scope": ""}, {"workspace": "No Such"}, {"workspace": ""}, {"expires": 0}]
)
def test_scope_workspace_and_expiry_are_checked(eng: Engram, values: dict[str, object]) -> None:
    given: dict[str, object] = {"scope": "read", **values}
    for wrong in (given, {**given, "expires": -1} if "expires" in given else given):
        with pytest.raises(InvalidInput):
            eng.access.tokens.create("laptop", **wrong)  # type: ignore[arg-type]
    assert eng.access.tokens.list() == []


@pytest.mark.requirement("ACCESS-6")
def test_the_last_use_is_noted_at_most_once_a_minute(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.access.tokens.create("laptop", "read")

    def used() -> str | None:
        return eng.access.tokens.list()[0].last_used_at

    assert used() is None
    eng.access.tokens.verify(made.secret)
    first = used()
    assert first is not None
    clock.advance(50)
    eng.access.tokens.verify(made.secret)
    assert used() == first
    clock.advance(11)
    eng.access.tokens.verify(made.secret)
    assert (used() or "") > first


@pytest.mark.requirement("ACCESS-6")
def test_a_token_is_verified_while_another_program_writes(open_store: Callable[..., Engram]) -> None:
    here, there = open_store(), open_store()
    made = here.access.tokens.create("laptop", "read")
    with here.write():
        here.remember("a writer at work")
        assert there.access.tokens.verify(made.secret).name == "laptop"


@pytest.mark.requirement("ACCESS-7")
@pytest.mark.parametrize("has", SCOPES)
@pytest.mark.parametrize("needs", SCOPES)
def test_a_scope_includes_those_below_it(has: str, needs: str) -> None:
    grant = Grant("laptop", has, None, "0" * 12, None)
    if SCOPES.index(has) >= SCOPES.index(needs):
        permission.require(grant, needs, "default")
        return
    with pytest.raises(Forbidden, match=f"scope {needs}"):
        permission.require(grant, needs, "default")


@pytest.mark.requirement("ACCESS-7")
def test_a_token_of_one_workspace_is_for_that_one_only() -> None:
    grant = Grant("laptop", "admin", "team", "0" * 12, None)
    permission.require(grant, "admin", "team")
    for other in ("default", "tea", "team-2", "", None):
        with pytest.raises(Forbidden, match="'team' only"):
            permission.require(grant, "read", other)
    permission.require(grant._replace(workspace=None), "read", None)


@pytest.mark.requirement("ACCESS-7")
def test_the_user_of_this_machine_may_do_everything_and_an_unknown_scope_nothing() -> None:
    permission.require(OWNER, "admin", None)
    with pytest.raises(Forbidden):
        permission.require(OWNER._replace(scope="owner"), "read", "default")
    assert permission.author_of(OWNER) is None
    assert permission.author_of(OWNER._replace(name="laptop")) == "laptop"
