"""Models behind servers: the same promises for both protocols, on servers that answer, fail and count."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
import traceback
from email.utils import formatdate
from typing import Any

import pytest

from engram import LLMFailed, LLMMalformed, LLMRefused, LLMTruncated, LLMUnavailable
from engram.llm import Passage, Prompt, Usage, load

from ._server import KEY, Response, Script, failing, hanging_up, raw
from .conftest import Refused, Setup

PROMPT = Prompt("gist", "Say what happened.", (Passage("e1", "user, 2023-05-07", "We chose SQLite."),))
SCHEMA = {
    "type": "object",
    "properties": {"gist": {"type": "string", "maxLength": 100}, "lines": {"type": "integer", "minimum": 1}},
    "required": ["gist", "lines"],
    "additionalProperties": False,
}
GOOD = '{"gist": "SQLite was chosen.", "lines": 1}'


def shown(setup: Setup, request: int = -1) -> str:
    """All that a request said to the model."""
    asked = setup.server.requests[request]
    return "\n".join([str(asked.get("system", "")), *(str(turn["content"]) for turn in asked["messages"])])


@pytest.mark.requirement("LLM-5")
def test_the_answer_is_the_models_text_and_what_it_cost(setup: Setup) -> None:
    setup.server.then = [setup.says("SQLite was chosen.", usage=(120, 7))]
    answer = setup.provider.complete(PROMPT, system="Be brief.", max_tokens=50)
    assert (answer.text, answer.data, answer.usage) == ("SQLite was chosen.", None, Usage(1, 120, 7))
    assert setup.provider.name == f"{setup.name}:some-model"
    asked = setup.server.requests[0]
    assert asked["model"] == "some-model"
    assert asked["max_tokens"] == 50
    assert "Be brief." in shown(setup)
    assert "Say what happened." in shown(setup)
    assert "We chose SQLite." in shown(setup)
    assert KEY in str(setup.server.headers[0])


@pytest.mark.requirement("LLM-5")
def test_with_a_schema_the_answer_has_data_that_fits_it(setup: Setup) -> None:
    setup.server.then = [setup.says(GOOD)]
    answer = setup.provider.complete(PROMPT, schema=SCHEMA)
    assert answer.data == {"gist": "SQLite was chosen.", "lines": 1}
    assert answer.usage.calls == 1
    # Also said in words, for servers that ignore the rest.
    assert '"maxLength": 100' in shown(setup)


@pytest.mark.requirement("LLM-5")
@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```",
        f"Here you are:\n{GOOD}\nAnything else?",
        f"<think>{{hm}}</think>\n{GOOD}",
        f"\n {GOOD} ",
    ],
)
def test_json_is_found_among_what_models_put_around_it(setup: Setup, text: str) -> None:
    setup.server.then = [setup.says(text)]
    assert setup.provider.complete(PROMPT, schema=SCHEMA).data == {"gist": "SQLite was chosen.", "lines": 1}
    assert len(setup.server.requests) == 1


@pytest.mark.requirement("LLM-5")
def test_a_server_that_does_not_count_is_counted_for(setup: Setup) -> None:
    setup.server.then = [setup.says("x" * 400, usage=None)]
    usage = setup.provider.complete(PROMPT).usage
    assert usage == Usage(1, setup.ledger.expected[0].input_tokens, 100)
    assert usage.input_tokens > 50


@pytest.mark.requirement("LLM-6")
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_busy_or_failing_server_is_asked_again_after_longer_and_longer_waits(setup: Setup, status: int) -> None:
    setup.server.then = [failing(status)] * 3
    assert setup.provider.complete(PROMPT).text == "fine"
    assert len(setup.server.requests) == 4
    assert [round(wait / base) for wait, base in zip(setup.waits, (0.5, 1, 2), strict=True)] == [1, 1, 1]


@pytest.mark.requirement("LLM-6")
def test_a_connection_cut_in_the_middle_is_made_again(setup: Setup) -> None:
    setup.server.then = [hanging_up]
    assert setup.provider.complete(PROMPT).text == "fine"
    assert len(setup.server.requests) == 2


@pytest.mark.requirement("LLM-6")
@pytest.mark.parametrize("body", ["{half of a", "<html>Gateway</html>", "", "[1, 2]", '{"ok": true}', "null"])
def test_what_is_no_completion_at_all_is_asked_for_again_and_then_given_up(setup: Setup, body: str) -> None:
    setup.server.then = [raw(body)]
    assert setup.provider.complete(PROMPT).text == "fine"
    setup.server.then = [raw(body)] * 4
    with pytest.raises(LLMMalformed, match=r"'some-model' at http://127\.0\.0\.1:\d+ gave an answer that is not"):
        setup.provider.complete(PROMPT)
    assert len(setup.server.requests) == 6


@pytest.mark.requirement("LLM-6")
def test_a_server_that_stays_busy_is_given_up_with_its_own_words(setup: Setup) -> None:
    setup.server.always = failing(503, "come back on Monday")
    with pytest.raises(
        LLMUnavailable, match=r"'some-model' at http://127\.0\.0\.1:\d+ failed: .*Monday.*asked 4 times"
    ):
        setup.provider.complete(PROMPT)
    assert len(setup.server.requests) == 4


@pytest.mark.requirement("LLM-6")
def test_the_server_says_how_long_to_wait(setup: Setup) -> None:
    date = formatdate(time.time() + 20, usegmt=True)
    setup.server.then = [
        failing(429, retry_after="7"),
        failing(429, retry_after=date),
        failing(429, retry_after_ms="90"),
    ]
    setup.provider.complete(PROMPT)
    assert setup.waits[0] == 7
    assert 15 < setup.waits[1] <= 20
    assert setup.waits[2] == 0.09


@pytest.mark.requirement("LLM-6")
@pytest.mark.parametrize("nonsense", ["soon", "", "-5", "nan"])
def test_a_wait_that_makes_no_sense_is_one_of_our_own(setup: Setup, nonsense: str) -> None:
    setup.server.then = [failing(429, retry_after=nonsense)]
    setup.provider.complete(PROMPT)
    assert 0 <= setup.waits[0] < 1


@pytest.mark.requirement("LLM-6")
def test_a_server_that_wants_more_than_a_minute_is_not_waited_for(setup: Setup) -> None:
    setup.server.then = [failing(429, retry_after="3600")]
    with pytest.raises(LLMUnavailable):
        setup.provider.complete(PROMPT)
    assert (len(setup.server.requests), setup.waits) == (1, [])


@pytest.mark.requirement("LLM-6")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413])
def test_a_request_that_can_never_succeed_is_not_made_again(setup: Setup, status: int) -> None:
    setup.server.then = [failing(status, "there is no model some-model")]
    with pytest.raises(LLMUnavailable, match="refused the key" if status in (401, 403) else "there is no model"):
        setup.provider.complete(PROMPT)
    assert len(setup.server.requests) == 1


@pytest.mark.requirement("LLM-6")
def test_a_server_that_never_answers_is_given_up(setup: Setup) -> None:
    tested = threading.Event()

    def silent(request: dict[str, Any]) -> Response:
        tested.wait(timeout=60)
        return Response("{}")

    setup.server.always = silent
    base_url = f"{setup.server.url}/v1" if setup.name == "openai" else setup.server.url
    hasty = load(f"{setup.name}:m", base_url=base_url, timeout=0.1, meter=setup.ledger, sleep=setup.waits.append)
    assert hasty
    try:
        with pytest.raises(LLMUnavailable, match="did not answer in time"):
            hasty.complete(PROMPT)
    finally:
        tested.set()
    assert len(setup.ledger.spent) == 4


@pytest.mark.requirement("LLM-6", "LLM-11")
def test_a_server_that_is_not_there_is_said_without_the_password_of_its_address(setup: Setup) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        provider = load(f"{setup.name}:m", base_url=f"http://me:hunter2@127.0.0.1:{port}", sleep=setup.waits.append)
        assert provider
        with pytest.raises(LLMUnavailable, match=f"at http://127.0.0.1:{port} cannot be reached") as caught:
            provider.complete(PROMPT)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.requirement("LLM-7")
def test_a_refusal_is_said_at_once(setup: Setup) -> None:
    setup.server.then = [setup.says(None, refusal="I will not.")]
    with pytest.raises(LLMRefused, match="refused to answer"):
        setup.provider.complete(PROMPT, schema=SCHEMA)
    assert setup.ledger.spent == [Usage(1, 10, 5)]


@pytest.mark.requirement("LLM-7")
def test_an_answer_that_was_cut_off_is_not_used(setup: Setup) -> None:
    setup.server.then = [setup.says(GOOD, finish="length", usage=(10, 50))]
    with pytest.raises(LLMTruncated, match="more tokens"):
        setup.provider.complete(PROMPT, schema=SCHEMA, max_tokens=50)
    assert setup.ledger.spent == [Usage(1, 10, 50)]


WRONG = {
    "no JSON": ("Sure! SQLite it is.", "it was not JSON"),
    "half of it": ('{"gist": "SQLite', "it was not JSON"),
    "not a number": ('{"gist": "x", "lines": NaN}', "it was not JSON"),
    "nothing": ("", "it was empty"),
    "a list": ("[1]", "must be object, not array"),
    "too little": ('{"gist": "x"}', "has no 'lines'"),
    "too much": ('{"gist": "x", "lines": 1, "more": 2}', "has 'more', which is not allowed there"),
    "wrong types": ('{"gist": 1, "lines": "1"}', "the answer.gist must be string, not integer"),
    "nested without end": ("[" * 100_000, "it was not JSON"),
}


@pytest.mark.requirement("LLM-8")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_asked_for_once_more_with_what_was_wrong(setup: Setup, name: str) -> None:
    text, problem = WRONG[name]
    setup.server.then = [setup.says(text), setup.says(GOOD)]
    answer = setup.provider.complete(PROMPT, schema=SCHEMA)
    assert answer.data == {"gist": "SQLite was chosen.", "lines": 1}
    assert answer.usage == Usage(2, 20, 10)
    assert problem in setup.server.requests[1]["messages"][-1]["content"]
    roles = [turn["role"] for turn in setup.server.requests[1]["messages"]]
    assert roles == ["user", "assistant", "user"]


@pytest.mark.requirement("LLM-8")
@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_is_wrong_twice_is_given_up(setup: Setup, name: str) -> None:
    text, problem = WRONG[name]
    setup.server.always = setup.says(text)
    with pytest.raises(LLMMalformed) as caught:
        setup.provider.complete(PROMPT, schema=SCHEMA)
    assert problem in str(caught.value)
    assert len(setup.server.requests) == 2
    assert setup.ledger.spent == [Usage(1, 10, 5)] * 2


@pytest.mark.requirement("LLM-22")
def test_an_answer_that_is_too_long_is_cut_and_not_asked_for_again(setup: Setup) -> None:
    gist = f"SQLite was chosen for the store. {'The reasons were many. ' * 10}"
    setup.server.always = setup.says(json.dumps({"gist": gist, "lines": 1}))
    answer = setup.provider.complete(PROMPT, schema=SCHEMA)
    assert answer.data == {
        "gist": f"SQLite was chosen for the store. {'The reasons were many. ' * 2}".strip(),
        "lines": 1,
    }
    assert len(setup.server.requests) == 1


@pytest.mark.requirement("LLM-22")
def test_a_secret_at_the_limit_is_removed_whole_before_the_answer_is_cut(setup: Setup) -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    setup.server.always = setup.says(json.dumps({"gist": f"{'word ' * 16}{secret}", "lines": 1}))
    answer = setup.provider.complete(PROMPT, schema=SCHEMA)
    assert isinstance(answer.data, dict)
    assert "ghp_" not in answer.data["gist"]
    assert len(answer.data["gist"]) <= 100


@pytest.mark.requirement("LLM-8")
def test_an_empty_answer_is_wrong_without_a_schema_too(setup: Setup) -> None:
    setup.server.then = [setup.says(None), setup.says("said")]
    assert setup.provider.complete(PROMPT).text == "said"


@pytest.mark.requirement("LLM-9")
def test_every_call_is_metered_whatever_becomes_of_it(setup: Setup) -> None:
    script: list[Script] = [failing(500), hanging_up, raw("{}"), setup.says("no"), failing(429), setup.says(GOOD)]
    setup.server.then = list(script)
    answer = setup.provider.complete(PROMPT, schema=SCHEMA, max_tokens=77)
    assert len(setup.server.requests) == len(setup.ledger.expected) == len(setup.ledger.spent) == len(script)
    # Only two of them were answers whose cost is known; the others were calls all the same.
    assert setup.ledger.spent.count(Usage(1, 10, 5)) == 2
    assert answer.usage == Usage(len(script), 20, 10)
    assert {expected.output_tokens for expected in setup.ledger.expected} == {77}
    assert min(expected.input_tokens for expected in setup.ledger.expected) > 50


@pytest.mark.requirement("LLM-9")
@pytest.mark.parametrize("cap", range(4))
def test_a_cap_holds_to_the_call(setup: Setup, cap: int) -> None:
    setup.ledger.cap = cap
    setup.server.always = failing(500)
    with pytest.raises(Refused):
        setup.provider.complete(PROMPT)
    assert len(setup.server.requests) == len(setup.ledger.spent) == cap


@pytest.mark.requirement("LLM-9")
def test_a_cap_holds_when_a_wrong_answer_would_be_asked_for_again(setup: Setup) -> None:
    setup.ledger.cap = 1
    setup.server.always = setup.says("not JSON")
    with pytest.raises(Refused):
        setup.provider.complete(PROMPT, schema=SCHEMA)
    assert len(setup.server.requests) == 1


@pytest.mark.requirement("LLM-11")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 500])
def test_the_key_is_in_no_message_even_if_the_server_quotes_it(
    setup: Setup, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    setup.server.always = failing(status, f"Incorrect API key provided: {KEY}. Or rather {KEY[:6]}***{KEY[-4:]}")
    with pytest.raises(LLMFailed) as caught:
        setup.provider.complete(PROMPT)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert KEY not in told
    assert KEY not in caplog.text
    assert caught.value.__context__ is None
    if status in (401, 403):
        assert KEY[-4:] not in told


@pytest.mark.requirement("LLM-11")
def test_texts_do_not_follow_a_redirect(setup: Setup) -> None:
    setup.server.then = [failing(307, location=f"{setup.server.url}/elsewhere")]
    with pytest.raises(LLMUnavailable):
        setup.provider.complete(PROMPT)
    assert len(setup.server.requests) == 1


@pytest.mark.requirement("LLM-6")
def test_without_a_key_nothing_is_sent_or_counted(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    provider = load(setup.name, meter=setup.ledger)
    assert provider
    with pytest.raises(LLMUnavailable, match=f"{setup.name.upper()}_API_KEY"):
        provider.complete(PROMPT)
    assert setup.ledger.expected == []


@pytest.mark.requirement("LLM-6")
@pytest.mark.parametrize("address", ["http://[broken", "nonsense", "ftp://example.org"])
def test_an_address_that_is_none_is_said(setup: Setup, address: str) -> None:
    provider = load(f"{setup.name}:m", base_url=address, sleep=setup.waits.append)
    assert provider
    with pytest.raises(LLMUnavailable):
        provider.complete(PROMPT)


@pytest.mark.requirement("LLM-10")
def test_a_server_that_refuses_structured_output_is_asked_in_words(setup: Setup) -> None:
    def by_words_only(request: dict[str, Any]) -> Response:
        if "response_format" in request or "output_config" in request:
            return failing(400, "response_format / output_config: json_schema is not supported")(request)
        return setup.says(GOOD)(request)

    setup.server.always = by_words_only
    answer = setup.provider.complete(PROMPT, schema=SCHEMA)
    refused = {"openai": 2, "anthropic": 1}[setup.name]
    assert answer.data is not None
    assert answer.usage.calls == len(setup.ledger.spent) == refused + 1
    assert setup.waits == []
    # What was learnt once is not tried again.
    assert setup.provider.complete(PROMPT, schema=SCHEMA).usage.calls == 1


@pytest.mark.requirement("LLM-10")
def test_a_request_that_is_wrong_otherwise_is_not_made_simpler(setup: Setup) -> None:
    setup.server.always = failing(400, "prompt is too long: 9000 tokens > 8192 maximum")
    with pytest.raises(LLMUnavailable, match="too long"):
        setup.provider.complete(PROMPT, schema=SCHEMA)
    assert len(setup.server.requests) == 1


@pytest.mark.requirement("LLM-10")
def test_openai_is_asked_strictly_when_the_schema_is_exact(openai_setup: Setup) -> None:
    openai_setup.server.always = openai_setup.says(GOOD)
    openai_setup.provider.complete(PROMPT, schema=SCHEMA)
    form = openai_setup.server.requests[0]["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["properties"]["gist"] == {"type": "string"}
    assert form["schema"]["properties"]["lines"] == {"type": "integer", "minimum": 1}
    openai_setup.provider.complete(PROMPT, schema={**SCHEMA, "required": ["gist"]})
    assert openai_setup.server.requests[1]["response_format"]["json_schema"]["strict"] is False


@pytest.mark.requirement("LLM-10")
def test_anthropic_is_given_the_part_of_the_schema_that_it_knows(anthropic_setup: Setup) -> None:
    anthropic_setup.server.always = anthropic_setup.says(GOOD)
    anthropic_setup.provider.complete(PROMPT, schema=SCHEMA)
    form = anthropic_setup.server.requests[0]["output_config"]["format"]
    assert form["type"] == "json_schema"
    assert form["schema"]["properties"] == {"gist": {"type": "string"}, "lines": {"type": "integer"}}
    anthropic_setup.provider.complete(PROMPT, schema={**SCHEMA, "required": ["gist"]})
    assert "output_config" not in anthropic_setup.server.requests[1]


@pytest.mark.requirement("LLM-10")
def test_openai_takes_the_other_name_of_the_limit_when_the_server_insists(openai_setup: Setup) -> None:
    def insisting(request: dict[str, Any]) -> Response:
        if "max_tokens" in request:
            return failing(400, "'max_tokens' is not supported, use 'max_completion_tokens' instead.")(request)
        return openai_setup.says("fine")(request)

    openai_setup.server.always = insisting
    assert openai_setup.provider.complete(PROMPT, max_tokens=9).usage.calls == 2
    assert openai_setup.server.requests[1]["max_completion_tokens"] == 9
    assert openai_setup.provider.complete(PROMPT).usage.calls == 1


@pytest.mark.requirement("LLM-6", "LLM-7")
def test_openai_tells_a_policy_and_an_empty_account_from_a_busy_server(openai_setup: Setup) -> None:
    openai_setup.server.then = [failing(400, "our policy", code="content_filter")]
    with pytest.raises(LLMRefused, match="our policy"):
        openai_setup.provider.complete(PROMPT)
    openai_setup.server.then = [failing(429, "You exceeded your quota", code="insufficient_quota")]
    with pytest.raises(LLMUnavailable, match="quota"):
        openai_setup.provider.complete(PROMPT)
    assert len(openai_setup.server.requests) == 2


@pytest.mark.requirement("LLM-5")
def test_openai_s_variables_name_a_server_that_needs_no_key(
    openai_setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{openai_setup.server.url}/v1")
    provider = load("openai:llama3.2")
    assert provider
    assert provider.complete(PROMPT).text == "fine"
    assert openai_setup.server.paths == ["/v1/chat/completions"]
