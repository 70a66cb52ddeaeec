"""Desks for the clients, apart from the world: `make e2e` starts their tests in a network namespace of their own.

Without it nothing here is collected, so that `make test` needs neither the clients nor node, and asks no model.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.clients import CLIENTS, PROGRAMS, Desk
from tests.e2e.model import Model, Script, serving

collect_ignore = [
    *(["test_harnesses.py", "test_server.py", "test_thinkers.py"] if PROGRAMS is None else []),
    *(["test_endpoint.py"] if "ENGRAM_E2E_LLM" not in os.environ else []),
]

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


@pytest.fixture(scope="session")
def apart() -> None:
    """Nothing but loopback, and that is up: a client that is looked at must not be able to reach anything else."""
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    assert others == [], f"run these tests with `make e2e`; here {', '.join(others)} could be reached"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        found = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        _, flags = struct.unpack("16sh14x", found)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    path = tmp_path / "project" / "notes.txt"
    with serving(Model(Script(str(path), "hello\n", "Done: notes.txt says hello."))) as model:
        yield model


#: A desk for the client of that name, with Engram installed.
Sit = Callable[[str], Desk]


@pytest.fixture
def sit(tmp_path: Path, model: Model, apart: None) -> Sit:
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    desks: list[Desk] = []

    def sit(name: str) -> Desk:
        home = tmp_path / f"home-{len(desks)}"
        home.mkdir()
        desk = Desk(CLIENTS[name], home, project, str(tmp_path / "store" / "engram.db"), model.url)
        desk.client.settings(home, model.url)
        desk.engram("install", name)
        desks.append(desk)
        return desk

    return sit
