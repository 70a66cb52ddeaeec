"""A home folder as somebody has it who works with all four agents: programs, settings and transcripts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

AGENTS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "cursor": "cursor-agent"}
#: What a person has in their settings already. It has to stay.
SETTINGS = {
    ".claude/settings.json": '{\n  "model": "opus"\n}\n',
    ".codex/config.toml": '# mine\nmodel = "gpt-5"\n',
    ".gemini/settings.json": '{\n  // mine\n  "theme": "dark"\n}\n',
    ".cursor/mcp.json": '{\n  "mcpServers": {}\n}\n',
}
#: The latest session of all.
ASK = "Move the payment webhooks to the new queue"
RESULT = "The payment webhooks now go through the new queue, and all 41 tests pass."
#: What each agent was asked, and what came of it, in the order of time.
TALKS = {
    "cursor": ("Why does the invoice page load so slowly?", "The invoice page loads every line item; it now loads 50."),
    "gemini": ("Write the release notes for version 2.4", "I wrote the release notes for 2.4 into CHANGELOG.md."),
    "codex": ("Fix the flaky test of the currency rounding", "Fixed the rounding test: it compared floats. It passes."),
    "claude-code": (ASK, RESULT),
}


def make_home(home: Path, *, programs: Path | None = None) -> None:
    """Fill the folder; with `programs`, put a program of each agent there."""
    for name, text in SETTINGS.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    claude_code(home, "11111111-0000-4000-8000-000000000001", *TALKS["claude-code"])
    codex(home, *TALKS["codex"])
    gemini(home, *TALKS["gemini"])
    cursor(home, *TALKS["cursor"])
    if programs is not None:
        make_programs(programs)


def make_programs(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in AGENTS.values():
        program = folder / name
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)


def claude_code(home: Path, session: str, ask: str, result: str, *, day: str = "2026-03-04") -> Path:
    common = {"sessionId": session, "cwd": "/nowhere/shop", "isSidechain": False}
    entries: list[dict[str, Any]] = [
        {**common, "type": "user", "uuid": f"{session}-1", "timestamp": f"{day}T10:00:00.000Z"}
        | {"message": {"role": "user", "content": ask}},
        {**common, "type": "assistant", "uuid": f"{session}-2", "timestamp": f"{day}T10:05:00.000Z"}
        | {"message": {"role": "assistant", "content": [{"type": "text", "text": result}]}},
    ]
    return _written(home / ".claude" / "projects" / "-nowhere-shop" / f"{session}.jsonl", entries, day)


def codex(home: Path, ask: str, result: str) -> Path:
    day, id = "2026-03-03", "019f0000-0000-7000-8000-000000000001"

    def line(kind: str, minute: int, **payload: Any) -> dict[str, Any]:
        return {"timestamp": f"{day}T10:{minute:02}:00.000Z", "type": kind, "payload": payload}

    def message(role: str, type: str, text: str, minute: int) -> dict[str, Any]:
        content = [{"type": type, "text": text}]
        return line("response_item", minute, type="message", role=role, content=content)

    entries = [
        line("session_meta", 0, id=id, cwd="/nowhere/shop", timestamp=f"{day}T10:00:00Z"),
        message("user", "input_text", ask, 1),
        line("event_msg", 1, type="user_message", message=ask),
        message("assistant", "output_text", result, 5),
        line("event_msg", 5, type="task_complete"),
    ]
    return _written(home / ".codex/sessions/2026/03/03" / f"rollout-2026-03-03T10-00-00-{id}.jsonl", entries, day)


def gemini(home: Path, ask: str, result: str) -> Path:
    day, id = "2026-03-02", "5d3a9c1e-7b2f-4e8a-9c6d-1f0e2d3c4b5a"
    folder = home / ".gemini" / "tmp" / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".project_root").write_text("/nowhere/shop\n")
    said = {"user": [{"text": ask}], "gemini": result}
    entries: list[dict[str, Any]] = [
        {"sessionId": id, "projectHash": "x", "startTime": f"{day}T10:00:00.000Z", "kind": "main"},
        *(
            {"id": role, "timestamp": f"{day}T10:0{number}:00.000Z", "type": role, "content": content}
            for number, (role, content) in enumerate(said.items(), 1)
        ),
    ]
    return _written(folder / "chats" / f"session-2026-03-02T10-00-{id[:8]}.jsonl", entries, day)


def cursor(home: Path, ask: str, result: str) -> Path:
    id = "439110c7-f2a6-484a-bfa2-b1b10d6b8703"
    said = (("user", f"<user_query>\n{ask}\n</user_query>"), ("assistant", result))
    entries = [{"role": role, "message": {"content": [{"type": "text", "text": text}]}} for role, text in said]
    path = home / ".cursor" / "projects" / "nowhere-shop" / "agent-transcripts" / id / f"{id}.jsonl"
    return _written(path, entries, "2026-03-01")


def _written(path: Path, entries: list[dict[str, Any]], day: str) -> Path:
    from datetime import datetime

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    at = datetime.fromisoformat(f"{day}T10:05:00+00:00").timestamp()
    os.utime(path, (at, at))
    return path
