"""What every model behind a server has in common: asking, waiting, asking again, counting, and checking the answer.

A `Model` makes one HTTP call and reports its outcome. Everything that repeats a call is here, and the SDKs' own retries
are switched off. So the meter sees every call before it is made and can refuse it.

- The server is busy, fails, does not answer or cannot be reached (408, 409, 429, 5xx, no connection): it is asked up to
  three more times, after a wait that doubles or that the server gives. After that, or if the wait would be more than a
  minute, LLMUnavailable.
- The server does not support a part of the request (structured output, the name of a parameter): it is asked again at
  once, with a simpler request.
- The answer is empty or does not match the schema: the model is told what is wrong and asked once more; then
  LLMMalformed. Texts and lists that are only too long are cut.
- The model refuses, or is cut off at max_tokens: LLMRefused and LLMTruncated, at once.
- Anything else (no such model, a key refused): LLMUnavailable, at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from .. import tokens
from ..errors import LLMFailed, LLMMalformed, LLMRefused, LLMTruncated, LLMUnavailable
from ..redact import clean
from .protocol import NOTHING, Answer, Meter, Prompt, Usage, render
from .schemas import check, clip, parse_answer

RETRIES: Final = 3
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 60.0
#: Characters of a server's own message that are shown.
_MAX_REASON: Final = 300
#: How much of a wrong answer is shown to the model again.
_MAX_SHOWN: Final = 4_000


class Turn(NamedTuple):
    role: str
    text: str


class Request(NamedTuple):
    turns: tuple[Turn, ...]
    system: str
    max_tokens: int
    schema: Mapping[str, Any] | None


class Reply(NamedTuple):
    text: str
    #: None when the server does not count.
    usage: Usage | None
    #: LLMRefused or LLMTruncated, when the model did not answer fully.
    trouble: type[LLMFailed] | None = None


class CallFailed(Exception):
    """A call got no reply. The message contains no key, and at most one line of the server's message."""

    def __init__(
        self,
        message: str,
        *,
        again: bool = False,
        wait: float | None = None,
        kind: type[LLMFailed] = LLMUnavailable,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        #: Whether the same call may succeed later, and the time that the server gave for that.
        self.again = again
        self.wait = wait
        self.kind = kind
        self.usage = usage


class AskOtherwise(Exception):
    """The server refused this form of request, and the model has another one. There are only a few."""


class Model(Protocol):
    @property
    def name(self) -> str: ...

    def where(self) -> str:
        """The model and its server's address, without secrets, for messages."""

    def ask(self, request: Request) -> Reply:
        """One HTTP call; CallFailed or AskOtherwise when there is no reply."""


class Served:
    """A model behind a server, as a provider."""

    def __init__(
        self, model: Model, *, meter: Meter | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.name = model.name
        self._model = model
        self._meter = meter
        self._sleep = sleep

    def complete(
        self, prompt: Prompt, *, system: str = "", max_tokens: int = 1000, schema: Mapping[str, Any] | None = None
    ) -> Answer:
        # Raises without a key or a valid address, before a call is counted.
        where = self._model.where()
        asked = render(prompt) if schema is None else f"{render(prompt)}\n\n{_schema_instruction(schema)}"
        request = Request((Turn("user", asked),), system, max_tokens, schema)
        reply, usage = self._reply(request)
        data, problems = read_answer(reply.text, schema)
        if problems:
            reply, more = self._reply(_corrected_request(request, reply.text, problems))
            usage = usage.plus(more)
            data, problems = read_answer(reply.text, schema)
        if problems:
            raise LLMMalformed(f"{where} gave two answers that cannot be used: {'; '.join(problems)}.")
        return Answer(reply.text, data, usage)

    def _reply(self, request: Request) -> tuple[Reply, Usage]:
        """A complete reply, after as many calls as needed."""
        usage = NOTHING
        failed = 0
        while True:
            outcome, spent = self._call(request)
            usage = usage.plus(spent)
            if isinstance(outcome, Reply):
                if outcome.trouble:
                    raise outcome.trouble(f"{self._model.where()} {_TROUBLE[outcome.trouble]}")
                return outcome, usage
            if outcome is None:
                continue
            failed += 1
            wait = _FIRST_WAIT * 2 ** (failed - 1) if outcome.wait is None else outcome.wait
            if not outcome.again or failed > RETRIES or wait > _LONGEST_WAIT:
                # Raised here and not where it was caught, so that no traceback leads to the SDK's request and its key.
                raise outcome.kind(f"{self._model.where()} {outcome}{_times_asked(failed)}")
            # Several processes that failed at the same time should not retry at the same time.
            self._sleep(wait if outcome.wait is not None else wait * random.uniform(0.75, 1.25))

    def _call(self, request: Request) -> tuple[Reply | CallFailed | None, Usage]:
        """One call, metered, and what it cost; None when the model wants to ask in another way."""
        asked = sum(tokens.estimate(text) for text in (request.system, *(turn.text for turn in request.turns)))
        if self._meter:
            self._meter.before(Usage(1, asked, request.max_tokens))
        spent = Usage(1, 0, 0)
        outcome: Reply | CallFailed | None = None
        try:
            outcome = self._model.ask(request)
            # A server that does not count must not make a cap on tokens useless.
            spent = outcome.usage or Usage(1, asked, tokens.estimate(outcome.text))
        except CallFailed as error:
            outcome = error.with_traceback(None)
            outcome.__context__ = None
            spent = error.usage or spent
        except AskOtherwise:
            pass
        finally:
            if self._meter:
                self._meter.after(spent)
        return outcome, spent


_TROUBLE: Final[dict[type[LLMFailed], str]] = {
    LLMRefused: "refused to answer.",
    LLMTruncated: "was cut off before its answer was complete; allow it more tokens, or give it less to read.",
}


def reason(said: str, *secrets: str | None) -> str:
    """A server's message, shortened to one line and without secrets.

    It is in quotes, because it may repeat stored text: quoted words are removed from messages that are stored.
    """
    for secret in secrets:
        if secret:
            said = said.replace(secret, "…")
    line = " ".join(said.replace("”", '"').split())
    return f"“{line[:_MAX_REASON]}”"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait that the server asks for, if any."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
        given = headers.get("retry-after")
        if given is None:
            return None
        return max(0.0, float(given)) if given.strip()[:1].isdigit() else _until(given)
    except ValueError:
        return None


def _until(date: str) -> float:
    from email.utils import parsedate_to_datetime

    return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())


def not_a_completion() -> CallFailed:
    """The error for a reply that is not a completion. A gateway may have sent it, so the call is retried."""
    return CallFailed("gave an answer that is not a completion.", again=True, kind=LLMMalformed)


def is_transient(status: int) -> bool:
    return status in (408, 409, 429) or status >= 500


def _times_asked(failed: int) -> str:
    return f" (asked {failed} times)" if failed > 1 else ""


def _schema_instruction(schema: Mapping[str, Any]) -> str:
    import json

    return f"Answer with one JSON value that matches this JSON Schema, and nothing else:\n{json.dumps(schema)}"


def read_answer(text: str, schema: Mapping[str, Any] | None) -> tuple[object | None, list[str]]:
    """The data of an answer, and what is wrong with it."""
    if not text.strip():
        return None, ["it was empty"]
    if schema is None:
        return None, []
    try:
        data = parse_answer(text)
    except (ValueError, RecursionError):
        return None, ["it was not JSON"]
    # An answer that is too long is cut, not refused. Secrets go first, because half a secret is not recognised.
    data = clip(clean(data), schema)
    return data, check(data, schema)


def _corrected_request(request: Request, said: str, problems: list[str]) -> Request:
    """The request, extended by the wrong answer and its problems."""
    ask = f"This answer cannot be used: {'; '.join(problems)}. Give the whole answer again, in the requested form."
    # An empty turn is not allowed.
    shown = said.strip()[:_MAX_SHOWN] or "(nothing)"
    return request._replace(turns=(*request.turns, Turn("assistant", shown), Turn("user", ask)))
