"""Answers a client's first requests while the SDK is still being imported.

Importing the SDK takes most of a second, and a harness waits for the handshake of every server that it starts. The
handshake and the lists of tools, resources and prompts are constants, so they are answered here: ten times sooner (see
docs/benchmarks.md). Both forms of the protocol are known: `initialize`, and since 2026-07-28 `server/discover` with an
envelope in each request. Unusual requests are left to the SDK, which also receives every `initialize`. A test compares
each answer with the SDK's own.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..._version import VERSION
from . import guide, tools

#: Versions that begin with `initialize`, and those that wrap each request in an envelope.
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPES = ("2026-07-28",)

_META = "io.modelcontextprotocol/"
_SERVER = {"name": guide.NAME, "title": guide.TITLE, "version": VERSION}
_CAPABILITIES = {
    "prompts": {"listChanged": False},
    "resources": {"subscribe": False, "listChanged": False},
    "tools": {"listChanged": False},
}
LISTS: dict[str, dict[str, object]] = {
    "tools/list": {"tools": tools.definitions()},
    "prompts/list": {"prompts": guide.PROMPTS},
    "resources/list": {"resources": guide.RESOURCES},
    "resources/templates/list": {"resourceTemplates": guide.TEMPLATES},
}
_DISCOVERED: dict[str, object] = {
    "supportedVersions": list(ENVELOPES),
    "capabilities": _CAPABILITIES,
    "instructions": guide.INSTRUCTIONS,
}
_ENVELOPED: dict[str, object] = {
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {f"{_META}serverInfo": _SERVER},
}


class Early(NamedTuple):
    """An answer, and whether the SDK must receive the request too."""

    id: int | str
    result: dict[str, object]
    shared: bool = False

    def line(self) -> bytes:
        message = {"jsonrpc": "2.0", "id": self.id, "result": self.result}
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class Receptionist:
    """Answers a client's first requests. None leaves a line to the SDK."""

    def __init__(self) -> None:
        #: How the client opened the conversation. The first request decides, as in the SDK.
        self._opened: str | None = None

    def answer(self, line: str) -> Early | None:
        try:
            message = json.loads(line)
        except ValueError:
            return None
        match message:
            case {"jsonrpc": "2.0", "id": int() | str() as id, "method": str(method), **rest} if not isinstance(
                id, bool
            ):
                return self._request(id, method, rest.get("params", {}))
        return None

    def _request(self, id: int | str, method: str, params: Any) -> Early | None:
        if self._opened is None:
            self._opened = method if method in ("initialize", "server/discover") else "otherwise"
            if method == "initialize" and _is_handshake(params):
                return Early(id, handshake(params["protocolVersion"]), shared=True)
        elif self._opened == "initialize" and method in LISTS and _asks_for_all(params):
            return Early(id, LISTS[method])
        if self._opened == "server/discover" and _is_envelope(params):
            listed = _DISCOVERED if method == "server/discover" else LISTS.get(method)
            return None if listed is None else Early(id, {**listed, **_ENVELOPED})
        return None


def handshake(version: str) -> dict[str, object]:
    return {
        "protocolVersion": version,
        "capabilities": _CAPABILITIES,
        "serverInfo": _SERVER,
        "instructions": guide.INSTRUCTIONS,
    }


def _is_handshake(params: object) -> bool:
    match params:
        case {"protocolVersion": str(version), "capabilities": dict(), "clientInfo": {"name": str(), "version": str()}}:
            return version in HANDSHAKES
    return False


def _asks_for_all(params: object) -> bool:
    """Whether there is no cursor. Codex sends a progress token with every request; it has no effect on a list."""
    match params:
        case {"_meta": {"progressToken": int() | str(), **other}, **rest}:
            return not other and not rest
    return not params


def _is_envelope(params: object) -> bool:
    match params:
        case {"_meta": dict(meta), **rest} if not rest:
            version, capabilities = (meta.get(_META + name) for name in ("protocolVersion", "clientCapabilities"))
            return version in ENVELOPES and isinstance(capabilities, dict)
    return False
