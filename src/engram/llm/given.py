"""A Python object of the user as thinker: checked, metered, and its answers read like any model's.

The object follows the protocol `Provider`. It gets the prompt as it is and may use `render` to make one text of it. It
may leave `data` empty and give JSON as text. Each call of `complete` counts as one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .. import checks, tokens
from ..errors import EngramError, InvalidInput, LLMMalformed, LLMUnavailable
from ..redact import clean
from .model_calls import read_answer, reason
from .protocol import NOTHING, Answer, Meter, Prompt, Provider, Usage, render
from .schemas import check, clip

#: Names that mean something else to a pass.
_RESERVED: Final = ("extractive", "agent")

#: The largest number of tokens that one call can take. A larger one is a mistake, and would use up every cap.
_MOST: Final = 100_000_000


def require_provider(given: object) -> Provider:
    """The object, if it can think. InvalidInput says what it lacks."""
    kind = type(given).__name__
    if isinstance(given, type):
        raise InvalidInput(f"llm is the class {given.__name__}; give an object of it, such as {given.__name__}().")
    if not callable(getattr(given, "complete", None)):
        raise InvalidInput(
            f"llm, of type {kind}, has no method complete(prompt, *, system, max_tokens, schema). Give the name of a "
            "provider, or an object that follows engram.llm.Provider."
        )
    name = getattr(given, "name", None)
    if not isinstance(name, str):
        raise InvalidInput(f"llm, of type {kind}, has a name that is not a text. The name is shown in reports.")
    from .extractive.thinker import Extractive

    if checks.name(name, "the name of llm") in _RESERVED and not isinstance(given, Extractive):
        raise InvalidInput(f"llm, of type {kind}, has the name {name!r}, which is the name of another thinker.")
    provider: Provider = given  # type: ignore[assignment]
    return provider


class Given:
    """The user's object, with a meter."""

    def __init__(self, provider: Provider, meter: Meter) -> None:
        self.name = provider.name
        self._provider = provider
        self._meter = meter

    def complete(
        self, prompt: Prompt, *, system: str = "", max_tokens: int = 1000, schema: Mapping[str, Any] | None = None
    ) -> Answer:
        answer = self._ask(prompt, system, max_tokens, schema)
        data, problems = _read(answer, schema)
        if not problems:
            return answer._replace(data=data)
        ask = (
            f"An earlier answer could not be used: {'; '.join(problems)}. Give the whole answer in the requested form."
        )
        corrected = prompt._replace(instructions=f"{prompt.instructions}\n\n{ask}")
        again = self._ask(corrected, system, max_tokens, schema)
        data, problems = _read(again, schema)
        if problems:
            raise LLMMalformed(f"{self._where()} gave two answers that cannot be used: {'; '.join(problems)}.")
        return again._replace(data=data, usage=answer.usage.plus(again.usage))

    def _where(self) -> str:
        return f"The thinker {self.name!r}"

    def _ask(self, prompt: Prompt, system: str, max_tokens: int, schema: Mapping[str, Any] | None) -> Answer:
        """One call, metered, with its cost."""
        asked = tokens.estimate(system) + tokens.estimate(render(prompt))
        self._meter.before(Usage(1, asked, max_tokens))
        spent = NOTHING
        try:
            answer: object = self._provider.complete(prompt, system=system, max_tokens=max_tokens, schema=schema)
            if not isinstance(answer, Answer) or not isinstance(answer.text, str):
                raise LLMMalformed(
                    f"{self._where()} gave {_kind(answer)}. It must give an engram.llm.Answer whose text is a str."
                )
            spent = _spent(answer, asked)
            return answer._replace(usage=spent)
        except EngramError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise LLMUnavailable(f"{self._where()} failed: {reason(said)}") from error
        finally:
            self._meter.after(spent)


def _kind(answer: object) -> str:
    if isinstance(answer, Answer):
        return f"an Answer whose text is of type {type(answer.text).__name__}"
    return f"an object of type {type(answer).__name__}"


def _spent(answer: Answer, asked: int) -> Usage:
    """What a call took. An object that does not count must not make a cap on tokens useless."""
    usage: object = answer.usage
    if isinstance(usage, Usage):
        calls, taken, given = map(_count, usage)
        if taken or given:
            return Usage(max(1, calls), taken, given)
    return Usage(1, asked, tokens.estimate(answer.text))


def _count(number: object) -> int:
    """A number that a call may have taken; 0 for anything else, as if it had not been counted."""
    return number if type(number) is int and 0 <= number <= _MOST else 0


def _read(answer: Answer, schema: Mapping[str, Any] | None) -> tuple[object | None, list[str]]:
    if schema is None or answer.data is None:
        return read_answer(answer.text, schema)
    data = clip(clean(answer.data), schema)
    return data, check(data, schema)
