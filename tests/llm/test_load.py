"""Choosing a language model provider."""

from __future__ import annotations

import sys

import pytest

from engram import InvalidInput, MissingExtra
from engram.llm import load

from ..embedding._processes import fresh_python


@pytest.mark.requirement("LLM-1")
def test_each_choice_gives_its_provider_and_the_default_is_extractive() -> None:
    pytest.importorskip("openai")
    pytest.importorskip("anthropic")
    choices = ("extractive", "openai:qwen3:8b", "anthropic:claude-sonnet-4-5")
    assert [provider and provider.name for provider in map(load, choices)] == list(choices)
    assert (provider := load("openai")) and provider.name.startswith("openai:")
    assert (provider := load("anthropic")) and provider.name.startswith("anthropic:")
    assert (provider := load()) and provider.name == "extractive"


@pytest.mark.requirement("LLM-1")
def test_agent_has_no_provider_in_this_process() -> None:
    assert load("agent") is None


@pytest.mark.requirement("LLM-1")
@pytest.mark.parametrize("choice", ["", "gpt", "OpenAI", "extractive:other", "agent:me", "none"])
def test_an_unknown_provider_is_refused_and_the_known_ones_are_named(choice: str) -> None:
    with pytest.raises(InvalidInput, match=r"extractive, openai, openai:<model>, anthropic, .* gemini:<model>, agent"):
        load(choice)


@pytest.mark.requirement("LLM-1")
@pytest.mark.parametrize("choice", ["openai:", "anthropic:  ", "openai:two\nlines"])
def test_an_invalid_model_name_is_refused(choice: str) -> None:
    with pytest.raises(InvalidInput, match=f"model of the {choice.partition(':')[0]} provider"):
        load(choice)


@pytest.mark.requirement("LLM-2")
@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_missing_extra_is_reported_with_its_install_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"The {name} provider needs .*pip install 'engram-agents\[{name}\]'"):
        load(name)


@pytest.mark.requirement("LLM-2")
def test_no_sdk_is_imported_before_a_provider_is_called() -> None:
    pytest.importorskip("openai")
    pytest.importorskip("anthropic")
    code = """
import sys
from engram.llm import load
heavy = {"openai", "anthropic", "httpx2", "pydantic", "numpy", "Stemmer"}
load("extractive"), load("openai"), load("anthropic")
print(heavy & sys.modules.keys())
"""
    assert fresh_python(code) == "set()"


@pytest.mark.requirement("LLM-2")
def test_the_extractive_thinker_imports_no_numpy() -> None:
    code = """
import sys
from engram.llm import load, Passage, Prompt
load().complete(Prompt("session", "", (Passage("e1", "user", "We chose SQLite.", "user"),)))
print({"numpy", "pydantic"} & sys.modules.keys())
"""
    assert fresh_python(code) == "set()"
