"""`engram forget` and `engram receipts`, for people and for agents, on both engines."""

from __future__ import annotations

import io

import pytest

from engram import Engram as Library

from .conftest import Engram

TEXT = "The vault code is quixadrol"


@pytest.fixture
def said(store_url: str) -> int:
    """An exchange with a memory made of it."""
    with Library(store_url) as eng:
        eng.sessions.ensure("s")
        id = eng.exchanges.add("s", "user", TEXT, embed=False)
        eng.remember(f"{TEXT} seven", sources=[("exchange", id)], embed=False)
    return id


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.mark.requirement("FORGET-12")
def test_forget_shows_what_would_go_asks_and_does_it(
    engram: Engram, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "n\n")
    refused = engram("forget", "--exchange", str(said))
    assert refused.code != 0
    assert "Would forget 1 exchange, 1 memory." in refused.err
    assert "cannot be undone" in refused.err
    assert engram("receipts").out.strip() == "Nothing has been forgotten."

    answer(monkeypatch, "y\n")
    done = engram("forget", "--exchange", str(said))
    assert done.code == 0
    assert ": forgot 1 exchange, 1 memory." in done.out and done.out.startswith("Receipt ")
    assert TEXT not in engram("history", "s").out
    listed = engram("receipts")
    assert f"exchange {said}" in listed.out and "1 exchange, 1 memory" in listed.out
    assert "quixadrol" in refused.err
    assert "quixadrol" not in listed.out + done.out


@pytest.mark.requirement("FORGET-12")
def test_without_an_answer_it_says_that_yes_does_not_ask(
    engram: Engram, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "")
    assert engram("forget", "--exchange", str(said)).err.endswith("\nStopped: nobody answered. --yes does not ask.\n")
    answer(monkeypatch, "n\n")
    assert engram("forget", "--exchange", str(said)).err.endswith("Stopped.\n")
    assert TEXT in engram("history", "s").out


@pytest.mark.requirement("FORGET-12")
def test_a_dry_run_changes_nothing_and_yes_does_not_ask(engram: Engram, said: int) -> None:
    shown = engram("forget", "--session", "s", "--dry-run", "--json")
    assert shown.code == 0
    assert shown.json["id"] is None
    assert shown.json["counts"] == {"exchanges": 1, "memories": 1, "sessions": 1}
    assert TEXT in engram("history", "s").out
    done = engram("forget", "--session", "s", "--yes", "--json")
    assert (done.code, done.json["counts"], done.json["asked"]) == (0, shown.json["counts"], "session s")
    assert engram("history", "s").code == 3
    assert [each["id"] for each in engram("receipts", "--json").json] == [done.json["id"]]


@pytest.mark.requirement("FORGET-12")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("--exchange", "1", "--memory", "1"), 2),
        (("--exchange", "0"), 2),
        (("--before", "soon"), 2),
        (("--exchange", "99"), 3),
        (("--memory", "99"), 3),
        (("--session", "nobody"), 3),
        (("--source", "nobody"), 3),
        (("--block", "nothing"), 3),
    ],
)
def test_what_cannot_be_meant_has_its_exit_code_and_changes_nothing(
    engram: Engram, said: int, arguments: tuple[str, ...], code: int
) -> None:
    assert engram("forget", *arguments, "--yes").code == code
    assert engram("forget", *arguments, "--dry-run", "--json").code == code
    assert engram("receipts", "--json").json == []
    assert TEXT in engram("history", "s").out


@pytest.mark.requirement("FORGET-12")
def test_json_needs_to_be_told_because_nobody_can_be_asked(engram: Engram, said: int) -> None:
    assert engram("forget", "--exchange", str(said), "--json").code == 2
    assert TEXT in engram("history", "s").out


@pytest.mark.requirement("FORGET-12")
def test_every_way_of_naming_what_is_to_go_works(engram: Engram, store_url: str) -> None:
    with Library(store_url) as eng:
        memory = eng.remember(TEXT, embed=False).id
        eng.blocks.create("plan", TEXT)
        eng.sessions.register("import", TEXT)
        eng.exchanges.add(eng.sessions.register("codex", "work"), "user", TEXT, embed=False)
    for chosen in (
        ("--memory", str(memory)),
        ("--block", "plan"),
        ("--source", "import"),
        ("--before", "2999-01-01T00:00"),
    ):
        done = engram("forget", *chosen, "--yes", "--json")
        assert done.code == 0 and sum(done.json["counts"].values()) == 1, chosen
    assert len(engram("receipts", "--json", "-n", "2").json) == 2
    assert len(engram("receipts", "--json", "-n", "0").json) == 4


@pytest.mark.requirement("FORGET-23")
def test_a_dry_run_shows_the_first_words_and_the_names_of_what_goes(engram: Engram, store_url: str) -> None:
    with Library(store_url) as eng:
        eng.sessions.ensure("s")
        first, *_ = [
            eng.exchanges.add("s", "user", f"Number {each} is {'long ' * 50}", embed=False) for each in range(13)
        ]
        memory = eng.remember("Said in s alone.", kind="fact", sources=[("exchange", first)], embed=False)
        eng.messages.send("s", eng.sessions.register("codex", "listening"), "It is about quixadrol.")
        eng.blocks.create("vault", TEXT)
    shown = engram("forget", "--session", "s", "--dry-run").out.splitlines()
    assert shown[0] == "Would forget 13 exchanges, 1 memory, 1 session, 1 message."
    assert shown[1] == "  exchanges"
    assert shown[2].startswith(f"    {first}  user: Number 0 is long long") and max(map(len, shown)) < 100
    assert shown[12] == "    … and 3 more"
    assert shown[13:15] == ["  memories", f"    {memory.id}  fact: Said in s alone."]
    assert any("It is about quixadrol." in line for line in shown)
    assert "vault: The vault code" in engram("forget", "--block", "vault", "--dry-run").out
    done = engram("forget", "--session", "s", "--yes")
    kept = engram("receipts", "--json")
    assert "long" not in done.out + kept.out and kept.json[0]["preview"] is None


@pytest.mark.requirement("FORGET-23")
def test_what_stays_without_a_part_is_said_in_a_sentence(engram: Engram, store_url: str) -> None:
    with Library(store_url) as eng:
        eng.sessions.ensure("s")
        said = [eng.exchanges.add("s", "user", f"{TEXT} {each}", embed=False) for each in range(2)]
        both = eng.remember("Two turns name the vault.", sources=[("exchange", id) for id in said], embed=False)
        eng.blocks.derive("vault", "It says what is known.", "", "s", 100, [("exchange", id) for id in said])
    shown = engram("forget", "--exchange", str(said[0]), "--dry-run").out
    told = "1 memory and 1 block were partly made from it, and {} that part."
    assert shown.startswith(f"Would forget 1 exchange. {told.format('would lose')} Passes write ")
    assert "\n  blocks that would lose a part\n    1  vault\n" in f"{shown}\n"
    done = engram("forget", "--exchange", str(said[0]), "--yes").out
    assert f": forgot 1 exchange. {told.format('lost')} " in done
    assert f"\n  memories that lost a part: {both.id}\n" in done and "rebuild" not in shown + done
    assert "1 exchange, 1 memory that lost a part, 1 block that lost a part" in engram("receipts").out


@pytest.mark.requirement("FORGET-12")
def test_forgetting_a_memory_names_the_exchange_that_says_the_same(engram: Engram, store_url: str) -> None:
    with Library(store_url) as eng:
        eng.sessions.ensure("s")
        said = eng.exchanges.add("s", "user", f"By the way: {TEXT}.", embed=False)
        first = eng.remember(TEXT, sources=[("exchange", said)], embed=False)
        eng.exchanges.add("s", "user", "Something else", embed=False)
        second = eng.remember("Something\nelse", session_id="s", embed=False)
        other = eng.remember("Nobody has said this.", session_id="s", embed=False)
    for memory, exchange in ((first.id, said), (second.id, said + 1)):
        told = f"The same words are in exchange {exchange}: `engram forget --exchange {exchange} "
        assert engram("forget", "--memory", str(memory), "--dry-run").out.splitlines()[-1].startswith(told)
        assert engram("forget", "--memory", str(memory), "--yes").out.splitlines()[-1].startswith(told)
    assert "same words" not in engram("forget", "--memory", str(other.id), "--yes").out


@pytest.mark.requirement("FORGET-23", "GRAPH-1")
def test_what_an_earlier_forgetting_has_emptied_is_shown_as_such(engram: Engram, store_url: str) -> None:
    with Library(store_url) as eng:
        eng.sessions.ensure("s")
        said = [eng.exchanges.add("s", "user", f"{TEXT} {each}", embed=False) for each in range(2)]
        eng.dream(force=True)
        (gist,) = eng.memories.list(kind="gist")
    assert engram("forget", "--exchange", str(said[0]), "--yes").code == 0
    shown = engram("forget", "--exchange", str(said[1]), "--dry-run").out.splitlines()
    assert f"    {said[1]}  user: {TEXT} 1" in shown
    assert f"    {gist.id}  gist: (emptied by forgetting)" in shown
    assert engram("graph", "memory", str(gist.id)).out.startswith(f"memory {gist.id} (emptied by forgetting) (gist, ")
