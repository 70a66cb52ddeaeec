"""The package that users install has everything in it, and works without the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """What a command prints. It sees nothing of the repository or of the user's own Engram."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ENGRAM_", "PYTHON", "XDG_"))}
    done = subprocess.run(
        command, cwd=folder, env=kept | {"HOME": str(folder)} | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, folder=ROOT)
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.requirement("PACKAGE-1")
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    source = ROOT / "src"
    there = {str(path.relative_to(source)) for path in (source / "engram").rglob("*") if path.is_file()}
    assert inside == {name for name in there if "__pycache__" not in name}
    # What is not Python is found by its path at run time, so nothing else would notice that it is missing.
    assert {".sql", ".css", ".js", ".woff2", ".svg", ".txt", ".typed"} <= {Path(name).suffix for name in inside}


@pytest.mark.requirement("PACKAGE-1")
def test_the_wheel_runs_the_demo_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Only the dependencies come from the environment of the tests, where they are installed already."""
    run(sys.executable, "-m", "venv", "--without-pip", "new", folder=tmp_path)
    python, commands = tmp_path / "new" / "bin" / "python", tmp_path / "new" / "bin"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install", "--quiet"),
        *("--no-deps", "--no-index", "--no-compile", wheel),
        folder=tmp_path,
    )
    (packages,) = (tmp_path / "new" / "lib").glob("python*/site-packages")
    # A path file inside that folder, such as that of an editable installation, has no effect here.
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    where = run(python, "-c", "import engram; print(engram.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(packages)
    assert "Porting the router" in run(commands / "engram", "demo", folder=tmp_path)
    assert "engram-hook" in run(commands / "engram-hook", "--help", folder=tmp_path)


@pytest.mark.requirement("PACKAGE-1")
def test_the_source_distribution_has_the_files_that_the_documents_name(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, folder=ROOT)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"deployment/{path.name}" for path in (ROOT / "deployment").iterdir()} <= inside
