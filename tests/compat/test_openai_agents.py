"""The history of an agent of the OpenAI Agents SDK is kept in Engram, exactly, and every other agent can recall it."""

from __future__ import annotations

import asyncio
import importlib
import random
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
from agents.items import TResponseInputItem, TResponseStreamEvent
from agents.memory import OpenAIResponsesCompactionSession, Session, SessionSettings
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

from engram import Engram, InvalidInput, MissingExtra
from engram.compat.openai_agents import EngramSession
from tests._tables import holds

pytestmark = pytest.mark.requirement("COMPAT-7")

#: Nothing leaves the machine.
QUIET = RunConfig(tracing_disabled=True)
USER = {"role": "user", "content": "Where does the heron nest?"}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [
        {"type": "output_text", "text": "By the weir.", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "I will not say more."},
    ],
}
#: Items of all kinds, with texts that a store might change.
ITEMS: list[Any] = [
    USER,
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo" + "rT4kQ9xZ_-Aa1" * 9},
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at": "weir", "n": 1.50}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "a\x00b \ud83d \x1b[31m\r\n\u2028"},
    ANSWER,
    {"role": "developer", "content": "Answer briefly."},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]},
    {"role": "user", "content": "a\x00b and \ud83d alone, 河のほとり 🐦"},
    {"role": "user", "content": "  "},
    {"type": "item_reference", "id": "x", "extra": {"deep": [[[{"n": None, "f": 1e-9, "big": 2**70, "t": True}]]]}},
]


def items(*given: Any) -> list[TResponseInputItem]:
    return list(given)


class Script(Model):
    """A model that gives the next of its answers, and keeps what it was asked."""

    def __init__(self, *answers: list[ResponseOutputItem]) -> None:
        self.answers = list(answers)
        self.asked: list[list[Any]] = []

    async def get_response(self, system_instructions: str | None, input: Any, *_: Any, **__: Any) -> ModelResponse:
        self.asked.append([{"role": "user", "content": input}] if isinstance(input, str) else list(input))
        return ModelResponse(output=self.answers.pop(0), usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError


def says(text: str) -> list[ResponseOutputItem]:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return [ResponseOutputMessage(id="msg_1", type="message", role="assistant", status="completed", content=[content])]


def calls(tool: str, arguments: str) -> list[ResponseOutputItem]:
    return [
        ResponseReasoningItem(id="rs_1", type="reasoning", summary=[Summary(type="summary_text", text="Look it up.")]),
        ResponseFunctionToolCall(
            id="fc_1", type="function_call", call_id="call_1", name=tool, arguments=arguments, status="completed"
        ),
    ]


@function_tool
def nests(bird: str) -> str:
    """Where a bird nests."""
    return f"The {bird} nests by the weir."


async def talk(session: Session) -> list[list[Any]]:
    """The SDK's example of a session, with a model that needs no network; what the model was asked."""
    model = Script(says("San Francisco"), calls("nests", '{"bird": "heron"}'), says("By the weir."), says("California"))
    agent = Agent(name="Assistant", instructions="Reply very concisely.", model=model, tools=[nests])
    first = await Runner.run(agent, "What city is the Golden Gate Bridge in?", session=session, run_config=QUIET)
    assert first.final_output == "San Francisco"
    await Runner.run(agent, "Where does the heron nest?", session=session, run_config=QUIET)
    last = await Runner.run(agent, "What state is it in?", session=session, run_config=QUIET)
    assert last.final_output == "California"
    return model.asked


@pytest.fixture
def session(eng: Engram) -> EngramSession:
    return EngramSession("conversation_123", eng)


def test_the_sdks_example_runs_with_one_line_changed(session: EngramSession, open_store: Callable[..., Engram]) -> None:
    asked = asyncio.run(talk(session))
    assert [each.get("content") for each in asked[1][:1]] == ["What city is the Golden Gate Bridge in?"]
    # Another agent of the same person, in another process.
    hits = open_store().recall("which city has the Golden Gate Bridge?", k=2)
    assert {hit.text for hit in hits} == {"San Francisco", "What city is the Golden Gate Bridge in?"}
    turns = open_store().exchanges.history("conversation_123")
    assert [(turn.role, turn.content) for turn in turns] == [
        ("user", "What city is the Golden Gate Bridge in?"),
        ("assistant", "San Francisco"),
        ("user", "Where does the heron nest?"),
        ("assistant", "By the weir."),
        ("user", "What state is it in?"),
        ("assistant", "California"),
    ]


def test_a_run_sees_and_leaves_the_same_history_as_with_the_sdks_own_session(session: EngramSession) -> None:
    async def both() -> None:
        own = SQLiteSession("conversation_123")
        assert await talk(session) == await talk(own)
        stored = await own.get_items()
        assert {cast("dict[str, Any]", item).get("type", "message") for item in stored} == {
            *("message", "reasoning", "function_call", "function_call_output"),
        }
        assert await session.get_items() == stored
        own.close()

    asyncio.run(both())


def test_a_later_process_continues_the_conversation_also_without_async(
    session: EngramSession, open_store: Callable[..., Engram]
) -> None:
    asyncio.run(talk(session))
    model = Script(says("39 million"))
    agent = Agent(name="Assistant", model=model)
    later = EngramSession("conversation_123", open_store())
    # The SDK leaves the loop that it uses open.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        result = Runner.run_sync(agent, "And the population?", session=later, run_config=QUIET)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert result.final_output == "39 million"
    assert len(model.asked[0]) == 10
    assert asyncio.run(later.get_items(1))[0].get("role") == "assistant"


def test_it_follows_the_protocol(session: EngramSession) -> None:
    follows: Session = session
    assert isinstance(follows, Session)
    assert session.session_id == "conversation_123"
    assert session.session_settings == SessionSettings()


def test_every_item_comes_back_exactly_and_in_order(session: EngramSession) -> None:
    async def through() -> None:
        assert await session.get_items() == []
        await session.add_items([])
        await session.add_items(items(*ITEMS[:4]))
        await session.add_items(items(*ITEMS[4:]))
        assert await session.get_items() == ITEMS
        for limit in (0, 1, 3, len(ITEMS), 99):
            assert await session.get_items(limit=limit) == ITEMS[len(ITEMS) - min(limit, len(ITEMS)) :]

    asyncio.run(through())


def test_what_is_said_is_a_turn_and_nothing_else_is(session: EngramSession, eng: Engram) -> None:
    asyncio.run(session.add_items(items(*ITEMS)))
    assert [(turn.role, turn.content) for turn in eng.exchanges.history("conversation_123")] == [
        ("user", "Where does the heron nest?"),
        ("assistant", "By the weir.\nI will not say more."),
        ("system", "Answer briefly."),
        ("user", "a\ufffdb and \ufffd alone, 河のほとり 🐦"),
    ]


def test_the_settings_limit_what_is_given_unless_the_caller_says(eng: Engram) -> None:
    async def limited() -> None:
        session = EngramSession("s", eng, session_settings=SessionSettings(limit=2))
        await session.add_items(items(*ITEMS[:5]))
        assert await session.get_items() == ITEMS[3:5]
        assert await session.get_items(1) == ITEMS[4:5]
        session.session_settings = None
        assert await session.get_items() == ITEMS[:5]

    asyncio.run(limited())


def test_it_behaves_like_the_sdks_own_session_whatever_is_done(eng: Engram) -> None:
    choose = random.Random(7)

    async def compared() -> None:
        engram, own = EngramSession("s", eng), SQLiteSession("s")
        for step in range(25):
            match choose.choice(["add", "add", "add", "pop", "pop", "get", "clear"]):
                case "add":
                    some = items(*choose.choices(ITEMS, k=choose.randint(0, 3)))
                    await engram.add_items(some)
                    await own.add_items(some)
                case "pop":
                    assert await engram.pop_item() == await own.pop_item()
                case "get":
                    limit = choose.randint(1, 4)
                    assert await engram.get_items(limit) == await own.get_items(limit)
                case "clear" if step > 12:
                    await engram.clear_session()
                    await own.clear_session()
            assert await engram.get_items() == await own.get_items()
        own.close()

    asyncio.run(compared())


def test_a_popped_item_is_forgotten(session: EngramSession, eng: Engram, store_url: str) -> None:
    async def popped() -> None:
        await session.add_items(items({"role": "user", "content": "The kestrel hovers."}, ITEMS[2]))
        assert await session.pop_item() == ITEMS[2]
        assert await session.pop_item() == {"role": "user", "content": "The kestrel hovers."}
        assert await session.pop_item() is None
        assert await session.get_items() == []

    asyncio.run(popped())
    assert holds(store_url, "kestrel") == holds(store_url, "weir") == {}
    assert eng.recall("kestrel", min_score=0) == []


def test_a_cleared_session_is_forgotten_and_goes_on(session: EngramSession, eng: Engram, store_url: str) -> None:
    async def cleared() -> None:
        await session.clear_session()
        await session.add_items(items(*ITEMS, {"role": "user", "content": "The kestrel hovers."}))
        eng.sessions.log("conversation_123", "looked at birds")
        eng.remember("Birds nest near water.", session_id="conversation_123")
        await session.clear_session()
        assert await session.get_items() == []
        await session.add_items(items(USER))
        assert await session.get_items() == [USER]

    asyncio.run(cleared())
    assert holds(store_url, "kestrel") == {}
    # What is not an item of the conversation stays.
    assert [memory.content for memory in eng.memories.list()] == ["Birds nest near water."]
    assert eng.sessions.logs("conversation_123")[-1].content == "looked at birds"
    assert len(eng.receipts()) == 1


def test_forgetting_a_turn_takes_its_item(session: EngramSession, eng: Engram) -> None:
    asyncio.run(session.add_items(items(*ITEMS[:5])))
    eng.forget(exchange=eng.exchanges.history("conversation_123")[0].id)
    assert asyncio.run(session.get_items()) == ITEMS[1:5]
    eng.forget(session="conversation_123")
    assert asyncio.run(session.get_items()) == []
    asyncio.run(session.add_items(items(USER)))
    assert asyncio.run(session.get_items()) == [USER]


def test_an_item_with_a_secret_comes_back_without_it(session: EngramSession, store_url: str) -> None:
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    asyncio.run(session.add_items(items({"role": "user", "content": f"use {token}"})))
    assert asyncio.run(session.get_items()) == [{"role": "user", "content": "use [redacted: github token]"}]
    assert holds(store_url, token) == {}


def test_one_item_that_cannot_be_stored_keeps_out_the_others(session: EngramSession) -> None:
    with pytest.raises(InvalidInput, match="message"):
        asyncio.run(session.add_items(items(USER, {"role": "user", "content": float("inf")})))
    assert asyncio.run(session.get_items()) == []


def test_writers_of_one_session_do_not_mix_their_items(open_store: Callable[..., Engram]) -> None:
    def write(writer: int) -> None:
        session = EngramSession("s", stores[writer])
        for batch in range(6):
            given = [{"role": "user", "content": f"{writer} {batch} {place}"} for place in range(3)]
            asyncio.run(session.add_items(items(*given)))

    def pop(writer: int) -> None:
        session = EngramSession("s", stores[writer])
        while item := asyncio.run(session.pop_item()):
            popped.append(str(item.get("content")))

    stores = [open_store(), open_store()]
    popped: list[str] = []
    run_both(write)
    said = [str(item.get("content")).split() for item in asyncio.run(EngramSession("s", stores[0]).get_items())]
    assert len(said) == 36
    for start in range(0, 36, 3):
        writer, batch, _ = said[start]
        assert said[start : start + 3] == [[writer, batch, place] for place in "012"]
    for writer in "01":
        assert [batch for by, batch, place in said if by == writer and place == "0"] == list("012345")
    asyncio.run(EngramSession("s", stores[0]).clear_session())
    asyncio.run(
        EngramSession("s", stores[0]).add_items(items(*[{"role": "user", "content": f"{n}"} for n in range(8)]))
    )
    run_both(pop)
    assert sorted(popped) == [f"{n}" for n in range(8)]


def run_both(target: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=target, args=(writer,)) for writer in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_write_whose_caller_is_cancelled_is_finished_first(session: EngramSession) -> None:
    async def cancelled() -> None:
        adding = asyncio.create_task(session.add_items(items(USER)))
        await asyncio.sleep(0)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert await session.get_items() == [USER]
        failing = asyncio.create_task(session.add_items(items({"content": float("nan")})))
        await asyncio.sleep(0)
        failing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await failing

    asyncio.run(cancelled())


def test_the_sdks_compaction_works_on_it(session: EngramSession) -> None:
    async def compacted() -> None:
        wrapped = OpenAIResponsesCompactionSession(
            session_id="conversation_123", underlying_session=session, should_trigger_compaction=lambda _: False
        )
        await wrapped.add_items(items(USER, ANSWER))
        assert await wrapped.pop_item() == ANSWER
        await wrapped.clear_session()
        assert await session.get_items() == []

    asyncio.run(compacted())


def test_it_opens_a_store_by_its_address_and_leaves_a_given_one_open(eng: Engram, store_url: str) -> None:
    given, by_address = EngramSession("s", eng, workspace="team"), EngramSession("s", store_url, workspace="team")
    asyncio.run(given.add_items(items(USER)))
    assert asyncio.run(by_address.get_items()) == [USER]
    given.close()
    by_address.close()
    assert asyncio.run(given.get_items()) == [USER]
    assert asyncio.run(EngramSession("s", eng).get_items()) == []


def test_it_opens_a_path_and_by_default_the_users_own_store(tmp_path: Path) -> None:
    for store in (tmp_path / "talks.db", None):
        session = EngramSession("s", store)
        asyncio.run(session.add_items(items(USER)))
        session.close()
        with Engram(str(store) if store else None) as eng:
            assert [turn.content for turn in eng.exchanges.history("s")] == [USER["content"]]


def test_a_wrong_id_is_refused_before_a_store_is_opened(tmp_path: Path) -> None:
    for wrong in ("", "a\nb", "x" * 201, "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"):
        with pytest.raises(InvalidInput, match="session id"):
            EngramSession(wrong, tmp_path / "talks.db")
    assert list(tmp_path.iterdir()) == []


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "engram.compat.openai_agents")
    monkeypatch.setitem(sys.modules, "agents.memory", None)
    with pytest.raises(MissingExtra, match=r"install 'engram-agents\[openai-agents\]'"):
        importlib.import_module("engram.compat.openai_agents")


def test_items_that_are_no_messages_are_refused_or_kept_without_a_turn(eng: Engram) -> None:
    session = EngramSession("c", eng)
    for wrong in (["text"], [None], None, [USER, 5]):
        with pytest.raises(InvalidInput):
            asyncio.run(session.add_items(cast("Any", wrong)))
    with pytest.raises(InvalidInput):
        asyncio.run(session.get_items(cast("Any", "2")))
    odd: list[Any] = [
        {"role": ["user"], "content": "x"},
        {"role": None, "content": "y"},
        {"role": "bird", "content": "z"},
    ]
    asyncio.run(session.add_items(odd))
    assert asyncio.run(session.get_items()) == odd


def test_the_store_can_be_given_as_the_sdk_names_it(tmp_path: Path) -> None:
    session = EngramSession("c", db_path=tmp_path / "x.db")
    asyncio.run(session.add_items(cast("Any", [USER])))
    session.close()
    assert (tmp_path / "x.db").exists()
    with pytest.raises(InvalidInput):
        EngramSession("c", tmp_path / "x.db", db_path=tmp_path / "y.db")
