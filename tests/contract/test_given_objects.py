"""Python objects as thinker and embedder of an Engram."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram import Clock, EmbedderFailed, Engram, InvalidInput
from engram.config import load
from engram.llm import Answer, Prompt, Usage
from engram.llm.extractive.thinker import Extractive
from engram.memory import embedding_models
from tests._models import plainly
from tests._talks import talk

#: Texts are alike when they have the same first letters.
DIMS = 26


class Speaker:
    """A thinker that answers every prompt plainly."""

    name = "mine:v1"

    def __init__(self, usage: Usage | None = None) -> None:
        self.asked: list[Prompt] = []
        self.answers: Callable[[str], Any] = plainly
        self._usage = usage or Usage(1, 100, 10)

    def complete(
        self, prompt: Prompt, *, system: str = "", max_tokens: int = 1000, schema: Mapping[str, object] | None = None
    ) -> Answer:
        self.asked.append(prompt)
        made = self.answers(prompt.instructions)
        return made if isinstance(made, Answer) else Answer(made, None, self._usage)


class Letters:
    """An embedder that counts letters."""

    name = "letters:v1"
    dims = DIMS

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += texts
        return [[3.0 * text.lower().count(chr(97 + number)) for number in range(DIMS)] for text in texts]


Open = Callable[..., Engram]


@pytest.fixture
def opened(store_url: str, clock: Clock) -> Any:
    made: list[Engram] = []

    def open_with(**objects: Any) -> Engram:
        eng = Engram(settings=load(url=store_url), clock=clock, **objects)
        made.append(eng)
        return eng

    yield open_with
    for each in made:
        each.close()


@pytest.mark.requirement("THINK-8")
def test_an_object_thinks_for_a_pass_and_for_other_workspaces_and_is_counted(opened: Open) -> None:
    speaker = Speaker()
    eng = opened(llm=speaker)
    for each in (eng, eng.workspace("other")):
        session = talk(each)
        (report,) = each.dream(force=True)
        assert (report.errors, report.provider, report.gists) == ([], "mine:v1", [session])
        assert report.calls == len(speaker.asked) > 0
        assert (report.input_tokens, report.output_tokens) == (100 * report.calls, 10 * report.calls)
        assert sum(day.calls for day in each.usage()) == report.calls
        speaker.asked.clear()
    assert eng.thinkers.given == "mine:v1"


@pytest.mark.requirement("THINK-8")
def test_an_object_that_does_not_count_is_counted_by_estimate_and_capped(store_url: str, clock: Clock) -> None:
    settings = load(url=store_url, dream_pass_calls=1)
    speaker = Speaker(Usage(0, 0, 0))
    with Engram(settings=settings, clock=clock, llm=speaker) as eng:
        talk(eng)
        talk(eng, "another thing")
        (report,) = eng.dream(force=True)
        assert (report.calls, len(speaker.asked)) == (1, 1)
        assert report.input_tokens > 100
        assert any("cap of 1 calls" in error for error in report.errors)


@pytest.mark.requirement("THINK-8")
@pytest.mark.parametrize("wrong", [-5, float("nan"), float("inf"), True, 10**30, "7", None, 2.5])
def test_numbers_that_no_call_can_take_are_estimated_and_end_no_pass(opened: Open, wrong: Any) -> None:
    speaker = Speaker(Usage(wrong, wrong, wrong))
    eng = opened(llm=speaker)
    session = talk(eng)
    (report,) = eng.dream(force=True)
    assert (report.errors, report.gists, report.calls) == ([], [session], len(speaker.asked))
    assert 100 < report.input_tokens < 100_000 and 0 < report.output_tokens < 100_000
    assert {type(number) for day in eng.usage() for number in day[2:5]} == {int}


@pytest.mark.requirement("THINK-8")
@pytest.mark.parametrize(
    ("given", "named"),
    [(Answer(7, None, Usage(1, 1, 1)), "an Answer whose text is of type int")],  # type: ignore[arg-type]
)
def test_an_answer_without_text_is_named_for_what_it_is(opened: Open, given: Any, named: str) -> None:
    speaker = Speaker()
    speaker.answers = lambda prompt: given
    eng = opened(llm=speaker)
    talk(eng)
    (report,) = eng.dream(force=True)
    assert any(f"gave {named}. It must give an engram.llm.Answer" in error for error in report.errors), report.errors


@pytest.mark.requirement("CONFIG-7")
def test_an_argument_says_whether_the_workspace_is_a_companions(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (True, False):
        monkeypatch.setenv("ENGRAM_COMPANION", str(not given).lower())
        eng = opened(companion=given)
        assert (eng.settings.is_companion("default"), eng.settings.origins["companion"]) == (given, "argument")
        assert not eng.settings.is_companion("other")
    with pytest.raises(InvalidInput, match="companion must be True or False"):
        opened(companion="yes")


@pytest.mark.requirement("THINK-8")
def test_a_wrong_or_failing_object_is_an_error_of_the_stage_and_not_of_the_pass(opened: Open) -> None:
    speaker = Speaker()
    eng = opened(llm=speaker)
    talk(eng)

    def fail(prompt: str) -> str:
        raise ValueError("no network")

    for answers, problem in ((fail, "mine:v1"), (lambda prompt: Answer("", None, Usage(1, 1, 1)), "it was empty")):
        speaker.answers = answers
        (report,) = eng.dream(force=True)
        assert any(problem in error for error in report.errors), report.errors
        assert report.gists == []
    speaker.answers = lambda prompt: json.dumps({"wrong": 1}) if plainly(prompt).startswith("{") else plainly(prompt)
    (report,) = eng.dream(force=True)
    assert any("two answers that cannot be used" in error for error in report.errors)


@pytest.mark.requirement("THINK-8")
def test_a_name_as_llm_and_embedder_is_the_setting(opened: Open) -> None:
    eng = opened(llm="agent", embedder="none")
    assert (eng.settings.llm, eng.settings.embedder, eng.settings.origins["llm"]) == ("agent", "none", "argument")
    assert opened(llm=Extractive()).thinkers.given == "extractive"


@pytest.mark.requirement("THINK-8", "THINK-9")
@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ({"llm": Speaker}, "llm is the class Speaker"),
        ({"llm": object()}, "llm, of type object, has no method complete"),
        ({"llm": type("Nameless", (), {"complete": print})()}, "has a name that is not a text"),
        ({"llm": type("Agent", (), {"complete": print, "name": "agent"})()}, "the name of another thinker"),
        ({"embedder": Letters}, "embedder is the class Letters"),
        ({"embedder": 7}, "of type int, has no method embed"),
        ({"embedder": type("Endless", (), {"embed": print, "name": "mine:v1"})()}, "of type Endless, has no dims"),
        ({"embedder": type("Nameless", (), {"embed": print})()}, "has a name that is not a text"),
        (
            {"embedder": type("Static", (), {"embed": print, "name": "static:mine"})()},
            "belongs to an embedder of Engram",
        ),
    ],
)
def test_an_object_that_does_not_follow_the_protocol_is_refused_with_what_it_lacks(
    opened: Open, objects: dict[str, object], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        opened(**objects)


@pytest.mark.requirement("THINK-9")
def test_an_object_embeds_what_is_written_and_what_is_asked_also_in_other_workspaces(opened: Open) -> None:
    letters = Letters()
    eng = opened(embedder=letters)
    for each in (eng, eng.workspace("other")):
        each.remember("zzz zzz zzz")
        each.remember("aaa aaa bbb")
        (hit, *_) = each.recall("zz", mode="vectors")
        assert hit.text == "zzz zzz zzz"
        assert (each.embedders.model, each.embedders.problem()) == ("letters:v1", None)
        assert each.sessions.stats().embedder == "letters:v1"
    assert "zz" in letters.texts
    assert eng.reindex() == 0


@pytest.mark.requirement("THINK-9")
def test_vectors_of_another_model_are_not_mixed_with_those_of_the_object(opened: Open) -> None:
    opened(embedder="static").remember("The router is written in Rust.")
    eng = opened(embedder=Letters())
    assert "letters:v1" in (eng.embedders.problem() or "")
    (hit,) = eng.recall("router")
    assert hit.text == "The router is written in Rust."
    assert eng.reindex() == 1
    assert (eng.embedders.model, eng.embedders.problem()) == ("letters:v1", None)


@pytest.mark.requirement("THINK-9")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"embed": lambda self, texts: [[1.0] * 25 for _ in texts]}, "25 numbers for 1 texts of 26 dimensions"),
        ({"embed": lambda self, texts: [[float("nan")] * DIMS for _ in texts]}, "not finite"),
        ({"embed": lambda self, texts: [[1.0] * DIMS] * 2}, "2 x 26 numbers for 1 texts"),
        ({"embed": lambda self, texts: "nothing"}, "other than rows of numbers"),
        ({"dims": 0}, "a vector has 0 numbers"),
        ({"dims": True}, "a vector has True numbers"),
        ({"embed": lambda self, texts: 1 / 0}, "failed in embed: “ZeroDivisionError"),
    ],
)
def test_a_wrong_vector_is_never_stored(opened: Open, changes: dict[str, object], problem: str) -> None:
    wrong = type("Wrong", (Letters,), changes)()
    eng = opened(embedder=wrong)
    with pytest.raises(EmbedderFailed, match=problem):
        eng.reindex()
    eng.remember("It is written all the same.")
    assert (eng.embedders.model, eng.embedding_queue.size()) == (None, 1)
    (hit,) = eng.recall("written")
    assert hit.text == "It is written all the same."


@pytest.mark.requirement("THINK-9")
def test_what_an_object_can_do_beyond_embedding_is_used(opened: Open) -> None:
    asked: list[str] = []

    class Asking(Letters):
        def embed_query(self, text: str) -> Any:
            asked.append(text)
            return np.asarray(self.embed([text])[0], np.float32)

    eng = opened(embedder=Asking())
    eng.remember("zzz zzz zzz")
    assert eng.recall("zz", mode="vectors")
    assert asked == ["zz"]


@pytest.mark.requirement("THINK-8", "THINK-9")
def test_the_example_in_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
    (example,) = [block.partition("```")[0] for block in page.split("```python\n") if "class MyModel" in block]
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/library.md", "exec"), {})
    assert capsys.readouterr().out == "Deploys never happen on Fridays\nmy-model:v1\n"


@pytest.mark.requirement("EMBED-19")
def test_a_given_embedder_with_another_name_is_told_to_reindex(
    opened: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_models, "_said", set())
    opened(embedder=Letters()).remember("Deploys never happen on Fridays")

    class Second(Letters):
        name = "letters:v2"

    second = opened(embedder=Second())
    with caplog.at_level(logging.WARNING, "engram"):
        assert second.recall("friday deploys")
    (said,) = (each.getMessage() for each in caplog.records)
    assert "letters:v1" in said and "letters:v2" in said and said.endswith("call eng.reindex().")
    assert "engram embedder use" not in said
    assert str(second.embedders.problem()) in said
    second.reindex()
    assert second.embedders.problem() is None
    # A process without the object cannot be helped by an upgrade alone.
    monkeypatch.setenv("ENGRAM_EMBEDDER", "auto")
    problem = str(opened().embedders.problem())
    assert "an object that a program gives to Engram" in problem and problem.endswith("engram embedder list")
