"""The provider without a model: no key, no network, the same answer every time, and no word that was not said.

It reads the passages and leaves `instructions` and `system` aside, since the task says all it can do. What it makes is
fitted to the schema that was asked for; a form it cannot give is LLMMalformed, never something that only looks right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InvalidInput, LLMMalformed
from ..protocol import NOTHING, Answer, Prompt, check


class Extractive:
    name = "extractive"

    def complete(
        self, prompt: Prompt, *, system: str = "", max_tokens: int = 1000, schema: Mapping[str, Any] | None = None
    ) -> Answer:
        work = _TASKS.get(prompt.task)
        if work is None:
            raise InvalidInput(
                f"The extractive provider cannot do {prompt.task!r}, which takes a model; it does {', '.join(_TASKS)}."
            )
        text, data = work(prompt, max_tokens, schema)
        if schema is None:
            return Answer(text, None, NOTHING)
        fitted = _fitted(data, schema)
        if problems := check(fitted, schema):
            raise LLMMalformed(
                f"The extractive provider has no answer of that form for {prompt.task}: {'; '.join(problems)}."
            )
        return Answer(text, fitted, NOTHING)


#: A readable text, and the same by the names that a schema can ask for.
Work = Callable[[Prompt, int, Mapping[str, Any] | None], tuple[str, dict[str, Any]]]


def _gist(prompt: Prompt, max_tokens: int, schema: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    from .gists import gist

    text = gist(prompt.passages, prompt.known, max_tokens)
    return text, {prompt.task: text, "text": text, "summary": text, "lines": text.splitlines()}


def _statements(prompt: Prompt, max_tokens: int, schema: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    from .statements import statements

    facts = (schema or {}).get("properties", {}).get("facts", {})
    found = statements(prompt.passages, prompt.known, facts.get("items"))
    text = "\n".join(f"- {each.kind}: {each.text} ({each.source})" for each in found)
    return text, {"facts": [each._asdict() for each in found]}


def _narrative(prompt: Prompt, max_tokens: int, schema: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    from .narrative import narrative, narrative_text

    sections = narrative(prompt.passages, prompt.known)
    text = narrative_text(sections)
    return text, {**sections, "narrative": text, "text": text}


def _reflection(prompt: Prompt, max_tokens: int, schema: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    from .narrative import reflection

    found = reflection(prompt.passages)
    return f"{found['narrative']} {found['reflection']}", found


_TASKS: dict[str, Work] = {
    "gist": _gist,
    "merge": _gist,
    "era": _gist,
    "profile": _statements,
    "extract": _statements,
    "narrative": _narrative,
    "reflect": _reflection,
}


def _fitted(data: Mapping[str, Any], schema: Mapping[str, Any]) -> object:
    """What the schema asks for, of what there is."""
    asked: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    return {name: _as(data[name], form) for name, form in asked.items() if name in data}


def _as(value: Any, form: Mapping[str, Any]) -> Any:
    """A list as text where a text is asked for, and no more lines or items than there is room for."""
    if isinstance(value, list):
        value = value[: form.get("maxItems")]
    if form.get("type") != "string":
        return value
    if isinstance(value, float):
        return "low" if value < 0.34 else "high" if value > 0.66 else "medium"
    text = value if isinstance(value, str) else "\n".join(value)
    longest = form.get("maxLength", len(text))
    return text if len(text) <= longest else text[: longest + 1].rpartition("\n")[0] or text
