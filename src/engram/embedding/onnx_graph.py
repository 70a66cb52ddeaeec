"""all-MiniLM-L6-v2 as an ONNX graph in 8-bit integers, built from the published weights.

The usual dynamic quantisation has one scale for a whole batch of activations. A text's vector then depends on the other
texts of its batch, and one outlier lowers the precision of all of them: cosine to the full model 0.991 on average and
0.971 at worst over the turns of a conversation. Here every token has its own scale: 0.996 and 0.993, in a tenth more
time. A single word reaches about 0.97, because there are no other tokens to average its rounding error.

The graph takes one text. Texts of different lengths need padding to share a batch. On a CPU the padding costs what the
batch gains, and a batch of 64 long texts needs more than a gigabyte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Floats = npt.NDArray[np.float32]

_DIMS = 384
_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
#: onnxruntime's own operators, which combine several steps: attention, quantised products, sums with normalisation.
_FUSED = "com.microsoft"
#: Processors without VNNI add pairs of products in 16 bits. Weights of 7 bits never overflow there, so all machines
#: that share a store compute the same vector for a text.
_WEIGHT_LEVELS = 64
_ACTIVATION_LEVELS = 127
_ACTIVATION_ZERO = 128
_ZEROS = "zeros"


def build(weights: Mapping[str, Floats], max_tokens: int) -> bytes:
    """The serialised graph: `input_ids` (1, at most max_tokens) to `hidden` (1, tokens, 384)."""
    graph = _Graph(weights)
    graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    # The operator that quantises takes one zero point per token.
    graph.head(np.full(max_tokens, _ACTIVATION_ZERO, np.uint8), _ZEROS)
    hidden = _embeddings(graph, max_tokens)
    for layer in range(_LAYERS):
        hidden = _layer(graph, hidden, f"encoder.layer.{layer}")
    graph.node("Identity", [hidden], "hidden")
    return graph.serialised()


class _Graph:
    """Collects nodes and constants. Every method returns the name of what it added."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def weight(self, name: str) -> Floats:
        return self._weights[name]

    def constant(self, name: str, value: Array) -> str:
        self._constants.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def parameter(self, name: str) -> str:
        return self.constant(name, self._weights[name])

    def node(self, operator: str, inputs: Sequence[str], name: str, domain: str = "", **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def head(self, longest: Array, name: str) -> str:
        """The first rows of a constant, one per token of the text."""
        start = self.constant("start", np.array([0]))
        return self.node("Slice", [self.constant(f"{name}.longest", longest), start, "length", start], name)

    def split(self, value: str, names: Sequence[str]) -> Sequence[str]:
        self._nodes.append(helper.make_node("Split", [value], names, axis=-1, num_outputs=len(names)))
        return names

    def serialised(self) -> bytes:
        graph = helper.make_graph(
            self._nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, [1, "tokens"])],
            [helper.make_tensor_value_info("hidden", onnx.TensorProto.FLOAT, [1, "tokens", _DIMS])],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_FUSED, 1)]
        serialised: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        return serialised


def _embeddings(graph: _Graph, max_tokens: int) -> str:
    """Words (8 bits, one scale each) plus positions, normalised. All tokens have the first type."""
    levels, scales = _quantised(graph.weight("embeddings.word_embeddings.weight"), _ACTIVATION_LEVELS)
    found = graph.node("Gather", [graph.constant("words", levels), "input_ids"], "found")
    floats = graph.node("Cast", [found], "floats", to=onnx.TensorProto.FLOAT)
    found_scales = graph.node("Gather", [graph.constant("word_scales", scales[:, None]), "input_ids"], "found_scales")
    words = graph.node("Mul", [floats, found_scales], "scaled_words")
    places = graph.weight("embeddings.position_embeddings.weight")[:max_tokens]
    first_type = graph.weight("embeddings.token_type_embeddings.weight")[0]
    return graph.node(
        "SkipLayerNormalization",
        [
            words,
            graph.head(places + first_type, "positions"),
            graph.parameter("embeddings.LayerNorm.weight"),
            graph.parameter("embeddings.LayerNorm.bias"),
        ],
        "embeddings",
        _FUSED,
        epsilon=_EPSILON,
    )


def _layer(graph: _Graph, hidden: str, name: str) -> str:
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([graph.weight(f"{part}.weight") for part in parts])
    bias = np.concatenate([graph.weight(f"{part}.bias") for part in parts])
    views = graph.split(_product(graph, hidden, weight, f"{name}.attention.self"), parts)
    attended = graph.node(
        "MultiHeadAttention",
        [*views, graph.constant(f"{name}.attention.self.bias", bias)],
        f"{name}.attended",
        _FUSED,
        num_heads=_HEADS,
    )
    hidden = _back(graph, hidden, attended, f"{name}.attention.output")
    inner = f"{name}.intermediate.dense"
    wide = _product(graph, hidden, graph.weight(f"{inner}.weight"), inner)
    active = graph.node("BiasGelu", [wide, graph.parameter(f"{inner}.bias")], f"{inner}.active", _FUSED)
    return _back(graph, hidden, active, f"{name}.output")


def _back(graph: _Graph, before: str, value: str, name: str) -> str:
    """The block's result, projected to the model's width, added to the block's input and normalised."""
    dense = f"{name}.dense"
    return graph.node(
        "SkipLayerNormalization",
        [
            before,
            _product(graph, value, graph.weight(f"{dense}.weight"), dense),
            graph.parameter(f"{name}.LayerNorm.weight"),
            graph.parameter(f"{name}.LayerNorm.bias"),
            graph.parameter(f"{dense}.bias"),
        ],
        f"{name}.normal",
        _FUSED,
        epsilon=_EPSILON,
    )


def _product(graph: _Graph, value: str, weight: Floats, name: str) -> str:
    """value · weightᵀ in integers, with a scale per token of the value and per row of the weight."""
    axes = graph.constant("all_but_tokens", np.array([0, 2]))
    largest = graph.node("ReduceMax", [graph.node("Abs", [value], f"{name}.abs"), axes], f"{name}.largest", keepdims=0)
    level = graph.constant("activation_level", np.array(1 / _ACTIVATION_LEVELS, np.float32))
    scales = graph.node("Mul", [largest, level], f"{name}.scales")
    integers = graph.node("QuantizeLinear", [value, scales, _ZEROS], f"{name}.integers", axis=1)
    levels, weight_scales = _quantised(weight, _WEIGHT_LEVELS)
    product = graph.node(
        "MatMulIntegerToFloat",
        [
            integers,
            graph.constant(f"{name}.levels", levels.T),
            graph.constant("one", np.array(1, np.float32)),
            graph.constant(f"{name}.weight_scales", weight_scales),
            graph.constant("activation_zero", np.array(_ACTIVATION_ZERO, np.uint8)),
        ],
        f"{name}.unscaled",
        _FUSED,
    )
    columns = graph.node("Unsqueeze", [scales, graph.constant("last_axis", np.array([1]))], f"{name}.columns")
    return graph.node("Mul", [product, columns], f"{name}.product")


def _quantised(rows: Floats, levels: int) -> tuple[npt.NDArray[np.int8], Floats]:
    """Each row as whole numbers up to ±levels, and the scale of each row."""
    scales = (np.abs(rows).max(axis=1) / levels).astype(np.float32)
    return np.rint(rows / scales[:, None]).astype(np.int8), scales
