"""The table of operations: complete, checked, and the same on both engines."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from engram import Engram, InvalidInput, LeaseHeld, SessionNotFound, VersionConflict
from engram.dreaming.plans import Plan
from engram.operations import HINTS, OPERATIONS, SESSION, check_arguments, error_shape, run
from engram.operations.inputs import Operation, number, text, texts, whole
from tests.test_shape import ERRORS


class Scene:
    """A store with something of everything in it."""

    def __init__(self, eng: Engram) -> None:
        self.me = eng.sessions.register("claude-code", "Porting the router")
        self.other = eng.sessions.register("codex", "Adding rate limits")
        eng.leases.claim(self.me, "src/router.py")
        eng.leases.claim(self.other, "src/limits.py")
        self.turn = eng.exchanges.add(self.me, "user", "I never deploy on Fridays")
        self.memory = eng.remember("Deploys never happen on Fridays", kind="preference").id
        self.second = eng.remember("The router is in src/router.py", kind="fact").id
        eng.blocks.create("plan", "one")
        eng.blocks.update("plan", "one\ntwo")
        eng.messages.send(self.other, self.me, "May I rename check()?")
        self._eng = eng

    def overfull(self) -> str:
        """A block with more text than fits into it."""
        self._eng.blocks.create("small", "What fits and the rest", max_tokens=2)
        self._eng.blocks.update("small", "It fits. and the rest")
        return "small"

    def overlapping(self) -> int:
        """Two claims that overlap, of different sessions."""
        self._eng.leases.claim(self.other, "src")
        return 5

    def dreamt(self) -> int:
        """A pass that has run."""
        id = self._eng.dream(force=True)[0].id
        assert id is not None
        return id

    def proposed(self) -> int:
        """A proposal that waits for a decision."""
        plan = Plan("remember", "a tool said it", 0.5, "Tea at five.", (), (("exchange", self.turn),), {"kind": "fact"})
        with self._eng._view.engine.write() as tx:
            self._eng.proposals.add(tx, plan, 1)
        return self._eng.proposals.list()[0].id

    def piece(self) -> int:
        """A piece of thinking that this session has taken."""
        self._eng.work.leave("sessions", "a subject", "1", "Write a gist.", None)
        item = self._eng.work.next(self.me)
        assert item is not None
        return item.id


@pytest.fixture
def scene(eng: Engram) -> Scene:
    return Scene(eng)


#: Arguments for each operation, from the scene, and what of its result shows that it worked.
CASES: dict[str, Any] = {
    "sitrep": (lambda s: {"session": s.me, "budget": 500}, lambda r: "(you)" in r),
    "brief": (lambda s: {"session": s.me, "budget": 500}, lambda r: r.startswith("# Brief: ")),
    "brief.lines": (
        lambda s: {"session": s.me, "budget": 500},
        lambda r: (r[0]["kind"], r[0]["ref"]) == (None, None) and {"memory", "message"} < {line["kind"] for line in r},
    ),
    "stats": (lambda s: {}, lambda r: r["active"] == 2),
    "changes": (lambda s: {"after": 0, "limit": 1}, lambda r: r[0]["what"] == "session"),
    "session.register": (lambda s: {"type": "cursor", "summary": "x", "metadata": {"a": 1}}, lambda r: r["id"]),
    "session.heartbeat": (lambda s: {"session": s.me, "summary": "y"}, lambda r: r["summary"] == "y"),
    "session.log": (lambda s: {"session": s.me, "text": "done"}, lambda r: r["content"] == "done"),
    "session.complete": (lambda s: {"session": s.me, "outcome": "z"}, lambda r: r["outcome"] == "z"),
    "session.list": (lambda s: {"all": True, "limit": 1}, lambda r: len(r) == 1),
    "session.show": (lambda s: {"id": s.me}, lambda r: r["leases"][0]["resource"].endswith("src/router.py")),
    "message.send": (lambda s: {"session": s.me, "to": "*", "text": "hi"}, lambda r: r["recipients"]),
    "message.inbox": (lambda s: {"session": s.me}, lambda r: r[0]["text"] == "May I rename check()?"),
    "message.list": (lambda s: {"limit": 1}, lambda r: len(r) == 1),
    "lock.claim": (lambda s: {"session": s.me, "resource": "a", "ttl": 9, "note": "n"}, lambda r: r["ttl"] == 9),
    "lock.release": (lambda s: {"session": s.me, "resource": "src/router.py"}, lambda r: len(r) == 1),
    "lock.check": (lambda s: {"resource": "src/**"}, lambda r: len(r) == 2),
    "lock.list": (lambda s: {"of": s.other}, lambda r: len(r) == 1),
    "lock.overlaps": (
        lambda s: {"limit": s.overlapping()},
        lambda r: [each["resource"][-3:] for each in r[0].values()] == [".py", "src"],
    ),
    "lock.break": (
        lambda s: {"session": s.me, "resource": "src/limits.py", "reason": "gone"},
        lambda r: r[0]["resource"].endswith("src/limits.py"),
    ),
    "remember": (lambda s: {"text": "Tea", "tags": ["a"], "session": s.me}, lambda r: r["session_id"] and r["tags"]),
    "recall": (lambda s: {"query": "deploy Fridays", "kinds": ["preference"]}, lambda r: r[0]["memory_id"]),
    "memory.list": (lambda s: {"kind": "fact"}, lambda r: len(r) == 1),
    "memory.show": (lambda s: {"id": s.memory}, lambda r: r["history"][0]["version"] == 1),
    "memory.update": (lambda s: {"id": s.memory, "text": "Never on Fridays"}, lambda r: r["version"] == 2),
    "memory.archive": (lambda s: {"id": s.memory}, lambda r: r["status"] == "archived"),
    "memory.unarchive": (lambda s: {"id": s.memory}, lambda r: r["status"] == "active"),
    "memory.link": (lambda s: {"id": s.memory, "to": s.second}, lambda r: r["relation"] == "related"),
    "exchange.add": (lambda s: {"session": s.me, "role": "user", "text": "hello"}, lambda r: r["id"]),
    "exchange.show": (lambda s: {"id": s.turn}, lambda r: r["trust"] == "user"),
    "exchange.around": (lambda s: {"id": s.turn, "n": 1}, lambda r: len(r) == 1),
    "exchange.history": (lambda s: {"id": s.me, "last": 5}, lambda r: len(r) == 1),
    "exchange.timeline": (lambda s: {"limit": 5}, lambda r: len(r) == 1),
    "backlog.work": (lambda s: {}, lambda r: r["left"] == 0),
    "block.list": (lambda s: {}, lambda r: r[0]["name"] == "plan"),
    "block.view": (lambda s: {"name": "plan", "version": 1}, lambda r: r["content"] == "one"),
    "block.create": (lambda s: {"name": "new", "content": "x"}, lambda r: r["version"] == 1),
    "block.update": (lambda s: {"name": "world", "content": "x", "session": s.me}, lambda r: r["updated_by"]),
    "block.append": (lambda s: {"name": "plan", "content": "three"}, lambda r: r["content"].endswith("two\nthree")),
    "block.replace": (lambda s: {"name": "plan", "old": "two", "content": "2"}, lambda r: r["content"] == "one\n2"),
    "block.history": (lambda s: {"name": "plan", "limit": 1}, lambda r: r[0]["old"] == "one"),
    "block.diff": (lambda s: {"name": "plan", "a": 1, "b": 2}, lambda r: "+two" in r),
    "block.archive_overflow": (
        lambda s: {"name": s.overfull(), "session": s.me},
        lambda r: r == {"name": "small", "overflow": " and the rest"},
    ),
    "block.restore": (lambda s: {"name": "plan", "version": 1}, lambda r: r["version"] == 3),
    "forget": (lambda s: {"memory": s.memory, "dry_run": True}, lambda r: r["counts"] == {"memories": 1}),
    "receipts": (lambda s: {}, lambda r: r == []),
    "context": (lambda s: {"query": "deploy", "session": s.me, "budget": 500}, lambda r: "Fridays" in r),
    "dream.run": (lambda s: {"force": True, "dry_run": True}, lambda r: len(r[0]["gists"]) == 1),
    "dream.status": (lambda s: {}, lambda r: r["backlog"]["turns"] == 1),
    "dream.list": (lambda s: {"limit": 1}, lambda r: r == []),
    "dream.show": (lambda s: {"id": s.dreamt()}, lambda r: len(r["gists"]) == 1),
    "dream.next": (lambda s: {"session": s.me}, lambda r: r is None),
    "dream.submit": (lambda s: {"session": s.me, "item": s.piece(), "answer": "A gist."}, lambda r: r["item"]),
    "dream.review": (lambda s: {"id": s.proposed(), "decide": "accept"}, lambda r: r["state"] == "accepted"),
    "dream.undo": (lambda s: {"run": s.dreamt()}, lambda r: r["removed"]),
    "doctor": (lambda s: {"full": True}, lambda r: not [each for each in r if each["state"] == "wrong"]),
    "usage": (lambda s: {"days": 3}, lambda r: r == []),
    "graph": (lambda s: {"kind": "session", "id": s.me}, lambda r: r["nodes"][1]["label"] == "src/router.py"),
    "activity": (lambda s: {"days": 1}, lambda r: sum(each["turns"] for each in r) == 1),
    "harnesses": (lambda s: {}, lambda r: {each["harness"] for each in r["harnesses"]} >= {"codex", "mcp"}),
    "sizes": (lambda s: {}, lambda r: r["store_bytes"] > 0),
    "block.delete": (lambda s: {"name": "plan"}, lambda r: r == {"deleted": "plan"}),
}


@pytest.mark.requirement("OPERATION-1", "OPERATION-2")
def test_every_operation_does_what_it_says_and_gives_plain_data(eng: Engram) -> None:
    assert CASES.keys() == OPERATIONS.keys()
    for place, (name, (arguments, worked)) in enumerate(CASES.items()):
        view = eng.workspace(f"w{place}")
        answer = run(view, OPERATIONS[name], arguments(Scene(view)))
        assert answer.keys() == ({"result", "next"} if OPERATIONS[name].page else {"result"})
        assert worked(answer["result"]), f"{name}: {answer}"
        assert json.loads(json.dumps(answer)) == answer


@pytest.mark.requirement("OPERATION-1")
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda each: each.name)
def test_an_operation_is_described_in_one_line_and_each_input_once(operation: Operation) -> None:
    assert operation.scope in ("read", "write", "admin")
    assert operation.help.endswith(".")
    assert "\n" not in operation.help
    names = [each.name for each in operation.inputs]
    assert len(set(names)) == len(names)


@pytest.mark.requirement("OPERATION-1")
def test_what_can_erase_a_session_does_not_take_the_caller_s_for_it() -> None:
    erasing = [operation for name, operation in OPERATIONS.items() if name == "forget" or name.endswith(".delete")]
    assert erasing
    assert [operation.name for operation in erasing if operation.input(SESSION)] == []


@pytest.mark.requirement("OPERATION-2")
def test_an_error_has_a_code_a_message_a_hint_and_what_a_program_can_act_on(eng: Engram, scene: Scene) -> None:
    claim = {"session": scene.me, "resource": "src/limits.py", "exclusive": True}
    with pytest.raises(LeaseHeld) as held:
        run(eng, OPERATIONS["lock.claim"], claim)
    shape: Any = error_shape(held.value)
    assert shape.keys() == {"error"}
    assert shape["error"].keys() == {"code", "message", "hint", "details"}
    assert shape["error"]["code"] == "lease_held"
    assert shape["error"]["details"]["holders"][0]["session_id"] == scene.other
    assert "message.send" in shape["error"]["hint"]


@pytest.mark.requirement("OPERATION-2")
def test_hints_are_about_errors_that_exist_and_name_operations_that_do() -> None:
    assert HINTS.keys() <= {kind.code for kind in ERRORS}
    named = {word.strip(".,;") for hint in HINTS.values() for word in hint.split() if "." in word.strip(".,;")}
    assert named <= OPERATIONS.keys()


WRONG = [
    ("recall", {"query": "x", "limit": 3}, "recall has no argument 'limit'. It takes query (required), k,"),
    ("recall", {"query": ["x"]}, "query is ['x']; it must be text."),
    ("recall", {"query": "x", "k": "five"}, "k is 'five'; it must be a whole number from 1 to 100."),
    ("recall", {"query": "x", "k": 2.5}, "k is 2.5; it must be a whole number from 1 to 100."),
    ("recall", {"query": "x", "k": True}, "k is True; it must be a whole number from 1 to 100."),
    ("recall", {"query": "x", "k": 0}, "k is 0; it must be a whole number from 1 to 100."),
    ("recall", {"query": "x", "tags": "a,b"}, 'tags is \'a,b\'; it must be a list of texts, such as ["a", "b"].'),
    ("recall", {"query": "x", "mode": "best"}, "mode is 'best'; it must be one of hybrid, words, vectors."),
    ("lock.claim", {"session": "s", "resource": "a", "wait": -1}, "wait is -1; it must be a time such as 90,"),
    ("lock.claim", {"session": "s", "resource": "a", "wait": float("nan")}, "wait is nan; it must be a time such as"),
    ("lock.claim", {"session": "s", "resource": "a", "exclusive": "yes"}, "exclusive is 'yes'; it must be true or"),
    ("session.register", {"type": "x", "summary": "y", "metadata": []}, "metadata is []; it must be a JSON object."),
    ("stats", {"all": True}, "stats has no argument 'all'. It takes no arguments."),
]


@pytest.mark.requirement("OPERATION-3")
@pytest.mark.parametrize(("name", "given", "said"), WRONG, ids=[str(case[1]) for case in WRONG])
def test_a_wrong_argument_is_named_with_its_value_and_what_is_allowed(
    name: str, given: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_arguments(OPERATIONS[name], given)
    assert str(refused.value).startswith(said)


@pytest.mark.requirement("OPERATION-3")
def test_a_missing_argument_is_named_with_what_it_is(eng: Engram) -> None:
    with pytest.raises(InvalidInput) as refused:
        run(eng, OPERATIONS["recall"], {"k": 3})
    assert str(refused.value).startswith(
        "recall needs 'query' (a question or a few words). It takes query (required), k, kinds,"
    )


#: What a refusal calls an argument that has another name in its tier.
CALLED = {("memory.link", "to"): "memory id", ("dream.show", "id"): "dream"}
CALLED[("memory.update", "expected_version")] = "version"
CALLED |= {("block.diff", "a"): "version", ("block.diff", "b"): "version"}
WRONG_NUMBERS: dict[str, list[float]] = {"whole": [-5, 10**30], "number": [-5, math.nan, math.inf]}
WRONG_NUMBERS["duration"] = WRONG_NUMBERS["number"]


@pytest.mark.requirement("OPERATION-3")
def test_a_number_out_of_range_is_refused_before_anything_is_written(eng: Engram, scene: Scene) -> None:
    cases = {name: arguments(scene) for name, (arguments, _) in CASES.items()}
    cases["session.list"] = {}
    before = eng.changes(limit=10_000)
    for name, operation in OPERATIONS.items():
        for each in operation.inputs:
            # A version that a block or a memory is not at is a conflict, whichever it is.
            error = VersionConflict if each.name == "expected_version" else InvalidInput
            called = CALLED.get((name, each.name), "expected" if error is VersionConflict else each.name)
            for wrong in WRONG_NUMBERS.get(each.kind, []):
                with pytest.raises(error, match=rf"\b{called}\b") as refused:
                    run(eng, operation, {**cases[name], each.name: wrong})
                assert str(wrong) in str(refused.value)
    assert eng.changes(limit=10_000) == before


@pytest.mark.requirement("OPERATION-3")
def test_what_is_right_is_taken_as_it_is_and_null_as_not_given() -> None:
    operation = Operation("x", "read", "X.", print, (text("a"), texts("b"), whole("c"), number("d"), text(SESSION)))
    given = {"a": "text", "b": ["p"], "c": 5.0, "d": 0.5, SESSION: None}
    assert check_arguments(operation, given) == {"a": "text", "b": ["p"], "c": 5, "d": 0.5}


@pytest.mark.requirement("OPERATION-3")
def test_an_input_is_also_understood_under_its_earlier_name(eng: Engram, scene: Scene) -> None:
    def complete(**given: str) -> Any:
        return run(eng, OPERATIONS["session.complete"], {"session": scene.me, **given})["result"]

    assert complete(summary="Ported")["outcome"] == "Ported"
    with pytest.raises(InvalidInput, match="no argument 'summary'"):
        complete(summary="Ported", outcome="Ported")


@pytest.mark.requirement("OPERATION-3")
def test_a_long_wrong_value_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_arguments(OPERATIONS["recall"], {"query": "x", "k": "9" * 10_000})
    assert len(str(refused.value)) < 200


@pytest.mark.requirement("OPERATION-3")
def test_what_the_store_does_not_know_is_its_own_typed_error(eng: Engram) -> None:
    with pytest.raises(SessionNotFound):
        run(eng, OPERATIONS["session.log"], {"session": "nobody", "text": "x"})


@pytest.mark.requirement("OVERVIEW-6")
def test_the_history_of_a_session_has_pages_before_and_after_a_number(eng: Engram) -> None:
    session = eng.sessions.register("codex", "Talk")
    for step in range(3):
        eng.exchanges.add(session, "user", f"turn {step}", embed=False)
        eng.sessions.log(session, f"step {step}")

    def history(**given: object) -> tuple[list[int], bool]:
        answer: Any = run(eng, OPERATIONS["exchange.history"], {"id": session, **given})
        return [each["seq"] for each in answer["result"]], answer["next"] is not None

    assert history(logs=True, last=2) == ([5, 6], False)
    assert history(logs=True, before=5, limit=3) == ([2, 3, 4], False)
    assert history(logs=True, before=2, limit=3) == ([1], False)
    assert history(before=5, limit=2) == ([1, 3], False)
    assert history(logs=True, after=2, limit=2) == ([3, 4], True)
    for both in ({"after": 1, "before": 3}, {"last": 1, "before": 3}):
        with pytest.raises(InvalidInput, match="cannot be combined"):
            history(**both)


@pytest.mark.requirement("OVERVIEW-5")
def test_the_list_of_sessions_takes_filters(eng: Engram, scene: Scene) -> None:
    eng.sessions.complete(scene.other, "done")

    def ids(**given: object) -> list[str]:
        answer: Any = run(eng, OPERATIONS["session.list"], given)
        return [each["id"] for each in answer["result"]]

    assert ids(type="codex") == []
    assert ids(type="codex", all=True) == ids(status="completed") == [scene.other]
    assert set(ids(since="2020-01-01")) == {scene.me, scene.other}
    assert ids(until="2020-01-01") == []
    assert ids(project="nowhere") == ids(project="nowhere", all=True) == []
