"""Which embedders there are, which of them can be used here, and which one a workspace needs.

Every command that may embed asks this module, so it imports no model and no numpy: it looks for packages and files.

`auto` means: the model of the workspace's vectors, and for a new workspace the best embedder that is installed and
costs nothing. It never chooses `openai` or `onnx:FOLDER` by itself, but a workspace that has such a model keeps it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..errors import EmbedderFailed
from ..safe_text import one_line
from . import cache, components, folders

AUTO = "auto"
STATIC_MODEL = "static:l2_supercat_256"
MINILM_MODEL = "minilm:all-MiniLM-L6-v2"
MINILM_PACKAGE = components.COMPONENTS[components.MINILM].package
MINILM_COMMAND = "engram embedder use minilm"
MINILM_WEIGHTS = "model.safetensors"
MINILM_TOKENIZER = "tokenizer.json"
#: The official files of sentence-transformers/all-MiniLM-L6-v2: their hashes, and their sizes in bytes.
MINILM_SHA256 = {
    MINILM_WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    MINILM_TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_MINILM_BYTES = {MINILM_WEIGHTS: 90_868_376, MINILM_TOKENIZER: 466_247}
#: The name of the graph that is built from the weights. Raise the version when `onnx_graph.py` builds another graph.
_MINILM_GRAPH_VERSION = 1
MINILM_GRAPH = f"minilm-{MINILM_SHA256[MINILM_WEIGHTS][:16]}-v{_MINILM_GRAPH_VERSION}"


class Description(NamedTuple):
    """An embedder for people who choose one."""

    name: str
    what: str
    #: How many of a hundred paraphrases it finds (docs/benchmarks.md); None if that was not measured.
    paraphrases: int | None
    #: The components that it needs besides a plain install.
    components: tuple[str, ...]
    #: Milliseconds to embed a short text on a processor; None if that depends on the model or the server.
    milliseconds: float | None


#: The better ones last.
DESCRIPTIONS = (
    Description("static", "a table of word vectors: fast, needs no network, misses most paraphrases", 32, (), 0.1),
    Description(
        "minilm",
        "all-MiniLM-L6-v2, a small language model on this machine: finds paraphrases, English",
        91,
        (components.ONNXRUNTIME, components.MINILM),
        8.0,
    ),
    Description(
        "openai",
        "a model on a server with OpenAI's protocol (openai:MODEL names one): texts leave this machine, costs money",
        None,
        (components.OPENAI,),
        None,
    ),
    Description(
        "onnx:FOLDER",
        "any sentence-embedding model on disk: model.onnx and tokenizer.json in a folder",
        None,
        (components.ONNXRUNTIME,),
        None,
    ),
)


def described(choice: str) -> Description:
    """The description of a concrete choice."""
    provider, _, rest = choice.partition(":")
    found = next(each for each in DESCRIPTIONS if each.name.partition(":")[0] == provider)
    if provider == "onnx" and choice != found.name:
        found = found._replace(what="a sentence-embedding model on disk")
    return found._replace(name=choice) if rest else found


def command(choice: str) -> str:
    """What to type to give the workspace this embedder."""
    import shlex

    return f"engram embedder use {shlex.quote(choice)}"


def best() -> str:
    """The best embedder that is installed and costs nothing."""
    return "minilm" if is_installed("minilm") else "static"


def is_installed(choice: str) -> bool:
    """Whether this process could load it, as far as packages and files tell."""
    provider, _, rest = choice.partition(":")
    if provider == "static":
        return not components.missing("wordllama", "tokenizers")
    if provider == "minilm":
        return not components.missing("onnxruntime", "tokenizers") and _has_minilm_files()
    if provider == "openai":
        return not components.missing("openai")
    return not components.missing("onnxruntime", "tokenizers") and folders.has_model(rest)


def _has_minilm_files() -> bool:
    """Whether the model's files have the official sizes, and the graph exists or can be built from them.

    Hashes are compared when the model is loaded. Comparing them here would read 90 MB for every command.
    """
    if not any(map(_has_official_sizes, components.package_folders(MINILM_PACKAGE))):
        return False
    kept = (components.place(components.MINILM), cache.folder())
    return not components.missing("onnx") or any(cache.has(MINILM_GRAPH, where) for where in kept)


def minilm_folder() -> str | None:
    """The folder of MiniLM's weights. A package with files of other sizes is used only if there is no other."""
    found = components.package_folders(MINILM_PACKAGE)
    return next(filter(_has_official_sizes, found), found[0] if found else None)


def _has_official_sizes(package: str) -> bool:
    paths = {os.path.join(package, "model", name): size for name, size in _MINILM_BYTES.items()}
    return all(os.path.isfile(path) and os.path.getsize(path) == size for path, size in paths.items())


def needed(choice: str) -> list[str]:
    """The components to install before this process can load it."""
    if is_installed(choice):
        return []
    wanted = described(choice).components
    lacking = [name for name in wanted if components.missing(components.COMPONENTS[name].package)]
    if choice == "minilm" and components.MINILM not in lacking and not _has_minilm_files():
        # The weights are there, but not the graph, or they are damaged. The component brings both.
        lacking.append(components.MINILM)
    return lacking


def resolve(model: str | None) -> str:
    """The embedder for a workspace whose vectors are of this model. Without vectors: the best that is installed."""
    if model is None:
        return best()
    choice = choice_of(model)
    if choice is None:
        raise EmbedderFailed(_unknown(model))
    provider, _, folder = choice.partition(":")
    if provider == "onnx" and not folders.has_model(folder):
        raise EmbedderFailed(
            f"The workspace's vectors are of {one_line(model, 100)}, and {folder} does not have that model any more. "
            "If you have moved it, type: engram embedder use onnx:FOLDER"
        )
    return choice


def choice_of(model: str) -> str | None:
    """The embedder that makes vectors of a model; None if this machine does not know it."""
    if model == STATIC_MODEL:
        return "static"
    if model == MINILM_MODEL:
        return "minilm"
    if model.startswith("openai:"):
        return model
    if model.startswith("onnx:"):
        folder = folders.folder_of(model)
        return None if folder is None else f"onnx:{folder}"
    return None


def _unknown(model: str) -> str:
    shown = one_line(model, 100)
    if model.startswith("onnx:"):
        return (
            f"The workspace's vectors are of {shown}, and this machine does not know that model's folder. Get the same "
            "model and type: engram embedder use onnx:FOLDER"
        )
    return (
        f"The workspace's vectors are of {shown}, which is no model of this version of Engram. If it is an object "
        "that a program gives to Engram, only that program can use them. If it is a newer model of Engram, upgrade. To "
        "choose another model, type: engram embedder list"
    )
