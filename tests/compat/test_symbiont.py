"""Programs of Symbiont on Engram, on both engines."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from engram import Engram as Store
from engram import InvalidInput
from engram.compat import symbiont
from engram.compat.symbiont import Engram, SessionRegistry, sitrep, update_world_state
from engram.config import load
from tests.conftest import ShiftedClock

pytestmark = pytest.mark.requirement("COMPAT-1", "COMPAT-2")

SESSION = {
    *("id", "session_type", "summary", "status", "started_at", "last_heartbeat", "completed_at"),
    *("completion_summary", "metadata"),
}


@pytest.fixture
def eng(store_url: str) -> Iterator[Engram]:
    with Engram(store_url) as opened:
        yield opened


@pytest.fixture
def sid(eng: Engram) -> str:
    return eng.register("cowork", "Porting the router")


def age(text: str) -> timedelta:
    """What programs of Symbiont compute from a time."""
    return datetime.now() - datetime.fromisoformat(text)


PROGRAM = """
from symbiont.engram import Engram, sitrep, update_world_state

FILE = "/data/symbiont/symbiont/router.py"
print(sitrep())
eng = Engram()
sid = eng.register("cowork", "Porting the router", metadata='{"model": "opus"}')
assert [each["id"] for each in eng.get_active_sessions()] == [sid]

others = [lock for lock in eng.check_locks(FILE) if lock["session_id"] != sid]
if not others:
    eng.lock_resource(sid, FILE, note="rewriting")
eng.log(sid, "Finished the router, starting the dispatcher")
eng.log(sid, "The dispatcher is half done")
eng.heartbeat(sid, "Porting the dispatcher, 60% done")
for lock in eng.check_locks(FILE):
    print(lock["resource"], "is locked by a", lock["session_type"], "session:", lock["summary"])
print(sitrep())
for entry in reversed(eng.get_session_logs(sid, limit=5)):
    print("*", entry["entry"])
update_world_state("# World\\nThe router is ported.", session_id=sid)
eng.release_resource(sid, FILE)
eng.complete(sid, "Router and dispatcher are ported. Tests pass.")
for session in eng.get_recent_sessions(hours=24):
    print(session["status"], session["completion_summary"], session["metadata"])
print(eng.stats())
print(sitrep())
"""


def test_a_program_works_with_one_import_line_changed(
    store_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGRAM_URL", store_url)
    exec(compile(PROGRAM.replace("symbiont.engram", "engram.compat.symbiont"), "program.py", "exec"), {})
    out = re.sub(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}", "ID", capsys.readouterr().out)
    assert out == (
        "There is no world state yet. Write it with set_world_state(content).\n"
        "/data/symbiont/symbiont/router.py is locked by a cowork session: Porting the dispatcher, 60% done\n"
        "There is no world state yet. Write it with set_world_state(content).\n"
        "\n"
        "**Active sessions (1):**\n"
        "- ● `ID` (cowork): Porting the dispatcher, 60% done\n"
        "\n"
        "**Locked resources:**\n"
        "- `/data/symbiont/symbiont/router.py` by `ID`\n"
        "* Finished the router, starting the dispatcher\n"
        "* The dispatcher is half done\n"
        'completed Router and dispatcher are ported. Tests pass. {"model": "opus"}\n'
        "{'total_sessions': 1, 'active_sessions': 0, 'completed_sessions': 1, 'total_logs': 2, 'active_locks': 0}\n"
        "# World\n"
        "The router is ported.\n"
    )


def test_the_names_of_symbiont_are_there(store_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert SessionRegistry is Engram
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(tmp_path))
    assert tmp_path / "engram.db" == symbiont.DB_PATH
    monkeypatch.setenv("ENGRAM_URL", store_url)
    assert str(symbiont.DB_PATH) == load().url
    with pytest.raises(AttributeError, match="nonsense"):
        symbiont.nonsense  # type: ignore[attr-defined] # noqa: B018


def test_a_program_can_set_the_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "here" / "registry.db"
    monkeypatch.setitem(vars(symbiont), "DB_PATH", path)
    update_world_state("All is quiet")
    assert sitrep() == "All is quiet"
    with Engram() as eng, Engram(path) as same:
        assert eng.db_path == same.db_path == path
        assert same.get_world_state() == "All is quiet"


def test_a_session_is_a_dictionary_of_symbionts_columns(eng: Engram) -> None:
    sid = eng.register("cowork", "Porting the router", metadata="any text, { not only JSON")
    session = eng.get_session(sid)
    assert session is not None and session.keys() == SESSION
    assert (session["id"], session["session_type"], session["status"]) == (sid, "cowork", "active")
    assert session["summary"] == "Porting the router"
    assert session["metadata"] == "any text, { not only JSON"
    assert session["completed_at"] is None and session["completion_summary"] is None
    eng.complete(sid, "Ported")
    [completed] = eng.get_recent_sessions()
    assert completed == eng.get_session(sid) and completed.keys() == SESSION
    assert (completed["status"], completed["completion_summary"]) == ("completed", "Ported")
    assert completed["summary"] == "Porting the router"
    assert completed["completed_at"] == completed["last_heartbeat"] >= completed["started_at"]
    other = eng.get_session(eng.register("codex", "Without metadata"))
    assert other is not None and other["metadata"] is None


def test_times_are_local_and_have_no_zone(eng: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        sid = eng.register("cowork", "Porting the router")
        eng.log(sid, "begun")
        eng.lock_resource(sid, "deploy")
        eng.complete(eng.register("codex", "Reviewing"), "Reviewed")
        [session], [entry], [lock] = eng.get_active_sessions(), eng.get_session_logs(sid), eng.check_locks("deploy")
        [completed] = eng.get_recent_sessions()
        times = (session["started_at"], session["last_heartbeat"], entry["timestamp"], lock["locked_at"])
        for each in (*times, completed["completed_at"]):
            assert datetime.fromisoformat(each).tzinfo is None
            assert timedelta(seconds=-1) < age(each) < timedelta(minutes=1)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_empty_summary_of_a_heartbeat_keeps_the_old_one(eng: Engram, sid: str) -> None:
    for summary in (None, ""):
        eng.heartbeat(sid, summary)
        assert [each["summary"] for each in eng.get_active_sessions()] == ["Porting the router"]
    eng.heartbeat(sid, "Porting the dispatcher")
    assert [each["summary"] for each in eng.get_active_sessions()] == ["Porting the dispatcher"]


def test_logs_come_newest_first_and_at_most_twenty(eng: Engram, sid: str) -> None:
    for number in range(25):
        eng.log(sid, f"step {number}")
    logs = eng.get_session_logs(sid)
    assert [each["entry"] for each in logs] == [f"step {number}" for number in range(24, 4, -1)]
    assert all(each.keys() == {"id", "session_id", "timestamp", "entry"} for each in logs)
    assert {each["session_id"] for each in logs} == {sid}
    assert [len(eng.get_session_logs(sid, limit=limit)) for limit in (0, 3, 100, -1)] == [0, 3, 25, 25]


def test_unknown_ids_are_ignored(eng: Engram, sid: str) -> None:
    before = (eng.get_active_sessions(), eng.stats())
    for unknown in ("20260101-120000-abcdef01", "", "with\nlines", "x" * 500, "person"):
        eng.heartbeat(unknown, "Working")
        eng.complete(unknown, "Done")
        eng.log(unknown, "Something")
        eng.lock_resource(unknown, "deploy")
        eng.release_resource(unknown, "deploy")
        assert eng.get_session(unknown) is None
        assert eng.get_session_logs(unknown) == []
        assert (eng.get_active_sessions(), eng.stats()) == before
    # What a known session does not have is ignored, too.
    eng.release_resource(sid, "never locked")
    eng.log(sid, "  ")
    assert (eng.get_active_sessions(), eng.stats()) == before


RESOURCES = [
    *("src/router.py", "./src/router.py", "/data/../data//router.py", "~/notes", "deploy", "deploy ", "Deploy"),
    *("*.md", "app/[id]/page.tsx", "a%20b", "https://example.org/a?b#c", "port:8080", "two\nlines", "", "ümläut/日本"),
    "symbiont://deploy",
]


def test_resources_are_exact_strings(eng: Engram, sid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Here some of them would be files.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "router.py").touch()
    (tmp_path / "deploy").touch()
    for resource in RESOURCES:
        eng.lock_resource(sid, resource, note=f"note on {resource}")
    assert eng.stats()["active_locks"] == len(RESOURCES)
    monkeypatch.chdir("/")
    for resource in RESOURCES:
        [lock] = eng.check_locks(resource)
        assert lock.keys() == {"resource", "session_id", "locked_at", "note", "summary", "session_type"}
        assert (lock["resource"], lock["session_id"]) == (resource, sid)
        assert (lock["note"], lock["summary"]) == (f"note on {resource}", "Porting the router")
        assert lock["session_type"] == "cowork"
    assert eng.check_locks("src") == eng.check_locks("router.py") == []
    for resource in RESOURCES:
        eng.release_resource(sid, resource)
        assert eng.check_locks(resource) == []
    assert eng.stats()["active_locks"] == 0


def test_a_lock_taken_again_replaces_its_note_and_its_time(eng: Engram, sid: str) -> None:
    eng.lock_resource(sid, "deploy", "for the release")
    [first] = eng.check_locks("deploy")
    eng.lock_resource(sid, "deploy")
    [again] = eng.check_locks("deploy")
    assert again["note"] is None
    assert again["locked_at"] > first["locked_at"]
    eng.lock_resource(sid, "deploy", "for the fix")
    assert [each["note"] for each in eng.check_locks("deploy")] == ["for the fix"]


def test_several_sessions_can_lock_the_same_resource(eng: Engram, sid: str) -> None:
    other = eng.register("codex", "Reviewing")
    eng.lock_resource(sid, "deploy")
    eng.lock_resource(other, "deploy")
    assert [each["session_id"] for each in eng.check_locks("deploy")] == [sid, other]
    eng.complete(sid, "Done")
    assert [each["session_id"] for each in eng.check_locks("deploy")] == [other]


def test_a_session_that_locks_something_is_at_work_again(eng: Engram, sid: str) -> None:
    eng.complete(sid, "Done")
    eng.lock_resource(sid, "deploy", "once more")
    assert [each["id"] for each in eng.get_active_sessions()] == [sid]
    assert [each["note"] for each in eng.check_locks("deploy")] == ["once more"]


def test_the_report_is_whole(eng: Engram, sid: str) -> None:
    world = "# World\n\n" + "\n".join(f"- fact {number}" for number in range(5_000))
    eng.set_world_state(world, sid)
    other = eng.register("codex", "Reviewing\nthe router, " + "x" * 200)
    eng.heartbeat(sid)
    eng.lock_resource(sid, "src/router.py", "rewriting")
    eng.lock_resource(other, "deploy")
    assert eng.get_situation_report() == (
        f"{world}\n"
        "\n"
        "**Active sessions (2):**\n"
        f"- ● `{sid}` (cowork): Porting the router\n"
        f"- ● `{other}` (codex): Reviewing the router, {'x' * 78}\n"
        "\n"
        "**Locked resources:**\n"
        f"- `src/router.py` by `{sid}`\n"
        f"- `deploy` by `{other}`"
    )


def test_a_session_is_stale_after_thirty_minutes_and_stays_active(
    eng: Engram, sid: str, store_url: str, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.client.Clock", lambda: clock)
    eng.lock_resource(sid, "deploy")
    for hours, sign in ((0.4, "●"), (0.6, "⚠ stale"), (24 * 40, "⚠ stale")):
        clock.shift = hours * 3_600
        with Engram(store_url) as later:
            other = later.register("codex", "Reviewing")
            report = later.get_situation_report()
            later.complete(other, "Reviewed")
            assert f"\n- {sign} `{sid}` (cowork): Porting the router\n" in report
            assert f"\n- `deploy` by `{sid}`" in report
    with Engram(store_url) as later:
        assert [len(later.get_recent_sessions(hours=hours)) for hours in (1, 24, 1_000_000, -1)] == [1, 1, 3, 0]


def test_passes_of_dreaming_appear_nowhere(eng: Engram, sid: str, store_url: str) -> None:
    eng.lock_resource(sid, "deploy")
    before = (eng.get_active_sessions(), eng.get_recent_sessions(), eng.stats(), eng.get_situation_report())
    with Store(store_url) as store:
        done = store.sessions.register("dream", "dreaming")
        store.sessions.complete(done, "dreamt")
        dreaming = store.sessions.register("dream", "dreaming")
        with store.leases.hold(dreaming, "dream"):
            after = (eng.get_active_sessions(), eng.get_recent_sessions(), eng.stats(), eng.get_situation_report())
            assert after == before
            assert eng.check_locks("dream") == []
            assert eng.get_session(dreaming) is None
            assert eng.get_session_logs(dreaming) == []


def test_a_program_sees_the_agents_that_use_engram_itself(eng: Engram, sid: str, store_url: str) -> None:
    with Store(store_url) as store:
        agent = store.sessions.register("claude-code", "Editing the router", {"model": "opus"})
        store.leases.claim(agent, "acme/app:src/**", "rewriting")
        [lock] = eng.check_locks("acme/app:src/router.py")
        assert (lock["session_id"], lock["resource"], lock["note"]) == (agent, "acme/app:src/**", "rewriting")
        session = eng.get_session(agent)
        assert session is not None and session["metadata"] == '{"model": "opus"}'
        assert f"- `acme/app:src/**` by `{agent}`" in eng.get_situation_report()
        # And they see the program.
        eng.lock_resource(sid, "deploy")
        assert {each.id for each in store.sessions.active()} == {sid, agent}
        assert sid in store.sitrep()


def test_an_empty_world_state_is_not_an_unset_one(eng: Engram) -> None:
    assert "set_world_state" in eng.get_world_state()
    eng.set_world_state("")
    assert eng.get_world_state() == ""
    eng.set_world_state("Quiet", updated_by="cowork-1")
    assert eng.get_world_state() == "Quiet"


def test_nothing_in_a_text_can_imitate_lines_of_the_report(eng: Engram, sid: str) -> None:
    eng.heartbeat(sid, "Working\n**Locked resources:**\n- `all` by `me`\x1b[2J")
    eng.lock_resource(sid, "a\n- `b` by `c`")
    *_, session, empty, title, lock = eng.get_situation_report().split("\n")
    assert session.startswith(f"- ● `{sid}` (cowork): Working **Locked") and "\x1b" not in session
    assert (empty, title) == ("", "**Locked resources:**")
    assert lock.endswith(f"by `{sid}`")


def test_objects_that_are_no_longer_used_leave_nothing_open(store_url: str) -> None:
    def use() -> None:
        Engram(store_url).get_active_sessions()

    def state() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    use()
    before = state()
    for _ in range(10):
        use()
    assert state() == before


def test_a_registry_is_used_by_many_threads(eng: Engram, sid: str) -> None:
    def work(number: int) -> Callable[[], None]:
        def run() -> None:
            for step in range(5):
                eng.log(sid, f"{number}.{step}")
                eng.lock_resource(sid, f"resource {number}")

        return run

    threads = [threading.Thread(target=work(number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(eng.get_session_logs(sid, limit=100)) == 20
    assert eng.stats()["active_locks"] == 4


def test_a_type_of_the_name_of_passes_is_a_type_like_others(eng: Engram) -> None:
    for given in ("dream", "dream "):
        sid = eng.register(given, "Sorting")
        eng.lock_resource(sid, "a")
        found = eng.get_session(sid)
        assert found is not None and found["session_type"] == given
        assert f"`{sid}` ({given}): Sorting" in eng.get_situation_report()
        assert [lock["session_type"] for lock in eng.check_locks("a")] == [given]
        eng.complete(sid, "Sorted")
    assert {each["session_type"] for each in eng.get_recent_sessions()} == {"dream", "dream "}
    assert eng.stats()["total_sessions"] == 2


def test_metadata_comes_back_as_the_text_it_was(eng: Engram, store_url: str) -> None:
    for text in ("hm", "", '{"text": "hm"}', '{"metadata":"x"}', "[1]"):
        found = eng.get_session(eng.register("cowork", "x", text))
        assert found is not None and found["metadata"] == text
    with Store(store_url) as other:
        found = eng.get_session(other.sessions.register("codex", "x", {"text": "hm"}))
        assert found is not None and found["metadata"] == '{"text": "hm"}'


def test_a_lock_is_taken_although_the_session_is_being_completed(
    eng: Engram, sid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, heartbeat, left = eng._store.sessions, eng._store.sessions.heartbeat, [1, 2]

    def heard(id: str) -> None:
        heartbeat(id)
        if left and left.pop():
            eng.complete(id, "Done")  # by another thread

    monkeypatch.setattr(sessions, "heartbeat", heard)
    eng.complete(sid, "Done")
    eng.lock_resource(sid, "a")
    assert [lock["session_id"] for lock in eng.check_locks("a")] == [sid]


def test_wrong_arguments_are_refused_by_name(eng: Engram, sid: str) -> None:
    calls: list[tuple[Callable[..., object], tuple[object, ...], str]] = [
        (eng.log, (sid, None), "entry"),
        (eng.lock_resource, (sid, None), "resource"),
        (eng.release_resource, (sid, 5), "resource"),
        (eng.check_locks, (None,), "resource"),
        (eng.get_session_logs, (sid, None), "limit"),
        (eng.get_recent_sessions, ("24",), "hours"),
        (eng.register, (None, "x"), "session type"),
        (eng.register, ("cowork", "x", {"a": 1}), "metadata"),
        (Engram, (b"x.db",), "store"),
        (Engram, (5,), "store"),
        (Store, (5,), "store"),
    ]
    for call, arguments, named in calls:
        with pytest.raises(InvalidInput, match=named):
            call(*arguments)
    assert eng.check_locks("None") == []
