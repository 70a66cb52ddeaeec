"""Replays the coding sessions (`coding/dev.jsonl`) through the hooks, at the times at which they happened.

Each session starts, gets its prompts, writes its transcript, edits files, stops and ends, as Claude Code reports it.
The hooks run in this process, with a clock that is set to the time of each turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any, NamedTuple

from engram import Engram
from engram.clock import Clock
from engram.interfaces.hooks import claude_code
from engram.interfaces.hooks.events import Answer
from engram.interfaces.hooks.handlers import handle

#: Tools of the sessions that write a file.
WRITING = ("Write", "Edit", "MultiEdit", "NotebookEdit")


class Turn(NamedTuple):
    session: str
    number: int
    role: str
    text: str
    at: str
    #: Names of tools, each perhaps with a path.
    tools: list[str]


def sessions(path: Path) -> list[dict[str, Any]]:
    """The sessions, in the order in which they began."""
    with path.open() as file:
        return sorted((json.loads(line) for line in file), key=lambda session: str(session["started"]))


def turns(session: dict[str, Any]) -> Iterator[Turn]:
    at = session["started"]
    for number, turn in enumerate(session["turns"]):
        # Some times have a space in place of the T, which sorts before it.
        at = max(at, (turn.get("at") or at).replace(" ", "T"))
        yield Turn(session["id"], number, turn["role"], turn["text"], at, turn.get("tools") or [])


class Replay:
    """A store that sessions are replayed into. `folder` holds their transcripts."""

    def __init__(self, eng: Engram, clock: Clock, folder: Path, project: Path) -> None:
        self.eng = eng
        self.clock = clock
        self.folder = folder
        self.project = project

    def session(
        self,
        session: dict[str, Any],
        on_prompt: Callable[[Turn, str], None] = lambda turn, context: None,
        on_start: Callable[[str], None] = lambda context: None,
    ) -> None:
        """Replay one session; the callbacks get what the hooks inject."""
        transcript = self.folder / f"{session['id']}.jsonl"
        self._set(session["started"])
        on_start(self._event(session["id"], "SessionStart", source="startup"))
        spoken = False
        with transcript.open("w") as record:
            for turn in turns(session):
                self._set(turn.at)
                if turn.role == "user" and spoken:
                    self._event(turn.session, "Stop", transcript_path=str(transcript))
                    spoken = False
                if turn.role == "user":
                    on_prompt(turn, self._event(turn.session, "UserPromptSubmit", prompt=turn.text))
                record.write(json.dumps(_entry(turn)) + "\n")
                record.flush()
                spoken = spoken or turn.role == "assistant"
                for tool in turn.tools:
                    self._tool(turn, tool)
            if spoken:
                self._event(session["id"], "Stop", transcript_path=str(transcript))
            self._event(session["id"], "SessionEnd", reason="exit", transcript_path=str(transcript))

    def stored(self, session: dict[str, Any]) -> dict[int, int]:
        """The turn number of each stored turn of a session, by exchange id."""
        known = self.eng.sessions.find(session["id"], "claude-code")
        assert known is not None
        found: dict[int, int] = {}
        said = list(turns(session))
        for exchange in self.eng.exchanges.history(known.id):
            start = _plain(exchange.content)[:80]
            # Texts are cut and cleaned when they are recorded, so their beginnings are compared.
            match = [turn for turn in said if turn.role == exchange.role and start in _plain(turn.text)]
            if match:
                found[exchange.id] = match[0].number
                said = [turn for turn in said if turn.number != match[0].number]
        return found

    def _tool(self, turn: Turn, tool: str) -> None:
        name, _, path = tool.partition(" ")
        path = path if "." in path and " " not in path else ""  # the sessions have other words there, too
        payload = {"tool_name": name, "tool_input": {"file_path": path} if path else {}}
        if name in WRITING:
            self._event(turn.session, "PreToolUse", **payload)
        self._event(turn.session, "PostToolUse", **payload)

    def _event(self, session: str, name: str, **payload: object) -> str:
        event = claude_code.read({"hook_event_name": name, "session_id": session, "cwd": str(self.project), **payload})
        answers: list[Answer] = []
        if event is not None:
            handle(self.eng, event, "claude-code", answers.append, lambda: False)
        return answers[0].context if answers else ""

    def _set(self, at: str) -> None:
        self.clock.shift = datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() - time()


def _entry(turn: Turn) -> dict[str, object]:
    """A turn as Claude Code writes it into its transcript."""
    tools = [{"type": "tool_use", "id": "t", "name": tool.partition(" ")[0], "input": {}} for tool in turn.tools]
    content: object = turn.text if turn.role == "user" else [{"type": "text", "text": turn.text}, *tools]
    return {
        "type": turn.role,
        "uuid": f"{turn.session}/{turn.number}",
        "sessionId": turn.session,
        "timestamp": turn.at,
        "isSidechain": False,
        "message": {"role": turn.role, "content": content},
    }


def _plain(text: str) -> str:
    return " ".join(text.split())
