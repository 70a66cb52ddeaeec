"""The provider without a model: no key, no network, the same answer every time, and no invented words.

It reads the passages and ignores `instructions` and `system`: the task says everything it can act on. What it makes is
fitted to the requested schema; where it cannot match the schema it raises LLMMalformed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InvalidInput, LLMMalformed
from ..protocol import NOTHING, Answer, Prompt, check, clip


class Extractive:
    name = "extractive"

    def complete(
        self, prompt: Prompt, *, system: str = "", max_tokens: int = 1000, schema: Mapping[str, Any] | None = None
    ) -> Answer:
        work = _TASKS.get(prompt.task)
        if work is None:
            raise InvalidInput(
                f"The extractive provider cannot do {prompt.task!r}, which needs a model; it does {', '.join(_TASKS)}."
            )
        text, data = work(prompt, max_tokens)
        if schema is None:
            return Answer(text, None, NOTHING)
        fitted = clip(_fit(data, schema), schema)
        if problems := check(fitted, schema):
            raise LLMMalformed(
                f"The extractive provider cannot match the schema for {prompt.task}: {'; '.join(problems)}."
            )
        return Answer(text, fitted, NOTHING)


#: Makes a readable text, and the same data by the names that a schema may ask for.
_Work = Callable[[Prompt, int], tuple[str, dict[str, Any]]]


def _answer_session(prompt: Prompt, max_tokens: int) -> tuple[str, dict[str, Any]]:
    import json

    from .session import answer

    data = answer(prompt.passages, prompt.known, max_tokens)
    return json.dumps(data, ensure_ascii=False), data


def _tell_era(prompt: Prompt, max_tokens: int) -> tuple[str, dict[str, Any]]:
    from .chronicle import era

    text = era(prompt.passages, prompt.known, max_tokens)
    return text, {"era": text, "text": text, "summary": text, "lines": text.splitlines()}


def _tell_narrative(prompt: Prompt, max_tokens: int) -> tuple[str, dict[str, Any]]:
    from .chronicle import narrative, narrative_text

    sections = narrative(prompt.passages, prompt.known)
    text = narrative_text(sections)
    return text, {**sections, "narrative": text, "text": text}


def _reflect(prompt: Prompt, max_tokens: int) -> tuple[str, dict[str, Any]]:
    from .reflection import reflection

    found = reflection(prompt.passages)
    return f"{found['narrative']} {found['reflection']}", found


_TASKS: dict[str, _Work] = {
    "session": _answer_session,
    "era": _tell_era,
    "narrative": _tell_narrative,
    "reflect": _reflect,
}


def _fit(data: Mapping[str, Any], schema: Mapping[str, Any]) -> object:
    """The part of the data that the schema asks for."""
    asked: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    return {name: _fit_value(data[name], form) for name, form in asked.items() if name in data}


def _fit_value(value: Any, form: Mapping[str, Any]) -> Any:
    """The value in the requested type: a list as text where the schema wants text, cut to the allowed length."""
    if isinstance(value, list):
        value = value[: form.get("maxItems")]
    if form.get("type") != "string":
        return value
    if isinstance(value, float):
        return "low" if value < 0.34 else "high" if value > 0.66 else "medium"
    text = value if isinstance(value, str) else "\n".join(value)
    longest = form.get("maxLength", len(text))
    return text if len(text) <= longest else text[: longest + 1].rpartition("\n")[0] or text
