"""`onnx:FOLDER`: any sentence-embedding model on disk, used as its own files say."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from engram import EmbedderFailed
from engram.embedding import QueryEmbedder, TokenEmbedder, catalogue, components, folders, load
from engram.embedding.minilm import MiniLMEmbedder
from engram.embedding.onnx_folder import OnnxEmbedder

from ._onnx_models import MEAN, TABLE, VOCABULARY, real_minilm, tiny

TURNS = [
    "We never deploy on a Friday.",
    "Anna adopted a grey kitten last week.",
    "猫",
    "",
    "The router is ported." * 90,
]
ATTENTION: dict[str, Any] = {"1_Pooling__config": {"pooling_mode_attention": True}}


def unit(*rows: Any) -> Any:
    vector = np.concatenate([np.asarray(row, np.float32) for row in rows])
    return vector / np.linalg.norm(vector)


def rows(text: str) -> Any:
    """The rows of a text's tokens, with those that the tokenizer adds."""
    return TABLE[[1, *(VOCABULARY[word] for word in text.split()), 2]]


@pytest.mark.requirement("EMBED-20")
def test_a_folder_with_minilm_gives_the_vectors_of_the_built_in_one(minilm: MiniLMEmbedder, tmp_path: Path) -> None:
    embedder = OnnxEmbedder(str(real_minilm(tmp_path / "MiniLM v2")))
    ours, theirs = embedder.embed(TURNS), minilm.embed(TURNS)
    assert ours.dtype == np.float32
    # Without known tokens both are zeros.
    assert [bool(row.any()) for row in ours] == [bool(row.any()) for row in theirs] == [True, True, False, False, True]
    known = theirs.any(axis=1)
    assert ((ours * theirs).sum(axis=1)[known] > 0.99).all()
    assert (embedder.embed_query(TURNS[0]) @ ours[0]) > 0.9999
    assert embedder.dims == 384
    graph = hashlib.sha256((tmp_path / "MiniLM v2" / "model.onnx").read_bytes()).hexdigest()
    assert re.fullmatch(rf"onnx:MiniLM-v2@{graph[:12]}-[0-9a-f]{{6}}", embedder.name)
    assert [isinstance(embedder, kind) for kind in (QueryEmbedder, TokenEmbedder)] == [True, False]


@pytest.mark.requirement("EMBED-20")
@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (MEAN, lambda all: unit(all.mean(axis=0))),
        ({"pooling_mode_cls_token": True}, lambda all: unit(all[0])),
        ({"pooling_mode_lasttoken": True}, lambda all: unit(all[-1])),
        ({"pooling_mode_max_tokens": True}, lambda all: unit(all.max(axis=0))),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, lambda all: unit(all.mean(axis=0))),
        ({"pooling_mode_weightedmean_tokens": True}, lambda all: unit(np.array([1, 2, 3, 4]) @ all)),
        (
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            lambda all: unit(all[0], all.mean(axis=0)),
        ),
        ({"pooling_mode": "cls"}, lambda all: unit(all[0])),
        (None, lambda all: unit(all.mean(axis=0))),
    ],
)
def test_tokens_are_pooled_as_the_folder_says(pooling: Any, expected: Callable[[Any], Any], tmp_path: Path) -> None:
    files: dict[str, Any] = {} if pooling is None else {"1_Pooling__config": pooling}
    (vector,) = OnnxEmbedder(str(tiny(tmp_path, **files))).embed(["cat dog"])
    assert np.allclose(vector, expected(rows("cat dog")), atol=1e-5)


@pytest.mark.requirement("EMBED-20")
@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
def test_the_graph_gets_the_inputs_that_it_names(kind: int, tmp_path: Path) -> None:
    inputs = {"input_ids": kind, "attention_mask": kind, "token_type_ids": kind}
    (vector,) = OnnxEmbedder(str(tiny(tmp_path, inputs=inputs))).embed(["cat dog"])
    assert np.allclose(vector, unit(rows("cat dog").mean(axis=0)), atol=1e-5)


@pytest.mark.requirement("EMBED-20")
def test_a_graph_that_pools_by_itself_is_trusted_even_with_modules_that_engram_does_not_have(tmp_path: Path) -> None:
    modules = [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]
    folder = tiny(tmp_path, output="sentence_embedding", graph_at="onnx/model.onnx", modules=modules)
    (vector,) = OnnxEmbedder(str(folder)).embed(["cat dog"])
    assert np.allclose(vector, unit(rows("cat dog").max(axis=0)), atol=1e-5)


@pytest.mark.requirement("EMBED-20")
def test_a_question_and_a_text_have_their_own_prefixes(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": None}
    embedder = OnnxEmbedder(str(tiny(tmp_path, config_sentence_transformers=prompts)))
    assert np.allclose(embedder.embed(["cat"])[0], unit(rows("passage : cat").mean(axis=0)), atol=1e-5)
    assert np.allclose(embedder.embed_query("cat"), unit(rows("query : cat").mean(axis=0)), atol=1e-5)
    # A prefix alone means nothing.
    assert not embedder.embed(["", "zebra"]).any()
    assert not embedder.embed_query("zebra").any()


@pytest.mark.requirement("EMBED-20")
def test_a_prefix_is_left_out_of_the_mean_if_the_folder_says_so(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "query: "}}
    pooling = {**MEAN, "include_prompt": False}
    files: dict[str, Any] = {"config_sentence_transformers": prompts, "1_Pooling__config": pooling}
    embedder = OnnxEmbedder(str(tiny(tmp_path, **files)))
    # The start token and the prefix are left out.
    assert np.allclose(embedder.embed_query("cat"), unit(rows("cat")[1:].mean(axis=0)), atol=1e-5)
    assert np.allclose(embedder.embed(["cat"])[0], unit(rows("cat").mean(axis=0)), atol=1e-5)


@pytest.mark.requirement("EMBED-20")
@pytest.mark.parametrize(
    "files",
    [
        {"sentence_bert_config": {"max_seq_length": 4, "do_lower_case": True}},
        {"tokenizer_config": {"model_max_length": 4}, "sentence_bert_config": {"do_lower_case": True}},
        {
            "tokenizer_config": {"model_max_length": 10**30},
            "config": {"max_position_embeddings": 6, "model_type": "xlm-roberta"},
            "sentence_bert_config": {"do_lower_case": True},
        },
    ],
)
def test_long_texts_are_cut_to_the_length_that_the_folder_states(files: Any, tmp_path: Path) -> None:
    embedder = OnnxEmbedder(str(tiny(tmp_path, **files)))
    assert np.allclose(embedder.embed(["CAT dog bird bird"])[0], unit(rows("cat dog").mean(axis=0)), atol=1e-5)


@pytest.mark.requirement("EMBED-1", "EMBED-20")
def test_a_text_has_the_same_vector_in_any_company(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(str(tiny(tmp_path)))
    texts = ["cat", "dog bird", "zebra", "bird " * 600, ""] * 3
    together = embedder.embed(texts)
    assert np.array_equal(together, np.concatenate([embedder.embed([text]) for text in texts]))
    assert embedder.embed([]).shape == (0, 3)


@pytest.mark.requirement("EMBED-21")
def test_the_name_stays_when_the_folder_moves_and_changes_when_the_vectors_would(tmp_path: Path) -> None:
    first = OnnxEmbedder(str(tiny(tmp_path / "first")))
    first.embed(["cat"])
    (tmp_path / "first").rename(tmp_path / "second")
    second = OnnxEmbedder(str(tmp_path / "second"))
    assert second.name == first.name
    second.embed(["cat"])
    assert catalogue.resolve(first.name) == f"onnx:{tmp_path / 'second'}"
    (tmp_path / "second" / "1_Pooling").mkdir()
    (tmp_path / "second" / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    assert OnnxEmbedder(str(tmp_path / "second")).name != first.name


@pytest.mark.requirement("EMBED-21")
def test_the_hash_of_a_large_file_is_computed_once_until_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one")
    assert folders.file_hash(str(file)) == hashlib.sha256(b"one").hexdigest()
    note = next(Path(components.root()).glob("*.json"))
    assert hashlib.sha256(b"one").hexdigest() in note.read_text()
    assert note.stat().st_mode & 0o077 == 0
    file.write_bytes(b"other")
    assert folders.file_hash(str(file)) == hashlib.sha256(b"other").hexdigest()
    note.write_text("[damaged")
    assert folders.file_hash(str(file)) == hashlib.sha256(b"other").hexdigest()


@pytest.mark.requirement("EMBED-22")
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: folder.rename(folder.with_name("elsewhere")), "There is no folder"),
        (lambda folder: (folder / "model.onnx").unlink(), "has no model.onnx"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer.json"),
        (lambda folder: (folder / "model.onnx").write_text("no graph"), "model.onnx is not a graph"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json is not a tokenizer"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda folder: (folder / "config.json").write_text("[]"), "config.json is not a JSON object"),
        (lambda folder: (folder / "modules.json").write_text('{"a": 1}'), "modules.json is not a list of modules"),
        (
            lambda folder: (folder / "modules.json").write_text('[{"type": "models.Dense", "path": "2_Dense"}]'),
            r"cannot run \(Dense\)",
        ),
        (
            lambda folder: (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": 7}}'),
            "no text for a prefix",
        ),
        (
            lambda folder: (folder / "config_sentence_transformers.json").write_text('{"default_prompt_name": ["a"]}'),
            "default_prompt_name",
        ),
        (lambda folder: os.mkfifo(folder / "modules.json"), "it is not a file"),
        (lambda folder: tiny(folder, **ATTENTION), "pools its tokens by"),
        (lambda folder: tiny(folder, inputs={"input_ids": 7, "pixel_values": 7}), "it wants pixel_values"),
    ],
)
def test_an_unusable_folder_is_refused_with_the_reason(
    spoil: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    folder = tiny(tmp_path / "model")
    spoil(folder)
    with pytest.raises(EmbedderFailed, match=reason):
        OnnxEmbedder(str(folder)).embed(["cat"])


@pytest.mark.requirement("EMBED-20")
@pytest.mark.usefixtures("nothing_loaded")
def test_a_folder_may_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tiny(tmp_path / "models" / "tiny")
    embedder = load("onnx:~/models/tiny")
    assert embedder is not None and embedder is load(f"onnx:{tmp_path}/models/tiny")


@pytest.mark.requirement("EMBED-21")
def test_only_the_files_of_its_weights_count_beside_the_graph(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "model")
    before = OnnxEmbedder(str(folder)).name
    for name in ("model.onnx.sha256", "model.onnx.bak", "model.onnx_data.json"):
        (folder / name).write_text("something else")
    (folder / "model.onnx.data").mkdir()
    os.mkfifo(folder / "model.onnx.d")
    os.mkfifo(folder / "model.onnx_data_2")
    assert OnnxEmbedder(str(folder)).name == before
    (folder / "model.onnx_data").write_text("weights")
    assert OnnxEmbedder(str(folder)).name != before


@pytest.mark.requirement("EMBED-21")
def test_a_model_is_used_while_another_process_installs(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "model")
    with components.locked():
        # A lock of another descriptor, as in another process.
        assert OnnxEmbedder(str(folder)).embed(["cat"]).any()
    assert folders.known() == []
