"""The page Dreams, and the reports of passes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from engram import Engram, config
from engram.clock import later
from engram.dreaming import plans
from engram.interfaces.http.options import Options
from engram.interfaces.web import dream_report as report_page
from engram.interfaces.web import dreams as dreams_page
from engram.records import Proposal
from tests._passes import talk
from tests.conftest import ShiftedClock
from tests.interfaces._browser import Page
from tests.interfaces._server import Server, serving

from ._person import Person, person

DAY = 86_400.0
HOSTILE = "<script>alert(1)</script> deploys"


@pytest.fixture
def server(sqlite_url: str, clock: ShiftedClock) -> Iterator[Server]:
    settings = config.load(url=sqlite_url, dream_min_age=0)
    with Engram(sqlite_url, clock=clock, settings=settings) as eng, serving(eng) as server:
        yield server


@pytest.fixture
def eng(server: Server) -> Engram:
    return server.eng


@pytest.fixture
def admin(server: Server) -> Iterator[Person]:
    with person(server) as someone:
        yield someone


def consolidate(eng: Engram) -> dict[str, Proposal]:
    (report,) = eng.dream(force=True, stages=["consolidate"])
    assert report.errors == []
    return {each.what: each for each in eng.proposals.list()}


def disagree(eng: Engram) -> tuple[int, int]:
    """Two memories that contradict each other, the older one first."""
    old = eng.remember("The staging database listens on port 5432.", kind="fact")
    new = eng.remember("The staging database listens on port 6543.", kind="fact")
    return old.id, new.id


def repeat(eng: Engram, text: str = "Invoices go out with the first train") -> None:
    """Two memories that say the same."""
    eng.remember(f"{text}.", kind="note")
    eng.remember(text, kind="fact")


def calls(page: Page) -> list[tuple[str, dict[str, Any]]]:
    """The calls that the forms of a page make, with the values that they send anyway."""
    found = []
    for form in re.findall(r"<form[^>]*data-call=.*?</form>", page.response.text, re.DOTALL):
        name = re.search(r'data-call="([^"]*)"', form)
        values = re.search(r'data-values="([^"]*)"', form)
        assert name is not None
        found.append((name[1], json.loads(unescape(values[1])) if values else {}))
    return found


@pytest.mark.requirement("PAGE-60")
def test_a_proposal_is_shown_with_its_reason_its_memories_and_what_changes(eng: Engram, admin: Person) -> None:
    old, new = disagree(eng)
    consolidate(eng)
    page = admin.see("dreams")
    assert page.status == 200
    assert f"Replace memory {old} by memory {new}" in page.text
    assert "contradicts" in page.text
    assert "The staging database listens on port <del>5432</del>." in page.response.text
    assert "The staging database listens on port <ins>6543</ins>." in page.response.text
    assert f"/w/default/memories/{old}" in page.links
    assert "% sure" in page.text


@pytest.mark.requirement("PAGE-60")
def test_a_stale_proposal_says_why_it_cannot_be_applied_and_can_only_be_dismissed(eng: Engram, admin: Person) -> None:
    old, _ = disagree(eng)
    proposal = consolidate(eng)["supersede"]
    eng.memories.update(old, content="The staging database is gone.")
    page = admin.see("dreams")
    assert f"It cannot be applied. Memory {old} was changed since." in page.text
    assert [name for name, values in calls(page) if values.get("id") == proposal.id] == ["library:proposals.reject"]
    eng.memories.archive(old)
    assert f"Memory {old} is archived now." in admin.see("dreams").text


@pytest.mark.requirement("PAGE-60")
def test_a_block_that_is_too_long_is_proposed_to_be_cut(eng: Engram, admin: Person) -> None:
    eng.blocks.create("plan", "\n".join(f"Step {number} of the plan" for number in range(60)), max_tokens=100)
    consolidate(eng)
    page = admin.see("dreams")
    assert "Shorten the block plan" in page.text
    assert "/w/default/blocks/plan" in page.links
    assert "<del>Step 59 of the plan</del>" in page.response.text


@pytest.mark.requirement("PAGE-60")
def test_proposals_are_shown_in_pages(eng: Engram, admin: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dreams_page, "_PROPOSALS", 2)
    for text in ("Invoices go out by train", "The backup is stored in Zurich", "Every migration needs a review"):
        repeat(eng, text)
    consolidate(eng)
    first, second, third = (each.id for each in eng.proposals.list())
    page = admin.see("dreams")
    assert [f'id="proposal-{each}"' in page.response.text for each in (first, second, third)] == [True, True, False]
    (following,) = (each for each in page.links if "after=" in each)
    later = admin.see(following.removeprefix("/w/default/"))
    assert [f'id="proposal-{each}"' in later.response.text for each in (first, second, third)] == [False, False, True]


@pytest.mark.requirement("PAGE-65")
def test_proposals_with_long_texts_are_decided_on_their_own_pages(eng: Engram, admin: Person) -> None:
    long = [eng.remember(f"{word} {number} " * 30_000) for number in range(10) for word in ("noon", "night")]
    with eng._view.engine.write() as tx:
        for old, new in zip(long[::2], long[1::2], strict=True):
            eng.proposals.add(tx, plans.supersede(old, new, 0.9), 1)
    waiting = eng.proposals.list()
    page = admin.see("dreams")
    assert len(page.response.content) < 4_000_000
    left_out = [each for each in waiting if f"/w/default/dreams?proposal={each.id}" in page.links]
    assert left_out
    assert not {each.id for each in left_out} & {values.get("id") for _, values in calls(page)}
    alone = admin.see("dreams", proposal=left_out[0].id)
    assert left_out[0].id in {values.get("id") for _, values in calls(alone)}
    assert "noon 9 " * 30_000 in admin.see("dreams", proposal=waiting[-1].id).text.replace("\n", " ")
    assert admin.see("dreams", proposal=10**6).status == 404


@pytest.mark.requirement("PAGE-61")
def test_the_buttons_decide_as_a_person_for_an_admin_and_as_an_agent_for_others(eng: Engram, server: Server) -> None:
    repeat(eng)
    proposal = consolidate(eng)["merge"]
    shown = {"id": proposal.id, "expected": proposal.version}
    with person(server) as admin:
        assert [(name, values) for name, values in calls(admin.see("dreams")) if values.get("id") == proposal.id] == [
            ("library:proposals.apply", {**shown, "by_person": True}),
            ("library:proposals.reject", shown),
            ("library:proposals.apply", {**shown, "by_person": True}),
        ]
    with person(server, "write") as writer:
        assert [(name, values) for name, values in calls(writer.see("dreams")) if values.get("id") == proposal.id] == [
            ("dream.review", {**shown, "decide": "apply"}),
            ("dream.review", {**shown, "decide": "reject"}),
            ("dream.review", {**shown, "decide": "apply"}),
        ]
    with person(server, "read") as reader:
        page = reader.see("dreams")
        assert "Merge 2 memories" in page.text
        assert calls(page) == []


@pytest.mark.requirement("PROPOSAL-10")
def test_nobody_approves_a_text_that_was_edited_after_the_page_was_loaded(eng: Engram, server: Server) -> None:
    repeat(eng)
    proposal = consolidate(eng)["merge"]
    with person(server) as admin, person(server, "write") as writer:
        ((_, by_person),) = [each for each in calls(admin.see("dreams")) if "by_person" in each[1]][:1]
        ((_, by_agent),) = [each for each in calls(writer.see("dreams")) if each[1].get("decide") == "apply"][:1]
    with server.http(server.token("boss", "admin")) as http, server.http(server.token("agent")) as agent:
        edit = {"id": proposal.id, "decide": "edit", "text": "Invoices go out unchecked"}
        assert agent.post("/api/v1/dream/review", json=edit).status_code == 200
        refused = [
            http.post("/api/v1/library/proposals.apply", json={"options": by_person}),
            agent.post("/api/v1/dream/review", json=by_agent),
        ]
    for answer in refused:
        assert answer.status_code == 409
        assert "was edited meanwhile" in answer.json()["error"]["message"]
    assert eng.proposals.show(proposal.id).state == "edited"


@pytest.mark.requirement("PAGE-61")
def test_what_the_buttons_call_works_and_an_applied_proposal_can_be_undone(eng: Engram, server: Server) -> None:
    repeat(eng)
    proposal = consolidate(eng)["merge"]
    with server.http(server.token("boss", "admin")) as http, person(server) as admin:
        made = http.post("/api/v1/library/proposals.apply", json={"options": {"id": proposal.id, "by_person": True}})
        assert made.status_code == 200
        assert "Nothing waits for a decision" in admin.see("dreams").text
        page = admin.see("dreams", state="applied")
        number = eng.proposals.show(proposal.id).applied_as
        assert ("dream.undo", {"run": number}) in calls(page)
        assert f"/w/default/dreams/{number}" in page.links
        assert http.post("/api/v1/dream/undo", json={"run": number}).status_code == 200
        assert "Merge 2 memories" in admin.see("dreams").text


@pytest.mark.requirement("PAGE-61")
def test_rejected_and_accepted_proposals_can_be_decided_again(eng: Engram, admin: Person) -> None:
    repeat(eng)
    proposal = consolidate(eng)["merge"]
    decided = {"id": proposal.id, "expected": proposal.version, "by_person": True}
    eng.proposals.reject(proposal.id)
    assert ("library:proposals.accept", decided) in calls(admin.see("dreams", state="rejected"))
    eng.proposals.accept(proposal.id)
    page = admin.see("dreams", state="accepted")
    assert "the next pass applies it" in page.text
    assert ("library:proposals.apply", decided) in calls(page)


@pytest.mark.requirement("PAGE-62")
def test_what_is_due_is_said_with_the_reason_and_only_an_admin_can_run_a_pass(eng: Engram, server: Server) -> None:
    session = talk(eng)
    eng.sessions.complete(session, "done")
    with person(server) as admin:
        page = admin.see("dreams", view="due")
        assert "1 session with something new: 1 ended." in page.text
        assert "extractive" in page.text
        assert ("dream.run", {"force": True}) in calls(page)
        preview = admin.see("dreams", view="preview")
        assert "Nothing is written by this preview." in preview.text
        assert f"/w/default/sessions/{session}" in preview.links
    assert eng.dreams.list() == []
    with person(server, "write") as writer:
        page = writer.see("dreams", view="due", preview=1)
        assert calls(page) == []
        assert "preview" not in page.text
        assert writer.see("dreams", view="preview").status == 403


@pytest.mark.requirement("PAGE-62")
def test_a_running_pass_is_shown_and_cannot_be_started_twice(eng: Engram, admin: Person) -> None:
    eng.sessions.complete(talk(eng), "done")
    seen: list[Page] = []

    def progress(stage: str, done: int, total: int) -> None:
        if not seen:
            seen.extend((admin.see("dreams", view="due"), admin.see("dreams", view="passes"), admin.see("dreams/1")))

    eng.dream(force=True, progress=progress)
    due, passes, report = seen
    assert "0 of 1 session are summarised" in due.text
    assert calls(due) == []
    assert "running" in passes.text
    assert calls(passes) == []
    assert "The pass is running." in report.text


@pytest.mark.requirement("PAGE-62")
def test_passes_are_listed_with_what_they_made_and_what_an_undo_takes_back(eng: Engram, admin: Person) -> None:
    eng.sessions.complete(talk(eng), "done")
    (report,) = eng.dream(force=True)
    page = admin.see("dreams", view="passes")
    assert "1 gist" in page.text
    assert "no model calls" in page.text
    assert ("dream.undo", {"run": report.id}) in calls(page)
    assert "It wrote 1 gist" in unescape(page.response.text)
    undone = eng.dreams.undo(report.id)
    page = admin.see("dreams", view="passes")
    assert f"undone by {undone.id}" in page.text
    assert ("dream.undo", {"run": undone.id}) in calls(page)


@pytest.mark.requirement("PAGE-62")
def test_cost_and_yield_are_charts_with_tables(eng: Engram, admin: Person) -> None:
    empty = admin.see("dreams", view="numbers")
    assert "No model was called in these days." in empty.text
    eng.sessions.complete(talk(eng), "done")
    eng.dream(force=True)
    with eng._view.engine.write() as tx:
        for ago, calls_made in ((0.0, 3), (10 * DAY, 9)):
            tx.run(
                "INSERT INTO usage (workspace, day, stage, calls, input_tokens, output_tokens)"
                " VALUES ('default', :day, 'auto/sessions', :calls, 4000, 500)",
                day=later(eng.now(), -ago)[:10],
                calls=calls_made,
            )
    page = admin.see("dreams", view="numbers")
    assert "9,000 tokens in all" in page.text
    assert "sessions, automatic" in page.text
    assert "12 calls in all" in page.text
    assert "gists" in page.text
    assert "3 calls in all" in admin.see("dreams", view="numbers", days=7).text
    assert admin.see("dreams", view="numbers", days=8).status == 400


@pytest.mark.requirement("PAGE-63")
def test_the_report_of_a_pass_shows_the_gists_and_links_what_it_made(eng: Engram, admin: Person) -> None:
    session = talk(eng)
    eng.sessions.complete(session, "done")
    (report,) = eng.dream(force=True)
    page = admin.see(f"dreams/{report.id}")
    gist = eng.memories.gist(session)
    assert gist is not None
    assert f"/w/default/sessions/{session}" in page.links
    assert f"/w/default/memories/{gist.id}" in page.links
    assert "/w/default/blocks/narrative" in page.links
    assert "1 session summarised" in page.text
    assert "Memories stored by the pass" in page.text
    assert "It wrote 1 gist" in page.text


@pytest.mark.requirement("PAGE-63")
def test_the_report_of_a_pass_shows_what_the_pass_learnt_and_says_if_there_is_more(
    eng: Engram, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "_LEARNT", 3)
    wishes = ("tea in the morning", "short commit messages", "a dark theme for all editors", "flights with one stop")
    for wish in wishes:
        eng.sessions.complete(talk(eng, f"I always prefer {wish}."), "Done")

    def progress(stage: str, done: int, total: int) -> None:
        if not eng.memories.list(tag="meanwhile"):
            eng.remember("Somebody else stored this", tags=["meanwhile"])

    (report,) = eng.dream(force=True, progress=progress)
    assert eng.memories.list(tag="meanwhile")
    page = admin.see(f"dreams/{report.id}")
    stored = page.response.text.partition("Memories stored by the pass")[2].partition("</section>")[0]
    assert stored.count("<p>I always prefer") == 3
    assert "There are more" in stored
    assert "Somebody else" not in page.text


@pytest.mark.requirement("PAGE-63")
def test_alarms_and_errors_are_above_everything_else_in_a_report(eng: Engram, admin: Person) -> None:
    eng.sessions.complete(talk(eng), "done")
    (report,) = eng.dream(force=True)
    told = report._replace(alarms=["Memory 3 is no longer found."], errors=["eras: the model is away"])
    with eng._view.engine.write() as tx:
        eng.dreams._store_report(tx, told)
    text = admin.see(f"dreams/{report.id}").text
    assert text.index("Memory 3 is no longer found.") < text.index("the model is away") < text.index("It wrote")
    assert "Memory 3 is no longer found." in admin.see("dreams", view="passes").text
    assert "Memory 3 is no longer found." in admin.see("dreams", view="due").text


@pytest.mark.requirement("PAGE-63")
def test_an_undo_and_an_applied_proposal_have_a_report(eng: Engram, admin: Person) -> None:
    repeat(eng)
    proposal = consolidate(eng)["merge"]
    number = eng.proposals.apply(proposal.id).applied_as
    applied = admin.see(f"dreams/{number}")
    assert f"Proposal {proposal.id} was applied." in applied.text
    report = eng.dreams.undo(number)
    page = admin.see(f"dreams/{report.id}")
    assert f"This took back everything that number {number} changed." in page.text
    for name in report.restored:
        assert f"/w/default/memories/{name.removeprefix('memory ')}" in page.links
    (removed,) = report.removed
    assert removed in page.text
    assert f"/w/default/memories/{removed.removeprefix('memory ')}" not in page.links
    assert ("dream.undo", {"run": report.id}) in calls(page)


@pytest.mark.requirement("PAGE-63")
def test_what_is_not_there_is_said_with_a_page(admin: Person) -> None:
    assert admin.see("dreams/99").status == 404
    for path, query in (
        ("dreams/x", {}),
        ("dreams", {"view": "x"}),
        ("dreams", {"state": "x"}),
        ("dreams", {"after": "x"}),
    ):
        page = admin.see(path, **query)
        assert page.status == 400, path
        assert "To the page Now" in page.text


@pytest.mark.requirement("PAGE-60")
def test_stored_text_is_shown_as_text_on_every_view(eng: Engram, admin: Person) -> None:
    repeat(eng, HOSTILE)
    eng.blocks.create("plan", f"{HOSTILE}\n" * 60, max_tokens=100)
    eng.sessions.complete(talk(eng, f"Always remember that {HOSTILE} on Mondays."), HOSTILE)
    (report,) = eng.dream(force=True)
    assert len(eng.proposals.list()) > 1
    views: list[tuple[str, dict[str, str]]] = [("dreams", {}), (f"dreams/{report.id}", {}), ("portrait", {})]
    views += [("dreams", {"view": each}) for each in ("due", "passes", "numbers")]
    for path, query in views:
        page = admin.see(path, **query)
        assert page.status == 200, path
        assert "<script>alert" not in page.response.text, path
        assert "style" not in page.attributes, path


@pytest.mark.requirement("PAGE-62")
def test_empty_views_say_what_would_fill_them(admin: Person) -> None:
    assert "engram dream" in admin.see("dreams").text
    assert "There has been no pass yet." in admin.see("dreams", view="passes").text
    assert "Nothing is due" in admin.see("dreams", view="due").text
    assert "No proposal is rejected." in admin.see("dreams", state="rejected").text


@pytest.mark.requirement("PAGE-62")
def test_a_pass_is_told_as_a_sentence(eng: Engram, admin: Person) -> None:
    for wish in ("tea in the morning", "short commit messages"):
        eng.sessions.complete(talk(eng, f"I always prefer {wish}."), "done")
    (report,) = eng.dream(force=True)
    told = report._replace(eras=["2026-11", "2026-10"], blocks={"profile": 1, "narrative": 1, "plan": 3}, extracted=12)
    with eng._view.engine.write() as tx:
        eng.dreams._store_report(tx, told)
    wrote = "It wrote 2 gists, 2 eras, the profile, the narrative and the block plan, and learnt 12 statements."
    assert wrote in admin.see(f"dreams/{report.id}").text


@pytest.mark.requirement("PAGE-62")
def test_an_undo_that_forgetting_limits_says_so_before_and_afterwards(eng: Engram, admin: Person) -> None:
    sessions = [talk(eng, f"I always prefer {wish}.") for wish in ("tea", "coffee", "milk", "water")]
    for session in sessions:
        eng.sessions.complete(session, "done")
    # Without the narrative, which is made from all gists.
    (report,) = eng.dream(force=True, stages=["sessions"])
    for path, query in ((f"dreams/{report.id}", {}), ("dreams", {"view": "passes"})):
        asked = unescape(admin.see(path, **query).response.text)
        assert "nothing is undone" in asked
        assert "forgotten since" not in asked
    eng.forget(exchange=eng.exchanges.history(sessions[0])[0].id)
    for path, query in ((f"dreams/{report.id}", {}), ("dreams", {"view": "passes"})):
        asked = unescape(admin.see(path, **query).response.text)
        assert "What lost text to that, and what it was made from, stays as it is" in asked
    undone = eng.dreams.undo(report.id)
    assert undone.left and (undone.restored or undone.removed)
    afterwards = admin.see(f"dreams/{report.id}").text
    assert "is not in the store any more" not in afterwards
    assert f"but not all of it: {len(undone.left)} things stayed" in afterwards
    page = admin.see(f"dreams/{undone.id}")
    done = len(undone.restored) + len(undone.removed)
    assert "everything that" not in page.text
    assert f"This took back {done} thing" in page.text
    assert f"of {done + len(undone.left)} that number {report.id} changed" in page.text
    for name in undone.left:
        kind, _, ref = name.partition(" ")
        folder = {"memory": "memories", "block": "blocks", "session": "sessions"}[kind]
        assert f"/w/default/{folder}/{ref}" in page.links


@pytest.mark.requirement("PAGE-63")
def test_an_undo_that_took_nothing_back_says_so(eng: Engram, admin: Person) -> None:
    session = talk(eng)
    eng.sessions.complete(session, "done")
    (report,) = eng.dream(force=True)
    eng.forget(exchange=eng.exchanges.history(session)[0].id)
    undone = eng.dreams.undo(report.id)
    assert undone.left and not undone.restored and not undone.removed
    assert "This took nothing back" in admin.see(f"dreams/{undone.id}").text


@pytest.mark.requirement("PAGE-63")
def test_the_things_of_an_undo_are_listed_by_number(eng: Engram, admin: Person) -> None:
    eng.sessions.complete(talk(eng), "done")
    (report,) = eng.dream(force=True)
    undone = eng.dreams.undo(report.id)
    left = [f"memory {number}" for number in (1, 10, 11, 2, 20, 3)]
    with eng._view.engine.write() as tx:
        eng.dreams._store_report(tx, undone._replace(left=left))
    page = admin.see(f"dreams/{undone.id}")
    shown = page.text.partition("What stayed as it was")[2]
    assert re.findall(r"memory (\d+)", shown)[:6] == ["1", "2", "3", "10", "11", "20"]
    assert {f"/w/default/memories/{number}" for number in (1, 2, 3, 10, 11, 20)} <= set(page.links)


@pytest.mark.requirement("PAGE-62")
@pytest.mark.parametrize(
    ("dream", "setting", "told"),
    [(None, "on", "Automatically"), (False, "on", "--no-dream"), (None, "off", "setting auto_dream")],
)
def test_a_server_that_starts_no_pass_says_why_and_promises_no_time(
    sqlite_url: str, clock: ShiftedClock, dream: bool | None, setting: str, told: str
) -> None:
    settings = config.load(url=sqlite_url, auto_dream=setting)
    with Engram(sqlite_url, clock=clock, settings=settings) as eng:
        eng.remember("Staging listens on port 5432", kind="fact")
        assert any(each.at for each in eng.dreams.status().due if not each.due)
        with serving(eng, Options(dream=dream)) as server, person(server) as someone:
            text = someone.see("dreams", view="due").text
    assert told in text
    assert ("Automatically" in text) is (told == "Automatically")


@pytest.mark.requirement("PAGE-62")
def test_urgencies_are_told_apart_from_what_is_pending_now(eng: Engram, admin: Person) -> None:
    eng.sessions.complete(talk(eng), "done")
    eng.dream(force=True)
    eng.sessions.complete(talk(eng), "done")
    text = admin.see("dreams", view="due").text
    assert (
        text.index("Pending now: 1 session to summarise")
        < text.index("when the last pass ended")
        < text.index("continuity")
    )


@pytest.mark.requirement("PAGE-62")
def test_a_pass_names_what_it_summarised_and_what_all_passes_share_is_said_once(eng: Engram, admin: Person) -> None:
    session = eng.sessions.register("codex", "Porting the router")
    eng.exchanges.add(session, "user", "Please port the router to the new table of routes")
    eng.exchanges.add(session, "assistant", "The router is ported, and all tests pass now.")
    eng.sessions.complete(session)
    for _ in range(3):
        eng.dream(force=True)
    page = admin.see("dreams", view="passes")
    assert f"/w/default/sessions/{session}" in page.links
    assert "Each of these passes: extractive, no model calls." in page.text
    assert page.text.count("no model calls") == 1


@pytest.mark.requirement("PAGE-62")
def test_while_nothing_is_due_urgencies_are_folded_and_no_button_stands_out(eng: Engram, admin: Person) -> None:
    eng.dream(force=True)
    page = admin.see("dreams", view="due").response.text
    assert "Nothing is due" in page
    assert '<details id="drives"' in page
    assert re.search(r'class="second"[^>]*>(?:(?!</button>).)*Run what is due', page)
