"""Any order of calls, on both engines, against a plain model of what they promise.

Hypothesis makes up sequences of calls. `Model` says in memory what each should do; after every step the store must say
the same, and once more after it was closed and opened again. Each sequence has a workspace of its own, so that they
share one store without meeting. Times to live and limits lie half a minute off the steps in which time passes, so that
the moments the calls themselves take never decide anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engram import (
    BlockExists,
    BlockNotFound,
    Engram,
    LeaseHeld,
    LeaseLost,
    LeaseNotFound,
    NoRecipient,
    SessionEnded,
    Stats,
    VersionConflict,
    VersionNotFound,
)
from engram.clock import between
from engram.config import load
from tests.conftest import ShiftedClock
from tests.stress._processes import scaled

STALE_AFTER, ABANDON_AFTER, LEASE_TTL = 1_830, 86_430, 930
TTLS = st.sampled_from([None, None, 100_050, 1_590, 90])

FILES, PATTERN = ("shop:src/a.py", "shop:src/b.py"), "shop:src/**"
#: What everybody wants comes up more often than what nobody contends for.
RESOURCES = st.sampled_from([FILES[0], FILES[0], PATTERN, FILES[1]])
BLOCKS = st.sampled_from(["plan", "world"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)
#: What a log entry or a message may be.
WORDS = TEXTS.filter(str.strip)


def overlap(a: str, b: str) -> bool:
    return a == b or PATTERN in (a, b)


@dataclass
class ModelSession:
    id: str
    kind: str
    status: str
    summary: str = ""
    outcome: str = ""
    external_id: str | None = None
    #: When it was last heard of, and the place of that among all such moments.
    heard: int = 0
    place: int = 0
    logs: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


@dataclass
class ModelLease:
    token: int
    session: str
    resource: str
    exclusive: bool
    ttl: int | None
    claimed: int
    expires: int | None = None


class Model:
    """What a workspace should look like."""

    def __init__(self) -> None:
        self.now = 0
        self.places = itertools.count(1)
        self.sessions: dict[str, ModelSession] = {}
        self.leases: dict[int, ModelLease] = {}
        self.tokens: list[int] = []
        #: Each block's contents, the first version first.
        self.blocks: dict[str, list[str]] = {}

    def hear(self, session: ModelSession) -> None:
        session.heard, session.place = self.now, next(self.places)

    def begin(self, session: ModelSession, summary: str | None) -> None:
        session.status = "active"
        session.summary = session.summary if summary is None else summary
        self.hear(session)

    def active(self) -> list[ModelSession]:
        found = [session for session in self.sessions.values() if session.status == "active"]
        return sorted(found, key=lambda session: -session.place)

    def is_stale(self, session: ModelSession) -> bool:
        return session.status == "active" and self.now - session.heard > STALE_AFTER

    def live(self, session: str | None = None) -> list[ModelLease]:
        found = [each for each in self.leases.values() if each.expires is None or each.expires > self.now]
        return [each for each in found if session in (None, each.session)]

    def others(self, session: str | None, resource: str) -> list[ModelLease]:
        return [each for each in self.live() if each.session != session and overlap(each.resource, resource)]

    def own(self, session: str, resource: str) -> ModelLease | None:
        return next((each for each in self.live(session) if each.resource == resource), None)

    def end(self, leases: list[ModelLease]) -> None:
        for lease in leases:
            del self.leases[lease.token]

    def renew(self, lease: ModelLease) -> None:
        lease.expires = None if lease.ttl is None else self.now + lease.ttl

    def sign_of_life(self, session: str) -> None:
        for lease in self.live(session):
            if lease.exclusive:
                self.renew(lease)

    def sweep(self) -> None:
        for session in self.active():
            if self.now - session.heard > ABANDON_AFTER:
                session.status = "abandoned"
                self.end(self.live(session.id))

    def stats(self) -> Stats:
        counted = [session.status for session in self.sessions.values()]
        logs = sum(len(session.logs) for session in self.sessions.values())
        return Stats(
            sessions=len(counted),
            active=counted.count("active"),
            stale=sum(map(self.is_stale, self.sessions.values())),
            completed=counted.count("completed"),
            abandoned=counted.count("abandoned"),
            logs=logs,
            leases=len(self.live()),
            blocks=len(self.blocks),
            idle=counted.count("idle"),
            # Log entries are indexed later; nothing here works the queue off.
            embedding_queue=logs,
        )


class Workspace(RuleBasedStateMachine):
    """A workspace and its model, and what can be done to both."""

    known = Bundle("known")

    def __init__(self, reopen: Callable[[], Engram], clock: ShiftedClock) -> None:
        super().__init__()
        self.open = reopen
        self.clock = clock
        self.eng = reopen()
        self.model = Model()

    def teardown(self) -> None:
        self.reopen()
        with self.eng:
            self.check()
            for sid, session in self.model.sessions.items():
                assert [message.text for message in self.eng.messages.inbox(sid, peek=True)] == session.unread
                assert [entry.content for entry in reversed(self.eng.sessions.logs(sid, 0))] == session.logs

    @initialize(target=known)
    def begin(self) -> MultipleResults[str]:
        self.register("codex", "", None)
        self.register("cursor", "", "h")
        self.eng.sessions.ensure("chat-1")
        self.model.sessions["chat-1"] = ModelSession("chat-1", "chat", "idle")
        self.eng.world.set("")
        self.model.blocks["world"] = [""]
        return multiple(*self.model.sessions)

    @rule(target=known, kind=st.sampled_from(["codex", "cursor"]), summary=TEXTS, external=st.sampled_from([None, "h"]))
    def register(self, kind: str, summary: str, external: str | None) -> str:
        sid = self.eng.sessions.register(kind, summary, external_id=external)
        same = [each for each in self.model.sessions.values() if (each.kind, each.external_id) == (kind, external)]
        if external and same:
            assert sid == same[0].id
        else:
            assert sid not in self.model.sessions
            self.model.sessions[sid] = ModelSession(sid, kind, "active", external_id=external)
        self.model.begin(self.model.sessions[sid], summary)
        self.model.sweep()
        return sid

    @rule(sid=known, summary=st.none() | TEXTS)
    def heartbeat(self, sid: str, summary: str | None) -> None:
        assert self.eng.sessions.heartbeat(sid, summary).status == "active"
        self.model.sign_of_life(sid)
        self.model.begin(self.model.sessions[sid], summary)

    @rule(sid=known, entry=WORDS)
    def log(self, sid: str, entry: str) -> None:
        session = self.model.sessions[sid]
        session.logs.append(entry)
        assert self.eng.sessions.log(sid, entry).seq == len(session.logs)
        self.model.sign_of_life(sid)
        if session.status == "active":
            self.model.hear(session)

    @rule(sid=known, outcome=st.none() | TEXTS)
    def complete(self, sid: str, outcome: str | None) -> None:
        self.eng.sessions.complete(sid, outcome)
        self.model.begin(self.model.sessions[sid], None)
        if outcome is not None:
            self.model.sessions[sid].outcome = outcome
        self.model.sessions[sid].status = "completed"
        self.model.end(self.model.live(sid))

    # Several at once: what is interesting about claims needs more than one of them.
    @rule(claims=st.lists(st.tuples(known, RESOURCES, st.booleans(), TTLS), min_size=1, max_size=4))
    def claim_all(self, claims: list[tuple[str, str, bool, int | None]]) -> None:
        for sid, resource, exclusive, ttl in claims:
            self.claim(sid, resource, exclusive, ttl)

    def claim(self, sid: str, resource: str, exclusive: bool, ttl: int | None) -> None:
        if self.model.sessions[sid].status in ("completed", "abandoned"):
            with pytest.raises(SessionEnded):
                self.eng.leases.claim(sid, resource, exclusive=exclusive, ttl=ttl)
            return
        mine, others = self.model.own(sid, resource), self.model.others(sid, resource)
        if exclusive and others and not (mine and mine.exclusive):
            with pytest.raises(LeaseHeld) as held:
                self.eng.leases.claim(sid, resource, exclusive=True, ttl=ttl)
            assert [each.session_id for each in held.value.holders] == [each.session for each in others]
            return
        lease = self.eng.leases.claim(sid, resource, exclusive=exclusive, ttl=ttl)
        assert [each.session_id for each in lease.conflicts] == [each.session for each in others]
        if mine:
            assert lease.token == mine.token
        else:
            assert lease.token > max(self.model.tokens, default=0)
            self.model.tokens.append(lease.token)
            mine = ModelLease(lease.token, sid, resource, exclusive, None, self.model.now)
            self.model.leases[lease.token] = mine
        # A lease that becomes exclusive gets the usual time of an exclusive one.
        kept = mine.ttl if mine.exclusive or not exclusive else None
        mine.exclusive = mine.exclusive or exclusive
        mine.ttl = ttl or kept or (LEASE_TTL if mine.exclusive else None)
        self.model.renew(mine)

    @precondition(lambda self: self.model.live())
    @rule(number=st.integers(0, 5))
    def release(self, number: int) -> None:
        live = self.model.live()
        mine = live[number % len(live)]
        assert self.eng.leases.release(mine.session, mine.resource).token == mine.token
        self.model.end([mine])
        with pytest.raises(LeaseNotFound):
            self.eng.leases.release(mine.session, mine.resource)

    @precondition(lambda self: self.model.live())
    @rule(sid=known)
    def release_all(self, sid: str) -> None:
        held = self.model.live(sid)
        assert [lease.token for lease in self.eng.leases.release_all(sid)] == [lease.token for lease in held]
        self.model.end(held)

    @precondition(lambda self: self.model.live())
    @rule(sid=known, resource=RESOURCES)
    def break_lease(self, sid: str, resource: str) -> None:
        others = self.model.others(sid, resource)
        if not others:
            with pytest.raises(LeaseNotFound):
                self.eng.leases.break_lease(resource, sid, "needed")
            return
        broken = self.eng.leases.break_lease(resource, sid, "needed")
        assert [lease.token for lease in broken] == [lease.token for lease in others]
        self.model.end(others)
        for told in {sid, *(lease.session for lease in others)}:
            entry = self.eng.sessions.logs(told, 1)[0].content
            self.model.sessions[told].logs.append(entry)
            if told != sid:
                self.model.sessions[told].unread.append(entry)
        # Being robbed is no sign of life; robbing is.
        if self.model.sessions[sid].status == "active":
            self.model.hear(self.model.sessions[sid])

    @precondition(lambda self: self.model.tokens)
    @rule(number=st.integers(0, 50))
    def renew(self, number: int) -> None:
        token = self.model.tokens[number % len(self.model.tokens)]
        lease = self.model.leases.get(token)
        if lease is None or lease not in self.model.live():
            with pytest.raises(LeaseLost):
                self.eng.leases.renew(token)
            return
        self.eng.leases.renew(token)
        self.model.renew(lease)

    @rule(seconds=st.sampled_from([60, 600, 600, 3_600]))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds

    @rule(seconds=st.sampled_from([90_000, 43_200, 0]))
    def report(self, seconds: int) -> None:
        self.let_time_pass(seconds)
        assert f"Active sessions ({len(self.model.active())})" in self.eng.sitrep() or not self.model.active()
        self.model.sweep()

    @rule(sender=st.none() | known, to=known | RESOURCES | st.just("*"), text=WORDS)
    def send(self, sender: str | None, to: str, text: str) -> None:
        if to == "*":
            reached = {session.id for session in self.model.active()} - {sender}
        elif to in self.model.sessions:
            reached = {to}
        else:
            reached = {lease.session for lease in self.model.others(sender, to)}
        if not reached:
            with pytest.raises(NoRecipient):
                self.eng.messages.send(sender, to, text)
            return
        assert self.eng.messages.send(sender, to, text).recipients == tuple(sorted(map(str, reached)))
        for sid in map(str, reached):
            self.model.sessions[sid].unread.append(text)

    @rule(sid=known)
    def inbox(self, sid: str) -> None:
        session = self.model.sessions[sid]
        assert [message.text for message in self.eng.messages.inbox(sid)] == session.unread
        session.unread = []

    @rule(name=BLOCKS, edit=st.sampled_from(["create", "update", "append", "restore", "delete", "set"]), data=st.data())
    def edit_block(self, name: str, edit: str, data: st.DataObject) -> None:
        getattr(self, f"{edit}_block")(name, data)

    def create_block(self, name: str, data: st.DataObject) -> None:
        content = data.draw(TEXTS)
        if name in self.model.blocks:
            with pytest.raises(BlockExists):
                self.eng.blocks.create(name, content)
            return
        assert self.eng.blocks.create(name, content).version == 1
        self.model.blocks[name] = [content]

    def update_block(self, name: str, data: st.DataObject) -> None:
        content, behind = data.draw(TEXTS), data.draw(st.sampled_from([None, 0, 1]))
        versions = self.model.blocks.get(name, [])
        expected = None if behind is None else len(versions) - behind
        if not versions:
            with pytest.raises(BlockNotFound):
                self.eng.blocks.update(name, content, expected_version=expected)
        elif behind:
            with pytest.raises(VersionConflict) as conflict:
                self.eng.blocks.update(name, content, expected_version=expected)
            assert conflict.value.current == len(versions)
        else:
            versions.append(content)
            assert self.eng.blocks.update(name, content, expected_version=expected).version == len(versions)

    def append_block(self, name: str, data: st.DataObject) -> None:
        versions, text = self.model.blocks.get(name), data.draw(TEXTS)
        if versions is None:
            with pytest.raises(BlockNotFound):
                self.eng.blocks.append(name, text)
            return
        versions.append(versions[-1] + text)
        assert self.eng.blocks.append(name, text).content == versions[-1]

    def restore_block(self, name: str, data: st.DataObject) -> None:
        versions, version = self.model.blocks.get(name, []), data.draw(st.integers(1, 4))
        if version > len(versions):
            with pytest.raises(VersionNotFound if versions else BlockNotFound):
                self.eng.blocks.restore(name, version)
            return
        versions.append(versions[version - 1])
        assert self.eng.blocks.restore(name, version).content == versions[-1]

    def delete_block(self, name: str, _: st.DataObject) -> None:
        if self.model.blocks.pop(name, None) is None:
            with pytest.raises(BlockNotFound):
                self.eng.blocks.delete(name)
        else:
            self.eng.blocks.delete(name)

    def set_block(self, _: str, data: st.DataObject) -> None:
        text = data.draw(TEXTS)
        self.eng.world.set(text)
        self.model.blocks.setdefault("world", []).append(text)

    @rule()
    def reopen(self) -> None:
        self.eng.close()
        self.eng = self.open()

    @invariant()
    def check(self) -> None:
        self.check_sessions()
        self.check_leases()
        self.check_blocks()
        stats = self.eng.sessions.stats()
        assert stats._replace(embedder="", store_bytes=0) == self.model.stats()

    def check_sessions(self) -> None:
        model = self.model
        assert [(each.id, each.summary, each.outcome, each.stale) for each in self.eng.sessions.active()] == [
            (each.id, each.summary, each.outcome, model.is_stale(each)) for each in model.active()
        ]
        assert {each.id: each.status for each in self.eng.sessions.list()} == {
            each.id: each.status for each in model.sessions.values()
        }

    def check_leases(self) -> None:
        live = self.eng.leases.list()
        assert [(each.token, each.session_id, each.resource, each.exclusive, each.ttl) for each in live] == [
            (each.token, each.session, each.resource, each.exclusive, each.ttl) for each in self.model.live()
        ]
        for lease in live:
            model = self.model.leases[lease.token]
            lifetime = between(lease.claimed_at, lease.expires_at) if lease.expires_at else None
            expected = model.expires - model.claimed if model.expires is not None else None
            assert lifetime == expected or (lifetime and expected and abs(lifetime - expected) < 30)
        for a, b in itertools.combinations([lease for lease in live if lease.exclusive], 2):
            assert a.session_id == b.session_id or not overlap(a.resource, b.resource)

    def check_blocks(self) -> None:
        assert [(each.name, each.content, each.version) for each in self.eng.blocks.list()] == [
            (name, versions[-1], len(versions)) for name, versions in sorted(self.model.blocks.items())
        ]
        for name, versions in self.model.blocks.items():
            steps = [(edit.version, edit.old, edit.new) for edit in reversed(self.eng.blocks.history(name))]
            assert steps == [(number, *pair) for number, pair in enumerate(itertools.pairwise(versions), 2)]
            assert self.eng.blocks.verify(name) == len(versions)


@pytest.mark.requirement("SESSION-2", "SESSION-5", "SESSION-6", "SESSION-10", "SESSION-12")
@pytest.mark.requirement("LEASE-2", "LEASE-3", "LEASE-6", "LEASE-7", "LEASE-8", "LEASE-10", "MESSAGE-2")
@pytest.mark.requirement("BLOCK-3", "BLOCK-6", "BLOCK-11")
def test_any_order_of_calls_leaves_the_store_as_the_model_says(store_url: str, clock: ShiftedClock) -> None:
    # Where a call costs less, more of them are made in the same time.
    examples, steps = (scaled(15, 100), 25) if store_url.startswith("postgresql:") else (scaled(40, 300), 30)
    numbers = itertools.count(1)

    class Fresh(Workspace):
        def __init__(self) -> None:
            config = load(
                url=store_url,
                workspace=f"w{next(numbers)}",
                stale_after=STALE_AFTER,
                abandon_after=ABANDON_AFTER,
                lease_ttl=LEASE_TTL,
            )
            super().__init__(lambda: Engram(settings=config, clock=clock), clock)

    # Each step talks to a database, which Hypothesis would call slow; and there is nothing to remember between runs.
    run_state_machine_as_test(
        Fresh,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
