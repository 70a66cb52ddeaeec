"""Memories: said once, however often they are said, on both engines."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engram import Engram, EngramError, InvalidInput, SessionNotFound, VersionConflict
from engram.clock import later
from engram.errors import ExchangeNotFound, MemoryNotFound
from engram.records import Memory
from tests._repositories import make_repository
from tests.conftest import ShiftedClock

OpenStore = Callable[..., Engram]

SIBLINGS = ["foo", "foobar", "fo", "foo_", "foo%", "f%", "f__", "Foo", "FOO", "fóo", "fo\u0301o", "foo bar", "foo'"]


@pytest.fixture
def eng(open_store: OpenStore) -> Engram:
    return open_store(embedder="none")


def contents(memories: list[Memory]) -> list[str]:
    return [memory.content for memory in memories]


def recalled(eng: Engram, query: str, **options: Any) -> list[str]:
    return [hit.text for hit in eng.recall(query, 50, mode="words", **options)]


@pytest.mark.requirement("MEMORY-1")
def test_a_memory_has_everything_it_was_given(eng: Engram, open_store: OpenStore) -> None:
    sid = eng.sessions.register("codex", "Working", project="shop")
    source = eng.exchanges.add(sid, "user", "We ship on Fridays")
    data: dict[str, object] = {"days": [5], "sure": True, "who": None, "\ud800": "數\x00"}
    made = eng.remember(
        "Releases go out on Fridays",
        kind="decision",
        tags=["release", "weekly", "release"],
        importance=0.8,
        pinned=True,
        key="release day",
        session_id=sid,
        project="depot",
        sources=[("exchange", source)],
        data=data,
        expires_at="2999-01-01",
        trust="tool",
    )
    assert made == Memory(
        id=made.id,
        kind="decision",
        key="release day",
        content="Releases go out on Fridays",
        version=1,
        tags=("release", "weekly"),
        importance=0.8,
        pinned=True,
        trust="tool",
        status="active",
        superseded_by=None,
        session_id=sid,
        project="depot",
        data=data,
        reinforced=0,
        recalled=0,
        recalled_at=None,
        expires_at="2999-01-01T00:00:00.000000Z",
        created_at=made.created_at,
        updated_at=made.created_at,
        confirmed_at=made.created_at,
    )
    assert open_store().memories.get(made.id) == made
    assert eng.memories.sources(made.id) == [("exchange", source)]


@pytest.mark.requirement("MEMORY-1")
def test_a_plain_memory_is_a_note_that_an_agent_made(eng: Engram) -> None:
    made = eng.remember("The sky is blue")
    assert (made.kind, made.key, made.tags, made.importance, made.pinned) == ("note", None, (), 0.5, False)
    assert (made.trust, made.session_id, made.data, made.expires_at) == ("agent", None, None, None)


@pytest.mark.requirement("MEMORY-1")
def test_a_memory_belongs_to_the_project_of_its_session_unless_told_otherwise(eng: Engram) -> None:
    sid = eng.sessions.register("codex", "Working", project="shop")
    assert eng.remember("one", session_id=sid).project == "shop"
    assert eng.remember("two", session_id=sid, project="depot").project == "depot"
    none = eng.sessions.ensure("chat without a project").id
    assert eng.remember("three", session_id=none).project is None


@pytest.mark.requirement("MEMORY-8")
def test_a_memory_without_a_session_belongs_to_the_project_it_was_made_in(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store()
    monkeypatch.chdir(make_repository(tmp_path / "clone"))
    made = eng.remember("The router is slow", kind="fact")
    assert made.project == eng.sessions.get(eng.sessions.register("codex", "Working")).project == "acme/engram"
    assert eng.memories.remember("The router is in src").project == "acme/engram"
    assert eng.remember("Tea at four", project="kitchen").project == "kitchen"
    assert contents(eng.memories.list(project="acme/engram")) == ["The router is in src", "The router is slow"]
    assert open_store(project="depot").remember("The depot is closed").project == "depot"


@pytest.mark.requirement("MEMORY-8")
def test_a_memory_can_be_made_where_the_folder_is_gone_or_has_no_good_name(
    eng: Engram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 250)
    long.mkdir()
    monkeypatch.chdir(long)
    assert eng.remember("one").project == "x" * 200
    secret = tmp_path / f"ghp_{'a1B2c3D4e5' * 4}"
    secret.mkdir()
    monkeypatch.chdir(secret)
    assert "a1B2c3D4e5" not in str(eng.remember("two").project)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert eng.remember("three").project is None


@pytest.mark.requirement("MEMORY-8")
def test_what_dreaming_makes_belongs_where_its_sources_do(
    eng: Engram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = eng.sessions.ensure("chat").id
    eng.exchanges.add(said, "user", "I decided that we never deploy on Fridays.", created_at="2026-03-02T10:00:00Z")
    monkeypatch.chdir(make_repository(tmp_path / "clone"))
    eng.dream(force=True)
    made = [memory for kind in ("gist", "era", "decision", "digest") for memory in eng.memories.list(kind=kind)]
    assert {memory.kind for memory in made} >= {"gist", "era", "decision"}
    assert {memory.project for memory in made} == {None}


@pytest.mark.requirement("MEMORY-1", "STORE-13")
def test_a_memory_in_a_transaction_that_fails_was_never_kept(eng: Engram) -> None:
    with pytest.raises(ZeroDivisionError), eng.write():
        eng.remember("the zebra is out", tags=["zoo"])
        raise ZeroDivisionError
    assert eng.memories.list() == [] == recalled(eng, "zebra")
    assert eng.remember("the zebra is out").reinforced == 0


@pytest.mark.requirement("MEMORY-2")
@pytest.mark.parametrize(
    "again", ["Use tabs, not spaces", "use TABS, not spaces", "  Use tabs,\n not   spaces ", "Ｕse tabs, not spaces"]
)
def test_the_same_thing_again_reinforces(eng: Engram, clock: ShiftedClock, again: str) -> None:
    first = eng.remember("Use tabs, not spaces", tags=["style"], importance=0.4)
    clock.advance(60)
    second = eng.remember(again, tags=["review"], importance=0.9, pinned=True)
    assert (second.id, second.content, second.version) == (first.id, first.content, 1)
    assert (second.reinforced, second.tags) == (1, ("review", "style"))
    assert (second.importance, second.pinned) == (0.9, True)
    assert second.created_at == first.created_at < second.updated_at
    assert eng.remember(again, importance=0.1)[:9] == second[:9]
    assert recalled(eng, "tabs") == contents(eng.memories.list()) == [first.content]


@pytest.mark.requirement("MEMORY-2")
@pytest.mark.parametrize(
    "other",
    [
        {"content": "Use tabs, not spaces!"},
        {"content": "Usé tabs, not spaces"},
        {"kind": "lesson"},
        {"key": "indentation"},
    ],
)
def test_another_content_kind_or_key_is_another_memory(eng: Engram, other: dict[str, str]) -> None:
    first = eng.remember("Use tabs, not spaces")
    second = eng.remember(**{"content": "Use tabs, not spaces", **other})  # type: ignore[arg-type]
    assert second.id != first.id
    assert (second.reinforced, len(eng.memories.list())) == (0, 2)


@pytest.mark.requirement("MEMORY-7")
@pytest.mark.parametrize(
    ("given", "tags", "pinned"),
    [
        ({}, ("desk", "tools"), True),
        ({"tags": ["new"]}, ("new",), True),
        ({"tags": []}, (), True),
        ({"pinned": False}, ("desk", "tools"), False),
        ({"pinned": True, "tags": ()}, (), True),
    ],
)
def test_a_memory_that_replaces_another_keeps_its_pin_and_tags_unless_others_are_given(
    eng: Engram, given: dict[str, Any], tags: tuple[str, ...], pinned: bool
) -> None:
    old = eng.remember("The editor is vim", key="editor", tags=["tools", "desk"], pinned=True)
    new = eng.remember("The editor is emacs", key="editor", **given)
    assert (new.tags, new.pinned) == (tags, pinned)
    assert contents(eng.memories.list(tag="desk")) == ([new.content] if "desk" in tags else [])
    assert contents(eng.memories.list(pinned=True)) == ([new.content] if pinned else [])
    was = eng.memories.get(old.id)
    assert (was.tags, was.pinned, was.status, was.superseded_by) == (("desk", "tools"), True, "superseded", new.id)


@pytest.mark.requirement("MEMORY-7")
def test_the_same_text_again_keeps_pin_and_tags_unless_they_are_cleared(eng: Engram) -> None:
    eng.remember("The editor is vim", key="editor", tags=["tools"], pinned=True)
    same = eng.remember("The editor is vim", key="editor")
    assert (same.tags, same.pinned) == (("tools",), True)
    same = eng.remember("The editor is vim", key="editor", tags=[], pinned=False)
    assert (same.tags, same.pinned, same.reinforced) == ((), False, 2)


@pytest.mark.requirement("MEMORY-7")
def test_only_the_memory_that_is_replaced_hands_on_its_pin_and_tags(eng: Engram) -> None:
    eng.remember("The editor is vim", key="editor", tags=["tools"], pinned=True)
    for other in ({"kind": "fact", "key": "editor"}, {"key": "shell"}, {}):
        made = eng.remember("The editor is emacs", **other)  # type: ignore[arg-type]
        assert (made.tags, made.pinned) == ((), False)


@pytest.mark.requirement("MEMORY-2")
def test_several_who_say_the_same_thing_at_once_make_one_memory(open_store: OpenStore) -> None:
    stores, barrier = [open_store(embedder="none") for _ in range(4)], threading.Barrier(4)

    def say(eng: Engram) -> list[int]:
        barrier.wait(10)
        return [eng.remember(f"Fact number {number}").id for number in range(5)]

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(say, stores)
    assert others == [first] * 3
    assert [memory.reinforced for memory in stores[0].memories.list()] == [3] * 5


@pytest.mark.requirement("MEMORY-2")
def test_what_has_expired_or_was_archived_can_be_said_anew(eng: Engram, clock: ShiftedClock) -> None:
    expiring = eng.remember("The build is red", expires_at=later(clock.now(), 60))
    archived = eng.memories.archive(eng.remember("The cat is out").id)
    clock.advance(120)
    assert eng.memories.list() == []
    again = eng.remember("The build is red"), eng.remember("The cat is out")
    assert again[0].expires_at is None and again[0].id == expiring.id
    assert contents(eng.memories.list()) == ["The cat is out", "The build is red"]
    assert eng.memories.get(archived.id).status == "archived"


@pytest.mark.requirement("MEMORY-3")
def test_another_content_under_the_same_kind_and_key_supersedes(eng: Engram) -> None:
    old = eng.remember("The office is in Ghent", kind="fact", key="office")
    kept = eng.remember("The office is small", kind="note", key="office")
    new = eng.remember("The office is in Bruges", kind="fact", key="office")
    assert (new.version, new.status, new.superseded_by) == (1, "active", None)
    gone = eng.memories.get(old.id)
    assert (gone.content, gone.status, gone.superseded_by) == (old.content, "superseded", new.id)
    assert eng.memories.list() == [new, kept]
    assert eng.memories.list(status="superseded") == [gone]
    assert sorted(recalled(eng, "office")) == [new.content, kept.content]
    assert recalled(eng, "Ghent") == []
    assert recalled(eng, "Ghent", include_archived=True) == [old.content]


@pytest.mark.requirement("MEMORY-3")
def test_what_was_superseded_can_be_true_again(eng: Engram) -> None:
    first, second, third = (eng.remember(text, key="door") for text in ("open", "shut", "open"))
    assert len({first.id, second.id, third.id}) == 3
    assert eng.memories.list() == [third]
    assert [eng.memories.get(id).superseded_by for id in (first.id, second.id)] == [second.id, third.id]


@pytest.mark.requirement("MEMORY-3")
def test_of_several_who_supersede_at_once_exactly_one_is_current(open_store: OpenStore) -> None:
    stores, barrier = [open_store(embedder="none") for _ in range(4)], threading.Barrier(4)

    def say(number: int) -> None:
        barrier.wait(10)
        for step in range(4):
            stores[number].remember(f"worker {number} says {step}", key="last word")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(say, range(4)))
    eng = stores[0]
    (current,) = eng.memories.list()
    old = eng.memories.list(status="superseded")
    assert len(old) == 15
    assert recalled(eng, "worker") == [current.content]
    assert sorted(recalled(eng, "worker", include_archived=True)) == sorted(contents([current, *old]))


@pytest.mark.requirement("MEMORY-4")
def test_an_edit_is_a_new_version_and_the_states_before_it_stay(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.remember("The zebra is striped", tags=["zoo"], session_id=eng.sessions.ensure("s").id)
    clock.advance(60)
    edited = eng.memories.update(made.id, "The okapi is striped", reason="wrong animal", actor="codex")
    assert (edited.content, edited.version, edited.tags) == ("The okapi is striped", 2, ("zoo",))
    assert edited.created_at == made.created_at < edited.updated_at
    assert [edit[:4] for edit in eng.memories.history(made.id)] == [
        (2, "The okapi is striped", "wrong animal", "codex"),
        (1, "The zebra is striped", "", "s"),
    ]
    assert recalled(eng, "okapi") == ["The okapi is striped"]
    assert recalled(eng, "zebra", include_archived=True) == []


@pytest.mark.requirement("MEMORY-4")
def test_what_is_not_named_in_an_update_stays_as_it_is(eng: Engram) -> None:
    made = eng.remember("A fact", tags=["a"], importance=0.3, pinned=True, expires_at="2999-01-01", data=[1])
    for change, expected in [
        ({"tags": ["b", "c"]}, {"tags": ("b", "c")}),
        ({"importance": 1.0}, {"importance": 1.0}),
        ({"pinned": False}, {"pinned": False}),
        ({"expires_at": "2998-01-01"}, {"expires_at": "2998-01-01T00:00:00.000000Z"}),
        ({"tags": []}, {"tags": ()}),
    ]:
        updated = eng.memories.update(made.id, **change)  # type: ignore[arg-type]
        at = updated.updated_at
        made = made._replace(**expected, updated_at=at, confirmed_at=at)  # type: ignore[arg-type]
        assert updated == made
    assert len(eng.memories.history(made.id)) == 1


@pytest.mark.requirement("MEMORY-4")
def test_an_edit_of_a_version_that_is_no_longer_the_last_is_refused(eng: Engram) -> None:
    made = eng.remember("The door is open")
    assert eng.memories.update(made.id, "The door is shut", expected_version=1).version == 2
    with pytest.raises(VersionConflict, match="is at version 2, not 1") as refused:
        eng.memories.update(made.id, "The door is ajar", expected_version=1)
    assert (refused.value.expected, refused.value.current) == (1, 2)
    assert eng.memories.get(made.id).content == "The door is shut"


@pytest.mark.requirement("MEMORY-4")
def test_an_archived_memory_is_out_of_sight_until_it_is_brought_back(eng: Engram) -> None:
    made = eng.remember("The zebra is striped")
    assert eng.memories.archive(made.id).status == eng.memories.archive(made.id).status == "archived"
    assert eng.memories.list() == [] == recalled(eng, "zebra")
    assert contents(eng.memories.list(status="archived")) == [made.content]
    assert recalled(eng, "zebra", include_archived=True) == [made.content]
    assert eng.memories.get(made.id).content == made.content
    back = eng.memories.unarchive(made.id)
    assert back._replace(updated_at="", confirmed_at="", recalled=0, recalled_at=None) == made._replace(
        updated_at="", confirmed_at=""
    )
    assert recalled(eng, "zebra") == contents(eng.memories.list()) == [made.content]


@pytest.mark.requirement("MEMORY-3", "MEMORY-4")
def test_bringing_back_what_was_superseded_changes_places(eng: Engram) -> None:
    old, new = eng.remember("The door is open", key="door"), eng.remember("The door is shut", key="door")
    back = eng.memories.unarchive(old.id)
    assert (back.status, back.superseded_by) == ("active", None)
    gone = eng.memories.get(new.id)
    assert (gone.status, gone.superseded_by) == ("superseded", old.id)
    assert recalled(eng, "door") == contents(eng.memories.list()) == [old.content]


@pytest.mark.requirement("MEMORY-2", "MEMORY-4")
def test_bringing_back_what_was_said_again_since_does_not_double_it(eng: Engram) -> None:
    old = eng.memories.archive(eng.remember("The door is open").id)
    eng.remember("The door is open")
    eng.memories.unarchive(old.id)
    assert len(eng.memories.list()) == 1


@pytest.mark.requirement("MEMORY-4")
def test_an_expired_memory_is_not_listed_or_recalled(eng: Engram, clock: ShiftedClock) -> None:
    made = eng.remember("The zebra is striped", expires_at=later(clock.now(), 60))
    assert recalled(eng, "zebra") == contents(eng.memories.list()) == [made.content]
    clock.advance(61)
    assert eng.memories.list() == [] == recalled(eng, "zebra", include_archived=True)
    eng.memories.update(made.id, expires_at=later(clock.now(), 60))
    assert recalled(eng, "zebra") == contents(eng.memories.list()) == [made.content]


@pytest.mark.requirement("MEMORY-4", "RECALL-2")
def test_expired_memories_do_not_crowd_out_living_ones(eng: Engram, clock: ShiftedClock) -> None:
    for number in range(55):
        eng.remember(f"zebra {number}", expires_at=later(clock.now(), 60))
    eng.remember("Somebody once saw a zebra near the old mill, or so the story in the village goes.")
    clock.advance(61)
    assert len(recalled(eng, "zebra")) == 1


@pytest.mark.requirement("MEMORY-4")
def test_links_join_memories_both_ways_and_only_once(eng: Engram) -> None:
    a, b, c = (eng.remember(text).id for text in ("one", "two", "three"))
    eng.memories.link(a, b)
    eng.memories.link(a, b)
    eng.memories.link(a, b, "contradicts")
    eng.memories.link(c, a, "explains")
    ab = [(a, b, "contradicts"), (a, b, "related")]
    assert eng.memories.links(a) == [*ab, (c, a, "explains")]
    assert eng.memories.links(b) == ab
    for from_id, to_id in ((a, c + 1), (c + 1, a)):
        with pytest.raises(MemoryNotFound):
            eng.memories.link(from_id, to_id)


@pytest.mark.requirement("MEMORY-4")
def test_lists_are_newest_first_and_filtered_by_all_that_is_given(eng: Engram, clock: ShiftedClock) -> None:
    start = clock.now()
    for number in range(6):
        eng.remember(
            f"m{number}",
            kind="fact" if number % 2 else "note",
            tags=["even" if number % 2 == 0 else "odd", "all"],
            importance=number / 10,
            pinned=number == 3,
            project="shop" if number < 3 else "depot",
        )
        clock.advance(3_600)
    for filters, expected in [
        ({}, "543210"),
        ({"limit": 2}, "54"),
        ({"kind": "fact"}, "531"),
        ({"tag": "even"}, "420"),
        ({"tag": "nothing"}, ""),
        ({"project": "shop"}, "210"),
        ({"importance": 0.4}, "54"),
        ({"pinned": True}, "3"),
        ({"since": later(start, 7_000)}, "5432"),
        ({"until": later(start, 7_000)}, "10"),
        ({"since": later(start, 3_000), "until": later(start, 11_000)}, "321"),
        ({"kind": "note", "tag": "all", "project": "shop", "importance": 0.1}, "2"),
        ({"status": "archived"}, ""),
    ]:
        assert contents(eng.memories.list(**filters)) == [f"m{digit}" for digit in expected], filters  # type: ignore[arg-type]


@pytest.mark.requirement("MEMORY-5")
@pytest.mark.parametrize(
    "trusts, lowest",
    [("user", "user"), ("user agent", "agent"), ("tool agent user", "tool"), ("import user", "import"), ("", "agent")],
)
def test_a_memory_is_trusted_like_its_least_trusted_source(eng: Engram, trusts: str, lowest: str) -> None:
    sid = eng.sessions.ensure("s").id
    sources = [("exchange", eng.exchanges.add(sid, "user", trust, trust=trust)) for trust in trusts.split()]
    made = eng.remember("made of them", sources=sources)
    assert made.trust == lowest
    assert eng.memories.sources(made.id) == sources
    derived = eng.remember("made of that", sources=[("memory", made.id), *sources[:1]])
    assert derived.trust == lowest


@pytest.mark.requirement("MEMORY-5", "STORE-16")
def test_a_source_must_exist_in_this_workspace(eng: Engram) -> None:
    other = eng.workspace("other")
    other.sessions.ensure("s")
    foreign = {"exchange": other.exchanges.add("s", "user", "theirs"), "memory": other.remember("theirs").id}
    for kind, error in [("exchange", ExchangeNotFound), ("memory", MemoryNotFound)]:
        for id in (foreign[kind], foreign[kind] + 1):
            refuses(eng, lambda kind=kind, id=id: eng.remember("x", sources=[(kind, id)]), error)  # type: ignore[misc]


BAD_NAMES: list[Any] = ["", " ", "a\x00b", "a\ud800b", "a\nb", "x" * 201, 7]
BAD_TEXTS: list[Any] = ["", " \n", "a\x00b", "a\ud800b", "x" * 1_000_001, b"bytes", None]
BAD_SHARES: list[Any] = [-0.1, 1.1, math.nan, math.inf, "0.5", True]
BAD_TIMES: list[Any] = ["", "tomorrow", "2023-02-30", 5]
BAD_IDS: list[Any] = [0, -1, 1.5, "1", None, True, 2**63]


def refuses(eng: Engram, attempt: Callable[[], object], error: type[EngramError] = InvalidInput) -> None:
    """The error is a typed one, and nothing was written."""
    before = eng.changes(), eng.memories.list()
    with pytest.raises(EngramError) as caught:
        attempt()
    assert type(caught.value) is error
    assert (eng.changes(), eng.memories.list()) == before


@pytest.mark.requirement("MEMORY-6")
def test_bad_memories_are_refused_before_anything_is_written(eng: Engram) -> None:
    wrong: list[dict[str, Any]] = [
        *({"content": content} for content in BAD_TEXTS),
        *({what: name} for what in ("kind", "key", "project", "session_id") for name in BAD_NAMES),
        *({"tags": [name]} for name in [*BAD_NAMES, None]),
        *({"importance": share} for share in [*BAD_SHARES, None]),
        *({"expires_at": time} for time in BAD_TIMES),
        *({"sources": [("exchange", id)]} for id in BAD_IDS),
        *({"data": data} for data in [math.nan, {1, 2}, object(), "x" * 1_000_000]),
        {"tags": "text"},
        {"tags": [f"tag {number}" for number in range(51)]},
        {"pinned": 1},
        {"kind": None},
        {"trust": "nobody"},
        {"sources": [("rumour", 1)]},
    ]
    for each in wrong:
        refuses(eng, lambda each=each: eng.remember(**{"content": "hello", **each}))  # type: ignore[misc]
    refuses(eng, lambda: eng.remember("hello", session_id="20200101-000000-00000000"), SessionNotFound)


@pytest.mark.requirement("MEMORY-6")
def test_bad_edits_and_filters_are_refused_and_change_nothing(eng: Engram) -> None:
    made = eng.remember("hello")
    memories = eng.memories
    updates: list[dict[str, Any]] = [
        *({"content": content} for content in BAD_TEXTS if content is not None),
        *({"actor": name} for name in BAD_NAMES),
        *({"tags": [name]} for name in BAD_NAMES),
        *({"importance": share} for share in BAD_SHARES),
        *({"expires_at": time} for time in BAD_TIMES),
        {"pinned": 1},
        {"reason": "\x00"},
        {"reason": "x" * 2_001},
    ]
    for each in updates:
        refuses(eng, lambda each=each: memories.update(made.id, **each))  # type: ignore[misc]
    filters: list[dict[str, Any]] = [
        *({what: name} for what in ("kind", "tag", "project") for name in BAD_NAMES),
        *({what: time} for what in ("since", "until") for time in BAD_TIMES),
        *({"importance": share} for share in BAD_SHARES),
        {"status": "lost"},
        {"limit": -1},
        {"pinned": 1},
    ]
    for each in filters:
        refuses(eng, lambda each=each: memories.list(**each))  # type: ignore[misc]
    for relation in BAD_NAMES:
        refuses(eng, lambda relation=relation: memories.link(made.id, made.id, relation))  # type: ignore[misc]


@pytest.mark.requirement("MEMORY-6")
@pytest.mark.parametrize("verb", ["get", "update", "history", "archive", "unarchive", "links", "sources"])
def test_a_bad_id_is_refused_and_an_unknown_one_not_found(eng: Engram, verb: str) -> None:
    for id in BAD_IDS:
        refuses(eng, lambda id=id: getattr(eng.memories, verb)(id))  # type: ignore[misc]
    theirs = eng.workspace("other").remember("theirs").id
    for id in (theirs, theirs + 1, 2**62):
        refuses(eng, lambda id=id: getattr(eng.memories, verb)(id), MemoryNotFound)  # type: ignore[misc]


@pytest.mark.requirement("STORE-16")
@pytest.mark.parametrize("what", ["tag", "project", "kind"])
def test_tags_projects_and_kinds_with_similar_names_are_kept_apart(eng: Engram, what: str) -> None:
    for number, name in enumerate(SIBLINGS):
        given: dict[str, Any] = {"tags": [name]} if what == "tag" else {what: name}
        eng.remember(f"zebra {number}", **given)
    for number, name in enumerate(SIBLINGS):
        mine = [f"zebra {number}"]
        option = {"project": name} if what == "project" else {f"{what}s": [name]}
        assert contents(eng.memories.list(**{what: name})) == mine  # type: ignore[arg-type]
        assert recalled(eng, "zebra", **option) == mine


@pytest.mark.requirement("STORE-16", "MEMORY-3")
def test_keys_with_similar_names_do_not_supersede_each_other(eng: Engram) -> None:
    made = [eng.remember(f"the zebra of {name!r}", key=name) for name in SIBLINGS]
    assert eng.memories.list() == made[::-1]


@pytest.mark.requirement("STORE-16")
def test_workspaces_keep_their_memories_apart(eng: Engram) -> None:
    views = {name: eng.workspace(name) for name in ("foo", "foobar", "fo", "foo_", "foo-")}
    for view in views.values():
        made = view.remember("the zebra is striped", kind="fact", key="zebra", tags=["zoo"], project="shop")
        assert made.reinforced == 0
    for name, view in views.items():
        view.remember(f"the zebra of {name}", kind="fact", key="zebra", tags=["zoo"], project="shop")
    for name, view in views.items():
        mine = [f"the zebra of {name}"]
        assert contents(view.memories.list(kind="fact", tag="zoo", project="shop")) == mine
        assert recalled(view, "zebra", tags=["zoo"], project="shop") == mine
        assert recalled(view, "zebra striped", include_archived=True) == ["the zebra is striped", *mine]
        (memory,) = view.memories.list()
        with pytest.raises(MemoryNotFound):
            eng.memories.link(memory.id, memory.id + 1)


@pytest.mark.requirement("MEMORY-6")
def test_a_memory_is_not_linked_to_itself(eng: Engram) -> None:
    memory = eng.remember("The house is red.", embed=False)
    with pytest.raises(InvalidInput, match="cannot be linked to itself"):
        eng.memories.link(memory.id, memory.id)
    assert eng.memories.links(memory.id) == []


def test_the_memories_of_a_session_were_made_in_it_or_from_its_turns(eng: Engram) -> None:
    session = eng.sessions.register("codex", "Working")
    other = eng.sessions.register("codex", "Working elsewhere")
    turn = eng.exchanges.add(session, "user", "The port is 6543")
    within = eng.remember("Deploys never happen on Fridays", session_id=session)
    derived = eng.remember("The port of staging is 6543", sources=[("exchange", turn)])
    eng.remember("The fence is green", session_id=other)
    eng.gists.store(session, "It was about ports.", turn)
    eng.memories.archive(within.id)
    assert [each.id for each in eng.memories.of_session(session)] == [derived.id, within.id]
    assert [each.id for each in eng.memories.of_session(session, 1)] == [derived.id]
    assert eng.workspace("other").memories.of_session(session) == []
