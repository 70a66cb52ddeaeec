"""The static embedder reads WordLlama's table without WordLlama."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from engram.embedding.static import StaticEmbedder
from engram.errors import EmbedderFailed


def wordllama() -> Path:
    spec = find_spec("wordllama")
    assert spec and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@pytest.mark.requirement("EMBED-7")
def test_a_text_is_the_mean_of_its_tokens_rows_in_wordllamas_table(static: StaticEmbedder) -> None:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    table = load_file(wordllama() / "weights" / "l2_supercat_256.safetensors")["embedding.weight"].astype(np.float64)
    tokenizer = Tokenizer.from_file(str(wordllama() / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    texts = ["When did Caroline go to the support group?", "naïve café, 東京 \N{GRINNING FACE}", "x = [y for y in z]\n"]
    for text, row, tokens in zip(texts, static.embed(texts), static.tokens(texts), strict=True):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        mean = table[ids].mean(axis=0)
        assert np.allclose(row, mean / np.linalg.norm(mean), atol=1e-5)
        assert tokens.ids.tolist() == ids
        assert np.allclose(tokens.vectors[0], table[ids[0]] / np.linalg.norm(table[ids[0]]), atol=1e-5)


@pytest.mark.requirement("EMBED-2")
def test_a_special_token_in_the_text_has_no_meaning(static: StaticEmbedder) -> None:
    assert not static.embed(["<s></s>"]).any()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, weights: bytes, tokenizers: str = "tokenizers") -> None:
    """A wordllama of our own, with the real tokenizer."""
    package = folder / "wordllama"
    (package / "weights").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "weights" / "l2_supercat_256.safetensors").write_bytes(weights)
    (package / tokenizers).symlink_to(wordllama() / "tokenizers")
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    monkeypatch.syspath_prepend(str(folder))


def safetensors(shape: list[int], kind: str, data: bytes, name: str = "embedding.weight") -> bytes:
    header = json.dumps({name: {"dtype": kind, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    return len(header).to_bytes(8, "little") + header + data


@pytest.mark.requirement("EMBED-7")
@pytest.mark.parametrize(
    "weights",
    [
        b"",
        b"not a table",
        (1 << 62).to_bytes(8, "little") + b"{}",
        safetensors([2, 256], "F16", bytes(1024))[:-1],
        safetensors([2, 256], "F8", bytes(512)),
        safetensors([2, 256], "F16", bytes(1024)),
        safetensors([32_000, 256], "F32", bytes(32_000 * 1024)),
        safetensors([64_000, 128], "F16", bytes(32_000 * 512)),
        safetensors([32_000, 256], "F16", bytes(32_000 * 512), name="other"),
    ],
    ids=["empty", "text", "endless", "cut off", "unknown type", "few words", "other type", "other shape", "other name"],
)
def test_an_unknown_table_is_refused(weights: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, weights)
    with pytest.raises(EmbedderFailed, match="safetensors"):
        StaticEmbedder().embed(["text"])


@pytest.mark.requirement("EMBED-7")
def test_a_tokenizer_at_the_place_of_wordllamas_own_loader_is_read_too(
    static: StaticEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = static.embed(["text"])
    real = (wordllama() / "weights" / "l2_supercat_256.safetensors").read_bytes()
    install(tmp_path, monkeypatch, real, tokenizers="tokenizer")
    assert np.array_equal(StaticEmbedder().embed(["text"]), expected)


@pytest.mark.requirement("EMBED-7")
def test_a_release_without_its_tokenizer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, b"", tokenizers="elsewhere")
    with pytest.raises(EmbedderFailed, match="no tokenizer"):
        StaticEmbedder().embed(["text"])
