"""Providers on scripted servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import NamedTuple

import pytest

from engram.llm import Provider, Usage, load

from ._server import KEY, Script, Server, anthropic_says, openai_says


class Refused(Exception):
    """What a cap raises."""


class Ledger:
    """A meter that writes everything down, and allows only so many calls."""

    def __init__(self) -> None:
        self.expected: list[Usage] = []
        self.spent: list[Usage] = []
        self.cap = 1_000

    def before(self, expected: Usage) -> None:
        assert len(self.expected) == len(self.spent), "a call began before the last one was accounted for"
        if len(self.expected) == self.cap:
            raise Refused
        self.expected.append(expected)

    def after(self, spent: Usage) -> None:
        self.spent.append(spent)


class Setup(NamedTuple):
    """One provider with everything around it."""

    provider: Provider
    server: Server
    says: Callable[..., Script]
    ledger: Ledger
    #: How long it waited, each time.
    waits: list[float]
    name: str


SAYS: dict[str, Callable[..., Script]] = {"openai": openai_says, "anthropic": anthropic_says}


@pytest.fixture(params=sorted(SAYS))
def setup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    """Each of the two providers in turn, with a server of its own."""
    yield from _setup(request.param, monkeypatch)


@pytest.fixture
def openai_setup(monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    yield from _setup("openai", monkeypatch)


@pytest.fixture
def anthropic_setup(monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    yield from _setup("anthropic", monkeypatch)


def _setup(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    if find_spec(name) is None:
        pytest.skip(f"the package {name} is not installed")
    says = SAYS[name]
    server = Server(says("fine"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    ledger = Ledger()
    waits: list[float] = []
    base_url = f"{server.url}/v1" if name == "openai" else server.url
    provider = load(f"{name}:some-model", base_url=base_url, timeout=30, meter=ledger, sleep=waits.append)
    assert provider is not None
    yield Setup(provider, server, says, ledger, waits, name)
    server.close()
