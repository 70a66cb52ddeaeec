"""How each harness's real client is started: without a person, against the scripted model, in a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

#: The folder with the clients' programs; `make e2e` names it.
PROGRAMS = os.environ.get("ENGRAM_E2E_CLIENTS")

ENGRAM = str(Path(sys.executable).with_name("engram"))

#: Long enough for a slow machine; a client that hangs fails the test instead of stopping it.
PATIENCE = 120


class Client(NamedTuple):
    name: str
    program: str
    #: Settings without which it would ask a person something, written before Engram is installed.
    settings: Callable[[Path, str], None]
    #: Its arguments for one prompt.
    arguments: Callable[[str], list[str]]
    #: What it needs in its environment, given the model's address.
    environment: Callable[[str], dict[str, str]]


def _no_settings(home: Path, url: str) -> None:
    (home / ".claude").mkdir()


def _codex_settings(home: Path, url: str) -> None:
    folder = home / ".codex"
    folder.mkdir()
    # A model that Codex knows to have the tool for patches; any other is offered a shell only.
    (folder / "config.toml").write_text(f"""\
model = "gpt-5.5"
model_provider = "scripted"

[model_providers.scripted]  # on loopback
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
""")


def _gemini_settings(home: Path, url: str) -> None:
    folder = home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text("""\
{
  // no browser
  "security": {"auth": {"selectedType": "gemini-api-key"}}
}
""")


CLIENTS = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "claude",
            _no_settings,
            lambda prompt: ["--print", prompt, "--permission-mode", "acceptEdits", "--allowedTools", "mcp__engram"],
            lambda url: {
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "made-up",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        ),
        Client(
            "codex",
            "codex",
            _codex_settings,
            # A person reviews hooks once, with /hooks; nobody is here who could.
            lambda prompt: [
                "exec",
                "--dangerously-bypass-hook-trust",
                "--dangerously-bypass-approvals-and-sandbox",
                prompt,
            ],
            lambda url: {"SCRIPTED_KEY": "made-up"},
        ),
        Client(
            "gemini",
            "gemini",
            _gemini_settings,
            lambda prompt: ["--prompt", prompt, "--approval-mode", "yolo", "--model", "gemini-2.5-flash"],
            lambda url: {
                "GOOGLE_GEMINI_BASE_URL": url,
                "GEMINI_API_KEY": "made-up",
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            },
        ),
    )
}


class Desk(NamedTuple):
    """One client with a home folder, a project to work in, and the store that all desks share."""

    client: Client
    home: Path
    project: Path
    store: str
    url: str

    def engram(self, *arguments: str, **more: str) -> str:
        """Run Engram's own command line, as the person at this desk would. `more` are variables."""
        return self._run([ENGRAM, *arguments], **more)

    def run(self, *arguments: str) -> str:
        """Run a command of the client, such as `claude mcp list`."""
        return self._run([self.program, *arguments])

    def prompt(self, text: str, **more: str) -> str:
        """One prompt to the client, from its start to its end; what it printed. `more` are variables."""
        return self._run([self.program, *self.client.arguments(text)], **more)

    @property
    def program(self) -> str:
        assert PROGRAMS is not None
        return os.path.join(PROGRAMS, self.client.program)

    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "TERM": "dumb",
            "ENGRAM_URL": self.store,
            "ENGRAM_EMBEDDER": "static",
            "ENGRAM_AUTO_DREAM": "off",
            **self.client.environment(self.url),
        }

    def _run(self, command: list[str], **more: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment() | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout
