"""Reads how a model on disk wants its texts, from the files that sentence-transformers and transformers write.

Every file but the graph and the tokenizer may be missing; its values then have the defaults of sentence-transformers.
A file that is there and cannot be understood is an error, because a wrong pooling or prefix gives worse vectors and
nothing would show it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import EmbedderFailed
from .folders import GRAPHS, TOKENIZER, graph_in

#: The output of a graph that has one vector for a whole text.
SENTENCE = "sentence_embedding"
_POOLING_FOLDER = "1_Pooling"
_MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
#: How `1_Pooling/config.json` names each mode.
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
#: Modules that are applied here. Vectors always have unit length, so Normalize adds nothing.
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
#: The names that models give to the two prefixes.
_QUERY = ("query", "search_query", "retrieval.query", "s2p_query")
_DOCUMENT = ("document", "passage", "search_document", "retrieval.passage", "text")
_DEFAULT_TOKENS, _MOST_TOKENS = 512, 8_192
#: More than any prefix, and than any of these files.
_LONGEST_PREFIX, _LARGEST = 2_000, 8_000_000


class ModelFiles(NamedTuple):
    folder: str
    graph: str
    tokenizer: str
    #: Files beside the graph that hold its weights.
    weights: tuple[str, ...]
    pooling: tuple[str, ...]
    query_prefix: str
    document_prefix: str
    #: Whether the tokens of the prefix are pooled, too.
    pools_prefix: bool
    max_tokens: int
    lower_case: bool
    #: Modules that cannot be run here.
    unsupported: tuple[str, ...]

    @property
    def settings(self) -> tuple[object, ...]:
        """Everything read from the small files that changes a vector."""
        prefixes = (self.query_prefix, self.document_prefix, self.pools_prefix)
        return (self.pooling, *prefixes, self.max_tokens, self.lower_case)


def read(folder: str) -> ModelFiles:
    """The folder's model. EmbedderFailed says what is missing or wrong."""
    if not os.path.isdir(folder):
        raise EmbedderFailed(f"There is no folder {folder}. onnx:FOLDER needs one with model.onnx and tokenizer.json.")
    graph = graph_in(folder)
    if graph is None:
        raise EmbedderFailed(
            f"{folder} has no {' or '.join(GRAPHS)}. Export the model to ONNX, for example with `optimum-cli export "
            "onnx`."
        )
    tokenizer = os.path.join(folder, TOKENIZER)
    if not os.path.isfile(tokenizer):
        raise EmbedderFailed(
            f"{folder} has no {TOKENIZER}. Other forms of a tokenizer (vocab.txt, sentencepiece) are not read. "
            "transformers writes it: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    modules = _modules(folder)
    sentence = _object(folder, "sentence_bert_config.json")
    pooling_folder = next((path for kind, path in modules if kind == "Pooling"), _POOLING_FOLDER)
    pooling = _object(folder, os.path.join(pooling_folder, "config.json"))
    query, document = _prefixes(_object(folder, "config_sentence_transformers.json"), folder)
    return ModelFiles(
        folder,
        graph,
        tokenizer,
        _external_weights(graph),
        _pooling(pooling, folder),
        query,
        document,
        pooling.get("include_prompt") is not False,
        _max_tokens(sentence, _object(folder, "tokenizer_config.json"), _object(folder, "config.json")),
        sentence.get("do_lower_case") is True,
        tuple(kind for kind, _ in modules if kind not in _KNOWN_MODULES),
    )


def _external_weights(graph: str) -> tuple[str, ...]:
    """Large models keep their weights in files named like the graph: model.onnx_data, model.onnx.data.

    Several files are numbered: model.onnx_data_1. Anything else beside the graph, such as a checksum, is not its own.
    """
    folder, name = os.path.split(graph)
    named_like_it = [other for other in sorted(os.listdir(folder)) if other.startswith(name)]
    own = [other for other in named_like_it if re.fullmatch(r"[._]data(?:_\d+)?", other[len(name) :])]
    return tuple(filter(os.path.isfile, (os.path.join(folder, other) for other in own)))


def _modules(folder: str) -> list[tuple[str, str]]:
    """The kind and the folder of each module."""
    path = os.path.join(folder, "modules.json")
    listed = _json(path)
    if listed is None:
        return []
    try:
        return [(str(each["type"]).rpartition(".")[2], str(each.get("path", ""))) for each in listed]
    except (TypeError, LookupError, AttributeError):
        raise EmbedderFailed(f"{path} is not a list of modules.") from None


def _pooling(config: Mapping[str, Any], folder: str) -> tuple[str, ...]:
    named = config.get("pooling_mode")
    if named is not None:
        modes = [named] if isinstance(named, str) else list(named) if isinstance(named, list) else [str(named)]
    else:
        modes = [mode for switch, mode in _SWITCHES.items() if config.get(switch) is True]
        others = [switch for switch in config if switch.startswith("pooling_mode_") and switch not in _SWITCHES]
        modes += [switch for switch in others if config[switch]]
    strange = [mode for mode in modes if mode not in _MODES]
    if strange:
        raise EmbedderFailed(
            f"The model in {folder} pools its tokens by {', '.join(map(str, strange))}. "
            f"Engram knows {', '.join(_MODES)}."
        )
    return tuple(modes) or ("mean",)


def _prefixes(config: Mapping[str, Any], folder: str) -> tuple[str, str]:
    prompts = config.get("prompts")
    prompts = prompts if isinstance(prompts, dict) else {}
    named = config.get("default_prompt_name")
    if named is not None and not isinstance(named, str):
        raise EmbedderFailed(f"default_prompt_name in {folder}/config_sentence_transformers.json is not a name.")
    usual = prompts.get(named or "", "")
    query = next((prompts[name] for name in _QUERY if prompts.get(name) is not None), usual)
    document = next((prompts[name] for name in _DOCUMENT if prompts.get(name) is not None), usual)
    for prefix in (query, document):
        if not isinstance(prefix, str) or len(prefix) > _LONGEST_PREFIX:
            raise EmbedderFailed(f"A prompt in {folder}/config_sentence_transformers.json is no text for a prefix.")
    return query, document


def _max_tokens(sentence: Mapping[str, Any], tokenizer: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """The most tokens of a text, as sentence-transformers chooses it."""
    positions = _number(config.get("max_position_embeddings"))
    if positions and config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        # These count positions from 2.
        positions -= 2
    stated = _number(sentence.get("max_seq_length"))
    limits = [stated or _number(tokenizer.get("model_max_length")), positions]
    return max(min([limit for limit in limits if limit] or [_DEFAULT_TOKENS]), 1)


def _number(value: object) -> int | None:
    """A usable limit. Tokenizers without a limit state a huge number."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 2:
        return None
    return min(value, _MOST_TOKENS)


def _object(folder: str, name: str) -> Mapping[str, Any]:
    path = os.path.join(folder, name)
    content = _json(path)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise EmbedderFailed(f"{path} is not a JSON object.")
    return content


def _json(path: str) -> Any:
    """The content of a file; None if there is none."""
    if os.path.exists(path) and not os.path.isfile(path):
        # Opening a pipe would wait for a writer.
        raise EmbedderFailed(f"{path} cannot be read: it is not a file.")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST)
        return json.loads(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise EmbedderFailed(f"{path} cannot be read: {error}") from error
