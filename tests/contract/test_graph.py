"""What is around a memory, session, file or block."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from engram import BlockNotFound, Engram, Graph, InvalidInput, MemoryNotFound, SessionNotFound
from engram.config import load
from engram.coordination.graph import DEGREE
from engram.coordination.touched_files import EDITING_TOOLS, edited, mentioned
from engram.interfaces.demo.filling import fill
from engram.interfaces.hooks import claude_code, codex, cursor, gemini, respond
from tests.conftest import ShiftedClock

PROJECT = "acme/shop"
ROUTER = f"{PROJECT}:src/router.py"


def links(graph: Graph) -> set[tuple[str, str, str]]:
    """Type, label of the start, label of the end."""
    labels = {(node.kind, node.id): node.label for node in graph.nodes}
    return {(link.type, labels[link.start], labels[link.end]) for link in graph.links}


def labels(graph: Graph, steps: int | None = None) -> list[str]:
    return [node.label for node in graph.nodes if steps in (None, node.steps)]


@pytest.fixture
def session(eng: Engram) -> str:
    return eng.sessions.register("codex", "Port the router", project=PROJECT)


@pytest.mark.requirement("GRAPH-1")
def test_a_memory_leads_to_its_session_its_sources_what_it_replaces_and_what_it_is_linked_to(
    eng: Engram, session: str
) -> None:
    turn = eng.exchanges.add(session, "user", "Never on Fridays", embed=False)
    old = eng.remember("Deploys on any day", embed=False)
    made = eng.remember("Deploys never on Fridays", kind="preference", sources=[("exchange", turn)], embed=False)
    also = eng.remember("Fridays are for reading", embed=False)
    eng.memories.supersede(old.id, made.id)
    eng.memories.link(also.id, made.id, "explains")
    derived = eng.remember("A digest", kind="digest", sources=[("memory", made.id)], embed=False)

    graph = eng.graph("memory", made.id)
    first, *others = graph.nodes
    assert (first.kind, first.id, first.label, first.detail, first.at, first.steps) == (
        "memory",
        str(made.id),
        "Deploys never on Fridays",
        "preference, active",
        made.created_at,
        0,
    )
    assert links(graph) == {
        ("made from", "Deploys never on Fridays", "Port the router"),
        ("made from", "A digest", "Deploys never on Fridays"),
        ("replaces", "Deploys never on Fridays", "Deploys on any day"),
        ("about", "Fridays are for reading", "Deploys never on Fridays"),
    }
    assert {(node.kind, node.detail) for node in others} == {
        ("session", "codex, active"),
        ("memory", "digest, active"),
        ("memory", "note, superseded"),
        ("memory", "note, active"),
    }
    # Newest first; and a text is as good an id as a number.
    assert [node.id for node in others if node.kind == "memory"] == [str(derived.id), str(also.id), str(old.id)]
    assert eng.graph("memory", str(made.id)) == graph
    assert graph.more == 0


@pytest.mark.requirement("GRAPH-1")
def test_a_session_leads_to_what_was_made_from_it_and_to_the_files_it_claimed_or_wrote(
    eng: Engram, session: str, clock: ShiftedClock
) -> None:
    turn = eng.exchanges.add(session, "user", "Never on Fridays", embed=False)
    eng.leases.claim(session, f"{PROJECT}:src/limits.py")
    eng.leases.release(session, f"{PROJECT}:src/limits.py")
    clock.advance(1)
    eng.sessions.log(session, "Edit /home/me/shop/src/router.py: done")
    eng.sessions.log(session, "Read /home/me/shop/src/secret.py: done")
    eng.sessions.log(session, "Bash rm src/gone.py: done")
    eng.remember("Said in it", sources=[("exchange", turn)], embed=False)
    eng.remember("Stored in it", session_id=session, embed=False)

    graph = eng.graph("session", session)
    assert links(graph) == {
        ("made from", "Said in it", "Port the router"),
        ("made from", "Stored in it", "Port the router"),
        ("about", "Port the router", "src/router.py"),
        ("about", "Port the router", "src/limits.py"),
    }
    files = [(node.id, node.detail) for node in graph.nodes if node.kind == "file"]
    assert files == [(ROUTER, PROJECT), (f"{PROJECT}:src/limits.py", PROJECT)]


@pytest.mark.requirement("GRAPH-1")
def test_a_file_leads_to_sessions_that_claim_or_wrote_it_and_to_memories_that_name_it(
    eng: Engram, session: str
) -> None:
    claims = eng.sessions.register("claude-code", "Claims all of src", project=PROJECT)
    eng.leases.claim(claims, f"{PROJECT}:src/**")
    elsewhere = eng.sessions.register("codex", "Another router", project="acme/other")
    eng.sessions.log(session, "Edit /home/me/shop/src/router.py: done")
    eng.sessions.log(elsewhere, "Edit /home/me/other/src/router.py: done")
    eng.remember("The routes are in src/router.py", project=PROJECT, embed=False)
    eng.remember("The router is fast", project=PROJECT, embed=False)
    eng.embedding_queue.work()

    graph = eng.graph("file", ROUTER)
    assert graph.nodes[0][:4] == ("file", ROUTER, "src/router.py", PROJECT)
    assert graph.nodes[0].at is not None
    assert {link for link in links(graph) if link[2] == "src/router.py"} == {
        ("about", "Claims all of src", "src/router.py"),
        ("about", "Port the router", "src/router.py"),
        ("about", "The routes are in src/router.py", "src/router.py"),
    }
    assert eng.graph("file", f"{PROJECT}:src/unknown.txt").nodes[0].label == "src/unknown.txt"


def make_project(folder: Path) -> Path:
    """A clone of the project, whatever its folder is called."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/acme/shop.git\n')
    return folder


def is_found(eng: Engram, kind: str, id: str, file: str) -> bool:
    """Whether the graph of the file has the link from this thing, unless it says that more are left out."""
    graph = eng.graph("file", file)
    root = graph.nodes[0]
    return graph.more > 0 or any((link.start, link.end) == ((kind, id), (root.kind, root.id)) for link in graph.links)


def not_found_from_their_files(eng: Engram) -> tuple[int, list[tuple[str, str, str]]]:
    """How many links to files the graphs of all memories and sessions have, and those that a file does not have."""
    memories = [each for status in ("active", "superseded", "archived") for each in eng.memories.list(status=status)]
    things = [("memory", str(each.id)) for each in memories]
    things += [("session", each.id) for each in eng.sessions.list()]
    found = {
        (*link.start, link.end[1])
        for thing in things
        for link in eng.graph(*thing).links
        if link.end[0] == "file" and link.start == thing
    }
    return len(found), sorted(each for each in found if not is_found(eng, *each))


@pytest.mark.requirement("GRAPH-1")
def test_whatever_leads_to_a_file_of_the_demo_is_found_from_that_file(new_sqlite_url: str) -> None:
    fill(load(url=new_sqlite_url, workspace="demo"))
    with Engram(new_sqlite_url, workspace="demo") as eng:
        count, missing = not_found_from_their_files(eng)
        assert count > 80
        assert missing == []
        # As a person types it, whichever folder that person is in.
        graph = eng.graph("file", "src/checkout/steps/payment.tsx")
        assert graph.nodes[0].id == "acme/shop:src/checkout/steps/payment.tsx"
        assert {"memory", "session"} <= {node.kind for node in graph.nodes}


@pytest.mark.requirement("GRAPH-1")
def test_whatever_leads_to_a_file_is_found_from_that_file(eng: Engram, session: str) -> None:
    lines = [
        "Edit /home/me/shop/src/router.py: done",
        "Write src/userStore_v2.py: failed",
        "apply_patch src/max_retry-count.py, app/[id].tsx and 2 more: done",
        "Edit /home/me/worktree/src/limits.py: done",
        "Edit docs/plan.md",
        "Write ./src/the/tS.py: done",
    ]
    for line in lines:
        eng.sessions.log(session, line)
    nowhere = eng.sessions.register("codex", "In no project")
    eng.sessions.log(nowhere, "Edit /srv/notes/today.md: done")
    for resource in (f"{PROJECT}:src/released.py", f"{PROJECT}:src/**/*.sql", "port:8080"):
        eng.leases.claim(session, resource)
        eng.leases.release(session, resource)
    texts = {
        "note": "The routes are in src/router.py",
        "gist": "# Routes\n\nThe routes moved to `src/router.py`.",
        "digest": "In src/deep/er/routes.py and (src/userStore_v2.py).",
        "fact": "x\n" * 700 + "and then src/router.py\n" + "y\n" * 700,
    }
    made = [eng.remember(text, kind=kind, project=PROJECT, embed=False).id for kind, text in texts.items()]
    eng.memories.supersede(made[0], made[3])
    count, missing = not_found_from_their_files(eng)
    assert (count, missing) == (16, [])
    # Their words are found by the index as well as before it knows them.
    eng.embedding_queue.work()
    assert not_found_from_their_files(eng) == (16, [])


@pytest.mark.requirement("GRAPH-1")
@pytest.mark.parametrize("folder", ["shop", "worktree"])
def test_a_file_that_a_hook_recorded_leads_to_its_session(
    store_url: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / folder)
    (project / "src").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("ENGRAM_URL", store_url)
    given = {"tool_name": "Edit", "tool_input": {"file_path": f"{project}/src/router.py", "old_string": "a"}}
    for event, fields in (("SessionStart", {"source": "startup"}), ("PreToolUse", given), ("PostToolUse", given)):
        payload = {"session_id": "s1", "cwd": str(project), "hook_event_name": event, "tool_response": {}, **fields}
        respond("claude-code", json.dumps(payload).encode())
    with Engram(store_url) as eng:
        session = eng.sessions.find("s1", "claude-code")
        assert session is not None
        assert [entry.content for entry in eng.sessions.logs(session.id)] == [f"Edit {project}/src/router.py: done"]
        eng.leases.release_all(session.id)
        files = [node.id for node in eng.graph("session", session.id).nodes if node.kind == "file"]
        assert ROUTER in files
        for file in (*files, "src/router.py", f"{project}/src/router.py"):
            assert is_found(eng, "session", session.id, file)


@pytest.mark.requirement("GRAPH-1")
def test_a_file_that_is_named_very_often_is_found_from_all_that_name_it(eng: Engram, session: str) -> None:
    for number in range(130):
        eng.sessions.log(session, f"Bash cat src/router.py | head -{number}: done")
        eng.sessions.log(session, "Edit src/router.py: done")
    early = eng.remember("See src/router.py", project=PROJECT, embed=False)
    for number in range(60):
        eng.remember(f"router.py, src/router.pyi and src/old/router.py of day {number}", project="acme/x", embed=False)
    other = eng.sessions.register("codex", "Another task", project=PROJECT)
    eng.sessions.log(other, "Edit src/router.py: done")
    eng.embedding_queue.work()
    assert all(is_found(eng, *each, ROUTER) for each in (("memory", str(early.id)), ("session", session)))
    assert set(labels(eng.graph("file", ROUTER), 1)) == {"See src/router.py", "Port the router", "Another task"}


@pytest.mark.requirement("GRAPH-1")
def test_a_path_of_another_machine_is_found_although_it_means_something_else_here(
    store_url: str, tmp_path: Path
) -> None:
    path = f"{make_project(tmp_path / 'worktree')}/src/router.py"
    with Engram(store_url) as eng:
        writes = eng.sessions.register("codex", "Writes it", project=PROJECT)
        eng.sessions.log(writes, f"Edit {path}: done")
        claims = eng.sessions.register("codex", "Claims it", project=PROJECT)
        eng.leases.claim(claims, path)
        eng.leases.release(claims, path)
        assert [node.id for node in eng.graph("session", writes).nodes if node.kind == "file"] == [path]
        graph = eng.graph("file", path)
        assert [(node.id, node.label) for node in graph.nodes if node.steps == 0] == [(ROUTER, "src/router.py")]
        assert set(labels(graph, 1)) == {"Writes it", "Claims it"}
        assert {node.id for node in graph.nodes if node.kind == "file"} == {ROUTER}


@pytest.mark.requirement("GRAPH-1")
def test_a_block_leads_to_what_it_was_made_from(eng: Engram, session: str) -> None:
    turn = eng.exchanges.add(session, "user", "I like tea", embed=False)
    fact = eng.remember("Likes tea", embed=False)
    eng.blocks.derive("profile", "Likes tea.", "", "a pass", 100, [("exchange", turn), ("memory", fact.id)])
    graph = eng.graph("block", "profile")
    assert graph.nodes[0][:4] == ("block", "profile", "profile", "version 1")
    assert links(graph) == {("made from", "profile", "Port the router"), ("made from", "profile", "Likes tea")}
    assert links(eng.graph("memory", fact.id)) >= {("made from", "profile", "Likes tea")}


@pytest.mark.requirement("GRAPH-2")
def test_each_node_adds_few_neighbours_the_newest_ones_and_counts_the_rest(eng: Engram, session: str) -> None:
    made = [eng.remember(f"Fact number {n}", session_id=session, embed=False) for n in range(DEGREE + 5)]
    graph = eng.graph("session", session)
    assert labels(graph, 1) == [each.content for each in reversed(made)][:DEGREE]
    assert graph.more == graph.nodes[0].more == 5
    assert {node.more for node in graph.nodes[1:]} == {0}
    small = eng.graph("session", session, limit=4)
    assert labels(small) == ["Port the router", *[each.content for each in reversed(made)][:3]]
    assert small.more == DEGREE + 2
    assert {end for link in small.links for end in (link.start, link.end)} == {(n.kind, n.id) for n in small.nodes}


@pytest.mark.requirement("GRAPH-2")
def test_the_graph_ends_two_links_away_and_says_what_it_did_not_read(eng: Engram) -> None:
    chain = [eng.remember(f"Link number {n}", embed=False).id for n in range(5)]
    for one, other in pairwise(chain):
        eng.memories.link(one, other)
    graph = eng.graph("memory", chain[0])
    assert [(node.label, node.steps, node.more) for node in graph.nodes] == [
        ("Link number 0", 0, 0),
        ("Link number 1", 1, 0),
        ("Link number 2", 2, None),
    ]
    circle = eng.graph("memory", chain[2])
    assert labels(circle, 1) == ["Link number 3", "Link number 1"]
    assert labels(circle, 2) == ["Link number 4", "Link number 0"]


@pytest.mark.requirement("GRAPH-2")
def test_no_graph_has_more_than_sixty_nodes(eng: Engram, session: str) -> None:
    for number in range(DEGREE):
        one = eng.remember(f"Hub number {number}", session_id=session, embed=False).id
        for other in range(5):
            eng.memories.link(one, eng.remember(f"Of hub {number}, number {other}", embed=False).id)
    assert len(eng.graph("session", session).nodes) == 60
    for limit in (0, 61, -1):
        with pytest.raises(InvalidInput, match="limit"):
            eng.graph("session", session, limit=limit)


@pytest.mark.requirement("GRAPH-3")
def test_what_was_forgotten_is_in_no_graph(eng: Engram, session: str) -> None:
    turn = eng.exchanges.add(session, "user", "The code is 1234 for the door", embed=False)
    gone = eng.remember("The door has a code", sources=[("exchange", turn)], embed=False)
    kept = eng.remember("Doors are shut at night", session_id=session, embed=False)
    eng.memories.link(kept.id, gone.id)
    eng.sessions.log(session, "Edit /home/me/shop/src/door.py: done")
    entry = eng.sessions.logs(session)[0].id
    assert {"The door has a code", "src/door.py"} <= set(labels(eng.graph("session", session)))
    eng.forget(memory=gone.id)
    eng.forget(exchange=entry)
    assert labels(eng.graph("memory", kept.id)) == ["Doors are shut at night", "Port the router"]
    assert labels(eng.graph("session", session)) == ["Port the router", "Doors are shut at night"]
    eng.forget(session=session)
    with pytest.raises(SessionNotFound):
        eng.graph("session", session)


@pytest.mark.requirement("GRAPH-3")
def test_a_memory_whose_text_was_forgotten_says_so(eng: Engram, session: str) -> None:
    turn = eng.exchanges.add(session, "user", "The code is 1234 for the door", embed=False)
    eng.exchanges.add(session, "assistant", "I noted it.", embed=False)
    eng.sessions.complete(session, "Noted")
    eng.dream(force=True)
    (gist,) = eng.memories.list(kind="gist")
    eng.forget(exchange=turn)
    (kept,) = eng.memories.list(kind="gist")
    assert (kept.id, kept.content) == (gist.id, "")
    assert eng.graph("memory", gist.id).nodes[0].label == "(emptied by forgetting)"


@pytest.mark.requirement("GRAPH-3", "STORE-16")
def test_no_other_workspace_is_in_a_graph(eng: Engram, session: str) -> None:
    other = eng.workspace("other")
    theirs = other.sessions.register("codex", "Not here", project=PROJECT)
    other.sessions.log(theirs, "Edit /home/me/shop/src/router.py: done")
    other.leases.claim(theirs, ROUTER)
    memory = other.remember("In src/router.py", project=PROJECT, embed=False)
    assert labels(eng.graph("file", ROUTER)) == ["src/router.py"]
    with pytest.raises(MemoryNotFound):
        eng.graph("memory", memory.id)


@pytest.mark.requirement("GRAPH-1")
def test_a_pass_of_dreaming_is_no_neighbour(eng: Engram, session: str) -> None:
    eng.exchanges.add(session, "user", "The router lives in src/router.py", embed=False)
    eng.sessions.complete(session, "Ported")
    eng.dream(force=True)
    graph = eng.graph("session", session)
    assert "memory" in {node.kind for node in graph.nodes}
    assert not [node for node in graph.nodes if node.detail.startswith("dream,")]


@pytest.mark.requirement("GRAPH-1")
def test_a_label_is_one_line_that_controls_no_terminal(eng: Engram) -> None:
    id = eng.remember("one\n\x1b[31mtwo\u202e " + "x" * 500, embed=False).id
    label = eng.graph("memory", id).nodes[0].label
    assert len(label) == 101 and label.startswith("one ") and label.isprintable()


@pytest.mark.requirement("GRAPH-1")
def test_what_does_not_exist_is_a_typed_error(eng: Engram) -> None:
    with pytest.raises(MemoryNotFound):
        eng.graph("memory", 99)
    with pytest.raises(SessionNotFound):
        eng.graph("session", "nobody")
    with pytest.raises(BlockNotFound):
        eng.graph("block", "nothing")
    for kind, id in (("exchange", 1), ("memory", "one"), ("session", 3), ("file", "")):
        with pytest.raises(InvalidInput):
            eng.graph(kind, id)


def test_a_line_of_a_log_names_the_files_that_a_tool_wrote() -> None:
    assert edited("Edit /home/me/shop/src/a.py: done", PROJECT) == [f"{PROJECT}:src/a.py"]
    # As an agent writes it that keeps its log itself.
    assert (
        edited("Edit src/a.py", PROJECT) == edited("Write /home/me/shop/src/a.py", PROJECT) == [f"{PROJECT}:src/a.py"]
    )
    assert edited("Edit /home/me/worktree/src/a.py: failed", PROJECT) == ["/home/me/worktree/src/a.py"]
    assert edited("apply_patch src/a.py, b.py and 2 more: done", PROJECT) == [f"{PROJECT}:src/a.py", f"{PROJECT}:b.py"]
    assert edited("Write src/a.py: done", None) == []
    assert edited("Write app/[id].tsx: done", PROJECT) == [f"{PROJECT}:app/\\[id].tsx"]
    assert edited(f"Write /x/{'y' * 190}…: done", PROJECT) == []
    for line in (
        "Read src/a.py: done",
        "Edit",
        "Edit the plan",
        "Edit nothing",
        "Edit src/a.py: refused",
        "I edited src/a.py: done",
        "",
    ):
        assert edited(line, PROJECT) == []
    assert mentioned("See src/a.py, b.py and version 1.2/3.4", PROJECT) == [f"{PROJECT}:src/a.py"]


def test_every_tool_of_a_harness_that_only_writes_files_is_known() -> None:
    harnesses = (claude_code, codex, cursor, gemini)
    assert frozenset().union(*(each.WRITING_TOOLS for each in harnesses)) - {"Bash"} == EDITING_TOOLS
