"""The command line as a person expects it: short ids, local times, tables that fit, and help with mistakes."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from unicodedata import east_asian_width

import click
import pytest

from engram import Engram as Library
from engram.clock import stamp
from engram.interfaces.cli import cli
from engram.interfaces.cli.common import ALIASES, typed
from engram.interfaces.cli.counting import counted
from engram.interfaces.cli.screen import META, ago, byte_size, short_ids, table, until

from .conftest import Engram, in_terminal

OpenStore = Callable[..., Library]


@pytest.fixture
def me(engram: Engram) -> str:
    id: str = engram("session", "start", "claude-code", "Porting the router", "--name", "Router", "--json").json["id"]
    return id


@pytest.fixture
def other(engram: Engram) -> str:
    id: str = engram("session", "start", "codex", "Adding rate limits", "--json").json["id"]
    return id


@pytest.fixture
def kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A person five and a half hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.requirement("PEOPLE-1")
def test_every_command_takes_a_session_by_a_part_of_its_id_or_by_its_name(
    engram: Engram, me: str, other: str, open_store: OpenStore
) -> None:
    short = other[-8:]
    assert engram("session", "show", "Router", "--json").json["id"] == me
    assert engram("session", "beat", session="Router").out == f"{me} is active.\n"
    assert engram("session", "log", "one", "--session", short).code == 0
    assert "one" in engram("session", "logs", short).out
    assert engram("lock", "claim", "staging", "--session", "Router", "--json").json["session_id"] == me
    assert len(engram("lock", "list", "--mine", "--json", "--session", "Router").json) == 1
    assert engram("message", "send", short, "hello", "--session", "Router", "--json").json["recipients"] == [other]
    assert engram("message", "inbox", "--session", short, "--json").json[0]["from_session"] == me
    assert engram("say", short, "user", "Where is the router?", "--no-embed").code == 0
    assert len(engram("history", short, "--json").json) == 1
    assert engram("recall", "router", "--session", short, "--all", "--json").json[0]["session_id"] == other
    assert engram("remember", "It is new", "--session", "Router", "--no-embed", "--json").json["session_id"] == me
    assert engram("context", "--session", short).code == 0
    assert engram("world", "set", "All is well", "--session", "Router", "--json").json["updated_by"] == me
    assert "(you)" in engram("sitrep", session="Router").out
    child = engram("session", "start", "codex", "Helping", "--parent", "Router", "--json").json["id"]
    assert open_store().sessions.get(child).parent_id == me
    assert engram("session", "done", "--session", short, "--json").json["id"] == other
    assert engram("forget", "--session", short, "--yes", "--json").json["ids"]["sessions"] == [other]


@pytest.mark.requirement("PEOPLE-1", "CLI-2")
def test_a_text_that_fits_several_sessions_is_wrong_use_and_lists_them(engram: Engram, me: str, other: str) -> None:
    shown, json = engram("session", "show", me[:4]), engram("session", "show", me[:4], "--json")
    assert shown.code == json.code == 2
    assert me in shown.err and other in shown.err
    assert json.json["error"]["code"] == "session_ambiguous"
    assert set(json.json["error"]["details"]["candidates"]) == {me, other}
    assert engram("message", "send", me[:4], "hello").code == 2
    assert engram("session", "show", "nobody").code == 3
    assert engram("message", "send", "nobody", "hello").code == 3


@pytest.mark.requirement("PEOPLE-1")
def test_a_recipient_that_may_be_a_session_or_a_held_resource_is_refused(engram: Engram, me: str, other: str) -> None:
    engram("lock", "claim", me[-4:], "--session", other)
    refused = engram("message", "send", me[-4:], "hello")
    assert refused.code == 2 and me in refused.err
    assert engram("message", "inbox", session=other).out == "No unread messages.\n"
    assert engram("message", "send", me, "hello", "--json").json["recipients"] == [me]


@pytest.mark.requirement("PEOPLE-1")
@pytest.mark.parametrize("words", ["world set x", "block append notes x", "lock list", "dream work next"])
def test_an_unknown_session_is_refused_and_nothing_is_written(engram: Engram, me: str, words: str) -> None:
    engram("block", "create", "notes", session=me)
    refused = engram(*words.split(), "--session", "nope")
    assert refused.code == 3 and "no session 'nope'" in refused.err
    assert engram("world", "show", "--json").json["version"] == 0
    assert engram("block", "show", "notes", "--json").json["version"] == 1


@pytest.mark.requirement("PEOPLE-1")
def test_lists_show_ids_in_a_short_form_that_can_be_typed_back(engram: Engram, me: str, other: str) -> None:
    engram("lock", "claim", "staging", session=me)
    for arguments in (("session", "list"), ("lock", "list"), ("lock", "check", "staging")):
        shown = engram(*arguments).out
        assert me[-8:] in shown
        assert me not in shown
    first_cells = [line.split()[0] for line in engram("session", "list").out.splitlines()[1:]]
    assert {engram("session", "show", id, "--json").json["id"] for id in first_cells} == {me, other}
    assert {each["id"] for each in engram("session", "list", "--json").json} == {me, other}


@pytest.mark.requirement("PEOPLE-1")
def test_an_id_is_shortened_only_if_no_other_one_of_the_listing_has_the_same_part() -> None:
    one, same, else_ = "20261115-183608-0a1b2c3d", "20261116-000000-0a1b2c3d", "20261116-000000-ffffffff"
    short = short_ids([one, same, else_, "chat-0a1b2c3d-mine"])
    assert [short(id) for id in (one, same, else_, "chat-0a1b2c3d-mine")] == [
        one,
        same,
        "ffffffff",
        "chat-0a1b2c3d-mine",
    ]
    assert short_ids([else_, "ffffffff-1"])(else_) == else_


@pytest.mark.requirement("PEOPLE-2")
def test_times_are_shown_in_the_persons_time_zone_and_with_utc_or_json_in_utc(
    engram: Engram, me: str, open_store: OpenStore, kolkata: None
) -> None:
    engram("say", me, "user", "hello", "--at", "2026-03-01T20:00:00Z", "--no-embed")
    assert "2026-03-02 01:30:00  exchange 1  user" in engram("history", me).out
    assert "2026-03-01 20:00:00 UTC  exchange 1  user" in engram("history", me, "--utc").out
    assert engram("history", me, "--json").json[0]["created_at"] == "2026-03-01T20:00:00.000000Z"
    session = open_store().sessions.get(me)
    created = session.created_at[:19].replace("T", " ")
    assert created not in engram("session", "show", me).out
    assert f"{created} UTC" in engram("session", "show", me, "--utc").out


@pytest.mark.requirement("PEOPLE-2")
def test_a_time_without_a_zone_is_read_in_the_zone_that_times_are_shown_in(
    engram: Engram, me: str, kolkata: None
) -> None:
    for at in ("2026-03-02 01:30", "2026-03-01T20:00Z"):
        engram("say", me, "user", "hello", "--at", at, "--no-embed")
    times = {turn["created_at"] for turn in engram("history", me, "--json").json}
    assert times == {"2026-03-01T20:00:00.000000Z"}
    for options, found in ((("--since", "2026-03-02"), 2), (("--since", "2026-03-02", "--utc"), 0)):
        assert len(engram("timeline", *options, "--json").json) == found


@pytest.mark.requirement("PEOPLE-2")
@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [
        (5, "just now", "just now"),
        (65, "1 minute ago", "1m ago"),
        (7_300, "2 hours ago", "2h ago"),
        (3 * 86_400 + 5, "3 days ago", "3d ago"),
        (-5, "just now", "just now"),
    ],
)
def test_how_long_ago_is_said_in_words(seconds: int, long: str, short: str) -> None:
    at = stamp(time.time() - seconds)
    assert (ago(at), ago(at, short=True)) == (long, short)
    assert ago("2001-02-03T12:00:00.000000Z") == "2001-02-03"
    assert ago(None) == ""


@pytest.mark.requirement("PEOPLE-2")
@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [
        (15, "in less than a minute", "in less than a minute"),
        (895, "in 15 minutes", "in 15m"),
        (86_400, "in 1 day", "in 1d"),
        (-100, "now", "now"),
    ],
)
def test_in_how_long_is_said_in_words(seconds: int, long: str, short: str) -> None:
    at = stamp(time.time() + seconds)
    assert (until(at), until(at, short=True)) == (long, short)
    assert until(None) == ""


def columns(line: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in line)


@pytest.mark.requirement("PEOPLE-3")
@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_table_fits_the_terminal_and_its_first_column_stays_whole(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", Screen())
    rows = [("20261115-183608", "上游服务" * 20, "a long summary " * 20), ("20261115-183609", "短", "short")]
    _, *lines = table(("id", "name", "summary"), rows).splitlines()
    assert all(columns(line) <= width for line in lines)
    assert columns(lines[0]) >= width - 1
    assert lines[0].count("…") == 2
    assert lines[0].startswith("20261115-183608  上")
    starts = {columns(line[: line.index(word)]) for line, word in ((lines[0], "a long"), (lines[1], "short"))}
    assert len(starts) == 1


@pytest.mark.requirement("PEOPLE-3")
def test_a_pipe_gets_the_whole_table_without_its_empty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    head, line = table(("id", "name", "summary"), [("1", "", "word " * 100)]).splitlines()
    assert "name" not in head
    assert line == "1   " + " ".join(["word"] * 100)


@pytest.mark.requirement("PEOPLE-3")
def test_the_list_of_sessions_fits_a_real_terminal(sqlite_url: str) -> None:
    with Library(sqlite_url) as eng:
        eng.sessions.register("claude-code", "Porting the router " * 20, project="acme/shop")
    code, shown = in_terminal(
        "session", "list", environment={"ENGRAM_URL": sqlite_url, "COLUMNS": "70", "NO_COLOR": "1"}
    )
    assert code == 0
    assert [len(line) <= 70 for line in shown.splitlines()] == [True, True]
    assert "…" in shown


@pytest.mark.requirement("PEOPLE-3")
def test_a_narrow_list_of_sessions_has_fewer_columns_that_can_be_read(sqlite_url: str) -> None:
    with Library(sqlite_url) as eng:
        for number in range(3):
            sid = eng.sessions.register("claude-code", f"Port part {number} of the router", project="acme/webshop")
            eng.exchanges.add(sid, "user", "Port the router", embed=False)
            eng.sessions.complete(sid, "Ported the router to the new library. " * 3)
    environment = {"ENGRAM_URL": sqlite_url, "NO_COLOR": "1"}
    _, narrow = in_terminal("session", "list", "--all", environment={**environment, "COLUMNS": "80"})
    assert narrow.splitlines()[0].split() == ["id", "type", "status", "seen", "project", "summary"]
    assert all(len(line) <= 80 for line in narrow.splitlines())
    assert all(f"completed  just now  acme/webshop  Port part {number} of" in narrow for number in range(3))
    _, wide = in_terminal("session", "list", "--all", environment={**environment, "COLUMNS": "120"})
    assert wide.splitlines()[0].split() == [*("id", "type", "status", "seen", "turns", "project", "summary", "outcome")]
    assert "claude-code" in wide and "Port part 2" in wide and "Ported the router" in wide


@pytest.mark.requirement("PEOPLE-4")
@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("recal", "x"), "'recall'"),
        (("lock", "clam", "x"), "'claim'"),
        (("dream", "lst"), "'list'"),
        (("session", "list", "--al"), "'--all'"),
        (("help", "sesion"), "'session'"),
        (("help", "lock", "clam"), "'claim'"),
    ],
)
def test_a_mistyped_command_or_option_suggests_the_nearest(
    engram: Engram, arguments: tuple[str, ...], meant: str
) -> None:
    for_people, for_agents = engram(*arguments), engram(*arguments, "--json")
    assert for_people.code == for_agents.code == 2
    assert for_people.err.endswith(f" Did you mean {meant}?\n")
    assert meant in for_agents.json["error"]["message"]


@pytest.mark.requirement("PEOPLE-4")
def test_a_command_like_no_other_points_to_the_list_of_commands(engram: Engram) -> None:
    assert "`engram --help` lists the commands" in engram("xyzzy").err


@pytest.mark.requirement("PEOPLE-4")
@pytest.mark.parametrize("names", [(), ("lock",), ("lock", "claim"), ("lease", "claim"), ("dream",), ("help",)])
def test_help_shows_what_the_option_shows(engram: Engram, names: tuple[str, ...]) -> None:
    shown = engram("help", *names)
    assert shown.code == 0
    assert shown.out == engram(*names, "--help").out
    assert engram("help", "sitrep", "more").code == 2


@pytest.mark.requirement("PEOPLE-4", "CLI-2")
def test_a_group_without_a_command_shows_its_help_once(engram: Engram) -> None:
    shown = engram("lock")
    assert (shown.code, shown.err) == (2, engram("lock", "--help").out)


@pytest.mark.requirement("PEOPLE-5")
def test_workspaces_are_listed_and_the_configured_one_is_marked(engram: Engram, me: str) -> None:
    engram("remember", "Deploys never happen on Fridays", "--workspace", "work", "--no-embed")
    listed = engram("workspace", "list", "--json").json
    assert [(each["name"], each["configured"], each["sessions"], each["memories"]) for each in listed] == [
        ("default", True, 1, 0),
        ("work", False, 0, 1),
    ]
    rows = [line.split() for line in engram("workspace", "list", "--workspace", "work").out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["default", "1"], ["work", "yes"]]
    assert "Nothing has been written to it yet" in engram("workspace", "list", "--workspace", "new").out


@pytest.mark.requirement("PEOPLE-5", "CLI-2")
@pytest.mark.parametrize("way", ["option", "environment"])
def test_reading_a_workspace_that_does_not_exist_is_not_found_and_lists_those_there_are(
    engram: Engram, me: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--workspace", "nope") if way == "option" else ()
    if way == "environment":
        monkeypatch.setenv("ENGRAM_WORKSPACE", "nope")
    for arguments in (
        ("sitrep",),
        ("session", "list"),
        ("recall", "x"),
        ("stats",),
        ("memory", "list"),
        ("world", "show"),
    ):
        outcome = engram(*arguments, *options)
        assert (outcome.code, outcome.out) == (3, "")
        assert "There is no workspace 'nope'. Existing workspaces: default." in outcome.err
    assert engram("sitrep", *options, "--json").json["error"]["details"]["workspaces"] == ["default"]
    assert engram("world", "set", "hello", *options).code == 0
    assert engram("world", "show", *options).out == "hello\n"


@pytest.mark.requirement("PEOPLE-5")
def test_the_default_workspace_of_a_new_store_can_be_read(engram: Engram) -> None:
    for options in ((), ("--workspace", "default")):
        assert engram("sitrep", *options).code == engram("session", "list", *options).code == 0


@pytest.mark.requirement("PEOPLE-5", "COUNT-2")
def test_stats_say_what_is_there_in_words(engram: Engram, me: str) -> None:
    engram("remember", "Deploys never happen on Fridays", "--kind", "preference", "--no-embed")
    engram("session", "start", "dream", "dreaming")
    rows = dict(re.split("  +", line, maxsplit=1) for line in engram("stats").out.splitlines())
    assert (rows["sessions"], rows["memories"]) == ("1: 1 active", "1: 1 preference")
    assert rows["embedder"] == "static, no vectors yet"
    assert re.search(r"\d [KM]B$", rows["store"])
    assert engram("stats", "--json").json["memories"] == {"preference": 1}
    assert engram("stats", "--dreams", "--json").json["sessions"] == 2


@pytest.mark.requirement("COUNT-1")
def test_the_list_of_sessions_leaves_passes_of_dreaming_out(engram: Engram, me: str) -> None:
    engram("session", "start", "dream", "dreaming")
    for arguments in (("session", "list"), ("session", "list", "--all")):
        assert [each["id"] for each in engram(*arguments, "--json").json] == [me]
        assert len(engram(*arguments, "--dreams", "--json").json) == 2


@pytest.mark.requirement("PEOPLE-6")
@pytest.mark.parametrize(
    "arguments", [("session", "log", "hello"), ("session", "show"), ("history",), ("message", "inbox")]
)
def test_a_command_that_lacks_a_session_says_how_to_name_one(
    engram: Engram, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A person's inbox needs no session.
    monkeypatch.setenv("CLAUDECODE", "1")
    outcome = engram(*arguments)
    assert outcome.code == 2
    assert "ENGRAM_SESSION" in outcome.err
    assert "'[" not in outcome.err
    assert "engram session start" in outcome.err


@pytest.mark.requirement("PEOPLE-6")
def test_a_variable_that_a_command_does_not_read_is_not_advised(engram: Engram) -> None:
    outcome = engram("say")
    assert "Missing argument 'SESSION'. Start a session: " in outcome.err


@pytest.mark.requirement("PEOPLE-6")
def test_a_command_about_a_session_says_where_its_id_is_found(engram: Engram) -> None:
    outcome = engram("history")
    assert "`engram session list --all` shows the ids for `engram history SESSION`." in outcome.err


@pytest.mark.requirement("CLI-33")
def test_the_help_of_dreaming_says_what_it_does_without_a_command(engram: Engram) -> None:
    told = " ".join(engram("dream", "--help").out.split())
    assert "`engram dream --force`" in told and "`engram dream run --help` explains them all" in told


@pytest.mark.requirement("PEOPLE-6")
@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        (("lock", "claim", "staging", "--ttl", "0"), "--ttl is 0"),
        (("session", "beat", "--session", ""), "--session is empty"),
        (("session", "start", "codex", "x", "--external-id", ""), "--external-id is empty"),
        (("session", "start", "codex", "x", "--parent", " "), "--parent is empty"),
    ],
)
def test_an_error_names_the_option_and_not_the_librarys_parameter(
    engram: Engram, me: str, arguments: tuple[str, ...], begins: str
) -> None:
    outcome = engram(*arguments, "--json", session=me)
    assert outcome.code == 2
    assert outcome.json["error"]["message"].startswith(begins)


@pytest.mark.requirement("PEOPLE-7")
def test_the_librarys_verbs_are_other_names_of_the_commands(engram: Engram) -> None:
    id = engram("session", "register", "codex", "Porting", "--json").json["id"]
    assert engram("session", "heartbeat", "--session", id).code == 0
    assert engram("lease", "claim", "staging", "--session", id).code == 0
    assert engram("session", "complete", "Ported", "--session", id, "--json").json["status"] == "completed"
    assert "register" not in engram("session", "--help").out


@pytest.mark.requirement("PEOPLE-7")
def test_every_other_name_leads_to_a_command_and_hides_none() -> None:
    root = click.Context(cli, info_name="engram")
    for group, names in ALIASES.items():
        place = cli.get_command(root, group) if group else cli
        assert isinstance(place, click.Group)
        for alias, name in names.items():
            assert place.get_command(root, alias) is None
            assert place.get_command(root, name) is not None


@pytest.mark.parametrize(
    ("number", "word", "shown"),
    [(1, "session", "1 session"), (0, "turn", "0 turns"), (1_200, "memory", "1,200 memories")],
)
def test_numbers_have_the_right_form_of_their_noun(number: int, word: str, shown: str) -> None:
    assert counted(number, word) == shown
    assert [byte_size(each) for each in (1, 999, 3_200_000)] == ["1 byte", "999 bytes", "3.2 MB"]


@pytest.mark.requirement("PEOPLE-5")
def test_a_command_to_type_has_no_password_in_it() -> None:
    with click.Context(cli) as ctx:
        ctx.meta[f"{META}.store"] = "postgresql://me:hunter2@db/engram?sslpassword=hunter3"
        assert typed("embed") == "engram embed --store 'postgresql://me:***@db/engram?sslpassword=***'"


@pytest.mark.requirement("PEOPLE-5")
def test_a_failed_undo_makes_no_workspace(engram: Engram, me: str) -> None:
    for arguments in (("dream", "undo"), ("dream", "undo", "7")):
        assert engram(*arguments, "--workspace", "mistyped").code == 3
    assert [each["name"] for each in engram("workspace", "list", "--json").json] == ["default"]


@pytest.mark.requirement("PEOPLE-1")
def test_a_pass_of_dreaming_does_not_make_a_short_form_ambiguous(engram: Engram, me: str) -> None:
    engram("dream", "--force")
    assert engram("session", "show", me[:4], "--json").json["id"] == me
